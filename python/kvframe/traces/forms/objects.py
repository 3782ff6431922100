"""Forms of kvframe's own and of libCacheSim's: most of them are read by the core."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable, Iterator

from kvframe.errors import TraceError
from kvframe.stats.log import EventLog
from kvframe.traces import logs, recorded
from kvframe.traces.reader import Given, Head, Record, Row, TraceReader
from kvframe.traces.records import LCSLLM as LCSLLM_MAGIC
from kvframe.traces.values import ids_of, is_number, millis
from kvframe.wire.recording import MAGIC as EVENTS_MAGIC

FLAT = (
    "an access is read as a prompt of one block: the form has neither requests nor prefixes; "
    "replay it with --mode trace"
)
STORED = "events show what was stored: requests that found their whole prompt are missing"
_RECORD = struct.Struct("<IQIq")


class _Native(TraceReader):
    native = True

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """Refuses: the core reads the form."""
        raise TraceError(f"{given.name}: {self.title}: is read by the core, not row by row")


class Compact(_Native):
    """kvframe's compact form."""

    name = "kvframe"
    title = "kvframe's compact form"

    def recognises(self, head: Head) -> bool:
        return head.encoding == "compact"


class Whole(_Native):
    """A form whose file is read whole, because only later entries show where a request ends."""

    @abstractmethod
    def convert(self, data: bytes, given: Given) -> bytes:
        """All requests, as rows that the core reads (JSONL in Mooncake's form).

        Raises:
            TraceError: It is damaged, or has no requests.
        """


class Log(Whole):
    """A saved event log."""

    name = "kvframe-log"
    title = "a log that kv.log.take().save() wrote"

    def recognises(self, head: Head) -> bool:
        return head.encoding == "log"

    def convert(self, data: bytes, given: Given) -> bytes:
        """A row for each allocation."""
        return logs.rows(EventLog.parse(data, given.name), given.name, given.time_unit)


class Recording(Whole):
    """KV events that ``kvframe events record`` wrote."""

    name = "kvframe-events"
    title = "KV events that kvframe events record wrote"

    def recognises(self, head: Head) -> bool:
        return head.data.startswith(EVENTS_MAGIC)

    def convert(self, data: bytes, given: Given) -> bytes:
        """A row for each chain of blocks that was stored within a pause."""
        given.remark(STORED)
        return recorded.rows(data, given.name)


class LCSLLM(_Native):
    """lcsllm version 1."""

    name = "lcsllm"
    title = "libCacheSim's lcsllm"

    def recognises(self, head: Head) -> bool:
        return head.data[2:8] == LCSLLM_MAGIC[2:]

    def check(self, head: Head) -> None:
        """Raises `TraceError` for another version than 1, which the magic number's start says."""
        if self.recognises(head) and not head.data.startswith(LCSLLM_MAGIC):
            version = int.from_bytes(head.data[:2], "little")
            what = f"lcsllm of version {version}: this kvframe reads version 1"
            raise TraceError(f"{head.name}: {what}", head.name)


class LCP(TraceReader):
    """The successor of lcsllm, of which no description is published."""

    name = "lcp"
    title = "libCacheSim's lcp"
    lacks = "requests"
    advice = (
        "its layout is not published, so kvframe does not guess it; write the trace as lcsllm "
        "version 1 or as JSONL with the tool that made it"
    )

    def recognises(self, head: Head) -> bool:
        magic = head.data[:8]
        packed = head.name.removesuffix(".zst").endswith(".lcp") and head.encoding == "binary"
        return b"lcp" in (magic[:3], magic[::-1][:3]) or packed

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """Refuses: the file has no requests that can be read."""
        raise TraceError(f"{given.name}: seems to be {self.title}: {self.advice}")


class OracleGeneral(_Native):
    """libCacheSim's records of 24 bytes, which no magic number tells."""

    name = "oracle-general"
    title = "libCacheSim's oracleGeneral"

    def recognises(self, head: Head) -> bool:
        if head.encoding != "binary" or len(head.data) < _RECORD.size:
            return False
        whole = len(head.data) // _RECORD.size * _RECORD.size
        above = 0
        for at, (time, _, size, following) in enumerate(_RECORD.iter_unpack(head.data[:whole]), 1):
            # A record gives the number of its object's next access, which is always a later one.
            if time < above or size == 0 or not (following == -1 or following > at):
                return False
            above = time
        return True


class FlatCsv(TraceReader):
    """libCacheSim's CSV: time, object, perhaps size and operation."""

    name = "libcachesim-csv"
    title = "libCacheSim's CSV"

    def recognises(self, head: Head) -> bool:
        if head.encoding != "csv":
            return False
        first = head.first
        if "0" in first:
            return 2 <= len(first) <= 6 and is_number(first["0"])
        names = {name.lower() for name in first}
        return bool(names & _OBJECT) and bool(names & _TIME)

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """A row an access; ids that are no numbers are hashed."""
        given.remark(FLAT)
        block_size = given.block_size or 1
        time, thing = "0", "1"
        for number, record in records:
            if number <= 2 and "0" not in record:
                names = {name.lower(): name for name in record}
                time = next(names[name] for name in names if name in _TIME)
                thing = next(names[name] for name in names if name in _OBJECT)
            if thing not in record:
                raise TraceError(f"{given.name}:{number}: must have a time and an object")
            text = record[thing].strip()
            yield (
                number,
                Row(
                    timestamp=millis(record[time], given.time_unit or "s", time),
                    input_length=block_size,
                    output_length=0,
                    hash_ids=ids_of([int(text) if text.lstrip("-").isdigit() else text], thing),
                    block_size=block_size,
                ),
            )


_TIME = {"time", "timestamp", "ts", "clock_time"}
_OBJECT = {"obj", "object", "obj_id", "object_id", "objectid", "key"}
