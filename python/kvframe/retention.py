"""What stays how long: retention priorities of requests, pins with an owner and a lease.

Eviction takes blocks of the lowest retention priority that may die, whatever the policy says of
them; the policy ranks those of the same priority. Time is the caller's: `KVCacheManager.expire`
tells it, and durations and leases are in the same unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kvframe._core import Manager as Core
from kvframe.errors import UsageError
from kvframe.request import Extra, TokenIds, space
from kvframe.results import Answer, Pin, Pinned, Priority, Taken

DEFAULT_PRIORITY = 35
"""The priority of blocks nobody asked anything for, as in TensorRT-LLM."""

MAX_PRIORITY = 100
"""The highest priority."""

_RETAINED, _DEMOTED = 80, 20
"""What hints give where they do not say."""

_FOREVER = 2**64
_LAST = 2**32 - 1

_KeepTuple = tuple[int, int | None, int, bool]


@dataclass(frozen=True, slots=True)
class Keep:
    """A retention priority, and for how long (TensorRT-LLM's ``KvCacheRetentionConfig``).

    Attributes:
        priority: 0 to 100; 35 is what blocks have that nobody asked anything for.
        duration: From when its sequence gives a block up, in the unit of `KVCacheManager.expire`;
            None: for ever. Hits by others do not prolong it.
        then: The priority once the duration is over; 0 makes it a time to live.
        decay: Whether it falls at the end of the duration (``step``), or evenly over it.

    Raises:
        UsageError: A priority over 100, a negative duration, an unknown decay.
    """

    priority: int
    duration: int | None = None
    then: int = DEFAULT_PRIORITY
    decay: Literal["step", "linear"] = "step"

    def __post_init__(self) -> None:
        for name in ("priority", "then"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value <= MAX_PRIORITY:
                raise UsageError(f"{name} = {value!r}: must be an integer from 0 to {MAX_PRIORITY}")
        duration = self.duration
        if duration is not None and not (isinstance(duration, int) and 0 <= duration < _FOREVER):
            raise UsageError(f"duration = {duration!r}: must be an integer from 0 on, or None")
        if self.decay not in ("step", "linear"):
            raise UsageError(f'decay = {self.decay!r}: must be "step" or "linear"')

    def of_core(self) -> _KeepTuple:
        """As the core takes it."""
        return self.priority, self.duration, self.then, self.decay == "linear"


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Prompt tokens ``start`` to ``end`` (exclusive; None: all from there on) and how to keep them.

    Raises:
        UsageError: The range is empty or out of range.
    """

    start: int
    end: int | None
    keep: Keep

    def __post_init__(self) -> None:
        end = _LAST if self.end is None else self.end
        if not (isinstance(self.start, int) and isinstance(end, int) and 0 <= self.start < end):
            raise UsageError(
                f"range [{self.start!r}, {self.end!r}): must be 0 <= start < end, or end None"
            )
        if end > _LAST:
            raise UsageError(f"range end = {end}: must be at most {_LAST}")


@dataclass(frozen=True, slots=True)
class Retention:
    """How important the blocks of a request are: ``Request(..., retention=...)``.

    It takes effect as the request gives its blocks up. A block has the strongest of what is asked
    for any of its tokens. Blocks that the request found or shares keep what they have if that is
    stronger; those it computed itself may also get less than the default, until somebody uses them
    who asks for more, or for nothing, which is the default.

    Attributes:
        ranges: Of the prompt. They may overlap; the strongest counts.
        decode: For what is decoded.
    """

    ranges: Iterable[TokenRange] = ()
    decode: Keep | None = None

    def of_core(self) -> tuple[list[tuple[int, int, _KeepTuple]], _KeepTuple | None]:
        """As the core takes it."""
        ranges = [
            (r.start, _LAST if r.end is None else r.end, r.keep.of_core()) for r in self.ranges
        ]
        return ranges, None if self.decode is None else self.decode.of_core()


class RetentionVerbs:
    """A part of `KVCacheManager`."""

    _core: Core

    def pin(
        self,
        prompt: TokenIds,
        *,
        salt: str = "",
        adapter: str = "",
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
            extras: As in `Request`.
            owner: Any name: `pins` and `owners` tell it.
            lease: How long, in the unit of `expire`, which then ends it; None: until `unpin`.

        Returns:
            The receipt, or None if nothing of the prompt is cached. It is `Pin.clipped` if
            ``retention.pin_cap`` lets pins hold only its front.

        Raises:
            CapacityError: Pins hold as much as they may already, and this would hold more.
        """
        held = self._core.pin(prompt, **space(salt, adapter, extras), owner=owner, lease=lease)
        return None if held is None else Pin(*held)

    def unpin(self, pin: Pin) -> None:
        """End a `pin`; it takes the receipt once.

        Raises:
            HandleError: The receipt was never given out, was handed back before, or names another
                block than the one it was given for.
        """
        self._core.unpin(pin.receipt, pin.block)

    def unpin_all(self, owner: str | None = None) -> int:
        """End the pins of an owner, or all of them; how many."""
        return self._core.unpin_all(owner)

    def pins(self, owner: str | None = None) -> list[Pinned]:
        """What is pinned, by an owner or by all: who holds what until when."""
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
        if hint not in ("pin", "retain", "release", "demote"):
            raise UsageError(f"hint = {hint!r}: must be pin, retain, release or demote")
        if keep is not None and hint not in ("retain", "demote"):
            raise UsageError(f"keep = {keep}: goes with retain and demote, not with {hint}")
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
