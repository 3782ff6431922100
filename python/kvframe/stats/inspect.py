"""``kv.inspect``: a look inside a manager; nothing here changes what it decides."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.arguments import is_int, shown
from kvframe.config import Resolved
from kvframe.config.rules import reusable_unit
from kvframe.config.tiers import ResolvedTier
from kvframe.errors import UsageError
from kvframe.prompts import Prompts
from kvframe.request import Request
from kvframe.results import Origin, PageRange, Span, Ticket, VisibleRange
from kvframe.stats.snapshot import SequenceState, Snapshot


class Inspect:
    """``kv.inspect``: the configuration, sequences, blocks and tickets as they are now.

    Attributes:
        resolved: The configuration, with its policies loaded.
    """

    def __init__(self, core: Core, resolved: Resolved, prompts: Prompts) -> None:
        self._core, self.resolved, self._prompts = core, resolved, prompts
        self._block_size = resolved.config.cache.block_size

    def take_tiers(self) -> tuple[ResolvedTier, ...]:
        """The tiers that are on, for what keeps them: `kvframe.tiers.Tiers`, or one of your own.

        Until it is called, the log warns when the first request comes, as nothing keeps them.
        """
        self._prompts.unkept = ()
        return self.resolved.tiers

    def snapshot(self) -> Snapshot:
        """Everything the manager holds at one instant, copied. O(blocks).

        Large pools are copied detached from the interpreter.
        """
        return Snapshot.of(self._core.snapshot(), self._block_size)

    def explain_sequence(self, seq: int) -> str:
        """A live sequence in words.

        Raises:
            HandleError: It is not live.
        """
        return SequenceState.of(self._core.sequence_snapshot(seq)).explain()

    def explain_block(self, block: int) -> str:
        """A block in words: its state, its owners, and when it may be evicted.

        Raises:
            UsageError: The pool has no such block.
        """
        return self.snapshot().explain_block(block)

    def dump(self, form: Literal["text", "dot"] = "text") -> str:
        """The tree of the radix index as text: one line a node, or a Graphviz graph.

        A node says which tokens and blocks it holds, and how many of the blocks have an owner.

        Raises:
            UsageError: The index is not ``radix``, or the form is unknown.
        """
        return self._core.dump(form)

    def eviction_order(self, most: int | None = None) -> npt.NDArray[np.int32]:
        """Cached blocks (int32), the next to be evicted first, as far as the policy has decided.

        Args:
            most: So many, or all if None. It takes as long as these are, not as the pool.

        Raises:
            UsageError: ``most`` is no whole number of 0 or more.
        """
        if most is None:
            every: npt.NDArray[np.int32] = self._core.eviction_order()
            return every
        if not is_int(most) or not 0 <= most < 1 << 32:
            raise UsageError(f"most = {shown(most)}: must be a whole number, 0 or more")
        first: npt.NDArray[np.int32] = self._core.eviction_order(most)
        return first

    def options(self) -> dict[str, Any]:
        """The options as they reached the core, and ``padding``: unused bytes of a page, by group.

        A page has room for the largest block of all groups.
        """
        on_error = self.resolved.config.eviction.on_error
        return {**self._core.options(), "on_error": on_error, "padding": self.resolved.padding}

    @property
    def reusable_unit(self) -> int:
        """Tokens that the length of a prefix hit is a multiple of: what all groups can serve."""
        return reusable_unit(self.resolved.config)

    def running(self) -> npt.NDArray[np.uint64]:
        """Handles of all running sequences, uint64."""
        handles: npt.NDArray[np.uint64] = self._core.running()
        return handles

    def tickets(self) -> list[Ticket]:
        """Tickets that are not settled, in the order in which they were given out."""
        return [Ticket(*row) for row in self._core.tickets()]

    def num_readable_tokens(self, seq: int) -> int:
        """Leading tokens that may be read: committed, and not still being loaded or joined."""
        return self._core.num_readable_tokens(seq)

    def stored_request(self, request: Request) -> Request:
        """The request as the cache knows it: itself, unless a prefix matcher rewrites prompts.

        Its prompt is what the model computes, and what the keys and lengths of blocks go by.
        """
        return self._prompts.rewritten([request])[0]

    def origin(self, request: Request | int) -> Origin:
        """The salt, adapter, session and tenant of a request, or of a running sequence's."""
        if isinstance(request, Request):
            stored = self.stored_request(request)
            salt, adapter, session, tenant, public = stored.origin()
            as_stored = stored.rewritten
        else:
            salt, adapter, session, tenant, public = self._core.origin(request)
            as_stored = True
        name = self._prompts.salt_of(salt) if as_stored else salt.decode()
        return Origin(name, adapter.decode(), session, tenant.decode(), public)

    @property
    def weight_version(self) -> str:
        """The version of the weights: ``cache.weight_version``, or what was set since."""
        return self._core.weight_version().decode()

    def is_current(self, seq: int) -> bool:
        """Whether a sequence was computed with the present weights, and no reset of its own salt,
        adapter or session came since (`KVCacheManager.reset_prefix_cache`). If not, no copy of its
        blocks may outlive it.
        """
        return self._core.is_current(seq)

    def visible_range(self, seq: int, group: int = 0) -> VisibleRange:
        """Which tokens the next token of a sequence attends to in a group, and which to mask.

        Tokens keep their absolute positions, whatever blocks were given up (for ``sink_window``:
        StreamingLLM, Xiao et al., 2023).
        """
        visible, masked, blocks = self._core.visible_range(seq, group)
        return VisibleRange([*map(Span._make, visible)], [*map(Span._make, masked)], blocks)

    def pages(self, seq: int, start: int, stop: int, group: int = 0) -> PageRange:
        """The pages of a group that hold the computed tokens ``start`` to ``stop`` (exclusive).

        In a ``cross`` group, tokens are those of the encoder's input.

        Raises:
            UsageError: Some of them are not computed, or have left the group's window.
        """
        return PageRange(*self._core.pages(seq, start, stop, group))

    def __repr__(self) -> str:
        policy, running = self.resolved.eviction.name, len(self._core.running())
        return f"Inspect({policy}; {running} running, {len(self._core.tickets())} tickets open)"
