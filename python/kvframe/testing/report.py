"""The findings of the kit: a verdict for each promise, in the order in which they were tried."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kvframe.spelling import nearest

Verdict = Literal["ok", "failed", "not run"]


class PromiseError(Exception):
    """A policy broke a promise: which one, and what was seen."""

    def __init__(self, promise: str, finding: str) -> None:
        super().__init__(finding)
        self.promise = promise
        self.finding = finding


@dataclass(frozen=True)
class Check:
    """One promise of a policy, and whether it was kept.

    Attributes:
        name: The promise in a word.
        promise: The promise in a sentence.
        verdict: ``ok``, ``failed``, or ``not run``: it could not be tried after what failed.
        finding: What was seen where it failed; else empty.
    """

    name: str
    promise: str
    verdict: Verdict
    finding: str = ""


@dataclass(frozen=True)
class Report:
    """Every check of one policy: iterate over it, or take one by its name, ``report["cost"]``.

    Attributes:
        policy: Its name.
        origin: The distribution it comes from, with its version.
        checks: One a promise.
        decision_us: Microseconds that a decision among 256 candidates took; None if that was not
            measured.
        of_call: Whether that is an allocation with the core's own work in it: a compiled policy is
            called without Python between, and its part cannot be told.
    """

    policy: str
    origin: str
    checks: tuple[Check, ...]
    decision_us: float | None = None
    of_call: bool = False

    @property
    def ok(self) -> bool:
        """True if every check was run and passed."""
        return all(check.verdict == "ok" for check in self.checks)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"no check {name}: there are {', '.join(c.name for c in self.checks)}")

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        return "\n".join(
            f"{check.verdict:<7}  {check.name:<{width}}  {check.finding or check.promise}"
            for check in self.checks
        )


def judged(
    promises: Mapping[str, str], passed: set[str], failed: Mapping[str, str]
) -> tuple[Check, ...]:
    """The checks of a report: ``promises`` in order, ``failed`` with their findings."""

    def verdict(name: str) -> Verdict:
        if name in failed:
            return "failed"
        return "ok" if name in passed else "not run"

    return tuple(
        Check(name, promise, verdict(name), failed.get(name, ""))
        for name, promise in promises.items()
    )


class Conformance(ABC):
    """Tests, each of which checks one promise of a policy; the report is made once per class.

    A subclass may have tests and helpers of its own.

    Raises:
        TypeError: A value of a subclass has nearly the name of a setting, such as ``option``.
    """

    _settings: ClassVar[tuple[str, ...]]
    _report: ClassVar[Report]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, value in vars(cls).items():
            if name.startswith("_") or name in cls._settings or callable(value):
                continue
            if near := nearest(name, cls._settings, cutoff=0.75):
                raise TypeError(
                    f"{cls.__name__}.{name}: the kit reads {', '.join(cls._settings)}; did you "
                    f"mean {near}? If it is your own, name it _{name}"
                )

    @classmethod
    @abstractmethod
    def _checked(cls) -> Report:
        """What the kit finds of the policy that the class names."""

    def _kept(self, promise: str) -> None:
        kind = type(self)
        if "_report" not in vars(kind):
            kind._report = kind._checked()
        check = kind._report[promise]
        assert check.verdict == "ok", f"{promise}: {check.finding or 'not run'}\n{kind._report}"
