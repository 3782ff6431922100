"""Leaves out the requests of a log that were refused, or that ended in an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kvframe.traces.reader import Given, Record
from kvframe.traces.values import first_of, is_number

_STATUS = ("status", "status_code", "http_status", "response_status", "response_code")
_WORDS = {"fail", "failed", "failure", "error"}
_LEAST = 400
"""From this HTTP status on, a request failed."""


def served(records: Iterable[Record], given: Given) -> Iterator[Record]:
    """The records of requests that did not fail; a remark says how many did."""
    failed = 0
    for record in records:
        if _failed(record.value):
            failed += 1
        else:
            yield record
    if failed:
        given.remark(
            f"failed requests are left out (a status of {_LEAST} or more, or an error): {failed:,}"
        )


def _failed(record: dict[str, Any]) -> bool:
    response = record.get("response")
    parts = [record, response] if isinstance(response, dict) else [record]
    return any(part.get("error") or _is_bad(first_of(part, _STATUS)) for part in parts)


def _is_bad(status: Any) -> bool:
    if is_number(status):
        return float(status) >= _LEAST
    return isinstance(status, str) and status.lower() in _WORDS
