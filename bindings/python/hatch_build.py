"""Puts libmillpond into the wheel, and tags the wheel for this platform.

The library is the one that MILLPOND_LIBRARY names, or what cargo has built in this repository: in release mode if
there is such a one, else in debug mode. It is called through ctypes, so one wheel serves every Python 3.
"""

from __future__ import annotations

import os
import pathlib
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILE = "libmillpond.so"


class LibraryHook(BuildHookInterface):
    """What hatchling calls before it writes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        library = find(pathlib.Path(self.root))
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(library)] = f"millpond/{FILE}"


def find(package: pathlib.Path) -> pathlib.Path:
    """The library that goes into the wheel."""
    named = os.environ.get("MILLPOND_LIBRARY")
    if named:
        places = [pathlib.Path(named).absolute()]
    else:
        repository = package.parents[1]
        target = repository / os.environ.get("CARGO_TARGET_DIR", "target")
        places = [target / profile / FILE for profile in ("release", "debug")]
    for place in places:
        if place.is_file():
            return place
    looked = " and ".join(map(str, places))
    raise FileNotFoundError(
        f"{FILE}: expected it at {looked}, got nothing; "
        "run `cargo build --release -p millpond-ffi`, or name it in MILLPOND_LIBRARY"
    )
