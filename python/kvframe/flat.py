"""The blocks of one tier by key, without prefixes, ranked by any eviction policy.

This is what the plug points of other engines hold: blocks that know no parent, so that each is its
own leaf. The policy object is the one that `KVCacheManager` and the replay run, and it receives the
same events.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from kvframe._core import TierPolicy as Core
from kvframe.arguments import is_int, shown
from kvframe.config import Resolved
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.errors import UsageError

K = TypeVar("K", bound=Hashable)

KnownRow = tuple[int | str, int, int, int, int, Sequence[int]]
"""The fields of a `Access`, as the core takes them."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the request that uses blocks; 0 for what the engine does not say.

    Attributes:
        session: Conversation or agent session, a number or a name (`kvframe.session_id`).
        turn: Turn within it.
        request_class: Class of the request, the engine's own numbering.
        priority: Larger is more important.
        tokens: Length of the request in tokens.
        next_use: When each block of the call is used next, as ``Request.next_use``; in a
            `SlotCache` only the first counts, for the whole slot.
    """

    session: int | str = 0
    turn: int = 0
    request_class: int = 0
    priority: int = 0
    tokens: int = 0
    next_use: Sequence[int] = ()

    def row(self) -> KnownRow:
        """As the core takes it."""
        who = self.session, self.turn, self.request_class, self.priority
        return *who, self.tokens, self.next_use


UNKNOWN = Access()


def name_of(key: Hashable) -> bytes:
    """The bytes that a key is remembered by once its block is gone: bytes and str as they are.

    Raises:
        UsageError: The key is neither; pass ``name`` to `TierPolicy`.
    """
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        # A file's name may hold what UTF-8 cannot say.
        return key.encode(errors="surrogatepass")
    raise UsageError(f"key {shown(key)} is a {type(key).__name__}: pass name = a function to bytes")


class TierPolicy(Generic[K]):
    """A keyed set of blocks and the policy that says which is evicted next.

    A block has an owner from `insert` or `acquire` until `release`: it is being written or read, or
    is pinned. A block with an owner is never a victim. Several threads may share a tier only under
    a lock of their own. While a policy, or an engine in `take`, answers which block is evicted
    next, it may read the tier but not change it.

    Args:
        resolved: The configuration, of which only ``[eviction]`` is used.
        capacity: Blocks of the tier. None if it is counted in bytes or not known; it is then the
            most blocks there have been so far.
        name: Gives the bytes by which ghosts recognise a key, the same in every process.
        block_size: Tokens in a block, for policies that count them; ``cache.block_size`` if None.

    Raises:
        PluginError, PolicyError: The policy cannot be found, or not be made.
    """

    def __init__(
        self,
        resolved: Resolved,
        capacity: int | None = None,
        *,
        name: Callable[[K], bytes] = name_of,
        block_size: int | None = None,
    ) -> None:
        if not isinstance(resolved, Resolved):
            limit = "must be a Resolved; a policy's name goes to TierPolicy.named"
            raise UsageError(f"resolved = {shown(resolved)}: {limit}")
        if not callable(name):
            raise UsageError(f"name = {shown(name)}: must be a function of a key to bytes")
        self.resolved = resolved
        self.policy = resolved.eviction.name
        self._name = name
        self._capacity = capacity
        self._block_size = (
            block_size if block_size is not None else resolved.config.cache.block_size
        )
        self._asking = False
        self.clear()

    @classmethod
    def named(cls, policy: str, capacity: int | None = None, **options: Any) -> TierPolicy[K]:
        """A tier under the policy of that name, with its options; no file or variable is read."""
        resolved = resolve(policy, options)
        return cls(resolved, capacity)

    def clear(self) -> None:
        """Forget every block, ghosts and what the policy has learnt included."""
        self._check_idle()
        config, chosen = self.resolved.config.eviction, self.resolved.eviction
        terms = Terms.of(config, chosen.options, self._block_size)
        self._core = Core(
            blocks=self._capacity,
            block_size=self._block_size,
            policy=driver(chosen.loaded, terms) or self.policy,
            policy_options=chosen.values,
        )
        self._ids: dict[K, int] = {}
        self._keys: dict[int, K] = {}
        self._gone: list[K] = []

    # --- what is here --------------------------------------------------------------------------

    def __contains__(self, key: object) -> bool:
        return key in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[K]:
        return iter(self._ids)

    @property
    def evictable(self) -> int:
        """Blocks without an owner."""
        return self._core.counts()[1]

    @property
    def failures(self) -> int:
        """Decisions that the built-in order took because the policy failed."""
        return self._core.failures()

    # --- events of blocks -----------------------------------------------------------------------

    def on_miss(self, keys: Iterable[K]) -> None:
        """A lookup missed these keys, and their blocks are about to be inserted: ghosts may match
        them.
        """
        self._check_idle()
        try:
            absent = [key for key in keys if key not in self._ids]
        except TypeError:
            raise _no_keys("keys", keys) from None
        self._core.on_miss([self._digest(key) for key in absent])

    def insert(self, key: K, *, depth: int = 0, use: Access = UNKNOWN) -> None:
        """A block enters, with one owner.

        Args:
            key: Its key.
            depth: Its place in a prefix, in blocks, where the caller knows it.
            use: The request that stores it.

        Raises:
            UsageError: The key is here already.
            CapacityError: The tier is full: ask for `victims` first.
        """
        self._check_idle()
        try:
            if key in self._ids:
                raise UsageError(f"key {shown(key)} is in the tier already")
        except TypeError:
            raise UsageError(f"key {shown(key)}: must be hashable") from None
        block = self._core.insert(self._digest(key), depth, row_of(use))
        self._ids[key] = block
        self._keys[block] = key

    def hit(self, keys: Iterable[K], use: Access = UNKNOWN) -> None:
        """A request used these blocks, given in prefix order: the last of them is evicted first."""
        self._check_idle()
        self._core.hit(self._blocks(keys), row_of(use))

    def refresh(self, keys: Iterable[K]) -> None:
        """Make these blocks as recent as a use would, without counting one."""
        self._check_idle()
        self._core.refresh(self._blocks(keys))

    def acquire(self, keys: Iterable[K]) -> None:
        """Give each block one more owner: it is being read, or is pinned."""
        self._check_idle()
        self._core.acquire(self._blocks(keys))

    def release(self, keys: Iterable[K]) -> None:
        """Take one owner from each block, given in prefix order.

        Raises:
            UsageError: One has no owner. Nothing has changed.
        """
        self._check_idle()
        self._core.release(self._blocks(keys))

    def remove(self, keys: Iterable[K], *, evicted: bool = False) -> None:
        """Remove blocks, owned or not. ``evicted`` says that they make room: ghosts then remember
        them.
        """
        self._check_idle()
        if not isinstance(evicted, bool):
            raise UsageError(f"evicted = {shown(evicted)}: must be True or False")
        try:
            keys = list(keys)
        except TypeError:
            raise _no_keys("keys", keys) from None
        self._core.remove(self._blocks(keys), evicted)
        for key in keys:
            del self._keys[self._ids.pop(key)]

    # --- what is evicted -----------------------------------------------------------------------

    def victims(self, n: int, protected: Collection[K] = ()) -> list[K] | None:
        """Evict ``n`` blocks; returns their keys in the order of eviction.

        None, and nothing has changed, if fewer than ``n`` blocks have no owner and are not
        ``protected``.
        """
        self._check_idle()
        ids = self._ids
        try:
            spared = [ids[key] for key in protected if key in ids]
        except TypeError:
            raise _no_keys("protected", protected) from None
        self._asking = True
        try:
            named = self._core.victims(n, spared)
        finally:
            self._asking = False
        if named is None:
            return None
        victims = [self._keys.pop(block) for block in named]
        for key in victims:
            del ids[key]
        return victims

    def take(self, n: int, eligible: Callable[[K], bool]) -> list[K]:
        """Evict up to ``n`` blocks, for an engine that tells of pins only when asked.

        ``eligible`` is asked about each before it goes; those that are not eligible keep their
        place.

        Raises:
            Exception: What ``eligible`` or a strict policy raises, if no block has gone by then.
                Otherwise those that have gone are returned, and the next call asks about the same
                block first.
            KeyboardInterrupt: And the like, at once; the next call returns those that have gone.
        """
        self._check_idle()
        if not is_int(n):
            raise UsageError(f"n = {shown(n)}: must be an integer")
        if not callable(eligible):
            raise UsageError(f"eligible = {shown(eligible)}: must be callable")
        taken: list[K] = []
        spared: list[int] = []
        self._asking = True
        try:
            self._take_gone(n, eligible, taken)
            while len(taken) < n and self._take_one(eligible, spared, taken):
                pass
        except Exception:
            if not taken:
                raise
        except BaseException:
            self._gone += taken
            raise
        finally:
            self._asking = False
        return taken

    def _take_gone(self, n: int, eligible: Callable[[K], bool], taken: list[K]) -> None:
        """Move to ``taken`` the victims that an interrupt withheld, unless they were inserted again
        since.
        """
        for key in list(self._gone):
            back = key in self._ids
            if back or (len(taken) < n and eligible(key)):
                self._gone.remove(key)
                taken += [] if back else [key]

    def _take_one(self, eligible: Callable[[K], bool], spared: list[int], taken: list[K]) -> bool:
        """The next block, to ``spared`` or ``taken``; False if there is none."""
        block = self._core.next(spared)
        if block is None:
            return False
        key = self._keys[block]
        if not eligible(key):
            spared.append(block)
            return True
        self._core.victims(1, spared)
        del self._keys[block], self._ids[key]
        taken.append(key)
        return True

    def order(self) -> list[K]:
        """Keys without an owner, in the order in which they would be evicted now."""
        return [self._keys[block] for block in self._core.order()]

    def check_integrity(self) -> None:
        """Recount the tier's state: O(blocks).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self._core.check_integrity()

    def _check_idle(self) -> None:
        if self._asking:
            raise UsageError(
                "the tier is asking its policy for victims: that policy may not change it now"
            )

    def _digest(self, key: K) -> bytes:
        name = self._name(key)
        try:
            return blake2b(name, digest_size=16).digest()
        except TypeError:
            raise UsageError(f"name of key {shown(key)} = {shown(name)}: must be bytes") from None

    def _blocks(self, keys: Iterable[K]) -> Sequence[int]:
        try:
            return [self._ids[key] for key in keys]
        except KeyError as error:
            raise UsageError(f"key {shown(error.args[0])} is not in the tier") from None
        except TypeError:
            raise _no_keys("keys", keys) from None


def row_of(use: Access) -> KnownRow:
    """What is known of a request, as the core takes it.

    Raises:
        UsageError: It is no `Access`.
    """
    if not isinstance(use, Access):
        raise UsageError(f"use = {shown(use)}: must be a Access")
    return use.row()


def _no_keys(name: str, given: object) -> UsageError:
    return UsageError(f"{name} = {shown(given)}: must be a sequence of hashable keys")


def resolve(policy: str, options: dict[str, Any] | None = None) -> Resolved:
    """The configuration with that policy and its options, and no other source.

    Raises:
        ConfigError: An option is unknown or impossible.
        PluginError: The policy is not found, blocked or broken.
    """
    table = {"policy": policy, "options": options or {}}
    return Resolved.load(os.devnull, env={}, eviction=table)
