"""Fixed slots: every sequence has all of its KV in one contiguous piece."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe._core import Slots as _Slots
from kvframe.config import Resolved
from kvframe.policies.driver import driver
from kvframe.policies.tier import UNKNOWN, Use, resolve, row_of
from kvframe.request import Handles, TokenIds, name_bytes, space
from kvframe.results import Plan


class SlotGrant(NamedTuple):
    """What an admission to a `SlotCache` gave.

    Attributes:
        seq: The sequence's handle; never the same again, even after its slot is reused.
        slot: Its slot, from 0 on.
        version: How many sequences have had the slot, this one included.
        cached_tokens: Prompt tokens that need not be computed. At least the last one has to be.
        copied_from: The slot that they are copied from by the next `SlotCache.take_plan`; None
            where they are in the slot already, or there are none.
    """

    seq: int
    slot: int
    version: int
    cached_tokens: int
    copied_from: int | None


class Slot(NamedTuple):
    """A slot, for people to read.

    Attributes:
        version: How many sequences have had it.
        state: "empty", "cached" (nobody's, and found), "live" (a sequence runs in it) or "copying"
            (nobody's, while a copy out of it or into it goes on).
        known: Tokens of its sequence.
        committed: Of those, computed and accepted.
        found: Of those, found by others.
    """

    version: int
    state: str
    known: int
    committed: int
    found: int


class SlotCache:
    """Slots of a fixed length, for engines that keep a sequence's KV in one piece.

    llama.cpp and CTranslate2 do; engines with paged attention want `KVCacheManager`. What a slot
    holds stays known when its sequence ends. A prompt goes on in a slot nobody runs in whose tokens
    it begins with. Else it gets the lowest empty slot, or the one that the policy gives up, and the
    longest prefix that any slot holds is copied there: the copy is in the next plan. Prefixes are
    known token by token, so what is overwritten is not found any more. Threads may share a cache.

    Args:
        slots: How many there are.
        length: Tokens that each holds.
        least_copy: The shortest prefix that is worth a copy.
        policy: Which cached slot is given up: the name of an eviction policy, or a configuration
            whose ``[policy]`` is used. To a policy each slot is one block without a prefix.
        fingerprint: The weights'.

    Raises:
        UsageError: A number is below 1.
        PluginError, PolicyError: The policy cannot be had, or not made.
    """

    def __init__(
        self,
        slots: int,
        length: int,
        *,
        least_copy: int = 1,
        policy: str | Resolved = "lru",
        fingerprint: str = "",
    ) -> None:
        resolved = policy if isinstance(policy, Resolved) else resolve(policy)
        config = resolved.config.policy
        self._core = _Slots(
            slots=slots,
            length=length,
            least_copy=least_copy,
            fingerprint=name_bytes("fingerprint", fingerprint),
            policy=driver(
                resolved.policy, resolved.options, config.window, length, config.budget_ms
            )
            or resolved.policy.descriptor.name,
            policy_options=resolved.policy_options,
            strict=config.on_error == "raise",
        )

    # --- a request's life -----------------------------------------------------------------------

    def lookup(self, prompt: TokenIds, *, salt: str = "", adapter: str = "") -> int:
        """Leading tokens of a prompt that some slot holds, its last apart. Changes nothing."""
        found: int = self._core.lookup(prompt, *_space(salt, adapter))
        return found

    def admit(
        self, prompt: TokenIds, *, salt: str = "", adapter: str = "", use: Use = UNKNOWN
    ) -> SlotGrant:
        """A slot for a prompt, all of which is known and none past ``cached_tokens`` computed.

        Args:
            prompt: Token ids.
            salt: Prefixes are shared within one salt only.
            adapter: As ``salt``, for LoRA and other adapters. What else the KV depends on, as
                images do, goes into the salt.
            use: What the policy may know of the request.

        Raises:
            CapacityError: Every slot has a sequence or a copy under way. Nothing has changed.
            NeverFitsError: The prompt is longer than a slot.
            UsageError: The prompt is empty.
        """
        seq, cached, source = self._core.admit(prompt, *_space(salt, adapter), row_of(use))
        return SlotGrant(seq, seq & 0xFFFFFFFF, seq >> 32, cached, source)

    def append(self, seq: int, tokens: TokenIds) -> None:
        """More tokens of a sequence, not computed yet.

        Raises:
            NeverFitsError: The slot ends before them.
            HandleError: The sequence has ended, or never was.
        """
        self._core.append(seq, tokens)

    def commit(self, seq: int, upto: int) -> None:
        """The first ``upto`` tokens are computed and accepted: others find them from now on."""
        self._core.commit(seq, upto)

    def advance(self, seqs: Handles, tokens: TokenIds) -> None:
        """A decode step in one call: of each sequence, all is computed, and a token comes behind.

        Raises:
            NeverFitsError, HandleError, UsageError: As `append`, or a sequence is named twice; then
                none has changed.
        """
        self._core.advance(seqs, tokens)

    def truncate(self, seq: int, length: int) -> None:
        """Cut a sequence, as when drafts are not accepted.

        Raises:
            UsageError: It is not that long, or a copy that is not settled reads past there.
        """
        self._core.truncate(seq, length)

    def release(self, seq: int) -> None:
        """End a sequence. What is committed of it is found until its slot is given up."""
        self._core.release(seq)

    # --- copies ---------------------------------------------------------------------------------

    def take_plan(self) -> Plan | None:
        """The copies to make before the next write: source slot, destination slot, tokens, 0.

        Until its ticket is back, neither slot is given to anybody, and what the copy brings is not
        found.
        """
        plan = self._core.take_plan()
        return None if plan is None else Plan(*plan)

    def done(self, ticket: int) -> None:
        """The copies of a plan are queued on the stream of every later writer."""
        self._core.done(ticket)

    def failed(self, ticket: int) -> list[int]:
        """The copies of a plan failed: the sequences that have nothing computed any more."""
        rewound: list[int] = self._core.failed(ticket)
        return rewound

    # --- all of it ------------------------------------------------------------------------------

    def clear_cache(self) -> int:
        """Forget what is cached; what runs keeps its slot and leaves nothing. Slots emptied."""
        cleared: int = self._core.clear()
        return cleared

    def set_fingerprint(self, fingerprint: str) -> int:
        """The weights have changed: as `clear_cache`."""
        cleared: int = self._core.set_fingerprint(name_bytes("fingerprint", fingerprint))
        return cleared

    def slots(self) -> list[Slot]:
        """Every slot, from 0 on."""
        return [Slot(*row) for row in self._core.rows()]

    def eviction_order(self) -> npt.NDArray[np.int32]:
        """Cached slots from the next to be given up on, as far as the policy has settled it."""
        order: npt.NDArray[np.int32] = self._core.eviction_order()
        return order

    def stats(self) -> dict[str, int]:
        """Counters: sequences, tokens asked for and found, copies, slots and tokens given up."""
        return {**self._core.stats(), "policy_failures": self._core.failures()}

    def check_integrity(self) -> None:
        """Recount slots, copies and what is found: O(tokens).

        Raises:
            IntegrityError: Something disagrees: a defect of kvframe.
        """
        self._core.check_integrity()


def _space(salt: str, adapter: str) -> tuple[Any, Any]:
    names = space(salt, adapter, ())
    return names["salt"], names["adapter"]
