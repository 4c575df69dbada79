"""What can go wrong: the one table of codes, and the one exception that carries them.

Numbers and names keep their meaning for ever. The table itself is in the Rust source; a test holds this one against
the page made from it, docs/errors.md.
"""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """The error codes of millpond."""

    OK = 0
    UNKNOWN_HANDLER = -1
    INVALID_REQUEST = -2
    UNKNOWN_SYMBOL = -3
    OUT_OF_MEMORY = -4
    HANDLER_CRASHED = -5
    TIMED_OUT = -6
    CANCELLED = -101
    QUEUE_FULL = -102
    DRAINING = -103
    EXPIRED = -104
    DROPPED = -105
    RESULT_GONE = -106
    NOT_ALLOWED = -107
    BAD_ARGUMENTS = -108
    HANDLER_ERROR = -109
    TOO_LARGE = -110
    DUPLICATE_ID = -111
    NOT_FOUND = -112
    ALREADY_ENDED = -113
    KEY_REUSED = -114
    RETRIES_EXHAUSTED = -115
    NOT_ENDED = -116
    DAEMON_DIED = -117
    JOURNAL_FULL = -118
    JOURNAL_FAILED = -119
    POSTPONED = -120
    INTERNAL = -199


class Error(Exception):
    """Something was refused, or a task failed.

    `code` is the number, to be compared with `Code`; `name` is its name, "queue-full" for example; `message` is a
    sentence for people.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    @property
    def name(self) -> str:
        """The name of the code; "unknown" if a newer library has a code that this table lacks."""
        try:
            return Code(self.code).name.lower().replace("_", "-")
        except ValueError:
            return "unknown"

    def __str__(self) -> str:
        return f"{self.message} ({self.name}, {self.code})"
