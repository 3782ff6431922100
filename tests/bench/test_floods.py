"""A flood of greedy clients against a tenant with a floor, in the simulated server."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from ..amounts import ALL
from .conftest import Command

Cells = Callable[..., list[dict[str, Any]]]

FLOORS = '[cache]\nblock_size = 16\n\n[[tenants]]\nname = "b"\nfloor = 0.2\n'
BLOCKS = "--block-size", "16", "--capacity", "8000", "--policy"
POLICIES = "lru", "s3-fifo", "gdsf"
SEEDS = range(1, 4 if ALL else 2)
SECONDS, MOST = (1000, 1.05) if ALL else (100, 1.2)
"""Of traffic, and what P99 may grow to: of 100 s it is that of a single request of ``b``."""


def rows(seconds: float, greedy_ms: float, seed: int = 1) -> list[dict[str, Any]]:
    """Requests of ``b``, every 1.5 s one of four prompts with an end of its own, and those of
    ``a``, which is greedy: long prompts, more than the server can do.
    """
    draw, fresh, made = random.Random(seed), 10**6, []
    for name, gap, heads, head, ends, answer in (
        ("b", 1500.0, 4, 125, (5, 30), (20, 120)),
        ("a", greedy_ms, 40, 200, (50, 200), (50, 300)),
    ):
        at = 0.0
        while at < 1000 * seconds:
            at += draw.expovariate(1 / gap)
            which, own = draw.randrange(heads), draw.randrange(*ends)
            start = (500 if name == "a" else 0) * 1000 + which * 1000
            ids = [*range(start, start + head), *range(fresh, fresh + own)]
            fresh += own
            row = {"timestamp": int(at), "input_length": 16 * len(ids), "type": name}
            made.append({**row, "output_length": draw.randrange(*answer), "hash_ids": ids})
    return sorted(made, key=lambda row: row["timestamp"])


class Flooded(NamedTuple):
    """What ``b`` has, beside one greedy client and beside four."""

    hits: tuple[float, float]
    p99: tuple[float, float]


def flooded(
    bench: Command, folder: Path, seed: int, policies: Sequence[str], *more: str
) -> dict[str, Flooded]:
    """By policy."""
    lines = [msgspec.json.encode(row).decode() for row in rows(SECONDS, 60, seed)]
    (folder / "greedy.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "floors.toml").write_text(FLOORS)
    asked = ("--trace", "greedy.jsonl", *BLOCKS, ",".join(policies), "--flood", "a=4", *more)
    done = json.loads(bench("serve", *asked, "--format", "json").stdout)
    own = [c for c in done["by_class"] if c["part"] == "b" and c["time_factor"] == 1.0]
    found = {}
    for policy in policies:
        one, four = (cell for cell in own if cell["policy"] == policy)
        hits = one["token_hit_rate"], four["token_hit_rate"]
        found[policy] = Flooded(hits, (one["ttft_p99"], four["ttft_p99"]))
    return found


@pytest.mark.slow
def test_a_floor_keeps_the_hits_and_a_share_keeps_the_time(bench: Command, tmp_path: Path) -> None:
    asked = "--config", "floors.toml", "--class-share", "a=0.1"
    for seed in SEEDS:
        kept = flooded(bench, tmp_path, seed, POLICIES, *asked)
        for policy, (hits, p99) in kept.items():
            print(f"seed {seed}, {policy}: hits {hits}, P99 {p99[0]:.4f} {p99[1]:.4f} s")
            assert hits[1] == hits[0] > 0.8
            assert p99[1] <= MOST * p99[0]
    hits, p99 = flooded(bench, tmp_path, SEEDS[-1], POLICIES[:1])["lru"]
    assert hits[1] < kept["lru"].hits[0] - 0.3
    assert p99[1] > 100 * kept["lru"].p99[0]


@pytest.mark.parametrize(("amount", "share"), [("floor", "0.25"), ("quota", "0.25")])
def test_blocks_of_a_tenant_are_as_many_tokens_in_a_trace_of_other_blocks(
    bench: Command, tmp_path: Path, amount: str, share: str
) -> None:
    lines = [msgspec.json.encode(row).decode() for row in rows(20, 500)]
    (tmp_path / "greedy.jsonl").write_text("\n".join(lines) + "\n")
    told = []
    for value in ("2000", share):  # of 8,000 blocks of 4 tokens: the trace has 2,000 of 16
        head = "[cache]\nblock_size = 4\ncapacity = 8000\n"
        (tmp_path / "own.toml").write_text(f'{head}[[tenants]]\nname = "b"\n{amount} = {value}\n')
        asked = ("--trace", "greedy.jsonl", "--block-size", "16", "--policy", "lru")
        done = bench("run", *asked, "--config", "own.toml", "--format", "json")
        told.append([cell["hit_tokens"] for cell in json.loads(done.stdout)["cells"]])
    assert told[0] == told[1]
    assert told[0][0] > 0


def test_a_floor_that_no_request_claims_is_told(bench: Command, tmp_path: Path) -> None:
    lines = [msgspec.json.encode(row).decode() for row in rows(10, 1000)]
    (tmp_path / "greedy.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "gold.toml").write_text(f'{FLOORS}[[tenants]]\nname = "gold"\nfloor = 900\n')
    asked = ("--trace", "greedy.jsonl", *BLOCKS, "lru", "--config", "gold.toml")
    unused = "no request of greedy.jsonl is of tenant gold: 900 blocks, its floor, stay unused."
    served = bench("serve", *asked).stdout
    assert unused in served
    assert "is of tenant b" not in served
    replayed = bench("run", *asked).stdout
    assert unused in replayed
    assert "no request of greedy.jsonl is of tenant b: " in replayed


def test_rows_with_and_without_tiers_differ_in_tiers_alone(
    bench: Command, cells: Cells, tmp_path: Path
) -> None:
    """Two classes that have the names of tenants send the same prompts, which all fit the pool."""
    made = [
        {"timestamp": 1000 * at, "input_length": 65, "output_length": 1, "type": "ab"[at % 2],
         "hash_ids": [at // 2 * 5 + i for i in range(5)]}
        for at in range(40)
    ]  # fmt: skip
    (tmp_path / "two.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in made))
    tier = '[[tiers]]\nname = "host"\ncapacity = 500\n'
    (tmp_path / "tiers.toml").write_text(f"{FLOORS}{tier}")
    asked = ("--trace", "two.jsonl", *BLOCKS, "lru", "--config", "tiers.toml")
    found = {bool(cell["tiers"]): cell["hit_tokens"] for cell in cells(*asked)}
    assert found == {False: 20 * 64, True: 20 * 64}
    told = bench("run", *asked).stdout
    assert (
        "no request of two.jsonl is of tenant b: 0.2 of all blocks, its floor, stay unused." in told
    )
    assert (
        "two.jsonl: a replay makes no class a tenant, with tiers neither; `kvframe bench serve "
        "--config` does (b)."
    ) in told
    assert "makes no class" not in bench("serve", *asked).stdout


def test_a_share_is_of_a_class_that_there_is(bench: Command, tmp_path: Path) -> None:
    lines = [msgspec.json.encode(row).decode() for row in rows(10, 1000)]
    (tmp_path / "greedy.jsonl").write_text("\n".join(lines) + "\n")
    for value, told in (
        ("c=0.5", "--class-share: no class c"),
        ("a=0", "must be a share above 0, up to 1"),
        ("a=x", "must be a share above 0, up to 1"),
    ):
        done = bench("serve", "--trace", "greedy.jsonl", *BLOCKS, "lru", "--class-share", value)
        assert done.returncode == 2
        assert told in done.stderr
