"""Columns: the facts that a policy in Python declares, and reads by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt

from kvframe.spelling import did_you_mean

Columns = Mapping[str, npt.NDArray[Any]]


def named_only(columns: Iterable[str]) -> str:
    """The note on a policy that reads a column it does not declare in ``columns``."""
    return f"the policy's columns name only {', '.join(columns)}"


def wrong_columns(named: object, known: Iterable[str]) -> str | None:
    """What is wrong with the ``columns`` of a policy, in one line; None if nothing is."""
    if isinstance(named, str):
        return f'columns = "{named}" is a string: write ("{named}",)'
    if not isinstance(named, tuple | list):
        return f"columns = {named!r}: must be a tuple of names"
    for name in named:
        if not isinstance(name, str) or name not in known:
            near = did_you_mean(str(name), known)
            there_are = f"{near} There are" if near else "; there are"
            return f"no column is called {name!r}{there_are} {', '.join(known)}"
    return None
