"""Which requests start now, as an admission policy in Python says."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import HeldError, PolicyError, Reason, Request
from kvframe.policies import BatchedAdmission

from .gates import gated, gates

A = list(range(12))


class OneAtATime(BatchedAdmission):
    """Long prompts wait while anything runs."""

    reasons = ("something runs", "the session sleeps")

    def start(self, requests: Any, out: Any) -> None:
        out[(requests.tokens > 8) & (requests.running > 0)] = 1
        out[requests.sessions == 13] = 2

    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        out[:] = 1


def test_a_policy_says_who_starts() -> None:
    kv = gated("one", known=gates("one", lambda _: OneAtATime()))
    first = kv.allocate([*A, 7])
    with pytest.raises(HeldError, match=r"one \(kvframe-test 3.2.1\) lets it wait: something runs"):
        kv.allocate([*A, 8])
    stepped = kv.step(allocate=[[1, 2], [*A, 8], [3, 4]])
    assert [grant is not None for grant in stepped.allocations] == [True, False, False]
    assert stepped.reasons.tolist() == [Reason.GRANTED, Reason.HELD, Reason.NOT_TRIED]
    ((kind, place, error),) = stepped.refused
    assert (kind, place, type(error)) == ("allocate", 1, HeldError)
    asleep = Request([5, 6], session=13)
    stepped = kv.step(allocate=[asleep, [*A, 8], [3, 4]], skip_refused=True)
    assert [grant is not None for grant in stepped.allocations] == [False, False, True]
    assert stepped.reasons.tolist() == [Reason.HELD, Reason.HELD, Reason.GRANTED]
    assert [place for _, place, _ in stepped.refused] == [0, 1]
    kv.check_integrity()
    for seq in kv.inspect.running():
        kv.release(int(seq))
    assert kv.allocate([*A, 8]).cached_tokens == 0
    assert first.seq not in kv.inspect.running()


@pytest.mark.parametrize("reasons", ["busy", None, (3,)])
def test_reasons_that_are_no_texts_are_refused_at_once(reasons: Any) -> None:
    wrong = type("Wrong", (OneAtATime,), {"reasons": reasons})
    with pytest.raises(PolicyError, match=r"reasons = .*: must be a tuple of strings"):
        gated("wrong", known=gates("wrong", lambda _: wrong()))


def test_a_session_is_any_number_of_64_bits() -> None:
    """As a hash of a conversation's name is."""
    kv = gated("one", known=gates("one", lambda _: OneAtATime()))
    for session in (2**63, 2**64 - 1):
        kv.allocate([1, 2], session=session, priority=-5)
    asked = [Request([*A, 8], session=2**64 - 1), Request([1, 2], session=2**63)]
    stepped = kv.step(allocate=asked, skip_refused=True)
    assert stepped.reasons.tolist() == [Reason.HELD, Reason.GRANTED]


@pytest.mark.parametrize("number", [-1, 3])
def test_a_reason_that_is_none_is_a_failure(number: int) -> None:
    class Wrong(OneAtATime):
        def start(self, requests: Any, out: Any) -> None:
            out[:] = number

    kv = gated("wrong", known=gates("wrong", lambda _: Wrong()))
    with pytest.raises(PolicyError, match=rf"start: out\[0\] = {number}: must be 0, or the number"):
        kv.allocate([1, 2])
    assert kv.counts().free == 16
    name = f"wrong-{abs(number)}-{kv.inspect.options()['index']}"
    kv = gated(name, known=gates(name, lambda _: Wrong()), on_error="fallback")
    with pytest.warns(RuntimeWarning, match="every request may start"):
        kv.allocate([1, 2])
