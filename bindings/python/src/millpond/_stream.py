"""What a task says while it runs, for `for` and for `async for`.

A stream is read where it is consumed: a task whose reader is slow is held back, and nothing piles up here. At the end
of a task that failed the loop raises what went wrong, so that half an answer is not taken for a whole one.

asyncio must not wait in its own thread, so there a thread of the pool waits, and hands over one event at a time. A
waiter that is cancelled loses none: the next one gets it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import Code, Error

if TYPE_CHECKING:
    from ._dispatch import Dispatch
    from ._task import Task

KINDS = ("partial", "progress", "log", "missed")


class Event(NamedTuple):
    """One thing a task said.

    `kind` is "partial" (`value`: any JSON), "progress" (a number from 0 to 1), "log" (a line) or "missed" (how many
    events before this offset are gone). Offsets go up by one. A higher `attempt` means that the task was begun anew,
    and that what it said before is void.
    """

    offset: int
    attempt: int
    kind: str
    value: Any


class Events(Iterator[Event], AsyncIterator[Event]):
    """Every event of a task, in order."""

    def __init__(self, task: Task, dispatch: Dispatch) -> None:
        self._task = task
        self._dispatch = dispatch
        self._is_over = False
        self._reading: concurrent.futures.Future[Event | None] | None = None

    def __next__(self) -> Event:
        while not self._is_over:
            if self._dispatch.is_dispatcher() and not self._task.done():
                raise RuntimeError("a callback cannot wait for a stream: it runs in the thread that ends tasks")
            event = self._read(wait=True)
            if event is not None:
                return event
        self._task.result()
        raise StopIteration

    async def __anext__(self) -> Event:
        while not self._is_over:
            event = None if self._reading else self._read(wait=False)
            if event is None and not self._is_over:
                event = await self._read_elsewhere()
            if event is not None:
                return event
        await self._task
        raise StopAsyncIteration

    def _read(self, wait: bool) -> Event | None:
        """An event, or None if there is none yet or none will come."""
        try:
            partial = self._dispatch.next_partial(self._task.number, wait)
        except Error as error:
            if error.code != Code.OK:
                raise
            self._is_over = True
            return None
        return None if partial is None else _event(partial.body)

    async def _read_elsewhere(self) -> Event | None:
        if self._reading is None:
            self._reading = self._dispatch.readers().submit(self._read, True)
        event = await asyncio.shield(asyncio.wrap_future(self._reading))
        self._reading = None
        return event


class Stream(Iterator[Any], AsyncIterator[Any]):
    """The partial results of a task, in order."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def __next__(self) -> Any:
        for event in self._events:
            if event.kind == "partial":
                return event.value
        raise StopIteration

    async def __anext__(self) -> Any:
        async for event in self._events:
            if event.kind == "partial":
                return event.value
        raise StopAsyncIteration


def _event(line: bytes) -> Event:
    fields = json.loads(line)
    kind = next(kind for kind in KINDS if kind in fields)
    return Event(fields["offset"], fields["attempt"], kind, fields[kind])
