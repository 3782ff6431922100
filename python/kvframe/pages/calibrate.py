"""Which way of swapping is best on this card: measured once beside compute, and kept in a file.

Bandwidth alone would choose wrong: a kernel that reads the host is as fast as the copy engine, but
slows the model by half meanwhile. So the cost of a way is the time of its transfer plus the time
that compute beside it loses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from kvframe.files import CONFIG_BYTES, read_regular
from kvframe.pages.cupy import cupy
from kvframe.pages.device import DevicePool
from kvframe.pages.interference import Products
from kvframe.pages.swap import Swap
from kvframe.pages.transfer_paths import Way, Ways

SIDE = 4096
"""Matrices of the products beside which is measured: 96 MiB, a fifth of a millisecond each."""
SIZES = (1, 4, 16, 32, 64, 256)
"""Pages of the transfers that are measured."""
NOISE = 0.05
"""Costs closer than this count as equal; of equal ways the first of `PREFERRED` is taken."""
PREFERRED: tuple[Way, ...] = ("rows", "staged", "split", "batch", "kernel")
_LEAST_SECONDS = 5e-3
_VERSION = 2


@dataclass(frozen=True)
class Measured:
    """What one transfer took: seconds of its own, and seconds that compute lost meanwhile."""

    direction: str
    way: Way
    pages: int
    seconds: float
    lost: float

    @property
    def cost(self) -> float:
        """A second that compute loses counts as much as one that the transfer takes."""
        return self.seconds + self.lost


@dataclass(frozen=True)
class Calibration:
    """Ways for a `kvframe.pages.swap.Swap`, and the figures that they follow from."""

    card: str
    out: Ways
    bring: Ways
    measured: tuple[Measured, ...]


def calibrate(
    device: DevicePool,
    host: DevicePool,
    *,
    folder: Path | None = None,
    sizes: Sequence[int] = SIZES,
) -> Calibration:
    """The ways that cost least between these pools on their card.

    The first call for a card and a shape of pages takes some seconds and memory for three matrices
    and staging buffers; **it overwrites the host pool and the device pool**, so calibrate before
    they are used. The answer is kept in a file, which later calls read.

    Args:
        device: As for `Swap`.
        host: As for `Swap`.
        folder: Where the file is; ``kvframe`` in the user's cache folder if None.
        sizes: Pages of the transfers to measure; those that do not fit a pool are left out.
    """
    with cupy.cuda.Device(device.gpu.device):
        return _calibrate(device, host, folder or _cache_folder(), sizes)


def _calibrate(
    device: DevicePool, host: DevicePool, folder: Path, sizes: Sequence[int]
) -> Calibration:
    card = cupy.cuda.runtime.getDeviceProperties(device.gpu.device)["name"].decode()
    path = folder / f"{_name(card, device)}.json"
    if (kept := _read(path)) is not None:
        return kept
    fitting = [n for n in sizes if n <= min(device.layout.blocks, host.layout.blocks)]
    products, measured = Products(SIDE), []
    for way in Swap(device, host).possible():
        swap = Swap(device, host, out=Ways((), way), bring=Ways((), way))
        for pages in fitting:
            measured += _measure(swap, way, pages, products)
    ways = {d: _cheapest([m for m in measured if m.direction == d]) for d in ("out", "bring")}
    found = Calibration(card, ways["out"], ways["bring"], tuple(measured))
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    fresh.write_text(json.dumps({"version": _VERSION, **asdict(found)}, indent=1) + "\n")
    fresh.replace(path)
    return found


def _measure(swap: Swap, way: Way, pages: int, products: Products) -> list[Measured]:
    draw = np.random.default_rng(pages)
    here = draw.permutation(swap.device.layout.blocks)[:pages]
    there = draw.permutation(swap.host.layout.blocks)[:pages]
    found = []
    for direction, call in (
        ("out", partial(swap.out, here, there)),
        ("bring", partial(swap.bring, there, here)),
    ):
        call().synchronize()
        start = cupy.cuda.get_current_stream().record(cupy.cuda.Event())
        end = call()
        end.synchronize()
        alone = cupy.cuda.get_elapsed_time(start, end) / 1e3
        times = max(1, int(_LEAST_SECONDS / alone))
        product = products.alone(20)
        # Products for four times as long as the transfers take alone: some ways wait for compute.
        count = int(4 * (times * (alone + 2 * product) + 4e-3) / product) + 20
        seconds, slower = products.harm(call, times, count, turns=3)
        found.append(Measured(direction, way, pages, seconds, max(0.0, slower) * seconds))
    return found


def _cheapest(measured: Sequence[Measured]) -> Ways:
    """The cheapest way at each size, neighbours of one way put together."""
    sizes = sorted({m.pages for m in measured})
    best = [_cheapest_at([m for m in measured if m.pages == n]) for n in sizes]
    ends = [i for i in range(len(sizes) - 1) if best[i] != best[i + 1]]
    return Ways(tuple((sizes[i], best[i]) for i in ends), best[-1])


def _cheapest_at(measured: Sequence[Measured]) -> Way:
    limit = (1 + NOISE) * min(m.cost for m in measured)
    return min((m.way for m in measured if m.cost <= limit), key=PREFERRED.index)


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvframe"


def _name(card: str, device: DevicePool) -> str:
    shape, word = device.layout.shape, "-".join(card.lower().split())
    driver = cupy.cuda.runtime.driverGetVersion()
    rows = f"{shape.layers}x{shape.parts}x{shape.block_size}x{shape.heads}x{shape.row_bytes}"
    return f"swap-{word}-cuda{driver}-{device.layout.order}-{rows}"


def _read(path: Path) -> Calibration | None:
    """What an earlier call kept; None if there is none, or one of another version."""
    try:
        found: dict[str, Any] = json.loads(read_regular(path, CONFIG_BYTES))
        if found.pop("version") != _VERSION:
            return None
        ways = {d: _ways(found[d]) for d in ("out", "bring")}
        measured = tuple(Measured(**m) for m in found["measured"])
        return Calibration(found["card"], ways["out"], ways["bring"], measured)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return None


def _ways(told: dict[str, Any]) -> Ways:
    steps = tuple((int(most), way) for most, way in told["steps"])
    if not all(way in get_args(Way) for _, way in steps):
        raise ValueError("a way of another version")
    return Ways(steps, told["beyond"])
