"""Signals, as a process that a test starts gets them."""

from __future__ import annotations

import signal


def hears_interrupts() -> None:
    """A shell has its background jobs ignore SIGINT, and what they start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
