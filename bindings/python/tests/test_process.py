"""Processes: forks, ends of programs, and a daemon that is killed while it has work."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import pathlib
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import millpond
import pytest

PATIENCE = 60.0


def in_a_fork(body: Callable[[], None]) -> None:
    """Runs `body` in a child and sees that it ends well, and that it ends."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    ended = threading.Event()
    statuses: list[int] = []

    def reap() -> None:
        statuses.append(os.waitpid(child, 0)[1])
        ended.set()

    threading.Thread(target=reap, daemon=True).start()
    if not ended.wait(PATIENCE):
        os.kill(child, 9)
        pytest.fail("the child hangs")
    assert statuses == [0]


def test_a_fork_is_told_to_open_a_pool_of_its_own(own_pool: millpond.Pool) -> None:
    done = own_pool.submit("echo", n=1)
    done.result(PATIENCE)
    under_way = own_pool.submit_streaming("hold")
    stream = under_way.stream()
    assert next(stream) == "begun"

    def child() -> None:
        calls: list[Callable[[], Any]] = [
            lambda: own_pool.submit("echo"),
            lambda: own_pool.submit_streaming("echo"),
            lambda: under_way.result(),
            lambda: under_way.exception(),
            lambda: under_way.add_done_callback(print),
            lambda: next(stream),
        ]
        for call in calls:
            try:
                call()
            except millpond.Error as error:
                assert error.code == millpond.Code.DRAINING and "fork" in error.message
            else:
                raise AssertionError("it was not refused")
        assert not under_way.done() and not under_way.cancel()
        assert done.result() == {"n": 1}
        own_pool.close(cancel=True)

    in_a_fork(child)
    # The parent does not notice.
    assert own_pool.submit("echo", n=2).result(PATIENCE) == {"n": 2}
    assert under_way.cancel()


def test_a_fork_can_open_a_pool_of_its_own(own_pool: millpond.Pool, daemon: Any) -> None:
    def child() -> None:
        with millpond.Pool.attach(daemon.directory) as pool:
            assert pool.submit("echo", n=3).result(PATIENCE) == {"n": 3}

    in_a_fork(child)
    assert own_pool.submit("echo", n=4).result(PATIENCE) == {"n": 4}


@pytest.mark.parametrize("way", ["attach", "create"])
def test_a_program_may_end_without_closing(way: str, daemon: Any, config: pathlib.Path) -> None:
    opened = f"attach({daemon.directory!r})" if way == "attach" else f"create({str(config)!r})"
    program = (
        "import millpond\n"
        f"pool = millpond.Pool.{opened}\n"
        "tasks = [pool.submit('sleep', ms=1) for _ in range(100)]\n"
        "stream = pool.submit_streaming('count', to=3).stream()\n"
        "print(next(stream), tasks[0].result(60))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stderr) == (0, "") and ended.stdout == "{'number': 1} {'ms': 1}\n"


def test_a_program_that_ends_finishes_what_its_pool_has_accepted(folder: pathlib.Path, config: pathlib.Path) -> None:
    left = [folder / f"left-{n}" for n in range(5)]
    program = (
        "import millpond, sys\n"
        f"pool = millpond.Pool.create({str(config)!r})\n"
        "for path in sys.argv[1:]:\n    pool.submit('leave', path=path)\n"
    )
    command = [sys.executable, "-c", program, *map(str, left)]
    subprocess.run(command, check=True, timeout=PATIENCE)
    assert all(path.exists() for path in left)


def test_a_killed_daemon_costs_what_it_had_in_hand_and_the_next_one_serves_the_pool(mortal: Any) -> None:
    pool = millpond.Pool.attach(mortal.directory)
    held = [pool.submit_streaming("hold") for _ in range(4)]
    for task in held:
        assert next(task.stream()) == "begun"
    mortal.kill()
    for task in held:
        with pytest.raises(millpond.Error) as caught:
            task.result(PATIENCE)
        assert caught.value.code == millpond.Code.DAEMON_DIED
    mortal.start()
    assert pool.submit("echo", n=1).result(PATIENCE) == {"n": 1}
    pool.close(timeout=PATIENCE)


def test_an_idle_pool_goes_over_to_the_next_daemon(mortal: Any) -> None:
    pool = millpond.Pool.attach(mortal.directory)
    assert pool.submit("echo", n=1).result(PATIENCE) == {"n": 1}
    mortal.kill()
    mortal.start()
    assert pool.submit("echo", n=2).result(PATIENCE) == {"n": 2}
    pool.close(timeout=PATIENCE)


def test_every_task_ends_once_though_the_daemon_is_killed_again_and_again(mortal: Any) -> None:
    ends: dict[int, int] = {}
    lock = threading.Lock()
    stop = threading.Event()
    tasks: list[millpond.Task] = []
    pool = millpond.Pool.attach(mortal.directory, submit_timeout=PATIENCE)

    def count(n: int, _: concurrent.futures.Future[Any]) -> None:
        with lock:
            ends[n] = ends.get(n, 0) + 1

    def submit() -> None:
        n = 0
        while not stop.is_set() or n < 3_000:
            task = pool.submit("echo", n=n) if n % 3 else pool.submit("sleep", ms=n % 5)
            task.add_done_callback(functools.partial(count, n))
            tasks.append(task)
            n += 1

    submitter = threading.Thread(target=submit)
    submitter.start()
    for _ in range(15):
        before = len(ends)
        while len(ends) < before + 300 and submitter.is_alive():
            pool.submit("echo").exception(PATIENCE)
        mortal.kill()
        mortal.start()
    stop.set()
    submitter.join()
    pool.close(timeout=PATIENCE)
    results = 0
    for n, task in enumerate(tasks):
        error = task.exception(0)
        if error is None:
            assert task.result() == ({"n": n} if n % 3 else {"ms": n % 5})
            results += 1
        else:
            assert isinstance(error, millpond.Error) and error.code == millpond.Code.DAEMON_DIED, error
    assert ends == {n: 1 for n in range(len(tasks))}
    assert results > 1_000
