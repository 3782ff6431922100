"""Values as SGLang may give them, and as the tree takes them: none of them stops a scheduler."""

from __future__ import annotations

from array import array
from typing import Any

LEAST, MOST = -(2**31), 2**31 - 1
"""A priority's limits."""


def ids(key: Any) -> array[int]:
    """The token ids of a ``RadixKey``, which are integers of 64 bits; of anything else its hash."""
    tokens = key.raw_token_ids()
    if type(tokens) is array and tokens.typecode == "q":
        return tokens
    try:
        return array("q", tokens)
    except (TypeError, ValueError, OverflowError):
        return array("q", [_id(token) for token in tokens])


def _id(token: Any) -> int:
    try:
        return hash(token)
    except TypeError:
        return hash(repr(token))


def text(value: object) -> str | None:
    """A key, a salt or a session's name."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return ascii(value)
        return value
    return repr(value)


def priority(value: object) -> int:
    """A request's priority; 0 for what is no number."""
    try:
        return max(LEAST, min(MOST, int(value)))  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return 0


def length(value: object) -> int:
    """A length in tokens; 0 for what is none."""
    try:
        return max(0, min(2**63 - 1, int(value)))  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return 0
