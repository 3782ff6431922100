"""Tiers below a simulated server find what the real `Tiers` find, and pay where they should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, _core
from kvframe.bench.server.tiers import parse_tiers
from kvframe.bench.traces import load
from kvframe.config import Config
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.registry import Registry
from kvframe.tiers import Inline, Tiers

BLOCK = 4
WRITES = ("write-through", "write-back", "selective")
Hits = list[tuple[int, ...]]
AT_ONCE = "read=1000PB/s,write=1000PB/s,latency=0us"
"""As `Inline` workers are: what began before a poll ends in it."""


def written(path: Path, rng: np.random.Generator, requests: int) -> list[list[int]]:
    """A trace whose requests come one at a time; the ids of the blocks of each prompt."""
    sessions: list[list[int]] = [[0] for _ in range(5)]
    prompts, lines, fresh = [], [], 1
    for at in range(requests):
        ids = sessions[rng.integers(5)]
        if len(ids) > 9 or rng.random() < 0.1:
            del ids[1:]
        for _ in range(rng.integers(0, 4)):
            ids.append(fresh)
            fresh += 1
        # `ids` are those of full blocks: of the last one there are a few tokens.
        tokens = len(ids) * BLOCK + int(rng.integers(1, BLOCK))
        prompts.append(list(ids))
        row = {"timestamp": at * 1_000_000, "input_length": tokens, "output_length": 1}
        lines.append(json.dumps({**row, "hash_ids": [*ids, 1_000_000 + at]}))
    path.write_text("\n".join(lines) + "\n")
    return prompts


def simulated(path: Path, capacity: int, tiers: list[str]) -> tuple[Hits, dict[str, Any]]:
    """Tokens that each request found in the pool and in each tier, and what was moved."""
    trace = load(str(path), BLOCK).trace
    below = parse_tiers(tiers, Registry())
    assert below is not None
    raw = _core.serve(
        trace,
        "lru",
        capacity,
        _core.StepProfile.roofline(host=0.01, weights=0.0, token=1e-4, kv_token=0.0, pair=0.0),
        tiers=below.tables(1024, BLOCK),
        links=list(below.links().values()),
    )
    columns = [raw["cached_tokens"], *(tier["loaded"] for tier in raw["tiers"])]
    return list(zip(*(column.tolist() for column in columns), strict=True)), raw


def real(
    prompts: list[list[int]], lengths: list[int], capacity: int, config: list[dict[str, Any]]
) -> tuple[Hits, dict[str, int]]:
    """The same of a manager with real tiers, which an engine's loop drives."""
    kv = KVCacheManager(Config.of(block_size=BLOCK, capacity=capacity, tiers=config))
    shape = PageShape(layers=1, parts=2, heads=1, row_bytes=4, block_size=BLOCK)
    pool = NumpyPool(Layout.of(LAYER_FIRST, shape, blocks=capacity))
    hits: Hits = []
    with Tiers(kv, pool, model="tiny", worker=lambda _: Inline()) as tiers:
        for ids, length in zip(prompts, lengths, strict=True):
            whole = [token for one in ids for token in range(one * BLOCK, one * BLOCK + BLOCK)]
            prompt = [*whole, *([2**31 - 1] * (length - len(whole)))]
            tiers.poll()
            found = tiers.lookup(prompt)
            if config[0]["admission"]["policy"] == "write-back":
                tiers.make_room(-(-length // BLOCK) - found.pool // BLOCK)
                found = tiers.lookup(prompt)
            given = tiers.allocate(prompt)
            while given.load is not None:
                rewound, landed = tiers.poll()
                if given.seq in (*rewound, *landed):
                    break
            start = kv.lengths(given.seq).committed
            kv.extend(given.seq, length)
            kv.commit(given.seq, length)
            tiers.offload(given.seq)
            kv.release(given.seq)
            tiers.drain()
            row, upto = [given.cached_tokens], given.cached_tokens
            for tokens in found.tiers.values():
                more = max(min(tokens, start) - upto, 0)
                row.append(more)
                upto += more
            hits.append(tuple(row))
        moved = tiers.stats()["moved"]
        tiers.check_integrity()
    return hits, moved


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", [1, 2])
def test_hits_by_tier_are_those_of_the_real_tiers(
    tmp_path: Path, write: str, seed: int, depth: int
) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "small.jsonl"
    prompts = written(path, rng, 120)
    lengths = [json.loads(line)["input_length"] for line in path.read_text().splitlines()]
    capacity, host, disk = 14, int(rng.integers(18, 32)), int(rng.integers(32, 60))
    policy = str(rng.choice(["lru", "fifo", "slru", "arc"]))
    admission: dict[str, Any] = {"policy": write}
    config: list[dict[str, Any]] = [
        {"name": "host", "capacity": host, "admission": admission, "eviction": {"policy": policy}}
    ]
    texts = [f"host={host},admission={write},eviction={policy},{AT_ONCE}"]
    if depth == 2:
        store = {"name": "disk", "store": "disk", "options": {"path": str(tmp_path / "pages")}}
        config.append({**store, "capacity": disk, "admission": {"policy": "always"}})
        texts.append(f"disk={disk},admission=always,{AT_ONCE}")
    found, raw = simulated(path, capacity, texts)
    wanted, moved = real(prompts, lengths, capacity, config)
    assert found == wanted
    assert sum(sum(row[1:]) for row in found) > 0
    # Pages that were moved, too.
    tiers = raw["tiers"]
    assert tiers[0]["read_pages"] == moved["onboarded"]
    assert tiers[0]["written_pages"] == moved["offloaded"]
    if depth == 2:
        assert tiers[1]["read_pages"] == moved["promoted"]
        assert tiers[1]["written_pages"] == moved["demoted"]
