"""How often requests used which pages, and which requests those are: what admission goes by."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable

from kvframe._core import PageUses
from kvframe.flat import UNKNOWN, Access
from kvframe.request import Request
from kvframe.tiers.gate import Gate
from kvframe.tiers.tier_index import Keys

REMEMBERED = 1 << 16
"""Requests known by their sequence."""


class Uses:
    """Counts of uses by key, and what is known of the request of each sequence.

    Args:
        gates: The admission policies of all tiers.
        tenant_of: The number of the tenant of a prefix: each has counts of its own.
    """

    def __init__(self, gates: Iterable[Gate], tenant_of: Callable[[Keys], int]) -> None:
        self._gates = [gate for gate in gates if gate.counts_uses]
        self._counts: defaultdict[int, PageUses] = defaultdict(PageUses)
        self._tenant_of = tenant_of
        self._requests: OrderedDict[int, Access] = OrderedDict()

    def begin(self, seq: int, use: Access) -> None:
        """A sequence begins for a request."""
        self._requests[seq] = use
        if len(self._requests) > REMEMBERED:
            self._requests.popitem(last=False)

    def of(self, seq: int) -> Access:
        """What is known of a sequence's request."""
        return self._requests.get(seq, UNKNOWN)

    def count(self, keys: Keys, found: int) -> None:
        """Count a request's uses: it found its first ``found`` pages, and computes the others."""
        for gate in self._gates:
            gate.seen(keys)
        if self._gates:
            self._counts[self._tenant_of(keys)].count(keys[:found])

    def admitted(
        self, gate: Gate, keys: Keys, start: int, occasion: int | None, use: Access
    ) -> int:
        """How many pages of a prefix, from a place on, a policy lets in, as `Gate.takes` has it."""
        return gate.takes(keys, start, self._counts[self._tenant_of(keys)], occasion, use)


def access_of(request: Request) -> Access:
    """What is known of a request."""
    next_use = request.next_use
    return Access(
        session=request.session,
        turn=request.turn,
        request_class=request.request_class,
        priority=request.priority,
        tokens=len(request),
        next_use=[] if next_use is None else next_use.tolist(),
    )
