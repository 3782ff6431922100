"""What every backend checks before it touches a byte: ids, copies, slots, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe._core import copies as checked_copies
from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.pages.layout import Layout, PageShape

Ids = npt.NDArray[np.integer[Any]] | Sequence[int]
Copies = npt.NDArray[np.int32]
"""int32 of shape (n, 3): source page, destination page, tokens."""

FEW = 128
"""Up to so many ids are looked at as a list: a call of NumPy costs more than all of them, and ten
times as much right after the host has waited for its device (measured beside an H200)."""


def whole(values: Ids, what: str) -> npt.NDArray[np.int64]:
    """A one-dimensional array of whole numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise UsageError(
            f"{what} are {array.dtype} of shape {array.shape}: must be whole numbers in one row"
        )
    return array.astype(np.int64, copy=False)


def within(values: npt.NDArray[np.int64], least: int, end: int, what: str) -> None:
    """Every value is in ``range(least, end)``."""
    if not values.size:
        return
    if len(values) <= FEW:
        listed = values.tolist()
        low, high = min(listed), max(listed)
    else:
        low, high = int(values.min()), int(values.max())
    if low < least or high >= end:
        bad = low if low < least else high
        raise UsageError(f"{what} {bad}: must be between {least} and {end - 1}")


def pages(ids: Ids, blocks: int, what: str = "page") -> npt.NDArray[np.int64]:
    """Ids of pages that exist."""
    found = whole(ids, f"{what} ids")
    within(found, 0, blocks, what)
    return found


def copies(
    src: Ids,
    dst: Ids,
    tokens: Ids | None,
    source: Layout,
    target: Layout,
    *,
    once: bool = False,
    names: tuple[str, str] = ("source page", "destination page"),
) -> Copies:
    """Copies from pages of one pool to pages of another, checked.

    Raises:
        UsageError: An id or a number of tokens is out of range, the lists differ in length, or a
            destination is named twice where it must be ``once``.
    """
    size, ends = source.shape.block_size, (source.blocks, target.blocks)
    right: Copies | None = checked_copies(
        src, dst, tokens, block_size=size, src_blocks=ends[0], dst_blocks=ends[1], once=once
    )
    if right is not None:
        return right
    out, into = (
        pages(ids, end, name) for ids, end, name in zip((src, dst), ends, names, strict=True)
    )
    if len(out) != len(into):
        raise UsageError(f"{len(out)} {names[0]}s, but {len(into)} {names[1]}s")
    if once:
        _once(into, names[1])
    found = unchecked(out, into, size)
    if tokens is not None:
        many = whole(tokens, "tokens")
        if len(many) != len(out):
            raise UsageError(f"{len(out)} {names[0]}s, but {len(many)} numbers of tokens")
        within(many, 0, size + 1, "tokens of a copy")
        found[:, 2] = many
    return found


def unchecked(src: Ids, dst: Ids, tokens: int) -> Copies:
    """Copies of the given numbers of tokens, between ids that were checked."""
    found = np.empty((len(src), 3), np.int32)
    found[:, 0], found[:, 1], found[:, 2] = src, dst, tokens
    return found


def _once(ids: npt.NDArray[np.integer[Any]], what: str) -> None:
    """Refuse ids that name a page twice: copies that run at once must not write one page twice."""
    found, count = np.unique(ids, return_counts=True)
    if len(found) < len(ids):
        raise UsageError(f"{what} {found[count > 1][0]} is named {count.max()} times: once at most")


