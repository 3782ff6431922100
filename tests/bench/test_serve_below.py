"""Loads beside steps, blocks ahead of their session, and shared tiers, by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvframe.bench.server.below import Returns, parse_returns

from .conftest import Command

HOST = "host=64,read=1GB/s,write=1GB/s,latency=1ms"


def below(bench: Command, growing: Path, *asked: str) -> dict[str, Any]:
    """The cell with tiers."""
    told = ("serve", "--trace", growing, "--policy", "lru", "--capacity", "30")
    done = bench(*told, "--tier", HOST, *asked, "--format", "json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    cell: dict[str, Any] = next(c for c in cells if c["tiers"] and c["time_factor"] == 1.0)
    return cell


def test_layers_come_beside_the_step(bench: Command, growing: Path) -> None:
    whole, layers = below(bench, growing), below(bench, growing, "--layerwise")
    assert whole["tier_hit_tokens"] == layers["tier_hit_tokens"]
    assert whole["tier_hit_tokens"]["host"] > 0
    assert layers["ttft_mean"] < whole["ttft_mean"]


def test_sessions_find_their_blocks_in_the_pool(bench: Command, growing: Path) -> None:
    plain = below(bench, growing)
    known = below(bench, growing, "--prefetch-sessions", "lead=1s")
    near = below(bench, growing, "--prefetch-sessions", "lead=1s,after=59s")
    early = below(bench, growing, "--prefetch-sessions", "after=30s")
    assert (plain["ahead_tokens"], near["ahead_used_tokens"]) == (0, near["ahead_tokens"])
    assert known["ahead_used_tokens"] == known["ahead_tokens"] > 0
    assert known["ttft_mean"] < plain["ttft_mean"]
    # The next turn comes after a minute: what is back after 30 s the third session evicts at 40.
    assert early["ahead_used_tokens"] < early["ahead_tokens"]
    assert early["tier_read_bytes"]["host"] > plain["tier_read_bytes"]["host"]


def test_replicas_find_what_others_have_put_in_a_shared_tier(bench: Command, growing: Path) -> None:
    fleet = ("--replicas", "2")
    own = below(bench, growing, *fleet)
    together = below(bench, growing, *fleet, "--shared-tier", "host")
    assert (own["tier_others_tokens"], own["tier_bytes"]["host"]) == (
        {},
        2 * together["tier_bytes"]["host"],
    )
    assert together["tier_others_tokens"]["host"] > 0
    assert together["token_hit_rate"] > own["token_hit_rate"]
    assert "host 64 pages for all" in together["tiers"]


def test_the_replicas_of_a_node_share_a_tier(bench: Command, growing: Path) -> None:
    fleet = ("--replicas", "4")
    told = [
        below(bench, growing, *fleet, *more)
        for more in ((), ("--shared-tier", "host:replicas=2"), ("--shared-tier", "host"))
    ]
    one = told[2]["tier_bytes"]["host"]
    assert [cell["tier_bytes"]["host"] / one for cell in told] == [4, 2, 1]
    hits = [cell["token_hit_rate"] for cell in told]
    assert hits[0] < hits[1] < hits[2]
    assert "host 64 pages for each 2 replicas" in told[1]["tiers"]
    # Three of a node: the last one has a node for itself.
    more = below(bench, growing, *fleet, "--shared-tier", "host:replicas=3")
    assert more["tier_bytes"]["host"] == 2 * one


def test_the_table_has_columns_where_there_is_a_value(bench: Command, growing: Path) -> None:
    asked = ("serve", "--trace", growing, "--policy", "lru", "--capacity", "30", "--tier", HOST)

    def header(*more: str) -> list[str]:
        lines = bench(*asked, *more).stdout.splitlines()
        return lines[lines.index("What the tiers do") + 1].split()

    assert header()[-2:] == ["stalled", "s"]
    assert header("--prefetch-sessions", "lead=1s")[-3:] == ["s", "ahead", "used"]
    shared = header("--replicas", "2", "--shared-tier", "host")
    assert shared[-3:] == ["s", "of", "others"]


def test_guesses_are_read() -> None:
    assert parse_returns(None) is None
    assert parse_returns("lead=500ms") == Returns(None, 0.5)
    assert parse_returns("after=30s,lead=2s") == Returns(30.0, 2.0)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("--layerwise", "--layerwise: there is no tier below the pool: add --tier host=SIZE"),
        ("--prefetch-sessions lead=1s", "--prefetch-sessions: there is no tier below the pool"),
        ("--shared-tier host", "--shared-tier: there is no tier below the pool"),
        (f"--tier {HOST} --prefetch-sessions led=1s", "no key led: lead, after; did you mean lead"),
        (f"--tier {HOST} --prefetch-sessions lead=1", "lead = 1: must be a time such as 2s or"),
        (
            f"--tier {HOST} --prefetch-sessions lead=1s --disaggregate prefill=1",
            "servers that compute prompts do not know when a turn ends",
        ),
        (f"--tier {HOST} --shared-tier host", "one server shares with none: add --replicas"),
        (f"--tier {HOST} --replicas 4 --shared-tier host:replicas=9", "nodes of 9 of 4 replicas"),
        (f"--tier {HOST} --replicas 4 --shared-tier host,host:replicas=2", "is named twice"),
        (
            f"--tier {HOST} --replicas 2 --shared-tier hots",
            "no such tier: there are host; did you mean host",
        ),
        (
            f"--tier {HOST} --tier disk=99 --replicas 2 --shared-tier host",
            "--shared-tier host: disk lies below it: share it, too, or neither",
        ),
        (
            f"--tier {HOST} --tier disk=99 --replicas 4 --shared-tier host,disk:replicas=2",
            "--shared-tier host: disk lies below it: share it, too, or neither",
        ),
        (
            f"--tier {HOST} --tier disk=99 --replicas 4 --shared-tier "
            "host:replicas=2,disk:replicas=4",
            "nodes of 2 and of 4 replicas: give one number",
        ),
        (
            f"--tier {HOST} --replicas 2 --shared-tier host:replica=2",
            "no key replica: replicas; did",
        ),
        (
            f"--tier {HOST} --replicas 2 --shared-tier host:replicas=1",
            "replicas = 1: must be a whole number, 2 or more",
        ),
        (
            f"--tier {HOST},link=a --tier disk=99,link=a --replicas 4 --shared-tier "
            "host:replicas=2,disk",
            "its link a is that of host, too, which each 2 replicas have",
        ),
        (
            f"--tier {HOST},link=a --tier disk=99,link=a --replicas 2 --shared-tier disk",
            "its link a is that of host, too, which each replica has for itself",
        ),
        ("--order longest-outputs", "must be one of fcfs, priority, shortest, longest,"),
    ],
)
def test_what_cannot_be_is_refused(bench: Command, growing: Path, asked: str, message: str) -> None:
    done = bench("serve", "--trace", growing, *asked.split())
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
