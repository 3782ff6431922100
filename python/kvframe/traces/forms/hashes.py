"""Requests with an id for each block: Mooncake, Qwen-Bailian, AIPerf and what derives from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kvframe.errors import TraceError
from kvframe.traces.order import by_session
from kvframe.traces.reader import Given, Head, Record, Row, TraceReader
from kvframe.traces.values import count, first_of, ids_of, millis

IDS = ("hash_ids", "block_hashes", "block_ids", "input_sequence_hashes")
INPUT = ("input_length", "input_tokens", "prompt_tokens", "prompt_len", "input_len", "isl")
OUTPUT = ("output_length", "output_tokens", "completion_tokens", "output_len", "osl")
TIME = ("timestamp", "ts", "arrival_time", "time", "created_time", "start_time")
SESSION = ("session_id", "conversation_id", "chat_session_id")
DELAY = ("delay", "delay_ms")
DELAYED = (
    "a turn with a delay is taken to arrive that long after the turn before it arrived: the form "
    "means after its answer, which no trace knows"
)


def has_ids(record: dict[str, Any]) -> bool:
    """Whether a record has a list of ids and a prompt's length."""
    return isinstance(first_of(record, IDS), list) and first_of(record, INPUT) is not None


class Mooncake(TraceReader):
    """Mooncake's rows, in every variant that was published, and the same in CSV or Parquet."""

    name = "mooncake"
    title = "Mooncake's JSONL"

    def recognises(self, head: Head) -> bool:
        return has_ids(head.first)

    @staticmethod
    def is_native(head: Head) -> bool:
        """Whether the core can read it as it is."""
        needed = {"timestamp", "input_length", "output_length", "hash_ids"}
        rows = [record.value for record in head.records]
        return head.encoding == "jsonl" and all(
            isinstance(row, dict) and needed <= row.keys() and type(row["timestamp"]) is not str
            for row in rows
        )

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """A row a record."""
        for number, record in records:
            yield number, row_of(record, given, given.time_unit or "ms")


class Bailian(Mooncake):
    """Qwen-Bailian's usage traces: seconds, chats with parents, ids of single blocks of 16."""

    name = "bailian"
    title = "Qwen-Bailian's usage traces"

    def recognises(self, head: Head) -> bool:
        return has_ids(head.first) and {"chat_id", "parent_chat_id"} <= head.first.keys()

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """A row a record; a chat is of its parent's session."""
        sessions: dict[object, int | str] = {}
        for number, record in records:
            chat, parent = record["chat_id"], record["parent_chat_id"]
            sessions[chat] = sessions.get(parent, chat)
            row = row_of(record, given, given.time_unit or "s")
            row.session_id = sessions[chat]
            yield number, row


class AIPerf(TraceReader):
    """AIPerf's and Dynamo's multi-turn rows: the later turns of a session have a delay, no time."""

    name = "aiperf"
    title = "multi-turn rows of AIPerf or Dynamo (session_id and delay)"

    def recognises(self, head: Head) -> bool:
        rows = [record.value for record in head.records if isinstance(record.value, dict)]
        return has_ids(head.first) and any(
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
        for number, record in records:
            session, time = first_of(record, SESSION), first_of(record, TIME)
            if session is None and time is None:
                what = "neither a timestamp nor a session with a delay"
                raise TraceError(f"{given.name}:{number}: {what}", given.name, number)
            if time is not None:
                arrival = millis(time, unit)
            else:
                arrival = last.get(session, 0.0) + millis(first_of(record, DELAY) or 0, "ms")
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
    for what, names in (("timestamp", TIME), ("input_length", INPUT), ("hash_ids", IDS)):
        if first_of(record, names) is None and not (what == "timestamp" and arrival is not None):
            raise ValueError(f"no {what}")
    kind = record.get("type")
    return Row(
        timestamp=arrival if arrival is not None else millis(first_of(record, TIME), unit),
        input_length=count(first_of(record, INPUT), "input_length"),
        output_length=count(first_of(record, OUTPUT) or 0, "output_length"),
        hash_ids=ids_of(first_of(record, IDS)),
        block_size=record.get("block_size") or given.block_size,
        session_id=first_of(record, SESSION),
        type=kind if isinstance(kind, str) else None,
    )
