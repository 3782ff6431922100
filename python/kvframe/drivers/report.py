"""What a policy's failure becomes: an error where it is strict, else one warning a manager."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from kvframe._core import report_unraisable
from kvframe.errors import PolicyError
from kvframe.registry import Loaded
from kvframe.registry.raised import one_line

_PACKAGE = str(Path(__file__).parents[1])


def origin_of(loaded: Loaded[Any]) -> str:
    """A policy with its package and version, or with its place, for messages."""
    package = f"{loaded.distribution} {loaded.version}".rstrip()
    return f"{loaded.descriptor.name} ({loaded.place or package})"


def failure(origin: str, error: BaseException) -> PolicyError:
    """The error of a policy that failed, on one line."""
    told = PolicyError(f"{origin}: {one_line(error)}")
    told.__cause__ = error
    return told


class Warner:
    """Warns once of each thing, because a policy may fail at every decision.

    Each driver has its own: of two managers whose policies fail, both are told of.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def warn(self, what: str, message: str) -> None:
        """Warn at the call that led here, unless ``what`` has been warned of.

        If warnings are errors, this one goes to `sys.unraisablehook`: the decision has been taken
        without the policy, so no call is left to refuse.
        """
        if what in self._told:
            return
        self._told.add(what)
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=_caller())
        except RuntimeWarning as warning:
            report_unraisable(warning, self.warn)


def _caller() -> int:
    """The stack level, for who calls this, of the nearest frame outside kvframe."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
