"""Where public prefixes end: slots and trees know of none, and keep all of a salt to itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvframe import Config, ConfigError, PrefixConfig, SlotCache, TenantConfig
from kvframe.config.tiers import shares
from kvframe.prefix_tree import PrefixTree
from kvframe.shadow.follow import attach

from ..tiers.helpers import key_file
from .world import World

PUBLIC = list(range(100, 116))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "public.jsonl"
    made.write_text(json.dumps(PUBLIC))
    return made


def test_slots_share_nothing_across_salts(file: Path) -> None:
    resolved = Config(prefix=PrefixConfig(public=str(file))).resolve()
    slots = SlotCache(4, 32, policy=resolved)
    seq = slots.allocate([*PUBLIC, 1], cache_salt="a").seq
    slots.commit(seq, 17)
    slots.release(seq)
    assert slots.lookup([*PUBLIC, 2], cache_salt="a") == 16
    others: list[dict[str, Any]] = [{"cache_salt": "b"}, {}, {"cache_salt": "a", "lora_name": "l"}]
    for other in others:
        assert slots.lookup([*PUBLIC, 2], **other) == 0
        assert slots.allocate([*PUBLIC, 2], **other).cached_tokens == 0
    slots.check_integrity()


def test_a_tree_shares_nothing_across_salts(file: Path) -> None:
    tree = PrefixTree(Config(prefix=PrefixConfig(public=str(file))).resolve(), 4)
    tree.store([*PUBLIC, 1], None, "a")
    assert tree.find([*PUBLIC, 2], None, "a").tokens == 16
    for extra, salt in ((None, "b"), (None, None), ("a", None), ("x", "a"), (None, "")):
        assert tree.find([*PUBLIC, 2], extra, salt).tokens == 0
        assert tree.peek([*PUBLIC, 2], extra, salt)[0] == 0
    tree.check_integrity()


def test_shadows_of_a_manager_with_public_prefixes_find_what_it_finds(file: Path) -> None:
    tenants = [TenantConfig(name="all", floor=4, public=True)]
    for beside in ([], tenants):
        world = World(public=file, tenants=beside, event_log=True)
        shadows = attach(world.kv, ["lru"], [32])
        for space in ("tenant a", "tenant b", "salt a", "nobody", "tenant a"):
            world.serve(space, [*PUBLIC, *range(5)])
            shadows.update()
        shadows.shadows.flush()
        report = shadows.report()
        assert report.actual is not None
        assert report.actual.found_tokens == world.kv.stats.counters()["hit_tokens"] == 3 * 16 + 20
        assert report.difference == 0
        shadows.close()


def test_the_public_tenant_has_neither_a_key_nor_a_share_of_tiers(
    file: Path, tmp_path: Path
) -> None:
    """Its pages are under nobody's key, and each tenant keeps its own: a share would lie idle."""
    key = key_file(tmp_path / "key", b"k" * 32)
    public = TenantConfig(name="all", floor=0.25, public=True)
    config = Config(
        prefix=PrefixConfig(public=str(file)),
        tenants=[TenantConfig(name="all", floor=4, public=True, key_file=key)],
    )
    told = r"tenants\[0\]\.key_file = .*: public pages are under the key of no tenant"
    with pytest.raises(ConfigError, match=told):
        config.resolve()
    assert shares([public]) == ()
    assert [one.floor for one in shares([public, TenantConfig(name="a", floor=0.5)])] == [0, 0.5]
