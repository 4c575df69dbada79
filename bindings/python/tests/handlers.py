"""Handlers to try things with, as a program that a pool runs: `count`, `fail`, `hold` and `leave`.

`count` says every number up to `to`; `fail` fails as it is told to; `hold` says that it has begun, and never ends;
`leave` works for a moment and then leaves a file behind.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from typing import Any


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def count(args: dict[str, Any]) -> None:
    for number in range(1, args["to"] + 1):
        say(partial={"number": number})
        say(progress=number / args["to"])
    if "fail" in args:
        say(error=args["fail"])
    else:
        say(result={"counted": args["to"]})


def fail(args: dict[str, Any]) -> None:
    say(error={"code": args.get("code", "handler-error"), "message": args.get("message", "as it was told to")})


def hold(args: dict[str, Any]) -> None:
    say(partial="begun")
    while True:
        time.sleep(3600)


def leave(args: dict[str, Any]) -> None:
    time.sleep(0.1)
    pathlib.Path(args["path"]).touch()
    say(result=None)


for line in sys.stdin:
    task = json.loads(line)
    {"count": count, "fail": fail, "hold": hold, "leave": leave}[task["handler"]](task["args"])
