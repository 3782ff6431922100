"""Random traffic through the core, and its event log told to a twin."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from kvframe import Retention, _core

from .twins import TWINS, Block, Use
from .twins.base import NEVER

HIT, OBTAIN, STORE, EVICT, RELEASE, RETAIN, ALLOCATE = 1, 2, 4, 5, 6, 50, 0
NIL = 2**32 - 1

Key = tuple[int, int]
Keep = tuple[int, int | None, int, bool]
"""Retention priority, for how long, what then, and whether it falls evenly until then."""


@dataclass(frozen=True)
class Request:
    """Keys of the full blocks of a prompt, and who asks."""

    keys: tuple[Key, ...]
    next: tuple[int, ...]
    session: int
    turn: int
    kind: int
    priority: int
    keep: Keep | None = None


@dataclass(frozen=True)
class Traffic:
    """Requests; after each, how many of those running end, oldest first, and a session's hint."""

    capacity: int
    requests: tuple[Request, ...]
    ends: tuple[int, ...]
    hints: tuple[tuple[int, str, Keep] | None, ...] = ()


@cache
def traffic(seed: int, requests: int) -> Traffic:
    """Chains that grow and branch: prefixes are shared, and sessions go on."""
    dice = random.Random(seed)
    chains: list[tuple[Key, ...]] = [()]
    turns: dict[int, int] = {}
    asked: list[tuple[tuple[Key, ...], int, int, int, int]] = []
    for _ in range(requests):
        start = dice.choice(chains[-6:] if dice.random() < 0.7 else chains)
        start = start[: dice.randint(0, len(start))] if dice.random() < 0.3 else start
        new = dice.choice((0, 1, 1, 2, 3)) if start else dice.randint(1, 3)
        keys = start + tuple((dice.getrandbits(64), dice.getrandbits(64)) for _ in range(new))
        keys = keys[:6]
        chains.append(keys)
        session = dice.choice((0, 1, 2, 3))
        turns[session] = turns.get(session, 0) + dice.choice((0, 1, 1))
        asked.append((keys, session, turns[session], dice.choice((0, 0, 1)), dice.randint(-1, 1)))
    after: dict[Key, int] = {}
    made: list[Request] = []
    for i in reversed(range(requests)):
        keys, session, turn, kind, priority = asked[i]
        outlook = tuple(after.get(key, NEVER) for key in keys)
        made.append(Request(keys, outlook, session, turn, kind, priority))
        after.update(dict.fromkeys(keys, i))
    ends = tuple(dice.choice((0, 1, 1, 2)) for _ in range(requests))
    return Traffic(dice.randint(6, 14), tuple(made[::-1]), ends)


def retained(load: Traffic, seed: int) -> Traffic:
    """The same with retention priorities, which change while blocks are cached."""
    dice = random.Random(seed)
    priorities = (0, 34, 35, 35, 80)

    def keep() -> Keep:
        duration = dice.choice((None, 1, 2, 5))
        return dice.choice(priorities), duration, dice.choice(priorities), dice.random() < 0.3

    requests = tuple(
        replace(request, keep=keep() if dice.random() < 0.7 else None) for request in load.requests
    )
    kinds = ("retain", "demote", "release")
    hints = tuple(
        (dice.randint(1, 3), dice.choice(kinds), keep()) if dice.random() < 0.3 else None
        for _ in requests
    )
    return replace(load, requests=requests, hints=hints)


