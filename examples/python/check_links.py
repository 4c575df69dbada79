"""Checks the web links in Markdown files, many at a time, and says which are broken.

    pip install millpond-0.1.0-py3-none-linux_x86_64.whl
    python examples/python/check_links.py README.md docs/*.md
    python examples/python/check_links.py --attach millpond README.md

The requests are made by the built-in handler `http_get`, in a pool inside this program, or with `--attach` in a
running daemon, whose configuration then says whom it may talk to (`allow.hosts`). Python only asks and waits. The
exit code is 1 if a link is broken. With MILLPOND_EXAMPLE_QUICK set it checks a page of its own, served by itself,
and needs no network.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import http.server
import os
import pathlib
import re
import sys
import tempfile
import threading
from urllib.parse import urlsplit

import millpond

LINK = re.compile(r"https?://[^\s<>()\[\]\"'`]+")
TIMEOUT_MS = 20_000


async def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--attach", metavar="NAME", help="use the daemon of this name")
    arguments.add_argument("files", nargs="*", type=pathlib.Path)
    options = arguments.parse_args()
    found = links(options.files)
    with opened(options.attach, found) as pool:
        states = await asyncio.gather(*(check(pool, link) for link in found))
    broken = 0
    for link, state in zip(found, states):
        broken += state != "200"
        print(f"{state:<16} {link}  ({', '.join(map(str, found[link]))})")
    print(f"{len(found)} links, {broken} broken")
    return 1 if broken else 0


def links(files: list[pathlib.Path]) -> dict[str, list[pathlib.Path]]:
    """Every link once, with the files it stands in."""
    found: dict[str, list[pathlib.Path]] = {}
    for file in files:
        for link in sorted(set(LINK.findall(file.read_text(encoding="utf-8")))):
            found.setdefault(link.rstrip(".,;:"), []).append(file)
    return found


def opened(name: str | None, found: dict[str, list[pathlib.Path]]) -> millpond.Pool:
    """The daemon's pool, or one of our own that may talk to the hosts in question and to nobody else."""
    if name is not None:
        return millpond.Pool.attach(name)
    hosts = sorted({urlsplit(link).netloc for link in found})
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(f"allow.hosts = {hosts!r}\n")
        config.flush()
        return millpond.Pool.create(config.name)


async def check(pool: millpond.Pool, link: str) -> str:
    """The status of the answer, or why there was none."""
    try:
        answer = await pool.call("http_get", url=link, timeout_ms=TIMEOUT_MS)
    except millpond.Error as error:
        return error.name
    return str(answer["status"])


async def rehearsal() -> int:
    """The same with a server of our own: two links that lead somewhere, and one that does not."""
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            home = f"http://127.0.0.1:{server.server_port}"
            page.write_text(f"See <{home}/page.md>, [here]({home}/) and {home}/gone.\n", encoding="utf-8")
            sys.argv[1:] = [str(page)]
            status = await main()
            server.shutdown()
    return 0 if status == 1 else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(rehearsal() if os.environ.get("MILLPOND_EXAMPLE_QUICK") else main()))
