"""asyncio: a task is awaited and its stream is read without a thread that stands still."""

from __future__ import annotations

import asyncio
from typing import Any

import millpond
import pytest

PATIENCE = 60.0


def test_a_task_is_awaited(pool: millpond.Pool) -> None:
    async def main() -> Any:
        return await pool.submit("echo", n=1), await pool.call("echo", n=2)

    assert asyncio.run(main()) == ({"n": 1}, {"n": 2})


def test_thousands_are_awaited_at_once(pool: millpond.Pool) -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(pool.call("echo", n=n) for n in range(5_000)))

    assert asyncio.run(main()) == [{"n": n} for n in range(5_000)]


def test_what_went_wrong_is_raised(pool: millpond.Pool) -> None:
    async def main() -> None:
        with pytest.raises(millpond.Error, match="as it was told to"):
            await pool.submit("fail")
        with pytest.raises(millpond.Error) as caught:
            await pool.call("no-such-handler")
        assert caught.value.code == millpond.Code.UNKNOWN_HANDLER

    asyncio.run(main())


def test_a_stream_is_read_in_order(pool: millpond.Pool) -> None:
    async def main() -> list[int]:
        return [part["number"] async for part in pool.submit_streaming("count", to=100).stream()]

    assert asyncio.run(main()) == list(range(1, 101))


def test_streams_are_read_beside_each_other_and_the_loop_goes_on(own_pool: millpond.Pool) -> None:
    async def main() -> None:
        held = own_pool.submit_streaming("hold")
        quiet = held.stream()
        assert await anext(quiet) == "begun"
        waiting = asyncio.ensure_future(anext(quiet))

        async def read() -> int:
            return sum([part["number"] async for part in own_pool.submit_streaming("count", to=50).stream()])

        assert await asyncio.gather(*(read() for _ in range(10))) == [1275] * 10
        assert not waiting.done()
        assert held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_reader_that_gives_up_loses_no_part(pool: millpond.Pool) -> None:
    async def main() -> list[int]:
        numbers: list[int] = []
        stream = pool.submit_streaming("count", to=100).stream()
        while True:
            try:
                numbers.append((await asyncio.wait_for(anext(stream), 0.0005))["number"])
            except asyncio.TimeoutError:
                continue
            except StopAsyncIteration:
                return numbers

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == list(range(1, 101))


def test_whoever_stops_awaiting_cancels_the_task(pool: millpond.Pool) -> None:
    async def main() -> None:
        task = pool.submit("sleep", ms=3_600_000)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(task, 0.01)
        assert task.cancelled()

    asyncio.run(main())


def test_a_failed_stream_raises_at_its_end(pool: millpond.Pool) -> None:
    async def main() -> None:
        stream = pool.submit_streaming("count", to=1, fail="enough").stream()
        assert await anext(stream) == {"number": 1}
        with pytest.raises(millpond.Error, match="enough"):
            await anext(stream)

    asyncio.run(main())