def run(
    policy: str, load: Traffic, size: int, options: dict[str, int]
) -> tuple[list[list[Any]], dict[int, Request], dict[str, int]]:
    """The log of that traffic, the requests by their sequences, and the policy's options."""
    core = _core.Manager(
        {
            "cache.capacity": load.capacity,
            "cache.block_size": size,
            "cache.event_log": True,
            "retention.sessions": bool(load.hints),
            "eviction.policy": policy,
            "eviction.options": options,
        }
    )
    asked: dict[int, Request] = {}
    running: list[int] = []
    hints = load.hints or (None,) * len(load.requests)
    for at, (request, ending, hint) in enumerate(zip(load.requests, load.ends, hints, strict=True)):
        n = len(request.keys)
        grant = core.allocate(
            _core.Request(
                None,
                keys=np.array(request.keys, np.uint64).reshape(n, 2),
                num_tokens=n * size + 1,
                until=n * size,
                partial=True,
                session=request.session,
                turn=request.turn,
                request_class=request.kind,
                priority=request.priority,
                next_use=np.array(request.next, np.uint32),
                retention=asks(request, size),
            )
        )
        seq, granted = grant[0], grant[2]
        asked[seq] = request
        core.commit(seq, granted)
        running.append(seq)
        # At most two run on, so that there is always something to evict.
        for _ in range(max(ending, len(running) - 2)):
            if running:
                core.release(running.pop(0))
        if hint:
            core.hint(*hint)
        if load.hints:
            core.expire_until(at)
    core.check_integrity()
    events = core.take_events()
    columns = [events[name].tolist() for name in ("kind", "seq", "block", "value", "key", "tick")]
    return columns, asked, core.options()["policy_options"]


def asks(request: Request, size: int) -> Retention | None:
    """For its first three blocks: what comes after them stays at the default priority."""
    if request.keep is None:
        return None
    return Retention.from_core([(0, 3 * size, request.keep)], None)


def follow(policy: str, load: Traffic, size: int = 1, **given: int) -> int:
    """Lets a twin of the policy say which block is evicted each time; returns how many did.

    Args:
        policy: Its name.
        load: What it serves.
        size: Tokens a block.
        **given: Its options that are not the default.

    Raises:
        AssertionError: The core chose another block.
    """
    columns, asked, options = run(policy, load, size, given)
    assert options.items() >= given.items()
    twin = TWINS[policy](load.capacity, **options)
    twin.block_size = size
    blocks: dict[int, Block] = {}
    request, at, announced, evictions = load.requests[0], 0, False, 0
    leaving: list[Block] = []
    for kind, seq, number, value, key, tick in zip(*columns, strict=True):
        if leaving and (kind != RELEASE or tick != twin.now):
            twin.released(sorted(leaving, key=lambda block: block.depth))
            leaving = []
        twin.now = tick
        if kind in (EVICT, OBTAIN) and not announced:
            twin.missed(request.keys[at])
            announced = True
        if kind == ALLOCATE:
            request, at, announced = asked[seq], 0, False
        elif kind == HIT:
            block = blocks[number]
            block.owners += 1
            twin.hit(block, use(request, block.depth))
            at += 1
        elif kind == EVICT:
            leaves = [b for b in blocks.values() if not b.owners and not b.children]
            lowest = min(b.band for b in leaves)
            leaves = [b for b in leaves if b.band == lowest]
            chosen = twin.victim(leaves)
            assert chosen.id == number, f"{policy} at tick {tick}: {number}, its twin {chosen.id}"
            gone = blocks.pop(number)
            if gone.parent:
                gone.parent.children -= 1
            twin.evicted(gone)
            evictions += 1
        elif kind == RETAIN:
            blocks[number].band = value
            twin.retained(blocks[number])
        elif kind == OBTAIN:
            twin.taken(number)
            at, announced = at + 1, False
        elif kind == STORE:
            parent = None if value == NIL else blocks[value]
            depth = parent.depth + 1 if parent else 0
            block = blocks[number] = Block(number, (key[0], key[1]), parent, depth)
            if parent:
                parent.children += 1
            twin.insert(block, use(asked[seq], depth))
        elif kind == RELEASE:
            block = blocks[number]
            block.owners -= 1
            if not block.owners:
                leaving.append(block)
    return evictions


def use(request: Request, place: int) -> Use:
    """A block's share of a request."""
    return Use(request.next[place], request.session, request.turn, request.kind, request.priority)
