"""Verbs of prefixes: read, attached to, shared with computations in flight; tickets that lapse."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.results import Changes, Expired, Owners, Pages, Remap, Ticket, Usage


class SharingVerbs:
    """A part of `KVCacheManager`."""

    _core: Core

    # --- reading ------------------------------------------------------------------------------

    def readable(self, seq: int) -> int:
        """Tokens that may be read: committed, and not still loaded or computed by another."""
        return self._core.readable(seq)

    def pages(self, seq: int, start: int, stop: int, group: int = 0) -> Pages:
        """The pages of a group that hold the computed tokens ``start`` to ``stop`` (exclusive).

        Of a group that attends to another input, its tokens.

        Raises:
            UsageError: Some of them are not computed, or left the group's window.
        """
        return Pages(*self._core.pages(seq, start, stop, group))

    def unkeyed_blocks(self, seq: int) -> list[npt.NDArray[np.int32]]:
        """The blocks that nobody can find, in each layer group by place: one array a group.

        They are not full, not computed or not to be shared. What a disaggregated prefill brings
        goes into these; the others hold their KV already (vLLM:
        ``get_unhashed_block_ids_all_groups``). What left a window is not among them.
        """
        return self._core.unkeyed(seq)

    def request_usage(self, seq: int) -> Usage:
        """What a running request cost so far; ask before it is released."""
        return Usage(*self._core.usage_of(seq))

    def take_changes(self) -> Changes:
        """What single verbs changed besides their own sequence, since the last call.

        `KVCacheManager.step` gives the same as ``rewound`` and ``remapped``.
        """
        rewound, remapped = self._core.take_changes()
        return Changes(rewound, [Remap(*entry) for entry in remapped])

    # --- extras of exact prefixes -------------------------------------------------------------

    def attach(self, seq: int, handle: int, *, upto: int | None = None) -> int | None:
        """Attach a handle to exactly the first ``upto`` tokens (last logits, a hidden state).

        `Hit.attached` and `Grant.attached` say it for a prompt of exactly these tokens, salt,
        adapter and items. It dies with the last full block of the tokens: `take_dropped`.

        Args:
            seq: A running sequence that has computed the tokens.
            handle: Any number of 64 bits; what it stands for is the caller's.
            upto: All that is computed if None.

        Returns:
            The handle that it replaces, or None.

        Raises:
            UsageError: No findable full block carries it, or ``upto`` is not computed.
        """
        if upto is None:
            upto = self._core.lengths(seq)[2]
        return self._core.attach(seq, upto, handle)

    def take_dropped(self) -> list[int]:
        """Handles whose prefix is gone since the last call: what they stand for can go too."""
        return self._core.take_dropped()

    # --- tickets ------------------------------------------------------------------------------

    def set_deadline(self, ticket: int, deadline: int) -> None:
        """Let a load, lease or copy lapse where its end may never be told.

        Args:
            ticket: An outstanding ticket.
            deadline: By whatever clock `expire` is called with: steps, seconds. Nobody may write
                or read its pages from then on.

        Raises:
            HandleError: The ticket is unknown or settled.
        """
        self._core.set_deadline(ticket, deadline)

    def expire(self, now: int) -> Expired:
        """It is ``now``: settle what has lapsed. Leases end, loads and copies have failed.

        Pins end with their leases, and retention priorities are what they are by then; durations
        count from the time told last. Time never goes back: an earlier one changes nothing of that.
        """
        return Expired(*self._core.expire(now))

    def tickets(self) -> list[Ticket]:
        """Tickets given out and not settled, in the order they were given out."""
        return [Ticket(*row) for row in self._core.tickets()]

    def owners(self, block: int) -> Owners:
        """Who holds a block. Looks through every table: for questions, not for each step."""
        return Owners(*self._core.owners(block))
