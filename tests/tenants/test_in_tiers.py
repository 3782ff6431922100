"""Floors and quotas in tiers: what a tenant finds there, who loses pages, and what is counted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kvframe import BusyError, CapacityError, TenantConfig
from kvframe.policies.builtin import BUILTIN

from ..tiers.helpers import Engine, Shelf, below, host, text

ENGINES = Path(__file__).parent / "engines.py"
HOSTILE, ERRATIC = f"{ENGINES}:Hostile", f"{ENGINES}:Erratic"
POLICIES = [*(policy.name for policy in BUILTIN if not policy.replay_only), HOSTILE, ERRATIC]
ALONE = [TenantConfig(name="a"), TenantConfig(name="b", floor=0.25, quota=0.25)]
MIXED = [
    TenantConfig(name="a", floor=0.25),
    TenantConfig(name="b", floor=0.25, quota=0.5),
]


def engine(policy: str, tenants: list[TenantConfig], admission: str = "always") -> Engine:
    kinds = {"eviction": policy, "admission": admission}
    return Engine(
        [host(24, **kinds), below(40, **kinds)], stores=[Shelf()], blocks=32, tenants=tenants
    )


def of_b(
    policy: str,
    admission: str,
    steps: int,
    seed: int | None,
    tenants: list[TenantConfig] = ALONE,
) -> list[tuple[int, dict[str, int]]]:
    """What ``b`` finds in pool and tiers, request by request; beside others if they have a seed."""
    made, own, noise = engine(policy, tenants, admission), random.Random(1), random.Random(seed)
    found: list[tuple[int, dict[str, int]]] = []
    for _ in range(steps):
        prompt = text(own.randrange(6), 4 * (1 + own.randrange(5)) + 1)
        hit = made.tiers.lookup(prompt, tenant="b")
        found.append((hit.pool, hit.tiers))
        made.run(prompt, tenant="b")
        for _ in range(noise.randrange(4) if seed is not None else 0):
            disturb(made, noise)
    for row in made.tiers.tenants()["host"][2:]:
        assert row.evicted_for_others == 0
        assert row.used <= row.floor == row.quota == 6
    return found


def disturb(made: Engine, noise: random.Random) -> None:
    """Somebody else's request, or one that is swapped out and dropped."""
    prompt = text(10 + noise.randrange(9), 4 * (1 + noise.randrange(5)) + 1)
    tenant = noise.choice(["a", ""])
    if noise.random() < 0.8:
        made.run(prompt, tenant=tenant)
        return
    grant = made.start(prompt, tenant=tenant)
    made.settle()
    made.compute(grant.seq)
    try:
        swapped = made.tiers.swap_out(grant.seq)
    except (BusyError, CapacityError):
        made.kv.release(grant.seq)
        return
    made.settle()
    made.tiers.drop_swapped(swapped)
    made.settle()


@pytest.mark.filterwarnings("ignore:.*Erratic:RuntimeWarning")
@pytest.mark.parametrize("policy", POLICIES)
def test_what_b_finds_in_tiers_is_the_same_whatever_a_sends(policy: str) -> None:
    alone = of_b(policy, "always", 60, None)
    assert any(tiers["host"] for _, tiers in alone)
    assert any(tiers["below"] > tiers["host"] for _, tiers in alone)
    for seed in (3, 4):
        assert of_b(policy, "always", 60, seed) == alone


def test_without_shares_others_take_what_b_would_have_found() -> None:
    apart = [TenantConfig(name="a"), TenantConfig(name="b", floor=8, quota=8)]
    assert of_b("lru", "always", 60, 3, apart) != of_b("lru", "always", 60, None, apart)


@pytest.mark.parametrize("admission", ["write-back", "second-use", "frequency", "selective"])
def test_what_b_finds_is_the_same_under_other_admission_policies(admission: str) -> None:
    alone = of_b("lru", admission, 80, None)
    for seed in (3, 4):
        assert of_b("lru", admission, 80, seed) == alone


@pytest.mark.parametrize("policy", ["lru", "arc", "s3-fifo", HOSTILE])
def test_eviction_beyond_floors_is_fair_and_counted(policy: str) -> None:
    made = engine(policy, MIXED)
    for at in range(12):
        made.run(text(at, 9), tenant="a")
    assert made.tiers.tenants()["host"][1].used == 24
    for tenant, first in (("", 100), ("b", 200), ("", 300)):
        for at in range(12):
            made.run(text(first + at, 13), tenant=tenant)
    others, a, b = made.tiers.tenants()["host"]
    assert (others.tenant, a.tenant, b.tenant) == ("", "a", "b")
    assert (others.floor, a.floor, b.floor) == (0, 6, 6)
    assert (others.quota, a.quota, b.quota) == (None, None, 12)
    assert others.used + a.used + b.used == 24
    # Whoever is furthest above its floor loses first: all end as far above it.
    above = [row.used - row.floor for row in (others, a, b)]
    assert max(above) - min(above) <= 1, above
    assert a.evicted == 0
    assert a.evicted_for_others == 24 - a.used
    assert others.evicted > 0
    told = made.tiers.stats()["host"]["evicted"]
    assert sum(row.evicted + row.evicted_for_others for row in (others, a, b)) == told
    for at in range(9):
        made.run(text(400 + at, 25), tenant="b")
    assert made.tiers.tenants()["host"][2].used <= 12
    made.tiers.check_integrity()


def test_a_prompt_that_is_larger_than_a_quota_is_backed_up_as_far_as_that() -> None:
    made = engine("lru", ALONE)
    made.run(text(1, 29), tenant="b")
    assert made.tiers.lookup(text(1, 29), tenant="b").tiers == {"host": 24, "below": 24}
    assert made.tiers.stats()["moved"]["deferred"] == 0


def test_numbers_of_blocks_are_of_the_pool_alone() -> None:
    made = engine("lru", [TenantConfig(name="b", floor=8, quota=8)])
    made.run(text(1, 29), tenant="b")
    assert made.tiers.tenants() == {"host": [], "below": []}
    assert made.tiers.lookup(text(1, 29), tenant="b").tiers["host"] == 28


def test_what_a_store_had_before_is_nobodys_until_it_is_computed_again() -> None:
    objects: dict[str, bytes] = {}
    first = Engine([host(24), below(40)], stores=[Shelf(objects=objects)], tenants=ALONE)
    first.run(text(1, 9), tenant="b")
    assert first.tiers.tenants()["below"][2].used == 2
    first.tiers.close()
    second = Engine([host(24), below(40)], stores=[Shelf(objects=objects)], tenants=ALONE)
    others, _, b = second.tiers.tenants()["below"]
    assert (others.used, b.used) == (2, 0)
    second.run(text(1, 9), tenant="b")
    assert second.tiers.tenants()["host"][2].used == 2
