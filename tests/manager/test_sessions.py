"""Sessions by number and by name: one stable number wherever one is taken."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe import HintStatus, KVCacheManager, Request, SlotCache, UsageError, _core, session_id
from kvframe.flat import Access, TierPolicy
from kvframe.integrations.peers import use_of
from kvframe.policies import BatchedEviction, Candidates
from kvframe.stats import redrive

from .helpers import cached, manager, registry

NAMES = ["a", "7", "agent-42", "x" * 1_000, "\u00fc", "\U0001f40d", " ", "0"]


def digest(name: str) -> int:
    """The documented function, in other words."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "little") | 1 << 63


@pytest.mark.scenario("F33")
def test_a_name_has_the_documented_number_and_a_number_its_own() -> None:
    assert [session_id(name) for name in NAMES] == [digest(name) for name in NAMES]
    numbers = [0, 1, 7, 2**63 - 1, 2**63, 2**64 - 1]
    assert [session_id(number) for number in numbers] == numbers
    assert session_id("") == 0
    assert len({session_id(name) for name in map(str, range(10_000))}) == 10_000
    assert min(session_id(str(number)) for number in range(1_000)) >= 2**63


@pytest.mark.scenario("F33")
def test_it_is_the_same_in_another_process() -> None:
    code = f"import kvframe; print([kvframe.session_id(name) for name in {NAMES!r}])"
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(told.stdout) == [digest(name) for name in NAMES]


BAD = [-1, 2**64, 1.5, None, b"a", ["a"], "\ud800"]


@pytest.mark.scenario("F33")
@pytest.mark.parametrize("bad", BAD, ids=ascii)
def test_what_is_neither_is_refused_wherever_one_is_taken(bad: Any) -> None:
    kv = manager()
    tier: TierPolicy[str] = TierPolicy.named("lru", 2)
    for call in (
        lambda: session_id(bad),
        lambda: Request([1], session=bad),
        lambda: kv.pins.hint(bad, "retain"),
        lambda: kv.pins.hint(bad, "pin"),
        lambda: tier.insert("key", use=Access(session=bad)),
        lambda: SlotCache(1, 4).allocate([1], use=Access(session=bad)),
    ):
        with pytest.raises(UsageError, match=r"^session = .*must be an integer .*, or a name"):
            call()


class Noting(BatchedEviction):
    """Evicts in the order offered; notes the sessions that it saw."""

    columns = ("session",)
    window = 0

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def score(self, candidates: Candidates, out: Any) -> None:
        self.seen |= set(candidates["session"].tolist())
        out[:] = np.arange(len(out))


@pytest.mark.scenario("F33")
def test_policies_logs_and_snapshots_see_the_number() -> None:
    policy = Noting()
    kv = manager(8, policy="mine", known=registry("mine", lambda _: policy), event_log=True)
    for start, session in ((0, "a"), (100, 7), (200, "7")):
        cached(kv, range(start, start + 8), session=session)
    running = kv.allocate(range(300, 316), session="b").seq
    assert policy.seen == {session_id("a"), 7, session_id("7")}
    assert [s.session for s in kv.inspect.snapshot().sequences.values()] == [session_id("b")]
    log = kv.log.take()
    twin = manager(8, policy="mine", known=registry("mine", lambda _: Noting()), event_log=True)
    redrive(log, twin)
    assert [s.session for s in twin.inspect.snapshot().sequences.values()] == [session_id("b")]
    # What brings a request back is of its session still.
    again = kv.allocate(kv.preempt(running)).seq
    assert {seq: s.session for seq, s in kv.inspect.snapshot().sequences.items()} == {
        again: session_id("b")
    }


@pytest.mark.scenario("F33")
def test_hints_name_it_as_requests_do() -> None:
    kv = KVCacheManager.from_toml(
        cache={"block_size": 4, "capacity": 16}, retention={"sessions": True}
    )
    for start, session in ((0, "a"), (100, "b"), (200, "c")):
        cached(kv, range(start, start + 8), session=session)
    assert kv.pins.hint("a", "release").blocks == 2
    assert kv.pins.hint(session_id("b"), "release").blocks == 2
    assert kv.pins.hint("other", "release").status is HintStatus.MISSING
    pinned = kv.pins.hint("c", "pin", owner="test")
    assert pinned.pin is not None
    assert pinned.pin.tokens == 8
    kv.evict_until(16)
    assert kv.lookup(range(200, 209)).tokens == 8


@pytest.mark.scenario("F33")
def test_a_trace_names_it_as_an_engine_does(tmp_path: Path) -> None:
    names: list[Any] = ["a", 7, "7", 0, -3, "", 2**40]
    path = tmp_path / "named.jsonl"
    with path.open("w") as file:
        for i, name in enumerate(names):
            row = {"timestamp": i, "input_length": 32, "output_length": 1, "hash_ids": [i, 99 + i]}
            file.write(json.dumps(row | {"session_id": name, "block_size": 16}) + "\n")
    policy = Noting()
    from ..replay.test_one_meaning import driver

    _core.replay(_core.Trace.load(str(path)), driver(lambda: policy), 3, "engine")  # type: ignore[arg-type]
    # 0 is no session in an engine, nor is the empty name: a trace's stand apart from all others.
    wanted = {session_id("a"), 7, session_id("7"), session_id("0"), session_id("-3")}
    assert wanted < policy.seen
    assert len(policy.seen) == len(wanted) + 1
    assert 0 not in policy.seen


@pytest.mark.scenario("F33")
def test_another_engine_may_name_it(recwarn: pytest.WarningsRecorder) -> None:
    assert use_of({"session": "agent-42", "turn": 3}) == Access(session="agent-42", turn=3)
    assert use_of({"session": 9}).session == 9
    assert not recwarn.list
    tier: TierPolicy[str] = TierPolicy.named("session", 4)
    tier.insert("key", use=use_of({"session": "agent-42"}))
    tier.check_integrity()
