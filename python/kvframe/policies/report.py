"""One warning a policy: a policy that fails does so at every decision."""

from __future__ import annotations

import warnings

_warned: set[str] = set()


def warn_once(origin: str, message: str) -> None:
    """Warn the first time that this policy fails in this process."""
    if origin not in _warned:
        _warned.add(origin)
        warnings.warn(message, RuntimeWarning, stacklevel=2)
