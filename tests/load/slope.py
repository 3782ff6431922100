"""Whether memory grows: a line by least squares through what was resident, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

STRETCHES = 20
T = 2.101
"""Student's t of 18 degrees of freedom, two-sided 95 %: NIST/SEMATECH e-Handbook, 1.3.6.7.2."""

WARM = 0.4
"""Share of the samples, the first ones, that are left out: tables and heaps reach their size."""

ALLOWED = 0.01
"""Growth over all of the run, as a share of what is resident, up to which memory counts as flat."""


class Growth(NamedTuple):
    """How a quantity changes over a run.

    Attributes:
        slope: A unit of what it is held against.
        low: Lower end of the slope's 95 % interval.
        high: Upper end.
        mean: Of the quantity.
        span: Of what it is held against.
    """

    slope: float
    low: float
    high: float
    mean: float
    span: float

    def is_flat(self, allowed: float = ALLOWED) -> bool:
        """Whether even the interval's upper end adds less than that share over the run."""
        return self.high * self.span < allowed * self.mean


def growth(samples: Sequence[tuple[float, float]]) -> Growth:
    """The line through samples (at, quantity), without the first `WARM` of them.

    Neighbours resemble each other, which would make the interval too narrow. So the line goes
    through the means of `STRETCHES` stretches.

    Raises:
        ValueError: There are fewer samples than stretches.
    """
    kept = samples[int(len(samples) * WARM) :]
    if len(kept) < STRETCHES:
        raise ValueError(f"{len(kept)} samples: must be {STRETCHES} at least")
    cuts = [len(kept) * at // STRETCHES for at in range(STRETCHES + 1)]
    means = [
        tuple(fmean(column) for column in zip(*kept[start:end], strict=True))
        for start, end in pairwise(cuts)
    ]
    middle, mean = (fmean(column) for column in zip(*means, strict=True))
    spread = sum((at - middle) ** 2 for at, _ in means)
    slope = sum((at - middle) * (value - mean) for at, value in means) / spread
    left = sum((value - mean - slope * (at - middle)) ** 2 for at, value in means)
    half = T * (left / (STRETCHES - 2) / spread) ** 0.5
    return Growth(slope, slope - half, slope + half, mean, kept[-1][0] - kept[0][0])


def resident(process: int | str = "self") -> int:
    """Bytes of a process that are in memory (Linux)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{process}/status has no VmRSS")
