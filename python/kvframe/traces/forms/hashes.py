"""Requests with an id for each block: Mooncake, Qwen-Bailian, AIPerf and what derives from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kvframe.errors import TraceError
from kvframe.traces.order import by_session
from kvframe.traces.reader import Given, Head, Record, Row, TraceReader
from kvframe.traces.values import count, first_of, found_in, ids_of, millis

IDS = ("hash_ids", "block_hashes", "block_ids", "input_sequence_hashes", "block_hash_ids")
INPUT = (
    "input_length",
    "input_tokens",
    "prompt_tokens",
    "prompt_len",
    "input_len",
    "isl",
    "num_prefill_tokens",
)
OUTPUT = (
    "output_length",
    "output_tokens",
    "completion_tokens",
    "output_len",
    "osl",
    "num_decode_tokens",
)
TIME = ("timestamp", "ts", "arrival_time", "time", "created_time", "start_time", "arrived_at")
SESSION = ("session_id", "conversation_id", "chat_session_id")
DELAY = ("delay", "delay_ms")
DELAYED = (
    "a turn with a delay is taken to arrive that long after the turn before it arrived: the form "
    "means after its answer, which no trace knows"
)
NO_TIMES = "the form has no times: requests are read as one second apart"

_PLAIN = str.maketrans("", "", " _-")
_KNOWN = frozenset([*IDS, *INPUT, *OUTPUT, *TIME, *SESSION, *DELAY, "block_size", "type"])
_SPELLED = {name.translate(_PLAIN): name for name in _KNOWN}
_BETWEEN = re.compile(r"[\s,;|]+")


def spelled(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the names that are known here: ``hashIds`` is ``hash_ids``."""
    renamed = _renamed(tuple(record))
    return {renamed.get(name, name): value for name, value in record.items()} if renamed else record


@lru_cache(maxsize=64)
def _renamed(names: tuple[str, ...]) -> dict[str, str]:
    plain = {name: _SPELLED.get(name.lower().translate(_PLAIN)) for name in names}
    return {
        name: known
        for name, known in plain.items()
        if known is not None and known != name and known not in names
    }


def listed_ids(record: dict[str, Any]) -> Sequence[Any] | None:
    """The ids of a record's blocks; of a table, where they are a text, its parts."""
    found = first_of(record, IDS)
    if isinstance(found, list):
        return found
    if not isinstance(found, str):
        return None
    if found.lstrip().startswith("["):
        try:
            decoded = msgspec.json.decode(found)
        except msgspec.DecodeError:
            return None
        return decoded if isinstance(decoded, list) else None
    parts = [part for part in _BETWEEN.split(found) if part]
    return [int(part) if part.lstrip("-").isdigit() else part for part in parts]


def has_ids(record: dict[str, Any]) -> bool:
    """Whether a record has a list of ids and a prompt's length."""
    return listed_ids(record) is not None and first_of(record, INPUT) is not None


class Mooncake(TraceReader):
    """Mooncake's rows, in every variant that was published, and the same in CSV or Parquet."""

    name = "mooncake"
    title = "Mooncake's JSONL"

    def recognises(self, head: Head) -> bool:
        first = spelled(head.first)
        others = first_of(first, (*INPUT, *TIME))
        return listed_ids(first) is not None and others is not None

    @staticmethod
    def is_native(head: Head) -> bool:
        """Whether the core can read it as it is."""
        return head.encoding == "jsonl" and all(_is_native(record.value) for record in head.records)

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """A row a record. Without times they are a second apart; Vidur's are seconds."""
        last: float | None = None
        has_times = True
        for number, plain in records:
            record = spelled(plain)
            time = first_of(record, TIME)
            if last is None and time is None:
                given.remark(NO_TIMES)
                given.unread_times(record)
                last, has_times = -1_000.0, False
            unit = given.time_unit or ("s" if "arrived_at" in record else "ms")
            row = row_of(record, given, unit, None if has_times else (last or 0.0) + 1_000)
            last = row.timestamp
            yield number, row


