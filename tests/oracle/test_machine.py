"""The same rules under hypothesis, which shrinks what fails to a few short calls."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ..amounts import amount
from .dice import Dice
from .policies import serving
from .rules_all import WEIGHTS, AllRules
from .test_walk import SETUPS

EXAMPLES, STEPS = amount(25, 100), 40
SHRINK = [Phase.shrink] if os.environ.get("KVFRAME_SHRINK") else []
"""Shrinking takes minutes; the walk tells the same failure's seed and calls at once."""
taken = 0


class Manager(RuleBasedStateMachine):
    """One manager, beside its model."""

    machine: AllRules

    @initialize(setup=st.sampled_from(SETUPS), policy=st.sampled_from(serving()))
    def build(self, setup: object, policy: str) -> None:
        assert isinstance(setup, type(SETUPS[0]))
        self.machine = AllRules(replace(setup, policy=policy), Dice(lambda n: 0))

    def take(self, name: str, data: st.DataObject) -> None:
        global taken
        taken += 1
        self.machine.dice = Dice(lambda n: data.draw(st.integers(0, n - 1)))
        getattr(self.machine, name)()
        self.machine.done += 1
        self.machine.check()

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self.machine.dice = Dice(lambda n: 0)
            self.machine.settle_all()


def _rule(name: str) -> Callable[..., None]:
    def act(self: Manager, data: st.DataObject) -> None:
        self.take(name, data)

    act.__name__ = name
    return rule(data=st.data())(act)


for _name in WEIGHTS:
    setattr(Manager, f"rule_{_name}", _rule(_name))


@pytest.mark.scenario("I1", "I2", "I3", "I4", "I5", "I7", "I8", "I9", "I13", "ST41")
def test_any_calls_agree_with_the_model() -> None:
    """At least half of the steps asked for are taken: examples may end early."""
    run_state_machine_as_test(
        Manager,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            phases=[Phase.explicit, Phase.generate, *SHRINK],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert taken >= EXAMPLES * STEPS // 2, taken
