"""Streams: every part, in order, once; and at the end the task's own end."""

from __future__ import annotations

import concurrent.futures

import millpond
import pytest

PATIENCE = 60.0


def test_a_loop_sees_every_part_in_order(pool: millpond.Pool) -> None:
    task = pool.submit_streaming("count", to=200)
    assert [part["number"] for part in task.stream()] == list(range(1, 201))
    assert task.result(PATIENCE) == {"counted": 200}


def test_parts_come_while_the_task_runs(own_pool: millpond.Pool) -> None:
    task = own_pool.submit_streaming("hold")
    assert next(task.stream()) == "begun"
    assert not task.done()
    assert task.cancel()


def test_events_tell_what_parts_do_not(pool: millpond.Pool) -> None:
    events = list(pool.submit_streaming("count", to=3).events())
    assert [event.offset for event in events] == list(range(6))
    assert [event.kind for event in events] == ["partial", "progress"] * 3
    assert events[-1] == millpond.Event(5, 1, "progress", 1)


def test_parts_can_be_read_after_the_end(pool: millpond.Pool) -> None:
    task = pool.submit_streaming("count", to=20)
    task.result(PATIENCE)
    assert [part["number"] for part in task.stream()] == list(range(1, 21))


def test_a_task_without_parts_has_an_empty_stream(pool: millpond.Pool) -> None:
    task = pool.submit_streaming("echo", n=1)
    assert list(task.stream()) == [] and task.result(PATIENCE) == {"n": 1}


def test_the_end_of_a_task_that_failed_is_raised(pool: millpond.Pool) -> None:
    task = pool.submit_streaming("count", to=2, fail="enough")
    stream = task.stream()
    assert [next(stream)["number"], next(stream)["number"]] == [1, 2]
    for _ in range(2):
        with pytest.raises(millpond.Error, match="enough"):
            next(stream)


def test_the_stream_of_a_cancelled_task_ends_so(pool: millpond.Pool) -> None:
    task = pool.submit_streaming("hold")
    stream = task.stream()
    assert next(stream) == "begun"
    assert task.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        next(stream)


def test_a_task_without_a_stream_says_how_to_get_one(pool: millpond.Pool) -> None:
    with pytest.raises(millpond.Error, match="submit_streaming"):
        pool.submit("echo").stream()


def test_many_streams_are_read_beside_each_other(pool: millpond.Pool) -> None:
    def read(to: int) -> int:
        return sum(part["number"] for part in pool.submit_streaming("count", to=to).stream())

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert list(threads.map(read, [50] * 16)) == [1275] * 16
