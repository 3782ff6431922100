"""Throughput of each store as a tier, beside its own client with the same bytes.

``python -m perf.tiers`` prints a table: what `StoreTier` writes and reads (head, checksum, names,
one batch), and what the store's raw client moves of the same size. Servers are started on loopback.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.tiers.servers import SERVERS

from kvframe import Config, Registry, TierConfig
from kvframe.pages import PageShape
from kvframe.tiers.object_keys import Space
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.worker import Inline

SHAPE = PageShape(layers=32, parts=2, block_size=16, heads=8, row_bytes=256)
"""A page of an 8B-shaped model in bf16: 2 MiB."""

Raw = tuple[Callable[[list[str], list[bytes]], Any], Callable[[list[str]], Any]]


class Row(NamedTuple):
    """GB/s."""

    store: str
    put: float
    get: float
    raw_put: float
    raw_get: float


def raw_client(name: str, store: Any, folder: Path) -> Raw:
    """Put and get of the same objects without kvframe."""
    if name == "redis":

        def put_redis(names: list[str], pages: list[bytes]) -> None:
            line = store._server.pipeline(transaction=False)
            for one, data in zip(names, pages, strict=True):
                line.set(one, data)
            line.execute()

        return put_redis, store._server.mget
    if name == "mooncake":
        return store._store.put_batch, store._store.get_batch

    def put_files(names: list[str], pages: list[bytes]) -> None:
        for one, data in zip(names, pages, strict=True):
            with (folder / one).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

    return put_files, lambda names: [(folder / one).read_bytes() for one in names]


def measure(name: str, pages: int, rounds: int) -> Row:
    """One store."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        server = SERVERS[name](folder)
        try:
            return _measure(name, server, folder, pages, rounds)
        finally:
            server.stop()


def _measure(name: str, server: Any, folder: Path, pages: int, rounds: int) -> Row:
    options = server.options()
    if name == "mooncake":
        size = 3 * pages * SHAPE.page_bytes
        options |= {"segment": size, "buffer": size}
    if name == "redis":
        options |= {"timeout_ms": 60_000, "batch": 16}
    tiers = [TierConfig(name="host", capacity=1)]
    tiers += [TierConfig(name=name, store=name, capacity=pages, options=options)]
    resolved = Config(tiers=tiers).resolve(Registry()).tiers[1]
    tier = StoreTier(resolved, [SHAPE], Space(), Inline())
    draw = np.random.default_rng(0)
    data = draw.integers(0, 256, (pages, SHAPE.page_bytes), np.uint8)
    memory = np.zeros_like(data)
    raw_put, raw_get = raw_client(name, tier.store, folder)
    bytes_of = [page.tobytes() for page in data]
    took: dict[str, list[float]] = {"put": [], "get": [], "raw_put": [], "raw_get": []}
    for turn in range(rounds):
        keys = np.array([(at, turn) for at in range(pages)], np.uint64)
        names = [f"raw-{turn}-{at}" for at in range(pages)]
        steps: dict[str, Callable[[], Any]] = {
            "put": partial(tier.write, tier.codec, keys, [""] * pages, 0, lambda: [list(data)]),
            "get": partial(tier.read, tier.codec, keys, [""] * pages, 0, [list(memory)]),
            "raw_put": partial(raw_put, names, bytes_of),
            "raw_get": partial(raw_get, names),
        }
        for step, run in steps.items():
            start = time.perf_counter()
            answer = run()
            took[step].append(time.perf_counter() - start)
            if step == "get" and not (answer.good == pages and np.array_equal(memory, data)):
                raise AssertionError(f"{name}: {answer.good} of {pages} pages: {answer.wrong}")
        tier.store.remove([tier.codec.name((at, turn), 0) for at in range(pages)])
        tier.store.remove(names)
    tier.store.close()
    nbytes = data.nbytes / 1e9
    return Row(name, *(nbytes / statistics.median(seconds) for seconds in took.values()))


def main() -> None:
    """Measure every store that can be had here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=32, help="pages of 2 MiB in a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", action="append", choices=list(SERVERS))
    asked = parser.parse_args()
    print(f"{asked.pages} pages of {SHAPE.page_bytes:,} bytes; GB/s, median of {asked.rounds}")
    print(f"{'store':10} {'put':>7} {'get':>7} {'raw put':>8} {'raw get':>8}  share of raw")
    for name in asked.store or SERVERS:
        try:
            row = measure(name, asked.pages, asked.rounds)
        except pytest.skip.Exception as reason:
            print(f"{name:10} left out: {reason}")
            continue
        ours, raw = f"{row.put:7.2f} {row.get:7.2f}", f"{row.raw_put:8.2f} {row.raw_get:8.2f}"
        shares = f"{row.put / row.raw_put:.2f} put, {row.get / row.raw_get:.2f} get"
        print(f"{name:10} {ours} {raw}  {shares}")


if __name__ == "__main__":
    main()
