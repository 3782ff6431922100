"""``python -m perf.batching``: transformers' continuous batching on a card, on its blocks and ours.

A decoder of an 8B shape with random bf16 weights serves (1) prompts of 8,192 tokens, cold and with
7,680 of them cached, in the pool or in host memory, and (2) conversations of four turns in a cache
with room for a third of them, under transformers' own manager, under policies of kvframe, and with
a host tier below. (3) Half as many conversations crowd their cache, so that requests are preempted:
computed again, or swapped out. (4) Four requests decode while transfers of the same pages run
beside them. (5) A small float32 model serves the crowd: its answers must be the same under every
manager, also with asynchronous batches, or the run fails.

Turns carry scripted answers, so that every manager serves the same tokens; what a turn generates is
not part of the next one. ``manager`` is the time inside the cache's methods that hand out, find,
publish and free blocks, and begin loads.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from kvframe.bench.build import build_name
from kvframe.bench.results import now
from kvframe.integrations.transformers.stepped import random_model
from perf import batching_work as work
from perf.batching_work import BLOCK, LARGE, MOVES, SMALL, Kind, Served, answer, engine, serve
from perf.gpu import driver, short_name
from perf.results import command
from perf.table import table

CALM: dict[str, Any] = {"at_once": 4, "new_tokens": 16}
CROWDED: dict[str, Any] = {"at_once": 16, "new_tokens": 32, "safety_margin": 0.0}
"""Requests at a time; and the engine keeps no blocks free for those that decode."""
HOST, AGAIN = Kind("lru", host=True), Kind("lru", host=True, preempts="again")
SWAP = Kind("lru", host=True, preempts="swapped")
SIDE_PAGES = 256
PARTS = ("exact", "first", "beside", "conversations", "crowd")
Row = dict[str, Any]


def first_token(of: Any, kind: Kind, vocab: int, *, gone: bool = False) -> Row:
    """Seconds to the first token of 8,192, cold and with 7,680 cached; the best of three.

    ``gone``: what is cached has left the pool, so that it comes from below, if there is a tier.
    """
    draw, size = random.Random(1), 8_192
    blocks = (2 if gone else 4) * size // BLOCK
    cold: list[float] = []
    warm: list[float] = []

    def tokens(length: int) -> list[int]:
        return [draw.randrange(1, vocab) for _ in range(length)]

    def run(manager: Any, text: list[int], name: str) -> float:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        manager.add_request(text, name, max_new_tokens=1)
        answer(manager)
        return time.perf_counter() - begun

    with kind.managed(2 * blocks) as made, engine(of, blocks, 1) as manager:
        for i in range(4):
            prompt = tokens(size)
            seconds = run(manager, prompt, f"{i}-cold")
            if gone:
                for other in range(2):
                    run(manager, tokens(size), f"{i}-other-{other}")
            cached = run(manager, prompt[:7_680] + tokens(512), f"{i}-warm")
            if i:  # the first round warms kernels up
                cold.append(seconds)
                warm.append(cached)
    row: Row = {"manager": str(kind), "from": "host" if gone else "pool"}
    row |= {"cold_seconds": min(cold), "cached_seconds": min(warm)}
    if made and made.tiers[0] is not None:
        row["moved"] = made.tiers[0].stats()["moved"]
    return row


def row_of(kind: Kind, served: Served, blocks: int, given: int) -> Row:
    """A run's figures."""
    quantiles = np.quantile(served.first, [0.5, 0.99])
    pages = {name: served.moved.get(name, 0) for name in MOVES}
    return {
        "manager": str(kind),
        "blocks": blocks,
        "prompt_tokens": given,
        "prefill_tokens": served.prefill,
        "saved": 1 - served.prefill / given,
        "wall_seconds": served.wall,
        "manager_seconds": served.manager,
        "first_token_p50_seconds": float(quantiles[0]),
        "first_token_p99_seconds": float(quantiles[1]),
        "preempted": served.preempted,
        "evictions": served.evictions,
        "moved_bytes": sum(pages.values()) * served.page_bytes,
        "moved_pages": served.moved,
        "answers": served.answers,
    }


