"""A log as a file: all of it comes back, what is damaged is told, and the bench replays it."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from kvframe import KVCacheManager, TraceError, UsageError, _core
from kvframe.bench.traces import load
from kvframe.cli import main
from kvframe.request import MMItem
from kvframe.retention import Keep, Retention, TokenRange
from kvframe.stats import EventLog, redrive
from kvframe.traces import logs
from tests.manager.helpers import manager

from ..oracle.machine import Setup
from .walk import Walk

SIZE = 4
SETUP = Setup(blocks=24, size=SIZE)


def same(one: EventLog, two: EventLog) -> None:
    assert list(one.events) == list(two.events)
    for name, column in one.events.items():
        assert (column.dtype, column.tolist()) == (
            two.events[name].dtype,
            two.events[name].tolist(),
        )
    assert (one.ids.dtype, one.ids.tolist()) == (two.ids.dtype, two.ids.tolist())
    assert one.block_size == two.block_size
    assert list(one.requests) == list(two.requests)
    for seq, request in one.requests.items():
        told = [repr((r.prompt, r.options)) for r in (request, two.requests[seq])]
        assert told[0] == told[1]


def walked(steps: int = 300) -> tuple[KVCacheManager, EventLog]:
    walk = Walk(SETUP, "saved")
    logs = [walk.one() for _ in range(steps)]
    return walk.kv, EventLog.joined(logs)


@pytest.mark.scenario("F34")
@pytest.mark.parametrize("name", ["run.kvlog", "run.kvlog.gz"])
def test_all_of_it_comes_back(tmp_path: Path, name: str) -> None:
    kv, log = walked()
    path = tmp_path / name
    log.save(path)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert path.stat().st_mode & 0o777 == 0o600, "it holds users' prompts"
    assert [each.name for each in tmp_path.iterdir()] == [name]
    back = EventLog.load(path)
    same(log, back)
    again = SETUP.manager()
    redrive(back, again)
    assert again.counts() == kv.counts()
    written = path.read_bytes()
    back.save(path)
    assert path.read_bytes() == written


@pytest.mark.scenario("F34")
def test_every_keyword_of_a_request_comes_back(tmp_path: Path) -> None:
    kv = manager(64, SIZE, event_log=True)
    kv.allocate(
        range(16), cache_salt="s", lora_name="a", mm_items=[MMItem(2, 5, b"\x00i")], session=2**64 -
        1, turn=3, request_class=4, priority=-5, read_cache=False, partial=True, chunk=8, until=12,
        max_seq_len=40, next_use=np.array([5, 2**32 - 1], np.uint32),
        retention=Retention([TokenRange(0, None, Keep(90, 7))], Keep(10, 3, decay="linear")),
    )  # fmt: skip
    kv.allocate(range(9), num_external_tokens=8, write_cache=False)
    kv.allocate(None, keys=kv.blocks.hash_blocks(range(8)), num_tokens=11)
    log = kv.log.take()
    log.save(tmp_path / "x.kvlog")
    same(log, EventLog.load(tmp_path / "x.kvlog"))


@pytest.mark.scenario("F34")
def test_an_empty_log_is_a_file_too(tmp_path: Path) -> None:
    for log in (manager(4, SIZE, event_log=True).log.take(), EventLog.joined([])):
        log.save(tmp_path / "none.kvlog")
        same(log, EventLog.load(tmp_path / "none.kvlog"))
        assert list(EventLog.load(tmp_path / "none.kvlog")) == []


def test_portions_of_two_managers_are_not_joined() -> None:
    parts = [manager(4, size, event_log=True).log.take() for size in (4, 8)]
    with pytest.raises(UsageError, match=r"block_size = .*: must be that of one manager"):
        EventLog.joined(parts)
    anything: Any = 3
    with pytest.raises(UsageError, match="log = 3: must be an EventLog"):
        EventLog.joined([anything])


def cut(data: bytes) -> bytes:
    return data[:-3]


def flipped(data: bytes) -> bytes:
    return data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]


@pytest.mark.scenario("F34")
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (cut, "the log ends after .* bytes, but its header says "),
        (flipped, "damaged: its checksum is another"),
        (lambda data: data.replace(b"log 2 ", b"log 1 ", 1), "event log of version '1': .* reads "),
        (lambda data: data.replace(b"log 2 ", b"log 3 ", 1), "event log of version '3': .* reads "),
        (lambda data: data.replace(b'"bytes"', b'"byte"', 1), "damaged header: "),
        (lambda data: gzip.compress(data)[:-9], "the gzip data is damaged: "),
        (lambda data: b"", "is no saved event log"),
        (lambda data: b'{"timestamp": 0}\n', "is no saved event log"),
    ],
)
def test_damage_is_told(tmp_path: Path, damage: Callable[[bytes], bytes], told: str) -> None:
    path = tmp_path / "bad.kvlog"
    walked(20)[1].save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TraceError, match=f"bad.kvlog: {told}") as caught:
        EventLog.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.scenario("F34")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": 200}, "its events are of kinds that are not known"),
        ({"ids": 99}, "its token ids are not those of its events"),
        ({"seq": 5}, "an admission of it has no request"),
    ],
)
def test_what_a_log_cannot_say_is_refused(
    tmp_path: Path, change: dict[str, int], told: str
) -> None:
    _, log = walked(20)
    for name, value in change.items():
        log.events[name][:] = value
    log.save(tmp_path / "odd.kvlog")
    with pytest.raises(TraceError, match=f"odd.kvlog: cannot be read as an event log: {told}"):
        EventLog.load(tmp_path / "odd.kvlog")


@pytest.mark.scenario("F34")
def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none.kvlog: No such file"):
        EventLog.load(tmp_path / "none.kvlog")
    with pytest.raises(TraceError, match=r"no/x.kvlog: cannot be written: No such file"):
        walked(5)[1].save(tmp_path / "no" / "x.kvlog")


# --- as a trace -----------------------------------------------------------------------------------


def recorded(policy: str, capacity: int, seed: int) -> tuple[KVCacheManager, EventLog]:
    """Prompts of whole blocks, one at a time: chats that grow, and strangers."""
    dice = random.Random(seed)
    kv = manager(capacity, SIZE, event_log=True, policy=policy)
    chats: list[list[int]] = [[] for _ in range(6)]
    turns = [0] * len(chats)
    parts = []
    for _ in range(120):
        who = dice.randrange(len(chats))
        if len(chats[who]) > 5 * SIZE:
            chats[who] = chats[who][: SIZE * dice.randrange(3)]
        chats[who] = chats[who] + [dice.randrange(3) for _ in range(SIZE * dice.randint(1, 2))]
        grant = kv.allocate(chats[who], session=who + 1, turn=turns[who], cache_salt="ab"[who % 2])
        turns[who] += 1
        kv.commit(grant.seq, len(chats[who]))
        kv.release(grant.seq)
        if dice.random() < 0.1:
            parts.append(kv.log.take())
    return kv, EventLog.joined([*parts, kv.log.take()])


@pytest.mark.scenario("F34")
@pytest.mark.parametrize("policy", ["lru", "slru", "arc", "mq", "session"])
@pytest.mark.parametrize("capacity", [9, 16, 400])
def test_serial_requests_hit_as_much_when_replayed(
    tmp_path: Path, policy: str, capacity: int
) -> None:
    for seed in range(3):
        kv, log = recorded(policy, capacity, seed)
        log.save(tmp_path / "run.kvlog.gz")
        trace = load(str(tmp_path / "run.kvlog.gz")).trace
        got = _core.replay(trace, policy, capacity, "engine")
        assert got["requests"] == kv.stats.counters()["requests"]
        assert got["input_tokens"] == kv.stats.counters()["prompt_tokens"]
        assert got["hit_tokens"] == kv.stats.counters()["hit_tokens"] > 0
        assert got["evictions"] == kv.stats.counters()["evictions"]


@pytest.mark.scenario("F34")
@pytest.mark.parametrize("policy", ["foresight", "w-tinylfu"])
def test_policies_that_remember_hashes_hit_nearly_as_much_when_replayed(
    tmp_path: Path, policy: str
) -> None:
    kv, log = recorded(policy, 16, seed=1)
    log.save(tmp_path / "run.kvlog")
    got = _core.replay(load(str(tmp_path / "run.kvlog")).trace, policy, 16, "engine")
    assert got["hit_tokens"] == pytest.approx(kv.stats.counters()["hit_tokens"], rel=0.1)


@pytest.mark.scenario("F34")
@pytest.mark.parametrize("name", ["run.kvlog", "run.kvlog.gz", "-"])
def test_the_command_replays_it(tmp_path: Path, name: str) -> None:
    kv, log = recorded("lru", 9, 1)
    path = tmp_path / name.replace("-", "run.kvlog.gz")
    log.save(path)
    asked = ["bench", "run", "--trace", str(path) if name != "-" else name, "--policy", "lru"]
    asked += ["--capacity", "9", "--format", "json", "--mode", "engine,timed"]
    given = path.read_bytes() if name == "-" else None
    done = CliRunner().invoke(main, asked, input=given)
    assert done.exit_code == 0, done.stderr
    engine, timed = json.loads(done.stdout)["cells"]
    assert engine["hit_tokens"] == kv.stats.counters()["hit_tokens"]
    assert timed["requests"] == engine["requests"]
    assert "warning: " in done.stderr
    assert "a log's ticks are read as milliseconds; --time-unit says" in done.stderr
    assert "--mode timed" not in done.stderr
    asked = [*asked[:-1], "engine"]
    done = CliRunner().invoke(main, asked, input=given)
    assert "none that runs beside it holds blocks" in done.stderr
    assert "ask --mode timed too" in done.stderr
    done = CliRunner().invoke(main, [*asked, "--time-unit", "s"], input=given)
    assert done.exit_code == 2
    assert "time unit s: the log has no clock" in done.stderr


def rows(log: EventLog, unit: str | None = None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logs.rows(log, "t", unit).splitlines()]


@pytest.mark.scenario("F34")
def test_what_a_row_says() -> None:
    kv = manager(64, SIZE, event_log=True)
    first = kv.allocate(range(10), session=7)
    kv.commit(first.seq, 10)
    kv.append(first.seq, [1, 2, 3])
    kv.allocate(kv.preempt(first.seq))
    other = kv.allocate(range(10), cache_salt="other")
    kv.release(other.seq)
    kv.allocate(range(9), read_cache=False, write_cache=False)
    kv.allocate([*range(8), 9])
    one, two, three, four = rows(kv.log.take())
    assert (one["input_length"], one["output_length"], one["session_id"]) == (10, 3, 7)
    assert one["hash_ids"] == four["hash_ids"] == [0, 1]
    assert not {*two["hash_ids"], *three["hash_ids"]} & {0, 1}
    assert len({*two["hash_ids"], *three["hash_ids"]}) == 4
    assert (two["output_length"], "session_id" in two) == (0, False)


@pytest.mark.scenario("F34")
def test_times_are_ticks_or_those_of_the_clock() -> None:
    kv = manager(64, SIZE, event_log=True)
    kv.allocate(range(5))
    for now in (3, 7):
        kv.expire_until(now)
        kv.allocate([now] * 5)
        kv.allocate([now] * 6)
    log = kv.log.take()
    ticks = [row["timestamp"] for row in rows(log)]
    assert ticks == sorted(ticks)
    assert [row["timestamp"] for row in rows(log, "ms")] == [3, 3, 3, 7, 7]
    assert [row["timestamp"] for row in rows(log, "s")] == [3000, 3000, 3000, 7000, 7000]
    kv.allocate(range(5))
    with pytest.raises(TraceError, match="t: time unit s: the log has no clock"):
        logs.rows(kv.log.take(), "t", "s")
    with pytest.raises(TraceError, match="t: no requests: the log admits none"):
        logs.rows(kv.log.take(), "t")
    with pytest.raises(TraceError, match="t: the log does not say its block size"):
        logs.rows(EventLog(log.events, log.ids, log.requests), "t")
