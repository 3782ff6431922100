"""Every rule and how often it is taken, calls that are wrong, and the end of a walk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .rules_step import StepRules
from .sequence import Ask

WEIGHTS = {
    "admit": 22,
    "serve": 30,
    "squeeze": 6,
    "join": 14,
    "append": 14,
    "extend": 6,
    "commit": 22,
    "truncate": 6,
    "fork": 5,
    "release": 14,
    "abort": 3,
    "step": 10,
    "append_unknown": 5,
    "fill": 5,
    "preempt": 3,
    "resume": 6,
    "plan": 3,
    "settle": 7,
    "settle_load": 6,
    "lease": 3,
    "end_lease": 3,
    "let_pass": 3,
    "take_changes": 2,
    "pin": 6,
    "unpin": 4,
    "attach": 3,
    "take_dropped": 1,
    "set_deadline": 2,
    "expire": 3,
    "fork_prefix": 4,
    "reserve": 3,
    "advance": 6,
    "publish": 3,
    "find_blocks": 3,
    "free": 4,
    "ask_about": 4,
    "fits": 3,
    "tabulate": 2,
    "lend": 3,
    "give_back": 3,
    "clear": 1,
    "clear_scope": 1,
    "rematch": 4,
    "new_weights": 1,
    "resize": 2,
    "collect": 1,
    "sleep": 2,
    "order": 2,
    "lookup": 3,
    "misuse": 5,
}


GROWTHS = ["admit", "join", "serve", "append", "append_unknown", "extend", "reserve", "advance"]
GROWTHS += ["fork_prefix", "step", "resume", "lend"]


class AllRules(StepRules):
    """Every rule."""

    def squeeze(self) -> None:
        """A growth that has too few blocks by one, or by some: it fails at each of its
        allocations in turn, and has changed nothing.
        """
        count = self.o.pool.room() - self.dice.below(4)
        if count <= 0:
            return
        out = np.empty(count, np.int32)
        self.both(
            f"lend {count}",
            lambda: self.kv.blocks.take(out=out),
            lambda _: self.o.lend(out.tolist()),
        )
        if self.o.asleep:
            return
        before = self.short
        getattr(self, self.dice.pick(GROWTHS))()
        self.count("short", self.short > before)
        self.check()
        back = out[::-1].copy()
        self.both(
            "give back",
            lambda: self.kv.blocks.free(back),
            lambda _: self.o.free(back.tolist()),
        )

    # --- misuse -------------------------------------------------------------------------------

    def misuse(self) -> None:
        """Typed errors; nothing changes, as `check` then finds."""
        stale = self.dice.pick([*self.o.ended[-3:], 99])
        o, kv = self.o, self.kv
        wrong: list[tuple[str, Callable[[], Any], Callable[[Any], Any]]] = [
            ("release", lambda: kv.release(stale), lambda _: o.release(stale)),
            ("abort", lambda: kv.abort(stale), lambda _: o.release(stale, aborts=True)),
            ("commit", lambda: kv.commit(stale, 0), lambda _: o.commit(stale, 0)),
            ("fork", lambda: kv.fork(stale), lambda _: o.fork(stale, 0)),
            ("append", lambda: kv.append(stale, [1]), lambda _: o.append(stale, [1])),
            ("lease", lambda: kv.pins.lease(stale, 0), lambda _: o.lease(stale, 0, 0)),
            ("fill", lambda: kv.fill_placeholders(stale, []), lambda _: o.fill(stale, [])),
            ("preempt", lambda: kv.preempt(stale), lambda _: o.preempt(stale)),
            ("reserve", lambda: kv.extend(stale, 0, lookahead=0), lambda _: o.reserve(stale, 0)),
            ("fork", lambda: kv.fork(stale, upto=0), lambda _: o.fork_prefix(stale, 0, False, 0)),
            ("extend", lambda: kv.extend(stale, 0), lambda _: o.extend(stale, 0)),
            ("readable", lambda: kv.inspect.num_readable_tokens(stale), lambda _: o.live(stale)),
            ("sight", lambda: kv.inspect.visible_range(stale), lambda _: o.live(stale)),
            ("usage", lambda: kv.stats.request_usage(stale), lambda _: o.live(stale)),
            ("unkeyed", lambda: kv.blocks.unhashed_blocks(stale), lambda _: o.live(stale)),
            ("pages", lambda: kv.inspect.pages(stale, 0, 0), lambda _: o.live(stale)),
            ("table", lambda: kv.block_table(stale), lambda _: o.live(stale)),
            ("done", lambda: kv.done(10**9), lambda _: o.done(10**9)),
            ("failed", lambda: kv.failed(0), lambda _: o.failed(0)),
            ("loaded", lambda: kv.loaded(10**9, 0), lambda _: o.loaded(10**9, 0)),
        ]
        never = Ask(tuple(self.dice.bits(8)), max_seq_len=10**6)
        name, call, model = self.dice.pick(wrong)
        self.both(f"{name} {stale:#x}", call, model)
        self.come(self.request(never), never)

    def settle_all(self) -> None:
        """Everything ends: nothing may be left behind."""
        self.take_plan()
        while self.plane.fates:
            self.settle()
        while self.plane.loads:
            self.settle_load()
        while self.plane.leases:
            self.end_lease()
        while self.o.seqs:
            self.release()
        while self.pins:
            self.unpin()
        while self.o.parents:
            self.free_blocks([block for block in self.o.parents if not self.o.kids(block)][:1])
        self.in_flight += 4
        while self.o.fences:
            self.let_pass()
        self.both(
            "give back",
            lambda: self.kv.blocks.free(np.array(self.lent, np.int32)),
            lambda _: self.o.free(self.lent),
        )
        self.lent = []
        self.check()
        self.clear()
        self.check()
        assert self.kv.counts().free == self.o.pool.usable, "blocks leaked"
        self.sleep()
        self.same("callbacks", self.kv.pressure.remove_callback(self.hear), 1)
