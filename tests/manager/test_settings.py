"""``kv.settings``: another configuration in a manager that serves, and the one before back."""

from __future__ import annotations

import random
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import Config, KVCacheManager
from kvframe.errors import CapacityError, ConfigError, PluginError, PolicyError, UsageError
from kvframe.manager.settings import FIXED, LIVE, ConfigChange
from kvframe.metrics.samples import by_family, samples
from kvframe.policies import BatchedAdmission, BatchedEviction
from kvframe.policies.admission import Arrivals
from kvframe.policies.batched import Candidates
from tests.workers import beside

from .gates import GateHolder
from .helpers import VERSION, installed, registry

BLOCK = 4

POLICIES = ["lru", "lfu", "fifo", "arc", "slru", "sieve", "s3-fifo", "gdsf", "lirs"]


class Deepest(BatchedEviction):
    """Evicts what stands deepest in its prefix, and notes how often it was asked."""

    columns = ("depth", "uses")

    def __init__(self) -> None:
        self.asked, self.most_uses = 0, 0

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        self.asked += 1
        self.most_uses = max(self.most_uses, int(candidates["uses"].max()))
        out[:] = -candidates["depth"].astype(np.float64)


class Nothing(BatchedAdmission):
    """Keeps nothing, from the first block on."""

    columns = ("depth",)

    def admit(self, arrivals: Arrivals, tier: str, out: npt.NDArray[np.uint8]) -> None:
        out[:] = 0


def serve(kv: KVCacheManager, blocks: list[int]) -> int:
    """Compute a prompt of whole blocks and one token more; how many tokens were found."""
    tokens = [token for block in blocks for token in range(block * 100, block * 100 + BLOCK)]
    given = kv.allocate([*tokens, 99_999])
    kv.commit(given.seq, len(tokens) + 1)
    kv.release(given.seq)
    return given.cached_tokens


def plain(capacity: int = 24, **more: Any) -> Config:
    return Config.of(block_size=BLOCK, capacity=capacity, **more)


def test_a_receipt_says_what_changed_and_which_version_it_has() -> None:
    kv = KVCacheManager(plain())
    assert kv.settings.version == 1
    assert kv.settings.reload(plain()) == (1, ())
    told = kv.settings.reload(plain(eviction="lfu", pressure={"reserve": 3, "high": 0.8}))
    assert told.version == kv.settings.version == 2
    assert set(told.changes) == {
        ConfigChange("eviction.policy", "lru", "lfu"),
        ConfigChange("pressure.reserve", 0, 3),
        ConfigChange("pressure.high", 0.85, 0.8),
    }
    now = kv.inspect.options()
    assert (now["policy"], now["reserve"], now["high"]) == ("lfu", 3, 0.8)
    assert kv.inspect.resolved.eviction.name == "lfu"
    back = kv.settings.rollback()
    assert back.version == 3
    assert ConfigChange("eviction.policy", "lfu", "lru") in back.changes
    assert kv.inspect.options()["policy"] == "lru"
    with pytest.raises(UsageError, match="version 3: nothing was changed that could go back"):
        kv.settings.rollback()


def test_a_return_goes_back_one_change_at_a_time() -> None:
    kv = KVCacheManager(plain(eviction="lru"))
    for name in ("lfu", "fifo", "arc"):
        kv.settings.reload(plain(eviction=name))
    names = []
    for _ in range(3):
        kv.settings.rollback()
        names.append(kv.inspect.options()["policy"])
    assert (names, kv.settings.version) == (["fifo", "lfu", "lru"], 7)


@pytest.mark.parametrize("policy", POLICIES)
def test_it_decides_as_a_manager_that_began_so(policy: str) -> None:
    """Prompts without a common front, released in turn: both evict the same afterwards."""
    began, changed = KVCacheManager(plain(eviction=policy)), KVCacheManager(plain(eviction="lru"))
    for kv in (began, changed):
        given = [kv.allocate(list(range(at * 1000, at * 1000 + 3 * BLOCK))) for at in range(6)]
        for one in given:
            kv.commit(one.seq, 3 * BLOCK)
        for one in given:
            kv.release(one.seq)
    changed.settings.reload(plain(eviction=policy))
    changed.check_integrity()
    dice = random.Random(5)
    for _ in range(150):
        at = 10 * dice.randrange(14)
        blocks = [at, at + 1, at + 2][: dice.randint(1, 3)]
        assert serve(began, blocks) == serve(changed, blocks)


