"""Retention: pins with an owner and a lease, hints on sessions, priorities of blocks.

Time is the caller's: `KVCacheManager.expire_until` sets it, and durations and leases are in its
unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kvframe._core import Manager as Core
from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.prompts import Prompts
from kvframe.renamed import Room
from kvframe.request import MMItem, TokenIds, name_bytes, owner_name, receipt_of
from kvframe.results import HintResult, HintStatus, Pin, PinInfo, Priority
from kvframe.retention import Keep

_RETAINED, _DEMOTED = 80, 20
"""Priorities that hints give unless they name one."""


class Pins(Room):
    """``kv.pins``: what keeps blocks longer, or less long, than the eviction policy would."""

    _instead = "kv.pins.held(owner)"

    def __init__(self, core: Core, prompts: Prompts) -> None:
        self._core, self._prompts = core, prompts

    def pin(
        self,
        prompt: TokenIds,
        *,
        tenant: str = "",
        cache_salt: str = "",
        lora_name: str = "",
        encoder: bytes = b"",
        mm_items: Iterable[MMItem] = (),
        owner: str = "",
        lease: int | None = None,
    ) -> Pin | None:
        """Keep what is cached of a prompt from eviction, in whole blocks, until `unpin`.

        This counts as no hit. After `KVCacheManager.reset_prefix_cache` or
        `KVCacheManager.set_weight_version` the blocks are not found any more, and are free once
        they are unpinned.

        Args:
            prompt: Token ids.
            tenant: As in `Request`.
            cache_salt: As in `Request`.
            lora_name: As in `Request`.
            encoder: As in `Request`; the blocks of that input are not kept.
            mm_items: As in `Request`.
            owner: Any name; `held` and `BlockPool.owners` report it.
            lease: How long it lasts, in the unit of `KVCacheManager.expire_until`; None: until
                `unpin`.

        Returns:
            The receipt, or None if nothing of the prompt is cached. It is `Pin.clipped` if
            ``retention.pin_cap`` lets pins hold only its front.

        Raises:
            CapacityError: Pins already hold as much as they may, and this one would add to it.
        """
        name_bytes("owner", owner)
        names = cache_salt, lora_name, mm_items, encoder, tenant
        tokens, apart = self._prompts.stored_as(prompt, *names)
        held = self._core.pin(tokens, **apart, owner=owner, lease=lease)
        return None if held is None else Pin(*held)

    def unpin(self, pin: Pin) -> None:
        """End a `pin`, by its receipt, once.

        Raises:
            HandleError: The receipt was never given out, was handed back before, or names a block
                other than the one it was given for.
        """
        self._core.unpin(*receipt_of(pin, Pin))

    def unpin_all(self, owner: str | None = None) -> int:
        """End the pins of an owner, or all pins if None; returns how many."""
        return self._core.unpin_all(owner_name(owner))

    def held(self, owner: str | None = None) -> list[PinInfo]:
        """The pins of an owner, or all pins if None: who holds what, until when."""
        return [
            PinInfo(Pin(receipt, block, tokens, tokens), of, until, blocks)
            for receipt, block, tokens, of, until, blocks in self._core.pins(owner_name(owner))
        ]

    def hint(
        self,
        session: int | str,
        hint: Literal["pin", "retain", "release", "demote"],
        *,
        keep: Keep | None = None,
        owner: str = "",
        lease: int | None = None,
    ) -> HintResult:
        """Tell what will become of a session (``Request.session``).

        A session's own blocks are those that no other session's request has used, counted from
        when its request gives them up. Needs ``retention.sessions``.

        Args:
            session: Its number or name.
            hint: ``pin``: keep its blocks and what they follow from eviction. ``retain``: give its
                blocks a priority, and what they follow at least that. ``release``: it is over; pins
                that hints made for it end, and its blocks are evicted first (priority 0); blocks
                that others use too are unchanged. ``demote``: it pauses; its blocks get a lower
                priority.
            keep: For ``retain``, `Keep(80)` if None; for ``demote``, the priority, 20 if None.
            owner: Of the pin.
            lease: Of the pin.

        Returns:
            What came of it. `HintResult.status` is one of

            - ``accepted``: done;
            - ``clipped``: pinned from the front, as far as ``retention.pin_cap`` lets pins hold;
            - ``deferred``: requests of the session are running. What they have given up is done,
              and the rest will be once they have ended; a pin with nothing to hold yet is not made
              later;
            - ``refused``: pins already hold as much as they may, or ``retention.sessions`` is off;
            - ``missing``: the session has no cached block of its own.

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
            return HintResult(HintStatus(taken), blocks, None if pin is None else Pin(*pin))
        if owner or lease is not None:
            raise UsageError(f"owner and lease: go with pin, not with {hint}")
        keep = keep or Keep(_RETAINED if hint == "retain" else _DEMOTED)
        taken, blocks = self._core.hint(session, hint, keep.of_core())
        return HintResult(HintStatus(taken), blocks, None)

    def block_priority(self, block: int) -> Priority:
        """A block's retention priority now, and when it changes by itself."""
        return Priority(*self._core.block_priority(block))

    def lease(self, seq: int, upto: int) -> int:
        """Keep the blocks of the first ``upto`` computed tokens for a reader elsewhere.

        They stay, whatever becomes of the sequence, until the returned ticket is given to
        `KVCacheManager.done`.
        """
        return self._core.lease(seq, upto)

    def set_deadline(self, ticket: int, deadline: int) -> None:
        """Let a load, lease or copy lapse unless its ticket is settled in time.

        Args:
            ticket: An outstanding ticket.
            deadline: In the unit of `KVCacheManager.expire_until` (steps, seconds). From then on
                its pages may not be written or read under this ticket.

        Raises:
            HandleError: The ticket is unknown or settled.
        """
        self._core.set_deadline(ticket, deadline)

    def __repr__(self) -> str:
        held = self._core.pins(None)
        return f"Pins({len(held)} held, of {sum(pin[-1] for pin in held)} blocks)"
