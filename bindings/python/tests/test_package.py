"""The package itself: its table of codes, its exception, and where it looks for the library."""

from __future__ import annotations

import os
import pathlib
import pickle
import re
import subprocess
import sys

import millpond
import pytest

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "errors.md"


def test_every_code_of_the_table_is_here_and_no_other() -> None:
    rows = re.findall(r"^\| (-?\d+) \| `([a-z-]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 20
    assert {(int(number), name) for number, name in rows} == {
        (code.value, millpond.Error(code, "").name) for code in millpond.Code
    }


def test_an_error_says_what_it_is_and_survives_a_pickle() -> None:
    error = millpond.Error(-102, "queue is full")
    assert (error.code, error.name, error.message) == (-102, "queue-full", "queue is full")
    assert str(error) == "queue is full (queue-full, -102)"
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.message) == (error.code, error.message)
    assert millpond.Error(-9999, "new").name == "unknown"


def test_the_library_and_the_package_are_of_one_version() -> None:
    assert millpond.library_version() == millpond.__version__


def run(library: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MILLPOND_LIBRARY"}
    if library is not None:
        environment["MILLPOND_LIBRARY"] = library
    program = (
        "import millpond\n"
        "try:\n    print(millpond.library_version())\n"
        "except millpond.Error as error:\n    print(error.name, error.message)\n"
    )
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)


def test_a_library_that_is_named_is_the_one_that_is_loaded() -> None:
    said = run("/nowhere/libmillpond.so")
    assert said.stdout.startswith("not-found libmillpond.so: /nowhere/libmillpond.so") and not said.stderr
    wrong = run(__file__)
    assert wrong.stdout.startswith("not-found") and "MILLPOND_LIBRARY" in wrong.stdout


def test_the_library_beside_the_module_is_found() -> None:
    beside = pathlib.Path(millpond.__file__).with_name("libmillpond.so")
    if not beside.exists():
        pytest.skip("this package was not installed from a wheel")
    assert run(None).stdout.strip() == millpond.__version__
