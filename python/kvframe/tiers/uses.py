"""How often requests used which pages, and which requests those are: what admission goes by."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np

from kvframe.flat import UNKNOWN, Access
from kvframe.request import Request
from kvframe.tiers.gate import COMPUTED, USED, Gate
from kvframe.tiers.tier_index import Keys

REMEMBERED = 1 << 16
"""Requests known by their sequence, and keys whose uses are counted."""


class Uses:
    """Counts of uses by key, and what is known of the request of each sequence.

    Args:
        gates: The admission policies of all tiers.
    """

    def __init__(self, gates: Iterable[Gate]) -> None:
        self._gates = [gate for gate in gates if gate.counts_uses]
        self._counts: OrderedDict[bytes, int] = OrderedDict()
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
        if not self._gates:
            return
        for key in keys[:found]:
            name = key.tobytes()
            self._counts[name] = self._counts.pop(name, 1) + 1
        while len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    def admitted(
        self, gate: Gate, keys: Keys, start: int, occasion: int | None, use: Access
    ) -> int:
        """How many pages of a prefix, from a place on, a policy lets in.

        ``occasion``: by default `USED` if the first of them was used before, else `COMPUTED`.
        """
        names = [key.tobytes() for key in keys[start:]] if gate.counts_uses else []
        uses = np.zeros(len(keys) - start, np.uint32)
        uses[: len(names)] = [self._counts.get(name, 0) for name in names]
        if occasion is None:
            occasion = USED if len(uses) and uses[0] else COMPUTED
        return gate.takes(keys, start, uses, occasion, use)


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
