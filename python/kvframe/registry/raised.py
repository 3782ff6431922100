"""Errors that a plugin's code raised, on one line."""

from __future__ import annotations

import os
from pathlib import Path
from traceback import walk_tb


def one_line(error: BaseException) -> str:
    """The error's type, its message, its notes and where in a plugin it was raised, on one line."""
    try:
        said = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    except KeyboardInterrupt:
        raise
    except BaseException:  # Its own __str__ may be what is wrong.
        said = type(error).__name__
    said = " ".join(said.split()).rstrip(":")
    return f"{said if len(said) <= 500 else f'{said[:500]}...'}{_place(error)}"


_OWN = str(Path(__file__).parents[1]) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep


def _place(error: BaseException) -> str:
    """Where a plugin raised the error: `` (policy.py:12)``. Empty if no plugin's code was running.

    The plugin is the outermost code that belongs to one. The line is the innermost one in its
    folder.
    """
    called = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    theirs = [(file, line) for file, line in called if _is_theirs(file)]
    if not theirs:
        return ""
    home = os.path.dirname(theirs[0][0])
    file, line = next(at for at in reversed(theirs) if os.path.dirname(at[0]) == home)
    return f" ({os.path.basename(file)}:{line})"


def _is_theirs(file: str) -> bool:
    installed = "site-packages" in file or "dist-packages" in file
    stdlib = file.startswith(_STDLIB) and not installed
    # pluggy calls the hooks, and raises nothing of its own there.
    called_by = f"{os.sep}pluggy{os.sep}" in file
    return os.path.isabs(file) and not stdlib and not called_by and not file.startswith(_OWN)
