"""Adopting an engine's own arrays: views, never copies; what cannot be adopted is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import UsageError
from kvframe.pages import NumpyPool, PageShape

from .helpers import spell

L, P, B, T, H, D = 3, 2, 5, 4, 2, 8
KV: npt.NDArray[np.float16] = np.random.default_rng(0).normal(size=(L, P, B, T, H, D)).astype("f2")
"""What every pool below holds, in the order of its letters."""


class Foreign:
    """An array of a library that speaks DLPack only, on a device of its choice."""

    def __init__(self, array: npt.NDArray[Any], device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **more: Any) -> Any:
        return self.array.__dlpack__(**more)


def order(axes: str) -> npt.NDArray[np.float16]:
    return np.ascontiguousarray(KV.transpose(["LPBTHD".index(a) for a in axes]))


ENGINES: dict[str, Callable[[], tuple[Any, str, dict[str, Any]]]] = {
    "one array, layer first": lambda: (order("LPBTHD"), "LPBTHD", {}),
    "one array, page first": lambda: (order("PBTLHD"), "PBTLHD", {}),
    "one array, a tier's pages": lambda: (order("BLPTHD"), "BLPTHD", {}),
    "one a layer, keys before values": lambda: (list(order("LPBTHD")), "PBTHD", {}),
    "one a layer, heads before tokens": lambda: (list(order("LBPHTD")), "BPHTD", {}),
    "keys and values a layer": lambda: ([tuple(x) for x in order("LPBTHD")], "BTHD", {}),
    "slots a layer": lambda: (
        [tuple(x.reshape(P, B * T, H, D)) for x in order("LPBTHD")],
        "SHD",
        {"block_size": T},
    ),
    "DLPack": lambda: ([Foreign(x) for x in order("LPBTHD")], "PBTHD", {}),
    "padded rows": lambda: (
        np.pad(order("LPBTHD"), [(0, 0)] * 5 + [(0, 8)])[..., :D],
        "LPBTHD",
        {},
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engines_pool_is_used_in_place(engine: str) -> None:
    arrays, axes, more = ENGINES[engine]()
    pool = NumpyPool.adopt(arrays, axes, **more)
    assert pool.layout.shape == PageShape(L, P, T, H, 2 * D)
    assert pool.layout.blocks == B
    wanted = KV.transpose(2, 0, 1, 3, 4, 5).copy()
    assert np.array_equal(spell(pool), wanted.view(np.uint8))
    table = [3, 0]
    keys, values = pool.read(1, table, 6)
    assert keys.dtype == np.float16
    assert np.array_equal(keys, KV[1, 0, table].reshape(-1, H, D)[:6])
    assert np.array_equal(values, KV[1, 1, table].reshape(-1, H, D)[:6])
    pool.copy([0], [4], [3])
    wanted[4, :, :, :3] = wanted[0, :, :, :3]
    again = NumpyPool.adopt(arrays, axes, **more)  # through the engine's own memory
    assert np.array_equal(spell(again), wanted.view(np.uint8))
    fresh = NumpyPool.adopt(order("BLPTHD"), "BLPTHD")
    pool.copy_to(fresh, range(B), range(B))
    assert np.array_equal(spell(fresh), wanted.view(np.uint8))


def test_a_latent_has_one_part_and_no_heads() -> None:
    latent = np.arange(2 * 3 * 4 * 9, dtype=np.uint8).reshape(2, 3, 4, 9)
    pool = NumpyPool.adopt(list(latent), "BTD")
    assert pool.layout.shape == PageShape(2, 1, 4, 1, 9)
    (rows,) = pool.read(1, [2], 2)
    assert np.array_equal(rows[:, 0], latent[1, 2, :2])


def frozen() -> npt.NDArray[np.float16]:
    array = KV.copy()
    array.flags.writeable = False
    return array


REFUSED: dict[str, Callable[[], object]] = {
    "0 arrays": lambda: NumpyPool.adopt([], "BTHD"),
    "read-only": lambda: NumpyPool.adopt(frozen(), "LPBTHD"),
    "must be alike": lambda: NumpyPool.adopt([KV[0], KV[1, :, :4]], "PBTHD"),
    "are 5: the array has shape": lambda: NumpyPool.adopt(KV, "PBTHD"),
    "each at most once of L, P, B, T, H and D": lambda: NumpyPool.adopt(KV, "LPBTDH"),
    "with S for B and T": lambda: NumpyPool.adopt(KV, "LPSTHD"),
    "must divide 20 slots": lambda: NumpyPool.adopt(
        KV.reshape(L, P, B * T, H, D), "LPSHD", block_size=3
    ),
    "blocks have 4": lambda: NumpyPool.adopt(KV, "LPBTHD", block_size=8),
    "the last axis has stride 4": lambda: NumpyPool.adopt(KV[..., ::2], "LPBTHD"),
    "axis B has stride 0": lambda: NumpyPool.adopt(
        np.lib.stride_tricks.as_strided(KV, (L, P, B, T, H, D), (320, 160, 0, 32, 16, 2)), "LPBTHD"
    ),
    "must be on a CPU": lambda: NumpyPool.adopt([Foreign(KV, (2, 3))], "LPBTHD"),
    "a list has neither": lambda: NumpyPool.adopt([[[1]]], "D"),
    "must be one layer each": lambda: NumpyPool.adopt([KV, KV], "LPBTHD"),
    "the buffer has 9 bytes": lambda: NumpyPool(
        NumpyPool.adopt(KV.copy(), "LPBTHD").layout, np.zeros(9, np.uint8)
    ),
    "a row has 16": lambda: NumpyPool(NumpyPool.adopt(KV.copy(), "LPBTHD").layout, dtype="S3"),
    "not contiguous": lambda: NumpyPool(NumpyPool.adopt(KV.copy(), "LPBTHD").layout, KV.T),
    "adopted, not allocated": lambda: NumpyPool(NumpyPool.adopt(list(KV), "PBTHD").layout),
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_cannot_be_adopted_is_told(told: str) -> None:
    with pytest.raises(UsageError, match=told):
        REFUSED[told]()
