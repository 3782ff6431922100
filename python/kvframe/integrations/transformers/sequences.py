"""The engine's requests as sequences of the manager."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from transformers.generation.continuous_batching.cache_manager import (
    BlockManager,
    FullAttentionCacheAllocator,
)

from kvframe.errors import CapacityError
from kvframe.integrations.transformers.below import Below
from kvframe.manager import KVCacheManager

NOTHING = np.empty(0, np.uint32)


@dataclass
class Running:
    """A request that has blocks, in tokens: ids given to the manager, slots, committed.

    ``returning``: it was swapped in, and the engine counts its blocks from 0.
    """

    seq: int
    known: int
    slots: int
    committed: int
    returning: bool = False


class Sequences(FullAttentionCacheAllocator):  # type: ignore[misc]
    """Each of the engine's requests as a sequence of the manager.

    The engine asks for blocks, not for tokens: it takes whole blocks ahead of what it knows. So the
    slots after the prompt are appended without ids, which come with the commit that needs them.

    Args:
        kv: The manager.
        below: Its tiers, if it has some.
    """

    def __init__(self, kv: KVCacheManager, below: Below | None) -> None:
        super().__init__(index=0, block_size=kv.block_size, allow_block_sharing=True)
        self.kv, self.below = kv, below
        self.running: dict[str, Running] = {}
        self.missed = "", NOTHING  # the request that was looked up in vain last
        self.held = ""  # the request whose load had no room last

    # --- begin ----------------------------------------------------------------------------------

    def begin(self, request_id: str, prompt: list[int]) -> int:
        """Own what is cached of a prompt; how many tokens that is.

        What tiers have of it comes first: until it is there, nothing of the prompt is found, and
        `allocate_blocks` gives no blocks.
        """
        self.held = ""
        if self.below is not None and request_id in self.below.loads:
            return self._landed(request_id, prompt)
        ids = np.array(prompt, np.uint32)  # once: the manager reads an array a good deal faster
        found = self.below.found(request_id, ids) if self.below else self.kv.lookup(ids).tokens
        self.missed = request_id, ids  # the engine allocates next, and does not tell the tokens
        if not found:
            return 0
        if self.below is None:
            run = self._admit(request_id, ids, found, read=True)
            return run.slots if run else 0
        return self._load(request_id, prompt, found)

    def _load(self, request_id: str, prompt: list[int], found: int) -> int:
        """Own what the pool has, and start to load what is better there."""
        assert self.below is not None
        self.below.make_room(-(-found // self.block_size))
        try:
            seq = self.below.allocate(request_id, self.missed[1], found)
        except CapacityError:
            self.held = request_id if self.running else ""
            return 0
        if seq is None:
            return self._landed(request_id, prompt)
        return self._own(request_id, seq, self.kv.lengths(seq).committed)

    def _landed(self, request_id: str, prompt: list[int]) -> int:
        """The tokens that a load has brought, once it has; 0 before."""
        assert self.below is not None
        ended = self.below.take_landed(request_id)
        if ended is None:
            return 0
        seq, good = ended
        self.missed = request_id, np.array(prompt, np.uint32)
        return self._own(request_id, seq, good)

    def _own(self, request_id: str, seq: int, good: int) -> int:
        """Go on behind the first ``good`` tokens, without the slots that were for others."""
        if good == 0:
            self.kv.release(seq)
            return 0
        lengths = self.kv.lengths(seq)
        if lengths.slots > good:
            self.kv.truncate(seq, good)
        self.running[request_id] = Running(seq, self.kv.lengths(seq).known, good, good)
        self._read_table(request_id)
        return good

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

    # --- grow, commit, end ----------------------------------------------------------------------

    def allocate_blocks(
        self, n_blocks: int, request_id: str, block_manager: BlockManager
    ) -> int | None:
        if self.below is not None and not self._is_ready(n_blocks, request_id, block_manager):
            return None
        run = self.running.get(request_id)
        slots = run.slots if run else 0
        until = n_blocks * self.block_size + (0 if run and run.returning else slots)
        short = -(-(until - slots) // self.block_size)
        if not block_manager.has_enough_free_blocks(short):
            return None
        if self.below is not None:
            self.below.make_room(short)
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
        run.slots, run.returning = until, False
        self._read_table(request_id)
        return n_blocks

    def _is_ready(self, n_blocks: int, request_id: str, block_manager: BlockManager) -> bool:
        """Whether a request waits for no load; one that was swapped out starts to come back."""
        below = self.below
        assert below is not None
        if request_id not in below.swapped:
            return request_id not in below.loads and request_id != self.held
        if request_id not in below.loads:
            if not block_manager.has_enough_free_blocks(n_blocks):
                return False
            below.make_room(n_blocks)
        back = below.swap_in(request_id)
        if back is None:
            return False
        seq, good = back
        lengths = self.kv.lengths(seq)
        whole = good // self.block_size * self.block_size
        self.running[request_id] = Running(seq, lengths.known, lengths.slots, whole, returning=True)
        self._read_table(request_id)
        return True

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
        if self.below is not None and blocks > 1:  # of a prompt: the answer follows at its end
            self.below.offload(run.seq)

    def free_blocks(self, request_id: str, block_manager: BlockManager) -> None:
        self.block_table.pop(request_id, None)
        if self.below is not None:
            self.below.give_up(request_id)
        if run := self.running.pop(request_id, None):
            if self.below is not None:
                self.below.offload(run.seq)
            self.kv.release(run.seq)

    def swap_out(self, request_id: str, tokens: list[int], computed: int) -> bool:
        """End a request for now; whether its blocks are kept below, and not to be computed again.

        Args:
            request_id: A running request.
            tokens: All of it.
            computed: How many of them have KV.
        """
        run = self.running.get(request_id)
        if run is None or self.below is None or not self.below.is_settled(run.seq):
            return False
        if run.known < computed:
            self.kv.fill_placeholders(run.seq, tokens[run.known : computed])
        self.kv.truncate(run.seq, computed)
        self.kv.commit(run.seq, computed)
        del self.running[request_id]
        self.block_table.pop(request_id, None)
        return self.below.preempt(request_id, run.seq, computed)

    def give_back(self) -> bool:
        """Let requests whose KV has come, and that find no room to go on, give their blocks up.

        What was loaded stays cached until it is evicted. Those that had been swapped out are
        `Below.lost`, and computed again. Whether there were any.
        """
        assert self.below is not None
        landed = self.below.landed()
        for name in landed:
            self.below.give_up(name)
        back = [name for name, run in self.running.items() if run.returning]
        for name in back:
            self.block_table.pop(name, None)
            self.kv.release(self.running.pop(name).seq)
            self.below.lost.add(name)
        return bool(landed or back)

    def fork_blocks(
        self, parent_request_id: str, children_request_ids: list[str], block_manager: BlockManager
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
