"""How pages move, what peers have, and requests that fit to their ends, by the command."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from kvframe.bench.server.below import Moves, parse_moves
from kvframe.bench.server.fleet import PeerLink, parse_peer_link
from kvframe.bench.server.tiers import Speed, parse_link

from .conftest import Command

HOST = "host=12,read=1GB/s,write=1GB/s,latency=1ms"
DISK = "disk=400,read=1GB/s,write=1GB/s,latency=1ms"
BACK = f"{HOST},admission=write-back".replace("=12", "=64")


def cell(bench: Command, growing: Path, *asked: str, blocks: int = 30) -> dict[str, Any]:
    """The last one at the step times themselves: the one with tiers, if there are any."""
    told = ("serve", "--trace", growing, "--policy", "lru", "--capacity", str(blocks), *asked)
    done = bench(*told, "--format", "json")
    assert done.returncode == 0, done.stderr
    cells = [one for one in json.loads(done.stdout)["cells"] if one["time_factor"] == 1.0]
    found: dict[str, Any] = cells[-1]
    return found


def test_loads_from_the_disk_fill_what_they_are_told_to(bench: Command, growing: Path) -> None:
    found = {
        fill: cell(bench, growing, "--tier", HOST, "--tier", DISK, "--promote-fill", fill)
        for fill in ("host", "through", "buffer", "direct")
    }
    assert found["host"]["tier_hit_tokens"]["disk"] > 0
    # With one store below host memory these are the same.
    assert found["host"]["ttft_mean"] == found["through"]["ttft_mean"]
    reads = {fill: one["tier_read_bytes"]["host"] for fill, one in found.items()}
    block = 512 * 131_072
    direct = found["direct"]
    assert reads["direct"] == direct["tier_hit_tokens"]["host"] / 512 * block
    assert direct["ttft_mean"] < found["buffer"]["ttft_mean"]
    buffered = found["buffer"]["tier_hit_tokens"]
    assert reads["buffer"] == (buffered["host"] + buffered["disk"]) / 512 * block


def test_a_request_waits_for_the_disk_or_computes(bench: Command, growing: Path) -> None:
    tiers = ("--tier", HOST, "--tier", DISK, "--storage-prefetch")
    whole = cell(bench, growing, *tiers, "wait-complete")
    assert whole["tier_hit_tokens"]["disk"] > 0
    # Nobody waits behind another: a prefetch has no time.
    assert cell(bench, growing, *tiers, "best-effort")["tier_hit_tokens"]["disk"] == 0
    assert cell(bench, growing, *tiers, "timeout=1ms")["tier_hit_tokens"]["disk"] == 0
    assert cell(bench, growing, *tiers, "timeout=3600s") == {
        **whole,
        "seconds": pytest.approx(whole["seconds"], abs=60),
    }


def test_only_what_comes_back_is_written(bench: Command, growing: Path) -> None:
    every = cell(bench, growing, "--tier", BACK, "--tell-next-use")
    live = cell(bench, growing, "--tier", BACK, "--tell-next-use", "--live-writes")
    written = [one["tier_written_bytes"]["host"] for one in (every, live)]
    assert 0 < written[1] < written[0]
    assert live["token_hit_rate"] >= every["token_hit_rate"]


def one_by_one(path: Path, *prompts: tuple[float, list[int]]) -> Path:
    """Requests that never meet, each of so many blocks, the whole ones with these ids."""
    rows = [
        {
            "timestamp": 100_000 * at,
            "input_length": int(512 * n),
            "output_length": 1,
            "hash_ids": ids,
        }
        for at, (n, ids) in enumerate(prompts)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_blocks_that_host_memory_has_leave_the_pool_first(bench: Command, tmp_path: Path) -> None:
    """As rust/server/tests/copies_in_the_pool.rs works it out."""
    prompts = ((2.5, [1, 2]), (2.5, [3, 4]), (4.5, [5, 6, 7, 8]), (2.5, [1, 2]))
    path = one_by_one(tmp_path / "rows.jsonl", *prompts)
    tier = ("--tier", HOST.replace("=12", "=2"))
    found = [
        cell(bench, path, *tier, *more, blocks=6)["tier_hit_tokens"]["pool"]
        for more in ((), ("--evict-backed-first",))
    ]
    assert found == [0, 512]


def test_a_hit_in_the_pool_need_not_be_one_of_host_memory(bench: Command, tmp_path: Path) -> None:
    """As rust/server/tests/copies_in_the_pool.rs works it out."""
    prompts = ((2.5, [1, 2]), (2.5, [3, 4]), (1.5, [1]), (2.5, [5, 6]), (2.5, [3, 4]))
    path = one_by_one(tmp_path / "rows.jsonl", *prompts)
    tier = ("--tier", HOST.replace("=12", "=4"), "--hit-refresh")
    found = [
        cell(bench, path, *tier, how, blocks=4)["tier_hit_tokens"]["host"]
        for how in ("first-tier", "none")
    ]
    assert found == [512, 1024]


def test_a_card_is_filled_as_far_as_is_told(bench: Command, growing: Path) -> None:
    def blocks(card: str) -> int:
        told = ("serve", "--trace", growing, "--policy", "lru", "--card", card, "--format", "json")
        found: int = json.loads(bench(*told).stdout)["cells"][0]["capacity_blocks"]
        return found

    # 80 GB, weights of 16 GB, blocks of 512 tokens of 131,072 bytes.
    assert blocks("h100") == blocks("h100:utilization=0.9") == (72 - 16) * 10**9 // 67_108_864
    assert blocks("h100:utilization=0.8") == (64 - 16) * 10**9 // 67_108_864


def test_a_link_may_be_shared_evenly(bench: Command, growing: Path) -> None:
    host = HOST.replace("=12", "=64")
    turn = cell(bench, growing, "--tier", host)
    even = cell(bench, growing, "--tier", f"{host},sharing=even,each=100MB/s")
    assert "1 GB/s up, 1 GB/s down shared evenly, 0.1 GB/s each at most" in even["tiers"]
    assert even["tier_hit_tokens"] == turn["tier_hit_tokens"]
    assert even["ttft_mean"] > turn["ttft_mean"]


def test_what_comes_to_the_pool_crosses_the_links_of_its_path(
    bench: Command, growing: Path
) -> None:
    even = [f"{tier},sharing=even" for tier in (HOST, DISK)]
    free = cell(bench, growing, "--tier", even[0], "--tier", even[1])
    port = ("--link", "pcie=100MB/s,latency=1us")
    path = [f"{tier},path=pcie" for tier in even]
    narrow = cell(bench, growing, "--tier", path[0], "--tier", path[1], *port)
    wide = cell(bench, growing, "--tier", path[0], "--tier", path[1], "--link", "pcie=100TB/s")
    assert narrow["ttft_mean"] > 1.5 * free["ttft_mean"]
    assert wide["ttft_mean"] == pytest.approx(free["ttft_mean"])


def test_links_are_read() -> None:
    assert parse_link("nic=50GB/s") == ("nic", Speed(50e9, 50e9, 0.0, math.inf))
    told = "pcie=64GB/s,write=32GB/s,latency=1us,each=16GB/s"
    assert parse_link(told)[1] == pytest.approx(Speed(64e9, 32e9, 1e-6, 16e9))


def test_a_peer_has_what_the_pool_lacks(bench: Command, growing: Path, tmp_path: Path) -> None:
    fleet = ("--replicas", "2")
    alone = cell(bench, growing, *fleet, blocks=60)
    path = tmp_path / "requests.csv"
    peers = ("--peer-link", "50GB/s,latency=5us", "--requests", str(path))
    found = cell(bench, growing, *fleet, *peers, blocks=60)
    assert (alone["peer_tokens"], alone["peer_bytes"]) == (0, 0)
    assert found["peer_tokens"] > 0
    assert found["peer_bytes"] == found["peer_tokens"] * 131_072
    assert found["token_hit_rate"] > alone["token_hit_rate"]
    assert found["ttft_mean"] < alone["ttft_mean"]
    with path.open() as text:
        each = [int(row["peer_tokens"]) for row in csv.DictReader(text)]
    assert sum(each) == found["peer_tokens"]
    told = ("--policy", "lru", "--capacity", "60", *fleet, "--peer-link", "50GB/s")
    lines = bench("serve", "--trace", growing, *told).stdout.splitlines()
    assert lines[lines.index("What the server does") + 1].split()[-2:] == ["from", "peers"]


def test_nothing_is_preempted_if_what_comes_in_fits_to_its_end(
    bench: Command, tmp_path: Path
) -> None:
    lines = [
        json.dumps({"timestamp": 0, "input_length": 900, "output_length": 600, "hash_ids": [at]})
        for at in range(6)
    ]
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(lines) + "\n")
    short = cell(bench, path, blocks=6)
    never = cell(bench, path, "--preemption", "never", blocks=6)
    assert short["preemptions"] > 0
    assert (never["preemptions"], never["finished"]) == (0, 6)


def test_a_prompt_is_computed_in_chunks(bench: Command, growing: Path) -> None:
    whole = cell(bench, growing)
    chunks = cell(bench, growing, "--long-prefill-token-threshold", "1000")
    assert chunks["prefill_tokens"] == whole["prefill_tokens"]
    assert chunks["steps"] > whole["steps"]


def test_what_is_asked_is_read() -> None:
    assert parse_moves(8, "direct", "timeout=20ms", "none") == Moves(
        8, "direct", "timeout", 0.02, hit_refresh="none"
    )
    assert parse_peer_link(None) is None
    assert parse_peer_link("450GB/s") == pytest.approx(PeerLink(450e9, 5e-6))
    assert parse_peer_link("9GB/s,latency=1ms") == PeerLink(9e9, 1e-3)


GROUPS = '[cache]\ncapacity = 30\n[[tenants]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("--promote-fill direct", "--promote-fill: there is no tier below the pool"),
        ("--storage-prefetch best-effort", "--storage-prefetch: there is no tier below the pool"),
        ("--live-writes", "--live-writes: there is no tier below the pool"),
        ("--evict-backed-first", "--evict-backed-first: there is no tier below the pool"),
        ("--hit-refresh none", "--hit-refresh: there is no tier below the pool"),
        (f"--tier {HOST} --hit-refresh non", "one of first-tier, none; did you mean none"),
        (
            "--card h100:utilisation=0.8",
            "flops_fp16, utilization; did you mean utilization?",
        ),
        ("--card h100:utilization=1.2", "utilization = 1.2: must be a number above 0, at most 1"),
        (f"--tier {HOST} --promote-fill throug", "must be one of host, through, buffer, direct"),
        (
            f"--tier {HOST} --storage-prefetch best-efort",
            "must be wait-complete, best-effort or timeout=TIME; did you mean best-effort",
        ),
        (f"--tier {HOST} --storage-prefetch timeout", "or timeout=TIME"),
        (f"--tier {HOST} --storage-prefetch timeout=2", "must be a time such as 2s or 50ms"),
        (f"--tier {HOST} --live-writes --tell-next-use", "down as they are evicted with admission"),
        (f"--tier {BACK} --live-writes", "no request tells a next use: add --tell-next-use"),
        (f"--tier {HOST},each=1GB/s", "transfers that go in turn have all of the link"),
        (f"--tier {HOST},sharing=fair", 'sharing = "fair": must be "even" or "in-turn"'),
        (f"--tier {HOST},sharing=even,each=1", "each = 1: must be bytes a second"),
        ("--link pcie=64GB/s", "--link: there is no tier below the pool"),
        (f"--tier {HOST} --link pcie=64GB/s", "no tier has it in its path: add path=pcie to one"),
        (f"--tier {HOST} --link pcie", "--link pcie: must be NAME=RATE, such as pcie=64GB/s"),
        (f"--tier {HOST} --link pcie=64", "--link pcie = 64: must be bytes a second"),
        (f"--tier {HOST} --link pcie=64GB/s,lat=1us", "no key lat: write, latency, each; did you"),
        (f"--tier {HOST} --link host=64GB/s", "there is a link host: take another name"),
        (f"--tier {HOST},path=pcie", "path = pcie: there is no --link pcie"),
        (
            f"--tier {HOST},path=pcie+nic --link pcie=64GB/s --link nik=1GB/s",
            "path = pcie+nic: there is no --link nic; did you mean nik",
        ),
        (
            f"--tier {HOST},path=pcie --link pcie=64GB/s",
            "path = pcie: its transfers queue: add sharing=even",
        ),
        ("--peer-link 9GB/s", "--peer-link 9GB/s: one server has no peers: add --replicas"),
        ("--replicas 2 --peer-link 9GB", "--peer-link = 9GB: must be bytes a second"),
        ("--replicas 2 --peer-link 9GB/s,latncy=1ms", "no key latncy: latency; did you mean"),
        ("--preemption nevr", "must be one of recompute, swap, auto, never; did you mean never"),
        ("--preemption never --profile fixed", "--preemption never: the server of --profile fixed"),
        ("--preemption never --config kv.toml", "the blocks of [[tenants]] of --config are not"),
    ],
)
def test_what_cannot_be_is_refused(
    bench: Command, growing: Path, tmp_path: Path, asked: str, message: str
) -> None:
    (tmp_path / "kv.toml").write_text(GROUPS)
    asked = asked.replace("kv.toml", str(tmp_path / "kv.toml"))
    done = bench("serve", "--trace", growing, *asked.split())
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
