"""Columns as float64, for policies that ask for them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from kvframe.policies import BatchedEviction, Candidates
from kvframe.policies.batched import COLUMNS
from kvframe.testing.spy import Watch, spied

from .helpers import cached, manager, registry

NAMES = {"block", "parent", "session", "tenant", "request_class", "key"}
Seen = list[dict[str, npt.NDArray[Any]]]


class Integers(BatchedEviction):
    """Keeps copies of what it is offered."""

    columns = tuple(COLUMNS)
    window: ClassVar[int | None] = 3

    def __init__(self) -> None:
        self.seen: Seen = []
        self.frozen = True

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        self.seen.append({name: candidates[name].copy() for name in self.columns})
        self.frozen &= not any(candidates[name].flags.writeable for name in self.columns)
        np.subtract(candidates["last_use"], candidates["depth"], out=out)
        out.flags.writeable = False


class Floats(Integers):
    floats = True


def offers(policy: BatchedEviction, seen: Seen) -> Seen:
    """What it saw while a cache of 8 blocks took prompts of up to four."""
    kv = manager(policy="mine", known=registry("mine", lambda _: policy))
    for start in (0, 100, 0, 200, 300, 0, 400):
        cached(kv, range(start, start + 17), session=2**63 + start, turn=start, priority=-start)
        kv.check_integrity()
    assert len(seen) > 2
    return seen


def test_numbers_are_the_same_as_floats_and_ids_keep_their_types() -> None:
    integers, floats = Integers(), Floats()
    pairs = zip(offers(integers, integers.seen), offers(floats, floats.seen), strict=True)
    assert integers.frozen
    assert floats.frozen
    for offer, same in pairs:
        for name, column in offer.items():
            assert column.dtype == COLUMNS[name].split(":")[0], name
            assert same[name].dtype == (column.dtype if name in NAMES else np.float64), name
            np.testing.assert_array_equal(same[name], column)


@pytest.mark.parametrize("kind", [Integers, Floats])
def test_the_conformance_kit_offers_what_the_core_does(kind: type[Integers]) -> None:
    policy, alone = kind(), kind()
    offers(spied(policy, Watch()), policy.seen)
    offers(alone, alone.seen)
    for offer, same in zip(policy.seen, alone.seen, strict=True):
        assert {n: c.dtype for n, c in offer.items()} == {n: c.dtype for n, c in same.items()}


def test_what_a_policy_asks_for_may_depend_on_its_options() -> None:
    """Said by the object, not its class: here of another window, column and type."""
    offered = []

    class Own(BatchedEviction):
        def __init__(self) -> None:
            self.columns = ("depth",)  # type: ignore[misc]
            self.window = 2  # type: ignore[misc]
            self.floats = True  # type: ignore[misc]

        def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
            offered.append(candidates["depth"].copy())
            out[:] = 0

    kv = manager(5, policy="own", known=registry("own", lambda _: Own()))
    cached(kv, range(17))
    cached(kv, range(100, 112))
    assert [(len(depths), str(depths.dtype)) for depths in offered] == [(2, "float64")]
