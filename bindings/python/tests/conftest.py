"""A daemon to attach to, and pools of both kinds. Most tests run on both: users should not see a difference.

MILLPOND_BIN is the program `millpond`; MILLPOND_LIBRARY the library, unless the package that is tested has one.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import millpond
import pytest

PATIENCE = 60.0
"""Seconds after which something that should have happened is taken to have failed. Nothing waits that long."""


class Daemon:
    """`millpond serve` in a directory of its own."""

    def __init__(self, folder: pathlib.Path, config: pathlib.Path) -> None:
        self.directory = str(folder / "run")
        self._log = folder / "daemon.log"
        self._config = config
        self.start()

    def start(self) -> None:
        command = [os.environ["MILLPOND_BIN"], "serve", "--config", str(self._config), "--runtime-dir", self.directory]
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                millpond.Pool.attach(self.directory).close()
                return
            except millpond.Error as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"the daemon does not answer: {error}\n{self._log.read_text()}")
                time.sleep(0.02)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture(scope="session")
def folder() -> Iterator[pathlib.Path]:
    # Not pytest's own folders: their paths are too long for a socket.
    with tempfile.TemporaryDirectory(prefix="millpond-") as folder:
        yield pathlib.Path(folder)


@pytest.fixture(scope="session")
def config(folder: pathlib.Path) -> pathlib.Path:
    """A configuration with the handlers of `handlers.py` beside the built-in ones."""
    program = pathlib.Path(__file__).with_name("handlers.py")
    path = folder / "millpond.toml"
    lines = ["workers = 2\nweb.enabled = false\ndrain_timeout = \"5s\"\n"]
    for name, concurrency in {"count": 2, "fail": 1, "hold": 8, "leave": 1}.items():
        lines.append(f'[handler.{name}]\ncommand = ["{sys.executable}", "{program}"]\nconcurrency = {concurrency}\n')
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def daemon(folder: pathlib.Path, config: pathlib.Path) -> Iterator[Daemon]:
    daemon = Daemon(folder, config)
    yield daemon
    daemon.stop()


@pytest.fixture(scope="session", params=["created", "attached"])
def pool(request: pytest.FixtureRequest, config: pathlib.Path) -> Iterator[millpond.Pool]:
    """A pool of each kind, for tests that leave it as they found it."""
    if request.param == "created":
        pool = millpond.Pool.create(config)
    else:
        pool = millpond.Pool.attach(request.getfixturevalue("daemon").directory)
    with pool:
        yield pool


@pytest.fixture(params=["created", "attached"])
def own_pool(request: pytest.FixtureRequest, config: pathlib.Path) -> Iterator[millpond.Pool]:
    """The same for tests that close it, or worse."""
    if request.param == "created":
        pool = millpond.Pool.create(config)
    else:
        pool = millpond.Pool.attach(request.getfixturevalue("daemon").directory)
    yield pool
    pool.close(cancel=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def mortal(folder: pathlib.Path, config: pathlib.Path) -> Iterator[Daemon]:
    """A daemon that tests may kill."""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    daemon = Daemon(place, config)
    yield daemon
    daemon.stop()
