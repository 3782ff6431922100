"""What a policy's failure becomes: an error where it is strict, else one warning a policy."""

from __future__ import annotations

import warnings
from typing import Any

from kvframe._core import report_unraisable
from kvframe.errors import PolicyError
from kvframe.registry import Loaded
from kvframe.registry.raised import one_line

_warned: set[str] = set()


def origin_of(loaded: Loaded[Any]) -> str:
    """A policy with its package and version, for messages."""
    package = f"{loaded.distribution} {loaded.version}".rstrip()
    return f"{loaded.descriptor.name} ({package})"


def failure(origin: str, error: BaseException, strict: bool, instead: str) -> PolicyError:
    """The policy failed: the error to raise if it is strict, else warn once, with what is done."""
    told = PolicyError(f"{origin}: {one_line(error)}")
    told.__cause__ = error
    if not strict:
        warn_once(origin, f"{told}; {instead}")
    return told


def warn_once(origin: str, message: str) -> None:
    """Warn once per policy and process, because a policy may fail at every decision.

    If warnings are errors, this one goes to `sys.unraisablehook`: the decision has been taken
    without the policy, so no call is left to refuse.
    """
    if origin in _warned:
        return
    _warned.add(origin)
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    except RuntimeWarning as warning:
        report_unraisable(warning, warn_once)
