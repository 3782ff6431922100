"""The oracle's random calls on a manager, and what its log says of them."""

from __future__ import annotations

from kvframe.stats import EventLog

from ..oracle.dice import Dice
from ..oracle.machine import Setup
from ..oracle.rules_all import WEIGHTS, AllRules


class Walk:
    """One call after another, each checked against the model.

    Args:
        setup: How the manager is built.
        seed: What chooses.
    """

    def __init__(self, setup: Setup, seed: str) -> None:
        self.machine = AllRules(setup, Dice.seeded(seed))
        self.kv = self.machine.manager

    def one(self) -> EventLog:
        """One rule; what was logged since the last."""
        machine, start = self.machine, len(self.machine.logs)
        getattr(machine, machine.dice.pick(RULES))()
        return EventLog.joined([*machine.logs[start:], self.kv.log.take()])


RULES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
