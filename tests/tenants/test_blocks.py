"""Single blocks of tenants: whose they are, and how many each can take."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from kvframe import KVCacheManager, Request
from kvframe.errors import CapacityError, UsageError
from kvframe.events import EventKind
from kvframe.stats import EventLog, redrive

TENANTS = [{"name": "a", "floor": 6}, {"name": "b", "floor": 4, "quota": 8}]
NAMES = ["", "a", "b", "unknown"]
LOOKS = str(Path(__file__).parent / "engines.py:Looks")


def made(policy: str = "lru", *, event_log: bool = True) -> KVCacheManager:
    cache = {"block_size": 4, "capacity": 24, "event_log": event_log}
    eviction = {"policy": policy, "on_error": "raise"}
    return KVCacheManager(cache=cache, eviction=eviction, tenants=TENANTS)


def cached(kv: KVCacheManager, tenant: str, start: int, count: int) -> None:
    """A prefix of so many blocks that the tenant's engine took, published and gave up."""
    blocks = kv.blocks.take(count, tenant=tenant)
    keys = kv.blocks.hash_blocks(range(start, start + 4 * count), tenant=tenant)
    parent = None
    for block, key in zip(blocks.tolist(), keys, strict=True):
        kv.blocks.publish(block, key, parent)
        parent = block
    kv.blocks.free(blocks)


def test_blocks_that_are_taken_count_for_their_tenant() -> None:
    kv = made()
    a = kv.blocks.take(3, tenant="a")
    kv.blocks.take(2)
    kv.blocks.take(1, tenant="unknown")
    assert [row.used for row in kv.tenants.rows()] == [3, 3, 0]
    cached(kv, "b", 0, 4)
    assert [(row.used, row.cached) for row in kv.tenants.rows()] == [(3, 0), (3, 0), (4, 4)]
    kv.blocks.free(a)
    assert [row.used for row in kv.tenants.rows()] == [3, 0, 4]
    kv.check_integrity()


def test_what_is_available_is_what_take_gets() -> None:
    kv = made()
    assert [kv.blocks.available(name) for name in NAMES] == [14, 20, 8, 14]
    for name, limit in (
        ("", "14, which floors of other tenants leave$"),
        ("a", "20, which floors of other tenants leave$"),
        ("b", "8, the quota of its tenant$"),
    ):
        most = kv.blocks.available(name)
        told = f"needs {most + 1} blocks, but only {most} are free or evictable of {limit}"
        with pytest.raises(CapacityError, match=told):
            kv.blocks.take(most + 1, tenant=name)
        kv.blocks.free(kv.blocks.take(most, tenant=name))
    with pytest.raises(CapacityError, match="needs 99 blocks, but only 8 are"):
        kv.blocks.take(99, tenant="b")
    kv.sleep()
    assert kv.blocks.available() == kv.blocks.available("a") == 0


def test_a_floor_keeps_what_the_engine_published() -> None:
    kv = made()
    cached(kv, "a", 0, 5)
    for start in range(1000, 3000, 40):
        cached(kv, "", start, 10)
    keys = kv.blocks.hash_blocks(range(20), tenant="a")
    assert len(kv.blocks.find(keys)) == 5
    assert kv.blocks.available("a") >= 6


def test_at_its_quota_a_tenant_evicts_its_own_though_blocks_are_free() -> None:
    kv = made()
    cached(kv, "b", 0, 6)
    assert kv.counts().free == 18
    blocks = kv.blocks.take(5, tenant="b")
    assert len(set(blocks.tolist())) == 5
    b = kv.tenants.rows()[2]
    assert (b.used, b.cached, b.evicted) == (8, 3, 3)
    kv.check_integrity()


@pytest.mark.parametrize("tenant", [None, b"a", 5])
def test_a_tenant_is_a_string(tenant: str) -> None:
    kv = made()
    with pytest.raises(UsageError, match=r"tenant = .*: must be a string"):
        kv.blocks.take(1, tenant=tenant)
    with pytest.raises(UsageError, match=r"tenant = .*: must be a string"):
        kv.blocks.available(tenant)
    assert kv.counts().free == 24


def test_none_is_told_how_to_say_of_no_tenant() -> None:
    told = 'tenant = None: must be a string; "" stands for none'
    for call in (lambda: Request([1], tenant=None), lambda: made().blocks.available(None)):  # type: ignore[arg-type]
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == told


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", ["lru", "s3-fifo", "arc", LOOKS], ids=lambda p: p.split(":")[-1])
def test_random_takes_of_tenants_keep_every_promise(policy: str, seed: int) -> None:
    dice = random.Random(seed)
    kv, logs = made(policy), []
    held: list[tuple[str, np.ndarray]] = []
    for _ in range(150):
        name = dice.choice(NAMES)
        most = kv.blocks.available(name)
        # Its floor a tenant can have at any time, beside whatever others hold.
        owned = sum(len(blocks) for one, blocks in held if one == name)
        floor = {"a": 6, "b": 4}.get(name, 0)
        assert most >= floor - owned
        if dice.random() < 0.2:
            with pytest.raises(CapacityError, match=f"only {most} are"):
                kv.blocks.take(most + 1, tenant=name)
        count = dice.choice([most, dice.randint(0, most)])
        blocks = kv.blocks.take(count, tenant=name)
        keys = kv.blocks.hash_blocks(range(dice.randrange(200) * 4, 2000), tenant=name)
        parent = None
        for block, key in zip(blocks.tolist(), keys[: dice.randint(0, count)], strict=False):
            kv.blocks.publish(block, key, parent)
            parent = block
        held.append((name, blocks))
        while held and dice.random() < 0.6:
            kv.blocks.free(held.pop(dice.randrange(len(held)))[1])
        kv.check_integrity()
        logs.append(kv.log.take())
    log = EventLog.joined(logs)
    again = made(policy)
    told = [event for event in log if event.kind is not EventKind.REFUSE]
    assert len(redrive(log, again)) == len(told)
    assert again.tenants.rows() == [row._replace(refused=0) for row in kv.tenants.rows()]


@pytest.mark.parametrize(("taken", "named"), [("", "a"), ("a", ""), ("b", "a")])
def test_a_key_of_another_tenant_than_the_blocks_is_found_and_harms_nobody(
    taken: str, named: str
) -> None:
    kv = made()
    blocks = kv.blocks.take(2, tenant=taken)
    keys = kv.blocks.hash_blocks(range(8), tenant=named)
    kv.blocks.publish(int(blocks[0]), keys[0], None)
    kv.blocks.publish(int(blocks[1]), keys[1], int(blocks[0]))
    kv.blocks.free(blocks)
    seq = kv.allocate(Request(range(9), tenant=named)).seq
    assert kv.counts().referenced == 3
    kv.check_integrity()
    kv.reset_prefix_cache()
    kv.check_integrity()
    kv.release(seq)
    kv.check_integrity()