@pytest.mark.parametrize("seed", range(6))
def test_changes_between_random_operations_lose_nothing(seed: int) -> None:
    dice = random.Random(seed)
    known = registry("deepest", lambda _: Deepest())
    known.register(GateHolder("nothing", lambda _: Nothing()), "nothing", "kvframe-test", VERSION)
    kv = KVCacheManager(plain(capacity=40))
    live: list[int] = []
    for _ in range(400):
        if live and dice.random() < 0.5:
            kv.release(live.pop(dice.randrange(len(live))))
        else:
            tokens = [
                token
                for depth in range(dice.randint(1, 5))
                for token in [100 * depth + dice.randrange(3)] * BLOCK
            ]
            try:
                given = kv.allocate(tokens)
            except CapacityError:
                continue
            kv.commit(given.seq, len(tokens))
            live.append(given.seq)
        if dice.random() < 0.1:
            before, running = kv.counts(), list(kv.inspect.running())
            config = plain(
                capacity=40,
                eviction=dice.choice([*POLICIES, "deepest"]),
                admission=dice.choice(["always", "second-use", "nothing"]),
                pressure={"reserve": dice.randrange(3)},
            )
            if dice.random() < 0.3 and kv.settings.version > 1:
                try:
                    kv.settings.rollback()
                except UsageError:
                    continue
            else:
                kv.settings.reload(config.resolve(known))
            assert (kv.counts(), list(kv.inspect.running())) == (before, running)
            kv.check_integrity()
    for seq in live:
        kv.release(seq)
    kv.evict_until(40)
    kv.check_integrity()
    assert kv.counts().free == 40


def test_a_policy_in_python_gets_the_blocks_with_their_facts_and_is_let_go() -> None:
    made: list[Deepest] = []

    def make(_: object) -> Deepest:
        made.append(Deepest())
        return made[-1]

    known = registry("deepest", make)
    kv = KVCacheManager(plain(capacity=5, eviction="deepest").resolve(known))
    for _ in range(3):
        serve(kv, [1, 2])
    serve(kv, [5, 6, 7])
    assert made[0].asked
    kv.settings.reload(
        plain(capacity=5, eviction="deepest", pressure={"reserve": 0}).resolve(known)
    )
    assert len(made) == 1, "its section did not differ: it stays with what it has learnt"
    first = made[0].asked
    kv.settings.reload(
        plain(capacity=5, eviction={"policy": "deepest", "budget_ms": 500}).resolve(known)
    )
    serve(kv, [8, 9])
    assert (len(made), made[0].asked) == (2, first)
    assert made[1].asked
    assert made[1].most_uses >= 3, "the core's own counts stay with the blocks"
    assert kv.stats.policy_times()["eviction"].decisions == made[1].asked
    kv.settings.reload(plain(capacity=5))
    asked = made[1].asked
    serve(kv, [20, 21, 22])
    assert made[1].asked == asked
    kv.check_integrity()


def test_an_admission_policy_changes_for_what_comes() -> None:
    known = installed().__class__()
    known.register(GateHolder("nothing", lambda _: Nothing()), "nothing", "kvframe-test", VERSION)
    kv = KVCacheManager(plain())
    serve(kv, [1, 2])
    kv.settings.reload(plain(admission="nothing").resolve(known))
    assert serve(kv, [1, 2]) == 2 * BLOCK, "what was kept is found"
    assert (serve(kv, [5]), serve(kv, [5])) == (0, 0)
    dropped = kv.stats.counters()["admission_dropped"]
    assert dropped
    kv.settings.rollback()
    assert (serve(kv, [5]), serve(kv, [5])) == (0, BLOCK)
    assert kv.stats.counters()["admission_dropped"] == dropped, "a counter never falls"


def test_what_cannot_change_is_named_with_the_reason() -> None:
    kv = KVCacheManager(plain())
    serve(kv, [1, 2])
    then = Config.of(
        block_size=8,
        capacity=24,
        eviction="lfu",
        observe={"sample": 7},
        retention={"sessions": True},
        security={"fips_hashes": False},
    )
    with pytest.raises(ConfigError) as told:
        kv.settings.reload(then)
    lines = [str(told.value), *told.value.others]
    cannot = "cannot change in a manager that serves"
    assert set(lines) == {
        f"cache.block_size = 8: {cannot}: {FIXED['cache']}",
        f"retention.sessions = true: {cannot}: {FIXED['retention.sessions']}",
        f"observe.sample = 7: {cannot}: {FIXED['observe']}",
    }
    assert (kv.settings.version, kv.inspect.options()["policy"]) == (1, "lru")
    assert serve(kv, [1, 2]) == 2 * BLOCK


def test_every_section_is_live_or_fixed() -> None:
    sections = {key.partition(".")[0] for key in (*LIVE, *FIXED)}
    assert sections == set(Config.__struct_fields__)


