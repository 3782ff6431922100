"""What a manager has, and the words for it. The verbs are in the modules after this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import gcd, lcm
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
from .sequence import Ask, Seq, Ticket

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
class Pace:
    """Tokens of a prompt come in steps, which start so many tokens apart or a multiple of that."""

    prompt: int
    chunk: int
    apart: int


@dataclass
class Way:
    """A sequence that is to become longer."""

    encoder: int
    committed: int
    cached: int
    tables: list[list[int | None]]
    slots: int
    pace: Pace
    shared: Callable[[int, int], bool]
    """Whether others own a block of its tables (group, row) too."""


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
    inner_counts: tuple[int, int, int] = (0, 0, 0)
    """Tokens of this period: those that full attention alone would find, found, computed."""
    inner_kept: int = 0
    """Periods for which blocks within prompts are as good as others."""

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

    def peak(self, first: int, slots: int, tokens: int, held: Callable[[int], int]) -> int:
        """The most blocks held on the way. Beyond some length only full attention holds more."""
        kinds = [kind for kind in self.kinds if not kind.cross]
        period = lcm(self.unit, *(kind.window for kind in kinds if kind.kind == "chunked"))
        early = max(k.sink + 2 * k.window + k.lag + 6 * k.span for k in kinds) + period
        rounds = max(tokens - max(first, slots) - early, 0) // period
        lengths = range(first, tokens - rounds * period)
        more = rounds * sum(period // kind.span for kind in kinds if kind.full)
        return max((held(at) for at in lengths), default=0) + more

    def most(self, tokens: int, encoder: int) -> int:
        """Blocks that a sequence of so many tokens holds at once, at some length."""
        most = self.peak(0, 0, tokens, lambda at: sum(len(k.held(at, 0)) for k in self.kinds))
        return most + sum(self.rows(0, encoder))

    def pace(self, prompt: int, chunk: int | None) -> Pace:
        """Without a chunk, what did not come at once comes in steps that are not known before."""
        step = max(1 if chunk is None else chunk, 1)
        # Behind a hit, which is of whole units but where partial blocks are found.
        return Pace(prompt, step, 1 if self.partial else gcd(step, self.unit))

    def in_steps(self, first: int, pace: Pace, held: Callable[[int, int], int]) -> int:
        """The most blocks held in steps from a length on."""
        ends = [
            (at, min(at + pace.chunk, pace.prompt)) for at in range(first, pace.prompt, pace.apart)
        ]
        return max((held(at, to) for at, to in ends), default=0)

    def alone(self, ask: Ask) -> int:
        """Blocks that a request holds on its way, alone in the pool, whatever is found."""
        known, encoder = len(ask.tokens), ask.encoder_tokens
        until = min(known, known if ask.until is None else ask.until)
        every = known + ask.num_external_tokens + 1
        step = min(n for n in (ask.chunk, ask.budget, every) if n is not None)

        def steps(pace: Pace) -> int:
            return self.in_steps(
                0, pace, lambda at, to: sum(len(k.held(at, 0, to)) for k in self.kinds)
            )

        def first(prompt: int, step: int) -> int:
            return steps(Pace(min(prompt, known), max(step, 1), 1 if self.partial else self.unit))

        pace = self.pace(known, ask.chunk)
        most = steps(replace(pace, apart=1) if until < known or ask.partial else pace)
        end = self.whole(min(ask.external_until, known))
        if ask.partial:
            pass  # Its first step takes what there is.
        elif ask.num_external_tokens:
            most = max(
                most, first(max(until, ask.num_external_tokens), ask.num_external_tokens + step)
            )
            most = max(most, first(known, ask.num_external_tokens))
        elif end:
            to = min(end + step, max(until, end), known)
            most = max(most, first(to, max(to, 1)))
        else:
            most = max(most, first(until, step))
        longest = self.most(max(known, ask.max_seq_len), encoder)
        return max(longest, most + sum(self.rows(0, encoder)))

    def held_alone(self, s: Seq, until: int) -> int:
        """Blocks of a sequence with slots up to a length, once all before them are computed."""
        rows = [len(k.held_after(k.computed(s.slots, s.cached), until)) for k in self.kinds]
        return sum(rows) + sum(self.rows(0, s.ask.encoder_tokens))

    def rows(self, tokens: int, encoder: int = 0) -> list[int]:
        """Blocks of each group's table."""
        return [kind.rows(encoder if kind.cross else tokens) for kind in self.kinds]

    def whole(self, tokens: int) -> int:
        return tokens // self.unit * self.unit

    def coming(self, ask: Ask, good: int, until: int, tables: list[list[int | None]]) -> Way:
        """A sequence that is about to own those blocks, of which the first tokens are computed, and
        to have slots up to a length.
        """

        def shared(group: int, row: int) -> bool:
            return bool(self.of([tables[group][row]])[0].owners)

        pace = self.pace(len(ask.tokens), ask.chunk)
        return Way(ask.encoder_tokens, good, good, tables, until, pace, shared)

    def lacks(self, tokens: int, way: Way) -> int:
        """Blocks that a sequence may yet take on its way to so many tokens."""
        pairs = [(g, kind) for g, kind in enumerate(self.kinds) if not kind.cross]
        own, theirs = 0, []
        for group, kind in pairs:
            table, gone = way.tables[group], kind.gone(kind.computed(way.committed, way.cached))
            shared = [block is not None and way.shared(group, i) for i, block in enumerate(table)]
            theirs.append(kind.shared_front(gone, shared))
            own += sum(row not in theirs[-1] and row not in gone for row in range(len(table)))

        def held(at: int, to: int | None = None) -> int:
            # What others own too is no new block while it is held, and frees none when it is left.
            rows = zip(pairs, theirs, strict=True)
            return sum(len(kind.held(at, way.cached, to) - shared) for (_, kind), shared in rows)

        tables = [(kind, way.tables[g]) for g, kind in enumerate(self.kinds) if kind.cross]
        missing = sum(max(kind.rows(way.encoder) - len(table), 0) for kind, table in tables)
        slots = max(len(way.tables[group]) * kind.span for group, kind in pairs)
        most = self.peak(way.committed, slots, tokens, held)
        most = max(most, self.in_steps(way.slots, way.pace, held))
        return max(most - own, 0) + missing

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

    def kept(self, found: list[list[int | None]]) -> int:
        """Blocks that running sequences may still ask for, where somebody finds those blocks."""
        if not self.seqs and not self.orphans:
            return 0

        def way(s: Seq) -> Way:
            def shared(group: int, row: int) -> bool:
                block, also = s.tables[group][row], found[group][row : row + 1]
                return len(self.of([block])[0].owners) > 1 or also == [block]

            pace = self.pace(len(s.tokens), s.ask.chunk)
            encoder = s.ask.encoder_tokens
            return Way(encoder, s.committed, s.cached, s.tables, s.slots, pace, shared)

        whole = [s for s in self.seqs.values() if s.whole]
        return self.spare + sum(
            self.lacks(max(s.ask.max_seq_len, len(s.tokens)), way(s)) for s in whole
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
