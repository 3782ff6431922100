"""Lengths and times alone: no prefixes, so nothing can be replayed until they are synthesised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from kvframe.traces.forms.hashes import NO_TIMES
from kvframe.traces.reader import Given, Head, Record, Row, TraceReader
from kvframe.traces.values import count, is_number, millis

_PLAIN = str.maketrans("", "", " _-()")


class Lengths(TraceReader):
    """Any rows with a prompt's tokens and an answer's, under names that are known."""

    name = "lengths"
    title = "rows with lengths and times"
    lacks = "prefixes"

    time: ClassVar[frozenset[str]] = frozenset(
        [
            "timestamp",
            "time",
            "ts",
            "arrivaltime",
            "arrivedat",
            "arrival",
            "starttime",
            "created",
            "createdat",
            "date",
        ]
    )
    input: ClassVar[frozenset[str]] = frozenset(
        [
            "contexttokens",
            "requesttokens",
            "inputlength",
            "inputtokens",
            "prompttokens",
            "promptlen",
            "inputlen",
            "numprefilltokens",
            "promptlength",
            "numinputtokens",
            "isl",
            "prefilllen",
            "numprompttokens",
        ]
    )
    output: ClassVar[frozenset[str]] = frozenset(
        [
            "generatedtokens",
            "responsetokens",
            "outputlength",
            "outputtokens",
            "completiontokens",
            "outputlen",
            "numdecodetokens",
            "numoutputtokens",
            "osl",
            "decodelen",
            "generationlength",
        ]
    )
    session: ClassVar[frozenset[str]] = frozenset(["sessionid", "session", "conversationid"])
    kind: ClassVar[frozenset[str]] = frozenset({"logtype", "type"})

    def recognises(self, head: Head) -> bool:
        names = {_plain(name) for name in head.first}
        return bool(names & self.input) and bool(names & (self.output | self.time))

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[tuple[int, Row]]:
        """A row a record, without ids. Times that are numbers are seconds."""
        names: dict[str, str | None] | None = None
        last = -1_000.0
        for number, record in records:
            if names is None:
                plain = {_plain(name): name for name in record}
                wanted = ("time", "input", "output", "session", "kind")
                names = {
                    what: next((plain[one] for one in plain if one in getattr(self, what)), None)
                    for what in wanted
                }
            time, prompt, answer, session, kind = (
                record.get(names[what]) if names[what] else None
                for what in ("time", "input", "output", "session", "kind")
            )
            if time is None:
                given.remark(NO_TIMES)
            last = (
                last + 1_000
                if time is None
                else millis(time, given.time_unit or self.unit(time), names["time"] or "time")
            )
            yield (
                number,
                Row(
                    timestamp=last,
                    input_length=count(prompt, names["input"] or "input tokens"),
                    output_length=count(answer or 0, names["output"] or "output tokens"),
                    session_id=session or None,
                    type=kind if isinstance(kind, str) else None,
                ),
            )

    def unit(self, time: object) -> str:
        """The unit of a time that is a number: milliseconds if it is too large for seconds."""
        return "ms" if is_number(time) and float(str(time)) > 1e11 else "s"


class Azure(Lengths):
    """Azure's LLM inference traces of 2023 and 2024."""

    name = "azure"
    title = "Azure LLM inference traces"

    def recognises(self, head: Head) -> bool:
        return {"TIMESTAMP", "ContextTokens", "GeneratedTokens"} <= head.first.keys()


class BurstGPT(Lengths):
    """BurstGPT, seconds; newer files name sessions."""

    name = "burstgpt"
    title = "BurstGPT"

    def recognises(self, head: Head) -> bool:
        return {"Timestamp", "Request tokens", "Response tokens"} <= head.first.keys()


def _plain(name: str) -> str:
    return name.strip().lower().translate(_PLAIN)
