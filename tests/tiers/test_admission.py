"""Admission policies of the pool, asked for the tiers below: built-in ones and one in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kvframe
from kvframe import ConfigError
from kvframe.config import TierAdmissionConfig
from kvframe.policies import Arrivals, BatchedAdmission

from .helpers import REGISTRY, Engine, Shelf, below, host, text

ASKED: list[tuple[str, str, list[int]]] = []


class Shallow(BatchedAdmission):
    """Two blocks of each prompt on disk, all on the host; a depth of 9 is too much for it."""

    columns = ("depth", "uses", "session")

    def __init__(self, options: object) -> None:
        self.broken = False

    def admit(self, blocks: Arrivals, tier: str, out: npt.NDArray[np.uint8]) -> None:
        ASKED.append((tier, blocks.occasion, blocks["depth"].tolist()))
        if (blocks["depth"] > 8).any():
            raise ValueError("too deep")
        if tier == "disk":
            out[:] = blocks["depth"] < 2


class Holder:
    @kvframe.hookimpl
    def kvframe_admission(self) -> Iterator[kvframe.AdmissionPolicy]:
        yield kvframe.AdmissionPolicy(
            name="shallow", way="batched", summary="a test's", make=Shallow
        )


REGISTRY.register(Holder(), "shallow")


@pytest.mark.filterwarnings("ignore:.*too deep")
def test_a_policy_in_python_is_asked_for_each_tier() -> None:
    ASKED.clear()
    made = Engine(
        [host(admission="shallow"), below(admission="shallow")], stores=[Shelf()], blocks=32
    )
    made.run(text(1, 17))
    assert made.tiers.lookup(text(1, 17)).tiers == {"host": 16, "below": 8}
    assert ASKED == [("host", "computed", [0, 1, 2, 3]), ("disk", "computed", [0, 1, 2, 3])]
    # It raises: everything is kept, and the engine goes on.
    made.run(text(2, 45))
    assert made.tiers.lookup(text(2, 45)).tiers == {"host": 44, "below": 44}


@pytest.mark.scenario("U-8")
@pytest.mark.parametrize(
    ("policy", "options", "stored"),
    [
        ("write-through", {}, [8, 8, 8]),
        ("always", {}, [8, 8, 8]),
        ("second-use", {}, [0, 8, 8]),
        ("selective", {}, [0, 8, 8]),
        ("selective", {"uses": 3}, [0, 0, 8]),
        ("write-back", {}, [0, 0, 0]),
        ("size", {"min_tokens": 99}, [0, 0, 0]),
        ("size", {"min_tokens": 9}, [8, 8, 8]),
    ],
)
def test_built_in_policies_say_when_a_page_enters(
    policy: str, options: dict[str, Any], stored: list[int]
) -> None:
    made = Engine([host(admission=TierAdmissionConfig(policy=policy, options=options))])
    found = []
    for _ in stored:
        made.run(text(1, 9))
        found.append(made.tiers.lookup(text(1, 9)).tiers["host"])
    assert found == stored


def test_a_policy_that_is_not_there_is_told() -> None:
    with pytest.raises(kvframe.PluginError, match="did you mean selective"):
        Engine([host(admission="selektive")])
    with pytest.raises(ConfigError, match=r"admission\.options\.use"):
        Engine([host(admission=TierAdmissionConfig(policy="selective", options={"use": 1}))])
