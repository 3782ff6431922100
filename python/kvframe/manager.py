"""`KVCacheManager`: the object an engine holds.

It makes the decisions and never touches KV bytes: it says which blocks hold what, and which copies
to make before the next write. Token ids, block tables and slot mappings are NumPy buffers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.arguments import shown
from kvframe.config import Config, Resolved
from kvframe.config.rules import core_table, reusable_unit
from kvframe.errors import UsageError
from kvframe.matched import Matched, check_index
from kvframe.observe import Observed
from kvframe.policies.driver import driver
from kvframe.policies.gate import AdmissionDriver, gate_of
from kvframe.policies.match import MatchDriver, matcher_of
from kvframe.registry import Registry
from kvframe.request import Extra, Request, TokenIds, name_bytes, one_session
from kvframe.results import Committed, Counts, Lengths, Plan, Sight, Span
from kvframe.retain import RetentionVerbs
from kvframe.room import Room
from kvframe.sharing import SharingVerbs
from kvframe.steps import Steps
from kvframe.tables import Tables


def _core_of(
    resolved: Resolved, gate: AdmissionDriver | str, matcher: MatchDriver | None
) -> _core.Manager:
    """The core's manager, with what it calls of policies outside of it."""
    config, chosen = resolved.config, resolved.eviction
    table, size = config.eviction, config.cache.block_size
    asked = driver(chosen.loaded, chosen.options, table.window, size, table.budget_ms)
    return _core.Manager(
        core_table(config, resolved.capacity_blocks),
        policy=asked or chosen.name,
        policy_options=chosen.values,
        strict=table.on_error == "raise",
        admission=gate,
        admission_options=resolved.admission.values,
        admission_strict=config.admission.on_error == "raise",
        matched=matcher is not None,
        mirrored=matcher is not None and matcher.is_index,
    )


