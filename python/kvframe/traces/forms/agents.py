"""Sessions of agents: FreeInference's, WEKA's (kv-cache-tester), inference-lab's, Copilot's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kvframe.traces.order import Numbered, by_session
from kvframe.traces.reader import Given, Head, Record, Row, TraceReader
from kvframe.traces.values import count, first_of, found_in, ids_of, local_ids, millis

OWN_ZERO = (
    "every session counts its times from its own start, so all start at once; "
    "`kvframe trace merge --gap` starts one after the other"
)
GAPS = (
    "a gap counts from the end of the step before, which no trace knows: it is taken from that "
    "step's arrival, and a closed loop serves it as it is meant"
)
LENGTHS_OF_IDS = "prompts are as long as their block ids say: the tokens that were billed differ"


def _from_own_start(sessions: Iterable[list[Numbered]], given: Given) -> Iterator[list[Numbered]]:
    """The same sessions; of two or more a remark says that all start at once."""
    told = given.time_unit is None
    for at, session in enumerate(sessions):
        if at == 1 and told:
            given.remark(OWN_ZERO)
        yield session


class FreeInference(TraceReader):
    """FreeInference's agentic trace: a session a line, ids of prefixes in blocks of 16."""

    name = "freeinference"
    title = "FreeInference's agentic sessions"

    def recognises(self, head: Head) -> bool:
        calls = head.first.get("requests")
        return isinstance(calls, list) and any(
            isinstance(call, dict) and "block_ids" in call for call in calls
        )

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a step."""
        return by_session(self._session(record, number, given) for number, record in records)

    def _session(self, record: dict[str, Any], number: int, given: Given) -> list[Numbered]:
        size = record.get("block_size") or given.block_size or 16
        unit = given.time_unit or "ms"
        start = millis(record.get("start_ms", 0), unit, "start_ms")
        steps = []
        for call in record["requests"]:
            if call.get("block_ids") is None:
                continue
            ids = ids_of(call["block_ids"], "block_ids")
            at = millis(call.get("start_ms", start), unit, "start_ms")
            tokens = call.get("provider_tokens") or {}
            length = count(first_of(tokens, ("prompt", "input")) or len(ids) * size, "prompt")
            if len(ids) not in (length // size, -(-length // size)):
                given.remark(LENGTHS_OF_IDS)
                length = len(ids) * size
            row = Row(
                timestamp=at if at >= start else start + at,
                input_length=length,
                output_length=count(first_of(tokens, ("completion", "output")) or 0, "completion"),
                hash_ids=ids,
                block_size=size,
                session_id=record.get("session_id"),
                type=record.get("harness"),
            )
            steps.append((number, row))
        return sorted(steps, key=lambda step: step[1].timestamp)


class Weka(TraceReader):
    """WEKA's agent sessions: a session a file, ids that hold within it, subagents inside."""

    name = "weka"
    title = "agent sessions of WEKA's kv-cache-tester"

    def recognises(self, head: Head) -> bool:
        calls = head.first.get("requests")
        return isinstance(calls, list) and any(
            isinstance(call, dict) and ("hash_ids" in call or "requests" in call) and "t" in call
            for call in calls
        )

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a call; subagents are sessions of their own."""
        sessions = (
            sorted(self._session(record, number, given), key=lambda call: call[1].timestamp)
            for number, record in records
        )
        return by_session(_from_own_start(sessions, given))

    def _session(self, record: dict[str, Any], number: int, given: Given) -> Iterator[Numbered]:
        name = str(record.get("id", number))
        size = record.get("block_size") or given.block_size or 64
        is_local = record.get("hash_id_scope", "local") == "local"

        def calls(holder: dict[str, Any], session: str, start: float) -> Iterator[Numbered]:
            for call in holder["requests"]:
                at = start + millis(call["t"], given.time_unit or "s", "t")
                if "requests" in call:
                    agent = f"{session}/{call.get('agent_id', at)}"
                    yield from calls(call, agent, at)
                    continue
                if call.get("hash_ids") is None:
                    continue
                ids = call["hash_ids"]
                yield (
                    number,
                    Row(
                        timestamp=at,
                        input_length=count(call["in"], "in"),
                        output_length=count(call.get("out") or 0, "out"),
                        hash_ids=(
                            local_ids(ids, name, "hash_ids")
                            if is_local
                            else ids_of(ids, "hash_ids")
                        ),
                        block_size=size,
                        session_id=session,
                        type="agent" if session == name else "subagent",
                    ),
                )

        return calls(record, name, 0.0)


class Steps(TraceReader):
    """inference-lab's session files: a session a line, steps that say how much of them is new."""

    name = "steps"
    title = "inference-lab's session files (id and steps)"

    def recognises(self, head: Head) -> bool:
        steps = head.first.get("steps")
        return isinstance(steps, list) and any(
            isinstance(step, dict) and {"input", "new"} <= step.keys() for step in steps
        )

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a step."""
        given.remark(GAPS)
        sessions = (self._session(record, number, given) for number, record in records)
        return by_session(_from_own_start(sessions, given))

    def _session(self, record: dict[str, Any], number: int, given: Given) -> list[Numbered]:
        name, size = str(record.get("id", number)), given.block_size or 16
        steps: list[Numbered] = []
        time, context, ids, fresh = 0.0, 0, list[int](), 0
        for step in record["steps"]:
            prompt = max(count(step["input"], "input"), 1)
            answer = max(count(step["output"], "output"), 1)
            if steps:
                time += max(millis(step.get("gap") or 0, given.time_unit or "s", "gap"), 0)
            # Whole blocks of the prompt and the answer before it that this step goes on from.
            kept = min(max(prompt - count(step["new"], "new"), 0), context) // size
            ids = ids[:kept]
            context = prompt + answer
            more = context // size - len(ids)
            ids += range(fresh, fresh + more)
            fresh += more
            row = Row(
                timestamp=time,
                input_length=prompt,
                output_length=answer,
                hash_ids=local_ids(ids[: prompt // size], name, "steps"),
                block_size=size,
                session_id=name,
            )
            steps.append((number, row))
        return steps


class Copilot(TraceReader):
    """Agent sessions that count tokens and keep no prefixes."""

    name = "copilot"
    title = "agent sessions with token counts (turns, llm_calls)"
    lacks = "prefixes"

    def recognises(self, head: Head) -> bool:
        turns = head.first.get("turns")
        return isinstance(turns, list) and any(
            isinstance(turn, dict) and "llm_calls" in turn for turn in turns
        )

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a call, without ids."""
        return by_session(
            sorted(self._session(record, number, given), key=lambda call: call[1].timestamp)
            for number, record in records
        )

    def _session(self, record: dict[str, Any], number: int, given: Given) -> Iterator[Numbered]:
        for turn in record["turns"]:
            for call in turn.get("llm_calls") or ():
                tokens = call.get("tokens") or call
                time, key = found_in(call, ("timestamp", "start", "time"))
                row = Row(
                    timestamp=millis(time, given.time_unit or "s", key),
                    input_length=count(*found_in(tokens, ("prompt", "input"))),
                    output_length=count(first_of(tokens, ("completion", "output")) or 0, "output"),
                    session_id=record.get("session_id", number),
                )
                yield number, row
