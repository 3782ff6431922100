"""A scheduler step: the single verbs in their order, checked before anything moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kvframe import HandleError, KVFrameError, StaleHandleError

from .model import RefusalError, need
from .oracle import Oracle
from .sequence import Ask

Pairs = list[tuple[int, int]]
Came = tuple[list[list[int]] | None, int | None, int | None]
"""Of an admission: its hits if they can be told, and handle and ticket if it came in."""


@dataclass
class Call:
    """The arguments of `kvframe.KVCacheManager.step`."""

    done: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    truncate: Pairs = field(default_factory=list)
    commit: Pairs = field(default_factory=list)
    release: list[int] = field(default_factory=list)
    fence: int | None = None
    passed: int | None = None
    append: list[tuple[int, list[int]]] = field(default_factory=list)
    extend: Pairs = field(default_factory=list)
    admit: list[Ask] = field(default_factory=list)
    token_budget: int | None = None
    skip_refused: bool = False


@dataclass
class Out:
    """What comes of a step."""

    grants: list[tuple[int, int, int] | None] = field(default_factory=list)
    refused: list[tuple[str, int, type[KVFrameError]]] = field(default_factory=list)
    rewound: list[int] = field(default_factory=list)


def run(o: Oracle, call: Call, came: Callable[[int], Came]) -> Out:
    """Carries a step out, or refuses all of it."""
    check(o, call)
    out = Out()
    settle(o, call, out)
    for i, (seq, tokens) in enumerate(call.append):
        tried(out, "append", i, partial(o.append, seq, tokens))
    for i, (seq, until) in enumerate(call.extend):
        tried(out, "extend", i, partial(o.extend, seq, until))
    budget = call.token_budget
    for i, ask in enumerate(call.admit):
        out.grants.append(None)
        stuck = bool(out.refused) and not call.skip_refused
        if budget == 0 or stuck:
            continue
        chunk = min(c for c in (ask.chunk, budget, 2**32) if c is not None)
        again = Ask(**{**ask.__dict__, "chunk": None if chunk == 2**32 else chunk})

        def admit(i: int = i, again: Ask = again) -> None:
            out.grants[i] = o.admit(again, *came(i))

        tried(out, "admit", i, admit)
        grant = out.grants[i]
        if grant and budget is not None:
            left = grant[1] - grant[0]
            budget -= left - min(ask.external, left) // o.size * o.size
    return out


def tried(out: Out, verb: str, place: int, act: Callable[[], None]) -> None:
    try:
        act()
    except RefusalError as refusal:
        out.refused.append((verb, place, refusal.error))


def settle(o: Oracle, call: Call, out: Out) -> None:
    if call.passed is not None:
        o.let_pass(call.passed)
    o.put_up(call.fence)
    for ticket in call.done:
        o.done(ticket)
    for ticket in call.failed:
        out.rewound += o.failed(ticket)
    for seq, length in call.truncate:
        o.cut(o.live(seq), length)
    for seq, upto in call.commit:
        s = o.live(seq)
        upto = min(upto, s.slots) if call.failed else upto
        o.commit(seq, max(upto, s.committed) if call.done else upto)
    for seq in call.release:
        o.release(seq)
    o.put_up(None)


def check(o: Oracle, call: Call) -> None:
    tickets = call.done + call.failed
    need(once(tickets) and set(tickets) <= set(o.tickets), HandleError)
    need(once(call.release), StaleHandleError)
    for seq in call.release:
        o.live(seq)
    cuts, commits = dict(call.truncate), dict(call.commit)
    for seq in [*cuts, *commits]:
        o.live(seq)
    for seq in [*(s for s, _ in call.append), *(s for s, _ in call.extend)]:
        o.live(seq)
        need(seq not in call.release, StaleHandleError)
    need(once([s for s, _ in call.truncate]) and once([s for s, _ in call.commit]))
    for seq, length in cuts.items():
        o.check_cut(o.live(seq), length, tickets)
    for seq, upto in commits.items():
        s = o.live(seq)
        limit = cuts.get(seq, s.slots)
        need(min(s.committed, limit) <= upto <= limit and upto <= s.filled)
    if call.failed:
        return
    for seq, tokens in call.append:
        s = o.live(seq)
        length = min(cuts.get(seq, len(s.tokens)), len(s.tokens))
        need(not tokens or s.filled >= length)
        whole = len(s.tokens) == s.slots and not (tokens and s.keyed)
        need(seq in cuts or whole)
    for seq, until in call.extend:
        need(seq not in cuts and o.live(seq).slots <= until <= len(o.live(seq).tokens))


def once(items: Sequence[int]) -> bool:
    return len(set(items)) == len(items)
