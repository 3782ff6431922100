"""``kv.settings`` beside ``[[tenants]]``: other floors, quotas and policies of who is served."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kvframe import Config, KVCacheManager, Request
from kvframe.errors import CapacityError, ConfigError, NeverFitsError
from kvframe.policies.builtin import BUILTIN
from tests.tenants.engines import BLOCK, Engine
from tests.tenants.test_noninterference import HOSTILE

POLICIES = [*(policy.name for policy in BUILTIN if not policy.replay_only), HOSTILE]
SHARES = [{"name": "a"}, {"name": "b", "floor": 4, "quota": 20}]


def config(policy: str = "lru", tenants: Any = SHARES, capacity: int = 40, **more: Any) -> Config:
    return Config.of(block_size=BLOCK, capacity=capacity, eviction=policy, tenants=tenants, **more)


def of_b(**shares: Any) -> list[dict[str, Any]]:
    return [{"name": "a"}, {"name": "b", **shares}]


def run(kv: KVCacheManager, tenant: str, start: int, blocks: int) -> int:
    given = kv.allocate(Request(range(start, start + blocks * BLOCK), tenant=tenant))
    kv.commit(given.seq, blocks * BLOCK)
    return given.seq


def fill(kv: KVCacheManager, tenant: str, start: int, blocks: int) -> None:
    kv.release(run(kv, tenant, start, blocks))


@pytest.mark.parametrize("policy", ["lru", "lfuda", HOSTILE])
def test_a_lowered_quota_sheds_and_a_return_gives_it_back(policy: str) -> None:
    kv = KVCacheManager(config(policy))
    for at in range(4):
        fill(kv, "b", 100 * at, 4)
    fill(kv, "a", 0, 3)
    told = kv.settings.reload(config(policy, of_b(floor=2, quota=6)))
    assert told.version == 2
    assert {(one.key, one.before, one.after) for one in told.changes} == {
        ("tenants[1].floor", 4, 2),
        ("tenants[1].quota", 20, 6),
    }
    kv.check_integrity()
    _, a, b = kv.tenants.rows()
    assert (a.used, b.used, b.floor, b.quota) == (3, 6, 2, 6)
    assert (b.evicted, b.evicted_for_others) == (10, 0)
    with pytest.raises(NeverFitsError):
        run(kv, "b", 900, 7)
    assert kv.settings.rollback().version == 3
    fill(kv, "b", 900, 16)
    row = kv.tenants.rows()[2]
    assert (row.floor, row.quota) == (4, 20)
    assert row.used == 20, "it has 6 of before and 14 more"
    kv.check_integrity()


def test_a_policy_in_python_names_what_goes() -> None:
    kv = KVCacheManager(config(HOSTILE))
    for at in range(10):
        fill(kv, "b", 100 * at, 1)
    kv.settings.reload(config(HOSTILE, of_b(quota=4)))
    lookups = [kv.lookup([*range(100 * at, 100 * at + BLOCK), 9], tenant="b") for at in range(10)]
    assert [hit.tokens for hit in lookups] == [BLOCK] * 4 + [0] * 6, "it evicts the latest first"


def test_what_runs_keeps_its_blocks_and_goes_as_it_ends() -> None:
    kv = KVCacheManager(config())
    seq = run(kv, "b", 0, 10)
    kv.settings.reload(config(tenants=of_b(quota=6)))
    assert kv.tenants.rows()[2].used == 10
    with pytest.raises(CapacityError):
        run(kv, "b", 500, 1)
    kv.release(seq)
    assert kv.tenants.rows()[2].used == 6
    kv.check_integrity()


def test_shares_that_cannot_be_met_are_refused_with_their_numbers() -> None:
    kv = KVCacheManager(config())
    seq = run(kv, "a", 0, 30)
    before = kv.tenants.rows()
    told = r"tenants\[1\]\.floor = 12: .* take 42 of 40 blocks now"
    with pytest.raises(ConfigError, match=told):
        kv.settings.reload(config("arc", of_b(floor=12), pressure={"reserve": 3}))
    now = kv.inspect.options()
    assert (now["policy"], now["reserve"], kv.settings.version) == ("lru", 0, 1)
    assert kv.tenants.rows() == before
    whole = {"max_seq_len": 4 * BLOCK, "full_sequence_must_fit": True}
    kv.allocate(Request(range(BLOCK), tenant="b", **whole))
    with pytest.raises(ConfigError, match=r"tenants\[1\]\.quota = 3: .* were promised 3 more"):
        kv.settings.reload(config(tenants=of_b(quota=3)))
    kv.release(seq)
    kv.settings.reload(config("arc", of_b(floor=12), pressure={"reserve": 3}))
    assert kv.tenants.rows()[2].floor == 12
    # What a return would need is not there: it is refused, and all stays.
    kv.settings.reload(config("arc"))
    run(kv, "a", 5000, 30)
    with pytest.raises(ConfigError, match=r"tenants\[1\]\.floor = 12"):
        kv.settings.rollback()
    assert (kv.settings.version, kv.tenants.rows()[2].floor) == (3, 4)
    kv.check_integrity()


@pytest.mark.parametrize(
    "tenants",
    [[], [{"name": "a"}], [*SHARES, {"name": "c"}], SHARES[::-1], [{"name": "c"}, SHARES[1]]],
)
def test_the_tenants_themselves_stay(tenants: list[dict[str, Any]]) -> None:
    kv = KVCacheManager(config())
    told = "cannot change in a manager that serves: blocks in the pool are counted by them"
    with pytest.raises(ConfigError, match=rf"tenants.*{told}"):
        kv.settings.reload(config(tenants=tenants))
    assert kv.settings.version == 1


def test_the_public_tenant_keeps_room_for_its_prefixes(tmp_path: Path) -> None:
    file = tmp_path / "public.jsonl"
    file.write_text("[1, 2, 3, 4, 5, 6, 7, 8]\n")

    def shared(floor: int) -> Config:
        tenants = [{"name": "all", "public": True, "floor": floor}, {"name": "b", "quota": 20}]
        return config(tenants=tenants, prefix={"public": str(file)})

    kv = KVCacheManager(shared(5))
    with pytest.raises(ConfigError, match=r"tenants\[0\]\.floor = 1: is 1 blocks: .* have 2"):
        kv.settings.reload(shared(1))
    kv.settings.reload(shared(2))
    assert (kv.tenants.rows()[1].floor, kv.tenants.rows()[1].quota) == (2, 2)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("seed", range(len(POLICIES)))
def test_changes_among_random_traffic_of_tenants_break_nothing(seed: int) -> None:
    dice = random.Random(seed)
    kv = KVCacheManager(config(POLICIES[seed]))
    engines = [
        Engine("a", seed, 4, 40),
        Engine("b", seed + 50, 4, 40),
        Engine("", seed + 99, 3, 40),
    ]
    shares: list[tuple[Any, Any]] = [(row.floor, row.quota) for row in kv.tenants.rows()]
    past: list[list[tuple[Any, Any]]] = []
    refused: list[str] = []
    for _ in range(60):
        for _ in range(dice.randrange(12)):
            try:
                dice.choice(engines).step(kv)
            except NeverFitsError:
                continue
        floors = [dice.randrange(14), dice.choice([dice.randrange(14), 0.25])]
        quotas = [dice.choice([None, 14 + dice.randrange(20)]) for _ in floors]
        tenants = [
            {"name": name, "floor": floor, **({} if quota is None else {"quota": quota})}
            for name, floor, quota in zip("ab", floors, quotas, strict=True)
        ]
        then = config(dice.choice([POLICIES[seed], dice.choice(POLICIES)]), tenants)
        owned = [row.referenced for row in kv.tenants.rows()]
        version = kv.settings.version
        try:
            if past and dice.random() < 0.25:
                kv.settings.rollback()
                expected = past.pop()
            else:
                kv.settings.reload(then)
                if kv.settings.version > version:
                    past.append(shares)
                blocks = [
                    int(floor * 40) if isinstance(floor, float) else floor for floor in floors
                ]
                expected = [(0, None), *zip(blocks, quotas, strict=True)]
            shares = expected
        except ConfigError as error:
            refused.append(str(error))
        kv.check_integrity()
        rows = kv.tenants.rows()
        assert [(row.floor, row.quota) for row in rows] == shares
        assert [row.referenced for row in rows] == owned, "what runs keeps its blocks"
        for row in rows:
            assert row.quota is None or row.used <= max(row.quota, row.referenced)
    assert kv.settings.version > 20
    assert all("blocks now" in told for told in refused)
    for engine in engines:
        for seq in engine.running:
            kv.release(seq)
    kv.check_integrity()
    assert kv.counts().referenced == 0


def found_by_b(policies: list[str], noise: int | None) -> list[tuple[int, int]]:
    """What ``b`` finds, whose floor is its quota, while both are lowered and policies change."""

    def sure(policy: str, blocks: int) -> Config:
        tenants = [{"name": "a", "quota": 40}, {"name": "b", "floor": blocks, "quota": blocks}]
        return config(policy, tenants, 64)

    kv = KVCacheManager(sure(policies[0], 24))
    b = Engine("b", 1, 3, 24)
    others = [] if noise is None else [Engine("a", noise, 30, 60), Engine("", noise + 10, 3, 60)]
    dice = random.Random(noise)
    for at, blocks in enumerate([24, 24, 18, 12, 12]):
        kv.settings.reload(sure(policies[at % len(policies)], blocks))
        for _ in range(120):
            b.step(kv)
            for other in others:
                for _ in range(dice.randrange(4)):
                    try:
                        other.step(kv)
                    except NeverFitsError:
                        continue
        kv.check_integrity()
    assert kv.tenants.rows()[2].evicted_for_others == 0
    return b.found


@pytest.mark.parametrize("policy", POLICIES)
def test_what_b_finds_depends_on_nobody_else_whatever_changes(policy: str) -> None:
    turn = [policy, POLICIES[(POLICIES.index(policy) + 7) % len(POLICIES)]]
    alone = found_by_b(turn, None)
    assert any(hit > BLOCK for hit, _ in alone)
    assert found_by_b(turn, 3) == alone
