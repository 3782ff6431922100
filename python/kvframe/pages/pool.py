"""The interface of every storage backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kvframe.pages.checks import Ids
from kvframe.pages.layout import Layout

POISON = 0xFF
"""The byte of unwritten pages: NaN in fp32, fp16, bf16 and both fp8 formats, -1 in int8."""


class PagePool(Protocol):
    """Pages of KV in one memory, whatever their layout.

    Sequential meaning: copies of one call take effect one after the other, so a page may be filled
    and read again in the same call. Pages that are not named keep every byte, as do the tokens of a
    page past those that are copied. A refused call (`kvframe.UsageError`) has changed nothing.
    """

    @property
    def layout(self) -> Layout: ...

    def copy(self, src: Ids, dst: Ids, tokens: Ids | None = None) -> None:
        """Copy pages within the pool (copy-on-write, compaction).

        Args:
            src: Pages to read.
            dst: Pages to write.
            tokens: First tokens of each that matter; whole pages if None.
        """

    def zero(self, ids: Ids) -> None:
        """Fill pages with zero bytes (no tenant reads another's)."""

    def poison(self, ids: Ids) -> None:
        """Fill pages with `POISON`, so that a read of unwritten KV shows."""

    def write(self, layer: int, kv: Sequence[Any], slots: Any) -> None:
        """Write tokens' KV of a layer where a slot mapping says (vLLM's reshape_and_cache).

        Args:
            layer: Layer.
            kv: One array a part, [tokens][heads][dim]; heads and tokens may have any strides.
            slots: int64, one a token: page x block size + offset; -1 leaves the token out.
        """

    def read(self, layer: int, table: Ids, length: int, *, start: int = 0) -> list[Any]:
        """KV of a sequence's tokens ``start`` to ``length`` of a layer, across its blocks.

        Returns:
            One array a part, [tokens][heads][dim], of its own memory.

        Raises:
            UsageError: The block table is shorter, or has given up a block that is asked for.
        """

    def get(self, ids: Ids) -> npt.NDArray[np.uint8]:
        """Pages as bytes on the host, uint8 [pages][page bytes], in the order of `BLOCK_FIRST`."""

    def put(self, ids: Ids, pages: npt.NDArray[np.uint8]) -> None:
        """Fill pages with what `get` gave, of a pool of any layout and backend."""

    def checksum(self, ids: Ids) -> npt.NDArray[np.uint64]:
        """XXH3 (64 bits) of each page in the order of `BLOCK_FIRST`: the same in every layout."""

    def verify(self, ids: Ids, sums: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Those of the pages whose checksum is not the one given; none if all is well."""
