"""What the scenarios share: prompts made of named blocks, owners, and room counted."""

from __future__ import annotations

from kvframe import KVCacheManager

from ..manager.helpers import cached, manager, state

__all__ = ["available", "cached", "evicted", "found", "manager", "owners", "state", "words"]


def words(*blocks: int, size: int = 16) -> list[int]:
    """A prompt of whole blocks: the same number is the same tokens."""
    return [1000 * block + i for block in blocks for i in range(size)]


def found(kv: KVCacheManager, prompt: list[int]) -> int:
    """Tokens of a prompt that could be reused, were there one more token behind."""
    return kv.lookup([*prompt, 2**31]).tokens


def evicted(kv: KVCacheManager) -> int:
    """Blocks that gave way so far."""
    return kv.stats.counters()["evictions"]


def available(kv: KVCacheManager) -> int:
    """Blocks that can be had now: the seeds' "free", which kvframe keeps findable if it can."""
    counts = kv.counts()
    assert counts.free + counts.cached + counts.referenced == counts.total
    return counts.free + counts.cached


def owners(kv: KVCacheManager, block: int) -> int:
    """How many own a block."""
    return int(kv._core.block_state(block)[2])