def test_a_policy_that_fails_leaves_the_old_one_in_force() -> None:
    def broken(_: object) -> object:
        raise ValueError("no such luck")

    known = registry("broken", broken)
    kv = KVCacheManager(plain(eviction="lfu"))
    serve(kv, [1, 2])
    order = kv.inspect.eviction_order()
    with pytest.raises(PolicyError, match="no such luck"):
        kv.settings.reload(plain(eviction="broken").resolve(known))
    with pytest.raises(PluginError, match="lru"):
        kv.settings.reload(plain(eviction="lrru"))
    with pytest.raises(ConfigError, match=r"pressure\.high"):
        kv.settings.reload(plain(pressure={"high": 0.5}))
    assert (kv.settings.version, kv.counts().total) == (1, 24)
    assert kv.inspect.options()["policy"] == "lfu"
    assert kv.inspect.eviction_order() == order
    kv.check_integrity()


def test_the_capacity_is_changed_by_resize_alone() -> None:
    kv = KVCacheManager(plain())
    with pytest.raises(ConfigError, match=r"cache\.capacity = 8: .*`KVCacheManager.resize`"):
        kv.settings.reload(plain(capacity=8, eviction="lfu"))
    assert (kv.counts().total, kv.inspect.options()["policy"]) == (24, "lru")
    kv.resize(8)
    kv.settings.reload(plain(eviction="lfu"))
    assert kv.counts().total == 8
    kv.check_integrity()


@pytest.mark.parametrize("policy", [*POLICIES[1:], "lfuda", "mq", "2q", "lecar", "w-tinylfu"])
def test_what_runs_while_the_policy_changes_runs_on(policy: str) -> None:
    kv = KVCacheManager(plain())
    tokens = list(range(10 * BLOCK + 2))
    given = kv.allocate(tokens)
    kv.settings.reload(plain(eviction=policy))
    kv.commit(given.seq, len(tokens))
    kv.release(given.seq)
    assert serve(kv, [1, 2, 3]) == 0
    kv.settings.rollback()
    kv.evict_until(24)
    kv.check_integrity()


def test_a_policy_in_the_making_changes_nothing() -> None:
    def make(_: object) -> Deepest:
        kv.settings.reload(plain(eviction="lfu"))
        return Deepest()

    kv = KVCacheManager(plain())
    with pytest.raises((PolicyError, UsageError), match="a change is under way"):
        kv.settings.reload(plain(eviction="nested").resolve(registry("nested", make)))
    assert (kv.settings.version, kv.inspect.options()["policy"]) == (1, "lru")


def test_a_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text('[cache]\nblock_size = 4\ncapacity = 24\n[eviction]\npolicy = "lru"\n')
    kv = KVCacheManager.from_toml(file)
    file.write_text('[cache]\nblock_size = 4\ncapacity = 24\n[eviction]\npolicy = "slru"\n')
    assert kv.settings.reload(file).version == 2
    assert kv.inspect.options()["policy"] == "slru"
    file.write_text('[cache]\nblock_size = 4\ncapacity = 24\nhash = "blake3"\n')
    with pytest.raises(ConfigError, match=r"kvframe\.toml:4: cache\.hash"):
        kv.settings.reload(file)
    monkeypatch.chdir(tmp_path)
    file.write_text("[cache]\nblock_size = 4\ncapacity = 24\n")
    kv.settings.reload(pressure={"reserve": 2})
    assert (kv.inspect.options()["policy"], kv.inspect.options()["reserve"]) == ("lru", 2)
    assert kv.settings.reload(file, eviction="slru:protected_uses=3").changes
    assert kv.inspect.options()["policy"] == "slru"
    with pytest.raises(UsageError, match="pressure: not beside a configuration"):
        kv.settings.reload(plain(), pressure={"reserve": 2})


def test_managers_of_one_process_change_each_for_itself() -> None:
    first, second = KVCacheManager(plain()), KVCacheManager(plain())
    first.settings.reload(plain(eviction="lfu"))
    assert (second.settings.version, second.inspect.options()["policy"]) == (1, "lru")
    assert second.counts().total == 24
    told = {
        kv.settings.version: by_family(samples(kv))["kvframe_config_version"][0].value
        for kv in (first, second)
    }
    assert told == {2: 2, 1: 1}


def test_threads_serve_while_policies_change() -> None:
    known = registry("deepest", lambda _: Deepest())
    known.register(GateHolder("all-new", lambda _: Nothing()), "all-new", "kvframe-test", VERSION)
    kv = KVCacheManager(plain(capacity=54))
    ends = threading.Event()

    def client(seed: int) -> None:
        dice = random.Random(seed)
        while not ends.is_set():
            serve(kv, [seed * 50 + dice.randrange(12), seed * 50 + 20 + dice.randrange(12)])

    with beside(*(partial(client, seed) for seed in range(1, 4)), stop=ends.set):
        dice = random.Random(3)
        for _ in range(120):
            policy = dice.choice(["lru", "lfu", "deepest", "arc"])
            gate = dice.choice(["always", "all-new", "second-use"])
            config = plain(capacity=54, eviction=policy, admission=gate)
            kv.settings.reload(config.resolve(known))
    kv.check_integrity()
    assert kv.counts().referenced == 0
