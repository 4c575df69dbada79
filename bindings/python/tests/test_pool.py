"""Tasks and their results: each comes once, to the one who asked, well or not."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import os
import pathlib
import random
import threading
import time
import weakref
from typing import Any

import millpond
import pytest

PATIENCE = 60.0


def test_a_result_comes_back_as_it_was_sent(pool: millpond.Pool) -> None:
    args = {"text": "grüße 😀 \0\n\"", "list": [1, 2.5, None, []], "nested": {"a": {}}, "yes": True, "big": 2**63}
    assert pool.submit("echo", **args).result(PATIENCE) == args


def test_a_large_result_is_whole(pool: millpond.Pool) -> None:
    texts = ["0123456789abcdef" * 8_000] * 6
    assert pool.submit("echo", texts=texts).result(PATIENCE)["texts"] == texts
    with pytest.raises(millpond.Error) as caught:
        pool.submit("echo", text="x" * (2 << 20)).result(PATIENCE)
    assert caught.value.code == millpond.Code.TOO_LARGE


def test_a_request_may_say_all_that_requests_say(pool: millpond.Pool) -> None:
    request = {"handler": "echo", "args": {"n": 1}, "priority": "high", "timeout_ms": 60_000, "retries": 1}
    assert pool.submit_request(request).result(PATIENCE) == {"n": 1}
    with pytest.raises(millpond.Error, match="handlr") as caught:
        pool.submit_request({"handlr": "echo"}).result(PATIENCE)
    assert caught.value.code == millpond.Code.INVALID_REQUEST


def test_thousands_of_tasks_end_once_each_with_their_own_result(pool: millpond.Pool) -> None:
    count, ends = 10_000, [0] * 10_000

    def ended(n: int, task: concurrent.futures.Future[Any]) -> None:
        assert task.result() == {"n": n}
        ends[n] += 1

    tasks = []
    for n in range(count):
        task = pool.submit("echo", n=n)
        task.add_done_callback(functools.partial(ended, n))
        tasks.append(task)
    assert [task.result(PATIENCE)["n"] for task in tasks] == list(range(count))
    # The pool's own thread runs callbacks after it wakes those who wait: it has done so when it ends the next task.
    pool.submit("echo").result(PATIENCE)
    assert ends == [1] * count


def test_many_threads_share_a_pool(pool: millpond.Pool) -> None:
    def work(thread: int) -> list[Any]:
        return [pool.submit("echo", thread=thread, n=n).result(PATIENCE) for n in range(200)]

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for thread, results in enumerate(threads.map(work, range(8))):
            assert results == [{"thread": thread, "n": n} for n in range(200)]


def test_a_handler_says_why_it_failed(pool: millpond.Pool) -> None:
    task = pool.submit("fail", code="bad-arguments", message="no such täble")
    with pytest.raises(millpond.Error, match="no such täble") as caught:
        task.result(PATIENCE)
    assert caught.value.code == millpond.Code.BAD_ARGUMENTS and caught.value.name == "bad-arguments"
    assert task.done() and not task.cancelled() and isinstance(task.exception(), millpond.Error)


def test_what_is_refused_is_refused_with_a_reason(pool: millpond.Pool) -> None:
    refused: list[tuple[dict[str, Any], millpond.Code]] = [
        ({"handler": "no-such-handler"}, millpond.Code.UNKNOWN_HANDLER),
        ({"handler": "echo", "args": [1]}, millpond.Code.INVALID_REQUEST),
        ({"opcode": 99_999}, millpond.Code.UNKNOWN_HANDLER),
        ({}, millpond.Code.INVALID_REQUEST),
    ]
    for request, code in refused:
        with pytest.raises(millpond.Error) as caught:
            pool.submit_request(request).result(PATIENCE)
        assert caught.value.code == code and caught.value.message
    with pytest.raises(TypeError):
        pool.submit("echo", object=object())
    with pytest.raises(ValueError):
        pool.submit("echo", number=float("nan"))


def test_waiting_has_a_limit(pool: millpond.Pool) -> None:
    task = pool.submit("sleep", ms=3_600_000)
    with pytest.raises(concurrent.futures.TimeoutError):
        task.result(0.01)
    assert not task.done() and "under way" in repr(task)
    assert task.cancel()


def test_a_cancelled_task_says_so_to_everybody(pool: millpond.Pool) -> None:
    task, heard = pool.submit("sleep", ms=3_600_000), threading.Event()
    task.add_done_callback(lambda _: heard.set())
    assert task.cancel() and task.cancel() and task.cancelled() and task.done()
    assert heard.wait(PATIENCE)
    with pytest.raises(concurrent.futures.CancelledError):
        task.result(PATIENCE)
    assert concurrent.futures.wait([task], PATIENCE).done == {task}


def test_a_task_that_has_ended_cannot_be_cancelled(pool: millpond.Pool) -> None:
    task = pool.submit("echo", n=1)
    task.result(PATIENCE)
    assert not task.cancel() and not task.cancelled() and task.result() == {"n": 1}


def test_cancelling_while_it_ends_has_one_outcome(pool: millpond.Pool) -> None:
    seed = int(os.environ.get("MILLPOND_SEED", random.randrange(2**32)))
    print(f"MILLPOND_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(300):
        task = pool.submit("sleep", ms=chance.randrange(3))
        said = task.cancel() if chance.random() < 0.5 else False
        if said:
            assert task.cancelled()
        else:
            assert task.result(PATIENCE)["ms"] >= 0


def test_tasks_come_as_they_are_completed(pool: millpond.Pool) -> None:
    slow = pool.submit("sleep", ms=3_600_000)
    fast = [pool.submit("echo", n=n) for n in range(50)]
    completed = pool.as_completed([slow, *fast], timeout=PATIENCE)
    assert {next(completed) for _ in fast} == set(fast)
    assert slow.cancel() and next(completed) is slow
    with pytest.raises(StopIteration):
        next(completed)


def test_map_keeps_the_order_and_reads_no_further_than_its_window(pool: millpond.Pool) -> None:
    asked = 0

    def arguments() -> Any:
        nonlocal asked
        while True:
            asked += 1
            yield {"n": asked}

    results = pool.map("echo", arguments(), window=10, timeout=PATIENCE)
    assert [next(results)["n"] for _ in range(1_000)] == list(range(1, 1_001))
    assert asked <= 1_010
    results.close()  # type: ignore[attr-defined]


def test_whoever_leaves_map_early_cancels_the_rest(own_pool: millpond.Pool) -> None:
    results = own_pool.map("sleep", ({"ms": ms} for ms in [0, 3_600_000, 3_600_000]))
    assert next(results) == {"ms": 0}
    del results
    gc.collect()
    own_pool.close(timeout=PATIENCE)


def test_map_raises_what_went_wrong(pool: millpond.Pool) -> None:
    with pytest.raises(millpond.Error, match="as it was told to"):
        list(pool.map("fail", [{}], timeout=PATIENCE))
    assert list(pool.map("echo", [])) == []


def test_a_full_queue_is_waited_for_or_refused_as_one_likes(folder: pathlib.Path) -> None:
    config = folder / "small.toml"
    config.write_text("workers = 1\ntasks_max = 4\n")
    pool = millpond.Pool.create(config, submit_timeout=0)
    try:
        tasks = [pool.submit("sleep", ms=3_600_000) for _ in range(4)]
        for submit_timeout in [0, 0.01]:
            pool.submit_timeout = submit_timeout
            with pytest.raises(millpond.Error) as caught:
                pool.submit("sleep", ms=1)
            assert caught.value.code == millpond.Code.QUEUE_FULL
        pool.submit_timeout = PATIENCE
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            waits = thread.submit(pool.submit, "sleep", ms=1)
            assert tasks[0].cancel()
            assert waits.result(PATIENCE).result(PATIENCE) == {"ms": 1}
        assert all(task.cancel() for task in tasks[1:])
        assert len(list(pool.map("sleep", [{"ms": 0}] * 500, timeout=PATIENCE))) == 500
    finally:
        pool.close(cancel=True)


def test_a_callback_may_submit_but_not_wait(pool: millpond.Pool) -> None:
    here = threading.current_thread()

    def ended(seen: concurrent.futures.Future[Any], task: concurrent.futures.Future[Any]) -> None:
        if threading.current_thread() is here:
            seen.set_result(None)
            return
        second = pool.submit("sleep", ms=20)
        try:
            second.result(PATIENCE)
        except RuntimeError as error:
            seen.set_result((error, second))

    outcome = None
    while outcome is None:
        # A task that has ended before it gets its callback calls it here, where waiting is allowed.
        seen: concurrent.futures.Future[Any] = concurrent.futures.Future()
        pool.submit("sleep", ms=20).add_done_callback(functools.partial(ended, seen))
        outcome = seen.result(PATIENCE)
    assert "callback" in str(outcome[0]) and outcome[1].result(PATIENCE) == {"ms": 20}


def test_a_callback_that_fails_costs_nobody_else(pool: millpond.Pool, caplog: pytest.LogCaptureFixture) -> None:
    task = pool.submit("sleep", ms=1)
    task.add_done_callback(lambda _: 1 / 0)
    task.result(PATIENCE)
    assert pool.submit("echo", n=2).result(PATIENCE) == {"n": 2}
    assert "ZeroDivisionError" in caplog.text


def test_closing_waits_for_what_is_under_way(own_pool: millpond.Pool) -> None:
    with own_pool:
        tasks = [own_pool.submit("sleep", ms=20) for _ in range(20)]
    assert all(task.done() and task.result() == {"ms": 20} for task in tasks)
    with pytest.raises(millpond.Error, match="closed") as caught:
        own_pool.submit("echo")
    assert caught.value.code == millpond.Code.DRAINING
    own_pool.close()


def test_closing_can_cancel_what_is_under_way(own_pool: millpond.Pool) -> None:
    tasks = [own_pool.submit("sleep", ms=3_600_000) for _ in range(20)]
    own_pool.close(cancel=True, timeout=PATIENCE)
    assert all(task.cancelled() for task in tasks)


def test_closing_has_a_limit_after_which_tasks_fail(daemon: Any) -> None:
    pool = millpond.Pool.attach(daemon.directory)
    task = pool.submit("sleep", ms=3_600_000)
    pool.close(timeout=0.01)
    with pytest.raises(millpond.Error, match="closed before") as caught:
        task.result(PATIENCE)
    assert caught.value.code == millpond.Code.DRAINING and not task.cancel()


def test_a_callback_may_close_the_pool(own_pool: millpond.Pool) -> None:
    closed = threading.Event()

    def ended(_: object) -> None:
        own_pool.close()
        closed.set()

    own_pool.submit("sleep", ms=1).add_done_callback(ended)
    assert closed.wait(PATIENCE)


def test_a_pool_nobody_holds_lives_as_long_as_its_tasks(config: pathlib.Path) -> None:
    pool = millpond.Pool.create(config)
    gone = weakref.ref(pool)
    task = pool.submit("sleep", ms=50)
    del pool
    assert task.result(PATIENCE) == {"ms": 50}
    del task
    deadline = time.monotonic() + PATIENCE
    while gone() is not None:
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.001)


def test_dropped_pools_leave_no_threads(config: pathlib.Path) -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    before = threads()
    for _ in range(10):
        millpond.Pool.create(config)
    deadline = time.monotonic() + PATIENCE
    while threads() > before:
        assert time.monotonic() < deadline, f"{threads()} threads, {before} before"
        gc.collect()
        time.sleep(0.001)


def test_what_cannot_be_opened_says_why(folder: pathlib.Path) -> None:
    for name in [str(folder / "nobody"), "no-such-daemon", "not a name!", "a\0b"]:
        with pytest.raises(millpond.Error) as caught:
            millpond.Pool.attach(name)
        assert caught.value.code < 0 and caught.value.message
    wrong = folder / "wrong.toml"
    wrong.write_text("workers = -1\n")
    for config in [folder / "nowhere.toml", wrong]:
        with pytest.raises(millpond.Error) as caught:
            millpond.Pool.create(config)
        assert caught.value.message
