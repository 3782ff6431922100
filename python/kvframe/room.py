"""Room: pressure, who gives way, and a pool that changes: a part of `kvframe.KVCacheManager`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kvframe._core import Manager as Core
from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.request import Handles, Request
from kvframe.results import Pressure, Victim

PreemptionRule = Literal[
    "fewest-computed",
    "last-admitted",
    "lowest-priority",
    "longest-first",
    "lru",
    "lfu-aged",
    "most-freed",
]
"""Which running sequence gives way first: see `Room.preemption_order`."""

PressureCallback = Callable[[Pressure, Pressure], object]


class Room:
    """How scarce room is in a manager, and what is done about it."""

    _core: Core

    def usage(self) -> float:
        """The share of blocks in use, 0 to 1; cached ones are not in use."""
        return self._core.pressure()[0]

    def pressure(self) -> Pressure:
        """The pressure level, by the marks of ``[pressure]``, with hysteresis.

        It moves after each call that changed the use; asking does not move it.
        """
        return Pressure(self._core.pressure()[1])

    def add_pressure_callback(self, callback: PressureCallback) -> None:
        """Call ``callback(before, after)`` each time the pressure level has changed.

        It is called once the call that changed the level has done all its work, outside every lock:
        it may call the manager, and add and remove callbacks. Changes are told in order, one that a
        callback causes after the one at hand. What a callback raises goes to
        ``sys.unraisablehook``, as the call has succeeded.
        """
        if not callable(callback):
            raise UsageError(f"callback = {shown(callback)}: must be callable")
        self._core.add_pressure_callback(callback)

    def remove_pressure_callback(self, callback: PressureCallback) -> int:
        """Take a callback off again; how often it had been added."""
        return self._core.remove_pressure_callback(callback)

    def preemption_order(
        self,
        seqs: Handles,
        rule: PreemptionRule = "fewest-computed",
        *,
        usage: float | None = None,
    ) -> list[Victim]:
        """Running sequences in the order to preempt them, without those that would free nothing.

        Args:
            seqs: Those that may be preempted; the others are safe.
            rule: Who goes first. ``lru`` goes by the last commit or `touch`, ``lfu-aged`` by how
                often it was touched, where a touch counts half after 4,096 ticks; ``most-freed`` by
                the blocks that nobody else holds, given those that went before. Of equals the last
                admitted, by recency the first.
            usage: Only the first of them that bring `usage` down to this share, 0 to 1. Each then
                frees what it does once those before it have ended.

        Raises:
            UsageError: A sequence is named twice, or a value is out of range.
        """
        return [Victim(*row) for row in self._core.preemption_order(seqs, rule, usage)]

    def preempt_to(
        self, usage: float, seqs: Handles, rule: PreemptionRule = "fewest-computed"
    ) -> list[Request]:
        """Preempt the sequences that `preemption_order` names to bring `usage` down to a share.

        Nobody is preempted whose end frees nothing. What they leave cached does not count as used.
        Who has ended by when it is their turn (a pressure callback may release sequences, and so
        may another thread) is passed over.

        Returns:
            What brings each of them back, in the order in which they went.

        Raises:
            UsageError: As `preemption_order`; nobody was preempted.
            PolicyError: Or an interrupt, in an admission policy in Python. Who went before is gone:
                the exception's ``preempted`` brings them back.
        """
        try:
            preempted = self._core.preempt_to(seqs, rule, usage)
        except BaseException as error:
            if (left := error.__dict__.get("preempted")) is not None:
                error.__dict__["preempted"] = [*map(Request.of_core, left)]
            raise
        return [*map(Request.of_core, preempted)]

    def touch(self, seqs: Handles) -> None:
        """Sequences were read or scheduled, in this order: what ``lru`` and ``lfu-aged`` go by.

        Raises:
            HandleError: One of them is unknown; none was touched.
        """
        self._core.touch(seqs)

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
