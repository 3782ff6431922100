"""Text: conversations and requests as chat data sets, gateways and batches keep them.

A prompt is its messages one after the other, each under a line with its role, tokenised message by
A model's own chat template adds a few tokens in places. The prefixes that prompts share stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from kvframe.traces.failed import served
from kvframe.traces.forms.hashes import NO_TIMES, SESSION
from kvframe.traces.order import Numbered, by_session
from kvframe.traces.reader import Given, Head, Record, Row, TraceReader
from kvframe.traces.values import TIMES, count, first_of, found_in, millis, token_blocks

PLAIN_ROLES = (
    "messages are joined by plain lines with their roles: a model's chat template adds some tokens"
)
APART = "turns of a conversation are read as ten seconds apart: the form has one time for all"
IN_TURN = (
    "the form has no times: conversations follow one another, so a turn comes right after the one "
    "before it, and hit rates are higher than with conversations side by side"
)
GAP_MS = 10_000.0
BLOCK_SIZE = 16

_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bard": "assistant"}
_MARKS = {"max_tokens", "max_completion_tokens", "temperature", "stream", "usage", "response"}
_COUNTS = {"completion_tokens", "output_tokens", "prompt_tokens", "input_tokens"}
TENANT = ("tenant", "tenant_id", "user", "user_id")
"""What logs call whose request it is, wherever in a record it stands."""
_LISTS = ("conversations", "conversation", "messages")


class Prompt:
    """The tokens of a prompt that grows message by message."""

    def __init__(self, given: Given) -> None:
        assert given.tokenize is not None
        self._tokenize = given.tokenize
        self._size = given.block_size or BLOCK_SIZE
        self.tokens = np.zeros(0, np.uint32)

    def add(self, text: str) -> int:
        """Adds a text; the number of its tokens."""
        more = np.array(self._tokenize(text), np.uint32)
        self.tokens = np.concatenate([self.tokens, more])
        return len(more)

    def row(
        self,
        timestamp: float,
        output: int,
        session: int | str | None,
        tenant: str | None = None,
    ) -> Row:
        """The row of a request with all that was added."""
        return Row(
            timestamp=timestamp,
            input_length=len(self.tokens),
            output_length=output,
            hash_ids=token_blocks(self.tokens, self._size),
            block_size=self._size,
            session_id=session,
            type=tenant,
        )


class Conversations(TraceReader):
    """ShareGPT, LMSYS-Chat, WildChat and other lists of messages: a request for each answer."""

    name = "chat"
    title = "chat logs (ShareGPT, LMSYS, WildChat or alike)"
    lacks = "tokens"

    def recognises(self, head: Head) -> bool:
        for record in head.records:
            if not isinstance(record.value, dict) or "body" in record.value:
                return False
            messages = first_of(record.value, _LISTS)
            if not isinstance(messages, list):
                return False
            if messages:  # a conversation may have no message
                return isinstance(messages[0], dict) and not _is_request(record.value)
        return False

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row an answer; a prompt without one is a row too."""
        given.remark(PLAIN_ROLES)
        return by_session(self._conversations(records, given))

    def _conversations(self, records: Iterable[Record], given: Given) -> Iterator[list[Numbered]]:
        clock = 0.0
        rows = requests = 0
        for number, record in records:
            time, key = found_in(record, TIMES)
            start = clock if time is None else millis(time, given.time_unit or "s", key)
            messages = first_of(record, _LISTS)
            if not isinstance(messages, list):
                raise ValueError(f"no {' nor '.join(_LISTS)}")
            name = first_of(record, ("id", "conversation_id", "conversation_hash", *SESSION))
            turns = list(_turns(messages, given, start, name if name is not None else number))
            given.remark(IN_TURN if time is None else APART)
            if turns and time is None:
                clock = turns[-1].timestamp + GAP_MS
            rows, requests = rows + 1, requests + len(turns)
            yield [(number, row) for row in turns]
        if requests > rows:
            given.remark(
                f"{rows:,} rows became {requests:,} requests, one for each answer; --trace-format "
                "openai if each row is one request"
            )


