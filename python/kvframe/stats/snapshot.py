"""A copy of everything that a manager holds at one instant. Later calls do not change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.arguments import is_int, shown
from kvframe.errors import UnknownSequenceError, UsageError
from kvframe.results import BlockCounts, Lengths, Pressure
from kvframe.stats.counters import Counters
from kvframe.stats.rates import Miss, MissReason, miss_of

STATES = ("free", "pending", "committed", "cached", "taken", "null")
"""States of a block, each at its number in `Blocks.state`."""

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Blocks:
    """The pool as columns, one row a block.

    Attributes:
        state: uint8, a place in `STATES`.
        refs: uint32, owners.
        group: uint8, layer group of a block in use.
        generation: uint32, how often the id was freed.
        parent: int32, the findable block it follows; -1 for none.
        priority: uint8, its retention priority.
        depth: uint32, its place in the prefix.
        key: uint64 of shape (blocks, 2), low word first; zero where it is not findable.
    """

    state: npt.NDArray[np.uint8]
    refs: npt.NDArray[np.uint32]
    group: npt.NDArray[np.uint8]
    generation: npt.NDArray[np.uint32]
    parent: Ids
    priority: npt.NDArray[np.uint8]
    depth: npt.NDArray[np.uint32]
    key: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class SequenceState:
    """A live sequence; ``tables`` holds a block table a layer group, -1 where none is kept.

    ``admitted`` is the tick of its admission, ``private`` whether it leaves nothing more findable,
    ``unknown`` how many of its tokens have no ids yet; ``encoder`` names another input of
    ``encoder_tokens`` tokens that it attends to. With ``stand_in`` it is no longer live: it ended
    before its load, and its blocks are kept until that is settled.
    """

    seq: int
    lengths: Lengths
    unknown: int
    private: bool
    tables: tuple[Ids, ...]
    session: int
    turn: int
    request_class: int
    priority: int
    admitted: int
    max_tokens: int
    tenant: bytes
    salt: bytes
    adapter: bytes
    encoder: bytes
    encoder_tokens: int
    miss: Miss | None
    stand_in: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> SequenceState:
        """A sequence, from the core's values."""
        session, turn, request_class, priority = row["meta"]
        return cls(
            seq=row["seq"],
            lengths=Lengths(*row["lengths"]),
            unknown=row["unknown"],
            private=row["private"],
            tables=tuple(row["tables"]),
            session=session,
            turn=turn,
            request_class=request_class,
            priority=priority,
            admitted=row["admitted"],
            max_tokens=row["max_tokens"],
            tenant=row["tenant"],
            salt=row["salt"],
            adapter=row["adapter"],
            encoder=row["encoder"],
            encoder_tokens=row["encoder_tokens"],
            miss=miss_of(row["miss"]),
            stand_in=row["stand_in"],
        )

    def explain(self) -> str:
        """The sequence in words."""
        known, slots, committed, cached = self.lengths
        tables = "; ".join(
            f"group {group}: {np.count_nonzero(table >= 0)} blocks"
            for group, table in enumerate(self.tables)
        )
        lines = [
            f"sequence {self.seq}: {known} tokens known, {slots} with slots, "
            f"{committed} computed, "
            f"{cached} found at admission (tick {self.admitted}).",
            f"It holds {tables}.",
        ]
        if self.miss is not None:
            lines.append(f"Its prefix ended there: {_why(self.miss)}.")
        if self.stand_in:
            lines.append("It stands in for one that ended before its load.")
        if self.unknown:
            lines.append(f"The ids of its last {self.unknown} tokens are not known yet.")
        if self.private:
            lines.append("What it computes is left for nobody to find.")
        return "\n".join(lines)


@dataclass(frozen=True)
class TicketState:
    """A ticket not settled: ``kind`` is plan, load or lease; ``ticket`` 0 is the plan to come.

    ``copies`` is int32 (n, 4) as in `kvframe.CopyPlan`, the source -1 in a load; ``held`` are
    blocks that it keeps besides.
    """

    ticket: int
    kind: str
    copies: Ids
    held: Ids