def chains(found: Copies) -> tuple[Copies, npt.NDArray[np.int32]] | None:
    """Copies that must run in their order, brought together; None if all may run at once.

    Two copies belong to one chain if one of them writes a page that the other reads or writes.

    Returns:
        The copies, chain by chain and in their order within each, and where each chain starts, with
        the end behind.
    """
    marked = np.zeros(int(found[:, :2].max(initial=0)) + 1, bool)
    marked[found[:, 1]] = True
    if np.count_nonzero(marked) == len(found) and not marked[found[:, 0]].any():
        return None
    written = set(found[:, 1].tolist())
    parent = list(range(len(found)))

    def root(copy: int) -> int:
        while parent[copy] != copy:
            parent[copy] = parent[parent[copy]]
            copy = parent[copy]
        return copy

    first: dict[int, int] = {}
    for copy, ends in enumerate(found[:, :2].tolist()):
        for page in written.intersection(ends):
            parent[root(copy)] = root(first.setdefault(page, copy))
    roots = np.array([root(copy) for copy in range(len(found))])
    order = np.argsort(roots, kind="stable")
    edges = np.flatnonzero(np.diff(roots[order])) + 1
    return found[order], np.array([0, *edges, len(found)], np.int32)


def same_shape(one: PageShape, other: PageShape) -> None:
    """Refuse two pools whose pages differ in shape."""
    if one != other:
        raise UsageError(f"pages differ: {one} and {other}")


def layer(at: int, shape: PageShape) -> int:
    """Refuse a layer that the pool does not have."""
    number(at, "layer")
    if not 0 <= at < shape.layers:
        raise UsageError(f"layer {at}: must be between 0 and {shape.layers - 1}")
    return int(at)


def number(value: object, what: str) -> None:
    """A whole number."""
    if not is_int(value):
        raise UsageError(f"{what} = {shown(value)}: must be an integer")


def rows(pages: object, count: int, page: PageShape) -> None:
    """Refuse anything but ``count`` whole pages: uint8 [count][page bytes]."""
    told, wanted = shown(pages), (count, page.page_bytes)
    if isinstance(pages, np.ndarray):
        if pages.shape == wanted and pages.dtype == np.uint8:
            return
        told = f"{pages.dtype} {pages.shape}"
    raise UsageError(f"pages are {told}: must be uint8 {wanted}")


def items(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, tokens: int, page: PageShape
) -> None:
    """KV of so many tokens for one layer and part: [tokens][heads][dim], rows in one piece."""
    row = shape[-1] * itemsize if shape else 0
    wanted = (tokens, page.heads)
    if len(shape) != 3 or shape[:2] != wanted or row != page.row_bytes:
        raise UsageError(
            f"KV of shape {shape} with {itemsize}-byte values: must be [{tokens}][{page.heads}] "
            f"rows of {page.row_bytes} bytes"
        )
    if shape[-1] > 1 and strides[-1] != itemsize:
        raise UsageError(f"KV rows have stride {strides[-1]}: must be contiguous ({itemsize})")


def parts(kv: Sequence[Any], page: PageShape) -> None:
    """Refuse a list that does not have one array for each part of a page."""
    if not hasattr(kv, "__len__"):
        raise UsageError(f"kv = {shown(kv)}: must be an array a part")
    if len(kv) != page.parts:
        raise UsageError(f"{len(kv)} arrays of KV: the pages have {page.parts} parts")


def span(table: Ids, start: int, end: int, layout: Layout) -> npt.NDArray[np.int64]:
    """The pages of tokens ``start`` to ``end`` of a block table.

    Raises:
        UsageError: The table is shorter, or an entry there is no page (given up, or padding).
    """
    size = layout.shape.block_size
    row = whole(table, "block table entries")
    number(start, "start")
    number(end, "length")
    if not 0 <= start <= end:
        raise UsageError(f"tokens {start} to {end}: must be 0 <= start <= end")
    if -(-end // size) > len(row):
        raise UsageError(
            f"token {end - 1} is past the block table: {len(row)} blocks hold {len(row) * size}"
        )
    held = row[start // size : -(-end // size)]
    within(held, 0, layout.blocks, "block table entry")
    return held


def neighbours(ids: npt.NDArray[np.integer[Any]]) -> list[npt.NDArray[np.uint64]]:
    """Runs of ids that follow each other: place, first id and length of each."""
    edges = np.flatnonzero(np.diff(ids) != 1) + 1
    starts = np.concatenate(([0], edges)) if len(ids) else edges
    lengths = np.diff(starts, append=len(ids))
    return [each.astype(np.uint64) for each in (starts, ids[starts], lengths)]
