"""What one tenant finds does not depend on what another sends, under any policy.

``python -m tests.tenants.test_noninterference REQUESTS [POLICY ...]`` does about so many requests
of others, under these policies or all, and prints what it counted.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from kvframe import KVCacheManager
from kvframe.policies.builtin import BUILTIN

from .engines import BLOCK, Engine, hits_beside

ENGINES = Path(__file__).parent / "engines.py"
HOSTILE, ERRATIC = f"{ENGINES}:Hostile", f"{ENGINES}:Erratic"
POLICIES = [*(policy.name for policy in BUILTIN if not policy.replay_only), HOSTILE, ERRATIC]
FLOOR = 20


def manager(policy: str) -> KVCacheManager:
    """A pool of 64 blocks, of which ``b`` has 20 and no more; ``a`` may have all the others."""
    tenants = [{"name": "a"}, {"name": "b", "floor": FLOOR, "quota": FLOOR}]
    return KVCacheManager(block_size=BLOCK, capacity=64, eviction=policy, tenants=tenants)


def of_b(policy: str, steps: int, seed: int | None) -> tuple[list[tuple[int, int]], int, int]:
    """What ``b`` finds, beside others if they have a seed; their requests and evictions."""
    kv = manager(policy)
    others = [] if seed is None else [Engine("a", seed, 40, 60), Engine("", seed + 10, 3, 60)]
    found = hits_beside(kv, Engine("b", 1, 3, 24), others, steps, random.Random(seed))
    nobody, a, b = kv.tenants.rows()
    assert b.evicted_for_others == 0
    assert b.used <= FLOOR
    return found, nobody.requests + a.requests, a.evicted + nobody.evicted


@pytest.mark.filterwarnings("ignore:.*Erratic:RuntimeWarning")
@pytest.mark.parametrize("policy", POLICIES)
def test_what_b_finds_is_the_same_whatever_a_sends(policy: str) -> None:
    alone, _, _ = of_b(policy, 500, None)
    assert any(hit > BLOCK for hit, _ in alone)
    for seed in (3, 4):
        beside, requests, _ = of_b(policy, 500, seed)
        assert requests > 100
        assert beside == alone


@pytest.mark.filterwarnings("ignore:.*Erratic:RuntimeWarning")
def test_what_is_below_a_floor_stays_under_a_hostile_policy() -> None:
    # Without a quota: b never has more than its floor, and nothing of it is evicted at all.
    for policy in ("lru", "mru", HOSTILE, ERRATIC):
        kv = KVCacheManager(
            block_size=BLOCK,
            capacity=400,
            eviction=policy,
            tenants=[{"name": "b", "floor": 0.75}],
        )
        b = Engine("b", 5, 3, 24)
        hits_beside(kv, b, [Engine("a", 6, 60, 200)], 400, random.Random(7))
        others, row = kv.tenants.rows()
        assert (row.floor, row.quota) == (300, None)
        assert row.used <= row.floor
        assert row.evicted == row.evicted_for_others == 0
        assert others.evicted > 0


def main(requests: int, policies: list[str]) -> None:
    """Under each policy: b alone, and b beside so many requests of others."""
    print("policy, calls of b, requests of others, evicted of theirs, whether b finds the same")
    for policy in policies:
        # Between two calls of b others do three in all, of which about a third are requests.
        alone, _, _ = of_b(policy, requests, None)
        beside, count, evicted = of_b(policy, requests, 3)
        same, name = beside == alone, policy.rpartition(":")[2]
        print(f"{name}, {len(alone):,}, {count:,}, {evicted:,}, {same}", flush=True)
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or POLICIES)
