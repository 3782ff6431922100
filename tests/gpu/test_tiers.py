"""Tiers over a card's pool: pinned host memory, copies that are queued and not waited for."""

from __future__ import annotations

from pathlib import Path

import cupy
import numpy as np
import pytest

from kvframe import CacheConfig, Config, KVCacheManager, TierConfig
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, PageShape
from kvframe.pages.cupy import CupyPool, host_pool
from kvframe.pages.swap import Swap
from kvframe.tiers import Tiers

SHAPE, BLOCKS = PageShape(4, 2, 16, 8, 256), 64


@pytest.mark.scenario("S28", "I12", "T40")
def test_pages_of_a_card_go_to_disk_and_come_back(tmp_path: Path) -> None:
    tiers = [
        TierConfig(name="host", capacity=24),
        TierConfig(name="disk", store="disk", capacity=200, options={"path": str(tmp_path)}),
    ]
    kv = KVCacheManager(Config(cache=CacheConfig(capacity=BLOCKS), tiers=tiers))
    card = CupyPool(Layout.of(LAYER_FIRST, SHAPE, BLOCKS))
    memory, mapped = host_pool(Layout.of(BLOCK_FIRST, SHAPE, 24))
    draw = np.random.default_rng(1)
    below = Tiers(
        kv, card, host=[memory], movers=[Swap(card, mapped)], model="m", poison=True, verify=True
    )
    with below:
        written = {}
        for seed in range(4):
            text = [seed * 1000 + at for at in range(16 * 10 + 1)]
            grant = below.allocate(text)
            pages = draw.integers(0, 256, (11, SHAPE.page_bytes), np.uint8)
            card.put(kv.block_table(grant.seq), pages)
            cupy.cuda.get_current_stream().synchronize()
            kv.commit(grant.seq, len(text))
            below.offload(grant.seq)
            below.drain()
            kv.release(grant.seq)
            written[seed] = (text, pages)
        kv.reset_prefix_cache()
        for text, pages in written.values():
            grant = below.allocate(text)
            assert grant.external_tokens == 160
            assert below.drain().landed == [grant.seq]
            assert np.array_equal(card.get(kv.block_table(grant.seq)[:10]), pages[:10])
            kv.extend(grant.seq, len(text))
            swapped = below.swap_out(grant.seq)
            below.drain()
            kv.reset_prefix_cache()
            card.poison(range(BLOCKS))
            again = below.swap_in(swapped)
            below.drain()
            assert np.array_equal(card.get(kv.block_table(again.seq)[:10]), pages[:10])
            kv.release(again.seq)
            kv.reset_prefix_cache()
        assert below.verify() == []
        below.check_integrity()