def _is_native(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    numbers = row.get("timestamp"), row.get("input_length"), row.get("output_length")
    ids = row.get("hash_ids")
    return (
        type(numbers[0]) in (int, float)
        and type(numbers[1]) is type(numbers[2]) is int
        and isinstance(ids, list)
        and all(type(one) is int and -(2**63) <= one < 2**64 for one in ids)
    )


class Bailian(Mooncake):
    """Qwen-Bailian's usage traces: seconds, chats with parents, ids of single blocks of 16."""

    name = "bailian"
    title = "Qwen-Bailian's usage traces"

    def recognises(self, head: Head) -> bool:
        first = spelled(head.first)
        return has_ids(first) and {"chat_id", "parent_chat_id"} <= first.keys()

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """A row a record; a chat is of its parent's session."""
        sessions: dict[object, int | str] = {}
        for number, plain in records:
            record = spelled(plain)
            chat, parent = record["chat_id"], record["parent_chat_id"]
            session = sessions.get(parent, sessions.get(chat, chat))
            sessions[chat] = session
            if parent not in _NO_PARENT:
                sessions.setdefault(parent, session)  # its own row may come later
            row = row_of(record, given, given.time_unit or "s")
            row.session_id = session
            yield number, row


_NO_PARENT = (None, "", -1, "-1")


class AIPerf(TraceReader):
    """AIPerf's and Dynamo's multi-turn rows: the later turns of a session have a delay, no time."""

    name = "aiperf"
    title = "multi-turn rows of AIPerf or Dynamo (session_id and delay)"

    def recognises(self, head: Head) -> bool:
        rows = [spelled(record.value) for record in head.records if isinstance(record.value, dict)]
        return has_ids(spelled(head.first)) and any(
            first_of(row, TIME) is None and first_of(row, SESSION) is not None for row in rows
        )

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """A row a record, by time."""
        given.remark(DELAYED)
        return by_session(self._turns(records, given))

    def _turns(self, records: Iterable[Record], given: Given) -> Iterator[list[tuple[int, Row]]]:
        unit = given.time_unit or "ms"
        last: dict[object, float] = {}
        held: list[tuple[int, Row]] = []
        for number, plain in records:
            record = spelled(plain)
            session, (time, key) = first_of(record, SESSION), found_in(record, TIME)
            if session is None and time is None:
                what = "neither a timestamp nor a session with a delay"
                raise TraceError(f"{given.name}:{number}: {what}", given.name, number)
            if time is not None:
                arrival = millis(time, unit, key)
            else:
                arrival = last.get(session, 0.0) + millis(
                    first_of(record, DELAY) or 0, "ms", found_in(record, DELAY)[1]
                )
            row = row_of(record, given, unit, arrival)
            if session is not None:
                last[session] = max(arrival, last.get(session, arrival))
            if time is not None and held:
                yield held
                held = []
            held.append((number, row))
        yield held


def row_of(record: dict[str, Any], given: Given, unit: str, arrival: float | None = None) -> Row:
    """The row of a record that has its fields by any of their names.

    Raises:
        ValueError: One of them is missing or out of range.
    """
    ids = listed_ids(record)
    for what, found in (
        ("timestamp", first_of(record, TIME) if arrival is None else arrival),
        ("input_length", first_of(record, INPUT)),
        ("hash_ids", ids),
    ):
        if found is None:
            raise ValueError(f"no {what}")
    assert ids is not None
    time, key = found_in(record, TIME)
    kind, size = record.get("type"), record.get("block_size")
    return Row(
        timestamp=arrival if arrival is not None else millis(time, unit, key),
        input_length=count(*found_in(record, INPUT)),
        output_length=count(first_of(record, OUTPUT) or 0, "output_length"),
        hash_ids=ids_of(ids, found_in(record, IDS)[1]),
        block_size=count(size, "block_size") if size else given.block_size,
        session_id=_session(first_of(record, SESSION)),
        type=kind if isinstance(kind, str) else None,
    )


def _session(name: Any) -> int | str | None:
    """A session's name; an empty cell of a table is none, and other numbers are texts."""
    if name is None or name == "":
        return None
    return name if isinstance(name, (int, str)) else str(name)
