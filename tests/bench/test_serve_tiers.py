"""Tiers below a simulated server find what the real `Tiers` find, and pay where they should."""

from __future__ import annotations

import csv
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

from .conftest import Command

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


def simulated(
    path: Path, capacity: int, tiers: list[str], **server: Any
) -> tuple[Hits, dict[str, Any]]:
    """Tokens that each request found in the pool and in each tier, and what was moved."""
    trace = load(str(path), BLOCK).trace
    below = parse_tiers(tiers, Registry())
    assert below is not None
    links = list(below.links().values())
    raw = _core.serve(
        trace,
        [{"policy": "lru", "tiers": below.tables(1024, BLOCK), "links": links}],
        capacity,
        _core.StepProfile.roofline(host=0.01, weights=0.0, token=1e-4, kv_token=0.0, pair=0.0),
        **server,
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
    # As a replay of one request at a time has it, too.
    assert simulated(path, capacity, texts, one_at_a_time=True)[0] == wanted
    assert sum(sum(row[1:]) for row in found) > 0
    # Pages that were moved, too.
    tiers = raw["tiers"]
    assert tiers[0]["read_pages"] == moved["onboarded"]
    assert tiers[0]["written_pages"] == moved["offloaded"]
    if depth == 2:
        assert tiers[1]["read_pages"] == moved["promoted"]
        assert tiers[1]["written_pages"] == moved["demoted"]


CONFIG = """
[cache]
block_size = 128
capacity = 40
null_block = true

[eviction]
policy = "slru"
options = { protected_uses = 3 }

[admission]
policy = "size"
options = { min_tokens = 600 }

[[tiers]]
name = "dram"
capacity = 80
eviction = { policy = "fifo" }
admission = { policy = "selective", options = { uses = 3 } }
read = "50 GB/s"
write = "50 GB/s"
latency = "20 us"
"""


@pytest.fixture
def again(tmp_path: Path) -> Path:
    """A prompt that comes again once another has taken its place in a pool of three blocks."""
    path = tmp_path / "again.jsonl"
    rows = [
        {"timestamp": at * 9_000, "input_length": 1100, "output_length": 1, "hash_ids": ids}
        for at, ids in enumerate([[1, 2, 3], [4, 5, 6], [1, 2, 3]])
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def cells(bench: Command, *args: object) -> list[dict[str, Any]]:
    done = bench(*args, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["cells"]
    return found


def test_a_configuration_is_run_whole(bench: Command, small: Path, tmp_path: Path) -> None:
    (tmp_path / "kvframe.toml").write_text(CONFIG)
    asked = ("--trace", small.name, "--config", "kvframe.toml")
    without, below, *others = cells(bench, "serve", *asked)
    # As many tokens: 40 blocks of 128 are 10 of the trace's 512, of which one is the null block.
    assert (without["policy"], without["capacity_blocks"]) == (
        "slru:protected_uses=3+size:min_tokens=600",
        10,
    )
    assert below["policy"] == f"{without['policy']} over dram"
    assert below["tiers"].startswith("dram 80 pages, ")
    assert below["tiers"].endswith(", selective:uses=3")
    assert len(others) == 4  # other time factors
    # The prompt of 512 tokens is too short for the admission policy.
    assert without["reused_tokens"] == 2048
    # Options of the command line come before it.
    asked_for = ("--policy", "lru", "--admission", "always", "--capacity", "8", "--tier", "host=9")
    said = [cell["policy"] for cell in cells(bench, "serve", *asked, *asked_for)[:2]]
    assert said == ["lru", "lru over host"]
    run, over = cells(bench, "run", *asked)
    assert (run["policy"], run["capacity_blocks"]) == (without["policy"], 10)
    assert over["policy"] == below["policy"]
    assert sum(over["tier_hit_tokens"].values()) == over["hit_tokens"]
    run, _ = cells(bench, "run", *asked, "--policy", "lru", "--capacity", "8")
    assert (run["policy"], run["capacity_blocks"]) == ("lru+size:min_tokens=600", 8)


def test_a_replay_finds_in_each_tier_what_the_real_tiers_find(
    bench: Command, tmp_path: Path
) -> None:
    prompts = written(tmp_path / "turns.jsonl", np.random.default_rng(5), 80)
    rows = (tmp_path / "turns.jsonl").read_text().splitlines()
    lengths = [json.loads(row)["input_length"] for row in rows]
    admission: dict[str, Any] = {"policy": "write-through"}
    wanted, _ = real(
        prompts, lengths, 14, [{"name": "host", "capacity": 24, "admission": admission}]
    )
    (tmp_path / "kvframe.toml").write_text(
        f'[cache]\nblock_size = {BLOCK}\ncapacity = 14\n[eviction]\npolicy = "lru"\n'
        '[[tiers]]\nname = "host"\ncapacity = 24\n'
    )
    asked = ("--trace", "turns.jsonl", "--block-size", BLOCK, "--config", "kvframe.toml")
    pool, below = cells(bench, "run", *asked)
    assert (pool["policy"], below["policy"]) == ("lru", "lru over host")
    sums = dict(
        zip(("pool", "host"), (sum(row[at] for row in wanted) for at in (0, 1)), strict=True)
    )
    assert below["tier_hit_tokens"] == sums
    assert below["hit_tokens"] == sum(sums.values()) > pool["hit_tokens"]
    done = bench("run", *asked)
    assert "14 blocks: lru over host finds " in done.stdout
    assert (
        bench("run", *asked, "--format", "csv")
        .stdout.splitlines()[0]
        .endswith("_pool,hit_tokens_host")
    )


def test_admission_and_matchers_act_as_in_a_replay(bench: Command, small: Path) -> None:
    asked = ("--trace", small.name, "--policy", "lru", "--capacity", "8")
    besides = ("--admission", "always,second-use", "--prefix", "hash,min-hit:min_tokens=1024")
    served = {
        cell["policy"]: cell["token_hit_rate"]
        for cell in cells(bench, "serve", *asked, *besides)
        if cell["time_factor"] == 1.0
    }
    replayed = {
        cell["policy"]: cell["token_hit_rate"] for cell in cells(bench, "run", *asked, *besides)
    }
    assert served == replayed
    assert len(set(served.values())) > 1


def test_tiers_in_tables_rows_and_verdicts(bench: Command, again: Path, tmp_path: Path) -> None:
    asked = ("--trace", again.name, "--policy", "lru", "--capacity", "3", "--tier", "host=8")
    done = bench("serve", *asked, "--requests", "rows.csv")
    assert done.returncode == 0, done.stderr
    assert "below the pool: host 8 pages, " in done.stdout
    assert "What the tiers do" in done.stdout
    assert "of its link were not given: 50 GB/s up, 50 GB/s down and 20 us" in done.stdout
    partly = bench("serve", *asked[:-1], "host=8,read=50GB/s,write=50GB/s")
    assert "tier host: latency of its link was not given: 50 GB/s up" in partly.stdout
    *_, verdict = done.stdout.splitlines()
    assert verdict.startswith("again.jsonl, load 1, 3 blocks: host below the pool ")
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["policy"] for row in rows} == {"lru", "lru over host"}
    told = [json.loads(row["tier_tokens"]) for row in rows]
    assert [set(one) for one in told] == [set()] * 3 + [{"host"}] * 3
    found = cells(bench, "serve", *asked)[1]
    moved = found["tier_read_bytes"]["host"] + found["tier_written_bytes"]["host"]
    rows_told = [line.split() for line in done.stdout.splitlines()]
    (host,) = (row for row in rows_told if row[:3] == ["lru", "over", "host"] and row[4] == "host")
    assert host[9] == f"{found['tier_hit_tokens']['host'] / moved * 1e9:,.0f}"
    assert sum(one["host"] for one in told[3:]) == found["tier_hit_tokens"]["host"] > 0
    assert found["tier_read_bytes"]["host"] == found["tier_hit_tokens"]["host"] * 131072


def test_below_the_break_even_length_nothing_is_loaded(bench: Command, again: Path) -> None:
    asked = ("--trace", again.name, "--policy", "lru", "--capacity", "3")

    def loaded(tier: str) -> tuple[int, int | None]:
        cell = cells(bench, "serve", *asked, "--tier", tier)[1]
        return cell["tier_hit_tokens"]["host"], cell["tier_break_even"]["host"]

    fast, slow = "host=8,read=50GB/s", "host=8,read=10MB/s"
    assert loaded(fast)[0] == loaded(f"{fast},break_even=auto")[0] > 0
    assert loaded(slow)[0] > 0
    # 64 MiB take 6.7 s, and their tokens are computed in 30 ms.
    assert loaded(f"{slow},break_even=auto") == (0, None)
    assert loaded(f"{fast},break_even=100000")[0] == 0


def test_replicas_have_tiers_policies_and_the_configuration(
    bench: Command, again: Path, tmp_path: Path
) -> None:
    (tmp_path / "kvframe.toml").write_text(CONFIG)
    asked = ("--trace", again.name, "--replicas", "1,2", "--config", "kvframe.toml")
    found = [cell for cell in cells(bench, "serve", *asked) if cell["time_factor"] == 1.0]
    alone = "slru:protected_uses=3+size:min_tokens=600"
    assert [(cell["replicas"], cell["policy"]) for cell in found] == [
        (1, alone), (1, f"{alone} over dram"), (2, alone), (2, f"{alone} over dram"),
    ]  # fmt: skip
    assert found[3]["tier_bytes"]["dram"] == 2 * found[1]["tier_bytes"]["dram"] > 0
    # A router that knows who holds a prefix: the second prompt goes elsewhere.
    routed = ("--replicas", "2", "--routing", "prefix", "--policy", "lru", "--capacity", "3")
    near = ("--trace", again.name, *routed, "--tier", "host=8")
    assert cells(bench, "serve", *near)[1]["tier_hit_tokens"] == {"pool": 1024, "host": 0}


def test_a_preempted_sequence_is_swapped(bench: Command, tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 1000, "output_length": 700, "hash_ids": [at]}
        for at in (1, 2)
    ]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ("--trace", "two.jsonl", "--policy", "lru", "--capacity", "4")
    tier = ("--tier", "host=8,read=50GB/s,write=50GB/s,latency=20us,admission=second-use")
    again, swapped, chosen = (
        cells(bench, "serve", *asked, *tier, "--preemption", how)[1]
        for how in ("recompute", "swap", "auto")
    )
    assert (again["preemptions"], again["swaps"], again["swapped_bytes"]) == (1, 0, 0)
    assert (swapped["swaps"], swapped["recomputed_tokens"]) == (1, 0)
    assert swapped["swapped_bytes"] > 0
    assert again["recomputed_tokens"] > 0
    # 50 GB/s bring 1,500 tokens back in a part of the time that computing them takes.
    assert chosen["e2e_mean"] == swapped["e2e_mean"] < again["e2e_mean"]
    refused = bench("serve", *asked, "--preemption", "swap")
    assert (refused.returncode, "add --tier host=SIZE" in refused.stderr) == (2, True)


def test_a_request_joins_the_prefix_that_another_computes(bench: Command, tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 1100, "output_length": 1, "hash_ids": [1, 2, 3]}
    (tmp_path / "twins.jsonl").write_text((json.dumps(row) + "\n") * 2)
    asked = ("--trace", "twins.jsonl", "--policy", "lru", "--capacity", "8")
    alone, joined = cells(bench, "serve", *asked)[0], cells(bench, "serve", *asked, "--join")[0]
    assert (alone["joined_tokens"], joined["joined_tokens"]) == (0, 1024)
    assert alone["prefill_tokens"] - joined["prefill_tokens"] == 1024
    refused = bench("serve", *asked, "--join", "--profile", "fixed")
    assert (refused.returncode, "--join: the server of --profile fixed" in refused.stderr) == (
        2,
        True,
    )


def test_a_flood_survives_other_step_times_or_not(bench: Command, tmp_path: Path) -> None:
    rows = [
        {"timestamp": at * 50, "input_length": 1100, "output_length": 4, "hash_ids": [at, 99 + at],
         "type": "ab"[at % 2]}
        for at in range(40)
    ]  # fmt: skip
    (tmp_path / "classes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ("--trace", "classes.jsonl", "--policy", "lru", "--capacity", "30", "--flood", "a=20")
    *_, last = bench("serve", *asked).stdout.splitlines()
    assert "when a comes 20 times as often, b finds" in last
    assert "step times" in last
