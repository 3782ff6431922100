"""What other rules hit: the best of all choices on a few blocks, and ARC as it was printed."""

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
    limits: Sequence[int] | None = None,
) -> int:
    """Blocks hit at best, one request at a time; with ``bypass`` a block may stay out.

    ``worth`` of a number of blocks is what a hit of so many counts. A request hits at most what
    ``limits`` says of it.
    """
    states: dict[Cache, int] = {frozenset(): 0}
    for at, chain in enumerate(chains):
        limit = len(chain) if limits is None else limits[at]
        after: dict[Cache, int] = {}
        for cache, hits in states.items():
            found = hits + worth(min(hit(cache, chain), limit))
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


def arc_hits(stream: Sequence[int], capacity: int) -> int:
    """ARC of single blocks, as Megiddo and Modha print it (FAST 2003, figure 4)."""
    t1: list[int] = []
    t2: list[int] = []
    b1: list[int] = []
    b2: list[int] = []
    target, hits = 0.0, 0

    def replace(from_b2: bool) -> None:
        if t1 and (len(t1) > target or (from_b2 and len(t1) == target)):
            b1.append(t1.pop(0))
        else:
            b2.append(t2.pop(0))

    for block in stream:
        if block in t1 or block in t2:
            hits += 1
            (t1 if block in t1 else t2).remove(block)
            t2.append(block)
        elif block in b1 or block in b2:
            is_b2 = block in b2
            step = max(len(b1) / len(b2) if is_b2 else len(b2) / len(b1), 1)
            target = max(target - step, 0) if is_b2 else min(target + step, capacity)
            replace(is_b2)
            (b2 if is_b2 else b1).remove(block)
            t2.append(block)
        else:
            if len(t1) + len(b1) == capacity:
                if len(t1) < capacity:
                    b1.pop(0)
                    replace(False)
                else:
                    t1.pop(0)
            elif len(t1) + len(t2) + len(b1) + len(b2) >= capacity:
                if len(t1) + len(t2) + len(b1) + len(b2) == 2 * capacity:
                    b2.pop(0)
                replace(False)
            t1.append(block)
    return hits
