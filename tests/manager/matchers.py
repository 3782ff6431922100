"""Prefix matchers of the test's own, and managers under them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kvframe import (
    CacheConfig,
    Config,
    KVCacheManager,
    PrefixConfig,
    PrefixMatcher,
    Registry,
    hookimpl,
)
from kvframe.policies import BatchedIndex, BatchedPrefix, Prompts

from .helpers import INDEX, VERSION, installed


class MatchHolder:
    """A plugin of the running test: one prefix matcher."""

    def __init__(self, name: str, make: Callable[[Any], object]) -> None:
        self.policy = PrefixMatcher(name=name, way="batched", summary="a test's", make=make)

    @hookimpl
    def kvframe_prefix(self) -> list[PrefixMatcher]:
        return [self.policy]


def matchers(name: str, make: Callable[[Any], object]) -> Registry:
    """A registry that knows one prefix matcher more, of ``kvframe-test 3.2.1``."""
    found = Registry()
    found.register(MatchHolder(name, make), name, "kvframe-test", VERSION)
    return found


def matched(
    policy: BatchedPrefix | str,
    blocks: int = 32,
    *,
    on_error: Any = "raise",
    budget_ms: float | None = None,
    options: dict[str, Any] | None = None,
    name: str = "mine",
    **cache: Any,
) -> KVCacheManager:
    """A manager of small blocks under a prefix matcher."""
    cache.setdefault("index", "hash" if isinstance(policy, BatchedIndex) else INDEX[0])
    known = None if isinstance(policy, str) else matchers(name, lambda _: policy)
    name = policy if isinstance(policy, str) else name
    prefix = PrefixConfig(
        policy=name, on_error=on_error, budget_ms=budget_ms, options=options or {}
    )
    cache_config = CacheConfig(capacity=blocks, block_size=4, **cache)
    return KVCacheManager(Config(cache=cache_config, prefix=prefix).resolve(known or installed()))


class DictIndex(BatchedIndex):
    """A whole index: blocks by their keys, in a dict. Copies of a block share its key."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, set[int]] = {}
        self.keys: dict[int, bytes] = {}

    def insert(self, blocks: Any, keys: Any, parents: Any, depths: Any) -> None:
        for block, key in zip(blocks.tolist(), keys, strict=True):
            self.blocks.setdefault(key.tobytes(), set()).add(block)
            self.keys[block] = key.tobytes()

    def remove(self, blocks: Any) -> None:
        for block in blocks.tolist():
            key = self.keys.pop(block)
            self.blocks[key].remove(block)
            if not self.blocks[key]:
                del self.blocks[key]

    def match(self, prompts: Prompts) -> list[Any]:
        assert prompts.keys is not None
        return [self._prefix(keys) for keys in prompts.keys]

    def _prefix(self, keys: Any) -> Any:
        blocks = []
        for key in keys:
            copies = self.blocks.get(key.tobytes())
            if copies is None:
                break
            blocks.append(min(copies))
        return np.array(blocks, np.int64)


class Timeless(BatchedPrefix):
    """Takes out what stands between the marks 900 and 901: a time of day, say."""

    def normalise(self, prompts: Prompts) -> list[Any]:
        return [self._without(tokens) for tokens in prompts.tokens]

    def _without(self, tokens: Any) -> Any:
        start, end = np.flatnonzero(tokens == 900), np.flatnonzero(tokens == 901)
        if len(start) != 1 or len(end) != 1:
            return None
        return np.concatenate([tokens[: start[0]], tokens[end[0] + 1 :]])
