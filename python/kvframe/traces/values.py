"""Values as records have them: times of any spelling, counts, ids of any kind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from kvframe.arguments import shown
from kvframe.spelling import nearest

MILLIS = {"s": 1_000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
"""Milliseconds of each unit of time."""

TIMES = (
    "timestamp",
    "created_at",
    "created",
    "time",
    "ts",
    "start_time",
    "startTime",
    "date",
    "request_time",
    "arrival_time",
    "created_time",
)
"""What logs call the time of a request, the likeliest first."""

A_TIME = "a number, or a date as ISO 8601 has it"

_EPOCHS = {"s": 1e9, "ms": 1e12, "us": 1e15, "ns": 1e18}
"""September 2001 in each unit since 1970; four times as much is in 2096."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


def millis(value: Any, unit: str, what: str) -> float:
    """A time in milliseconds: a number of ``unit``, or a date as ISO 8601 has it.

    ``what`` is its key, for messages.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.timestamp() * 1_000
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                return millis(datetime.fromisoformat(value.strip()), unit, what)
            except ValueError:
                raise ValueError(f"{what} = {shown(value)}: must be {A_TIME}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{what} = {shown(value)}: must be {A_TIME}")
    return value * MILLIS[unit]


def epoch_unit(value: Any) -> str | None:
    """The unit in which a number is a time since 1970 of this century; None of any other value."""
    if not is_number(value):
        return None
    number = float(value)
    return next((unit for unit, one in _EPOCHS.items() if one <= number < 4 * one), None)


def seem_times(record: Mapping[str, Any]) -> list[str]:
    """The fields of a record that look like a time: by their value, or by how they are spelt."""
    return [
        name
        for name, value in record.items()
        if epoch_unit(value)
        or _is_date(value)
        or (is_number(value) and nearest(name, TIMES, cutoff=0.85) is not None)
    ]


def _is_date(value: Any) -> bool:
    if not isinstance(value, str) or len(value) < len("2026-11-30T04:35"):
        return False
    try:
        datetime.fromisoformat(value.strip())
    except ValueError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Whether it is a number, or a text that is one."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, bool)


def count(value: Any, what: str) -> int:
    """A count of tokens, given as a number or, as in CSV, as text.

    Raises:
        ValueError: It is negative or no whole number.
    """
    number = float(value) if is_number(value) else math.nan
    if not number.is_integer() or not 0 <= number < 2**32:
        raise ValueError(
            f"{what} = {shown(value)}: must be a whole number of tokens, 0 to 2^32 - 1"
        )
    return int(number)


def first_of(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value of the first of these keys that is there, and not null; else None."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def found_in(record: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, str]:
    """That value with its key; None with the first key if none is there."""
    key = next((name for name in names if record.get(name) is not None), names[0])
    return record.get(key), key


def ids_of(values: Sequence[Any], what: str) -> list[int]:
    """Ids of 64 bits: whole numbers as they are, others (hashes as texts or bytes) hashed.

    ``what`` is the key of the list, for messages.
    """
    return [
        value
        if type(value) is int and -(2**63) <= value < 2**64
        else _hashed(value, f"{what}[{place}]")
        for place, value in enumerate(values)
    ]


def local_ids(values: Sequence[Any], scope: str, what: str) -> list[int]:
    """Ids that hold within ``scope`` only, such as a session: those of two scopes all differ."""
    raw = np.array(ids_of(values, what), dtype=object) % 2**64
    seed = np.uint64(xxhash.xxh3_64_intdigest(scope.encode()))
    mixed = (raw.astype(np.uint64) + np.uint64(1)) * _ODD ^ seed
    return mixed.tolist()  # type: ignore[no-any-return]


def token_blocks(tokens: npt.NDArray[np.uint32], block_size: int) -> list[int]:
    """An id for each full block of a prompt: a hash of all tokens up to its end."""
    ids, prefix = [], xxhash.xxh3_64()
    for end in range(block_size, len(tokens) + 1, block_size):
        prefix.update(tokens[end - block_size : end].astype("<u4").tobytes())
        ids.append(prefix.intdigest())
    return ids


def _hashed(value: Any, what: str) -> int:
    if type(value) is float and value.is_integer() and abs(value) <= 2**53:
        return int(value)  # as a table of numbers with gaps has them
    if not isinstance(value, (str, bytes)):
        if type(value) is int:
            return xxhash.xxh3_64_intdigest(str(value).encode())
        raise ValueError(f"{what} = {shown(value)}: must be an integer, a text or bytes")
    return xxhash.xxh3_64_intdigest(value if isinstance(value, bytes) else value.encode())
