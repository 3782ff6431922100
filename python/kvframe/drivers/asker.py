"""The base of all drivers: makes a plugin's policy, times its calls, and reports its failures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.drivers.budget import Budget
from kvframe.drivers.report import Warner, failure, origin_of
from kvframe.errors import PolicyError
from kvframe.registry import Loaded
from kvframe.registry.descriptors import Descriptor
from kvframe.registry.raised import one_line

P = TypeVar("P")
T = TypeVar("T")


class Terms(msgspec.Struct, frozen=True):
    """The terms on which a policy is called: one table for every kind.

    Attributes:
        block_size: Tokens in a block.
        options: The policy's checked options; None if it takes none.
        strict: Whether its failure is an error; otherwise it is passed over, with a warning.
        budget_ms: Milliseconds that a decision in Python may take; None for no limit. A native
            policy runs inside the core, and has no budget.
        window: Candidates offered at a time in place of what the policy asks for, 0 for all.
    """

    block_size: int
    options: msgspec.Struct | None = None
    strict: bool = True
    budget_ms: float | None = None
    window: int | None = None

    @classmethod
    def of(cls, section: Any, options: msgspec.Struct | None, block_size: int) -> Terms:
        """The terms that a section gives: ``[eviction]``, ``[admission]`` or ``[prefix]``."""
        strict, window = section.on_error == "raise", getattr(section, "window", None)
        return cls(block_size, options, strict, section.budget_ms, window)


class Asker(Generic[P]):
    """Makes a policy, times its decisions, and reports its failures.

    One driver belongs to one manager or replay, as the policy object does.

    Attributes:
        base: What the policy has to be.
        instead: What is done where it fails.
        passes_over: Whether a policy that has spent its budget is passed over silently; if not,
            each further decision fails.
        budget: Times each decision; None if there is no limit.
        warner: Its warnings.

    Raises:
        PolicyError: The policy cannot be made, or is none of the kind.
    """

    base: ClassVar[type[Any]]
    instead: ClassVar[str]
    passes_over: ClassVar[bool] = True

    def __init__(self, loaded: Loaded[Any], terms: Terms) -> None:
        self.name = loaded.descriptor.name
        self.origin = origin_of(loaded)
        policy = _made(loaded, terms.options)
        if not isinstance(policy, self.base):
            package = ".".join(self.base.__module__.split(".")[:2])
            raise PolicyError(
                f"{self.origin}: make() gave a {type(policy).__name__}, "
                f"not a {package}.{self.base.__name__}"
            )
        self.policy: P = policy
        self.block_size, self.strict = terms.block_size, terms.strict
        self.warner = Warner()
        self.budget: Budget | None = None
        if terms.budget_ms is not None:
            self.budget = Budget(terms.budget_ms, self.origin, self.passes_over, self.warner)
        self.failures = 0
        self._lost: BaseException | None = None

    def refuse(self, wrong: str | None) -> None:
        """Refuse a policy whose declaration is wrong; ``wrong`` says how, or is None.

        Raises:
            PolicyError: Something is.
        """
        if wrong is not None:
            raise PolicyError(f"{self.origin}: {wrong}")

    def asked(self, decide: Callable[[], T], instead: str | None = None) -> T | None:
        """The policy's answer; None if it failed, or is no longer called."""
        if self.budget is not None and self.budget.is_spent:
            return None
        try:
            # NaN must raise an error and not be cast to an integer.
            with self.budget or nullcontext(), np.errstate(invalid="raise"):
                return decide()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.failures += 1
            told = self.failed(error, self.strict, instead)
            if self.strict:
                raise told from error
            return None

    def tell(self, what: str, state: str, tell: Callable[[], None]) -> None:
        """Deliver events. A policy that fails here has lost some of them, and is not called again.

        An interrupt is no failure.

        Args:
            what: What the events are about, for messages.
            state: What the policy has missed once it has failed.
            tell: Delivers the events.
        """
        if self._lost is not None:
            raise PolicyError(f"it failed on {what} before, {state} not whole: {self._lost}")
        try:
            tell()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._lost = error
            raise

    def failed(self, error: BaseException, strict: bool, instead: str | None = None) -> PolicyError:
        """The error of a policy that failed. Warns once if the policy is not strict."""
        told = failure(self.origin, error)
        if not strict:
            self.warner.warn("failed", f"{told}; {instead or self.instead}")
        return told


def check_filled(method: str, told: object, out: npt.NDArray[np.int64], count: int) -> None:
    """Check that a policy's answer is in ``out``, of ``count`` entries.

    Raises:
        PolicyError: It is not.
    """
    if told is not None:
        raise PolicyError(f"{method} must fill out and return None")
    if out.dtype != np.int64 or out.shape != (count,):
        raise PolicyError(f"{method} changed the type or the shape of out")


def _made(loaded: Loaded[Any], options: msgspec.Struct | None) -> object:
    descriptor: Descriptor = loaded.descriptor
    assert descriptor.make is not None
    try:
        return descriptor.make(options)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # as where a plugin is imported
        raise PolicyError(f"{origin_of(loaded)}: cannot be made: {one_line(error)}") from error
