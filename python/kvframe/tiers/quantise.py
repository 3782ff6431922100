"""Pages of floats in fp8 (e4m3) with a scale for each layer, part and head: half the bytes, lossy.

The largest value of a head in a block becomes 448, the largest of e4m3; others keep three bits
behind the point. As in vLLM's fp8 KV cache, but with scales that are computed for each page.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.errors import ConfigError, UsageError
from kvframe.pages.layout import PageShape

_LARGEST = 448.0
FLOATS = ("float32", "float16", "bfloat16")


class Fp8:
    """Turns pages of one shape into fp8 and back.

    Args:
        shape: Of a page.
        dtype: ``float32``, ``float16`` or ``bfloat16``: what the bytes of a row are.

    Raises:
        ConfigError: The dtype is none of these.
        ImportError: The package ml_dtypes is not there.
    """

    def __init__(self, shape: PageShape, dtype: str) -> None:
        if dtype not in FLOATS:
            raise ConfigError(
                f"quantise = 'fp8' needs model.dtype = {', '.join(FLOATS)}: it is {dtype!r}, and "
                "would not come back"
            )
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError("fp8 needs ml_dtypes: pip install 'kvframe[tiers]'") from error
        self._fp8: npt.DTypeLike = ml_dtypes.float8_e4m3fn
        self._dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        width = shape.row_bytes // self._dtype.itemsize
        # In the order of BLOCK_FIRST: layer, part, token, head, row.
        self._extents = (shape.layers, shape.parts, shape.block_size, shape.heads, width)
        self._scales = (shape.layers, shape.parts, 1, shape.heads, 1)

    @property
    def nbytes(self) -> int:
        """Bytes of a page in this form."""
        return int(np.prod(self._extents) + 4 * np.prod(self._scales))

    def encode(self, page: npt.NDArray[np.uint8]) -> bytes:
        """A page, uint8 [page bytes], as scales (float32) and values.

        Raises:
            UsageError: A value is NaN or infinite, as in a page that was never written.
        """
        values = page.view(self._dtype).reshape(self._extents).astype(np.float32)
        most = np.abs(values).max(axis=(2, 4), keepdims=True)
        if not np.isfinite(most).all():
            raise UsageError("the page holds NaN or infinite values: it was not written whole")
        # Below the least normal number a scale has too few bits: the largest value would overflow.
        least = np.finfo(np.float32).tiny
        scale: npt.NDArray[np.float32] = np.maximum(most / _LARGEST, least)
        small: npt.NDArray[Any] = (values / scale).astype(self._fp8)
        return scale.tobytes() + small.tobytes()

    def decode(self, data: bytes | memoryview) -> npt.NDArray[np.uint8]:
        """The page again, as near as fp8 is."""
        split = 4 * int(np.prod(self._scales))
        scale = np.frombuffer(data[:split], np.float32).reshape(self._scales)
        small = np.frombuffer(data[split:], self._fp8).reshape(self._extents)
        values = small.astype(np.float32) * scale
        return values.astype(self._dtype).reshape(-1).view(np.uint8)
