"""Configuration, figures and erasure of tenants."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvframe import KVCacheManager, Request
from kvframe.config import Resolved
from kvframe.errors import ConfigError, NeverFitsError, UsageError
from kvframe.stats import redrive

TENANTS = [{"name": "a", "floor": 2}, {"name": "b", "floor": 4, "quota": 6}]


def made(*, event_log: bool = False) -> KVCacheManager:
    cache = {"block_size": 4, "capacity": 16, "event_log": event_log}
    return KVCacheManager(cache=cache, tenants=TENANTS)


def fill(kv: KVCacheManager, tenant: str, start: int, blocks: int) -> None:
    prompt = list(range(start, start + 4 * blocks))
    seq = kv.allocate(Request(prompt, tenant=tenant)).seq
    kv.commit(seq, len(prompt))
    kv.release(seq)


def test_a_request_says_whose_it_is() -> None:
    request = Request([1, 2, 3], tenant="a")
    assert request.tenant == "a"
    assert "tenant='a'" in repr(request)
    assert request.replace(tenant="b").tenant == "b"
    assert request.replace(priority=2).tenant == "a"
    assert Request([1]).tenant == ""
    with pytest.raises(UsageError, match="tenant"):
        Request([1], tenant=b"a")


def test_tenants_share_no_block() -> None:
    kv = made()
    fill(kv, "a", 0, 2)
    prompt = list(range(9))
    assert kv.lookup(prompt, tenant="a").tokens == 8
    assert kv.lookup(prompt, tenant="b").tokens == kv.lookup(prompt).tokens == 0
    assert kv.lookup(prompt, cache_salt="a").tokens == 0
    keys = [kv.blocks.hash_blocks(prompt, tenant=one) for one in ("", "a", "b")]
    assert len({bytes(one) for one in keys}) == 3
    pin = kv.pins.pin(prompt, tenant="a")
    assert pin is not None
    assert kv.pins.pin(prompt, tenant="b") is None
    kv.pins.unpin(pin)
    assert kv.inspect.origin(Request([1], tenant="a")).tenant == "a"


def test_rows_say_what_each_has() -> None:
    kv = made()
    fill(kv, "a", 0, 3)
    fill(kv, "a", 0, 3)
    fill(kv, "c", 0, 1)
    seq = kv.allocate(Request(range(8), tenant="b")).seq
    others, a, b = kv.tenants.rows()
    assert (others.tenant, others.used, others.floor, others.quota) == ("", 1, 0, None)
    assert (a.tenant, a.used, a.cached, a.referenced) == ("a", 3, 3, 0)
    assert (a.requests, a.prompt_tokens, a.hit_tokens) == (2, 24, 8)
    assert (b.used, b.referenced, b.quota) == (2, 2, 6)
    for tenant, most in (
        ("b", 'tenant "b" has a quota of 6'),
        ("a", 'the floors of other tenants leave tenant "a"'),
        ("c", "the floors of tenants leave all others"),
    ):
        with pytest.raises(NeverFitsError, match=f"needs .* blocks, but {most}"):
            kv.allocate(Request(range(28 if tenant == "b" else 80), tenant=tenant))
    assert kv.tenants.rows()[2].refused == 1
    kv.release(seq)
    assert KVCacheManager(block_size=4, capacity=16).tenants.rows() == []


def test_a_policy_sees_the_tenant_and_only_its_own_blocks() -> None:
    place = str(Path(__file__).parent / "engines.py:Looks")
    eviction = {"policy": place, "on_error": "raise"}
    kv = KVCacheManager(block_size=4, capacity=16, eviction=eviction, tenants=TENANTS)
    for start in range(0, 400, 40):
        fill(kv, "b", start, 5)
        fill(kv, "a", start, 6)
        fill(kv, "", start, 3)
    assert all(row.evicted for row in kv.tenants.rows())
    kv.check_integrity()


def test_limits_are_checked_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text('[cache]\ncapacity = 10\n\n[[tenants]]\nname = "a"\nfloor = 11\n')
    with pytest.raises(ConfigError, match=r"kvframe.toml:6: tenants\[0\].floor = 11: .*11 of 10"):
        Resolved.load(file)
    wrong = [
        ([{"name": "a", "floor": 1.5}], "floor"),
        ([{"name": "a", "quota": 0}], "at least 1"),
        ([{"name": "a", "floor": 5, "quota": 4}], "the floor, 5"),
        ([{"name": "a"}, {"name": "a"}], "twice"),
        ([{"name": "a", "flor": 1}], "floor"),
    ]
    for tenants, told in wrong:
        with pytest.raises(ConfigError, match=told):
            KVCacheManager(capacity=10, tenants=tenants)
    with pytest.raises(ConfigError, match="hash"):
        KVCacheManager(capacity=10, cache={"index": "radix"}, tenants=[{"name": "a"}])


def test_a_share_follows_the_pool() -> None:
    kv = KVCacheManager(capacity=100, tenants=[{"name": "a", "floor": 0.25, "quota": 0.5}])
    assert kv.tenants.rows()[1][4:6] == (25, 50)
    kv.resize(40)
    assert kv.tenants.rows()[1][4:6] == (10, 20)


def test_erasing_a_tenant_says_what_is_still_held() -> None:
    kv = made()
    fill(kv, "a", 0, 3)
    fill(kv, "c", 0, 2)
    running = kv.allocate(Request(range(100, 109), tenant="a")).seq
    kv.commit(running, 9)
    receipt = kv.tenants.erase("a")
    assert (receipt.tenant, receipt.freed, receipt.held) == ("a", 3, 3)
    assert receipt.running == (running,)
    assert kv.lookup(list(range(13)), tenant="a").tokens == 0
    assert kv.lookup(list(range(100, 109)), tenant="a").tokens == 0
    assert kv.lookup(list(range(9)), tenant="c").tokens == 8
    kv.release(running)
    assert kv.tenants.rows()[1].used == 0
    assert kv.tenants.erase("a") == ("a", 0, 0, ())
    assert kv.tenants.erase("c").freed == 2
    with pytest.raises(UsageError, match="names nobody"):
        kv.tenants.erase("")
    kv.check_integrity()


def test_a_log_is_done_again_with_tenants_and_erasures() -> None:
    kv = made(event_log=True)
    fill(kv, "a", 0, 3)
    fill(kv, "b", 0, 5)
    fill(kv, "b", 100, 5)
    kv.tenants.erase("a")
    kv.reset_prefix_cache(cache_salt="salt", lora_name="adapter")
    log = kv.log.take()
    assert len(redrive(log, made(event_log=True))) == len(log)
