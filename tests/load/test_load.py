"""The load of ``python -m tests.load``, short, and that its judge sees a leak."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from mmap import mmap
from pathlib import Path
from random import Random

import pytest

from ..amounts import amount
from .slope import STRETCHES, growth, resident

ROOT = Path(__file__).parents[2]
CORE, PAGES = amount(3_000_000, 12_000_000), amount(8_000, 60_000)


def test_memory_stays_flat_under_load_and_every_page_is_right() -> None:
    if shutil.which("redis-server") is None or find_spec("kvframe_redis") is None:
        pytest.skip("needs redis-server and plugins/kvframe-redis")
    load = ["--core", str(CORE), "--bytes", str(PAGES), "--rounds", "50"]
    # In seconds, tables and heaps have hardly reached their size: hours are judged by 1 %.
    small = ["--size", "3000", "--blocks", str(1 << 15), "--allowed", "0.05"]
    # A process of its own: what other tests leave in memory would hide what this one adds.
    command = [sys.executable, "-m", "tests.load", *load, *small]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "\nflat (limit 5%)" in ran.stdout


def test_a_process_that_keeps_what_it_allocates_is_not_flat() -> None:
    kept, samples = [], []
    for at in range(60):
        kept.append(mmap(-1, 1 << 20))  # no heap has it to give from before
        kept[-1].write(b"\1" * (1 << 20))
        samples.append((float(at), float(resident())))
    found = growth(samples)
    assert not found.is_flat()
    assert found.low < (1 << 20) * 1.3  # the system may take pages back, or give them late
    assert found.high > (1 << 20) * 0.7


def test_the_interval_holds_the_slope_that_noise_was_added_to() -> None:
    missed = 0
    for seed in range(200):
        dice = Random(seed)
        found = growth([(at, 1e6 + 3 * at + dice.gauss(0, 50)) for at in range(400)])
        missed += not found.low <= 3 <= found.high
    assert 2 <= missed <= 20  # 5 % of 200 is 10
    steady = growth([(at, 1e6 + Random(at).gauss(0, 50)) for at in range(400)])
    assert steady.is_flat()


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match=rf"12 samples: must be {STRETCHES} at least"):
        growth([(at, 1.0) for at in range(20)])
