"""`KVCacheManager`: the object an engine holds.

It decides and never touches KV bytes: it says which blocks hold what, and which copies to make
before the next write. Token ids, block tables and slot mappings cross as NumPy buffers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.config import Config, Resolved
from kvframe.config.rules import reusable_unit
from kvframe.config.schema import GroupConfig
from kvframe.errors import UsageError
from kvframe.policies.driver import driver
from kvframe.registry import Registry
from kvframe.request import Extra, Request, RequestOptions, TokenIds, space
from kvframe.results import (
    Committed,
    Counts,
    Grant,
    Hit,
    Lengths,
    Pin,
    Plan,
    Pressure,
    Sight,
    Span,
    Stepped,
    Victim,
)

Handles = npt.NDArray[np.integer[Any]] | Sequence[int]


def _group(group: GroupConfig) -> dict[str, Any]:
    keys = ("kind", "window", "chunk", "sink", "block_size", "interval", "lag")
    return {key: getattr(group, key) for key in keys}


class KVCacheManager:
    """Blocks, prefixes and sequences of one KV cache, under one eviction policy.

    Args:
        config: How it is built; defaults if None. A `Resolved` is taken as it is.

    Raises:
        ConfigError: The configuration cannot hold.
        PluginError: Its policy is not found, blocked or broken.

    Every method may be called from several threads. What is refused has changed nothing.
    """

    def __init__(self, config: Config | Resolved | None = None) -> None:
        if not isinstance(config, Config | Resolved | None):
            raise UsageError(
                f"config is a {type(config).__name__}: must be a Config; a file's name goes to "
                "KVCacheManager.from_toml"
            )
        if not isinstance(config, Resolved):
            config = (config or Config()).resolve()
        self.resolved = config
        cache, policy = config.config.cache, config.config.policy
        pressure = config.config.pressure
        self.block_size = cache.block_size
        self._core = _core.Manager(
            blocks=config.capacity_blocks,
            block_size=cache.block_size,
            policy=driver(config.policy, config.options, policy.window, cache.block_size)
            or config.policy.descriptor.name,
            policy_options=config.policy_options,
            hash=cache.hash,
            index=cache.index,
            groups=[_group(group) for group in config.config.groups],
            prefix_caching=cache.prefix_caching,
            null_block=cache.null_block,
            fingerprint=cache.fingerprint.encode(),
            event_log=cache.event_log,
            reserve=pressure.reserve,
            watermarks=(pressure.low, pressure.high, pressure.critical),
            strict=policy.on_error == "raise",
        )

    @classmethod
    def from_toml(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        registry: Registry | None = None,
        **sections: Any,
    ) -> KVCacheManager:
        """The manager that a file describes; the environment and keywords go over it.

        Args:
            path: kvframe.toml, or a pyproject.toml with ``[tool.kvframe]``.
            registry: Where policies are found: one of your own may hold policies of this program.
            **sections: Values to change, as ``cache={"capacity": 1024}``.
        """
        return cls(Resolved.load(path, registry=registry, **sections))

    def options(self) -> dict[str, Any]:
        """The options as they reached the core; ``padding`` is bytes unused in a page, by group."""
        return {**self._core.options(), "padding": self.resolved.padding}

    @property
    def reusable_unit(self) -> int:
        """Tokens that the length of a prefix hit is a multiple of: what all groups can serve."""
        return reusable_unit(self.resolved.config)

    # --- a request's life ---------------------------------------------------------------------

    def lookup(
        self,
        prompt: TokenIds,
        *,
        salt: str = "",
        adapter: str = "",
        encoder: bytes = b"",
        extras: Iterable[Extra] = (),
    ) -> Hit:
        """How much of a prompt could be reused now. Changes and counts nothing."""
        return Hit(*self._core.lookup(prompt, **space(salt, adapter, extras, encoder)))

    def admit(self, prompt: Request | TokenIds | None, **options: Unpack[RequestOptions]) -> Grant:
        """Admit a request: own what is cached of its prompt, and get slots for the rest.

        Args:
            prompt: A `Request`, or token ids with the keywords of `Request`.
            **options: See `Request`.

        Raises:
            NeverFitsError: The prompt needs more blocks than there are at all.
            CapacityError: It needs more than are free or evictable now.
        """
        request = prompt if isinstance(prompt, Request) else Request(prompt, **options)
        return Grant(*self._core.admit(request.core))

    def append(self, seq: int, tokens: TokenIds) -> None:
        """Slots for tokens after everything known of a sequence (decode, speculation).

        Copies to make first are in the next `take_plan`.
        """
        self._core.append(seq, tokens)

    def extend(self, seq: int, until: int) -> None:
        """Slots for known prompt tokens up to a length (chunked prefill)."""
        self._core.extend(seq, until)

    def append_unknown(self, seq: int, count: int = 1) -> None:
        """Slots for tokens whose ids are still being computed (asynchronous scheduling).

        `fill` brings the ids; nothing past them can be committed before.
        """
        self._core.append_unknown(seq, count)

    def fill(self, seq: int, tokens: TokenIds) -> None:
        """The ids of the first tokens that were appended without."""
        self._core.fill(seq, tokens)

    def commit(self, seq: int, upto: int) -> Committed:
        """The first ``upto`` tokens are computed and accepted: full blocks become findable.

        Blocks that no token to come attends to are given up.

        Raises:
            UsageError: More than has slots, or less than before.
        """
        return Committed(*self._core.commit(seq, upto))

    def sight(self, seq: int, group: int = 0) -> Sight:
        """What the next token of a sequence sees of a group, and what must be masked.

        Tokens keep their absolute places, whatever blocks were given up (StreamingLLM, Xiao et al.,
        2023, for ``sink_window``).
        """
        visible, masked, blocks = self._core.sight(seq, group)
        return Sight([*map(Span._make, visible)], [*map(Span._make, masked)], blocks)

    def truncate(self, seq: int, length: int) -> None:
        """Cut a sequence, as when speculative tokens are not accepted."""
        self._core.truncate(seq, length)

    def fork(self, seq: int) -> int:
        """A second sequence over the same blocks (beam search); whoever appends first copies.

        The copy is made when slots are given. Slots that were given before the fork and are not
        computed yet are shared, and writes there are not seen: cut to what is computed first. With
        a ``state`` or ``sink_window`` group that is demanded.
        """
        return self._core.fork(seq)

    def preempt(self, seq: int, *, fence: int | None = None) -> Request:
        """End a running sequence for now: the request that brings it back, with all it knows.

        What it computed stays cached as long as there is room, so coming back is cheap at best. It
        asks for all of its tokens; ``chunk``, ``until`` and ``partial`` belonged to the first try.
        With a ``fence``, it makes room only once that step has passed, as in `step`.
        """
        return Request.of_core(self._core.preempt(seq, fence))

    def release(self, seq: int, *, fence: int | None = None) -> None:
        """End a sequence. Its findable blocks stay cached until they are evicted.

        Args:
            seq: The sequence.
            fence: Last step in flight that may touch its blocks; they wait until it has passed.
        """
        self._core.release(seq, fence)

    # --- a step at a time ---------------------------------------------------------------------

    def step(
        self,
        *,
        done: Handles | None = None,
        failed: Handles | None = None,
        truncate: tuple[Handles, Handles] | None = None,
        commit: tuple[Handles, Handles] | None = None,
        release: Handles | None = None,
        fence: int | None = None,
        passed: int | None = None,
        append: Handles | None = None,
        counts: Handles | None = None,
        tokens: TokenIds | None = None,
        extend: tuple[Handles, Handles] | None = None,
        admit: Sequence[Request | TokenIds] = (),
        token_budget: int | None = None,
        skip_refused: bool = False,
        tables: npt.NDArray[np.int32] | Sequence[npt.NDArray[np.int32]] = (),
        slots: npt.NDArray[np.int64] | Sequence[npt.NDArray[np.int64]] = (),
    ) -> Stepped:
        """All of a scheduler step in one call, in this order.

        Args:
            done: Tickets whose copies are queued ahead of later writes.
            failed: Tickets whose copies failed.
            truncate: (sequences, their new lengths).
            commit: (sequences, lengths computed and accepted).
            release: Sequences that end; they may be cut and committed in the same step.
            fence: With steps in flight, the number of the last one that may touch what is
                released or cut: its blocks wait until that step has ``passed``.
            passed: Steps up to this number have run; what waited for them is freed first.
            append: Sequences that grow.
            counts: Tokens for each of them; one each if None.
            tokens: Their ids, one sequence after the other.
            extend: (sequences, lengths) whose known tokens get slots (chunked prefill).
            admit: Requests that come in if there is room, first come first served.
            token_budget: Tokens that the admissions may leave to be computed, all together: the
                last one gets what is left of it as its chunk.
            skip_refused: Try requests behind a refusal too.
            tables: int32 (rows, blocks), one a layer group: row i gets the changed entries of
                ``append[i]``'s block table; what was written there before must still stand.
            slots: int64, one a layer group: where the appended tokens go, one sequence after the
                other; -1 for a sequence that was refused.

        Raises:
            HandleError: A handle or ticket is wrong; nothing was done.
            UsageError: A length or a buffer is wrong; nothing was done.
        """
        truncate_seqs, truncate_to = truncate if truncate is not None else (None, None)
        commit_seqs, commit_to = commit if commit is not None else (None, None)
        extend_seqs, extend_to = extend if extend is not None else (None, None)
        grants, refused, rewound, plan = self._core.step(
            done=done,
            failed=failed,
            truncate=truncate_seqs,
            truncate_to=truncate_to,
            commit=commit_seqs,
            commit_to=commit_to,
            release=release,
            fence=fence,
            passed=passed,
            append=append,
            counts=counts,
            ids=tokens,
            extend=extend_seqs,
            extend_to=extend_to,
            admit=[(r if isinstance(r, Request) else Request(r)).core for r in admit],
            token_budget=token_budget,
            skip_refused=skip_refused,
            tables=[tables] if isinstance(tables, np.ndarray) else tables,
            slots=[slots] if isinstance(slots, np.ndarray) else slots,
        )
        return Stepped(
            [None if grant is None else Grant(*grant) for grant in grants],
            refused,
            rewound,
            None if plan is None else Plan(*plan),
        )

    def take_plan(self) -> Plan | None:
        """The copies gathered since the last plan, or None."""
        plan = self._core.take_plan()
        return None if plan is None else Plan(*plan)

    def done(self, ticket: int) -> None:
        """The copies of a plan are queued on the stream of every later writer."""
        self._core.done(ticket)

    def failed(self, ticket: int) -> list[int]:
        """The copies of a plan failed: the sequences that were cut to their last good block."""
        return self._core.failed(ticket)

    def loaded(self, ticket: int, blocks: int) -> list[int]:
        """A load (`Grant.load`) has ended; its first ``blocks`` blocks are good.

        They count as computed. If some are not good, the sequence is cut to those before them, to
        be computed from there: `extend` gives the slots back. The sequences that were cut.
        """
        return self._core.loaded(ticket, blocks)

    def lease(self, seq: int, upto: int) -> int:
        """Keep the blocks of the first ``upto`` computed tokens for a reader elsewhere.

        They stay whatever becomes of the sequence, until the ticket returned is given to `done`.
        """
        return self._core.lease(seq, upto)

    def block_table(self, seq: int, group: int = 0) -> npt.NDArray[np.int32]:
        """A sequence's block ids in a group, int32.

        What was given up reads -1, or 0 with ``cache.null_block``.
        """
        table: npt.NDArray[np.int32] = self._core.block_table(seq, group)
        return table

    def block_tables(
        self,
        seqs: Handles,
        out: npt.NDArray[np.int32],
        *,
        group: int = 0,
        pad: int = -1,
        start: Handles | None = None,
    ) -> None:
        """Write block tables into the rows of ``out``.

        Args:
            seqs: One sequence a row.
            out: int32, at least as many rows and columns as are needed.
            group: Layer group.
            pad: What entries past a table's end get.
            start: First entry to write in each row, where the caller kept those before it.
        """
        self._core.block_tables(seqs, out, group=group, pad=pad, start=start)

    def slot_mapping(
        self,
        seqs: Handles,
        starts: Handles,
        counts: Handles,
        out: npt.NDArray[np.int64],
        *,
        group: int = 0,
    ) -> int:
        """Write where tokens ``starts[i] .. starts[i] + counts[i]`` of each sequence live.

        Args:
            seqs: Sequences.
            starts: First token of each.
            counts: How many tokens of each.
            out: int64, filled one sequence after the other: block x block size + offset.
            group: Layer group.

        Returns:
            How many were written, one sequence after the other.
        """
        return self._core.slot_mapping(seqs, starts, counts, out, group=group)

    def hash_blocks(
        self,
        prompt: TokenIds,
        *,
        salt: str = "",
        adapter: str = "",
        encoder: bytes = b"",
        extras: Iterable[Extra] = (),
    ) -> npt.NDArray[np.uint64]:
        """Keys of a prompt's full blocks: uint64 of shape (blocks, 2), low word first."""
        keys: npt.NDArray[np.uint64] = self._core.hash_blocks(
            prompt, **space(salt, adapter, extras, encoder)
        )
        return keys

    # --- raw blocks, and looking inside -------------------------------------------------------

    def lend(self, out: npt.NDArray[np.int32]) -> None:
        """Fill ``out`` with blocks outside any sequence, for scratch or an engine's own books."""
        self._core.lend(out)

    def give_back(self, blocks: npt.NDArray[np.int32]) -> None:
        """Take such blocks back; refuses all of them if any is not on loan (a double free)."""
        self._core.give_back(blocks)

    def clear_cache(self) -> int:
        """Forget every cached block; blocks freed."""
        return self._core.clear_cache()

    def set_fingerprint(self, fingerprint: str) -> int:
        """The weights have changed: nothing computed under the old ones is found again.

        Running sequences keep their blocks, and leave nothing to be found. Blocks freed.
        """
        return self._core.set_fingerprint(fingerprint.encode())

    # --- room ---------------------------------------------------------------------------------

    def usage(self) -> float:
        """The share of blocks in use, 0 to 1; cached ones are not in use."""
        return self._core.pressure()[0]

    def pressure(self) -> Pressure:
        """The pressure level now, by the marks of ``[pressure]``, with hysteresis."""
        return Pressure(self._core.pressure()[1])

    def preemption_order(
        self,
        seqs: Handles,
        rule: Literal["fewest-computed", "last-admitted", "lowest-priority"] = "fewest-computed",
    ) -> list[Victim]:
        """Running sequences in the order to preempt them, without those that would free nothing."""
        return [Victim(*row) for row in self._core.preemption_order(seqs, rule)]

    def collect(self, free: int) -> int:
        """Evict, in the policy's order, until ``free`` blocks are free; how many were evicted."""
        return self._core.collect(free)

    def resize(self, blocks: int) -> None:
        """Grow or shrink the pool from its end.

        Raises:
            CapacityError: A block that would go is in use; nothing has changed.
        """
        self._core.resize(blocks)

    def sleep(self) -> None:
        """Forget what is cached and admit nobody until `wake`.

        Raises:
            UsageError: Something is still in use.
        """
        self._core.sleep()

    def wake(self) -> None:
        """End `sleep`."""
        self._core.wake()

    def counts(self) -> Counts:
        """How many blocks are free, cached, referenced."""
        return Counts(*self._core.counts())

    def lengths(self, seq: int) -> Lengths:
        """A sequence's lengths in tokens."""
        return Lengths(*self._core.lengths(seq))

    def stats(self) -> dict[str, int]:
        """Counters since the start; requests are counted once, at admission."""
        return self._core.stats()

    # --- what stays, and looking inside --------------------------------------------------------

    def pin(
        self,
        prompt: TokenIds,
        *,
        salt: str = "",
        adapter: str = "",
        extras: Iterable[Extra] = (),
    ) -> Pin | None:
        """Keep what is cached of a prompt from eviction, in whole blocks, until `unpin`.

        Counts no hit. After `clear_cache` or `set_fingerprint` nobody finds it any more; its blocks
        are free once it is unpinned.

        Returns:
            The receipt, or None if nothing of the prompt is cached.
        """
        held = self._core.pin(prompt, **space(salt, adapter, extras))
        return None if held is None else Pin(*held)

    def unpin(self, pin: Pin) -> None:
        """End a `pin`; it takes the receipt once.

        Raises:
            HandleError: The receipt was never given out, was handed back before, or names another
                block than the one it was given for.
        """
        self._core.unpin(pin.receipt, pin.block)

    def dump(self, format: Literal["text", "dot"] = "text") -> str:
        """The tree of the radix index: one line a node, or a Graphviz graph.

        A node says which tokens and blocks it holds and how many of the blocks have an owner.

        Raises:
            UsageError: The index is another.
        """
        return self._core.dump(format)

    def take_events(self) -> dict[str, npt.NDArray[Any]]:
        """The ordered log since the last call, as arrays (needs ``cache.event_log``)."""
        return self._core.take_events()

    def eviction_order(self) -> npt.NDArray[np.int32]:
        """Cached blocks from the next to be evicted on, as far as the policy has settled it."""
        order: npt.NDArray[np.int32] = self._core.eviction_order()
        return order

    def check_integrity(self) -> None:
        """Recount owners, states, tree, index and tables: O(blocks).

        Raises:
            IntegrityError: Something disagrees: a defect of kvframe.
        """
        self._core.check_integrity()
