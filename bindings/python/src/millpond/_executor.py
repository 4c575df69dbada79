"""The interface of `concurrent.futures.Executor`, for code that wants one.

A pool runs handlers and no Python functions, so a function given here is never called: it lends its name and the
names of its parameters. `def resize(path, width): ...` stands for the handler `resize` with the arguments `path` and
`width`.
"""

from __future__ import annotations

import concurrent.futures
import inspect
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ._pool import Pool
from ._task import Task


class Executor(concurrent.futures.Executor):
    """Submits to `pool`. With `handler` everything goes to that handler; without one, what is submitted names it.

        executor = millpond.Executor(pool, "resize")
        executor.submit(None, path="a.png", width=100)

    Shutting it down leaves the pool open.
    """

    def __init__(self, pool: Pool, handler: str | None = None) -> None:
        self._pool = pool
        self._handler = handler
        self._lock = threading.Lock()
        self._tasks: weakref.WeakSet[Task] = weakref.WeakSet()
        self._is_shut_down = False

    def submit(
        self, fn: Callable[..., Any] | str | None, /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        """Asks for a handler.

        `fn` is a function that stands for it, its name, or None if the executor has one. Arguments go by the names of
        the function's parameters; without a function they have names already, or are one mapping.
        """
        request = {"handler": self._name(fn), "args": _arguments(fn, args, kwargs)}
        if self._is_shut_down:
            raise RuntimeError("cannot submit to an executor that was shut down")
        task = self._pool.submit_request(request)
        with self._lock:
            self._tasks.add(task)
            is_late = self._is_shut_down
        if is_late:
            # It was shut down while this waited for room, and whoever did so will not wait for this task.
            task.cancel()
            raise RuntimeError("the executor was shut down during this call")
        return task

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more; `wait` for what was submitted here, `cancel_futures` ends it first."""
        with self._lock:
            self._is_shut_down = True
            tasks = list(self._tasks)
        if cancel_futures:
            for task in tasks:
                task.cancel()
        if wait:
            concurrent.futures.wait(tasks)

    def _name(self, fn: Callable[..., Any] | str | None) -> str:
        if self._handler is not None:
            return self._handler
        name = fn if isinstance(fn, str) else getattr(fn, "__name__", None)
        if name is None:
            raise TypeError(f"expected the name of a handler or a function named like one, got {fn!r}")
        return str(name)


def _arguments(
    fn: Callable[..., Any] | str | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Mapping[str, Any]:
    if callable(fn):
        return inspect.signature(fn).bind(*args, **kwargs).arguments
    if not args:
        return kwargs
    if len(args) == 1 and isinstance(args[0], Mapping):
        return {**args[0], **kwargs}
    raise TypeError(f"expected arguments with names, or one mapping of them, got {args!r}")
