"""An engine's own KV arrays as a pool's pages: what their axes mean. Nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvframe.errors import UsageError
from kvframe.pages.layout import Layout, PageShape, Strides

_SIX = "LPBTH"


@dataclass(frozen=True)
class Array:
    """What is known of an array on any device; strides in bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    writable: bool


@dataclass(frozen=True)
class Adopted:
    """A layout, and the axes of each of the arrays that together have it.

    Attributes:
        layout: Of the whole pool.
        shape: Of each array as L, P, B, T, H, bytes of a row.
        strides: The same, in bytes.
    """

    layout: Layout
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def flat(arrays: object) -> tuple[list[object], int]:
    """The arrays that a caller of `adopt` gave, as one list; and how many each layer has."""
    if not isinstance(arrays, list | tuple):
        return [arrays], 1
    if any(isinstance(array, list | tuple) for array in arrays):
        return [part for layer in arrays for part in layer], len(arrays[0])
    return list(arrays), 1


def adopt(arrays: Sequence[Array], each: int, axes: str, block_size: int | None) -> Adopted:
    """Read the axes of arrays, all of one shape.

    Args:
        arrays: One array; or those of each layer, layer by layer.
        each: Arrays of a layer: 2 where keys and values have one each.
        axes: Of each array, outermost first: L(ayer) P(art) B(lock) T(oken) H(ead) D(im), or S(lot)
            for blocks and tokens in one. An axis that is not named has length 1. D is the last.
        block_size: Tokens in a block, needed with S.

    Raises:
        UsageError: The arrays break a rule, which the message names.
    """
    if not arrays:
        raise UsageError("0 arrays: a pool needs at least 1")
    for at, array in enumerate(arrays):
        if array != arrays[0]:
            raise UsageError(f"array {at} is {array}, array 0 is {arrays[0]}: must be alike")
    one = arrays[0]
    if not one.writable:
        raise UsageError("the array is read-only: a pool is written")
    extents, strides = _split(one, axes, block_size)
    for axis, stride in strides.items():
        if stride <= 0 and extents[axis] > 1:
            raise UsageError(f"axis {axis} has stride {stride}: pages would overlap")
    row = one.shape[-1] * one.itemsize
    if one.shape[-1] > 1 and one.strides[-1] != one.itemsize:
        raise UsageError(f"the last axis has stride {one.strides[-1]}: must be {one.itemsize}")
    layers, parts = _counted(len(arrays), each, extents)
    shape = PageShape(layers, parts, extents["T"], extents["H"], row)
    steps = {axis: strides.get(axis, 0) for axis in _SIX}
    for axis in "TH":
        steps[axis] = steps[axis] or row
    layout = Layout(shape, extents["B"], Strides(*(steps[axis] for axis in _SIX)))
    return Adopted(layout, (*(extents[a] for a in _SIX), row), (*(steps[a] for a in _SIX), 1))


def _split(one: Array, axes: str, block_size: int | None) -> tuple[dict[str, int], dict[str, int]]:
    """Extents of all axes, and strides of those that are named."""
    known = set(axes) <= set("LPBTHDS") and len(set(axes)) == len(axes)
    slots = "S" in axes
    if not known or not axes.endswith("D") or slots == ("B" in axes) or slots == ("T" in axes):
        raise UsageError(
            f"axes {axes!r}: each at most once of L, P, B, T, H and D, with S for B and T, D last"
        )
    if len(axes) != len(one.shape):
        raise UsageError(f"axes {axes!r} are {len(axes)}: the array has shape {one.shape}")
    extents = dict.fromkeys(_SIX, 1) | dict(zip(axes, one.shape, strict=True))
    strides = dict(zip(axes, one.strides, strict=True))
    if slots:
        if block_size is None or block_size < 1 or extents["S"] % block_size:
            raise UsageError(f"block_size = {block_size}: must divide {extents['S']} slots")
        extents |= {"B": extents["S"] // block_size, "T": block_size}
        strides |= {"B": strides["S"] * block_size, "T": strides["S"]}
    elif block_size not in (None, extents["T"]):
        raise UsageError(f"block_size = {block_size}: the array's blocks have {extents['T']}")
    return extents, strides


def _counted(arrays: int, each: int, extents: dict[str, int]) -> tuple[int, int]:
    """Layers and parts of all arrays together."""
    if arrays == 1:
        return extents["L"], extents["P"]
    if extents["L"] != 1 or (each > 1 and extents["P"] != 1) or arrays % each:
        raise UsageError(
            f"{arrays} arrays, {each} a layer, of {extents['L']} layers and {extents['P']} parts: "
            "must be one layer each, and one part where a layer has several"
        )
    return arrays // each, extents["P"] * each
