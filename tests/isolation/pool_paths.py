"""How KV comes to lie in a pool, and how a request may ask for it.

A way in (`WAYS`) leaves what one namespace computed. A question (`QUESTIONS`) asks for the same
tokens from another one, and says how many it was given; bytes are compared on the way.
"""

from __future__ import annotations

from collections.abc import Callable

from kvframe import Request

from .spaces import SPACES
from .world import World

PROMPT = list(range(100, 111))
MORE = [7, 8, 9, 10, 11, 12]
Way = Callable[[World, str], None]
Question = Callable[[World, str, list[int]], int]


# --- ways in ------------------------------------------------------------------------------------


def _released(world: World, space: str) -> None:
    world.serve(space, PROMPT)


def _running(world: World, space: str) -> None:
    world.compute(world.start(space, PROMPT).seq)


def _in_chunks(world: World, space: str) -> None:
    seq = world.start(space, PROMPT, chunk=3).seq
    for upto in (3, 6, 9, 11):
        world.compute(seq, upto)


def _computing(world: World, space: str) -> None:
    world.start(space, PROMPT)


def _decoded(world: World, space: str) -> None:
    seq = world.start(space, PROMPT[:5]).seq
    world.compute(seq)
    for token in PROMPT[5:]:
        world.kv.append(seq, [token])
        world.know(seq, space, [*world.running[seq][1], token])
        world.compute(seq)
    world.end(seq)


def _cut_and_grown(world: World, space: str) -> None:
    seq = world.start(space, PROMPT[:9]).seq
    world.compute(seq)
    world.kv.truncate(seq, 6)
    world.kv.append(seq, PROMPT[6:])
    world.know(seq, space, PROMPT)
    world.compute(seq)
    world.end(seq)


def _forked(world: World, space: str) -> None:
    seq = world.start(space, PROMPT[:6]).seq
    world.compute(seq)
    forks = world.kv.fork(seq, 2, tokens=[PROMPT[6], 99])
    for fork, last in zip(forks, (PROMPT[6], 99), strict=True):
        world.know(fork, space, [*PROMPT[:6], last])
        world.compute(fork)
    world.kv.append(forks[0], PROMPT[7:])
    world.know(forks[0], space, PROMPT)
    world.compute(forks[0])
    for one in (*forks, seq):
        world.end(one)


def _prefix_copied(world: World, space: str) -> None:
    seq = world.start(space, [*PROMPT, 1, 2]).seq
    world.compute(seq)
    fork = world.kv.fork(seq, upto=6, copy=True)
    world.know(fork, space, PROMPT[:6])
    world.kv.append(fork, PROMPT[6:])
    world.know(fork, space, PROMPT)
    world.compute(fork)
    world.end(seq)
    world.end(fork)


def _preempted(world: World, space: str) -> None:
    seq = world.start(space, PROMPT).seq
    world.compute(seq)
    request = world.kv.preempt(seq)
    del world.running[seq]
    world.know(world.kv.allocate(request).seq, space, PROMPT)


def _aborted(world: World, space: str) -> None:
    seq = world.start(space, PROMPT).seq
    world.compute(seq)
    world.kv.abort(seq)
    del world.running[seq]


def _pinned(world: World, space: str) -> None:
    world.serve(space, PROMPT)
    world.kv.pins.pin(PROMPT, **SPACES[space], owner="x")


def _attached(world: World, space: str) -> None:
    seq = world.start(space, PROMPT).seq
    world.compute(seq)
    world.kv.blocks.attach(seq, 5)
    world.end(seq)


def _twice(world: World, space: str) -> None:
    seqs = [world.start(space, PROMPT).seq for _ in range(2)]
    for seq in seqs:
        world.compute(seq)
    for seq in seqs:
        world.end(seq)


def _loaded(world: World, space: str) -> None:
    grant = world.start(space, PROMPT, num_external_tokens=8)
    world.write(grant.seq, 0, 8)
    if grant.load is not None:
        world.kv.loaded(grant.load, 2)
    world.compute(grant.seq)


