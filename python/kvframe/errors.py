"""Every exception that kvframe raises on purpose: one tree, one base.

Each message is one line that names the value and the limit it broke, so that ``str(error)`` can be
shown to a user as it is.
"""

from __future__ import annotations


class KVFrameError(Exception):
    """Base of every error that kvframe raises on purpose."""


class ConfigError(KVFrameError, ValueError):
    """A configuration holds an unknown key, a wrong type or an impossible value.

    Attributes:
        others: What else is wrong with it, at most 19 messages.
        unlisted: How many more errors there are.
    """

    others: tuple[str, ...] = ()
    unlisted: int = 0


class PluginError(KVFrameError):
    """A plugin is missing, blocked, broken or named twice.

    Attributes:
        others: What else is wrong with the configuration that names it, at most 19 messages.
        unlisted: How many more errors there are.
    """

    others: tuple[str, ...] = ()
    unlisted: int = 0


class PolicyError(PluginError):
    """A policy broke its contract while it ran: it raised, or gave an answer that cannot be."""


class AbiError(PolicyError):
    """A native policy speaks another version of the interface than this kvframe does.

    Attributes:
        plugin: The policy's name.
        version: The version of its package.
        found: The version of the interface that it was built for.
        needed: The version that this kvframe speaks.
    """

    def __init__(
        self, message: str, plugin: str = "", version: str = "", found: str = "", needed: str = ""
    ) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.version = version
        self.found = found
        self.needed = needed


class TraceError(KVFrameError, ValueError):
    """A trace cannot be read. The message starts with ``file:line`` where a line is known.

    Attributes:
        path: The trace's name as the caller gave it, or None where it is unknown.
        line: The line, counted from 1, or None where the fault is not of one line.
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class CapacityError(KVFrameError):
    """Not enough blocks are free now. Nothing was changed; the same call may succeed later."""


class HeldError(CapacityError):
    """The admission policy makes the request wait; the message names the policy and its reason."""


class BusyError(CapacityError):
    """Too much is in flight to or from a tier, or has to reach the tier below first: try later."""


class TierError(KVFrameError):
    """A tier's store cannot be opened or closed, or does not do what it is asked."""


class NeverFitsError(KVFrameError):
    """The request needs more blocks than the whole cache has, so waiting cannot help.

    Not a `CapacityError`: a loop that waits on those would wait for ever.
    """


class HandleError(KVFrameError):
    """A handle does not name a living object of this manager."""


class StaleHandleError(HandleError):
    """The handle named something that has ended; its slot belongs to another by now."""


class UnknownSequenceError(HandleError, KeyError):
    """No sequence was ever admitted under this handle."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put a message in quotes.
        return Exception.__str__(self)


class UsageError(KVFrameError, ValueError):
    """The call breaks the manager's contract: a double free, a commit past the appended tokens."""


class IntegrityError(KVFrameError):
    """``check_integrity()`` found the core's bookkeeping inconsistent: a bug in kvframe."""
