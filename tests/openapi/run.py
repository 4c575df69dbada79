"""Asks the daemon what its own OpenAPI document allows, and much that it does not, with schemathesis.

The document is made from the table of routes, so it cannot lack one; whether it tells the truth is seen here.
Zero failures is the gate. Streams are left to the tests in Rust.

    MILLPOND_BIN=target/debug/millpond python3 tests/openapi/run.py [--examples 25] [--seed 1]

schemathesis is installed into a virtual environment below target/openapi, once.
"""

import argparse
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "openapi"
SCHEMATHESIS = "schemathesis==4.32.5"
# Streams, which are not JSON or never end by themselves, and what is no part of the API.
LEFT_OUT = r"events$|bulk$|^/$|^/assets/"
# Nothing in this run should wait long: a wait is as good as any other answer.
SETTINGS = ["--web-wait-max", "20ms", "--web-request-timeout", "2s", "--results-max", "2000"]
PATIENCE_SECONDS = 30


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--examples", type=int, default=25, help="test cases for each operation")
    arguments.add_argument("--seed", type=int, default=1, help="the same seed asks the same questions")
    options = arguments.parse_args()
    program = os.environ.get("MILLPOND_BIN")
    if not program:
        sys.exit("MILLPOND_BIN: expected the path of the program millpond, got nothing; build it and name it")
    tool = installed()
    with tempfile.TemporaryDirectory(prefix="millpond-openapi-") as folder:
        port = free_port()
        command = [program, "serve", "--listen", f"127.0.0.1:{port}", "--runtime-dir", f"{folder}/run", *SETTINGS]
        with open(PLACE / "daemon.log", "w", encoding="utf-8") as log:
            daemon = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            wait_until_ready(daemon, port)
            status = asked(tool, port, options)
            lives = daemon.poll() is None
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_SECONDS)
    if not lives:
        sys.exit(f"the daemon ended while it was asked; its log is {PLACE / 'daemon.log'}")
    sys.exit(status)


def installed():
    """The path of schemathesis, which is fetched if it is not there."""
    tool = PLACE / "venv" / "bin" / "schemathesis"
    mark = PLACE / "venv" / SCHEMATHESIS
    if not mark.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(PLACE / "venv")], check=True)
        python = str(PLACE / "venv" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", SCHEMATHESIS], check=True)
        mark.touch()
    return tool


def free_port():
    """A port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(daemon, port):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            if daemon.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the daemon does not answer; its log is {PLACE / 'daemon.log'}")
            time.sleep(0.05)


def asked(tool, port, options):
    command = [
        str(tool),
        "--config-file", str(pathlib.Path(__file__).with_name("schemathesis.toml")),
        "run", f"http://127.0.0.1:{port}/openapi.json",
        "--exclude-path-regex", LEFT_OUT,
        "--max-examples", str(options.examples),
        "--seed", str(options.seed),
        "--request-timeout", "20",
        "--continue-on-failure",
        "--report", "ndjson",
        "--report-ndjson-path", str(PLACE / "report.ndjson"),
    ]
    folder = str(pathlib.Path(__file__).parent)
    hooks = {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=PLACE, env={**os.environ, **hooks}, check=False).returncode


if __name__ == "__main__":
    main()
