"""Rules on sequences: each makes one call with chosen arguments."""

from __future__ import annotations

from typing import Any

from kvframe import Extra, Grant, Request

from .machine import Machine
from .sequence import Ask

SPACES: list[tuple[str, str, tuple[Extra, ...]]] = [
    *[("", "", ())] * 5,
    ("s", "", ()),
    ("", "s", ()),
    ("", "", (Extra(2, 6, b"i"),)),
]


class Rules(Machine):
    """A request's life."""

    # --- coming in ----------------------------------------------------------------------------

    def text(self) -> tuple[int, ...]:
        # A tiny alphabet, so that prompts share prefixes and part anywhere.
        grain = min(self.o.unit, 8)
        blocks = self.dice.pick([1, 2, 2, 3, 4, 6, 0])
        odd = self.dice.below(3 * (blocks + 1))
        tokens = [int(odd == block + 1) for block in range(blocks) for _ in range(grain)]
        return (*tokens, *self.dice.bits(self.dice.below(grain + 1)))

    def ask(self) -> Ask:
        dice = self.dice
        tokens, (salt, adapter, extras) = self.text(), dice.pick(SPACES)
        plain = Ask(tokens, salt, adapter, extras, *self.other_input())
        more: dict[str, Any] = {}
        match dice.below(16):
            case 8:
                more = {"read": False}
            case 9:
                more = {"insert": False}
            case 10 | 11:
                more = {"partial": True}
            case 12:
                more = {"until": dice.below(len(tokens) + 2)}
            case 13:
                longest = len(tokens) + dice.below(3 * self.size)
                more = {"max_tokens": longest, "whole_sequence": dice.one_in(2)}
            case 14:
                more = {"keys_only": self.setup.takes_keys and len(tokens) > 0}
            case 15:
                more = {"read": False, "insert": False}
            case _:
                pass
        if dice.one_in(3):
            more["chunk"] = dice.below(2 * self.size)
        if dice.one_in(4):
            hits = dice.below(max(len(tokens) - 1, 0) // self.o.unit + 1)
            more["external"] = hits * self.o.unit + dice.one_in(12)
        more["priority"] = dice.below(3) - 1
        return Ask(**plain.__dict__ | more)

    def other_input(self) -> tuple[bytes, int]:
        dice = self.dice
        if not any(kind.cross for kind in self.setup.groups):
            return b"", int(dice.one_in(64))
        return dice.pick([b"x", b"x", b"y", b""]), dice.pick([3, 3, 5, 1, 0])

    def request(self, ask: Ask) -> Request:
        options = {k: v for k, v in ask.__dict__.items() if k not in ("tokens", "keys_only")}
        if not ask.keys_only:
            return Request(list(ask.tokens), **options)
        keys = self.kv.hash_blocks(list(ask.tokens), **ask.space)
        return Request(None, keys=keys, num_tokens=len(ask.tokens), **options)

    def hits(self, ask: Ask) -> list[list[int]]:
        """Which of several copies of a prefix would be found."""
        if not ask.reads:
            return [[] for _ in range(self.groups)]
        hit = self.kv.lookup(list(ask.tokens), **ask.space)
        return [blocks.tolist() for blocks in hit.blocks]

    def admit(self) -> None:
        ask = self.ask()
        if len(self.o.seqs) > 5:
            return self.release()
        self.come(self.request(ask), ask)

    def come(self, request: Request, ask: Ask) -> bool:
        hits = self.hits(ask)

        def model(grant: Grant | None) -> None:
            seq, load = (None, None) if grant is None else (grant.seq, grant.load)
            wanted = self.o.admit(ask, hits, seq, load)
            assert grant is not None
            self.same("grant", tuple(grant)[1:4], wanted)

        grant = self.both(f"admit {ask}", lambda: self.kv.admit(request), model)
        if grant is not None:
            self.came(grant)
        return grant is not None

    def came(self, grant: Grant) -> None:
        seq = grant.seq
        self.coming[seq] = []
        self.plane.epochs[seq] = self.plane.epoch
        self.hits_seen += grant.cached_tokens > 0
        for group in range(self.groups):
            assert self.plane.read(self.o.live(seq), group, self.plane.epoch), "a hit was lost"
        if grant.load is not None:
            rows = self.o.tickets[grant.load].rows
            good = self.dice.below(rows + 1) if self.dice.one_in(3) else rows
            self.plane.load(grant.load, seq, good)

    # --- growing ------------------------------------------------------------------------------

    def append(self) -> None:
        seq = self.seq()
        if seq is not None:
            tokens = self.dice.bits(self.dice.below(6))
            self.both(
                f"append {seq:#x} {tokens}",
                lambda: self.kv.append(seq, tokens),
                lambda _: self.o.append(seq, tokens),
            )

    def append_unknown(self) -> None:
        seq = self.seq()
        if seq is not None:
            count = self.dice.below(4)
            had = len(self.o.live(seq).tokens)
            self.both(
                f"append_unknown {seq:#x} {count}",
                lambda: self.kv.append_unknown(seq, count),
                lambda _: self.o.append(seq, count),
            )
            self.coming[seq] += self.dice.bits(len(self.o.live(seq).tokens) - had)

    def fill(self) -> None:
        seq = self.seq()
        if seq is not None:
            count = self.dice.below(len(self.coming[seq]) + 2)
            tokens = (self.coming[seq] + [1])[:count]
            self.both(
                f"fill {seq:#x} {tokens}",
                lambda: self.kv.fill(seq, tokens),
                lambda _: self.o.fill(seq, tokens),
            )
            unknown = len(self.o.live(seq).tokens) - self.o.live(seq).filled
            del self.coming[seq][: len(self.coming[seq]) - unknown]

    def extend(self) -> None:
        seq = self.seq()
        if seq is not None:
            s = self.o.live(seq)
            until = len(s.tokens) + 1 - self.dice.below(len(s.tokens) + 3 - s.slots)
            until = max(until, 0)
            self.both(
                f"extend {seq:#x} {until}",
                lambda: self.kv.extend(seq, until),
                lambda _: self.o.extend(seq, until),
            )

    # --- computed, cut, shared, ended ---------------------------------------------------------

    def commit(self) -> None:
        seq = self.seq()
        if seq is not None:
            s = self.o.live(seq)
            upto = s.slots + 1 - self.dice.pick([1, 1, 1, 1, 0, *range(s.slots + 2)])
            upto = max(upto, 0)
            self.compute(seq, upto)
            refused = self.refusals
            self.both(
                f"commit {seq:#x} {upto}",
                lambda: self.kv.commit(seq, upto),
                lambda _: self.o.commit(seq, upto),
            )
            self.plane.take_back(self.refusals > refused)

    def compute(self, seq: int, upto: int) -> None:
        """The copies planned first, then what the model writes."""
        self.take_plan()
        s = self.o.live(seq)
        self.plane.compute(seq, min(upto, s.slots, s.filled))

    def truncate(self) -> None:
        seq = self.seq()
        if seq is not None:
            length = max(self.o.live(seq).slots + 1 - self.dice.below(8), 0)
            self.both(
                f"truncate {seq:#x} {length}",
                lambda: self.kv.truncate(seq, length),
                lambda _: self.o.truncate(seq, length),
            )
            self.was_cut(seq)

    def was_cut(self, seq: int) -> None:
        s = self.o.live(seq)
        del self.coming[seq][len(s.tokens) - s.filled :]

    def fork(self) -> None:
        seq = self.seq()
        if seq is not None and len(self.o.seqs) < 8:
            child = self.both(
                f"fork {seq:#x}",
                lambda: self.kv.fork(seq),
                lambda child: self.o.fork(seq, child),
            )
            if child is not None:
                self.coming[child] = list(self.coming[seq])
                self.plane.epochs[child] = self.plane.epochs[seq]

    def fence(self, seq: int) -> int | None:
        if not self.dice.one_in(4):
            return None
        self.in_flight += 1
        fence = max(self.in_flight - self.dice.below(3), 0)
        if fence > self.o.passed:
            s = self.o.live(seq)
            self.plane.fenced.append((fence, self.plane.keep(s, s.committed)))
        return fence

    def release(self) -> None:
        seq = self.seq()
        if seq is not None:
            self.take_plan()
            self.plane.run(len(self.plane.queue) - 1)
            fence = self.fence(seq)
            gain = self.o.frees(self.o.live(seq))
            room = self.o.pool.room()
            self.both(
                f"release {seq:#x} behind {fence}",
                lambda: self.kv.release(seq, fence=fence),
                lambda _: self.o.release(seq, fence),
            )
            waits = fence is not None and fence > self.o.passed
            self.same("freed", self.o.pool.room() - room, 0 if waits else gain)

    def preempt(self) -> None:
        seq = self.seq()
        if seq is not None:
            self.take_plan()
            self.plane.run(len(self.plane.queue) - 1)
            fence, asks = self.fence(seq), list[Ask]()
            request = self.both(
                f"preempt {seq:#x} behind {fence}",
                lambda: self.kv.preempt(seq, fence=fence),
                lambda _: asks.append(self.o.preempt(seq, fence)),
            )
            assert request is not None
            self.same("length", len(request), len(asks[0].tokens))
            # Keys that a caller brought are of the weights they were made for.
            if not asks[0].keys_only or self.plane.epochs[seq] == self.plane.epoch:
                self.preempted = [*self.preempted[-3:], (request, asks[0])]

    def resume(self) -> None:
        if self.preempted:
            request, ask = self.preempted.pop(self.dice.below(len(self.preempted)))
            if not self.come(request, ask):
                self.preempted.append((request, ask))
