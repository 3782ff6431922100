"""What engines and caches write: Dynamo's request traces, LMCache's logs, KV events, token ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kvframe.arguments import shown
from kvframe.errors import TraceError
from kvframe.traces.failed import served
from kvframe.traces.forms.hashes import NO_TIMES, OUTPUT, SESSION, TIME
from kvframe.traces.order import Numbered, by_session
from kvframe.traces.reader import Given, Head, Record, Row, TraceReader
from kvframe.traces.values import (
    TIMES,
    count,
    first_of,
    found_in,
    ids_of,
    is_number,
    millis,
    token_blocks,
)

NO_OUTPUT = "the form does not say how many tokens were generated: 0 are assumed"
WINDOW = 65_536
"""How many requests a log's order is put right within: what runs at once is written as it ends."""

_SCHEMA = "dynamo.request.trace.v1"
_LOOKUP = re.compile(
    r"Reqid: (?P<id>[^,\s]+), Total tokens (?P<input>\d+), LMCache hit tokens: (?P<hit>\d+)"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?")
_EVENTS = {"BlockStored", "BlockRemoved", "AllBlocksCleared"}


class Dynamo(TraceReader):
    """Dynamo's request traces: hashes and block size under ``request.replay``."""

    name = "dynamo"
    title = "a request trace of Dynamo"

    def recognises(self, head: Head) -> bool:
        event = _event(head.first)
        return str(event.get("schema", "")).startswith("dynamo.request.trace")

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a request that has ended; records of tools and payloads are passed over."""
        return windowed(self._ended(records, given))

    def _ended(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        for number, record in records:
            event = _event(record)
            if (schema := event.get("schema")) != _SCHEMA:
                raise ValueError(f"schema = {schema!r}: must be {_SCHEMA!r}")
            request = event.get("request") or {}
            if event.get("event_type") != "request_end":
                continue
            replay = request.get("replay")
            if replay is None:
                given.remark("requests without hashes (request.replay) are left out")
                continue
            at, key = found_in(request, ("request_received_ms",))
            if at is None:
                at = event["event_time_unix_ms"] - (request.get("total_time_ms") or 0)
                key = "event_time_unix_ms"
            context = event.get("agent_context") or {}
            row = Row(
                timestamp=millis(at, given.time_unit or "ms", key),
                input_length=count(replay["input_length"], "input_length"),
                output_length=count(request.get("output_tokens") or 0, "output_tokens"),
                hash_ids=ids_of(replay["input_sequence_hashes"], "input_sequence_hashes"),
                block_size=replay["trace_block_size"],
                session_id=context.get("session_id"),
            )
            yield number, row


def _event(record: dict[str, Any]) -> dict[str, Any]:
    """The event itself, or the one that the record wraps."""
    inside = first_of(record, ("event", "record", "payload", "data"))
    return inside if "schema" not in record and isinstance(inside, dict) else record


def windowed(rows: Iterator[Numbered]) -> Iterator[Numbered]:
    """Sort rows by time, if each is at most `WINDOW` places away from where it belongs."""
    return by_session(_singles(rows))


def _singles(rows: Iterator[Numbered]) -> Iterator[list[Numbered]]:
    held: list[Numbered] = []
    for numbered in rows:
        held.append(numbered)
        if len(held) == 2 * WINDOW:
            held.sort(key=lambda one: one[1].timestamp)
            yield held[:WINDOW]
            held = held[WINDOW:]
    yield sorted(held, key=lambda one: one[1].timestamp)


class LMCacheHashes(TraceReader):
    """LMCache's lookups as JSON: the hashes of a prompt's chunks."""

    name = "lmcache-hashes"
    title = "LMCache's lookup hash log (--lookup-hash-log-dir)"

    def recognises(self, head: Head) -> bool:
        return isinstance(head.first.get("chunk_hashes"), list)

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a lookup."""
        for number, record in records:
            ids = ids_of(record["chunk_hashes"], "chunk_hashes")
            size = record.get("chunk_size") or given.block_size or 256
            if first_of(record, OUTPUT) is None:
                given.remark(NO_OUTPUT)
            time, key = found_in(record, TIME)
            unit = given.time_unit or ("ms" if is_number(time) and float(time) > 1e11 else "s")
            tokens = first_of(record, ("seq_len", "num_tokens", "total_tokens"))
            row = Row(
                timestamp=millis(time, unit, key),
                input_length=count(len(ids) * size if tokens is None else tokens, "seq_len"),
                output_length=count(first_of(record, OUTPUT) or 0, "output"),
                hash_ids=ids,
                block_size=size,
                session_id=first_of(record, SESSION),
            )
            yield number, row


class LMCacheLog(TraceReader):
    """Lines of LMCache's log: how long each prompt was, and how much of it was found."""

    name = "lmcache-log"
    title = "a log of LMCache"
    lacks = "prefixes"

    def recognises(self, head: Head) -> bool:
        return head.encoding in ("text", "csv") and b"LMCache hit tokens" in head.data

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a lookup, without ids; other lines are passed over."""
        given.remark(NO_OUTPUT)
        last = 0.0
        for number, record in records:
            line = record if isinstance(record, str) else ",".join(map(str, record.values()))
            found = _LOOKUP.search(line)
            if found is None:
                continue
            date = _DATE.search(line)
            last = millis(date[0].replace(",", "."), "s", "its date") if date else last + 1_000
            yield number, Row(timestamp=last, input_length=int(found["input"]), output_length=0)


class KVEvents(TraceReader):
    """Recorded KV events: what a cache did, not what was asked of it."""

    name = "kv-events"
    title = "recorded KV events"
    lacks = "requests"
    advice = (
        "they say which blocks an engine stored and removed, not which requests asked for them; "
        "kvframe.wire reads them into a RouterIndex; for a replay, `kvframe events record` them"
    )

    def recognises(self, head: Head) -> bool:
        first = head.first
        events = first.get("events")
        inside = events[0] if isinstance(events, list) and events else first
        if isinstance(inside, dict):
            return bool({inside.get("type"), inside.get("event_type")} & _EVENTS)
        if isinstance(inside, list) and inside:
            return inside[0] in _EVENTS
        return head.encoding == "binary" and any(one.encode() in head.data for one in _EVENTS)

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """Refuses: the file has no requests."""
        raise TraceError(f"{given.name}: seems to be {self.title}: {self.advice}")


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(type(one) is int for one in value)


class TokenIds(TraceReader):
    """Prompts as token ids, as an engine logs them."""

    name = "tokens"
    title = "prompts as token ids"
    keys = ("token_ids", "prompt_token_ids", "input_ids", "prompt_tokens")

    def recognises(self, head: Head) -> bool:
        ids, key = found_in(head.first, self.keys)
        # Others mean a number or a text by prompt_tokens; what the other keys mean is sure.
        return ids is not None and (key != "prompt_tokens" or _are_tokens(ids))

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a prompt."""
        size, last = given.block_size or 16, -1_000.0
        for number, record in served(records, given):
            tokens, key = found_in(record, self.keys)
            if tokens is None:
                raise ValueError(f"no {key}")
            if not _are_tokens(tokens):
                raise ValueError(
                    f"{key} = {shown(tokens)}: must be a list of integers, one or more"
                )
            ids = np.array(tokens)
            if ids.dtype != np.int64 or ids.min() < 0 or ids.max() >= 2**32:
                place = next(at for at, token in enumerate(tokens) if not 0 <= token < 2**32)
                raise ValueError(f"{key}[{place}] = {shown(tokens[place])}: must be 0 to 2^32 - 1")
            time, key = found_in(record, TIMES)
            if time is None:
                given.remark(NO_TIMES)
                given.unread_times(record)
            last = last + 1_000 if time is None else millis(time, given.time_unit or "ms", key)
            row = Row(
                timestamp=last,
                input_length=len(ids),
                output_length=count(first_of(record, OUTPUT) or 0, "output_length"),
                hash_ids=token_blocks(ids.astype(np.uint32), size),
                block_size=size,
                session_id=first_of(record, SESSION),
            )
            yield number, row
