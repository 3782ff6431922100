"""Several errors of one configuration: the first is raised, the others go with it."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from kvframe.config.limits import MAX_ERRORS
from kvframe.errors import ConfigError, PluginError

Fault = ConfigError | PluginError


class Faults:
    """What is wrong with a configuration. The errors are kept in the order of its keys.

    As a context around each value, it keeps the value's error, so that the next value is checked
    too.
    """

    def __init__(self) -> None:
        self._first: Fault | None = None
        self._others: list[str] = []
        self._uncounted = 0

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Fault):
            return False
        self.add(error)
        return True

    def add(self, error: Fault) -> None:
        """Keep an error, and the errors in its ``others``."""
        if self._first is None:
            self._first, told = error, list(error.others)
        else:
            told = [str(error), *error.others]
        room = max(MAX_ERRORS - 1 - len(self._others), 0)
        self._others += told[:room]
        self._uncounted += len(told[room:]) + error.unlisted

    def add_all(self, errors: Iterable[Fault]) -> None:
        """Keep every error of a rule."""
        for error in errors:
            self.add(error)

    def is_full(self) -> bool:
        """Whether the list is full: a further error is only counted."""
        full = self._first is not None and len(self._others) >= MAX_ERRORS - 1
        self._uncounted += full
        return full

    def tell(self) -> None:
        """Raise the first, if there is one.

        Raises:
            ConfigError, PluginError: The first error that was kept.
        """
        if self._first is not None:
            self._first.others, self._first.unlisted = tuple(self._others), self._uncounted
            raise self._first
