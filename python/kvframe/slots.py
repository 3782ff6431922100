"""Fixed slots: every sequence has all of its KV in one contiguous piece."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe._core import Slots as _Slots
from kvframe.config import Resolved
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.flat import UNKNOWN, Access, resolve, row_of
from kvframe.renamed import CACHE, Renamed
from kvframe.request import (
    Handles,
    TokenIds,
    name_bytes,
    one_session,
    owner_name,
    receipt_of,
    space,
)
from kvframe.results import NO_COPIES, CopyPlan


class SlotAllocation(NamedTuple):
    """What an admission to a `SlotCache` gave.

    Attributes:
        seq: The sequence's handle; never the same again, even after its slot is reused.
        slot: Its slot, from 0 on.
        version: How many sequences have had the slot, this one included.
        cached_tokens: Prompt tokens that need not be computed; at least the last one has to be.
        copied_from: The slot from which the next `SlotCache.take_plan` copies them; None if they
            are in the slot already, or there are none.
    """

    seq: int
    slot: int
    version: int
    cached_tokens: int
    copied_from: int | None


class Slot(NamedTuple):
    """The state of a slot.

    Attributes:
        version: How many sequences have had it.
        state: "empty", "cached" (idle, and its tokens can be found), "live" (a sequence runs in it)
            or "copying" (idle, while a copy from it or into it is in flight).
        known: Tokens of its sequence.
        committed: Those of them that are computed and accepted.
        found: Those of them that others can find.
        pins: Pins that hold some of them.
    """

    version: int
    state: str
    known: int
    committed: int
    found: int
    pins: int = 0


class SlotPin(NamedTuple):
    """A receipt of `SlotCache.pin`.

    Attributes:
        receipt: Its number.
        slot: The slot that it keeps from being given up.
        tokens: Leading tokens of that slot that it holds.
    """

    receipt: int
    slot: int
    tokens: int


class SlotPinInfo(NamedTuple):
    """A pin that is held.

    Attributes:
        pin: Its receipt.
        owner: Who holds it.
    """

    pin: SlotPin
    owner: str


class SlotCache(metaclass=Renamed, old=CACHE):
    """Slots of a fixed length, for engines that keep a sequence's KV in one piece.

    llama.cpp and CTranslate2 do so; engines with paged attention want `KVCacheManager`. What a slot
    holds stays known when its sequence ends. If everything that an idle slot holds is a prefix of a
    prompt, the prompt continues there. Otherwise it gets the lowest empty slot, or the one that the
    policy gives up, and the longest prefix that any slot holds is copied there: the copy is in the
    next plan. Prefixes are known token by token, so what is overwritten is not found any more.
    Several threads may share a cache. A call that is refused has changed nothing.

    Args:
        slots: How many there are.
        length: Tokens that each holds.
        least_copy: The shortest prefix, in tokens, that is worth a copy.
        policy: Which cached slot is given up: the name of an eviction policy, or a configuration
            whose ``[eviction]`` is used. To a policy each slot is one block without a prefix.
        weight_version: Names the model's weights.

    Raises:
        UsageError: A number is below 1.
        PluginError, PolicyError: The policy cannot be found, or not be made.
    """

    def __init__(
        self,
        slots: int,
        length: int,
        *,
        least_copy: int = 1,
        policy: str | Resolved = "lru",
        weight_version: str = "",
    ) -> None:
        resolved = policy if isinstance(policy, Resolved) else resolve(policy)
        chosen = resolved.eviction
        terms = Terms.of(resolved.config.eviction, chosen.options, length)
        self._policy, self._length = chosen.name, length
        self._core = _Slots(
            slots=slots,
            length=length,
            least_copy=least_copy,
            fingerprint=name_bytes("weight_version", weight_version),
            policy=driver(chosen.loaded, terms) or chosen.name,
            policy_options=chosen.values,
        )

    # --- a request's life -----------------------------------------------------------------------

    def lookup(self, prompt: TokenIds, *, cache_salt: str = "", lora_name: str = "") -> int:
        """Leading tokens of a prompt that some slot holds, never its last. Changes nothing."""
        return self._core.lookup(prompt, *_space(cache_salt, lora_name))

    def allocate(
        self, prompt: TokenIds, *, cache_salt: str = "", lora_name: str = "", use: Access = UNKNOWN
    ) -> SlotAllocation:
        """Give a prompt a slot. Its tokens past ``cached_tokens`` are to be computed.

        Args:
            prompt: Token ids.
            cache_salt: Prefixes are shared only among prompts of the same salt.
            lora_name: As ``cache_salt``, for LoRA and other adapters. Whatever else the KV depends
                on, such as images, goes into the salt.
            use: What the policy may know of the request.

        Raises:
            CapacityError: Every slot has a sequence, a pin or a copy in flight.
            NeverFitsError: The prompt is longer than a slot.
            UsageError: The prompt is empty.
        """
        apart = _space(cache_salt, lora_name)
        seq, cached, source = self._core.allocate(prompt, *apart, row_of(use))
        return SlotAllocation(seq, seq & 0xFFFFFFFF, seq >> 32, cached, source)

    def append(self, seq: int, tokens: TokenIds) -> None:
        """Append tokens to a sequence, which are to be computed.

        Raises:
            NeverFitsError: The slot ends before them.
            HandleError: The sequence has ended, or never was.
        """
        self._core.append(seq, tokens)

    def commit(self, seq: int, upto: int) -> None:
        """Say that the first ``upto`` tokens are computed and accepted: others may find them."""
        self._core.commit(seq, upto)

    def advance(self, seqs: Handles, tokens: TokenIds) -> None:
        """Do a decode step in one call: commit all tokens of each sequence, and append one.

        Args:
            seqs: Sequences, each once.
            tokens: One token id for each.

        Raises:
            NeverFitsError, HandleError: As `append`; none has changed.
            UsageError: A sequence is named twice, or the lists differ in length; none has changed.
        """
        self._core.advance(seqs, tokens)

    def truncate(self, seq: int, length: int) -> None:
        """Cut a sequence to its first ``length`` tokens, as when drafts are not accepted.

        Raises:
            UsageError: It is shorter, or a copy that is not settled, or a pin, needs more of it.
        """
        self._core.truncate(seq, length)

    def release(self, seq: int) -> None:
        """End a sequence. Its committed tokens can be found until the slot is given up."""
        self._core.release(seq)

    # --- copies ---------------------------------------------------------------------------------

    def take_plan(self) -> CopyPlan:
        """The copies to make before the next write; false if there are none.

        `CopyPlan.copies` has source slot, destination slot, tokens and 0. Until its ticket comes
        back, neither slot is given to anyone, and what the copy brings is not found.
        """
        plan = self._core.take_plan()
        return NO_COPIES if plan is None else CopyPlan(*plan)

    def done(self, ticket: int) -> None:
        """Say that a plan's copies are queued on the stream of every later writer."""
        self._core.done(ticket)

    def failed(self, ticket: int) -> list[int]:
        """Say that a plan's copies failed; returns the sequences that have nothing computed now."""
        return self._core.failed(ticket)

    # --- pins -----------------------------------------------------------------------------------

    def pin(
        self, prompt: TokenIds, *, cache_salt: str = "", lora_name: str = "", owner: str = ""
    ) -> SlotPin | None:
        """Keep the longest prefix of ``prompt`` that some slot holds; None if no slot holds any.

        That slot is not given up until `unpin`, and its pinned tokens are not overwritten: a prompt
        that begins with all that an idle slot holds may still continue there. `reset_prefix_cache`
        and `set_weight_version` forget pinned tokens as well; the pin then keeps nothing.

        Args:
            prompt: Token ids.
            cache_salt: As for `allocate`.
            lora_name: As for `allocate`.
            owner: Any name, for `pins` and `unpin_all`.
        """
        name_bytes("owner", owner)
        held = self._core.pin(prompt, *_space(cache_salt, lora_name), owner)
        return None if held is None else SlotPin(*held)

    def unpin(self, pin: SlotPin) -> None:
        """End a `pin`, by its receipt, once.

        Raises:
            HandleError: The receipt was never given out, was handed back before, or names a slot
                other than the one it was given for.
        """
        self._core.unpin(*receipt_of(pin, SlotPin))

    def unpin_all(self, owner: str | None = None) -> int:
        """End the pins of an owner, or all pins if None; returns how many."""
        return self._core.unpin_all(owner_name(owner))

    def pins(self, owner: str | None = None) -> list[SlotPinInfo]:
        """The pins of an owner, or all pins if None."""
        return [
            SlotPinInfo(SlotPin(receipt, slot, tokens), of)
            for receipt, slot, tokens, of in self._core.pins(owner_name(owner))
        ]

    # --- all of it ------------------------------------------------------------------------------

    def reset_prefix_cache(
        self,
        *,
        lora_name: str | None = None,
        cache_salt: str | None = None,
        session: int | str | None = None,
    ) -> int:
        """Forget what is cached, or what of it all of the given applies to.

        Running sequences of what is forgotten keep their slots, and leave nothing to be found. Pins
        of forgotten tokens keep nothing.

        Args:
            lora_name: What was computed under this adapter; "" for what was computed without one.
            cache_salt: What was computed under this salt; "" for what was computed without one.
            session: Tokens that requests of this session alone have used, by ``Access.session``.

        Returns:
            Cached slots that are empty now. A slot whose first tokens another session used keeps
            those.
        """
        cleared: int = self._core.clear(
            None if cache_salt is None else name_bytes("cache_salt", cache_salt),
            None if lora_name is None else name_bytes("lora_name", lora_name),
            one_session(session),
        )
        return cleared

    def set_weight_version(self, version: str) -> int:
        """Say that the weights have changed: as `reset_prefix_cache`, under other weights."""
        return self._core.set_weight_version(name_bytes("version", version))

    def slots(self) -> list[Slot]:
        """Every slot, from 0 on."""
        return [Slot(*row) for row in self._core.rows()]

    def eviction_order(self) -> npt.NDArray[np.int32]:
        """Cached slots (int32), the next to be given up first, as far as the policy has decided."""
        order: npt.NDArray[np.int32] = self._core.eviction_order()
        return order

    def stats(self) -> dict[str, int]:
        """Counters: sequences, tokens asked for and found, copies, slots and tokens given up."""
        return {**self._core.stats(), "policy_failures": self._core.failures()}

    def check_integrity(self) -> None:
        """Recount slots, copies and what is found: O(tokens).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self._core.check_integrity()

    def __repr__(self) -> str:
        slots = self.slots()
        states = (sum(slot.state == state for slot in slots) for state in _STATES)
        counted = ", ".join(f"{n} {state}" for n, state in zip(states, _STATES, strict=True) if n)
        return f"SlotCache({self._policy}, {len(slots)} slots of {self._length} tokens: {counted})"


_STATES = ("empty", "cached", "live", "copying")


def _space(cache_salt: str, lora_name: str) -> tuple[Any, Any]:
    names = space(cache_salt, lora_name, ())
    return names["salt"], names["adapter"]