@dataclass(frozen=True)
class Snapshot:
    """All of a manager at one instant.

    Attributes:
        tick: Logical clock.
        counts: Blocks free, cached, referenced, total.
        usage: Share of blocks in use, 0 to 1.
        pressure: The level when it was asked last.
        asleep: Whether it sleeps.
        passed: The last step known to have run.
        stats: The counters.
        blocks: The pool.
        sequences: Live sequences by handle.
        tickets: Copies, loads and leases not settled.
        fences: (step, blocks that wait for it).
        pins: (receipt, blocks that it keeps).
        held: (findable block, how often it is held one by one).
    """

    tick: int
    counts: BlockCounts
    usage: float
    pressure: Pressure
    asleep: bool
    passed: int | None
    stats: Mapping[str, int]
    blocks: Blocks
    sequences: Mapping[int, SequenceState]
    tickets: tuple[TicketState, ...]
    fences: tuple[tuple[int, Ids], ...]
    pins: tuple[tuple[int, Ids], ...]
    held: tuple[tuple[int, int], ...]
    block_size: int

    @classmethod
    def of(cls, told: Mapping[str, Any], block_size: int) -> Snapshot:
        """A snapshot, from the core's values."""
        return cls(
            tick=told["tick"],
            counts=BlockCounts(*told["counts"]),
            usage=told["usage"],
            pressure=Pressure(told["pressure"]),
            asleep=told["asleep"],
            passed=told["passed"],
            stats=told["stats"],
            blocks=Blocks(**told["blocks"]),
            sequences={row["seq"]: SequenceState.of(row) for row in told["sequences"]},
            tickets=tuple(TicketState(*row) for row in told["tickets"]),
            fences=tuple(told["fences"]),
            pins=tuple(told["pins"]),
            held=tuple(told["held"]),
            block_size=block_size,
        )

    def states(self) -> dict[str, int]:
        """How many blocks are in each state."""
        counted = Counter(self.blocks.state.tolist())
        return Counters({name: counted[number] for number, name in enumerate(STATES)})

    def explain_sequence(self, seq: int) -> str:
        """A sequence in words.

        Raises:
            UnknownSequenceError: It was not live.
        """
        row = self.sequences.get(seq)
        if row is None:
            raise UnknownSequenceError(f"sequence {seq} is not live")
        return row.explain()

    def explain_block(self, block: int) -> str:
        """A block in words.

        Raises:
            UsageError: There is no such block.
        """
        blocks = self.blocks
        if not is_int(block) or not 0 <= block < len(blocks.state):
            raise UsageError(
                f"block = {shown(block)}: the pool has blocks 0 to {len(blocks.state) - 1}"
            )
        block = int(block)  # True is a mask to NumPy.
        name = STATES[blocks.state[block]]
        lines = [f"block {block} is {name}, {blocks.refs[block]} owners."]
        if name in ("committed", "cached"):
            parent = blocks.parent[block]
            after = f"after block {parent}" if parent >= 0 else "first of its chain"
            key = blocks.key[block]
            lines.append(
                f"Findable under {int(key[1]):016x}{int(key[0]):016x}: place {blocks.depth[block]}"
                f" of a prefix, {after}, group {blocks.group[block]}."
            )
        children = int(np.count_nonzero(blocks.parent == block))
        if name == "cached":
            may = f"not before the {children} blocks that follow it" if children else "now"
            lines.append(f"It may be evicted: {may}.")
        lines += [f"Held by {owner}." for owner in self._owners(block)]
        return "\n".join(lines)

    def _owners(self, block: int) -> list[str]:
        owners = [
            f"sequence {row.seq} (group {group}, entry {at})"
            for row in self.sequences.values()
            for group, table in enumerate(row.tables)
            for at in np.flatnonzero(table == block)
        ]
        for ticket in self.tickets:
            times = np.count_nonzero(ticket.copies[:, :2] == block)
            if times + np.count_nonzero(ticket.held == block):
                owners.append(f"the {ticket.kind} of ticket {ticket.ticket}")
        owners += [f"the fence of step {step}" for step, ids in self.fences if block in ids]
        owners += [f"the pin of receipt {receipt}" for receipt, ids in self.pins if block in ids]
        owners += [f"its own holds ({times})" for held, times in self.held if held == block]
        return owners


def _why(miss: Miss) -> str:
    if miss.reason is MissReason.GROUP:
        return f"layer group {miss.group} could not go on"
    ago = "" if miss.ago is None else f" {miss.ago} ticks before"
    return miss.reason.name.lower().replace("_", " ") + ago
