"""Every exception that kvframe raises on purpose: one tree, one base.

Each message is one line that names the value and the limit it broke, so that ``str(error)`` can be
shown to a user as it is.
"""

from __future__ import annotations


class KVFrameError(Exception):
    """Base of every error that kvframe raises on purpose.

    docs/reference/errors.md has all of them, what raises each, and what to do about it.
    """


class ConfigError(KVFrameError, ValueError):
    """A configuration holds an unknown key, a wrong type or an impossible value.

    The message has the place, the limit and the nearest right spelling. ``kvframe check FILE``
    lists every error of a file at once; docs/reference/configuration.md has every key.

    Attributes:
        others: What else is wrong with it, at most 19 messages.
        unlisted: How many more errors there are.
    """

    others: tuple[str, ...] = ()
    unlisted: int = 0


class PluginError(KVFrameError):
    """A plugin is missing, blocked, broken or named twice.

    ``kvframe plugins`` lists what is installed, and what of it cannot be used.

    Attributes:
        others: What else is wrong with the configuration that names it, at most 19 messages.
        unlisted: How many more errors there are.
    """

    others: tuple[str, ...] = ()
    unlisted: int = 0


class PolicyError(PluginError):
    """A policy broke its contract while it ran: it raised, or gave an answer that cannot be.

    A manager raises it only with ``on_error = "raise"``; otherwise the built-in order decides, and
    a warning names the policy. ``kvframe bench check`` finds such faults before they serve.
    """


class AbiError(PolicyError):
    """A native policy speaks another version of the interface than this kvframe does.

    Build its package again with this kvframe's header, or install a version of it that fits.

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

    ``kvframe trace validate`` reads a trace whole; docs/reference/traces.md has every form.

    Attributes:
        path: The trace's name as the caller gave it, or None where it is unknown.
        line: The line, counted from 1, or None where the fault is not of one line.
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class CapacityError(KVFrameError):
    """Not enough blocks are free now. Nothing was changed; the same call may succeed later.

    Ask again in the next step, preempt a running sequence, or let the request wait.
    """


class HeldError(CapacityError):
    """The admission policy makes the request wait; the message names the policy and its reason.

    Ask again in a later step, as after a `CapacityError`: the policy will have seen more by then.
    """


class BusyError(CapacityError):
    """Too much is in flight to or from a tier, or has to reach the tier below first: try later."""


class TierError(KVFrameError):
    """A tier's store cannot be opened or closed, or does not do what it is asked.

    A transfer that fails is no error but a miss, and is counted.
    """


class NeverFitsError(KVFrameError):
    """The request needs more blocks than it can ever have, so waiting cannot help.

    The message says what the limit is: the pool, its tenant's quota, or the floors of others. Not a
    `CapacityError`: a loop that waits on those would wait for ever. Refuse the request, or give the
    cache or the tenant more blocks; `Request(max_seq_len=...)` raises it at the first attempt.
    """


class HandleError(KVFrameError):
    """A handle does not name a living object of this manager: a bug of the caller."""


class StaleHandleError(HandleError):
    """The handle named something that has ended; its slot belongs to another by now."""


class UnknownSequenceError(HandleError, KeyError):
    """No sequence was ever admitted under this handle."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put a message in quotes.
        return Exception.__str__(self)


class UsageError(KVFrameError, ValueError):
    """The call breaks the manager's contract: a double free, a commit past the appended tokens.

    A bug of the caller; nothing was changed.
    """


class IntegrityError(KVFrameError):
    """``check_integrity()`` found the core's bookkeeping inconsistent: a bug in kvframe.

    Report it with the event log of the run, if there is one (``cache.event_log``).
    """
