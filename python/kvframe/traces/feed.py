"""Rows of a form as the JSONL that the core reads: checked, in order, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kvframe.errors import KVFrameError, TraceError
from kvframe.traces.order import Numbered, in_order
from kvframe.traces.reader import Given, Record, Row, TraceReader

CHUNK = 1 << 20


class Feed:
    """Rows as a file that is read once from its start."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = iter(rows)
        self._ready = b""
        self._encoder = msgspec.json.Encoder()

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        parts, length = [self._ready], len(self._ready)
        while length < size:
            row = next(self._rows, None)
            if row is None:
                break
            line = self._encoder.encode(row) + b"\n"
            parts.append(line)
            length += len(line)
        text = b"".join(parts)
        self._ready = text[size:]
        return text[:size]


def rows_of(
    reader: TraceReader, records: Iterable[Record], given: Given, any_order: bool = False
) -> Iterator[Row]:
    """What the reader makes of the records, one at least; each is checked before it is given on.

    Raises:
        TraceError: A record is not of the form, its ids do not go with its length, or it is earlier
            than the one before, unless they may be in ``any_order``; names file and line.
    """
    seen = _Seen(records)
    checked = _checked(reader.rows(seen, given), given)
    rows = checked if any_order else in_order(checked, given.name)
    is_empty = True
    while True:
        try:
            numbered = next(rows, None)
        except KVFrameError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            where = f"{given.name}:{seen.number}"
            said = f"no {error}" if isinstance(error, KeyError) else error
            what = f"no row of {reader.title}: {said}"
            raise TraceError(f"{where}: {what}", given.name, seen.number) from None
        if numbered is None:
            break
        is_empty = False
        yield numbered[1]
    if is_empty:
        why = "; ".join(given.remarks) or "none of its records is one"
        raise TraceError(f"{given.name}: no requests: {why}", given.name)


class _Seen:
    """Passes records on and keeps the number of the last one, which an exception does not tell."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self.number = 1

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.number = record.number
            yield record


def _checked(rows: Iterable[Numbered], given: Given) -> Iterator[Numbered]:
    for number, row in rows:
        if row.hash_ids is not None and row.block_size:
            found, size = len(row.hash_ids), row.block_size
            floor, ceil = row.input_length // size, -(-row.input_length // size)
            if found not in (floor, ceil):
                needs = f"{floor}" if floor == ceil else f"{floor} (floor) or {ceil} (ceil)"
                what = (
                    f"hash_ids has {found} ids, but input_length {row.input_length} at block size "
                    f"{size} needs {needs}"
                )
                raise TraceError(f"{given.name}:{number}: {what}", given.name, number)
        yield number, row
