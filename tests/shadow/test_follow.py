"""Shadows of a manager, by its log: the same policy and size hits what the manager hits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kvframe import KVCacheManager, Request
from kvframe.cli import main
from kvframe.errors import CapacityError, UsageError
from kvframe.shadow import ShadowSet, attach, followed
from kvframe.stats.log import EventLog

SIZE = 4
BLOCKS = 60


def manager(policy: str = "lru", **cache: Any) -> KVCacheManager:
    options = {"capacity": BLOCKS, "block_size": SIZE, "event_log": True, **cache}
    return KVCacheManager(cache=options, eviction={"policy": policy})


def serve(kv: KVCacheManager, seed: int = 1, requests: int = 250) -> None:
    """Requests of a few families side by side, that grow, are preempted, and end."""
    chance = random.Random(seed)
    families = [[chance.randrange(1000) for _ in range(30)] for _ in range(8)]
    running: list[int] = []
    for _ in range(requests):
        prompt = chance.choice(families)[: chance.randrange(8, 30)]
        prompt = prompt + [chance.randrange(1000) for _ in range(chance.randrange(1, 9))]
        while running:
            try:
                given = kv.allocate(Request(prompt))
                break
            except CapacityError:
                kv.release(running.pop(0))
        else:
            given = kv.allocate(Request(prompt))
        kv.commit(given.seq, len(prompt))
        running.append(given.seq)
        for seq in running:
            if chance.random() < 0.4 and kv.counts().free + kv.counts().cached > 4:
                kv.append(seq, [chance.randrange(1000)])
                kv.commit(seq, kv.lengths(seq).known)
        if len(running) > 3:
            kv.release(running.pop(chance.randrange(len(running))))
    for seq in running:
        kv.release(seq)


@pytest.mark.parametrize("policy", ["lru", "lfu", "slru", "s3-fifo"])
def test_the_shadow_of_what_runs_hits_what_it_hits(policy: str) -> None:
    kv = manager(policy)
    watched = attach(kv, ["lru", "lfu"])
    serve(kv)
    watched.update()
    watched.shadows.flush()
    watched.shadows.check_integrity()
    report = watched.report()
    watched.close()
    counters = kv.stats.counters()
    assert report.actual is not None
    assert report.actual.policy == policy
    assert report.actual.requests == 250
    assert report.actual.query_tokens == counters["prompt_tokens"]
    assert report.actual.found_tokens == counters["hit_tokens"]
    if policy == "lru":
        assert report.actual.equal_requests >= 248
    assert abs(report.difference) < 0.01
    assert report.doubt is None


def test_portions_of_a_log_are_as_good_as_the_whole() -> None:
    kv = manager()
    watched = attach(kv, ["lru", "lfu"], [30, 90])
    parts = []
    for seed in range(5):
        serve(kv, seed, 40)
        parts.append(watched.update())
    watched.shadows.flush()
    whole = EventLog.joined(parts)
    with ShadowSet(["lru", "lfu"], [30, 90], SIZE, actual=("lru", BLOCKS), chained=True) as again:
        assert followed(whole, again) == watched.report()
    watched.close()


def test_a_manager_without_a_log_is_refused() -> None:
    with pytest.raises(UsageError, match="event_log = false"):
        attach(manager(event_log=False), ["lru"])


def test_a_log_of_other_blocks_is_refused() -> None:
    kv = manager()
    serve(kv, requests=3)
    with ShadowSet(["lru"], [10], 16) as shadows, pytest.raises(UsageError, match="4 tokens"):
        followed(kv.log.take(), shadows)


# --- the command ----------------------------------------------------------------------------------


def run(*args: str) -> Any:
    return CliRunner().invoke(main, ["shadow", *args])


def test_the_command_reads_a_log(tmp_path: Path) -> None:
    kv = manager()
    serve(kv)
    log = kv.log.take()
    log.save(tmp_path / "run.kvlog")
    asked = ["--policy", "lru", "--policy", "lfu", "--capacity", "30", "--capacity", str(BLOCKS)]
    done = run(str(tmp_path / "run.kvlog"), *asked, "--actual", f"lru={BLOCKS}")
    assert done.exit_code == 0, done.output
    header, lru, lfu, really = done.stdout.splitlines()
    assert header.split() == ["policy", "30", "blocks", str(BLOCKS), "blocks"]
    assert (lru.split()[0], lfu.split()[0]) == ("lru", "lfu")
    assert lru.split()[-1] == really.split()[-1]


def test_numbers_not_to_be_trusted_are_an_error(tmp_path: Path) -> None:
    kv = manager()
    serve(kv)
    kv.log.take().save(tmp_path / "run.kvlog")
    asked = (str(tmp_path / "run.kvlog"), "--policy", "lru", "--capacity", str(BLOCKS))
    done = run(*asked, "--actual", f"lru={BLOCKS // 2}")
    assert done.exit_code == 1
    assert "error: not to be trusted: the shadow of what really runs, lru with 30" in done.stderr
    assert f"(--actual lru={BLOCKS // 2} must be what ran)" in done.stderr
    sized = run(asked[0], "--capacity", "1 GiB")
    assert sized.exit_code == 2
    assert "--capacity 1 GiB: must be in blocks here" in sized.stderr


def test_a_recorded_log_says_what_was_said_live(tmp_path: Path) -> None:
    kv, parts = manager(), []
    watched = attach(kv, ["lru", "lfu", "s3-fifo"], [30, 90])
    for seed in range(3):
        serve(kv, seed, 60)
        parts.append(watched.update())
    watched.shadows.flush()
    live = watched.report()
    watched.close()
    EventLog.joined(parts).save(tmp_path / "run.kvlog")
    asked = ["--policy", "lru", "--policy", "lfu", "--policy", "s3-fifo", "--json"]
    asked += ["--capacity", "30", "--capacity", "90", "--actual", f"lru={BLOCKS}"]
    done = run(str(tmp_path / "run.kvlog"), *asked)
    lists = ["--json", "--policy", "lru,lfu,s3-fifo", "--capacity", "30,90"]
    again = run(str(tmp_path / "run.kvlog"), *lists, "--actual", f"lru={BLOCKS}")
    assert again.stdout == done.stdout
    assert done.exit_code == 0, done.output
    told = msgspec.json.decode(done.stdout)
    rows = [one._asdict() | {"hit_rate": live.hit_rate(one)} for one in live.shadows]
    assert told["shadows"] == rows


def test_the_command_reads_a_trace_and_agrees_with_bench() -> None:
    done = run("synthetic", "--policy", "lru", "--capacity", "5000", "--json")
    assert done.exit_code == 0, done.output
    told = msgspec.json.decode(done.stdout)
    asked = ["--trace", "synthetic", "--policy", "lru", "--capacity", "5000"]
    ran = CliRunner().invoke(main, ["bench", "run", *asked, "--mode", "engine", "--format", "json"])
    assert ran.exit_code == 0, ran.output
    (cell,) = [one for one in msgspec.json.decode(ran.stdout)["cells"] if one["policy"] == "lru"]
    assert told["shadows"][0]["hit_tokens"] == cell["hit_tokens"]


def test_the_command_refuses_what_it_cannot_check() -> None:
    done = run("synthetic", "--capacity", "10", "--actual", "lru=10")
    assert done.exit_code != 0
    assert run("synthetic", "--capacity", "10", "--actual", "lru").exit_code != 0
    for capacity, words in (
        ("5%", "--capacity 5%: must be a number of blocks"),
        ("x", "--capacity x"),
    ):
        done = run("synthetic", "--capacity", capacity)
        assert (done.exit_code, words in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--sort",), "--sort: run.kvlog is a manager's log"),
        (("--trace-format", "mooncake"), "--trace-format: run.kvlog is a manager's log"),
        (("--block-size", "8"), "--block-size: run.kvlog says it: "),
    ],
)
def test_a_saved_log_says_all_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    kv = manager()
    serve(kv)
    kv.log.take().save("run.kvlog")
    result = run("run.kvlog", "--capacity", "30", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