def rows_of(
    of: Any, kinds: Sequence[Kind], vocab: int, scale: int, count: int, **options: Any
) -> list[Row]:
    """So many conversations under each manager; sizes by ``scale``."""
    prompts, total = work.conversations(count, 4, 32 * scale, 24 * scale, vocab)
    blocks = total // 3 // BLOCK
    given = sum(map(len, prompts))
    rows = []
    for kind in kinds:
        served = serve(of, prompts, kind, blocks=blocks, **options)
        rows.append(row_of(kind, served, blocks, given))
        print(
            f"{kind}: {served.prefill} of {given}, {served.wall:.1f} s, {served.preempted} "
            f"preempted, {served.moved}",
            file=sys.stderr,
            flush=True,
        )
    return rows


def gaps(of: Any, vocab: int, during: Callable[[], None] | None) -> list[float]:
    """Seconds between tokens of four requests that decode, while ``during`` is called again and
    again in another thread.
    """
    draw = random.Random(2)
    prompts = [[draw.randrange(1, vocab) for _ in range(1_024)] for _ in range(4)]
    over = threading.Event()

    def transfer() -> None:
        while during is not None and not over.is_set():
            during()

    with Kind("lru").managed(256), engine(of, 256, 64) as manager:
        for i, prompt in enumerate(prompts):
            manager.add_request(prompt, str(i), max_new_tokens=64, record_timestamps=True)
        side = threading.Thread(target=transfer)
        side.start()
        results = [answer(manager) for _ in prompts]
        over.set()
        side.join()
    return [float(gap) for one in results for gap in np.diff(one.timestamps)[8:]]


def beside(of: Any, shape: Row) -> Row:
    """Decode's gaps beside transfers of a model's pages, each way by itself, without end."""
    import cupy

    from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, PageShape
    from kvframe.pages.cupy import CupyPool, host_pool
    from kvframe.pages.swap import Swap

    head = shape["hidden_size"] // shape["num_attention_heads"]
    page = PageShape(shape["num_hidden_layers"], 2, BLOCK, shape["num_key_value_heads"], 2 * head)
    device = CupyPool(Layout.of(LAYER_FIRST, page, SIDE_PAGES))
    _, mapped = host_pool(Layout.of(BLOCK_FIRST, page, SIDE_PAGES))
    swap, pages = Swap(device, mapped), np.random.default_rng(0).permutation(SIDE_PAGES)
    moved = 0

    def moving(start: Callable[[], Any]) -> Callable[[], None]:
        def call() -> None:
            nonlocal moved
            with cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True):
                start().synchronize()
            moved += 1

        return call

    ways: dict[str, Callable[[], None] | None] = {
        "warm-up": None,
        "alone": None,
        "out": moving(lambda: swap.out(pages, pages)),
        "in": moving(lambda: swap.bring(pages, pages)),
        "in, layer by layer": moving(lambda: swap.onboard(pages, pages)[-1]),
        "alone again": None,
    }
    found: Row = {}
    for name, during in ways.items():
        moved, begun = 0, time.perf_counter()
        between = gaps(of, shape["vocab_size"], during)
        found[name] = {
            "gap_p50_seconds": statistics.median(between),
            "gap_p99_seconds": float(np.quantile(between, 0.99)),
            "bytes_a_second": moved * SIDE_PAGES * page.page_bytes / (time.perf_counter() - begun),
        }
        print(f"decode beside {name}: {found[name]}", file=sys.stderr, flush=True)
    del found["warm-up"]
    return found


def exact(kinds: Sequence[Kind]) -> list[Row]:
    """The crowd under each manager, in float32, and whether its answers are those of the first."""
    small, vocab = random_model(SMALL, work.DEVICE, torch.float32), int(SMALL["vocab_size"])
    rows = rows_of(small, kinds, vocab, 8, 24, **CROWDED)
    later = rows_of(
        small, [Kind(None), HOST, SWAP], vocab, 8, 24, **CROWDED, use_async_batching=True
    )
    rows += [{**row, "manager": f"{row['manager']}, asynchronous"} for row in later]
    right = rows[0]["answers"]
    return [{**row, "answers_equal": row["answers"] == right} for row in rows]


