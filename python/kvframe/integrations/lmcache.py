"""Every kvframe eviction policy in LMCache: its backends' cache policy, its MP server's policy.

    from kvframe.integrations.lmcache import install

    install()  # before the backends are built: then cache_policy: "kvframe:arc" is kvframe's arc

LMCache reports puts, hits and removals, but no prefixes and no owners, so the adapter asks for pins
when a chunk is about to be evicted. LMCache counts bytes, so the tier has no fixed number of
blocks: its capacity is the most blocks that it has held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kvframe.config import Resolved
from kvframe.flat import TierPolicy, resolve
from kvframe.integrations.peers import PREFIX, seam
from kvframe.registry import Registry

SUPPORTED = "0.5.6"
"""Versions of LMCache whose plug points these are."""

if TYPE_CHECKING:
    from lmcache.v1.distributed.api import ObjectKey
    from lmcache.v1.distributed.eviction import EvictionPolicy
    from lmcache.v1.distributed.internal_api import EvictionAction, EvictionDestination
    from lmcache.v1.storage_backend.cache_policy.base_policy import BaseCachePolicy
else:
    BaseCachePolicy = seam(
        "lmcache.v1.storage_backend.cache_policy.base_policy", "lmcache", SUPPORTED
    ).BaseCachePolicy
    EvictionPolicy = seam("lmcache.v1.distributed.eviction", "lmcache", SUPPORTED).EvictionPolicy
    _internal = seam("lmcache.v1.distributed.internal_api", "lmcache", SUPPORTED)
    EvictionAction = _internal.EvictionAction
    EvictionDestination = _internal.EvictionDestination

Cache = MutableMapping[Any, Any]


def _name(key: Hashable) -> bytes:
    # A key's text holds all its fields, and is the same in every process.
    return (key.to_string() if hasattr(key, "to_string") else repr(key)).encode()


class KvframeCachePolicy(BaseCachePolicy):  # type: ignore[misc]
    """Chunks of one storage backend in the order of a kvframe policy.

    Called under the backend's own lock, as LMCache's policies are.

    Args:
        resolved: The configuration whose ``[eviction]`` rules; kvframe.toml and the environment if
            None.
    """

    def __init__(self, resolved: Resolved | None = None) -> None:
        self.tier: TierPolicy[Any] = TierPolicy(resolved or Resolved.load(), name=_name)
        self._named: list[Any] = []

    def init_mutable_mapping(self) -> Cache:
        return {}

    def update_on_hit(self, key: Any, cache_dict: Cache) -> None:
        if key in self.tier:
            self.tier.hit([key])

    def update_on_put(self, key: Any) -> None:
        if key in self.tier:
            self.tier.hit([key])
            return
        self.tier.on_miss([key])
        self.tier.insert(key)
        self.tier.release([key])

    def update_on_force_evict(self, key: Any) -> None:
        if key in self.tier:
            self.tier.remove([key])

    def get_evict_candidates(self, cache_dict: Cache, num_candidates: int = 1) -> list[Any]:
        """Up to that many keys, which leave the order; a key that LMCache does not evict comes
        back.
        """
        for key in self._named:
            if key in cache_dict and key not in self.tier:
                self.update_on_put(key)
        gone = [key for key in self.tier if key not in cache_dict]
        self.tier.remove(gone)
        self._named = self.tier.take(num_candidates, lambda key: cache_dict[key].can_evict)
        return list(self._named)


class KvframeEvictionPolicy(EvictionPolicy):  # type: ignore[misc]
    """Objects of one tier of the MP server in the order of a kvframe policy.

    Salts are not kept apart: `support_isolation` is false.

    Args:
        resolved: As in `KvframeCachePolicy`.
    """

    def __init__(self, resolved: Resolved | None = None) -> None:
        self.tier: TierPolicy[ObjectKey] = TierPolicy(resolved or Resolved.load(), name=_name)
        self._lock = threading.Lock()
        self._destinations: list[EvictionDestination] = []

    def register_eviction_destination(self, destination: EvictionDestination) -> None:
        with self._lock:
            if destination not in self._destinations:
                self._destinations.append(destination)

    def on_keys_created(self, keys: list[ObjectKey]) -> None:
        with self._lock:
            new = [key for key in dict.fromkeys(keys) if key not in self.tier]
            self.tier.on_miss(new)
            # One request's keys in order: where nothing else decides, its tail is evicted first.
            for place, key in enumerate(new):
                self.tier.insert(key, depth=place)
            self.tier.release(new)
            self.tier.refresh(key for key in dict.fromkeys(keys) if key in self.tier)

    def on_keys_touched(self, keys: list[ObjectKey]) -> None:
        with self._lock:
            self.tier.hit(key for key in dict.fromkeys(keys) if key in self.tier)

    def on_keys_removed(self, keys: list[ObjectKey]) -> None:
        with self._lock:
            here = [key for key in dict.fromkeys(keys) if key in self.tier]
            self.tier.remove(here, evicted=True)

    def get_eviction_actions(
        self,
        expected_ratio: float,
        key_eligible_filter: Callable[[ObjectKey], bool] | None = None,
        cache_salt: str | None = None,
    ) -> list[EvictionAction]:
        """Which objects to evict: at least one if the ratio is not 0. `on_keys_removed` confirms
        them.
        """
        with self._lock:
            wanted = int(len(self.tier) * max(0.0, min(1.0, expected_ratio)))
            if expected_ratio > 0:
                wanted = max(wanted, 1)
            order = self.tier.order() if wanted else []
            eligible = key_eligible_filter or (lambda _: True)
            keys: list[ObjectKey] = []
            for key in order:
                if len(keys) == wanted:
                    break
                if eligible(key):
                    keys.append(key)
            if not keys:
                return []
            where = self._destinations[0] if self._destinations else EvictionDestination.DISCARD
            return [EvictionAction(keys=keys, destination=where)]


def install() -> None:
    """Let LMCache's ``cache_policy`` name any policy: ``kvframe:NAME``, or ``kvframe`` alone.

    ``kvframe`` goes by kvframe.toml and the environment. The MP server's ``eviction_policy`` is
    looked up in no table: give it a `KvframeEvictionPolicy` in code. Twice changes nothing.
    """
    table: dict[str, Any] = seam(
        "lmcache.v1.storage_backend.cache_policy", "lmcache", SUPPORTED
    ).POLICY_MAPPING
    table["KVFRAME"] = KvframeCachePolicy
    for found in Registry().candidates("eviction"):
        table[f"{PREFIX}{found.name}".upper()] = partial(_cache_policy, found.name)


def _cache_policy(policy: str) -> KvframeCachePolicy:
    return KvframeCachePolicy(resolve(policy))
