"""Sharing: what may be read of sequences, handles attached to prefixes, tickets that lapse."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.results import Changes, Expired, Owners, Pages, Remap, Ticket, Usage


class SharingVerbs:
    """The methods of `KVCacheManager` on shared prefixes, their owners and tickets."""

    _core: Core

    # --- reading ------------------------------------------------------------------------------

    def readable(self, seq: int) -> int:
        """Leading tokens that may be read: committed, and not still being loaded or joined."""
        return self._core.readable(seq)

    def pages(self, seq: int, start: int, stop: int, group: int = 0) -> Pages:
        """The pages of a group that hold the computed tokens ``start`` to ``stop`` (exclusive).

        In a ``cross`` group, tokens are those of the encoder's input.

        Raises:
            UsageError: Some of them are not computed, or have left the group's window.
        """
        return Pages(*self._core.pages(seq, start, stop, group))

    def unkeyed_blocks(self, seq: int) -> list[npt.NDArray[np.int32]]:
        """The blocks of a sequence that nobody can find, in table order: an int32 array a group.

        They are not full, not computed or not to be shared. KV that a disaggregated prefill sends
        goes into these; the others hold their KV already (vLLM:
        ``get_unhashed_block_ids_all_groups``). Blocks that left a window are not among them.
        """
        return self._core.unkeyed(seq)

    def rematch(self, seq: int, *, fence: int | None = None) -> int:
        """Look up again a sequence that has computed nothing yet, and take what is cached by now.

        Its fresh blocks give way to the cached ones, which its tables show from then on. What is
        found counts with its admission. Nothing changes where no more whole blocks are found than
        it has, while it waits for a load or a joined computation, if another joined its own, and
        while a fork has shared blocks of it behind what is found.

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

    def request_usage(self, seq: int) -> Usage:
        """What a running request cost so far; ask before it is released."""
        return Usage(*self._core.usage_of(seq))

    def take_changes(self) -> Changes:
        """What calls have changed besides their own sequence, since this was asked last.

        `KVCacheManager.step` returns the same as ``rewound`` and ``remapped``.
        """
        rewound, remapped = self._core.take_changes()
        return Changes(rewound, [Remap(*entry) for entry in remapped])

    # --- extras of exact prefixes -------------------------------------------------------------

    def attach(self, seq: int, handle: int, *, upto: int | None = None) -> int | None:
        """Attach a handle to exactly the first ``upto`` tokens (for last logits, a hidden state).

        `Hit.attached` and `Grant.attached` return it for a prompt of exactly these tokens, salt,
        adapter and items. It is dropped with the last full block of the tokens: `take_dropped`.
        Where they fill no block, none of them needs to be cached: it is dropped with `clear_cache`,
        or once as many such prefixes as the pool has blocks have been attached to after it.

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

    def take_dropped(self) -> list[int]:
        """Handles whose prefix has gone since the last call; what they stand for can go too."""
        return self._core.take_dropped()

    # --- tickets ------------------------------------------------------------------------------

    def set_deadline(self, ticket: int, deadline: int) -> None:
        """Let a load, lease or copy lapse if nobody settles its ticket in time.

        Args:
            ticket: An outstanding ticket.
            deadline: In the unit of `expire` (steps, seconds). From then on nobody may write or
                read its pages under this ticket.

        Raises:
            HandleError: The ticket is unknown or settled.
        """
        self._core.set_deadline(ticket, deadline)

    def expire(self, now: int) -> Expired:
        """Set the time to ``now`` and settle what has lapsed by then.

        Leases past their deadline end; loads and copies past theirs have failed. Pins end with
        their leases, and retention priorities change as they were asked to. Durations count from
        the time that was set last. Time never goes back: an earlier ``now`` is ignored there.
        """
        return Expired(*self._core.expire(now))

    def tickets(self) -> list[Ticket]:
        """Tickets that are not settled, in the order in which they were given out."""
        return [Ticket(*row) for row in self._core.tickets()]

    def owners(self, block: int) -> Owners:
        """Who holds a block. Looks through every table, so do not call it in every step."""
        return Owners(*self._core.owners(block))
