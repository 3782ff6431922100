"""Small managers with books of sessions, and prompts of whole blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvframe import (
    CacheConfig,
    Config,
    EvictionConfig,
    GroupConfig,
    KVCacheManager,
    RetentionConfig,
)

SIZE = 4


def manager(
    index: Any,
    blocks: int = 8,
    *,
    policy: str = "lru",
    groups: Iterable[GroupConfig] = (),
    **retention: Any,
) -> KVCacheManager:
    """A manager of a few blocks of four tokens; ``retention`` goes into ``[retention]``."""
    return KVCacheManager(
        Config(
            cache=CacheConfig(capacity=blocks, block_size=SIZE, index=index, event_log=True),
            eviction=EvictionConfig(policy=policy, on_error="raise"),
            groups=list(groups) or [GroupConfig(name="full")],
            retention=RetentionConfig(**retention),
        )
    )


def prompt(*blocks: int) -> list[int]:
    """Whole blocks, each named by a number."""
    return [block * 100 + i for block in blocks for i in range(SIZE)]


def serve(kv: KVCacheManager, *blocks: int, **options: Any) -> None:
    """Admits, computes and ends a request for these blocks."""
    kv.release(start(kv, *blocks, **options))
    kv.check_integrity()


def start(kv: KVCacheManager, *blocks: int, **options: Any) -> int:
    """The same, and it goes on."""
    grant = kv.allocate(prompt(*blocks), **options)
    kv.commit(grant.seq, grant.prompt_tokens)
    return grant.seq


def there(kv: KVCacheManager, *blocks: int) -> int:
    """How many blocks from the front are found."""
    return kv.lookup([*prompt(*blocks), 9]).tokens // SIZE


def squeeze(kv: KVCacheManager, blocks: int) -> None:
    """Makes so many cached blocks be evicted."""
    assert kv.evict_until(kv.counts().free + blocks) == blocks
    kv.check_integrity()
