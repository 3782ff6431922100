"""Single blocks, for engines that keep track of requests themselves (vLLM's BlockPool, nano-vllm).

The engine keeps its sequences, hits and copies; kvframe has the blocks, the index and the policy.
Both ways work on one manager: what a sequence leaves cached is found here, and vice versa.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.arguments import is_int, shown
from kvframe.errors import CapacityError, UsageError
from kvframe.prompts import Prompts, check_alone
from kvframe.request import MMItem, Request, TokenIds, name_bytes
from kvframe.results import BlockCounts, BlockPrefix, Owners

Blocks = npt.NDArray[np.integer[Any]] | Sequence[int]
Keys = npt.NDArray[np.uint64]


class BlockPool:
    """``kv.blocks``: blocks taken, published, found, held and freed one by one.

    Every call takes a batch and does all of it or nothing. Where the manager has several layer
    groups, keys name blocks of the first one; a prompt is cached once all groups have its blocks.
    Only full blocks are shared here, by design: the core does not see what the engine writes into a
    block that it took, so it could not copy a partial one first, as it does for sequences
    (``cache.partial_hits``, `KVCacheManager.fork`).
    """

    def __init__(self, core: Core, prompts: Prompts) -> None:
        if not isinstance(core, Core):
            raise UsageError("a BlockPool is not made: a manager has one, KVCacheManager.blocks")
        self._core, self._prompts = core, prompts

    def _counts(self) -> BlockCounts:
        return BlockCounts(*self._core.counts())

    def available(self, tenant: str = "") -> int:
        """Blocks that `take` could get now for a tenant: free, or cached and evictable.

        Args:
            tenant: As in `take`. Beside ``[[tenants]]``, floors of others and its quota count.

        Raises:
            UsageError: ``tenant`` is no string.
        """
        return self._core.available_to(name_bytes("tenant", tenant))

    def take(
        self,
        count: int | None = None,
        *,
        out: npt.NDArray[np.int32] | None = None,
        tenant: str = "",
    ) -> npt.NDArray[np.int32]:
        """Take blocks that have no other owner, each held once; evicts cached ones if needed.

        Args:
            count: How many; as many as ``out`` has room for if None.
            out: int32, 1-d: filled with their ids. None makes an array.
            tenant: Whose blocks they are until they are free again, as in `Request`; without one,
                they count among those of all tenants that ``[[tenants]]`` does not name.

        Returns:
            Their ids: ``out``, or the front of it.

        Raises:
            CapacityError: So many cannot be had.
            UsageError: ``count`` is no integer of at least 0, or more than ``out`` has room for;
                or ``tenant`` is no string.
        """
        named = name_bytes("tenant", tenant)
        if out is None:
            out = np.empty(self._checked(count, tenant), np.int32)
        elif count is not None and isinstance(out, np.ndarray) and out.ndim == 1:
            if not is_int(count) or not 0 <= count <= len(out):
                limit = f"must be an integer from 0 to {len(out)}, the room in out"
                raise UsageError(f"count = {shown(count)}: {limit}")
            out = out[:count]
        self._core.take_blocks(out, named)
        return out

    def _checked(self, count: object, tenant: str) -> int:
        """A number of blocks, checked before there is an array for them."""
        number: Any = count
        if not is_int(count) or number < 0:
            raise UsageError(f"count = {shown(count)}: must be an integer of at least 0")
        total = self._counts().total
        if number > total:
            raise CapacityError(
                f"needs {shown(count)} blocks, but only {self.available(tenant)} are free or "
                f"evictable of {total}"
            )
        return int(number)

    def publish(self, block: int, key: Keys, parent: int | None = None) -> int | None:
        """Make a taken block findable; it is full, computed and accepted.

        Args:
            block: From `take`, not published before.
            key: uint64 of shape (2,): a row of `hash_blocks`, or the caller's own
                128 bits of hash. It must cover everything that the KV depends on.
            parent: The published block before it, held by the caller. Without parents every block
                is its own leaf, so a prefix may be evicted from its front.

        Returns:
            A block that was findable under the key before (and still is), or None.

        Raises:
            UsageError: The block is not taken, or the parent not published and held.
        """
        keys = key[None] if isinstance(key, np.ndarray) and key.ndim == 1 else key
        return self._core.publish_block(block, keys, parent)

    def find(self, keys: Keys) -> npt.NDArray[np.int32]:
        """The blocks under ``keys``, uint64 (n, 2), up to the first that is not there.

        Of several blocks under a key it is the ``parent`` of the next one found, if that is among
        them; else the one published first, where ``cache.keep_duplicates`` is on or there are
        ``[[tenants]]``, and the one of the lowest id elsewhere.
        """
        blocks: npt.NDArray[np.int32] = self._core.find_blocks(keys)
        return blocks

    def touch(self, blocks: Blocks, generations: Blocks | None = None) -> None:
        """Hold each block once more, so that it is not evicted; a prefix from its front on.

        Args:
            blocks: From `find`, or published and held still, though a reset has made them
                unfindable. A block that was only taken has one owner until it is published.
            generations: As `generations` returned them; a block that was freed and taken again
                since then is refused.

        Raises:
            CapacityError: Beside ``[[tenants]]``: the blocks' tenant can own no more now.
            UsageError: A block is neither findable nor published and held, or follows one that is
                not held.
        """
        self._core.touch_blocks(blocks, generations)

    def free(self, blocks: Blocks, generations: Blocks | None = None) -> None:
        """Hold each block once less, in the order of a block table.

        Blocks whose last hold ends stay cached if they were published; the last of them is
        evicted first.

        Raises:
            UsageError: A block is not held so often (a double free), was freed and taken again
                since, or is followed by one that is still held.
        """
        self._core.free_blocks(blocks, generations)

    def holds(self, blocks: Blocks) -> npt.NDArray[np.uint32]:
        """How often each block is held."""
        counts: npt.NDArray[np.uint32] = self._core.holds(blocks)[0]
        return counts

    def unowned(self, blocks: Blocks) -> int:
        """How many of the blocks have no owner: to own them takes that many of what is available.

        Args:
            blocks: Ids, as a `Hit` has them: -1, where a group needs no block, does not count.

        Raises:
            UsageError: The pool has no such block.
        """
        count: int = self._core.unowned(blocks)
        return count

    def generations(self, blocks: Blocks) -> npt.NDArray[np.uint32]:
        """How often each id was freed, which tells a block from a later one of the same id."""
        generations: npt.NDArray[np.uint32] = self._core.holds(blocks)[1]
        return generations

    def hash_blocks(
        self,
        prompt: Request | TokenIds,
        *,
        tenant: str = "",
        cache_salt: str = "",
        lora_name: str = "",
        encoder: bytes = b"",
        mm_items: Iterable[MMItem] = (),
    ) -> Keys:
        """Keys of a prompt's full blocks: uint64 of shape (blocks, 2), low word first.

        They are the keys under which a request for the prompt would store its blocks, after a
        prefix matcher has rewritten it. They are made whatever ``cache.index`` is.

        Args:
            prompt: Token ids, or a `Request`, which is then hashed once for this and `allocate`. A
                request that neither reads nor writes the cache has no keys.
            tenant: As in `Request`, which has its own of each.
            cache_salt: Likewise.
            lora_name: Likewise.
            encoder: Likewise.
            mm_items: Likewise.

        Raises:
            UsageError: A value is wrong, or is given beside a `Request`.
        """
        keys: Keys
        if isinstance(prompt, Request):
            check_alone(cache_salt, lora_name, encoder, mm_items, tenant)
            keys = self._core.hash_request(self._prompts.rewritten([prompt])[0])
            return keys
        names = cache_salt, lora_name, mm_items, encoder, tenant
        tokens, apart = self._prompts.stored_as(prompt, *names)
        keys = self._core.hash_blocks(tokens, **apart)
        return keys

    def sequence_keys(self, seq: int, upto: int | None = None) -> Keys:
        """Keys of the full blocks of a sequence's first ``upto`` tokens, as `hash_blocks` has them.

        Args:
            seq: A running sequence.
            upto: All computed tokens if None.

        Returns:
            uint64 of shape (blocks, 2); empty if nothing of the sequence may be found.
        """
        if upto is None:
            upto = self._core.lengths(seq)[2]
        keys: Keys = self._core.sequence_keys(seq, upto)
        return keys

    def prefix_of(self, block: int) -> BlockPrefix:
        """The blocks of the prefix that ends with a findable block, and their keys.

        For copies of what is about to be evicted (`Inspect.eviction_order`). Both are empty where
        that is not known: the block is not findable, was published without its parents, or
        ``cache.index`` is ``radix``, whose blocks have no keys.
        """
        return BlockPrefix(*self._core.prefix_of(block))

    def unhashed_blocks(self, seq: int) -> list[npt.NDArray[np.int32]]:
        """The blocks of a sequence that cannot be found, in table order: an int32 array a group.

        They are not full, not computed or not to be shared. KV that a disaggregated prefill sends
        goes into these; the others hold their KV already (vLLM:
        ``get_unhashed_block_ids_all_groups``). Blocks that left a window are not among them.
        """
        return self._core.unhashed_blocks(seq)

    def owners(self, block: int) -> Owners:
        """Who holds a block. Looks through every table, so do not call it in every step."""
        return Owners(*self._core.owners(block))

    def attach(self, seq: int, handle: int, *, upto: int | None = None) -> int | None:
        """Attach a handle to exactly the first ``upto`` tokens (for last logits, a hidden state).

        `Hit.attached` and `Allocation.attached` return it for a prompt of exactly these tokens,
        salt, adapter and items. It is dropped with the last full block of the tokens:
        `take_detached`. Where they fill no block, none of them needs to be cached: it is dropped
        with `KVCacheManager.reset_prefix_cache`, or once as many such prefixes as the pool has
        blocks have been attached to after it.

        Args:
            seq: A running sequence that has computed the tokens.
            handle: Any 64-bit number; what it stands for is up to the caller.
            upto: All computed tokens if None.

        Returns:
            The handle that it replaces, or None.

        Raises:
            UsageError: The last block that the tokens fill cannot be found, or they are not all
                computed, or nothing of the sequence may be found.
        """
        if upto is None:
            upto = self._core.lengths(seq)[2]
        return self._core.attach(seq, upto, handle)

    def take_detached(self) -> list[int]:
        """Handles whose prefix left the cache since the last call: the caller may free what they
        stand for.
        """
        return self._core.take_detached()

    def __repr__(self) -> str:
        return f"BlockPool({self.available()} of {self._counts().total} blocks available)"
