"""Runs steps on the card, one row a step."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from kvframe.calibrate.grid import Step
from kvframe.calibrate.profile import COLUMNS, Steps
from kvframe.calibrate.store import Measured

if TYPE_CHECKING:
    from kvframe.calibrate.engine import Engine

DRIVER_S = 30
"""Seconds that the driver has to say its version."""

HEADER = (*COLUMNS[:4], "kv_prefill", "step_us", "host_us")


def measure(
    engine: Engine, steps: Iterable[Step], path: Path, on_step: Callable[[int], object]
) -> Steps:
    """Measure each step and append its row to a CSV file at once.

    An interrupted run keeps the rows that it has measured.

    Args:
        engine: The decoder on the card.
        steps: What to run.
        path: The file, written anew.
        on_step: Called with the number of steps measured, after each.
    """
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(HEADER)
        for done, step in enumerate(steps, 1):
            card, host = engine.measure(step)
            attended = sum(step.contexts)
            facts = (step.num_tokens, len(step.contexts), attended, step.chunk, step.before)
            rows.writerow([*facts, f"{card:.1f}", f"{host:.1f}"])
            file.flush()
            on_step(done)
    return Steps.read(path)


def measured_here(command: str) -> Measured:
    """The card, driver and software of this process."""
    import subprocess

    import torch

    asked = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=DRIVER_S)
        driver = done.stdout.split("\n")[0]
    except subprocess.TimeoutExpired:
        driver = "unknown"
    return Measured(
        card=torch.cuda.get_device_name(),
        driver=driver,
        software=f"torch {torch.__version__}",
        date=date.today().isoformat(),
        command=command,
    )
