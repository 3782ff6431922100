"""Sequences as lists of tokens, and what each kind of layer group needs and keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from kvframe import Extra

Token = int | None
"""None while its id is still being computed."""


@dataclass(frozen=True, repr=False)
class Ask:
    """A request, as `kvframe.Request` takes it."""

    tokens: tuple[int, ...]
    salt: str = ""
    adapter: str = ""
    extras: tuple[Extra, ...] = ()
    read: bool = True
    insert: bool = True
    resumed: bool = False
    partial: bool = False
    chunk: int | None = None
    until: int | None = None
    max_tokens: int = 0
    whole_sequence: bool = False
    external: int = 0
    priority: int = 0
    keys_only: bool = False

    def __repr__(self) -> str:
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        told = [f"{f.name}={said[f.name]!r}" for f in fields(self) if said[f.name] != f.default]
        return f"Ask({', '.join(told)})"


@dataclass
class Seq:
    """A live sequence."""

    ask: Ask
    tokens: list[Token]
    extras: tuple[Extra, ...]
    tables: list[list[int | None]]
    slots: int
    committed: int
    cached: int
    private: bool
    admitted: int
    whole: bool
    keyed: bool
    """Its tokens came as keys and are not known."""

    @property
    def filled(self) -> int:
        return self.tokens.index(None) if None in self.tokens else len(self.tokens)

    def key(self, group: int, upto: int) -> tuple[Any, ...]:
        return (group, *head(self.ask, self.tokens, self.extras, upto))

    def cut(self, length: int) -> None:
        """What is cut is gone, and so is what an item said of it."""
        self.keyed = self.keyed and length > 0
        del self.tokens[length:]
        inside = [e for e in self.extras if e.start < length]
        self.extras = tuple(e._replace(end=min(e.end, length)) for e in inside)

    def twin(self) -> Seq:
        tables = [list(table) for table in self.tables]
        return replace(self, tokens=list(self.tokens), tables=tables, whole=False)

    def back(self) -> Ask:
        """The request that brings it back."""
        known = tuple(t for t in self.tokens[: self.filled] if t is not None)
        return Ask(
            known,
            self.ask.salt,
            self.ask.adapter,
            self.extras,
            insert=self.ask.insert,
            resumed=True,
            max_tokens=self.ask.max_tokens,
            whole_sequence=self.whole,
            priority=self.ask.priority,
            keys_only=self.keyed,
        )


def head(
    ask: Ask, tokens: list[Token] | tuple[int, ...], extras: tuple[Extra, ...], upto: int
) -> tuple[Any, ...]:
    """All that the KV of the first tokens depends on."""
    items = tuple((e.start, min(e.end, upto), e.id) for e in extras if e.start < upto)
    return (ask.salt, ask.adapter, items, *tokens[:upto])


class Kind(NamedTuple):
    """A layer group's rule."""

    full: bool
    first: Callable[[int], int]
    """The first token that the token at a place still attends to."""
    run: int | None = None
    """Tokens that a token attends to at the most, itself included; None: all."""

    def most(self, tokens: int, size: int) -> int:
        """Blocks that a sequence of so many tokens holds, growing one by one."""
        rows = -(-tokens // size)
        return rows if self.run is None else min(rows, -(-(self.run - 1) // size) + 1)


KINDS: dict[str, Callable[[int], Kind]] = {
    "full": lambda _: Kind(True, lambda at: 0),
    "sliding_window": lambda window: Kind(False, lambda at: max(at + 1 - window, 0), window),
}


@dataclass
class Ticket:
    """Something that keeps pages until it is settled: copies, a load, a lease."""

    copies: list[tuple[int | None, int, int, int]] = field(default_factory=list)
    """Source (None: from elsewhere), target, tokens, group."""
    held: list[int] = field(default_factory=list)
    start: int = -1
    """A load's first row."""
    rows: int = 0
    lease: bool = False
