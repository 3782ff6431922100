"""What shadows have counted, beside what the engine itself has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

FEW_REQUESTS = 50
"""Requests before which a difference says nothing."""

MOST_DIFFERENCE = 0.01
"""Share of the prompt tokens by which the anchor may differ from the engine."""

MOST_DROPPED = 0.01
"""Share of the requests that may be lost."""


class ShadowCounts(NamedTuple):
    """The counts of one shadow. Requests count once, when they first begin.

    Attributes:
        policy: As it was named.
        capacity: Blocks of the engine.
        requests: Requests.
        query_tokens: Tokens of their prompts.
        hit_tokens: Of these, tokens that were cached here.
        found_tokens: Of these, tokens that the engine itself has found.
        equal_requests: Requests for which the two are equal.
        too_large: Requests that a pool of this size could never hold; they hit nothing.
        preemptions: Requests that this pool preempted, and the engine did not.
        evictions: Cached blocks that were evicted.
        waiting: Requests that still wait for room here.
    """

    policy: str
    capacity: int
    requests: int = 0
    query_tokens: int = 0
    hit_tokens: int = 0
    found_tokens: int = 0
    equal_requests: int = 0
    too_large: int = 0
    preemptions: int = 0
    evictions: int = 0
    waiting: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of the prompt tokens that was cached here."""
        return self.hit_tokens / max(self.query_tokens, 1)

    @property
    def found_rate(self) -> float:
        """Share of the same prompt tokens that the engine itself has found."""
        return self.found_tokens / max(self.query_tokens, 1)


@dataclass(frozen=True)
class ShadowReport:
    """What a set of shadows has counted so far.

    Attributes:
        shadows: The counts of each.
        actual: The shadow of the policy and size that the engine really runs, the anchor. Its hits
        should equal the engine's. None if it is not known.
        stride: Blocks of the engine that one block of a shadow stands for; 1 where all are
            followed.
        dropped: Requests that were lost because the shadows were too far behind.
        failure: Why the shadows run no more; None while they do.
        guides: With a stride, the policy that really runs at each size, followed in full.
    """

    shadows: Sequence[ShadowCounts]
    actual: ShadowCounts | None = None
    stride: int = 1
    dropped: int = 0
    failure: str | None = None
    guides: Sequence[ShadowCounts] = ()

    def hit_rate(self, shadow: ShadowCounts) -> float:
        """The hit rate that the engine would have had with this policy and size.

        With an anchor, this is the engine's own hit rate plus the difference between this shadow
        and the anchor. An error that both shadows share cancels out. With a stride, so does what a
        sample of the anchor's policy at this size is off.
        """
        if self.actual is None:
            return shadow.hit_rate
        estimate = shadow.hit_rate - self.difference
        for guide in self.guides:
            if guide.capacity == shadow.capacity:
                same = guide[:2]
                sampled = next(one for one in self.shadows if one[:2] == same)
                estimate += guide.hit_rate - sampled.hit_rate
        return min(max(estimate, 0.0), 1.0)

    @property
    def difference(self) -> float:
        """The anchor's hit rate less the engine's; 0 without an anchor."""
        return 0.0 if self.actual is None else self.actual.hit_rate - self.actual.found_rate

    @property
    def doubt(self) -> str | None:
        """Why these numbers are not to be trusted, in one sentence; None if they are."""
        if self.failure is not None:
            return f"the shadows have stopped: {self.failure}"
        seen = max((shadow.requests for shadow in self.shadows), default=0)
        if self.dropped > MOST_DROPPED * (seen + self.dropped):
            return f"{self.dropped} of {seen + self.dropped} requests were lost: raise the stride"
        if self.actual is None or self.actual.requests < FEW_REQUESTS:
            return None
        if abs(self.difference) <= MOST_DIFFERENCE:
            return None
        return (
            f"the shadow of what really runs, {self.actual.policy} with {self.actual.capacity} "
            f"blocks, hits {self.actual.hit_rate:.2%}, and the engine {self.actual.found_rate:.2%}"
        )
