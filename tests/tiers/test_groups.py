"""Layer groups with pools of their own: a page is a block of each, and all go and come together."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import CacheConfig, Config, ConfigError, GroupConfig, KVCacheManager, UsageError
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Inline, Part, Tiers

from . import helpers
from .helpers import BLOCK, REGISTRY, SHAPE, Shelf, below, host, text

OTHER = PageShape(layers=1, parts=1, block_size=BLOCK, heads=1, row_bytes=24)
BLOCKS = 24


def manager(*groups: GroupConfig, pages: int = 16) -> KVCacheManager:
    config = Config(
        cache=CacheConfig(capacity=BLOCKS, block_size=BLOCK),
        groups=list(groups),
        tiers=[host(pages), below()],
    )
    return KVCacheManager(config.resolve(REGISTRY))


FULL, WINDOW = GroupConfig(name="full"), GroupConfig(name="w", kind="sliding_window", window=12)


@pytest.mark.scenario("T23", "S28")
def test_groups_go_and_come_together() -> None:
    helpers.WAITING[:] = [Shelf()]
    kv = manager(FULL, WINDOW)
    draw = np.random.default_rng(1)
    pools = [NumpyPool(Layout.of(LAYER_FIRST, SHAPE, BLOCKS))]
    pools += [NumpyPool(Layout.of(BLOCK_FIRST, OTHER, BLOCKS))]
    tiers = Tiers(kv, pools, model="m", worker=lambda _: Inline(), poison=True, verify=True)
    tokens = text(1, 3 * BLOCK + 1)
    grant = tiers.allocate(tokens)
    pages = [draw.integers(0, 256, (4, p.layout.shape.page_bytes), np.uint8) for p in pools]
    for group, pool in enumerate(pools):
        pool.put(kv.block_table(grant.seq, group), pages[group])
    kv.commit(grant.seq, len(tokens))
    tiers.offload(grant.seq)
    tiers.drain()
    kv.release(grant.seq)
    kv.reset_prefix_cache()
    assert tiers.lookup(tokens).tiers == {"host": 12, "below": 12}
    for key, _ in tiers.host.index.stored():
        tiers.host.index.forget(np.array([key], np.uint64))
    for pool in pools:
        pool.poison(range(BLOCKS))
    grant = tiers.allocate(tokens)
    assert grant.external_tokens == 12
    tiers.drain()
    for group, pool in enumerate(pools):
        assert np.array_equal(pool.get(kv.block_table(grant.seq, group)[:3]), pages[group][:3])
    tiers.check_integrity()
    kv.release(grant.seq)
    # A window that has moved on has given blocks up: no more is backed up, and nothing is wrong.
    long = tiers.allocate(text(2, 40))
    kv.commit(long.seq, 40)
    assert tiers.offload(long.seq) == 0
    with pytest.raises(UsageError, match="has given blocks up"):
        tiers.swap_out(long.seq)
    tiers.check_integrity()


def test_pools_that_do_not_fit_the_groups_are_told() -> None:
    pool = NumpyPool(Layout.of(LAYER_FIRST, SHAPE, BLOCKS))
    kv = manager(FULL, WINDOW)
    with pytest.raises(UsageError, match="there are groups 0 to 1"):
        Tiers(kv, [Part(pool, 0)])
    wide = PageShape(layers=1, parts=1, block_size=8, heads=1, row_bytes=8)
    other = NumpyPool(Layout.of(LAYER_FIRST, wide, BLOCKS))
    with pytest.raises(UsageError, match="pages of 8 tokens"):
        Tiers(manager(FULL), other)
    small = NumpyPool(Layout.of(LAYER_FIRST, SHAPE, BLOCKS - 1))
    with pytest.raises(UsageError, match=f"has {BLOCKS - 1} pages: there are {BLOCKS} blocks"):
        Tiers(manager(FULL), small)
    with pytest.raises(ConfigError, match="'s' is none"):
        Tiers(manager(FULL, GroupConfig(name="s", kind="state")), [pool, pool])
