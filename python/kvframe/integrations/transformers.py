"""transformers' continuous batching on kvframe, for transformers 5.17.

    with kvframe_blocks("kvframe.toml") as managers:
        outputs = model.generate_batch(prompts, generation_config=...)
    print(managers[0].stats())

The engine keeps its scheduler, its tensors and its attention. A `KVCacheManager`, with the policy
that the configuration names, decides instead which blocks a request gets, which are found again and
which are evicted. transformers' own ``BlockManager`` hands out single blocks and sees no requests,
so its callers are replaced too: `Cache` and `Sequences` see both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.config import Resolved
from kvframe.errors import CapacityError, ConfigError, NeverFitsError
from kvframe.integrations.peers import missing
from kvframe.manager import KVCacheManager
from kvframe.registry import Registry

RELEASE = "5.17"
"""The release whose internals this module knows."""

try:
    import transformers
    from transformers.generation.continuous_batching import continuous_api
    from transformers.generation.continuous_batching.cache import PagedAttentionCache
    from transformers.generation.continuous_batching.cache_manager import (
        BlockManager,
        FullAttentionCacheAllocator,
    )
except ImportError as error:
    raise missing(error, "its continuous batching", "transformers", RELEASE) from error

NOTHING = np.empty(0, np.uint32)


@contextmanager
def kvframe_blocks(
    path: str | os.PathLike[str] | None = None,
    *,
    registry: Registry | None = None,
    **sections: Any,
) -> Iterator[list[KVCacheManager]]:
    """Caches that continuous batching makes within this context take their blocks from kvframe.

    The engine sizes its cache itself, so ``cache.block_size`` and ``cache.capacity`` are taken from
    it, whatever the configuration says. The context is of the process, not of a thread: do not open
    it twice at a time. A cache goes on working after it.

    Args:
        path: As for `KVCacheManager.from_toml`.
        registry: As there.
        **sections: As there.

    Yields:
        The manager of each cache made so far, in a list that grows.

    Raises:
        ConfigError: The configuration cannot hold, or does not suit the engine.
        PluginError: Its policy is not found, blocked or broken.
        ImportError: transformers is of another release than 5.17.
    """
    if not transformers.__version__.startswith(f"{RELEASE}."):
        raise ImportError(f"transformers {RELEASE} is needed, not {transformers.__version__}")
    sized = partial(_sized, path, registry, sections)
    sized(block_size=256, blocks=2**16)  # what is wrong is said before the engine starts
    managers: list[KVCacheManager] = []
    stock = continuous_api.PagedAttentionCache

    def make(**arguments: Any) -> Cache:
        cache = Cache(sized, **arguments)
        managers.append(cache.kv)
        return cache

    continuous_api.PagedAttentionCache = make
    try:
        yield managers
    finally:
        continuous_api.PagedAttentionCache = stock


def _sized(
    path: str | os.PathLike[str] | None,
    registry: Registry | None,
    sections: dict[str, Any],
    block_size: int,
    blocks: int,
) -> Resolved:
    """The configuration, at the engine's size."""
    sized = {**sections.get("cache", {}), "block_size": block_size, "capacity": blocks}
    resolved = Resolved.load(path, registry=registry, **{**sections, "cache": sized})
    groups = [group.kind for group in resolved.config.groups]
    if groups != ["full"]:
        raise ConfigError(f"groups = {groups}: transformers shares one full group; leave it out")
    if resolved.config.cache.null_block:
        raise ConfigError("cache.null_block = true: transformers keeps padding blocks of its own")
    return resolved


