"""What stays how long: pins with an owner and a lease, hints on sessions, how important a block is.

Time is the caller's: `KVCacheManager.expire` tells it, and durations and leases are in its unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kvframe._core import Manager as Core
from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.matched import Matched
from kvframe.request import Extra, TokenIds, name_bytes
from kvframe.results import Answer, Pin, Pinned, Priority, Taken
from kvframe.retention import Keep

_RETAINED, _DEMOTED = 80, 20
"""What hints give where they do not say."""


class RetentionVerbs(Matched):
    """A part of `KVCacheManager`."""

    _core: Core

    def pin(
        self,
        prompt: TokenIds,
        *,
        salt: str = "",
        adapter: str = "",
        encoder: bytes = b"",
        extras: Iterable[Extra] = (),
        owner: str = "",
        lease: int | None = None,
    ) -> Pin | None:
        """Keep what is cached of a prompt from eviction, in whole blocks, until `unpin`.

        Counts no hit. After `clear_cache` or `set_fingerprint` nobody finds it any more; its blocks
        are free once it is unpinned.

        Args:
            prompt: Token ids.
            salt: As in `Request`.
            adapter: As in `Request`.
            encoder: As in `Request`; the blocks of that input are not kept.
            extras: As in `Request`.
            owner: Any name: `pins` and `owners` tell it.
            lease: How long, in the unit of `expire`, which then ends it; None: until `unpin`.

        Returns:
            The receipt, or None if nothing of the prompt is cached. It is `Pin.clipped` if
            ``retention.pin_cap`` lets pins hold only its front.

        Raises:
            CapacityError: Pins hold as much as they may already, and this would hold more.
        """
        name_bytes("owner", owner)
        tokens, apart = self._stored_as(prompt, salt, adapter, extras, encoder)
        held = self._core.pin(tokens, **apart, owner=owner, lease=lease)
        return None if held is None else Pin(*held)

    def unpin(self, pin: Pin) -> None:
        """End a `pin`; it takes the receipt once.

        Raises:
            HandleError: The receipt was never given out, was handed back before, or names another
                block than the one it was given for.
        """
        if not isinstance(pin, Pin):
            raise UsageError(f"pin = {shown(pin)}: must be the receipt that pin() gave")
        self._core.unpin(pin.receipt, pin.block)

    def unpin_all(self, owner: str | None = None) -> int:
        """End the pins of an owner, or all of them; how many."""
        if owner is not None:
            name_bytes("owner", owner)
        return self._core.unpin_all(owner)

    def pins(self, owner: str | None = None) -> list[Pinned]:
        """What is pinned, by an owner or by all: who holds what until when."""
        if owner is not None:
            name_bytes("owner", owner)
        return [
            Pinned(Pin(receipt, block, tokens, tokens), of, until, blocks)
            for receipt, block, tokens, of, until, blocks in self._core.pins(owner)
        ]

    def hint(
        self,
        session: int,
        hint: Literal["pin", "retain", "release", "demote"],
        *,
        keep: Keep | None = None,
        owner: str = "",
        lease: int | None = None,
    ) -> Answer:
        """Say what will become of a session (``Request.session``); the answer says what came of it.

        A session has the blocks that no other session's request used, from when its request has
        given them up. Needs ``retention.sessions``.

        Args:
            session: Its number.
            hint: ``pin``: keep its blocks and what they follow from eviction. ``retain``: give its
                blocks a priority, and what they follow at least that. ``release``: it is over; pins
                that hints made for it end, and its blocks are the first to die (priority 0); what
                others use too stays as it is. ``demote``: it pauses; its blocks get a lower
                priority.
            keep: For ``retain``, `Keep(80)` if None; its priority for ``demote``, 20 if None.
            owner: Of a pin.
            lease: Of a pin.

        Returns:
            `Answer.taken` is one of

            - ``accepted``: done;
            - ``clipped``: pinned from the front, as far as ``retention.pin_cap`` lets pins hold;
            - ``deferred``: requests of the session run. What it has given up is done, and all is
              once they have ended; a pin of nothing yet is not made later;
            - ``refused``: pins hold as much as they may, or no books are kept of sessions;
            - ``missing``: the session has nothing.

        Raises:
            UsageError: An unknown hint, or an argument that does not go with it.
        """
        if not isinstance(hint, str) or hint not in ("pin", "retain", "release", "demote"):
            raise UsageError(f"hint = {shown(hint)}: must be pin, retain, release or demote")
        if keep is not None:
            if not isinstance(keep, Keep):
                raise UsageError(f"keep = {shown(keep)}: must be a Keep")
            if hint not in ("retain", "demote"):
                raise UsageError(f"keep = {keep}: goes with retain and demote, not with {hint}")
        name_bytes("owner", owner)
        if hint == "pin":
            taken, blocks, pin = self._core.pin_session(session, owner, lease)
            return Answer(Taken(taken), blocks, None if pin is None else Pin(*pin))
        if owner or lease is not None:
            raise UsageError(f"owner and lease: go with pin, not with {hint}")
        keep = keep or Keep(_RETAINED if hint == "retain" else _DEMOTED)
        taken, blocks = self._core.hint(session, hint, keep.of_core())
        return Answer(Taken(taken), blocks, None)

    def block_priority(self, block: int) -> Priority:
        """A block's retention priority now, and when it changes by itself."""
        return Priority(*self._core.block_priority(block))
