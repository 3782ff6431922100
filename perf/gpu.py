"""Pages on a card, beside ceilings measured in the same run: ``python -m perf.gpu [--json]``.

The shape is that of an 8B model: 32 layers, 8 KV heads of 128 values in bf16, blocks of 16 tokens
(2 MiB), in a layer-first pool with scattered ids. Bandwidths count bytes read and written on the
device, and bytes over the bus to and from the host.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import cupy
import numpy as np

from kvframe.bench.results import now
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, PageShape, batch
from kvframe.pages.cupy import CupyPool, host_pool, pinned
from kvframe.pages.interference import Products
from kvframe.pages.swap import Swap
from perf.results import command

SHAPE = PageShape(layers=32, parts=2, block_size=16, heads=8, row_bytes=256)
PAGE = SHAPE.page_bytes
SEGMENT = PAGE // (SHAPE.layers * SHAPE.parts)
POOL, HOST, MANY, SIDE = 2304, 576, 512, 8192
draw = np.random.default_rng(0)
try:
    import torch
except ImportError:  # a peer, not needed
    torch = None
Call = Callable[[], object]


def ids(end: int, count: int) -> Any:
    """So many scattered ids."""
    return draw.permutation(end)[:count].astype(np.int32)


def timed(call: Call, repeat: int = 10, behind: Call | None = None) -> float:
    """Median seconds between two events around a call, and around the event it answers.

    With ``behind``, the call is queued behind that, as a step's copies are behind its compute: what
    the host does before the launch is then not in it.
    """
    stream = cupy.cuda.get_current_stream()
    taken: list[float] = []
    for turn in range(repeat + 2):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        if behind is not None:
            behind()
        start.record(stream)
        joined = call()
        if isinstance(joined, cupy.cuda.Event):
            end = joined
        else:
            end.record(stream)
        end.synchronize()
        if turn >= 2:
            taken.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return statistics.median(taken)


def memcpy(target: int, source: int, size: int) -> None:
    """One copy by the driver, on the current stream."""
    stream = cupy.cuda.get_current_stream().ptr
    kind = cupy.cuda.runtime.memcpyDefault
    cupy.cuda.runtime.memcpyAsync(target, source, size, kind, stream)


@contextmanager
def on_torch() -> Iterator[None]:
    """CuPy's current stream is torch's."""
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        yield


Row = dict[str, Any]


def row(what: str, value: float, unit: str, ceiling: float) -> Row:
    """A measurement beside what it cannot pass, or must not."""
    print(f"{what:24} {value:10.3f} {unit:5} of {ceiling:10.3f}", file=sys.stderr)
    return {
        "what": what,
        "value": value,
        "unit": unit,
        "ceiling": ceiling,
        "share": value / ceiling if ceiling else None,
    }


def page_copies(pool: CupyPool, memory: Any) -> list[Row]:
    """Within the device: many blocks, and the few of a step, host time all told."""
    half = memory.nbytes // 2 // PAGE
    size = min(1024, half) * PAGE
    base = int(memory.data.ptr)

    def whole() -> None:
        memcpy(base + half * PAGE, base, size)

    ceiling = 2 * size / timed(whole, behind=whole) / 1e9
    both = ids(POOL, 2048)
    src, dst = both[:1024], both[1024:]
    rate = 2048 * PAGE / timed(lambda: pool.copy(src, dst), behind=whole) / 1e9
    alone = 2048 * PAGE / timed(lambda: pool.copy(src, dst)) / 1e9
    rows = [
        row("page_copy_1024", rate, "GB/s", ceiling),
        row("page_copy_1024_idle", alone, "GB/s", ceiling),
    ]
    view = memory[: POOL * PAGE].reshape(POOL, PAGE)
    there = [cupy.asarray(each) for each in (src, dst)]

    def fancy() -> None:
        view[there[1]] = view[there[0]]

    rows.append(row("beside_cupy_indexing", 2048 * PAGE / timed(fancy, 3) / 1e9, "GB/s", ceiling))
    if torch is not None:
        table = torch.as_tensor(view, device="cuda")
        read, written = (torch.as_tensor(each).long() for each in there)

        def select() -> None:
            table.index_copy_(0, written, table.index_select(0, read))

        with on_torch():
            rate = 2048 * PAGE / timed(select, 3) / 1e9
        rows.append(row("beside_torch_index_copy", rate, "GB/s", ceiling))
    worst = 0.0
    for count in (1, 2, 4, 8):
        copies = np.stack([both[:count], both[count : 2 * count], np.full(count, 7)], axis=1)
        copies = copies.astype(np.int32)
        taken = []
        for _ in range(300):
            start = time.perf_counter()
            pool.copy(copies[:, 0], copies[:, 1], copies[:, 2])
            taken.append(time.perf_counter() - start)
            cupy.cuda.get_current_stream().synchronize()
        worst = max(worst, statistics.median(taken[50:]) * 1e6)
    return [*rows, row("page_copy_step", worst, "us", 15.0)]


def swaps(pool: CupyPool, compute: Products) -> list[Row]:
    """Over the bus: alone, beside compute, few blocks, layer by layer."""
    _, mapped = host_pool(Layout.of(BLOCK_FIRST, SHAPE, HOST))
    swap = Swap(pool, mapped)
    size = MANY * PAGE
    flat, device = pinned(size), cupy.empty(size, cupy.uint8)
    host, here = flat.ctypes.data, int(device.data.ptr)
    out = size / timed(lambda: memcpy(host, here, size)) / 1e9
    bring = size / timed(lambda: memcpy(here, host, size)) / 1e9
    pages, there = ids(POOL, MANY), ids(HOST, MANY)
    paths: dict[str, tuple[Call, float]] = {
        "swap_out": (lambda: swap.out(pages, there), out),
        "swap_in": (lambda: swap.bring(there, pages), bring),
    }
    rows = [row(name, size / timed(call) / 1e9, "GB/s", top) for name, (call, top) in paths.items()]
    slower = []
    for name, (call, top) in paths.items():
        moving, share = compute.harm(call, 2, 70, turns=11)
        rows.append(row(f"{name}_busy", size / moving / 1e9, "GB/s", top))
        slower.append(share * 100)
    few, few_there = pages[:8], there[:8]
    few_ceiling = 8 * PAGE / timed(lambda: memcpy(host, here, 8 * PAGE), 20) / 1e9
    eights = {
        "swap_8_busy": lambda: swap.out(few, few_there),
        "swap_8_in_busy": lambda: swap.bring(few_there, few),
    }
    for name, call in eights.items():
        taken = statistics.median(compute.beside(call, 20, 80)[0] for _ in range(9))
        rows.append(row(name, 8 * PAGE / taken / 1e9, "GB/s", few_ceiling))
    rows.append(row("compute_slowdown", max(slower), "%", 5.0))
    rows += segments(pool, mapped, pages[:256], there[:256], {"out": out, "in": bring})
    return [*rows, onboard(swap, pages, there)]


def segments(
    pool: CupyPool, mapped: Any, pages: Any, there: Any, tops: dict[str, float]
) -> list[Row]:
    """The peers' ways over the bus: every segment (a layer's K or V of a block) by itself."""
    size, rows = len(pages) * PAGE, []
    device = (pool.planes + pages.astype(np.uint64)[:, None] * np.uint64(SEGMENT)).reshape(-1)
    host = (mapped.planes + there.astype(np.uint64)[:, None] * np.uint64(PAGE)).reshape(-1)
    stream, sizes = cupy.cuda.Stream(non_blocking=True), np.full(len(host), SEGMENT, np.uint64)
    for name, ends in (("out", (host, device)), ("in", (device, host))):
        target, source = ends
        with stream:
            rate = size / timed(partial(one_by_one, target, source), 3) / 1e9
            rows.append(row(f"beside_memcpy_{name}", rate, "GB/s", tops[name]))
            if batch.available():
                rate = size / timed(partial(batch.copy, target, source, sizes, stream.ptr), 5) / 1e9
                rows.append(row(f"beside_batch_{name}", rate, "GB/s", tops[name]))
    return rows


def one_by_one(target: Any, source: Any) -> None:
    """A call of the driver for each segment."""
    for each, other in zip(target.tolist(), source.tolist(), strict=True):
        memcpy(each, other, SEGMENT)


def onboard(swap: Swap, pages: Any, there: Any) -> Row:
    """When the first layer is ready, beside the whole."""
    firsts, wholes = [], []
    for _ in range(12):
        start = cupy.cuda.Event()
        start.record()
        ready = swap.onboard(there, pages)
        ready[-1].synchronize()
        firsts.append(cupy.cuda.get_elapsed_time(start, ready[0]))
        wholes.append(cupy.cuda.get_elapsed_time(start, ready[-1]))
    return row(
        "onboard_first_layer", statistics.median(firsts[2:]), "ms", statistics.median(wholes[2:])
    )


def driver() -> str:
    """The driver's version, as nvidia-smi tells it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def short_name(card: str) -> str:
    """A card's name in a file's."""
    parts = [part for part in card.lower().split() if part[0] in "hab" and part[-1].isdigit()]
    return "".join(parts) or "card"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The record on stdout.")
@click.option(
    "--save", type=click.Path(path_type=Path), help="Folder to write gpu-CARD-DATE.json to."
)
def main(as_json: bool, save: Path | None) -> None:
    """Measure pages on the current card."""
    runtime = cupy.cuda.runtime
    card = runtime.getDeviceProperties(0)["name"].decode()
    layout = Layout.of(LAYER_FIRST, SHAPE, POOL)
    memory = cupy.random.randint(0, 2**31 - 1, layout.nbytes // 4, dtype=cupy.int32)
    memory = memory.view(cupy.uint8)
    pool = CupyPool(layout, memory)
    rows = [*page_copies(pool, memory), *swaps(pool, Products(SIDE))]
    record = {
        "date": now(),
        "card": card,
        "driver": driver(),
        "versions": {
            "cupy": cupy.__version__,
            "numpy": version("numpy"),
            "cuda": runtime.runtimeGetVersion(),
            "torch": None if torch is None else torch.__version__,
        },
        "command": command("gpu"),
        "rows": rows,
    }
    text = json.dumps(record, indent=2)
    if as_json:
        print(text)
    if save is not None:
        (save / f"gpu-{short_name(card)}-{record['date'][:10]}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
