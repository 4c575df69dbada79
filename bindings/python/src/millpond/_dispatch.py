"""One handle of the library, and the one thread that takes results from it.

The dispatcher sleeps while no task is under way. Else it asks the library for whichever task has ended, in slices of
a tenth of a second, and ends the `Task` of that number. It alone shuts the handle down, after the last call of
another thread has come back: so no call can meet a handle that is gone, and a pool may be collected in any thread.

After `fork()` the child has a copy of all this without the threads. Nothing works there, and nothing must be touched,
not even a lock: each entry compares process numbers first.

Not here: what a task does with its end (`_task.py`), and what users call (`_pool.py`).
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Protocol

from ._errors import Code, Error
from ._library import Ended, Library

SLICE_MS = 100
# How long a submission that found the queue full waits before it tries again, unless a task ends sooner.
RETRY_SECONDS = 0.02
READERS_MAX = 32


class Ending(Protocol):
    """Somebody who waits for the end of a task."""

    def end(self, ended: Ended) -> None: ...
    def fail(self, error: Error) -> None: ...


class Dispatch:
    """A handle, the tasks that are under way on it, and their dispatcher."""

    def __init__(self, library: Library, handle: int) -> None:
        self._library = library
        self._handle = handle
        self._process = os.getpid()
        # Its lock is one that a thread may take twice: collecting a pool calls `abandon` anywhere.
        self._changed = threading.Condition()
        self._tasks: dict[int, Ending] = {}
        # Ends that came before the call that submitted their task was back.
        self._early: dict[int, Ended] = {}
        self._under_way = 0
        self._calls = 0
        self._waiting_for_room = 0
        self._is_closing = False
        self._is_abandoned = False
        self._is_shut = False
        self._readers: concurrent.futures.ThreadPoolExecutor | None = None
        self._thread = threading.Thread(target=self._run, name="millpond-dispatcher", daemon=True)
        self._thread.start()
        _OPEN.add(self)

    # What other threads call.

    def submit(self, request: bytes, task: Ending, streams: bool) -> int:
        """Hands a request over; `task` is told how it ended. Raises `QUEUE_FULL` at once if there is no room."""
        with self._inside():
            with self._changed:
                if self._is_closing:
                    raise Error(Code.DRAINING, "the pool is closed")
                self._under_way += 1
                if self._under_way == 1:
                    self._changed.notify_all()
            submit = self._library.submit_streaming if streams else self._library.submit
            number: int = submit(self._handle, request)
            error = None if number else self._library.last_error()
            with self._changed:
                early = self._early.pop(number, None)
                if error is None and early is None:
                    self._tasks[number] = task
                else:
                    self._under_way -= 1
        if error is not None:
            raise error
        if early is not None:
            task.end(early)
        return number

    def wait_for_room(self, deadline: float) -> bool:
        """Waits for a moment in which a refused submission is worth another try; False when the time is over."""
        left = deadline - time.monotonic()
        if left <= 0 or self.is_dispatcher():
            return False
        with self._changed:
            self._waiting_for_room += 1
            self._changed.wait(min(left, RETRY_SECONDS))
            self._waiting_for_room -= 1
        return True

    def cancel(self, number: int) -> None:
        with self._inside():
            if self._library.cancel(self._handle, number) != 0:
                raise self._library.last_error()

    def next_partial(self, number: int, wait: bool) -> Ended | None:
        """The next part of a stream, or None if there is none yet. At its end an `OK` is raised."""
        with self._inside():
            return self._library.next_partial(self._handle, number, SLICE_MS if wait else 0)

    def readers(self) -> concurrent.futures.Executor:
        """Threads that wait for streams on behalf of asyncio."""
        with self._inside(), self._changed:
            if self._readers is None:
                self._readers = concurrent.futures.ThreadPoolExecutor(READERS_MAX, "millpond-stream")
            return self._readers

    def is_dispatcher(self) -> bool:
        """Whether this is the thread without which no task ends."""
        return threading.current_thread() is self._thread

    def is_forked(self) -> bool:
        return os.getpid() != self._process

    def check_process(self) -> None:
        if self.is_forked():
            raise Error(
                Code.DRAINING,
                f"this pool was opened in process {self._process} and this is {os.getpid()}, a fork of it; "
                "open a pool of its own here",
            )

    def tasks(self) -> list[Ending]:
        """Every task that is under way."""
        self.check_process()
        with self._changed:
            return list(self._tasks.values())

    def close(self, timeout: float | None) -> None:
        """Takes no more, waits until every task has ended or the time is over, and shuts the handle down."""
        if self.is_forked():
            return
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self.is_dispatcher():
            return
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.abandon()
            self._thread.join()

    def abandon(self) -> None:
        """Shuts the handle down without waiting for tasks. Returns at once: the dispatcher does it."""
        if self.is_forked():
            return
        with self._changed:
            self._is_closing = self._is_abandoned = True
            self._changed.notify_all()

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """A call into the library: the handle lives until it is back."""
        self.check_process()
        with self._changed:
            if self._is_shut:
                raise Error(Code.DRAINING, "the pool is closed")
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                if self._is_closing:
                    self._changed.notify_all()

    # What the dispatcher does.

    def _run(self) -> None:
        failure = Error(Code.DRAINING, "the pool was closed before the task had ended")
        while self._goes_on():
            try:
                ended = self._library.next_result(self._handle, SLICE_MS)
            except Error as error:
                failure = error
                break
            if ended is not None:
                self._end(ended)
        self._finish(failure)

    def _goes_on(self) -> bool:
        """Sleeps while there is nothing to wait for; False when the handle is to be shut down."""
        with self._changed:
            while not self._is_abandoned:
                if self._under_way:
                    return True
                if self._is_closing and self._calls == 0:
                    return False
                self._changed.wait()
            return False

    def _end(self, ended: Ended) -> None:
        with self._changed:
            task = self._tasks.pop(ended.number, None)
            if task is None:
                self._early[ended.number] = ended
                return
            self._under_way -= 1
            if self._waiting_for_room:
                self._changed.notify_all()
        task.end(ended)

    def _finish(self, failure: Error) -> None:
        with self._changed:
            self._is_closing = self._is_shut = True
            while self._calls:
                self._changed.wait()
            left = list(self._tasks.values())
            self._tasks.clear()
        self._library.shutdown(self._handle)
        if self._readers is not None:
            self._readers.shutdown(wait=False)
        for task in left:
            task.fail(failure)


# Daemon threads are frozen when the interpreter ends, so handles are shut down before.
_OPEN: weakref.WeakSet[Dispatch] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for dispatch in list(_OPEN):
        dispatch.abandon()
    for dispatch in list(_OPEN):
        dispatch.close(None)
