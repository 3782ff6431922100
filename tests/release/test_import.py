"""``import kvframe`` brings what an engine needs; `make dist-check` says how long it takes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from release.check import newest_glibc

import kvframe

LATER = (
    "click",
    "difflib",
    "email.message",
    "gzip",
    "importlib.metadata",
    "kvframe.bench",
    "kvframe.router",
    "kvframe.slots",
    "kvframe.stats.blocks",
    "kvframe.tiers",
    "kvframe.wire",
    "logging.handlers",
    "tempfile",
)
"""Modules that are imported when something asks for them; each took milliseconds."""


def test_what_few_programs_need_comes_later() -> None:
    code = f"import sys, kvframe; print(*(name for name in {LATER!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_comes_later_is_there() -> None:
    code = """
import kvframe
assert "RouterIndex" in dir(kvframe) and "RouterIndex" not in vars(kvframe)
assert kvframe.RouterIndex is kvframe.RouterIndex and "RouterIndex" in vars(kvframe)
assert kvframe.RouterIndex.__module__ == "kvframe.router"
from kvframe import *
assert SlotCache is kvframe.SlotCache
import kvframe.stats
assert all(getattr(kvframe.stats, name) is not None for name in kvframe.stats.__all__)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(kvframe.__all__) <= set(dir(kvframe))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(kvframe.stats, "nothing")  # noqa: B009


def test_the_newest_glibc_of_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "made.whl"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("a.so", b"..GLIBC_2.9\0GLIBC_2.17\0GLIBCXX_3.4.29\0GLIBC_2.4\0")
        files.writestr("a.py", "GLIBC_2.99")
    assert newest_glibc(wheel) == (2, 17)