class KVCacheManager(Steps, Tables, Room, RetentionVerbs, SharingVerbs, Observed, Matched):
    """Blocks, prefixes and sequences of one KV cache, under one eviction policy.

    Its methods, by purpose:

    - build one: `from_toml`, `options`, `reusable_unit`
    - ask about prompts, and admit them: `lookup`, `fits`, `admit`, `rematch`,
      `hash_blocks`
    - run a whole scheduler step in one call: `step`
    - or sequence by sequence: `extend`, `append`, `commit`, `truncate`, `fork`, `release`
    - take slots before tokens are known: `reserve`, `append_unknown`, `fill`
    - tell kernels where KV is: `block_table`, `block_tables`, `ragged_tables`, `slot_mapping`,
      `seq_lens`, `live`, `sight`, `readable`, `pages`
    - carry out copies and loads: `take_plan`, `done`, `failed`, `loaded`, `lease`, `tickets`,
      `set_deadline`, `expire`
    - make room: `usage`, `pressure`, `add_pressure_callback`, `remove_pressure_callback`, `touch`,
      `preemption_order`, `preempt`, `preempt_to`, `collect`, `resize`, `sleep`, `wake`
    - keep some blocks longer: `pin`, `unpin`, `unpin_all`, `pins`, `hint`, `block_priority`
    - forget: `clear_cache`, `set_fingerprint`
    - work block by block: `lend`, `give_back`, `owners`, `unkeyed_blocks`, `take_changes`
    - attach something of your own to a prefix: `attach`, `take_dropped`
    - count: `counts`, `lengths`, `stats`, `reset_peak`, `hit_rates`, `prefix_stats`,
      `request_usage`
    - look inside: `miss`, `misses`, `residency`, `take_events`, `take_log`, `snapshot`, `dump`,
      `explain_sequence`, `explain_block`, `eviction_order`, `check_integrity`

    Args:
        config: The configuration; all defaults if None. A `Resolved` is used as it is.

    Raises:
        ConfigError: A value of the configuration is wrong, or does not go with another.
        PluginError: A policy that it names is not found, blocked or broken.

    Every method may be called from several threads. A call that is refused has changed nothing.
    Methods that take a handle raise `HandleError` if it is unknown or has ended; those that give
    blocks or slots raise `CapacityError` if there is no room for all of them now, and
    `NeverFitsError` if there can never be.
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
        admission, prefix = config.config.admission, config.config.prefix
        self.block_size = size = config.config.cache.block_size
        strict = admission.on_error == "raise"
        gate = gate_of(
            config.admission.loaded, config.admission.options, size, admission.budget_ms, strict
        )
        self._gate = gate if isinstance(gate, AdmissionDriver) else None
        strict = prefix.on_error == "raise"
        self._matcher = matcher_of(
            config.prefix.loaded, config.prefix.options, size, strict, prefix.budget_ms
        )
        check_index(self._matcher, config.config)
        self._core = _core_of(config, gate, self._matcher)

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
            **sections: Values to change, by section: ``cache={"capacity": 1024}``.

        Raises:
            ConfigError: The file cannot be read, or a value is wrong.
            PluginError: A policy is not found, blocked or broken.
        """
        return cls(Resolved.load(path, registry=registry, **sections))

    def options(self) -> dict[str, Any]:
        """The options as they reached the core, and ``padding``: unused bytes of a page, by group.

        A page has room for the largest block of all groups.
        """
        return {**self._core.options(), "padding": self.resolved.padding}

    @property
    def reusable_unit(self) -> int:
        """Tokens that the length of a prefix hit is a multiple of: what all groups can serve."""
        return reusable_unit(self.resolved.config)

    # --- a request's life ---------------------------------------------------------------------

    def append(self, seq: int, tokens: TokenIds) -> None:
        """Append tokens to a sequence, and get slots for them (decode, speculation).

        Copies to make before writing there are in the next `take_plan`.

        Raises:
            CapacityError: There is no room for all of them now.
            NeverFitsError: There could not be if the sequence were alone and all of it committed.
            UsageError: They go past the ``max_tokens`` of its request.
        """
        self._core.append(seq, tokens)

    def extend(self, seq: int, until: int) -> None:
        """Get slots for known prompt tokens up to the length ``until`` (chunked prefill).

        All of them or none. A sequence that is alone in the pool always gets as many as the
        ``chunk`` of its request, once those before them are committed.

        Raises:
            CapacityError: There is no room for all of them now.
            NeverFitsError: There could not be if the sequence were alone and all of it committed.
        """
        self._core.extend(seq, until)

    def reserve(self, seq: int, until: int) -> None:
        """Get slots up to a length, for known tokens (as `extend`) and unknown ones after them.

        For engines that take whole blocks ahead, and for speculative lookahead. `truncate` gives
        back what is not used. It raises as `append` does.
        """
        self._core.reserve(seq, until)

    def append_unknown(self, seq: int, count: int = 1) -> None:
        """Get slots for tokens whose ids are still being computed (asynchronous scheduling).

        `fill` supplies the ids; until then these tokens cannot be committed.
        """
        self._core.append_unknown(seq, count)

    def fill(self, seq: int, tokens: TokenIds) -> None:
        """Supply the ids of the first tokens that were appended without ids."""
        self._core.fill(seq, tokens)

    def commit(self, seq: int, upto: int) -> Committed:
        """Say that the first ``upto`` tokens are computed and accepted.

        Full blocks become findable. Blocks that no later token attends to are given up.

        Raises:
            UsageError: ``upto`` is more than has slots, or less than was committed before.
        """
        return Committed(*self._core.commit(seq, upto))

    def sight(self, seq: int, group: int = 0) -> Sight:
        """Which tokens the next token of a sequence attends to in a group, and which to mask.

        Tokens keep their absolute positions, whatever blocks were given up (for ``sink_window``:
        StreamingLLM, Xiao et al., 2023).
        """
        visible, masked, blocks = self._core.sight(seq, group)
        return Sight([*map(Span._make, visible)], [*map(Span._make, masked)], blocks)

    def truncate(self, seq: int, length: int) -> None:
        """Cut a sequence to its first ``length`` tokens, as when drafts are not accepted."""
        self._core.truncate(seq, length)

    def fork(self, seq: int, *, upto: int | None = None, copy: bool = False) -> int:
        """Make a second sequence over the same blocks (beam search); returns its handle.

        The first of the two to get slots in the shared last block gets a copy of it. Slots that
        were given before the fork and are not computed yet are shared, and kvframe does not see
        writes there: `truncate` to what is computed first. A ``state`` or ``sink_window`` group
        requires that.

        Args:
            seq: A running sequence.
            upto: Share only its first ``upto`` computed tokens, and know no others.
            copy: With ``upto``, copy a partial last block now, not before the first write; the
                copy is in the next `take_plan`.

        Raises:
            UsageError: ``upto`` is beyond what is computed, or a window has moved on.
        """
        if not isinstance(copy, bool | np.bool_):
            raise UsageError(f"copy = {shown(copy)}: must be True or False")
        if upto is None:
            if copy:
                raise UsageError("copy = True: needs upto, the tokens to share")
            return self._core.fork(seq)
        return self._core.fork_prefix(seq, upto, copy=bool(copy))

    def preempt(self, seq: int, *, fence: int | None = None) -> Request:
        """End a running sequence for now; returns the request that brings it back.

        The request has all tokens known of the sequence, and the ``chunk`` and ``max_tokens`` that
        it came with; ``until`` and ``partial`` belonged to the first try. It fits wherever the
        sequence fitted: where layer groups give blocks up and the pool could not hold what was
        decoded in such steps, its ``chunk`` is the largest that the pool can hold. What was
        computed stays cached as long as there is room, so coming back may cost little; not for a
        request with ``read=False``, which finds nothing this time either. With a ``fence``, the
        blocks make room only once that step has passed, as in `step`.
        """
        return Request.of_core(self._core.preempt(seq, fence))

    def release(self, seq: int, *, fence: int | None = None) -> None:
        """End a sequence. Its findable blocks stay cached until they are evicted.

        Args:
            seq: The sequence.
            fence: Number of the last step in flight that may touch its blocks; they wait until
                that step has passed (`step`).
        """
        self._core.release(seq, fence)

    # --- copies, loads and leases -------------------------------------------------------------

    def take_plan(self) -> Plan | None:
        """The copies to make that were gathered since the last plan, or None."""
        plan = self._core.take_plan()
        return None if plan is None else Plan(*plan)

    def done(self, ticket: int) -> None:
        """Say that a plan's copies are queued on the stream of every later writer.

        Also settles a load that came whole, and ends a `lease`.
        """
        self._core.done(ticket)

    def failed(self, ticket: int) -> list[int]:
        """Say that a plan's copies, or a load, failed.

        Returns:
            The sequences that were cut to their last good block.
        """
        return self._core.failed(ticket)

    def loaded(self, ticket: int, blocks: int | Sequence[int]) -> list[int]:
        """Say that a load (`Grant.load`) has ended, with its first ``blocks`` blocks good.

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

    def lease(self, seq: int, upto: int) -> int:
        """Keep the blocks of the first ``upto`` computed tokens for a reader elsewhere.

        They stay, whatever becomes of the sequence, until the returned ticket is given to `done`.
        """
        return self._core.lease(seq, upto)

    def hash_blocks(
        self,
        prompt: TokenIds,
        *,
        salt: str = "",
        adapter: str = "",
        encoder: bytes = b"",
        extras: Iterable[Extra] = (),
    ) -> npt.NDArray[np.uint64]:
        """Keys of a prompt's full blocks: uint64 of shape (blocks, 2), low word first.

        They are the keys under which a request for the prompt would store its blocks, after a
        prefix matcher has rewritten it. The other arguments are as in `Request`.
        """
        tokens, apart = self._stored_as(prompt, salt, adapter, extras, encoder)
        keys: npt.NDArray[np.uint64] = self._core.hash_blocks(tokens, **apart)
        return keys

    # --- raw blocks, and looking inside -------------------------------------------------------

    def lend(self, out: npt.NDArray[np.int32]) -> None:
        """Fill ``out`` with ids of blocks outside any sequence, for an engine's own use."""
        self._core.lend(out)

    def give_back(self, blocks: npt.NDArray[np.int32]) -> None:
        """Take lent blocks back.

        Raises:
            UsageError: One of them is not on loan (a double free); none is taken back.
        """
        self._core.give_back(blocks)

    def clear_cache(
        self,
        *,
        adapter: str | None = None,
        salt: str | None = None,
        session: int | str | None = None,
    ) -> int:
        """Forget every cached block, or those that all of the given applies to.

        A running sequence of what is forgotten keeps its blocks and leaves nothing to be found.
        A block that its owner published (`kvframe.blocks`) is of no adapter, salt or session; it is
        forgotten with the block that it follows, on whose KV its own depends.
        `kvframe.tiers.Tiers.clear_cache` forgets in lower tiers as well.

        Args:
            adapter: Blocks computed under this adapter; "" for those without one.
            salt: Blocks computed under this salt; "" for those without one.
            session: Blocks that requests of this session alone have used.

        Returns:
            Blocks that were freed; those that running sequences hold are not.
        """
        name = None if adapter is None else name_bytes("adapter", adapter)
        salts = [None] if salt is None else self._salts_of(salt)
        number = one_session(session)
        return sum(self._core.clear_cache(one, name, number) for one in salts)

    def set_fingerprint(self, fingerprint: str) -> int:
        """Say that the weights have changed: nothing computed before is found again.

        Running sequences keep their blocks, and leave nothing to be found. Returns how many blocks
        that freed.
        """
        return self._core.set_fingerprint(name_bytes("fingerprint", fingerprint))

    def counts(self) -> Counts:
        """How many blocks are free, cached, referenced."""
        return Counts(*self._core.counts())

    def lengths(self, seq: int) -> Lengths:
        """A sequence's lengths in tokens."""
        return Lengths(*self._core.lengths(seq))

    def dump(self, form: Literal["text", "dot"] = "text") -> str:
        """The tree of the radix index as text: one line a node, or a Graphviz graph.

        A node says which tokens and blocks it holds, and how many of the blocks have an owner.

        Raises:
            UsageError: The index is not ``radix``, or the form is unknown.
        """
        return self._core.dump(form)

    def eviction_order(self) -> npt.NDArray[np.int32]:
        """Cached blocks (int32), the next to be evicted first, as far as the policy has decided."""
        order: npt.NDArray[np.int32] = self._core.eviction_order()
        return order

    def check_integrity(self) -> None:
        """Recount owners, states, tree, index and tables: O(blocks).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self._core.check_integrity()
