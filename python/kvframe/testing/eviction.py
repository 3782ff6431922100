"""The conformance kit for eviction policies: as a function, and as a class of tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvframe.registry import Loaded
from kvframe.registry.descriptors import EvictionPolicy
from kvframe.testing.cost import BUDGET_US, check_cost
from kvframe.testing.report import Conformance, PromiseError, Report, judged
from kvframe.testing.subject import Subject, table_of
from kvframe.testing.trials import NEEDED, PROMISES, TRIALS


def check_policy(
    policy: str | EvictionPolicy | Loaded[EvictionPolicy],
    options: Mapping[str, Any] | None = None,
    *,
    budget_us: float = BUDGET_US,
) -> Report:
    """Put an eviction policy through every trial of the kit.

    Args:
        policy: The name of an installed policy, or an `EvictionPolicy`.
        options: Its options, as in its table of kvframe.toml; defaults if None.
        budget_us: Microseconds that a decision among 256 candidates may take.

    Returns:
        A verdict for each promise; `Report.ok` is true if all were kept.

    Raises:
        PluginError: No policy of that name, or it is blocked or broken.
        UsageError: It can only be replayed, or the options are no mapping.
    """
    subject = Subject.of(policy, table_of(options))
    passed: set[str] = set()
    failed: dict[str, str] = {}
    decision_us = None
    for promise, trial in TRIALS:
        try:
            trial(subject)
            passed.add(promise)
        except PromiseError as fault:
            failed.setdefault(fault.promise, fault.finding)
            if promise in NEEDED:
                break
    if not failed:
        try:
            decision_us = check_cost(subject, budget_us)
            passed.add("cost")
        except PromiseError as fault:
            failed.setdefault(fault.promise, fault.finding)
    loaded = subject.loaded
    origin = f"{loaded.distribution} {loaded.version}".rstrip()
    checks = judged(PROMISES, passed, failed)
    return Report(loaded.descriptor.name, origin, checks, decision_us, not subject.batched)


class EvictionConformance(Conformance):
    """The kit as tests: derive a class from it in your package, and name the policy.

    .. code-block:: python

        class TestDeepFirst(EvictionConformance):
            policy = "deep-first"
            options = {"depth_weight": 2.0}

    Attributes:
        policy: The name of an installed policy, or an `EvictionPolicy`.
        options: Its options.
        budget_us: Microseconds that a decision among 256 candidates may take.
    """

    _settings = ("policy", "options", "budget_us")

    policy: ClassVar[str | EvictionPolicy]
    options: ClassVar[Mapping[str, Any]] = {}
    budget_us: ClassVar[float] = BUDGET_US

    @classmethod
    def _checked(cls) -> Report:
        return check_policy(cls.policy, cls.options, budget_us=cls.budget_us)

    def test_options(self) -> None:
        self._kept("options")

    def test_columns(self) -> None:
        self._kept("columns")

    def test_answers(self) -> None:
        self._kept("answers")

    def test_eligible(self) -> None:
        self._kept("eligible")

    def test_inputs(self) -> None:
        self._kept("inputs")

    def test_deterministic(self) -> None:
        self._kept("deterministic")

    def test_pools(self) -> None:
        self._kept("pools")

    def test_refusals(self) -> None:
        self._kept("refusals")

    def test_windows(self) -> None:
        self._kept("windows")

    def test_cost(self) -> None:
        self._kept("cost")
