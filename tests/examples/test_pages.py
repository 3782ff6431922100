"""The serving example notices pages that are not what the manager says."""

from __future__ import annotations

import numpy as np
import pytest
from examples.serving.engine import Engine, Finished
from examples.serving.pages import Pages
from examples.serving.run import build, model, reference, serve
from examples.serving.workload import sessions

from kvframe import CopyPlan

CHATS = sessions(3)


class Watched(Engine):
    """After each step: what is free may hold anything, what can be found holds numbers."""

    def step(self) -> list[Finished]:
        finished = super().step()
        counts, pages = self.kv.counts(), self.runner.pages
        found = self.kv.inspect.eviction_order()  # lru has settled all of it
        assert len(found) == counts.cached
        assert np.isfinite(pages.data[:, :, pages.page[found]]).all()
        free = np.empty(counts.free, np.int32)
        self.kv.blocks.take(out=free)
        pages.poison(free)
        self.kv.blocks.free(free)
        assert self.kv.counts() == counts
        return finished


@pytest.mark.parametrize("capacity", [20, 32])
def test_free_pages_may_hold_anything_and_cached_ones_are_whole(capacity: int) -> None:
    plain = build("lru", capacity)
    run = serve(Watched(plain.kv, plain.runner), CHATS)
    assert run.answers == reference(CHATS)
    assert run.kv.stats.counters()["evictions"] > 0


class LostCopy(Pages):
    """Forgets to copy."""

    def copy(self, plan: CopyPlan) -> None:
        self.poison(plan.copies[:, 1])


def test_a_lost_copy_is_seen() -> None:
    engine = build()
    engine.runner.pages = LostCopy(engine.kv.counts().total, 8, model().shape)
    with pytest.raises(
        FloatingPointError, match=r"sequences .* read KV that nobody wrote for them"
    ):
        serve(engine, CHATS)


def test_a_cached_page_that_lost_its_bytes_is_seen() -> None:
    engine, (chat,) = build(), sessions(1)
    serve(engine, [chat])
    engine.runner.pages.poison(engine.kv.lookup(chat.first().prompt).blocks[0][:1])
    engine.submit(chat.first())
    with pytest.raises(FloatingPointError):
        engine.step()
