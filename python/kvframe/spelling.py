"""The nearest right spelling of a name that was not found."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100
"""Characters. A longer name is no typing error, and would take long to compare."""


def plain(name: str) -> str:
    """``name`` with case and ``-`` against ``_`` levelled, as people mix them up."""
    return name.lower().replace("-", "_")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The entry of ``known`` that ``name`` most likely meant, or None if none is near.

    ``cutoff`` is the least likeness that counts as near, of 0 to 1.
    """
    if len(name) > LONGEST:
        return None
    from difflib import get_close_matches  # only an error needs it, not `import kvframe`

    by_plain = {plain(choice): choice for choice in known}
    matches = get_close_matches(plain(name), by_plain, n=1, cutoff=cutoff)
    return by_plain[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``"; did you mean X?"`` for an error message, or an empty string if nothing is near."""
    match = nearest(name, known)
    return f"; did you mean {match}?" if match else ""