class Cache(PagedAttentionCache):  # type: ignore[misc]
    """The engine's cache tensors and index arithmetic over kvframe's blocks.

    Args:
        sized: The configuration for a block size and a number of blocks.
        **arguments: For `PagedAttentionCache`.
    """

    def __init__(self, sized: Callable[[int, int], Resolved], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.kv = KVCacheManager(sized(self.block_size, self.num_blocks))
        self._block_manager = Blocks(self.kv)
        self._sequences: Sequences | None = None
        if self.use_prefix_sharing:
            self._sequences = Sequences(self.kv)
            self.group_cache_managers = [self._sequences]
        for allocator in self.group_cache_managers:
            # If the model has windows, no prefix is found again, and forks copy the blocks that
            # they inherit.
            allocator.uses_block_sharing = self.use_prefix_sharing

    def allocate_blocks(self, n_blocks: int, request_id: str, allocated_blocks: int) -> int | None:
        if self._sequences is not None:  # it knows better than a count whether there is room
            return self._sequences.allocate_blocks(n_blocks, request_id, self._block_manager)
        blocks: int | None = super().allocate_blocks(n_blocks, request_id, allocated_blocks)
        return blocks

    def search_prefix_match(self, request_id: str, prompt_ids: list[int]) -> int:
        assert self._sequences is not None
        found = self._sequences.begin(request_id, prompt_ids)
        self._total_prefix_length += found
        return found

    def mark_shareable_blocks_as_complete(self, state: Any, num_complete_blocks: int) -> None:
        # Also at a request's last token, where the stock cache leaves its last full block behind.
        if self._sequences is not None and num_complete_blocks > 0:
            tokens = state.initial_tokens + state.generated_tokens
            self._sequences.commit(state.request_id, num_complete_blocks, tokens)

    def compute_max_num_forks(self, source_request_id: str) -> int:
        own = self.blocks_in_use(source_request_id)
        if self._sequences is not None:
            own -= self._sequences.running[source_request_id].committed // self.block_size
        return self.get_num_free_blocks() // own if own else 2**31


class Blocks(BlockManager):  # type: ignore[misc]
    """The engine's block manager over kvframe's pool.

    It counts cached blocks as free. Blocks that the engine does not share are taken as loans.
    """

    def __init__(self, kv: KVCacheManager) -> None:
        self.kv = kv
        self.block_size = kv.block_size
        self.num_blocks = kv.counts().total

    @property
    def num_free_blocks(self) -> int:
        counts = self.kv.counts()
        return counts.free + counts.cached

    def has_enough_free_blocks(self, n_blocks: int) -> bool:
        return n_blocks <= self.num_free_blocks

    def get_free_blocks(
        self, n_blocks: int, last_block_id: int | None, shareable: bool, group_id: int
    ) -> list[int] | None:
        if not self.has_enough_free_blocks(n_blocks):
            return None
        blocks = np.empty(n_blocks, np.int32)
        self.kv.blocks.take(out=blocks)
        return [int(block) for block in blocks]

    def free_blocks(self, blocks: list[int], shareable: bool) -> None:
        self.kv.blocks.free(np.array(blocks, np.int32))


@dataclass
class Running:
    """A request that has blocks, in tokens: ids given to the manager, slots, committed."""

    seq: int
    known: int
    slots: int
    committed: int


class Sequences(FullAttentionCacheAllocator):  # type: ignore[misc]
    """Each of the engine's requests as a sequence of the manager.

    The engine asks for blocks, not for tokens: it takes whole blocks ahead of what it knows. So the
    slots after the prompt are appended without ids, which come with the commit that needs them.
    """

    def __init__(self, kv: KVCacheManager) -> None:
        super().__init__(index=0, block_size=kv.block_size, allow_block_sharing=True)
        self.kv = kv
        self.running: dict[str, Running] = {}
        self.missed = "", NOTHING  # the request that was looked up in vain last

    def begin(self, request_id: str, prompt: list[int]) -> int:
        """Own what is cached of a prompt; how many tokens that is.

        Raises:
            NeverFitsError: The cache has fewer blocks than the prompt needs.
        """
        needed, total = -(-len(prompt) // self.block_size), self.kv.counts().total
        if needed > total:
            raise NeverFitsError(f"the prompt needs {needed} blocks, but the cache has {total}")
        ids = np.array(prompt, np.uint32)  # once: the manager reads an array a good deal faster
        found = self.kv.lookup(ids).tokens
        if found and (run := self._admit(request_id, ids, found, read=True)):
            return run.slots
        self.missed = request_id, ids  # the engine allocates next, and does not tell the tokens
        return 0

    def _admit(
        self, request_id: str, prompt: npt.NDArray[np.uint32], until: int, *, read: bool
    ) -> Running | None:
        try:
            grant = self.kv.allocate(prompt, until=until, read_cache=read)
        except CapacityError:
            return None
        run = Running(grant.seq, len(prompt), grant.granted_tokens, grant.cached_tokens)
        self.running[request_id] = run
        self._read_table(request_id)
        return run

    def allocate_blocks(self, n_blocks: int, request_id: str, block_manager: Blocks) -> int | None:
        if not block_manager.has_enough_free_blocks(n_blocks):
            return None
        run = self.running.get(request_id)
        slots = run.slots if run else 0
        until = slots + n_blocks * self.block_size
        if run is None:
            # A request that comes back from the engine's CPU pool was not looked up: all its tokens
            # come with its first commit.
            (missed, ids), self.missed = self.missed, ("", NOTHING)
            ids = ids if missed == request_id else NOTHING
            # The engine writes every block that it does not know to be cached.
            run = self._admit(request_id, ids, min(until, len(ids)), read=False)
            if run is None:
                return None
        elif slots < run.known:
            self.kv.extend(run.seq, min(until, run.known))
        if until > run.known:
            self.kv.append_placeholders(run.seq, until - max(slots, run.known))
        run.slots = until
        self._read_table(request_id)
        return n_blocks

    def commit(self, request_id: str, blocks: int, tokens: list[int]) -> None:
        """Note that the next ``blocks`` blocks are computed; ``tokens`` are all of the request."""
        run = self.running.get(request_id)
        if run is None:  # it lost its blocks while it was computed (asynchronous batches)
            return
        run.committed += blocks * self.block_size
        if run.known < run.committed:
            self.kv.fill_placeholders(run.seq, tokens[run.known : run.committed])
            run.known = run.committed
        self.kv.commit(run.seq, run.committed)

    def free_blocks(self, request_id: str, block_manager: Blocks) -> None:
        self.block_table.pop(request_id, None)
        if run := self.running.pop(request_id, None):
            self.kv.release(run.seq)

    def fork_blocks(
        self, parent_request_id: str, children_request_ids: list[str], block_manager: Blocks
    ) -> tuple[list[int], list[int]]:
        parent, table = self.running[parent_request_id], self.block_table[parent_request_id]
        full = parent.committed // self.block_size
        sources: list[int] = []
        copies: list[int] = []
        for child in children_request_ids:
            # Computed blocks are shared. The engine copies the others now, so there is no write to
            # wait for: the child drops them and takes as many of its own.
            seq = self.kv.fork(parent.seq)
            self.running[child] = Running(seq, parent.committed, parent.slots, parent.committed)
            self.kv.truncate(seq, parent.committed)
            self.kv.append_placeholders(seq, parent.slots - parent.committed)
            self._read_table(child)
            sources += table[full:]
            copies += self.block_table[child][full:]
        return sources, copies

    def _read_table(self, request_id: str) -> None:
        """Append the new blocks of a request to the engine's list; its entries do not change."""
        table = self.block_table.setdefault(request_id, [])
        row = self.kv.block_table(self.running[request_id].seq)
        table += [int(block) for block in row[len(table) :]]
