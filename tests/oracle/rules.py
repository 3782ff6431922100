"""Rules on sequences: each makes one call with chosen arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvframe import Allocation, MMItem, Remap, Request

from .admission import Came, Told
from .machine import Machine
from .retains import retention
from .sequence import Ask, Seq, Token

SPACES: list[tuple[str, str, tuple[MMItem, ...]]] = [
    *[("", "", ())] * 5,
    ("s", "", ()),
    ("", "s", ()),
    ("", "", (MMItem(2, 6, b"i"),)),
]
LONG = 30
"""Tokens of a prompt that goes on where another ended, at the most, or so."""


class Rules(Machine):
    """A request's life."""

    # --- coming in ----------------------------------------------------------------------------

    def prompt(self) -> Ask:
        """Mostly one that begins as another did, or as a block that could be found, and goes on a
        little.
        """
        salt, adapter, extras = self.dice.pick(SPACES)
        named = Ask((), salt, adapter, extras, *self.other_input())
        match self.dice.below(6):
            case 0 | 1:
                found = self.asked_before(named)
            case 2 | 3:
                found = self.findable()
            case _:
                found = None
        if found is not None:
            return found
        self.texts.append(self.new_text())
        return replace(named, tokens=tuple(t for t in self.texts[-1] if t is not None))

    def asked_before(self, named: Ask) -> Ask | None:
        """As somebody asked, or how far a sequence has come; under whatever name."""
        before = [s.tokens for s in self.o.seqs.values()] + list(self.texts)
        if not before:
            return None
        known = self.dice.pick(before)
        head = known[: len(known) + 1 - self.dice.pick([1, 1, 2, 1 + self.dice.below(8)])]
        if None in head or len(head) >= LONG:
            return None
        tokens = (*(t for t in head if t is not None), *self.dice.bits(self.dice.below(4)))
        return replace(named, tokens=tokens)

    def findable(self) -> Ask | None:
        """Up to the end of a block that is there and where all groups can serve, under its name."""
        blocks = [b.key for b in self.o.pool.blocks.values() if b.key and b.findable]
        keys = [key for key in blocks if key[4] != "input" and len(key) < LONG]
        keys = [key for key in keys if len(key[5:]) % self.o.unit == 0] or keys
        if not keys:
            return None
        # What a window or a state leaves there is rarer.
        keys = [key for key in keys if not self.o.kinds[key[0]].full] or keys
        _, salt, adapter, encoder, items, *tokens = self.dice.pick(keys)
        extras = tuple(MMItem(*item) for item in items)
        more = self.dice.bits(1 + self.dice.below(self.o.unit))
        return Ask((*tokens, *more), salt, adapter, extras, encoder, self.other_input()[1])

    def new_text(self) -> list[Token]:
        # A tiny alphabet, so that prompts share prefixes and part anywhere.
        grain = min(self.o.unit, 8)
        blocks = self.dice.pick([1, 2, 2, 3, 4, 6, 0])
        odd = self.dice.below(3 * (blocks + 1))
        tokens = [int(odd == block + 1) for block in range(blocks) for _ in range(grain)]
        return [*tokens, *self.dice.bits(self.dice.below(grain + 1))]

    def ask(self) -> Ask:
        dice = self.dice
        plain = self.prompt()
        tokens = plain.tokens
        more: dict[str, Any] = {}
        match dice.below(16):
            case 8:
                more = {"read_cache": False}
            case 9:
                more = {"write_cache": False}
            case 10 | 11:
                more = {"partial": True}
            case 12:
                more = {"until": dice.below(len(tokens) + 2)}
            case 13:
                longest = len(tokens) + dice.below(3 * self.size)
                more = {"max_seq_len": longest, "full_sequence_must_fit": dice.one_in(2)}
            case 14:
                more = {"keys_only": self.setup.takes_keys and len(tokens) > 0}
            case 15:
                more = {"read_cache": False, "write_cache": False}
            case _:
                pass
        if dice.one_in(3):
            more["chunk"] = dice.below(2 * self.size)
        if dice.one_in(4):
            hits = dice.below(max(len(tokens) - 1, 0) // self.o.unit + 1)
            more["num_external_tokens"] = hits * self.o.unit + dice.one_in(12)
        if dice.one_in(16):
            more["external_until"] = dice.below(len(tokens) + 2)
        if dice.one_in(3) and (self.o.plain or dice.one_in(8)):
            more["join"] = True
        more |= {"session": dice.below(3), "turn": dice.below(3), "request_class": dice.below(2)}
        more["priority"] = dice.below(3) - 1
        if self.setup.retains:
            more["retention"] = retention(dice)
        return Ask(**plain.__dict__ | more)

    def other_input(self) -> tuple[bytes, int]:
        dice = self.dice
        if not any(kind.cross for kind in self.setup.groups):
            return b"", int(dice.one_in(64))
        return dice.pick([b"x", b"x", b"y", b""]), dice.pick([3, 3, 5, 1, 0])

    def request(self, ask: Ask) -> Request:
        apart = ("tokens", "keys_only", "budget")
        options = {k: v for k, v in ask.__dict__.items() if k not in apart}
        if not ask.keys_only:
            return Request(list(ask.tokens), **options)
        keys = self.kv.blocks.hash_blocks(list(ask.tokens), **ask.space)
        return Request(None, keys=keys, num_tokens=len(ask.tokens), **options)

    def told(self, ask: Ask) -> Told:
        """Which of several copies of a prefix would be found."""
        if not ask.reads:
            return Told(hits=[[] for _ in range(self.groups)])
        hit = self.kv.lookup(self.request(replace(ask, join=False, encoder_tokens=0)))
        blocks = [found.tolist() for found in hit.blocks]
        if not self.setup.partial or hit.tokens % self.size == 0:
            return Told(hits=blocks)
        return Told(hits=[found[:-1] for found in blocks], tail=[found[-1] for found in blocks])

    def join(self) -> None:
        """Somebody asks for what a sequence is computing."""
        ahead = [s for s in self.o.seqs.values() if s.slots >= s.committed + self.size]
        if not ahead or len(self.o.seqs) > 6 or not self.o.plain:
            return
        s = self.dice.pick(ahead)
        same = s.tokens[: s.slots + 1 - self.dice.pick([0, 0, 1, self.dice.below(s.slots)])]
        tokens = (*(t for t in same if t is not None), *self.dice.bits(self.dice.below(3)))
        ask = replace(
            self.ask(),
            tokens=tokens,
            num_external_tokens=0,
            external_until=0,
            read_cache=True,
            max_seq_len=0,
        )
        ask = replace(ask, keys_only=False, join=True, mm_items=s.mm_items)
        ask = replace(ask, cache_salt=s.ask.cache_salt, lora_name=s.ask.lora_name)
        self.come(self.request(ask), ask)

    def admit(self) -> None:
        ask = self.ask()
        if len(self.o.seqs) > 5:
            return self.release()
        self.come(self.request(ask), ask)

    def come(self, request: Request, ask: Ask) -> bool:
        told = self.told(ask)

        def model(grant: Allocation | None) -> None:
            if grant is not None:
                told.seq, told.load = grant.seq, grant.load
            wanted = self.o.admit(ask, told)
            assert grant is not None
            self.same_grant(grant, wanted)

        grant = self.both(f"admit {ask}", lambda: self.kv.allocate(request), model)
        self.count("attached", grant is not None and grant.attached is not None)
        if grant is not None:
            self.came(grant)
        return grant is not None

    def same_changes(self, rewound: list[int], remapped: list[Remap]) -> None:
        """What single verbs changed besides their own sequence, since it was told last."""
        self.same("rewound", rewound, self.o.rewound)
        self.same_remaps(remapped, self.o.remapped)
        self.o.rewound, self.o.remapped = [], []

    def same_remaps(self, told: list[Remap], wanted: list[tuple[Seq, int, int, int]]) -> None:
        handles = {id(s): seq for seq, s in self.o.seqs.items()}
        entries = [(handles[id(s)], *entry) for s, *entry in wanted]
        self.same("remapped", [tuple(entry) for entry in told], entries)
        self.count("remapped", bool(told))

    def same_grant(self, grant: Allocation, wanted: Came) -> None:
        for name, value in vars(wanted).items():
            self.same(name, getattr(grant, name), value)

    def came(self, grant: Allocation) -> None:
        seq = grant.seq
        self.coming[seq] = []
        ask = self.o.live(seq).ask
        epoch = self.plane.epochs[seq] = self.plane.now(ask.cache_salt, ask.lora_name)
        self.count("hit", grant.cached_tokens > 0)
        self.count("joined", grant.joined_tokens > 0)
        self.count("partial", grant.cached_tokens % self.o.unit > 0)
        for group in range(self.groups if not grant.joined_tokens else 0):
            assert self.plane.read(self.o.live(seq), group, epoch), "a hit was lost"
        if grant.load is not None:
            rows = self.o.tickets[grant.load].rows
            good = self.dice.below(rows + 1) if self.dice.one_in(3) else rows
            self.plane.load(grant.load, seq, good)

    # --- growing ------------------------------------------------------------------------------

    def rematch(self) -> None:
        """What came last is looked up again, mostly before it computes."""
        seqs = [seq for seq, s in self.o.seqs.items() if s.committed == s.cached]
        seq = self.dice.pick(seqs) if seqs and not self.dice.one_in(6) else self.seq()
        if seq is None:
            return
        s, fence = self.o.live(seq), None
        if self.dice.one_in(4):
            self.in_flight += 1
            fence = max(self.in_flight - self.dice.below(3), 0)
        known = tuple(token for token in s.tokens[: s.filled] if token is not None)
        ask = replace(s.ask, tokens=known, mm_items=s.mm_items)
        if self.setup.partial:
            # Whole blocks alone: a partial one behind them may follow other copies of them.
            ask = replace(ask, tokens=known[: self.o.found(ask) + 1])
        told = self.told(ask)
        before = s.cached
        self.both(
            f"rematch {seq:#x} behind {fence}",
            lambda: self.kv.rematch(seq, fence=fence),
            lambda cached: self.same("cached", cached, self.o.rematch(seq, told, fence)),
        )
        self.count("rematched", s.cached > before)

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
                lambda: self.kv.append_placeholders(seq, count),
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
                lambda: self.kv.fill_placeholders(seq, tokens),
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
            self.commit_to(seq, max(upto, 0))

    def commit_to(self, seq: int, upto: int) -> None:
        self.compute(seq, upto)
        refused = self.refusals
        self.both(
            f"commit {seq:#x} {upto}",
            lambda: self.kv.commit(seq, upto),
            lambda done: self.same("done", done and tuple(done), self.o.commit(seq, upto)),
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
            self.release_one(seq)

    def abort(self) -> None:
        seq = self.seq()
        if seq is not None:
            self.release_one(seq, aborts=True)

    def release_one(self, seq: int, *, aborts: bool = False) -> None:
        end = self.kv.abort if aborts else self.kv.release
        self.take_plan()
        self.plane.run(len(self.plane.queue) - 1)
        fence = self.fence(seq)
        # What an aborted load would have brought stays for nothing.
        self.o.live(seq).private |= aborts
        gain = self.o.frees(seq)
        room, to_come = self.o.pool.room(), self.o.pool.room_to_come()
        self.both(
            f"{end.__name__} {seq:#x} behind {fence}",
            lambda: end(seq, fence=fence),
            lambda _: self.o.release(seq, fence, aborts=aborts),
        )
        waits = fence is not None and fence > self.o.passed
        self.same("freed", self.o.pool.room_to_come() - to_come, gain)
        assert not waits or self.o.pool.room() == room

    def serve(self) -> None:
        """A request that is answered at once: what it leaves is cached."""
        ask = replace(self.prompt(), session=self.dice.below(3), turn=self.dice.below(3))
        if self.setup.retains:
            ask = replace(ask, retention=retention(self.dice))
        if self.come(self.request(ask), ask):
            seq = next(reversed(self.o.seqs))
            self.commit_to(seq, self.o.live(seq).slots)
            self.release_one(seq)

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
            if not asks[0].keys_only or self.plane.epochs[seq][0] == self.plane.epoch:
                self.preempted = [*self.preempted[-3:], (request, asks[0])]

    def resume(self) -> None:
        if self.preempted:
            request, ask = self.preempted.pop(self.dice.below(len(self.preempted)))
            if not self.come(request, ask):
                self.preempted.append((request, ask))