def show(record: Row) -> None:
    """The record as tables."""
    for row in record.get("first_token", []):
        cold, cached = row["cold_seconds"], row["cached_seconds"]
        print(f"8,192 tokens, {row['manager']}, {row['from']}: {cold:.3f} s, {cached:.3f} s cached")
    for name in ("conversations", "crowd"):
        if name in record:
            print(f"{name}:\n{rows_table(record[name])}")
    for name, row in record.get("decode_beside", {}).items():
        gap, rate = row["gap_p50_seconds"] * 1e3, row["bytes_a_second"] / 1e9
        print(f"decode beside {name}: {gap:.1f} ms a token at the median, {rate:.1f} GB/s moved")


def rows_table(rows: Sequence[Row]) -> str:
    """A run a row."""
    head = ["manager", "prefill", "saved", "wall, s", "manager, s", "first p50, s", "p99, s"]
    head += ["preempted", "moved, GB"]
    cells = [
        [
            row["manager"],
            f"{row['prefill_tokens']:,}",
            f"{row['saved']:.1%}",
            f"{row['wall_seconds']:.1f}",
            f"{row['manager_seconds']:.2f}",
            f"{row['first_token_p50_seconds']:.2f}",
            f"{row['first_token_p99_seconds']:.2f}",
            str(row["preempted"]),
            f"{row['moved_bytes'] / 1e9:.1f}",
        ]
        for row in rows
    ]
    return table(head, cells)


def begun(file: Path | None) -> Row:
    """The record so far: that of another part of the same day, if there is one."""
    record: Row = json.loads(file.read_text()) if file is not None and file.exists() else {}
    return record | {
        "what": "batching",
        "date": now(),
        "command": command("batching"),
        "card": torch.cuda.get_device_name(),
        "driver": driver(),
        "versions": {
            "kvframe": build_name(),
            "torch": torch.__version__,
            "transformers": version("transformers"),
        },
        "shape": LARGE,
        "block_size": BLOCK,
        "calm": CALM,
        "crowded": CROWDED,
    }


@click.command()
@click.option("--policy", "names", multiple=True, default=("lru", "slru", "foresight"))
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS)
@click.option("--save", type=click.Path(path_type=Path), help="Folder for batching-CARD-DATE.json.")
def main(names: tuple[str, ...], parts: tuple[str, ...], save: Path | None) -> None:
    """Measure, print, save; what was measured is saved even if a later part fails."""
    card = short_name(torch.cuda.get_device_name())
    file = save / f"batching-{card}-{now()[:10]}.json" if save else None
    record = begun(file)
    kinds = [Kind(None), *map(Kind, names), HOST]

    def kept(name: str, part: list[Row] | Row) -> None:
        for row in part if isinstance(part, list) else []:
            row.pop("answers", None)
        record[name] = part
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(record, indent=2) + "\n")

    if "exact" in parts:
        kept("float32", exact([*kinds, AGAIN, SWAP]))
    vocab = LARGE["vocab_size"]
    large = random_model(LARGE, work.DEVICE, torch.bfloat16) if set(parts) - {"exact"} else None
    if "first" in parts:
        first = [first_token(large, kind, vocab) for kind in (Kind(None), Kind("lru"))]
        first += [first_token(large, kind, vocab, gone=True) for kind in (Kind("lru"), HOST)]
        kept("first_token", first)
    if "beside" in parts:
        kept("decode_beside", beside(large, LARGE))
    if "conversations" in parts:
        kept("conversations", rows_of(large, kinds, vocab, 32, 24, **CALM))
    if "crowd" in parts:
        crowd = [Kind(None), Kind("lru"), AGAIN, SWAP, HOST]
        kept("crowd", rows_of(large, crowd, vocab, 32, 12, **CROWDED))
    show(record)
    wrong = [row["manager"] for row in record.get("float32", []) if not row["answers_equal"]]
    print(f"float32 answers are {'NOT THE SAME: ' + ', '.join(wrong) if wrong else 'the same'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
