"""A tier whose engine keeps the blocks itself and asks only which die: by key, without parents.

It is what other engines' plug points are made of (`kvframe.integrations`), and the lower tiers. The
policy is the object of every other place, built in or from a package; what it cannot learn here is
which block follows which, how deep it lies and what it costs to compute anew: every block is its
own leaf at depth 0.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from kvframe.blocks import BlockPool
from kvframe.config import CacheConfig, Config, PolicyConfig
from kvframe.errors import CapacityError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.registry import Registry

K = TypeVar("K", bound=Hashable)


class KeyedTier(Generic[K]):
    """Blocks by key, ranked by a policy.

    A key is *held* (being written or read: it cannot die) or *cached*. What is refused has changed
    nothing.

    Args:
        capacity: Most keys.
        policy: Name of an eviction policy.
        options: Its options.
        window: Candidates that a batched policy sees; its own default if None.
        registry: Where policies are found; all that is installed if None.

    Raises:
        ConfigError: The capacity or an option cannot be.
        PluginError: The policy is not found or broken.
    """

    def __init__(
        self,
        capacity: int,
        policy: str = "lru",
        options: dict[str, Any] | None = None,
        *,
        window: int | None = None,
        registry: Registry | None = None,
    ) -> None:
        eviction = PolicyConfig(eviction=policy, options=options or {}, window=window)
        config = Config(cache=CacheConfig(capacity=capacity, block_size=1), policy=eviction)
        self.manager = KVCacheManager(config.resolve(registry=registry))
        self.capacity = capacity
        self._pool = BlockPool(self.manager)
        self._blocks: dict[K, int] = {}
        self._keys: dict[int, K] = {}
        self._held: dict[K, int] = {}
        self._fresh: set[K] = set()

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, key: object) -> bool:
        return key in self._blocks

    def is_held(self, key: K) -> bool:
        """Whether the key cannot die.

        Raises:
            UsageError: It is not here.
        """
        self._block(key)
        return key in self._held

    # --- what comes in and goes ---------------------------------------------------------------

    def insert(self, keys: Collection[K]) -> None:
        """Keys that are being written: held once, and not the policy's business before `publish`.

        Raises:
            UsageError: A key is here, or named twice.
            CapacityError: There is no room; `evict` makes some.
        """
        if len(set(keys)) != len(keys) or any(key in self._blocks for key in keys):
            twice = next((key for key in keys if key in self._blocks), None)
            raise UsageError(f"key {twice!r} is here" if twice is not None else "a key comes twice")
        if len(keys) > self.capacity - len(self._blocks):
            raise CapacityError(
                f"{len(keys)} keys do not fit: {len(self._blocks)} of {self.capacity} are here"
            )
        if not keys:
            return
        for key, block in zip(keys, self._pool.take(len(keys)).tolist(), strict=True):
            self._blocks[key], self._keys[block], self._held[key] = block, key, 1
            self._fresh.add(key)

    def publish(self, keys: Iterable[K]) -> None:
        """Keys that are written now: the policy hears of them, and they stay held."""
        for key in keys:
            if key not in self._fresh:
                raise UsageError(f"key {key!r} is published, or not here")
            self._pool.publish(self._blocks[key], _words([key]))
            self._fresh.discard(key)

    def hold(self, keys: Iterable[K], *, used: bool = True) -> None:
        """Hold keys once more: they cannot die. ``used``: whether the policy hears of a use.

        Raises:
            UsageError: A key is not here, or not published.
        """
        keys = list(keys)
        for key in keys:
            if key in self._fresh:
                raise UsageError(f"key {key!r} is being written: it cannot be read yet")
        self._pool.touch([self._block(key) for key in keys], used=used)
        for key in keys:
            self._held[key] = self._held.get(key, 0) + 1

    def release(self, keys: Iterable[K]) -> None:
        """Hold keys once less, in the order of a prefix: of those let go, the last dies first.

        One that was never published is gone.

        Raises:
            UsageError: A key is not held.
        """
        keys = list(keys)
        for key in keys:
            if key not in self._held:
                raise UsageError(f"key {key!r} is not held")
        self._pool.free([self._blocks[key] for key in keys])
        for key in keys:
            if self._held[key] > 1:
                self._held[key] -= 1
                continue
            del self._held[key]
            if key in self._fresh:
                self._fresh.discard(key)
                self._drop(key)

    def touch(self, keys: Iterable[K]) -> None:
        """Keys are used, in the order of a prefix; those that are not here are left out."""
        found = [key for key in keys if key in self._blocks and key not in self._fresh]
        if found:
            blocks = [self._blocks[key] for key in found]
            self._pool.touch(blocks)
            self._pool.free(blocks)

    def refresh(self, keys: Iterable[K]) -> None:
        """Keys move to where a release would put them now, without counting as used."""
        found = [key for key in keys if key in self._blocks and key not in self._fresh]
        if found:
            blocks = [self._blocks[key] for key in found]
            self._pool.touch(blocks, used=False)
            self._pool.free(blocks)

    def missed(self, keys: Iterable[K]) -> None:
        """Keys were asked for and will be inserted: policies with ghosts learn from it."""
        away = [key for key in keys if key not in self._blocks]
        if away:
            self._pool.missed(_words(away))

    def remove(self, keys: Iterable[K]) -> None:
        """Keys are gone, and not because room was needed; held ones, too.

        Raises:
            UsageError: A key is not here.
        """
        for key in keys:
            block = self._block(key)
            for _ in range(self._held.pop(key, 0)):
                self._pool.free([block])
            if key in self._fresh:
                self._fresh.discard(key)
            else:
                self._pool.forget([block])
            self._drop(key)

    def evict(self, count: int, protected: Collection[K] = ()) -> list[K] | None:
        """So many keys die, as the policy says; none if fewer may. Those that went, in their order.

        Args:
            count: How many.
            protected: Keys that must stay. For the policy they are let go of just now.
        """
        if count < 0:
            raise UsageError(f"count = {count}: must be at least 0")
        kept = {key for key in protected if key in self._blocks and key not in self._held}
        if count > len(self._blocks) - len(self._held) - len(kept):
            return None
        # In the tier's own order, so that a set of keys gives the same order everywhere.
        blocks = sorted(self._blocks[key] for key in kept)
        self._pool.touch(blocks, used=False)
        try:
            gone = self._pool.evict(count).tolist()
        finally:
            self._pool.free(blocks)
        return [self._drop(self._keys[block]) for block in gone]

    def clear(self) -> None:
        """Everything is gone, held or not, and the policy starts anew."""
        self.manager = KVCacheManager(self.manager.resolved)
        self._pool = BlockPool(self.manager)
        for known in (self._blocks, self._keys, self._held):
            known.clear()
        self._fresh.clear()

    def order(self) -> list[K]:
        """Cached keys in the order in which they would die, as far as the policy has one."""
        return [self._keys[block] for block in self.manager.eviction_order().tolist()]

    def _block(self, key: K) -> int:
        try:
            return self._blocks[key]
        except KeyError:
            raise UsageError(f"key {key!r} is not here") from None

    def _drop(self, key: K) -> K:
        del self._keys[self._blocks.pop(key)]
        return key


def _words(keys: Iterable[Hashable]) -> npt.NDArray[np.uint64]:
    """128 bits a key, the same in every process: what ghosts and sketches go by."""
    digests = [blake2b(_text(key), digest_size=16).digest() for key in keys]
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)


def _text(key: Hashable) -> bytes:
    return key if isinstance(key, bytes) else f"{type(key).__name__} {key!r}".encode()
