"""The functions that the core calls, compiled by numba.

Blocks that may be evicted stand in a dense list, so that a sample is a few draws. A victim costs as
many looks as the sample has blocks, whatever the size of the pool; every other event costs O(1).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import cfunc, njit

from kvframe.native import NONE, SIGNATURES, NativePolicy

carray: Any = numba.carray  # type: ignore[attr-defined]

STATE = np.dtype([("drawn", np.uint64), ("sample", np.uint32), ("listed", np.uint32)], align=True)
"""The generator's state, the sample's size, and how many blocks may be evicted."""

BLOCK = np.dtype(
    [
        ("inserted", np.uint64),
        ("uses", np.uint32),
        ("place", np.uint32),  # in the list, counted from 1; 0: not listed
        ("listed", np.uint32),  # the list: the block at this row's place
    ],
    align=True,
)

ALL = 2**32
"""Rows that an array over the core's memory has for numba; the core has one for each block."""


@njit
def leave(state: Any, rows: Any, block: int) -> None:
    """Take a block off the list; the last one gets its place."""
    place = rows[block].place
    if place == 0:
        return
    last = rows[state.listed - 1].listed
    rows[place - 1].listed = last
    rows[last].place = place
    rows[block].place = 0
    state.listed -= 1


@cfunc(SIGNATURES["insert"])
def insert(
    state: Any, memory: Any, now: int, n: int, blocks: Any, parents: Any, depths: Any, keys: Any,
    use: Any,
) -> int:  # fmt: skip
    """A block begins with the use that made it."""
    rows = carray(memory, ALL, BLOCK)
    for i in range(n):
        rows[blocks[i]].inserted = now
        rows[blocks[i]].uses = 1
    return 0


@cfunc(SIGNATURES["hit"])
def hit(state: Any, memory: Any, now: int, n: int, blocks: Any, use: Any) -> int:
    """One use more."""
    rows = carray(memory, ALL, BLOCK)
    for i in range(n):
        rows[blocks[i]].uses += 1
    return 0


@cfunc(SIGNATURES["on_evictable"])
def on_evictable(state: Any, memory: Any, now: int, n: int, blocks: Any) -> int:
    """Onto the list."""
    head = carray(state, 1, STATE)[0]
    rows = carray(memory, ALL, BLOCK)
    for i in range(n):
        if rows[blocks[i]].place == 0:
            rows[head.listed].listed = blocks[i]
            head.listed += 1
            rows[blocks[i]].place = head.listed
    return 0


@cfunc(SIGNATURES["acquire"])
def acquire(state: Any, memory: Any, now: int, n: int, blocks: Any) -> int:
    """Off the list."""
    head = carray(state, 1, STATE)[0]
    rows = carray(memory, ALL, BLOCK)
    for i in range(n):
        leave(head, rows, blocks[i])
    return 0


@cfunc(SIGNATURES["remove"])
def remove(state: Any, memory: Any, now: int, block: int, why: int) -> int:
    """Off the list."""
    leave(carray(state, 1, STATE)[0], carray(memory, ALL, BLOCK), block)
    return 0


@cfunc(SIGNATURES["victim"])
def victim(state: Any, memory: Any, now: int) -> int:
    """The block of the sample with the fewest uses by its time in the cache."""
    head = carray(state, 1, STATE)[0]
    rows = carray(memory, ALL, BLOCK)
    whole = head.listed <= head.sample
    best, lowest = NONE, np.inf
    for i in range(head.listed if whole else head.sample):
        place = np.uint64(i)
        if not whole:
            # SplitMix64 (Steele, Lea and Flood, 2014); its high half, scaled to the list.
            head.drawn += np.uint64(0x9E3779B97F4A7C15)
            bits = head.drawn
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits = bits ^ (bits >> np.uint64(31))
            place = ((bits >> np.uint64(32)) * np.uint64(head.listed)) >> np.uint64(32)
        block = rows[place].listed
        row = rows[block]
        worth = row.uses / (np.float64(now) - np.float64(row.inserted) + 1.0)
        # Of equals the oldest, so that the order of the list does not matter.
        if worth < lowest or (worth == lowest and row.inserted < rows[best].inserted):
            best, lowest = block, worth
    return best


def policy(sample: int, seed: int) -> NativePolicy:
    """The policy of these options; each cache draws from the seed on."""
    state = np.zeros(1, STATE)
    state["sample"], state["drawn"] = sample, seed
    return NativePolicy.of_functions(
        {
            "insert": insert,
            "hit": hit,
            "on_evictable": on_evictable,
            "acquire": acquire,
            "remove": remove,
            "victim": victim,
        },
        abi=(1, 0),
        block_bytes=BLOCK.itemsize,
        state=state,
    )
