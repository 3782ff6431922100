"""Sequences as lists of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from kvframe import MMItem, Retention

if TYPE_CHECKING:
    from .joins import Join

Token = int | None
"""None while its id is still being computed."""


@dataclass(frozen=True, repr=False)
class Ask:
    """A request, as `kvframe.Request` takes it."""

    tokens: tuple[int, ...]
    cache_salt: str = ""
    lora_name: str = ""
    mm_items: tuple[MMItem, ...] = ()
    encoder: bytes = b""
    encoder_tokens: int = 0
    read_cache: bool = True
    write_cache: bool = True
    resumed: bool = False
    partial: bool = False
    chunk: int | None = None
    budget: int | None = None
    """Of a step: no word of the request's own."""
    until: int | None = None
    max_seq_len: int = 0
    full_sequence_must_fit: bool = False
    num_external_tokens: int = 0
    external_until: int = 0
    join: bool = False
    session: int = 0
    turn: int = 0
    request_class: int = 0
    priority: int = 0
    retention: Retention | None = None
    keys_only: bool = False

    @property
    def nameless(self) -> bool:
        """What attends to an input without a name is nobody else's."""
        return self.encoder_tokens > 0 and not self.encoder

    @property
    def reads(self) -> bool:
        return self.read_cache and not self.nameless

    @property
    def inserts(self) -> bool:
        return self.write_cache and not self.nameless

    @property
    def space_name(self) -> tuple[str, str, bytes]:
        return self.cache_salt, self.lora_name, self.encoder

    @property
    def space(self) -> dict[str, Any]:
        names = ("cache_salt", "lora_name", "mm_items", "encoder")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        told = [f"{f.name}={said[f.name]!r}" for f in fields(self) if said[f.name] != f.default]
        return f"Ask({', '.join(told)})"


@dataclass
class Usage:
    """As `kvframe.results.Usage`."""

    read: int = 0
    created: int = 0
    joined: int = 0
    loaded: int = 0
    resumed: bool = False


@dataclass
class Seq:
    """A live sequence."""

    ask: Ask
    tokens: list[Token]
    mm_items: tuple[MMItem, ...]
    tables: list[list[int | None]]
    slots: int
    committed: int
    cached: int
    private: bool
    admitted: int
    whole: bool
    keyed: bool
    """Its tokens came as keys and are not known."""
    apart: tuple[int, int] | None = None
    """From which token on some were missing behind a sink as it was computed; whose it is."""
    origin: int = 0
    """The sequence that came in with its other input."""
    encoder_found: bool = False
    """Whether that input's blocks were found, or can be."""
    brought: int = 0
    """The end of what a load brings."""
    encoded: bool = False
    """Whether that input's KV has been computed."""
    hashed: int = 0
    """Tokens at the front, in whole blocks, whose keys are known."""
    joined: Join | None = None
    """The computation that it waits for, or waited for."""
    usage: Usage = field(default_factory=lambda: Usage())
    branch: int = 0
    """Tokens of the prompt that full attention alone would have found."""

    @property
    def filled(self) -> int:
        return self.tokens.index(None) if None in self.tokens else len(self.tokens)

    @property
    def has_encoder(self) -> bool:
        """What was computed elsewhere was not computed over the blocks that are here."""
        return self.encoder_found or self.committed > max(self.cached, self.brought)

    def key(self, group: int, upto: int) -> tuple[Any, ...]:
        return (group, *head(self.ask, self.tokens, self.mm_items, upto))

    def cut(self, length: int) -> None:
        """What is cut is gone, and so is what an item said of it."""
        self.keyed = self.keyed and length > 0
        self.apart = self.apart if self.apart and self.apart[0] < length else None
        del self.tokens[length:]
        inside = [e for e in self.mm_items if e.start < length]
        self.mm_items = tuple(e._replace(end=min(e.end, length)) for e in inside)

    def twin(self) -> Seq:
        tables = [list(table) for table in self.tables]
        return replace(self, tokens=list(self.tokens), tables=tables, whole=False, usage=Usage())

    def back(self) -> Ask:
        """The request that brings it back."""
        known = tuple(t for t in self.tokens[: self.filled] if t is not None)
        return Ask(
            known,
            self.ask.cache_salt,
            self.ask.lora_name,
            self.mm_items,
            self.ask.encoder,
            self.ask.encoder_tokens,
            read_cache=self.ask.read_cache,
            write_cache=self.ask.write_cache,
            resumed=True,
            chunk=self.ask.chunk,
            max_seq_len=self.ask.max_seq_len,
            full_sequence_must_fit=self.whole,
            session=self.ask.session,
            turn=self.ask.turn,
            request_class=self.ask.request_class,
            priority=self.ask.priority,
            keys_only=self.keyed,
        )


def head(
    ask: Ask, tokens: list[Token] | tuple[int, ...], extras: tuple[MMItem, ...], upto: int
) -> tuple[Any, ...]:
    """All that the KV of the first tokens depends on."""
    items = tuple((e.start, min(e.end, upto), e.id) for e in extras if e.start < upto)
    return (ask.cache_salt, ask.lora_name, ask.encoder, items, *tokens[:upto])


def cross_key(ask: Ask, group: int, row: int) -> tuple[Any, ...]:
    """All that the KV of another input depends on."""
    return (group, ask.cache_salt, ask.lora_name, ask.encoder, "input", ask.encoder_tokens, row)


@dataclass
class Ticket:
    """Something that keeps pages until it is settled: copies, a load, a lease."""

    copies: list[tuple[int | None, int, int, int]] = field(default_factory=list)
    """Source (None: from elsewhere), target, tokens, group."""
    held: list[int] = field(default_factory=list)
    start: int = -1
    """A load's first block of the hashing unit."""
    rows: int = 0
    """How many of them it brings."""
    owner: Seq | None = None
    """The sequence that a load was opened for."""
    lease: bool = False

    @property
    def kind(self) -> str:
        return "load" if self.rows else "lease" if self.lease else "copies"

    def blocks(self) -> list[int]:
        """All that it keeps, once for each time."""
        ends = [block for copy in self.copies for block in copy[:2] if block is not None]
        return ends + self.held