def _loading(world: World, space: str) -> None:
    world.start(space, PROMPT, num_external_tokens=8)


def _in_a_step(world: World, space: str) -> None:
    (grant,) = world.kv.step(allocate=[Request(PROMPT, **SPACES[space])]).allocations
    assert grant is not None
    world.know(grant.seq, space, PROMPT)
    world.write(grant.seq, 0, len(PROMPT))
    world.kv.step(commit=([grant.seq], [len(PROMPT)]), release=[grant.seq])
    del world.running[grant.seq]


def _after_a_resize(world: World, space: str) -> None:
    world.serve(space, PROMPT)
    world.kv.resize(24)
    world.kv.resize(32)


def _published(world: World, space: str) -> None:
    kv = world.kv
    keys, parent = kv.blocks.hash_blocks(PROMPT, **SPACES[space]), None
    for key in keys:
        (block,) = kv.blocks.take(1).tolist()
        kv.blocks.publish(block, key, parent)
        parent = block


WAYS: dict[str, Way] = {
    "released": _released,
    "running": _running,
    "in chunks": _in_chunks,
    "being computed": _computing,
    "decoded": _decoded,
    "cut and grown": _cut_and_grown,
    "forked": _forked,
    "a prefix copied": _prefix_copied,
    "preempted": _preempted,
    "aborted": _aborted,
    "pinned": _pinned,
    "with a handle": _attached,
    "computed twice": _twice,
    "loaded": _loaded,
    "being loaded": _loading,
    "in a step": _in_a_step,
    "after a resize": _after_a_resize,
    "published by hand": _published,
}
UNSETTLED = ("being computed", "being loaded")
"""Nothing is found of these, but they can be joined."""

NOT_IN = {
    "a window": ("cut and grown", "a prefix copied", "published by hand"),
    "radix": ("published by hand", "with a handle"),
    "radix, xxh3": ("published by hand", "with a handle"),
}
"""What a pool has no way to do: a window gives blocks up, and a tree's blocks have no keys."""


# --- questions ----------------------------------------------------------------------------------


def _lookup(world: World, space: str, tokens: list[int]) -> int:
    hit = world.kv.lookup(tokens, **SPACES[space])
    if hit.attached is not None:
        return len(tokens)
    return hit.tokens


def _allocate(world: World, space: str, tokens: list[int]) -> int:
    grant = world.start(space, tokens)
    world.copy()
    world.check(grant.seq)
    world.kv.abort(grant.seq)
    del world.running[grant.seq]
    return len(tokens) if grant.attached is not None else int(grant.cached_tokens)


def _join(world: World, space: str, tokens: list[int]) -> int:
    grant = world.start(space, tokens, join=True)
    world.copy()
    world.kv.abort(grant.seq)
    del world.running[grant.seq]
    return int(grant.cached_tokens + grant.joined_tokens)


def _step(world: World, space: str, tokens: list[int]) -> int:
    one = Request(tokens, **SPACES[space], partial=True)
    stepped = world.kv.step(allocate=[one])
    (grant,) = stepped.allocations
    assert grant is not None
    world.know(grant.seq, space, tokens)
    world.copy(stepped.plan)
    world.check(grant.seq)
    world.kv.step(release=[grant.seq])
    del world.running[grant.seq]
    return int(grant.cached_tokens)


def _pin(world: World, space: str, tokens: list[int]) -> int:
    pin = world.kv.pins.pin(tokens, **SPACES[space])
    if pin is None:
        return 0
    world.kv.pins.unpin(pin)
    return int(pin.tokens)


def _find(world: World, space: str, tokens: list[int]) -> int:
    keys = world.kv.blocks.hash_blocks(tokens, **SPACES[space])
    return len(world.kv.blocks.find(keys)) * world.block


QUESTIONS: dict[str, Question] = {
    "lookup": _lookup,
    "allocate": _allocate,
    "join": _join,
    "step": _step,
    "pin": _pin,
    "find": _find,
}
