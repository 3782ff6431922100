"""Long calls let other threads run; a free-threaded interpreter loads the core without a lock."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kvframe import KVCacheManager, Request
from tests.manager.helpers import manager
from tests.workers import beside

ROOT = Path(__file__).parents[2]
NAMED = os.environ.get("KVFRAME_FREE_THREADED")
FREE = NAMED or shutil.which("python3.14t") or shutil.which("python3.13t")
"""A free-threaded interpreter with NumPy, maturin and pytest; one that is named has to be there."""

TOKENS = np.arange(3_000_000, dtype=np.uint32)


def full() -> KVCacheManager:
    kv = manager(60_000, 4)
    seq = kv.allocate(np.arange(200_000, dtype=np.uint32)).seq
    kv.commit(seq, 200_000)
    kv.release(seq)
    return kv


CALLS: dict[str, Callable[[KVCacheManager], object]] = {
    "hash_blocks": lambda kv: kv.blocks.hash_blocks(TOKENS),
    "lookup": lambda kv: kv.lookup(TOKENS),
    "admit": lambda kv: kv.allocate(Request(TOKENS, partial=True)),
    "check_integrity": lambda kv: kv.check_integrity(),
    "snapshot": lambda kv: kv.inspect.snapshot(),
    "clear_cache": lambda kv: kv.reset_prefix_cache(),
    "collect": lambda kv: kv.evict_until(60_000),
    "resize": lambda kv: kv.resize(100),
}


@pytest.mark.scenario("SA-6", "FE-B28")
@pytest.mark.parametrize("name", CALLS)
def test_a_long_call_lets_other_threads_run(name: str) -> None:
    # Some do their work once: each round has a manager of its own, so that a busy machine, on which
    # the other thread now and then wakes too late, has several chances.
    assert any(turns(full(), name, 30) for _ in range(200)), f"{name} kept every other thread out"


def test_a_short_call_keeps_the_interpreter() -> None:
    """Giving it away and taking it back costs more than such a call."""
    kv = manager(64, 4)
    assert turns(kv, "check_integrity", 300) == 0


def turns(kv: KVCacheManager, name: str, tries: int) -> int:
    """How often another thread had its turn while a call was made, up to ``tries`` times.

    With the interpreter's switch interval at a minute it has none but when a call detaches.
    """
    interval = sys.getswitchinterval()
    ticks, ready, stop = [0], threading.Event(), threading.Event()

    def count() -> None:
        ready.set()
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0)

    def end() -> None:
        sys.setswitchinterval(interval)
        stop.set()

    with beside(count, stop=end):
        assert ready.wait(20)
        sys.setswitchinterval(60)
        before, seen = ticks[0], 0
        for _ in range(tries):
            CALLS[name](kv)
            seen = ticks[0] - before
            if seen:
                break
    kv.check_integrity()
    return seen


@pytest.mark.scenario("SA-6", "SA-B13", "IL-B14")
@pytest.mark.skipif(
    FREE is None,
    reason="no python3.14t or python3.13t on the path: name one in KVFRAME_FREE_THREADED",
)
def test_the_core_runs_free_threaded(tmp_path: Path) -> None:
    """Built for that interpreter; importing it leaves the lock off, and the threads test passes."""
    assert FREE is not None
    build = [sys.executable, "-m", "maturin", "build", "--profile", "dev", "-i", FREE]
    subprocess.run([*build, "--out", str(tmp_path)], cwd=ROOT, check=True, timeout=500)
    (wheel,) = tmp_path.glob("kvframe-*t-*.whl")
    venv = tmp_path / "venv"
    subprocess.run([FREE, "-m", "venv", "--system-site-packages", venv], check=True, timeout=100)
    python = str(venv / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True, timeout=300)
    code = "import sys, kvframe; assert not sys._is_gil_enabled()"
    subprocess.run([python, "-c", code], check=True, timeout=60)
    tests = ["tests/manager/test_threads.py"]
    subprocess.run([python, "-m", "pytest", *tests], cwd=ROOT, check=True, timeout=500)
