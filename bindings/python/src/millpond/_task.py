"""A task: a `concurrent.futures.Future` that can be awaited, cancelled where it runs, and read while it runs.

Being a `Future` it works with everything that takes one: `concurrent.futures.wait` and `as_completed`, callbacks, and
`asyncio.wrap_future`. Callbacks run in the dispatcher, which must not wait for a task: such a wait raises.

Not here: where ends come from (`_dispatch.py`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ._errors import Code, Error
from ._library import Ended
from ._stream import Events, Stream

if TYPE_CHECKING:
    from ._dispatch import Dispatch
    from ._pool import Pool


class Task(concurrent.futures.Future[Any]):
    """The claim on one result. `running()` is never true: where a task stands is not asked."""

    def __init__(self, pool: Pool, dispatch: Dispatch, streams: bool) -> None:
        super().__init__()
        # A pool that nobody else holds must live until its tasks have ended.
        self._pool = pool
        self._dispatch = dispatch
        self._events = Events(self, dispatch) if streams else None
        self._is_over = False
        self._is_cancelled_here = False
        self._is_told = threading.Lock()
        self._number = 0

    @property
    def number(self) -> int:
        """The number of this task on its pool, from 1."""
        return self._number

    def result(self, timeout: float | None = None) -> Any:
        """What the task answered; raises what went wrong, or `TimeoutError` after so many seconds."""
        self._check_waiter()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What went wrong, or None."""
        self._check_waiter()
        return super().exception(timeout)

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._is_over if self._dispatch.is_forked() else super().done()

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Calls `fn` with this task when it has ended, at once if it has; in the dispatcher, or here."""
        self._check_process()
        super().add_done_callback(fn)

    def cancel(self) -> bool:
        """Ends the task, waiting or running; False if it has ended or its result is on its way.

        When it is True, `result()` raises `CancelledError`. If somebody else cancels the task, from the daemon's
        command line for example, `result()` raises an `Error` with `Code.CANCELLED`.
        """
        if self._dispatch.is_forked():
            return False
        if self.done():
            return self.cancelled()
        self._is_cancelled_here = True
        try:
            self._dispatch.cancel(self._number)
        except Error:
            return False
        return self._become_cancelled()

    def stream(self) -> Stream:
        """The partial results, for `for` or `async for`. The task must come from `submit_streaming`."""
        return Stream(self.events())

    def events(self) -> Events:
        """All that the task says: partial results, progress, log lines. One reader has them all; two share them."""
        if self._events is None:
            raise Error(Code.INVALID_REQUEST, "this task has no stream; get one with pool.submit_streaming")
        return self._events

    def __await__(self) -> Generator[Any, None, Any]:
        self._dispatch.check_process()
        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "ended" if self.done() else "under way"
        return f"<millpond.Task {self._number} {state}>"

    def _check_process(self) -> None:
        if not self._is_over:
            self._dispatch.check_process()

    def _check_waiter(self) -> None:
        self._check_process()
        if self._dispatch.is_dispatcher() and not self.done():
            raise RuntimeError("a callback cannot wait for another task: it runs in the thread that ends tasks")

    def _become_cancelled(self) -> bool:
        """Both the canceller and the dispatcher may come here, whoever is first."""
        if not super().cancel():
            return False
        if self._is_told.acquire(blocking=False):
            # Those who wait for several futures at once hear of it by this call, which may be made once.
            self.set_running_or_notify_cancel()
            self._is_over = True
        return True

    # What the dispatcher and the pool call.

    def begin(self, number: int) -> None:
        self._number = number

    def end(self, ended: Ended) -> None:
        if ended.status == Code.CANCELLED and self._is_cancelled_here:
            self._become_cancelled()
            return
        if ended.status != 0:
            # A message that did not fit its place stands in the body, whole.
            whole = ended.body.decode("utf-8", "replace")
            self.fail(Error(ended.status, whole or ended.message))
            return
        try:
            value = json.loads(ended.body)
        except (ValueError, RecursionError) as error:
            self.fail(Error(Code.INTERNAL, f"the result cannot be read: {error}"))
            return
        try:
            self.set_result(value)
        except concurrent.futures.InvalidStateError:
            pass  # It was cancelled here, and whoever cancels gives up the result.
        self._is_over = True

    def fail(self, error: Error) -> None:
        try:
            self.set_exception(error)
        except concurrent.futures.InvalidStateError:
            pass  # As above.
        self._is_over = True
