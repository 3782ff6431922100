"""What policies go by, and a trace does not tell: their figures show only how they break ties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kvframe.bench.policies import Choice
from kvframe.bench.traces import Source

LACKS = {
    "ttl": "durations that requests ask for; it has those of its options alone",
    "priority": "priorities",
    "session": "sessions",
    "rr-evict": "sessions",
    "workload": "classes of requests",
    "next-use": "next uses",
}
"""Built-in policies that go by what a request says, and what a trace has none of."""

_OF_COLUMNS: Mapping[str, str] = {
    "session": "sessions",
    "turn": "sessions",
    "request_class": "classes of requests",
    "priority": "priorities",
    "next_use": "next uses",
    "tenant": "tenants",
    "copies": "copies in other engines",
}
"""The columns of policies in Python that a replay may leave without a fact, and what is missing."""

_FOUND: Mapping[str, Callable[[Source], bool]] = {
    "sessions": lambda source: bool((source.facts.session >= 0).any()),
    "classes of requests": lambda source: bool(source.trace.classes),
}
"""What a trace may have; of all else no trace tells."""

_SESSIONS_ARE_IN = "--trace agent has sessions"


def lacks(replayed: Iterable[tuple[Choice, Source]]) -> list[str]:
    """A sentence for each policy that went by facts which no trace, or not this one, had."""
    pairs = list(dict.fromkeys(replayed))
    return [*_of_builtin(pairs), *dict.fromkeys(_of_columns(pairs))]


def _of_builtin(pairs: Iterable[tuple[Choice, Source]]) -> Iterable[str]:
    found: dict[str, bool] = {}
    for choice, source in pairs:
        fact = LACKS.get(choice.name)
        if fact is not None:
            found[choice.name] = found.get(choice.name, False) or _has(source, fact)
    for name, has in found.items():
        if not has:
            where = f"; {_SESSIONS_ARE_IN}" if LACKS[name] == "sessions" else ""
            yield f"The trace has no {LACKS[name]}: {name} had none to go by{where}."


def _of_columns(pairs: Iterable[tuple[Choice, Source]]) -> Iterable[str]:
    for choice, source in pairs:
        asked = [name for name in choice.columns(source.trace.block_size) if name in _OF_COLUMNS]
        empty = [name for name in asked if not _has(source, _OF_COLUMNS[name])]
        if empty:
            facts = list(dict.fromkeys(_OF_COLUMNS[name] for name in empty))
            where = f" {_SESSIONS_ARE_IN}." if "sessions" in facts else ""
            yield (
                f"{source.name} has no {' and no '.join(facts)}: {choice.label} learnt nothing "
                f"from {', '.join(empty)}.{where}"
            )


def _has(source: Source, fact: str) -> bool:
    return fact in _FOUND and _FOUND[fact](source)
