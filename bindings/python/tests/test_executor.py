"""The interface of concurrent.futures: code that takes an executor takes this one."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import millpond
import pytest

PATIENCE = 60.0


def echo(first: int, second: int = 2) -> Any:
    raise AssertionError("a function that stands for a handler is never called")


def test_a_function_lends_its_name_and_its_parameters(pool: millpond.Pool) -> None:
    with millpond.Executor(pool) as executor:
        future = executor.submit(echo, 1, second=3)
        assert isinstance(future, concurrent.futures.Future)
        assert future.result(PATIENCE) == {"first": 1, "second": 3}
        assert executor.submit("echo", first=5).result(PATIENCE) == {"first": 5}


def test_one_handler_serves_everything(pool: millpond.Pool) -> None:
    with millpond.Executor(pool, "echo") as executor:
        assert executor.submit(None, a=1).result(PATIENCE) == {"a": 1}
        assert executor.submit(None, {"a": 1}, b=2).result(PATIENCE) == {"a": 1, "b": 2}
        assert executor.submit(lambda x: None, 7).result(PATIENCE) == {"x": 7}


def test_map_is_that_of_concurrent_futures(pool: millpond.Pool) -> None:
    with millpond.Executor(pool) as executor:
        results = executor.map(echo, range(500), range(500), timeout=PATIENCE)
        assert list(results) == [{"first": n, "second": n} for n in range(500)]


def test_asyncio_runs_handlers_in_it(pool: millpond.Pool) -> None:
    async def main() -> Any:
        with millpond.Executor(pool) as executor:
            return await asyncio.get_running_loop().run_in_executor(executor, echo, 1)

    assert asyncio.run(main()) == {"first": 1}


def test_waiting_and_completing_are_those_of_concurrent_futures(pool: millpond.Pool) -> None:
    with millpond.Executor(pool, "sleep") as executor:
        futures = [executor.submit(None, ms=ms) for ms in [0, 1, 3_600_000]]
        done = concurrent.futures.wait(futures[:2], PATIENCE)
        assert done.done == set(futures[:2])
        assert futures[2].cancel()
        assert set(concurrent.futures.as_completed(futures, PATIENCE)) == set(futures)


def test_shutting_down_waits_and_leaves_the_pool_open(pool: millpond.Pool) -> None:
    executor = millpond.Executor(pool, "sleep")
    futures = [executor.submit(None, ms=10) for _ in range(20)]
    executor.shutdown(wait=True)
    assert all(future.done() for future in futures)
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(None, ms=1)
    assert pool.submit("echo").result(PATIENCE) == {}


def test_shutting_down_can_cancel(pool: millpond.Pool) -> None:
    executor = millpond.Executor(pool, "sleep")
    futures = [executor.submit(None, ms=3_600_000) for _ in range(5)]
    executor.shutdown(wait=True, cancel_futures=True)
    assert all(future.cancelled() for future in futures)


def test_what_has_no_name_is_refused(pool: millpond.Pool) -> None:
    executor = millpond.Executor(pool)
    with pytest.raises(TypeError, match="name of a handler"):
        executor.submit(None, a=1)
    with pytest.raises(TypeError, match="with names"):
        executor.submit("echo", 1, 2)
    with pytest.raises(TypeError):
        executor.submit(echo, 1, 2, 3)
