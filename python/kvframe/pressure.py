"""Pressure: how scarce room is in a manager, and which sequences are preempted to make some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from kvframe._core import Manager as Core
from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.prompts import Prompts
from kvframe.renamed import Room
from kvframe.request import Handles, Request
from kvframe.results import PreemptionCandidate, Pressure, WaitingCandidate

PreemptionRule = Literal[
    "fewest-computed",
    "last-admitted",
    "lowest-priority",
    "longest-first",
    "lru",
    "lfu-aged",
    "most-freed",
]
"""Which running sequence is preempted first: see `PressureRoom.preemption_order`."""

WaitingRule = Literal["longest-prefix", "fewest-uncached"]
"""Which waiting request comes in first: see `PressureRoom.waiting_order`."""

PATIENCE = 64
"""The request that has waited longest is passed over so many times at most."""

PressureCallback = Callable[[Pressure, Pressure], object]
"""Called with the level before and after a change."""


class PressureRoom(Room):
    """``kv.pressure``: how scarce room is, and what is done about it."""

    _instead = "kv.pressure.level()"

    def __init__(self, core: Core, prompts: Prompts) -> None:
        self._core = core
        self._prompts = prompts

    def usage(self) -> float:
        """The share of the pool's blocks in use, 0 to 1.

        Cached blocks do not count as in use, nor do blocks that only wait for a fence: they make
        room once the step has passed, without any further preemption.
        """
        return self._core.pressure()[0]

    def level(self) -> Pressure:
        """The pressure level, by the marks of ``[pressure]``, with hysteresis.

        It is updated after each call that changed the use; asking does not change it.
        """
        return Pressure(self._core.pressure()[1])

    def add_callback(self, callback: PressureCallback) -> None:
        """Call ``callback(before, after)`` each time the pressure level has changed.

        It runs once the call that changed the level has done all its work, outside every lock, so
        it may call the manager, and add and remove callbacks. Changes are reported in order; one
        that a callback causes comes after the present one. What a callback raises goes to
        ``sys.unraisablehook``, because the call itself has succeeded.
        """
        if not callable(callback):
            raise UsageError(f"callback = {shown(callback)}: must be callable")
        self._core.add_pressure_callback(callback)

    def remove_callback(self, callback: PressureCallback) -> int:
        """Remove a callback; returns how often it had been added."""
        return self._core.remove_pressure_callback(callback)

    def preemption_order(
        self,
        seqs: Handles,
        rule: PreemptionRule = "fewest-computed",
        *,
        usage: float | None = None,
    ) -> list[PreemptionCandidate]:
        """Running sequences in the order to preempt them, without those that would free nothing.

        Args:
            seqs: Those that may be preempted; all others are safe.
            rule: Which goes first. ``lru`` goes by the last commit or `touch`; ``lfu-aged`` by how
                often a sequence was touched, where a touch counts half after 4,096 ticks;
                ``most-freed`` by the blocks that it alone holds, given those that went before,
                which is what `PreemptionCandidate.frees` counts then. Owners that wait for a fence
                count as gone. Among equals the last admitted goes first; under ``lru`` the first
                admitted, under ``lfu-aged`` the least recently used.
            usage: Only as many as bring `usage` down to this share, 0 to 1.
                `PreemptionCandidate.frees` then counts what each frees once those before it have
                ended.

        Raises:
            UsageError: A sequence is named twice, or a value is out of range.
        """
        return [PreemptionCandidate(*row) for row in self._core.preemption_order(seqs, rule, usage)]

    def waiting_order(
        self,
        requests: Sequence[Request],
        rule: WaitingRule = "fewest-uncached",
        *,
        passed: int = 0,
    ) -> list[WaitingCandidate]:
        """Waiting requests in the order to allocate them, by what is cached of them now.

        Each is looked up, which takes O(blocks of its prompt): name the first hundred or so of a
        long queue. Ask again after each allocation, because it changes what is cached.

        Args:
            requests: In the order of arrival, which stays among equals.
            rule: Which comes in first: the one with most tokens cached, or with the fewest left to
                compute.
            passed: How often the first of ``requests`` was passed over. Once it is `PATIENCE`
                times, that request comes first whatever the rule says, so that none starves.

        Raises:
            UsageError: An unknown rule, or something that is no `Request`.
        """
        if rule not in get_args(WaitingRule):
            known = " or ".join(get_args(WaitingRule))
            raise UsageError(f"rule = {shown(rule)}: must be {known}")
        if not is_int(passed) or passed < 0:
            raise UsageError(f"passed = {shown(passed)}: must be an integer of at least 0")
        found = [self._waiting(place, request) for place, request in enumerate(requests)]
        if rule == "longest-prefix":
            order = sorted(found, key=lambda one: -one.cached)
        else:
            order = sorted(found, key=lambda one: one.uncached)
        if passed >= PATIENCE:
            order.sort(key=lambda one: one.place > 0)
        return order

    def _waiting(self, place: int, request: Request) -> WaitingCandidate:
        if not isinstance(request, Request):
            raise UsageError(f"requests[{place}] = {shown(request)}: must be a Request")
        cached = self._prompts.found(request, "", "", b"", ()).tokens
        return WaitingCandidate(place, cached, request.num_tokens - cached)

    def preempt_to(
        self,
        usage: float,
        seqs: Handles,
        rule: PreemptionRule = "fewest-computed",
        *,
        fence: int | None = None,
    ) -> list[Request]:
        """Preempt the sequences that `preemption_order` names to bring `usage` down to a share.

        A sequence whose end would free nothing is not preempted. Blocks that stay cached do not
        count as in use. A sequence that has ended before its turn (a pressure callback or another
        thread may release it) is passed over.

        Args:
            usage: The share, 0 to 1.
            seqs: As for `preemption_order`.
            rule: As there.
            fence: Number of the last step in flight that may touch their blocks, as in `preempt`:
                the blocks count as out of use at once, and make room once that step has passed.

        Returns:
            The request that brings each of them back, in the order in which they were preempted.

        Raises:
            UsageError: As for `preemption_order`; nothing was preempted.
            PolicyError: From an admission policy in Python, as may be an interrupt. The exception's
                ``preempted`` has the requests that bring back what was preempted before it.
        """
        return self._core.preempt_to(seqs, rule, usage, fence)

    def touch(self, seqs: Handles) -> None:
        """Note that sequences were read or scheduled, in this order, for ``lru`` and ``lfu-aged``.

        Raises:
            HandleError: One of them is unknown; none was touched.
        """
        self._core.touch(seqs)

    def __repr__(self) -> str:
        return f"PressureRoom({self.level().name}, {self.usage():.1%} of the blocks in use)"
