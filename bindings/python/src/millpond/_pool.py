"""A pool: one inside this program, or that of a running daemon.

    with millpond.Pool.attach("millpond") as pool:
        print(pool.submit("echo", hello="world").result())

A pool may be used by any number of threads. It is closed at the end of the `with` block, when it is collected, or
when the program ends; a fork of the process must open its own.

Not here: the thread that ends tasks (`_dispatch.py`), and tasks themselves (`_task.py`).
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import json
import os
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from ._dispatch import RETRY_SECONDS, Dispatch
from ._errors import Code, Error
from ._library import load
from ._task import Task

SUBMIT_SECONDS = 10.0
MAP_WINDOW = 256
# Refusals that leave nothing behind and may be over in a moment: no room, or no daemon until the next one is there.
WORTH_ANOTHER_TRY = (Code.QUEUE_FULL, Code.DAEMON_DIED)


class Pool:
    """Where tasks are submitted. Made by `Pool.attach` and `Pool.create`."""

    def __init__(self, dispatch: Dispatch, submit_timeout: float) -> None:
        self._dispatch = dispatch
        self.submit_timeout = submit_timeout
        """How many seconds a submission waits for room when the queue is full, or for the next daemon."""
        self._abandon = weakref.finalize(self, dispatch.abandon)
        # At the end of the program `_dispatch` closes all pools itself, and waits for that.
        self._abandon.atexit = False

    @classmethod
    def attach(cls, name: str = "millpond", *, submit_timeout: float = SUBMIT_SECONDS) -> Pool:
        """The pool of a daemon of this user: its name, or its run-time directory if there is a slash in it."""
        return cls._opened(load().attach, name, submit_timeout)

    @classmethod
    def create(
        cls, config: str | os.PathLike[str] | None = None, *, submit_timeout: float = SUBMIT_SECONDS
    ) -> Pool:
        """A pool inside this program. `config` is the path of a configuration file; without one the defaults hold."""
        return cls._opened(load().create, None if config is None else os.fspath(config), submit_timeout)

    @classmethod
    def _opened(cls, way: Any, name: str | None, submit_timeout: float) -> Pool:
        if name is not None and "\0" in name:
            raise Error(Code.INVALID_REQUEST, f"expected a name or a path, got {name!r}, which has a byte 0 in it")
        handle = way(None if name is None else os.fsencode(name))
        if not handle:
            raise load().last_error()
        return cls(Dispatch(load(), handle), submit_timeout)

    def submit(self, handler: str, /, **args: Any) -> Task:
        """Asks for `handler` with these arguments, and gives back its task.

        If the queue is full, or the daemon is gone, this waits for room or for the next daemon, `submit_timeout`
        seconds at the most, and then raises `Code.QUEUE_FULL` or `Code.DAEMON_DIED`. What a pool of this program
        refuses for another reason is raised here; what a daemon refuses, by the task.
        """
        return self.submit_request({"handler": handler, "args": args})

    def submit_streaming(self, handler: str, /, **args: Any) -> Task:
        """The same, for a task whose partial results are to be read: `task.stream()`."""
        return self.submit_request({"handler": handler, "args": args}, streams=True)

    def submit_request(self, request: Mapping[str, Any], *, streams: bool = False) -> Task:
        """Submits a whole request, with all it may say: `priority`, `timeout_ms`, `retries`, `delay_ms` and so on."""
        text = _text(request)
        deadline = time.monotonic() + self.submit_timeout
        while True:
            try:
                return self._submitted(text, streams)
            except Error as error:
                if error.code not in WORTH_ANOTHER_TRY or not self._dispatch.wait_for_room(deadline):
                    raise

    async def call(self, handler: str, /, **args: Any) -> Any:
        """The result, for asyncio: where `submit` would wait for room in its thread, this lets others go on."""
        text = _text({"handler": handler, "args": args})
        deadline = time.monotonic() + self.submit_timeout
        while True:
            try:
                task = self._submitted(text, streams=False)
                break
            except Error as error:
                if error.code not in WORTH_ANOTHER_TRY or time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
        return await task

    def map(
        self,
        handler: str,
        arguments: Iterable[Mapping[str, Any]],
        *,
        timeout: float | None = None,
        window: int = MAP_WINDOW,
    ) -> Iterator[Any]:
        """The result for each of `arguments`, in their order.

        At most `window` tasks are ahead of the one whose result is read, so `arguments` may be endless. `timeout` is
        for all of it, from the first result on that is asked for. Whoever stops early cancels the rest.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        left = iter(arguments)
        ahead: collections.deque[Task] = collections.deque()
        try:
            while True:
                while len(ahead) < max(window, 1) and (args := next(left, None)) is not None:
                    ahead.append(self.submit_request({"handler": handler, "args": args}))
                if not ahead:
                    return
                yield ahead[0].result(None if deadline is None else deadline - time.monotonic())
                ahead.popleft()
        finally:
            for task in ahead:
                task.cancel()

    @staticmethod
    def as_completed(tasks: Iterable[Task], timeout: float | None = None) -> Iterator[Task]:
        """These tasks, each when it has ended, the first one first."""
        for task in concurrent.futures.as_completed(tasks, timeout):
            assert isinstance(task, Task)
            yield task

    def close(self, *, cancel: bool = False, timeout: float | None = None) -> None:
        """Takes no more tasks, and waits until all have ended; then a pool of this program stops, and one of a
        daemon is let go of. `cancel` ends them first. After `timeout` seconds what is left fails with
        `Code.DRAINING`.
        """
        if self._dispatch.is_forked():
            return
        if cancel:
            for task in self._dispatch.tasks():
                assert isinstance(task, Task)
                task.cancel()
        self._dispatch.close(timeout)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submitted(self, text: bytes, streams: bool) -> Task:
        task = Task(self, self._dispatch, streams)
        task.begin(self._dispatch.submit(text, task, streams))
        return task


def _text(request: Mapping[str, Any]) -> bytes:
    """A request as the library wants it: JSON has no byte 0, so nothing is cut off."""
    return json.dumps(request, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
