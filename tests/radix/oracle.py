"""A prefix cache under lru that keeps whole prefixes in a dict: slow, and short enough to trust.

It is told which free blocks its manager took, and foretells the rest: how long a hit is and which
blocks it is made of, whether there is room, who owns what, and in which order cached blocks die.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Path = tuple[int, ...]


@dataclass(eq=False)
class Block:
    """A findable block: its whole prefix, whom it follows, and its standing."""

    id: int
    path: Path
    parent: Block | None
    owners: int = 1
    children: int = 0
    released: int = 0


@dataclass(eq=False)
class Sequence:
    """A running sequence: tokens, slots for all of them, and its table."""

    tokens: list[int]
    table: list[int]
    blocks: list[Block] = field(default_factory=list)
    committed: int = 0


class Oracle:
    """The model of a manager of ``capacity`` blocks of ``size`` tokens."""

    def __init__(self, capacity: int, size: int) -> None:
        self.capacity = capacity
        self.size = size
        # Copies of a block stand beside each other; the lowest is found.
        self.found: dict[Path, list[Block]] = {}
        self.sequences: dict[int, Sequence] = {}
        self.pins: dict[int, list[Block]] = {}
        self.clock = 0

    # --- what can be seen -----------------------------------------------------------------------

    def blocks(self) -> list[Block]:
        """Every findable block."""
        return [block for copies in self.found.values() for block in copies]

    def order(self) -> list[int]:
        """Cached blocks, the next to die first."""
        cached = [block for block in self.blocks() if block.owners == 0]
        return [block.id for block in sorted(cached, key=lambda block: block.released)]

    def counts(self) -> tuple[int, int, int, int]:
        """Free, cached, referenced and all blocks."""
        findable = self.blocks()
        cached = sum(block.owners == 0 for block in findable)
        pending = sum(len(s.table) - len(s.blocks) for s in self.sequences.values())
        referenced = len(findable) - cached + pending
        return (self.capacity - cached - referenced, cached, referenced, self.capacity)

    def longest(self, tokens: list[int], most: int) -> list[Path]:
        """The prefixes of ``tokens`` that are there, up to ``most`` tokens."""
        paths = [tuple(tokens[:end]) for end in range(self.size, most + 1, self.size)]
        there: list[Path] = []
        for path in paths:
            if path not in self.found:
                break
            there.append(path)
        return there

    def chain(self, paths: list[Path]) -> list[Block]:
        """The block that stands for the last prefix, and those that it follows."""
        chain = []
        block = min(self.found[paths[-1]], key=lambda copy: copy.id) if paths else None
        while block is not None:
            chain.append(block)
            block = block.parent
        return chain[::-1]

    def hit(self, tokens: list[int]) -> int:
        """Tokens that a lookup finds: never all of a prompt."""
        return len(self.longest(tokens, len(tokens) - 1)) * self.size

    # --- verbs ----------------------------------------------------------------------------------

    def fits(self, tokens: list[int]) -> bool:
        """Whether a prompt could be admitted now."""
        hits = self.chain(self.longest(tokens, len(tokens) - 1))
        free, cached, *_ = self.counts()
        claimed = sum(block.owners == 0 for block in hits)
        return -(-len(tokens) // self.size) - len(hits) <= free + cached - claimed

    def admit(self, seq: int, tokens: list[int], table: list[int]) -> None:
        """A prompt came in with that block table."""
        hits = self.chain(self.longest(tokens, len(tokens) - 1))
        assert [block.id for block in hits] == table[: len(hits)]
        for block in hits:
            block.owners += 1
        self._make_room(len(table) - len(hits))
        sequence = Sequence(list(tokens), list(table), hits, len(hits) * self.size)
        self.sequences[seq] = sequence

    def append(self, seq: int, tokens: list[int], table: list[int]) -> None:
        """A sequence grew."""
        sequence = self.sequences[seq]
        self._make_room(len(table) - len(sequence.table))
        sequence.tokens += tokens
        sequence.table = list(table)

    def room_for(self, seq: int, tokens: int) -> bool:
        """Whether a sequence could grow by that much."""
        sequence = self.sequences[seq]
        rows = -(-(len(sequence.tokens) + tokens) // self.size) - len(sequence.table)
        free, cached, *_ = self.counts()
        return rows <= free + cached

    def commit(self, seq: int, upto: int) -> None:
        """A sequence is computed up to there."""
        sequence = self.sequences[seq]
        sequence.committed = upto
        for at in range(len(sequence.blocks), upto // self.size):
            path = tuple(sequence.tokens[: (at + 1) * self.size])
            parent = sequence.blocks[-1] if sequence.blocks else None
            block = Block(sequence.table[at], path, parent)
            if parent is not None:
                parent.children += 1
            self.found.setdefault(path, []).append(block)
            sequence.blocks.append(block)

    def release(self, seq: int) -> None:
        """A sequence ended."""
        self._disown(self.sequences.pop(seq).blocks)

    def pin(self, receipt: int, tokens: list[int], last: int) -> None:
        """What is there of a prompt is pinned; ``last`` is the block it ends with."""
        chain = self.chain(self.longest(tokens, len(tokens)))
        assert chain[-1].id == last
        for block in chain:
            block.owners += 1
        self.pins[receipt] = chain

    def unpin(self, receipt: int) -> None:
        """A receipt came back."""
        self._disown(self.pins.pop(receipt))

    def collect(self, free: int) -> int:
        """Evicts until that many blocks are free; how many went."""
        before = self.counts()
        self._make_room(free)
        return before[1] - self.counts()[1]

    # --- what they do ---------------------------------------------------------------------------

    def _make_room(self, blocks: int) -> None:
        """Evicts the cached leaf that was released first, as often as it takes."""
        while self.counts()[0] < blocks:
            leaves = [b for b in self.blocks() if b.owners == 0 and b.children == 0]
            if not leaves:
                break
            self._forget(min(leaves, key=lambda block: block.released))

    def _forget(self, block: Block) -> None:
        copies = self.found[block.path]
        copies.remove(block)
        if not copies:
            del self.found[block.path]
        if block.parent is not None:
            block.parent.children -= 1

    def _disown(self, blocks: Iterable[Block]) -> None:
        """One owner less for each, from the end; a copy that nothing follows goes for another."""
        for block in reversed(list(blocks)):
            block.owners -= 1
            if block.owners > 0:
                continue
            self.clock += 1
            block.released = self.clock
            others = [copy for copy in self.found[block.path] if copy is not block]
            if others and block.children == 0:
                stand_in = min(others, key=lambda copy: copy.id)
                self._forget(block)
                if stand_in.owners == 0:
                    stand_in.released = self.clock
