"""A scheduler step: the single verbs in their order, checked before anything moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial

from kvframe import (
    CapacityError,
    HandleError,
    KVFrameError,
    NeverFitsError,
    Reason,
    StaleHandleError,
    UsageError,
)

from .admission import Came, Told
from .model import RefusalError, need
from .oracle import Oracle
from .sequence import Ask, Seq

Pairs = list[tuple[int, int]]


@dataclass
class Call:
    """The arguments of `kvframe.KVCacheManager.step`."""

    done: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    loaded: Pairs = field(default_factory=list)
    truncate: Pairs = field(default_factory=list)
    fill: list[tuple[int, list[int]]] = field(default_factory=list)
    commit: Pairs = field(default_factory=list)
    fork: list[int] = field(default_factory=list)
    release: list[int] = field(default_factory=list)
    preempt: list[int] = field(default_factory=list)
    fence: int | None = None
    passed: int | None = None
    append: list[tuple[int, list[int]]] = field(default_factory=list)
    unknown: bool = False
    """The ids of what is appended come later."""
    extend: Pairs = field(default_factory=list)
    admit: list[Ask] = field(default_factory=list)
    token_budget: int | None = None
    batch_tokens: int | None = None
    skip_refused: bool = False

    def __repr__(self) -> str:
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        said = [f"{name}={value!r}" for name, value in told.items() if value not in ([], None)]
        return f"Call({', '.join(said)})"


@dataclass
class Out:
    """What comes of a step."""

    grants: list[Came | None] = field(default_factory=list)
    refused: list[tuple[str, int, type[KVFrameError]]] = field(default_factory=list)
    rewound: list[int] = field(default_factory=list)
    preempted: list[Ask] = field(default_factory=list)
    extended: list[int] = field(default_factory=list)
    reasons: list[set[Reason]] = field(default_factory=list)
    """One of these, a growth."""
    remapped: list[tuple[Seq, int, int, int]] = field(default_factory=list)
    stuck: bool = False


def run(o: Oracle, call: Call, forks: list[int], came: Callable[[int], Told]) -> Out:
    """Carries a step out, or refuses all of it."""
    check(o, call)
    out = Out()
    settle(o, call, out, forks)
    batch = TALL if call.batch_tokens is None else call.batch_tokens
    for i, (seq, tokens) in enumerate(call.append):
        more: list[int] | int = len(tokens) if call.unknown else tokens
        if len(tokens) > batch:
            out.refused.append(("append", i, CapacityError))
            out.reasons.append({Reason.NOT_TRIED})
            out.stuck = True
        elif tried(out, "append", i, partial(o.append, seq, more)):
            batch -= len(tokens)
    for i, (seq, until) in enumerate(call.extend):
        has = o.live(seq).slots
        until = min(until, has + batch)
        if call.batch_tokens is not None:
            until = o.longest_alone(seq, until)
        grown = tried(out, "extend", i, partial(o.extend, seq, until))
        out.extended.append(until if grown else has)
        batch -= out.extended[-1] - has
    budget = TALL if call.token_budget is None else call.token_budget
    for i, ask in enumerate(call.admit):
        out.grants.append(None)
        left = min(budget, batch)
        if left == 0 or (out.stuck and not call.skip_refused):
            out.reasons.append({Reason.NOT_TRIED})
            out.stuck = True
            continue
        again = replace(ask, budget=None if left == TALL else left)

        def admit(i: int = i, again: Ask = again) -> None:
            out.grants[i] = o.admit(again, came(i))

        tried(out, "allocate", i, admit)
        if grant := out.grants[i]:
            spared = grant.cached_tokens + grant.joined_tokens + grant.external_tokens
            new = max(grant.granted_tokens - spared, 0)
            budget, batch = max(budget - new, 0), max(batch - new, 0)
    return out


TALL = 10**9
WHY = {
    CapacityError: {Reason.NO_CAPACITY},
    NeverFitsError: {Reason.NEVER_FITS},
    UsageError: {Reason.WRONG, Reason.ASLEEP},
}


def tried(out: Out, verb: str, place: int, act: Callable[[], None]) -> bool:
    try:
        act()
    except RefusalError as refusal:
        out.refused.append((verb, place, refusal.error))
        out.reasons.append(WHY[refusal.error])
        out.stuck = True
        return False
    out.reasons.append({Reason.GRANTED})
    return True


def settle(o: Oracle, call: Call, out: Out, forks: list[int]) -> None:
    if call.passed is not None:
        o.let_pass(call.passed)
    o.put_up(call.fence)
    for ticket in call.done:
        o.done(ticket)
    for ticket in call.failed:
        out.rewound += o.failed(ticket)
    for ticket, good in call.loaded:
        out.rewound += o.loaded(ticket, good)
    for seq, length in call.truncate:
        o.cut(o.live(seq), length)
    for seq, tokens in call.fill:
        o.fill(seq, tokens)
    joined = bool(o.joins)
    for seq, upto in call.commit:
        s = o.live(seq)
        settles = call.done or call.failed or call.loaded or o.rewound or joined
        # A copy that failed has cut it, and a load or who it joined may have brought more.
        o.commit(seq, max(min(upto, s.slots), s.committed) if settles else upto)
    for seq, child in zip(call.fork, forks, strict=True):
        o.fork(seq, child)
    for seq in call.release:
        o.release(seq)
    out.preempted += [o.preempt(seq) for seq in call.preempt]
    o.put_up(None)
    out.rewound += o.rewound
    out.remapped += o.remapped
    o.rewound, o.remapped = [], []


def check(o: Oracle, call: Call) -> None:
    tickets = [*call.done, *call.failed, *(ticket for ticket, _ in call.loaded)]
    need(once(tickets) and set(tickets) <= set(o.tickets), HandleError)
    need(all(o.tickets[ticket].rows for ticket, _ in call.loaded), HandleError)
    ends = [*call.release, *call.preempt]
    for seq in ends:
        o.live(seq)
    need(once(ends), StaleHandleError)
    cuts, commits, fills = dict(call.truncate), dict(call.commit), dict(call.fill)
    for seq in [*cuts, *commits, *fills, *call.fork]:
        o.live(seq)
    for seq in [*(s for s, _ in call.append), *(s for s, _ in call.extend)]:
        o.live(seq)
        need(seq not in ends, StaleHandleError)
    need(all(good <= o.tickets[ticket].rows for ticket, good in call.loaded))
    for pairs in (call.truncate, call.commit, call.fill):
        need(once([seq for seq, _ in pairs]))
    need(once([seq for seq, _ in (*call.append, *call.extend)]))
    for seq, length in cuts.items():
        o.check_cut(o.live(seq), length, tickets)
    after = {seq: lengths_after(o.live(seq), cuts.get(seq), fills.get(seq, [])) for seq in o.seqs}
    for seq, tokens in fills.items():
        _, known, filled = lengths_after(o.live(seq), cuts.get(seq), [])
        need(len(tokens) <= known - filled and not (tokens and o.live(seq).keyed))
    for seq, upto in commits.items():
        slots, _, filled = after[seq]
        need(min(o.live(seq).committed, slots) <= upto <= min(slots, filled))
    for seq in call.fork:
        slots = after[seq][0]
        o.check_fork(commits.get(seq, min(o.live(seq).committed, slots)), slots)
    if call.failed or any(good < o.tickets[ticket].rows for ticket, good in call.loaded):
        return
    for seq, tokens in call.append:
        s, (_, known, filled) = o.live(seq), after[seq]
        need(call.unknown or not tokens or filled == known)
        whole = len(s.tokens) == s.slots and not (tokens and s.keyed)
        need(seq in cuts or whole)
        need(not s.ask.max_seq_len or after[seq][0] + len(tokens) <= s.ask.max_seq_len)
    for seq, until in call.extend:
        need(seq not in cuts and o.live(seq).slots <= until <= len(o.live(seq).tokens))


def lengths_after(s: Seq, cut: int | None, filled: list[int]) -> tuple[int, int, int]:
    """Tokens with slots, known, and known without a gap, after a cut and ids that came."""
    length = max(s.slots, len(s.tokens)) if cut is None else cut
    known = min(len(s.tokens), length)
    return min(s.slots, length), known, min(s.filled + len(filled), known)


def once(items: Sequence[int]) -> bool:
    return len(set(items)) == len(items)
