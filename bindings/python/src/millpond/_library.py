"""libmillpond through ctypes: where it is, and its functions with their types.

It is looked for at the path in the environment variable MILLPOND_LIBRARY; if that is not set, beside this module,
where the wheel has it; then where the system looks. ctypes lets go of the interpreter's lock during each call, so a
call that waits holds up nobody else.

Not here: what the calls mean (`_dispatch.py`).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import pathlib
from typing import NamedTuple

from ._errors import Code, Error

FILE = "libmillpond.so"


class _Result(ctypes.Structure):
    """`result_t` of threadpool.h."""

    _fields_ = [
        ("task_id", ctypes.c_uint64),
        ("status", ctypes.c_int32),
        ("data", ctypes.c_void_p),
        ("data_size", ctypes.c_uint32),
        ("error_msg", ctypes.c_char * 256),
    ]


class Ended(NamedTuple):
    """How a task ended, or one part of its stream."""

    number: int
    status: int
    body: bytes
    message: str


class Library:
    """The functions that are called, each with its types. A handle is a plain address."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        pointer, text, number, milliseconds = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint32
        result = ctypes.POINTER(_Result)

        def function(name: str, gives: type | None, *takes: type) -> ctypes._NamedFuncPointer:
            found = getattr(library, "threadpool_" + name)
            found.restype, found.argtypes = gives, takes
            return found  # type: ignore[no-any-return]

        self.create = function("create", pointer, text)
        self.attach = function("attach", pointer, text)
        self.shutdown = function("shutdown", None, pointer)
        self.submit = function("submit", number, pointer, text)
        self.submit_streaming = function("submit_streaming", number, pointer, text)
        self.cancel = function("cancel", ctypes.c_int, pointer, number)
        self._next_result = function("next_result", result, pointer, milliseconds)
        self._next_partial = function("next_partial", result, pointer, number, milliseconds)
        self._result_free = function("result_free", None, result)
        self._last_error = function("last_error", text)
        self._last_error_code = function("last_error_code", ctypes.c_int32)
        self._version = function("version", text)

    def next_result(self, handle: int, timeout_ms: int) -> Ended | None:
        """Whichever task has ended, each once; None if none has within the time."""
        return self._taken(self._next_result(handle, timeout_ms))

    def next_partial(self, handle: int, number: int, timeout_ms: int) -> Ended | None:
        """The next part of a stream; None if none has come within the time. At its end an `OK` is raised."""
        return self._taken(self._next_partial(handle, number, timeout_ms))

    def _taken(self, pointer: ctypes._Pointer[_Result]) -> Ended | None:
        if not pointer:
            error = self.last_error()
            if error.code == Code.NOT_ENDED:
                return None
            raise error
        result = pointer.contents
        body = ctypes.string_at(result.data, result.data_size) if result.data else b""
        message = result.error_msg.decode("utf-8", "replace")
        ended = Ended(result.task_id, result.status, body, message)
        self._result_free(pointer)
        return ended

    def last_error(self) -> Error:
        """What the library says about the call of this thread that just failed."""
        text = self._last_error() or b""
        return Error(self._last_error_code(), text.decode("utf-8", "replace"))

    def version(self) -> str:
        return str((self._version() or b"").decode("ascii", "replace"))


@functools.cache
def load() -> Library:
    """The library, looked for once."""
    named = os.environ.get("MILLPOND_LIBRARY")
    beside = pathlib.Path(__file__).with_name(FILE)
    place = named or (str(beside) if beside.exists() else ctypes.util.find_library("millpond"))
    if place is None:
        raise Error(Code.NOT_FOUND, f"{FILE}: expected it beside the module or on the system, got nothing; "
                    "name it in MILLPOND_LIBRARY")
    try:
        return Library(place)
    except (OSError, AttributeError) as error:
        raise Error(Code.NOT_FOUND, f"{FILE}: {place}: {error}; name another in MILLPOND_LIBRARY") from error


def library_version() -> str:
    """The version of the library that is called."""
    return load().version()
