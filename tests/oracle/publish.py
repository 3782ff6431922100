"""What is computed and accepted becomes findable."""

from __future__ import annotations

from .growth import Growth
from .model import need
from .pool import Block
from .sequence import Seq, cross_key


class Publishing(Growth):
    """Commit, and what follows from it."""

    def commit(self, seq: int, upto: int, *, ahead: bool = False) -> tuple[int, int, int]:
        """Blocks of the first group that are found from now on, those of them that were; blocks
        freed, none of them `ahead`.
        """
        s = self.live(seq)
        need(s.committed <= upto <= s.slots and upto <= s.filled)
        stored, copies = self.accept(s, upto)
        return stored, copies, 0 if ahead else self.leave_windows(s, upto)

    def leave_windows(self, s: Seq, upto: int) -> int:
        """Blocks that no token behind the first ``upto`` attends to go; how many are free then."""
        room = self.pool.room()
        for group, kind in enumerate(self.kinds):
            table = s.tables[group]
            rows = [r for r in kind.gone(kind.computed(upto, s.cached)) if table[r] is not None]
            # What may yet fail is kept, to be found and cut.
            busy = [i for i, b in enumerate(self.maybe(table)) if b and "copy" in b.owners]
            rows = [r for r in rows if not any(b <= r for b in busy if b in rows)]
            self.leave_behind(s, group, rows)
            self.pool.drop(self.of(table[row] for row in rows[::-1]), "seq")
            for row in rows:
                table[row] = None
        s.private = s.private or self.is_cut(s)
        return self.pool.room() - room

    def leave_behind(self, s: Seq, group: int, rows: list[int]) -> None:
        """Blocks that no end of a prompt needs go first, until another sequence has them."""
        kind, prompt = self.kinds[group], len(s.ask.tokens)
        ends = self.whole(prompt), self.whole(max(prompt - 1, 0))
        every = self.inner_kept == 0 and all(kind.interval is None for kind in self.kinds)
        for row, block in zip(rows, self.of(s.tables[group][row] for row in rows), strict=True):
            own = row * kind.span >= s.cached and len(block.owners) == 1
            is_end = kind.reachable(row, 0, (*ends, s.branch))
            first = block.key is not None and not block.left_once
            block.inner = every and own and not is_end and first
            block.left_once = block.left_once or block.key is not None

    def maybe(self, table: list[int | None]) -> list[Block | None]:
        return [None if block is None else self.pool.blocks[block] for block in table]

    def accept(self, s: Seq, upto: int) -> tuple[int, int]:
        s.committed = upto
        self.pool.now += 1
        vouched = self.vouch(s)
        stored = self.publish(s)
        self.tell_joiners(vouched)
        return stored

    def publish(self, s: Seq) -> tuple[int, int]:
        """What is full and computed is found from now on, as far as no copy is under way."""
        if s.private:
            return 0, 0
        whole = s.committed // self.size * self.size
        s.hashed = max(s.hashed, whole)
        for kind, table in zip(self.kinds, s.tables, strict=True):
            # All groups' KV is computed over all others'.
            busy = [b and b.key is None and "copy" in b.owners for b in self.maybe(table)]
            whole = min([whole, *[i * kind.span for i, is_busy in enumerate(busy) if is_busy]])
        first = [
            self.publish_group(s, group, whole)
            for group, kind in enumerate(self.kinds)
            if not kind.cross
        ]
        if s.has_encoder and not s.encoder_found and s.ask.encoder_tokens:
            self.publish_input(s)
        return (0, 0) if self.kinds[0].cross else first[0]

    def publish_group(self, s: Seq, group: int, whole: int) -> tuple[int, int]:
        """Blocks that are found from now on; those of them, and others, that were before."""
        kind, table = self.kinds[group], s.tables[group]
        prompt = len(s.ask.tokens)
        ends = self.whole(prompt), self.whole(max(prompt - 1, 0))
        rows = min(whole, kind.computed(s.committed, s.cached)) // kind.span
        fresh: list[Block] = []
        created = copies = 0
        for i, block in enumerate(self.maybe(table)[:rows]):
            if block is None or not kind.reachable(i, self.step, ends):
                continue
            if block.key is not None:
                self.pool.used(block, s.ask)
                continue
            key = s.key(group, (i + 1) * kind.span)
            parent = table[i - 1] if kind.full and i else None
            twins = self.pool.named(key)[:1]
            self.pool.count("duplicates", len(twins))
            copies += len(twins)
            for twin in twins:
                self.pool.hit(twin, len(s.tokens), s.ask)
            alone = len(block.owners) == 1
            if self.remaps and alone and twins and twins[0].parent == parent:
                self.remap(s, group, i, twins[0])
                continue
            created += not twins
            block.key, block.depth, block.parent = key, i, parent
            fresh.append(block)
        self.insert(fresh, s)
        s.usage.created += created * kind.span if group == 0 else 0
        return len(fresh), copies

    def insert(self, fresh: list[Block], s: Seq) -> None:
        for block in fresh:
            self.pool.insert(block, len(s.tokens), s.ask)
        self.pool.count("stored", len(fresh))

    def remap(self, s: Seq, group: int, row: int, twin: Block) -> None:
        """What is found already takes the place of a block that says the same."""
        self.pool.own([twin], "seq")
        self.pool.used(twin, s.ask)
        own = s.tables[group][row]
        s.tables[group][row] = twin.id
        if self.fence is None:
            self.pool.drop(self.of([own]), "seq")
        else:
            self.pool.rename(self.of([own]), "seq", "fence")
            self.fences.append((self.fence, [b.id for b in self.of([own])]))
        self.remapped.append((s, group, row, twin.id))
        self.pool.count("remapped")

    def publish_tail(self, s: Seq) -> None:
        """The last, partial block of a sequence that ends, by its exact tokens."""
        row, rest = divmod(s.committed, self.size)
        if not (self.partial and self.by_key) or not rest or s.private or s.keyed:
            return
        before = [block for table in s.tables for block in self.maybe(table[:row])]
        if any(b and b.key is None and "copy" in b.owners for b in before):
            return
        for group, kind in enumerate(self.kinds):
            (block,), key = self.maybe(s.tables[group][row : row + 1]), s.key(group, s.committed)
            parent = self.maybe(s.tables[group][row - 1 : row])[0] if kind.full and row else None
            alone = block is not None and block.key is None and len(block.owners) == 1
            if not alone or self.pool.named(key) or (parent and not parent.key):
                continue
            assert block is not None
            block.key, block.depth, block.parent = key, row, parent.id if parent else None
            self.insert([block], s)

    def publish_input(self, s: Seq) -> None:
        """Another input's blocks are found once a token has been computed over them."""
        s.encoder_found = True
        for group, kind in enumerate(self.kinds):
            blocks = self.of(s.tables[group]) if kind.cross else []
            fresh = [(row, block) for row, block in enumerate(blocks) if block.key is None]
            for row, block in fresh:
                key = cross_key(s.ask, group, row)
                self.pool.count("duplicates", len(self.pool.named(key)[:1]))
                block.key, block.depth = key, row
            self.insert([block for _, block in fresh], s)

    def least(self, s: Seq) -> int:
        """The shortest length from which on every group has what the next token attends to."""

        def serves(length: int) -> bool:
            return not any(
                table[row] is None
                for kind, table in zip(self.kinds, s.tables, strict=True)
                for row in kind.needs(kind.computed(length, s.cached))
            )

        return next((n + 1 for n in range(s.slots, -1, -1) if not serves(n)), 0)

    def has_state(self, s: Seq, length: int) -> bool:
        """Recurrent layers go on from the state of all that is computed, or of a kept block."""
        states = [
            (kind, table)
            for kind, table in zip(self.kinds, s.tables, strict=True)
            if kind.kind == "state"
        ]
        return (
            length == 0
            or length >= s.committed
            or not any(
                length % kind.span or table[length // kind.span - 1] is None
                for kind, table in states
            )
        )

    def last_good(self, s: Seq, length: int) -> int:
        """The longest length up to that one to which a sequence can go back."""
        for good in (length, self.whole(length)):
            if good >= self.least(s) and self.has_state(s, good):
                return good
        return 0
