"""Every kvframe eviction policy as an `EvictionStrategy` of SGLang's plain `RadixCache`.

    from kvframe.integrations.sglang import install

    install()  # before the cache is built: then eviction_policy="kvframe:arc" names kvframe's arc

No SGLang server builds that class: `RadixCache.create_simulated` does, and programs of one's own. A
server builds a `UnifiedRadixCache`. Its Rust core refuses the names, as the server's command line
does, and nodes of its Python core are refused here.

SGLang asks for the priority of one leaf at a time and delivers no events. The adapter derives
events from the nodes when they are compared: a node is new, was used again, or is gone. Each node
is a block of the policy, whatever its length.
"""

from __future__ import annotations

import weakref
from array import array
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from kvframe.config import Resolved
from kvframe.flat import Access, TierPolicy, resolve
from kvframe.integrations.peers import PREFIX, seam
from kvframe.registry import Registry

SUPPORTED = "0.5.23"
"""Versions of SGLang whose plug point this is."""

if TYPE_CHECKING:
    from sglang.srt.mem_cache.evict_policy import EvictionStrategy
    from sglang.srt.mem_cache.radix_cache import TreeNode
else:
    EvictionStrategy = seam(
        "sglang.srt.mem_cache.evict_policy", "sglang", SUPPORTED
    ).EvictionStrategy


@dataclass
class _Seen:
    """What was known of a node when it was read last."""

    node: weakref.ref[TreeNode]
    last_use: float
    depth: int
    path: Any


class _Place:
    """A node's place in the order of eviction, settled when it is first compared."""

    __slots__ = ("node_id", "strategy")

    def __init__(self, strategy: KvframeStrategy, node_id: int) -> None:
        self.strategy = strategy
        self.node_id = node_id

    def __lt__(self, other: _Place) -> bool:
        return self.strategy.place(self.node_id) < self.strategy.place(other.node_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and self.node_id == other.node_id

    def __hash__(self) -> int:
        return hash(self.node_id)


class KvframeStrategy(EvictionStrategy):  # type: ignore[misc]
    """The leaves of a plain `RadixCache` in the order of a kvframe policy.

    The order is settled once for each call of ``evict``: what the policy learns from one victim
    counts from the next call on.

    Args:
        resolved: The configuration whose ``[eviction]`` rules; kvframe.toml and the environment if
            None.
    """

    def __init__(self, resolved: Resolved | None = None) -> None:
        self.tier: TierPolicy[int] = TierPolicy(
            resolved or Resolved.load(), name=lambda number: self._seen[number].path.digest()
        )
        self._seen: dict[int, _Seen] = {}
        self._waiting: dict[int, TreeNode] = {}
        self._places: dict[int, int] = {}

    def get_priority(self, node: TreeNode) -> _Place:
        """What the node is compared by. Notes it, and those above it, if something happened.

        Raises:
            NotImplementedError: It is a node of another cache than the plain `RadixCache`.
        """
        if not hasattr(node, "value"):
            told = f"node is a {type(node).__name__}: must be a TreeNode of the plain RadixCache"
            raise NotImplementedError(f"{told}, whose eviction alone kvframe's policies can order")
        above = node
        while above.parent is not None and above.id not in self._waiting:
            seen = self._seen.get(above.id)
            # A node above may have been used without those below it, so all of them are checked.
            if seen is None or seen.last_use != above.last_access_time:
                self._waiting[above.id] = above
            above = above.parent
        return _Place(self, node.id)

    def place(self, node_id: int) -> int:
        """Where the node stands in the order of eviction."""
        if self._waiting:
            self._settle()
        return self._places[node_id]

    def _settle(self) -> None:
        gone = [number for number, seen in self._seen.items() if not _is_attached(seen.node())]
        self.tier.remove(gone, evicted=True)
        for number in gone:
            del self._seen[number]
        events: list[tuple[float, int, bool, TreeNode]] = []
        for number, node in self._waiting.items():
            depth = self._look(node)
            if number not in self.tier:
                events.append((node.creation_time, depth, False, node))
            if number in self.tier or node.last_access_time > node.creation_time:
                events.append((node.last_access_time, depth, True, node))
        # Events of one time are ordered tail first, as a prefix is released.
        events.sort(key=lambda event: (event[0], event[2], -event[1]))
        for _, depth, is_use, node in events:
            use = Access(priority=max(-(2**31), min(2**31 - 1, node.priority)), tokens=depth)
            if is_use:
                self.tier.hit([node.id], use)
            else:
                self.tier.on_miss([node.id])
                self.tier.insert(node.id, depth=depth - len(node.key), use=use)
                self.tier.release([node.id])
            self._seen[node.id].last_use = node.last_access_time
        self._waiting.clear()
        self._places = {number: place for place, number in enumerate(self.tier.order())}

    def _look(self, node: TreeNode) -> int:
        """Note a node and those above it. Returns where the node ends, in tokens from the root."""
        chain = []
        while node.parent is not None and node.id not in self._seen:
            chain.append(node)
            node = node.parent
        seen = self._seen.get(node.id)
        depth, path = (seen.depth, seen.path) if seen else (0, blake2b(digest_size=16))
        for below in reversed(chain):
            path = path.copy()
            path.update(_tokens(below))
            depth += len(below.key)
            self._seen[below.id] = _Seen(weakref.ref(below), -1.0, depth, path)
        return depth


def _tokens(node: TreeNode) -> bytes:
    key = node.key
    named = (
        repr((key.extra_key, key.cache_salt)).encode() if key.extra_key or key.cache_salt else b""
    )
    return named + array("q", key.raw_token_ids()).tobytes()


def _is_attached(node: TreeNode | None) -> bool:
    if node is None or node.value is None or node.parent is None:
        return False
    return any(child is node for child in node.parent.children.values())


def install() -> None:
    """Let ``eviction_policy`` of a plain `RadixCache` name any policy: ``kvframe:NAME``, or
    ``kvframe`` alone.

    ``kvframe`` goes by kvframe.toml and the environment. ``eviction_policy_config`` holds the
    policy's options. Doing so twice changes nothing.
    """
    supported = seam("sglang.srt.mem_cache.utils", "sglang", SUPPORTED)
    factories: dict[str, Any] = supported._EVICTION_POLICY_FACTORIES
    factories["kvframe"] = KvframeStrategy
    for found in Registry().candidates("eviction"):
        factories[f"{PREFIX}{found.name}"] = partial(_named, found.name)


def _named(policy: str, **options: Any) -> KvframeStrategy:
    return KvframeStrategy(resolve(policy, options))
