"""What a manager has, and the words for it. The verbs are in the modules after this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvframe import (
    CapacityError,
    HandleError,
    KVFrameError,
    StaleHandleError,
    UsageError,
)

from .kinds import Kind, step, unit
from .pool import Block, Pool
from .sequence import Seq, Ticket

if TYPE_CHECKING:
    from .joins import Join

Tables = Callable[[int], list[list[int]]]


class RefusalError(Exception):
    """The error that a call must raise, having changed nothing."""

    def __init__(self, error: type[KVFrameError]) -> None:
        self.error = error


def need(holds: bool, error: type[KVFrameError] = UsageError) -> None:
    if not holds:
        raise RefusalError(error)


@dataclass
class Model:
    """Handles, tickets and free blocks are told to it."""

    pool: Pool
    size: int
    kinds: list[Kind]
    tables: Tables
    """The manager's tables of a sequence: which free blocks a call took."""
    caching: bool = True
    spare: int = 0
    """Blocks that admissions leave to running sequences."""
    seqs: dict[int, Seq] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)
    tickets: dict[int, Ticket] = field(default_factory=dict)
    gathering: Ticket = field(default_factory=Ticket)
    fences: list[tuple[int, list[int]]] = field(default_factory=list)
    passed: int = -1
    fence: int | None = None
    asleep: bool = False
    orphans: dict[int, tuple[int, Seq]] = field(default_factory=dict)
    """By ticket: what keeps the place of a load that outlives its sequence, with its slot."""
    vacant: list[int] = field(default_factory=list)
    """Slots of handles that were left, the last one is taken first."""
    used: int = 0
    by_key: bool = True
    """Whether the index goes by keys; otherwise by the tokens themselves."""
    remaps: bool = False
    partial: bool = False
    joins: list[Join] = field(default_factory=list)
    """Computations that others wait for, in the order they were joined."""
    rewound: list[int] = field(default_factory=list)
    remapped: list[tuple[Seq, int, int, int]] = field(default_factory=list)
    """Sequence, group, place, block."""
    pins: dict[int, list[list[int]]] = field(default_factory=dict)
    """By receipt, in each group."""
    deadlines: dict[int, int] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    """Of blocks in hand, the one that each follows."""

    def __post_init__(self) -> None:
        self.unit = unit(self.kinds)
        self.step = step(self.kinds)
        wide = any(k.span != self.size or k.lag for k in self.kinds)
        kinds = {kind.kind for kind in self.kinds}
        self.plain = not wide and kinds <= {"full", "sliding_window"}
        """Whether all layers go by the same rows of blocks."""

    # --- small words --------------------------------------------------------------------------

    def live(self, seq: int) -> Seq:
        need(seq not in self.ended, StaleHandleError)
        need(seq in self.seqs, HandleError)
        return self.seqs[seq]

    def of(self, ids: Iterable[int | None]) -> list[Block]:
        return [self.pool.blocks[i] for i in ids if i is not None]

    def every(self) -> list[tuple[int, Seq]]:
        """Sequences, those that keep a load's place too, by the low half of their handles."""
        every = [*self.seqs.items(), *self.orphans.values()]
        return sorted(every, key=lambda item: item[0] & 0xFFFFFFFF)

    def take_slot(self) -> int:
        if self.vacant:
            return self.vacant.pop()
        self.used += 1
        return self.used - 1

    def all_most(self, tokens: int, encoder: int) -> list[int]:
        """Blocks that a sequence of so many tokens holds, group by group."""
        return [k.rows(encoder) if k.cross else k.most(tokens) for k in self.kinds]

    def most(self, tokens: int, encoder: int) -> int:
        return sum(self.all_most(tokens, encoder))

    def rows(self, tokens: int, encoder: int = 0) -> list[int]:
        """Blocks of each group's table."""
        return [kind.rows(encoder if kind.cross else tokens) for kind in self.kinds]

    def whole(self, tokens: int) -> int:
        return tokens // self.unit * self.unit

    def lacks(self, tokens: int, encoder: int, tables: list[list[int | None]]) -> int:
        """Blocks that a sequence with these tables may yet take on its way to that length."""
        held = [len(table) - table.count(None) for table in tables]
        most = self.all_most(tokens, encoder)
        return sum(max(m - h, 0) for m, h in zip(most, held, strict=True))

    def copies(self) -> list[tuple[int | None, int, int, int]]:
        return [c for t in (self.gathering, *self.tickets.values()) for c in t.copies]

    def loading(self, s: Seq, blocks: Iterable[int | None], settled: Iterable[int] = ()) -> bool:
        """Whether somebody else fills any of them: a load, or the computation it joined."""
        loads = [t for n, t in self.tickets.items() if t.rows and n not in settled]
        pages = {dst for t in loads for _, dst, _, _ in t.copies}
        if s.joined is not None:
            pages |= {block for row in s.joined.rows for block in row}
        return bool(pages & set(blocks))

    def check_room(self, blocks: int, room: int, asleep: bool | None = None) -> None:
        need(not (self.asleep if asleep is None else asleep))
        if blocks > room:
            self.pool.count("refused")
        need(blocks <= room, CapacityError)

    def kept(self) -> int:
        """Blocks that running sequences may still ask for."""
        if not self.seqs and not self.orphans:
            return 0
        whole = [s for s in self.seqs.values() if s.whole]
        longest = [(s, max(s.ask.max_tokens, len(s.tokens))) for s in whole]
        return self.spare + sum(
            self.lacks(tokens, s.ask.encoder_tokens, s.tables) for s, tokens in longest
        )

    def is_cut(self, s: Seq) -> bool:
        """What is computed without tokens behind a sink is not what the prefix alone says."""
        sinks = [g for g, kind in enumerate(self.kinds) if kind.kind == "sink_window"]
        return any(None in s.tables[group] for group in sinks)

    def is_found(self, block: int | None) -> bool:
        return block is not None and self.pool.blocks[block].key is not None

    def has_other(self, block: int | None) -> bool:
        """Somebody else reads it: it is copied before it is written."""
        owners = [] if block is None else self.pool.blocks[block].owners
        return len([o for o in owners if o != "copy"]) > 1
