"""`KVCacheManager`: the object an engine holds.

It makes the decisions and never touches KV bytes: it says which blocks hold what, and which copies
to make before the next write. Token ids, block tables and slot mappings are NumPy buffers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from kvframe.arguments import is_int, shown
from kvframe.blocks import BlockPool
from kvframe.config import Config, Resolved
from kvframe.errors import UsageError
from kvframe.manager import step as steps
from kvframe.manager.build import core_of, drivers_of, public_of, resolved_of, tiers_of
from kvframe.manager.forks import forked
from kvframe.manager.settings import Settings
from kvframe.manager.tables import Offsets, all_tables, slots_of
from kvframe.pins import Pins
from kvframe.pressure import PressureRoom
from kvframe.prompts import Prompts
from kvframe.registry import Registry
from kvframe.renamed import MANAGER, Renamed
from kvframe.request import (
    PER_TRY,
    BlockKeys,
    Handles,
    MMItem,
    Request,
    RequestOptions,
    TokenIds,
    name_bytes,
    one_session,
    requested,
)
from kvframe.results import (
    NO_COPIES,
    Allocation,
    AllocStatus,
    BlockCounts,
    CommitResult,
    CopyPlan,
    ExpiryResult,
    Hit,
    Lengths,
)
from kvframe.stats.counters import Stats
from kvframe.stats.events import Log
from kvframe.stats.inspect import Inspect
from kvframe.tenants import Tenants


class KVCacheManager(metaclass=Renamed, old=MANAGER):
    """Blocks, prefixes and sequences of one KV cache, under one eviction policy.

    The tokens of a sequence by what allocation does about them; any region may be empty:

    .. code-block:: text

        |<- computed ->|<- cached ->|<- external ->|<-- new -->|<- rest ->|<- lookahead ->|
         committed by   found by     its KV comes   slots now,  slots by   slots for tokens
         commit, or     allocate     with a load    compute it  extend     not known yet

        |<--------- can be read ------->| once loaded |  once committed

    Its verbs, by purpose:

    - build one: `from_toml`
    - ask about prompts, and begin sequences: `lookup`, `can_allocate`, `allocate`, `rematch`
    - run a whole scheduler step in one call: `step`
    - or sequence by sequence: `extend`, `append`, `commit`, `advance`, `truncate`, `fork`,
      `release`, `abort`, `preempt`, `lengths`
    - take slots before tokens are known: `append_placeholders`, `fill_placeholders`
    - tell kernels where KV is: `block_table`, `block_tables`, `slot_mapping`
    - carry out copies and loads: `take_plan`, `done`, `failed`, `loaded`
    - the pool: `counts`, `evict_until`, `resize`, `sleep`, `wake`, `expire_until`
    - forget: `reset_prefix_cache`, `set_weight_version`; recount everything: `check_integrity`

    Everything else stands in rooms:
    - ``pins`` keeps blocks longer, or less long: pins, leases, hints, priorities;
    - ``blocks`` is the pool, block by block, for engines with request tables of their own;
    - ``pressure`` says how scarce room is, and which sequences to preempt;
    - ``settings`` changes the configuration, ``tenants`` says what each has, and erases one;
    - ``stats`` counts, ``log`` is the ordered log of what happened, ``inspect`` looks inside.

    Args:
        config: The configuration; all defaults if None. A `Resolved` is used as it is.
        **settings: Instead of a configuration: keywords of `Config.of`, such as ``block_size=16``,
            ``capacity=4096``, ``eviction="lru"``.

    Raises:
        ConfigError: A value of the configuration is wrong, or does not go with another.
        PluginError: A policy that it names is not found, blocked or broken.

    Every method may be called from several threads. A call that is refused has changed nothing.
    A handle that is unknown or has ended is a `HandleError`; blocks for which there is no room now
    are a `CapacityError`, and a `NeverFitsError` if there can never be.
    """

    def __init__(self, config: Config | Resolved | None = None, **settings: Any) -> None:
        resolved = resolved_of(config, settings)
        self.block_size = size = resolved.config.cache.block_size
        evicting, gate, matcher = drivers_of(resolved)
        self._core = core = core_of(resolved, evicting, gate, matcher)
        drivers = {"eviction": evicting, "admission": gate, "prefix": matcher}
        public = public_of(resolved)
        self._prompts = prompts = Prompts(core, matcher, gate, public, tiers_of(resolved))
        self.pins = Pins(core, prompts)
        self.blocks = BlockPool(core, prompts)
        self.pressure = PressureRoom(core, prompts)
        self.stats = Stats(core, resolved, prompts, drivers)
        self.tenants = Tenants(core)
        self.log = Log(core, size)
        self.inspect = Inspect(core, resolved, prompts)
        self.settings = Settings(core, resolved, prompts, drivers, self.inspect)

    @classmethod
    def from_toml(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        registry: Registry | None = None,
        **sections: Any,
    ) -> KVCacheManager:
        """The manager that a file describes; the environment and keywords override it.

        Args:
            path: A kvframe.toml, or a pyproject.toml with ``[tool.kvframe]``. None takes the one
                in the current directory, if there is one.
            registry: Where policies are found. A registry of your own may hold policies that no
                package brings.
            **sections: Values to change: ``cache={"capacity": 1024}``, ``eviction="lru"``.

        Raises:
            ConfigError: The file cannot be read, or a value is wrong.
            PluginError: A policy is not found, blocked or broken.
        """
        return cls(Resolved.load(path, registry=registry, **sections))

    def lookup(
        self,
        prompt: Request | TokenIds,
        *,
        tenant: str = "",
        cache_salt: str = "",
        lora_name: str = "",
        encoder: bytes = b"",
        mm_items: Iterable[MMItem] = (),
    ) -> Hit:
        """How much of a prompt could be reused now. Changes and counts nothing.

        Args:
            prompt: Token ids, or a `Request`, which is then hashed once for this and `allocate`.
            tenant: As in `Request`, which has its own of each.
            cache_salt: Likewise.
            lora_name: Likewise.
            encoder: Likewise.
            mm_items: Likewise.

        Raises:
            UsageError: A value is wrong, or is given beside a `Request`.
        """
        return self._prompts.found(prompt, cache_salt, lora_name, encoder, mm_items, tenant)

    def can_allocate(self, request: Request) -> AllocStatus:
        """Whether `allocate` would take a request now, later or never. Changes nothing."""
        if not isinstance(request, Request):
            raise UsageError(f"request = {shown(request)}: must be a Request")
        return AllocStatus(self._core.can_allocate(self._prompts.rewritten([request])[0]))

    def allocate(
        self, prompt: Request | TokenIds | None, **options: Unpack[RequestOptions]
    ) -> Allocation:
        """Begin a sequence: own what is cached of a prompt, and get slots for the rest.

        Args:
            prompt: A `Request`, or token ids with the keywords of `Request`. An empty one begins a
                sequence without tokens or blocks, which grows by `append`.
            **options: See `Request`. With a `Request`, only ``chunk``, ``until``, ``partial``,
                ``resumed`` and ``external_until``, which apply to this attempt.

        Raises:
            NeverFitsError: The prompt needs more blocks than the pool has.
            CapacityError: It needs more blocks than are free or evictable now.
            HeldError: The admission policy makes it wait.
            UsageError: An option that belongs to the `Request` is given beside it.
        """
        request, attempt = requested(prompt, options, PER_TRY)
        prompts, external_until = self._prompts, attempt.pop("external_until", None)
        if prompts.unkept:
            prompts.tell_unkept()
        if prompts.are_plain and external_until is None:
            return Allocation(*self._core.allocate(request, **attempt))
        (held,) = prompts.waits([request])
        if held is not None:
            raise held
        cores, answers, (rewritten,) = prompts.ready([request], external_until)
        answer = answers[0] if answers else None
        return Allocation(*self._core.allocate(cores[0], **attempt, answer=answer), rewritten)

    def rematch(self, seq: int, *, fence: int | None = None) -> int:
        """Look up again a sequence that has computed nothing yet, and take what is cached by now.

        Its fresh blocks give way to the cached ones, which its tables show from then on. Tokens
        found count with its admission. Nothing changes if the lookup finds no more whole blocks
        than the sequence has, if the sequence waits for a load or a joined computation, if another
        sequence joined its computation, or if a fork shares blocks of it behind the found ones.

        Args:
            seq: A sequence as it was admitted.
            fence: Number of the last step in flight that may touch its blocks. Those that it gives
                up, fresh or found before, wait until that step has passed.

        Returns:
            Tokens that need not be computed: the new `Lengths.cached`.

        Raises:
            UsageError: It has computed tokens.
        """
        return self._core.rematch(seq, fence)

    step = steps.step

    def extend(self, seq: int, until: int, *, lookahead: int = 0) -> None:
        """Get slots for known tokens up to the length ``until`` (chunked prefill).

        All of them or none. A sequence that is alone in the pool always gets as many as the
        ``chunk`` of its request, once those before them are committed.

        Args:
            seq: A running sequence.
            until: The length in tokens. What has slots already stays as it is.
            lookahead: Slots for as many tokens behind ``until`` too, which need not be known yet:
                for drafts, or for engines that take whole blocks ahead. `truncate` gives back what
                is not used.

        Raises:
            CapacityError: There is no room for all of them now.
            NeverFitsError: There could not be if the sequence were alone and all of it committed.
            UsageError: ``until`` is beyond the known tokens, or they go past the ``max_seq_len`` of
                its request.
        """
        if is_int(lookahead) and not lookahead:
            self._core.extend(seq, until)
        elif lookahead is None:
            raise UsageError("lookahead = None: must be an integer of at least 0")
        else:
            self._core.reserve(seq, until, lookahead)

    def advance(
        self,
        seq: int,
        until: int,
        *,
        upto: int | None = None,
        keys: BlockKeys | None = None,
        computed: int | None = None,
    ) -> list[list[int]]:
        """Extend, commit and read the new blocks in one call, for a request that came as keys.

        An engine with block hashes of its own calls it when a sequence outgrows its blocks, or has
        filled one. All of it is done, or nothing.

        Args:
            seq: A running sequence.
            until: The length up to which it is to have slots, be they for tokens that are not known
                yet. It keeps those that it has.
            upto: Commit up to this length; None commits nothing.
            keys: Of its full blocks, from the first one without on: a block is findable once it is
                committed and has a key. As in `Request`.
            computed: So many tokens are computed by now, and the commit is ahead of them: windows
                give up only what no token behind these attends to. None: all committed ones are.

        Returns:
            The blocks that its tables got, a list a group. Copies to make before writing are in the
            next `take_plan`.

        Raises:
            CapacityError: There is no room for all slots now.
            UsageError: There are more keys than full blocks, the request came as tokens, or
                ``upto`` is more than has slots and is known, or less than was committed before, or
                ``computed`` more than has slots.
        """
        return self._core.advance(seq, until, upto, keys, computed)

    def append(self, seq: int, tokens: TokenIds) -> None:
        """Append tokens to a sequence, and get slots for them (decode, speculation).

        Copies to make before writing there are in the next `take_plan`.

        Raises:
            CapacityError: There is no room for all of them now.
            NeverFitsError: There could not be if the sequence were alone and all of it committed.
            UsageError: They go past the ``max_seq_len`` of its request.
        """
        self._core.append(seq, tokens)

    def append_placeholders(self, seq: int, count: int = 1) -> None:
        """Get slots for tokens whose ids are still being computed (asynchronous scheduling).

        `fill_placeholders` supplies the ids; until then these tokens cannot be committed.
        """
        self._core.append_placeholders(seq, count)

    def fill_placeholders(self, seq: int, tokens: TokenIds) -> None:
        """Supply the ids of the first tokens that were appended without ids."""
        self._core.fill_placeholders(seq, tokens)

    def commit(self, seq: int, upto: int) -> CommitResult:
        """Say that the first ``upto`` tokens are computed and accepted.

        Full blocks become findable. Blocks that no later token attends to are given up.

        Raises:
            UsageError: ``upto`` is more than has slots, or less than was committed before.
        """
        return CommitResult(*self._core.commit(seq, upto))

    def truncate(self, seq: int, length: int) -> None:
        """Cut a sequence to its first ``length`` tokens, as when drafts are not accepted."""
        self._core.truncate(seq, length)

    @overload
    def fork(self, seq: int, *, upto: int | None = None, copy: bool = False) -> int: ...
    @overload
    def fork(self, seq: int, n: int, *, tokens: TokenIds | None = None) -> list[int]: ...

    def fork(
        self,
        seq: int,
        n: int | None = None,
        *,
        tokens: TokenIds | None = None,
        upto: int | None = None,
        copy: bool = False,
    ) -> int | list[int]:
        """Make further sequences over the same blocks (beam search, parallel sampling).

        The first of them to get slots in the shared last block gets a copy of it. Slots that were
        given before the fork and are not computed yet are shared, and kvframe does not see writes
        there: `truncate` to what is computed first, as ``state`` and ``sink_window`` groups want.

        Args:
            seq: A running sequence.
            n: How many; one if None.
            tokens: With ``n``: the next token of each fork, appended to it. All forks get their
                slots, or none is made.
            upto: Share only its first ``upto`` computed tokens, and know no others.
            copy: With ``upto``, copy a partial last block now, not before the first write; the
                copy is in the next `take_plan`.

        Returns:
            The handle of the new sequence, or with ``n`` the handles of all.

        Raises:
            CapacityError: There is no room for the tokens of all forks; none was made.
            UsageError: ``upto`` is beyond what is computed, or a window has moved on, or arguments
                do not go together.
        """
        return forked(self._core, seq, n, tokens=tokens, upto=upto, copy=copy)

    def preempt(self, seq: int, *, fence: int | None = None) -> Request:
        """End a running sequence for now; returns the request that brings it back.

        The request has all known tokens of the sequence. It keeps every option of the first request
        except those of one attempt: ``until``, ``partial``, ``join``, ``num_external_tokens`` and
        ``external_until``. It fits wherever the sequence fitted: if layer groups give blocks up,
        ``chunk`` may become smaller for that.

        Committed blocks stay cached until they are evicted, so the request may find them again. A
        request with ``read_cache=False`` finds nothing. With a ``fence``, the blocks become
        available only once that step has passed, as in `step`.
        """
        return self._core.preempt(seq, fence)

    def release(self, seq: int, *, fence: int | None = None) -> None:
        """End a sequence. Its findable blocks stay cached until they are evicted.

        Args:
            seq: The sequence.
            fence: Number of the last step in flight that may touch its blocks; they wait until
                that step has passed (`step`). Of several layer groups the last is then first in
                line to be evicted, as in vLLM; without a fence it is the first.
        """
        self._core.release(seq, fence)

    def abort(self, seq: int, *, fence: int | None = None) -> None:
        """End a sequence, and make nothing more of it findable (the client has gone).

        Blocks that it committed stay cached. Its partial last block, which `release` may make
        findable (``cache.partial_hits``), and blocks that it only holds do not become findable.

        Args:
            seq: The sequence.
            fence: As for `release`.
        """
        self._core.abort(seq, fence)

    def block_table(self, seq: int, group: int = 0, *, start: int = 0) -> npt.NDArray[np.int32]:
        """A sequence's block ids in a group, int32, from entry ``start`` on.

        A block that was given up reads -1, or 0 with ``cache.null_block``.
        """
        table: npt.NDArray[np.int32] = self._core.block_table(seq, group, start)
        return table

    def block_tables(
        self,
        seqs: Handles,
        out: npt.NDArray[np.int32] | None = None,
        *,
        group: int = 0,
        pad: int = -1,
        start: Handles | None = None,
        indptr: Offsets | None = None,
        seq_lens: Offsets | None = None,
    ) -> npt.NDArray[np.int32]:
        """Write the block tables of many sequences: a row each, or one after the other.

        Args:
            seqs: Sequences.
            out: int32, large enough: (rows, blocks), or 1-d with ``indptr``. None makes one.
            group: Layer group.
            pad: Value of the entries past a table's end, in a row.
            start: First entry to write in each row, if the caller kept those before it.
            indptr: int32 or int64, one more than there are sequences: tables are written one after
                the other, and this is filled with where each begins and the last one ends, as
                kernels for ragged batches expect it.
            seq_lens: int32 or int64, one a sequence: filled with its length in tokens, counting
                those that have slots.

        Returns:
            What was written: ``out``, or as much of it as the ragged tables fill.
        """
        written = all_tables(self._core, seqs, out, group, pad=pad, start=start, indptr=indptr)
        if seq_lens is not None:
            self._core.seq_lens(seqs, seq_lens)
        return written

    def slot_mapping(
        self,
        seqs: Handles,
        starts: Handles,
        counts: Handles,
        out: npt.NDArray[np.int64] | None = None,
        *,
        group: int = 0,
        indptr: Offsets | None = None,
    ) -> npt.NDArray[np.int64]:
        """Write the slots of tokens ``starts[i]`` to ``starts[i] + counts[i]`` of each sequence.

        Args:
            seqs: Sequences.
            starts: First token of each.
            counts: How many tokens of each.
            out: int64, filled one sequence after the other: block x block size + offset. None makes
                one.
            group: Layer group.
            indptr: As in `block_tables`: where each sequence's slots begin, and the last ones end.

        Returns:
            What was written: the front of ``out``.
        """
        return slots_of(self._core, seqs, starts, counts, out, group=group, indptr=indptr)

    def lengths(self, seq: int) -> Lengths:
        """A sequence's lengths in tokens."""
        return Lengths(*self._core.lengths(seq))

    def counts(self) -> BlockCounts:
        """How many blocks are free, cached, referenced."""
        return BlockCounts(*self._core.counts())

    def take_plan(self) -> CopyPlan:
        """The copies to make, gathered since the last plan; false if there are none."""
        plan = self._core.take_plan()
        return NO_COPIES if plan is None else CopyPlan(*plan)

    def done(self, ticket: int) -> None:
        """Say that a plan's copies are queued on the stream of every later writer.

        Also settles a load that came whole, and ends a lease (`Pins.lease`).
        """
        self._core.done(ticket)

    def failed(self, ticket: int) -> list[int]:
        """Say that a plan's copies, or a load, failed.

        Returns:
            The sequences that were cut to their last good block.
        """
        return self._core.failed(ticket)

    def loaded(self, ticket: int, blocks: int | Sequence[int]) -> list[int]:
        """Say that a load (`Allocation.load`) has ended, with its first ``blocks`` blocks good.

        Good blocks count as computed. If some are not good, the sequence is cut to those before
        them and computes from there; `extend` gives the slots back. If the sequence has ended, the
        good blocks become cached all the same.

        Args:
            ticket: The load's.
            blocks: How many are good; one number a group where layer groups came to different
                lengths. All groups go as far as the shortest.

        Returns:
            The sequences that were cut.
        """
        return self._core.loaded(ticket, blocks)

    def expire_until(self, now: int) -> ExpiryResult:
        """Set the time to ``now`` and settle what has lapsed by then.

        Leases past their deadline end; loads and copies past theirs have failed. Pins end with
        their leases, and retention priorities change as they were asked to. Durations count from
        the time that was set last. Time never goes back: an earlier ``now`` is ignored there.
        """
        return ExpiryResult(*self._core.expire_until(now))

    def evict_until(self, free: int) -> int:
        """Evict, in the policy's order, until ``free`` blocks are free.

        Returns:
            How many blocks were evicted.
        """
        return self._core.evict_until(free)

    def resize(self, blocks: int) -> None:
        """Grow or shrink the pool to ``blocks`` blocks, at the end of the ids.

        Raises:
            CapacityError: A block that would go is in use; nothing has changed.
        """
        self._core.resize(blocks)

    def sleep(self) -> None:
        """Forget what is cached and begin no sequence until `wake`.

        Raises:
            UsageError: Something is still in use.
        """
        self._core.sleep()

    def wake(self) -> None:
        """End `sleep`."""
        self._core.wake()

    def reset_prefix_cache(
        self,
        *,
        lora_name: str | None = None,
        cache_salt: str | None = None,
        session: int | str | None = None,
    ) -> int:
        """Forget every cached block, or those that all of the given applies to.

        A running sequence that matches keeps its blocks, but leaves none of them findable. A block
        that `BlockPool.publish` made findable has no adapter, salt or session: it is forgotten with
        its parent block. `kvframe.tiers.Tiers.reset_prefix_cache` forgets in lower tiers as well.

        Args:
            lora_name: Blocks computed under this adapter; "" for those without one.
            cache_salt: Likewise.
            session: Blocks that requests of this session alone have used.

        Returns:
            Blocks that were freed; those that running sequences hold are not.
        """
        name = None if lora_name is None else name_bytes("lora_name", lora_name)
        salts = [None] if cache_salt is None else self._prompts.salts_of(cache_salt)
        number = one_session(session)
        return sum(self._core.reset_prefix_cache(one, name, number) for one in salts)

    def set_weight_version(self, version: str) -> int:
        """Say that the weights have changed: nothing computed before is found again.

        Running sequences keep their blocks, and leave none findable. Returns the blocks freed.
        """
        return self._core.set_weight_version(name_bytes("version", version))

    def check_integrity(self) -> None:
        """Recount owners, states, tree, index and tables: O(blocks).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self._core.check_integrity()

    def __repr__(self) -> str:
        free, cached, referenced, total = self.counts()
        policy, running = self.inspect.resolved.eviction.name, len(self.inspect.running())
        sizes = f"{total} blocks of {self.block_size} tokens"
        states = f"{free} free, {cached} cached, {referenced} referenced; {running} running"
        return f"KVCacheManager({policy}, {sizes}: {states})"
