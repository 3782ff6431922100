"""The most that can hit, by trying every victim: for instances of a few blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Chain = tuple[int, ...]
Cache = frozenset[int]


def leaves(cache: Cache, parents: Sequence[int], pinned: Cache) -> list[int]:
    """Blocks that may be evicted."""
    inner = {parents[node] for node in cache}
    return [node for node in cache if node not in inner and node not in pinned]


def hit(cache: Cache, chain: Chain) -> int:
    """Blocks of the longest cached prefix."""
    return next((at for at, node in enumerate(chain) if node not in cache), len(chain))


def without(cache: Cache, count: int, parents: Sequence[int], pinned: Cache) -> Iterator[Cache]:
    """What may be left after ``count`` evictions, each once; nothing if so many cannot be."""
    found = {cache}
    for _ in range(count):
        found = {one - {leaf} for one in found for leaf in leaves(one, parents, pinned)}
    yield from found


def most_hits(
    chains: Sequence[Chain],
    parents: Sequence[int],
    capacity: int,
    *,
    bypass: bool,
    worth: Callable[[int], int] = int,
) -> int:
    """Blocks hit at best, one request at a time; with ``bypass`` a block may stay out.

    ``worth`` of a number of blocks is what a hit of so many counts.
    """
    states: dict[Cache, int] = {frozenset(): 0}
    for chain in chains:
        after: dict[Cache, int] = {}
        for cache, hits in states.items():
            found = hits + worth(hit(cache, chain))
            for left in _inserted(cache, chain, parents, capacity, bypass):
                after[left] = max(after.get(left, 0), found)
        states = after
    return max(states.values())


def _inserted(
    cache: Cache, chain: Chain, parents: Sequence[int], capacity: int, bypass: bool
) -> set[Cache]:
    """Every cache that serving ``chain`` can leave."""
    own, ends, open_ = frozenset(chain), set(), {cache}
    for node in chain[hit(cache, chain) :]:
        following: set[Cache] = set()
        for one in open_:
            room = one if len(one) < capacity else None
            choices = [room] if room is not None else list(without(one, 1, parents, own))
            if bypass or not choices:
                ends.add(one)
            following.update(choice | {node} for choice in choices)
        open_ = following
    return ends | open_


def most_hits_pinned(
    schedule: Sequence[tuple[bool, int]],
    chains: Sequence[Chain],
    parents: Sequence[int],
    capacity: int,
) -> int:
    """The same where requests run side by side, each with a block of its own besides.

    ``schedule`` has (whether it starts, which request). Blocks of running requests are pinned.
    """
    states: dict[Cache, int] = {frozenset(): 0}
    running: list[int] = []
    for starts, which in schedule:
        if not starts:
            running.remove(which)
            continue
        chain = chains[which]
        running.append(which)
        pinned = frozenset(node for one in running for node in chains[one])
        after: dict[Cache, int] = {}
        for cache, hits in states.items():
            found = hit(cache, chain)
            room = capacity - len(running) - len(cache)
            need = max(0, len(chain) - found - room)
            for left in without(cache, need, parents, pinned):
                full = left | frozenset(chain)
                after[full] = max(after.get(full, 0), hits + found)
        states = after
    return max(states.values())