class OpenAI(TraceReader):
    """Requests to an OpenAI-compatible API: batches, or logs with request and response."""

    name = "openai"
    title = "requests to an OpenAI-compatible API"
    lacks = "tokens"

    def recognises(self, head: Head) -> bool:
        body = _body(head.first)
        has_text = isinstance(body.get("messages"), list) or isinstance(body.get("prompt"), str)
        return has_text and (body is not head.first or _is_request(body))

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a record."""
        given.remark(PLAIN_ROLES)
        last = -1_000.0
        for number, record in served(records, given):
            body = _body(record)
            time, key = found_in(record, TIMES)
            if time is None:
                given.remark(NO_TIMES)
                given.unread_times(record)
            last = last + 1_000 if time is None else millis(time, given.time_unit or "s", key)
            yield number, _request(body, record, given, last)


class Gateway(OpenAI):
    """A gateway's table, with each request as JSON in a column."""

    name = "gateway"
    title = "a gateway's log with request_json"
    columns = ("request_json", "request_body", "request", "body")

    def recognises(self, head: Head) -> bool:
        text = first_of(_lower(head.first), self.columns)
        return isinstance(text, str) and text.lstrip().startswith("{")

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a record."""
        return super().rows((self._opened(record) for record in records), given)

    def _opened(self, record: Record) -> Record:
        value = _lower(record.value)
        text = first_of(value, self.columns)
        if not isinstance(text, str):
            raise ValueError(f"none of the columns {', '.join(self.columns)}")
        response = first_of(value, ("response_json", "response_body", "response"))
        is_json = isinstance(response, str) and response.lstrip().startswith("{")
        opened: dict[str, Any] = value | {"body": msgspec.json.decode(text)}
        opened["response"] = msgspec.json.decode(response) if is_json else None
        return Record(record.number, opened)


class Prompts(TraceReader):
    """A prompt a line, as vLLM's custom data sets have it."""

    name = "prompts"
    title = "prompts as text (vLLM's custom data sets)"
    lacks = "tokens"

    def recognises(self, head: Head) -> bool:
        return isinstance(first_of(head.first, ("prompt", "text", "input")), str)

    def rows(self, records: Iterable[Record], given: Given) -> Iterator[Numbered]:
        """A row a prompt."""
        last = -1_000.0
        for number, record in served(records, given):
            time, key = found_in(record, TIMES)
            if time is None:
                given.remark(NO_TIMES)
                given.unread_times(record)
            last = last + 1_000 if time is None else millis(time, given.time_unit or "s", key)
            prompt = Prompt(given)
            prompt.add(first_of(record, ("prompt", "text", "input")))
            output = first_of(record, ("output_tokens", "output_length", "max_tokens"))
            answer = first_of(record, ("completion", "response", "output"))
            if output is None and isinstance(answer, str):
                assert given.tokenize is not None
                output = len(given.tokenize(answer))
            yield number, prompt.row(last, count(output or 0, "output"), first_of(record, SESSION))


def _turns(
    messages: Sequence[Any], given: Given, start: float, session: int | str
) -> Iterator[Row]:
    """A row for each answer of a conversation."""
    prompt, at, is_asked = Prompt(given), start, False
    for message in messages:
        role, text = _message(message)
        time, key = found_in(message, TIMES)
        if time is not None:
            at = max(at, millis(time, given.time_unit or "s", key))
        if role == "assistant":
            assert given.tokenize is not None
            yield prompt.row(at, len(given.tokenize(text)), session)
            at += GAP_MS if time is None else 0
        is_asked = role != "assistant"
        prompt.add(f"<|{role}|>\n{text}\n")
    if is_asked:
        yield prompt.row(at, 0, session)


def _request(
    body: dict[str, Any],
    record: dict[str, Any],
    given: Given,
    timestamp: float,
) -> Row:
    """The row of one request; its own last answer, if it is there, is no part of the prompt."""
    prompt = Prompt(given)
    if body.get("tools"):  # chat templates write them before all messages
        prompt.add(f"<|tools|>\n{msgspec.json.encode(body['tools']).decode()}\n")
    messages = body.get("messages")
    if isinstance(messages, list):
        if messages and _message(messages[-1])[0] == "assistant":
            messages = messages[:-1]
        for message in messages:
            role, text = _message(message)
            prompt.add(f"<|{role}|>\n{text}\n")
    else:
        prompt.add(str(body.get("prompt", "")))
    response = record.get("response") or {}
    response = response.get("body", response) if isinstance(response, dict) else {}
    usage = first_of(response, ("usage",)) or first_of(record, ("usage",)) or {}
    output = first_of(usage, ("completion_tokens", "output_tokens"))
    if output is None:
        output = first_of(record, ("completion_tokens", "output_tokens"))
    if output is None:
        output = first_of(body, ("max_tokens", "max_completion_tokens"))
    answered = count(output or 0, "completion_tokens")
    return prompt.row(timestamp, answered, _named(record, body, SESSION), _tenant(record, body))


def _message(message: Any) -> tuple[str, str]:
    """Role and text of a message of any of the vocabularies."""
    if not isinstance(message, dict):
        raise ValueError(f"a message must be an object, not {type(message).__name__}")
    role = str(first_of(message, ("role", "from")) or "user")
    content = first_of(message, ("content", "value", "text"))
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "".join(part for part in parts if isinstance(part, str))
    text = content if isinstance(content, str) else ""
    if message.get("tool_calls"):
        text += msgspec.json.encode(message["tool_calls"]).decode()
    return _ROLES.get(role, role), text


def _body(record: dict[str, Any]) -> dict[str, Any]:
    """The request inside a record, or the record itself."""
    inside = first_of(record, ("body", "request", "request_body"))
    return inside if isinstance(inside, dict) else record


def _named(record: dict[str, Any], body: dict[str, Any], keys: Sequence[str]) -> Any:
    """What a record says under one of the keys, or its request; in the metadata of either too."""
    places = [record, record.get("metadata"), body, body.get("metadata")]
    found = (first_of(place, keys) for place in places if isinstance(place, dict))
    return next((name for name in found if name is not None), None)


def _tenant(record: dict[str, Any], body: dict[str, Any]) -> str | None:
    """The tenant, or else the user, as text; an object names none."""
    named = (_named(record, body, (key,)) for key in TENANT)
    found = next((name for name in named if isinstance(name, int | str)), None)
    return None if found is None else str(found)


def _is_request(record: dict[str, Any]) -> bool:
    """Whether a row with messages is one request: it says how to answer, or what the answer took.

    A data set's rows may name a model, and count tokens of a conversation that ends with an answer.
    """
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        return False
    if _MARKS & record.keys():
        return True
    is_open = _message(messages[-1])[0] != "assistant"
    return is_open and bool(_COUNTS & record.keys())


def _lower(record: dict[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in record.items()}
