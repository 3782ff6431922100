"""The host tier: pages in pinned or plain memory, block-first, one piece each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvframe.arguments import shown
from kvframe.config.tiers import ResolvedTier
from kvframe.errors import UsageError
from kvframe.pages.checksum import checksums_at
from kvframe.pages.layout import BLOCK_FIRST, Layout, PageShape
from kvframe.pages.numpy import NumpyPool
from kvframe.tiers.gate import Gate
from kvframe.tiers.moves import Pages
from kvframe.tiers.tier_index import Gone, TierIndex

Bytes = npt.NDArray[np.uint8]


class HostTier:
    """Host memory of exactly its size, its index, and a checksum of each page.

    Attributes:
        medium: What KV events call it.

    Args:
        tier: Its configuration.
        shapes: Of each part of a page.
        block_size: Tokens of a page.
        pools: Memory to use, one pool a part, block-first (`kvframe.pages.cupy.host_pool` gives
            pinned ones); allocated if None.
        poison: Overwrite pages that leave, so that a late reader notices.
        verify: Note checksums even where the configuration says none.

    Raises:
        ImportError: Pages have checksums, and the package xxhash is not there.
        UsageError: The memory does not fit.
    """

    medium = "CPU"

    def __init__(
        self,
        tier: ResolvedTier,
        shapes: Sequence[PageShape],
        block_size: int,
        pools: Sequence[NumpyPool] | None = None,
        *,
        poison: bool = False,
        verify: bool = False,
    ) -> None:
        self.name, self.config = tier.config.name, tier.config
        self.index = TierIndex(tier, block_size, len(shapes))
        self.gate = Gate(tier, self.index, "host", block_size)
        # There is no memory of no page: that of tiers that are off has one, which stays unused.
        layouts = [Layout.of(BLOCK_FIRST, shape, max(tier.pages, 1)) for shape in shapes]
        self.pools = list(pools) if pools is not None else [NumpyPool(one) for one in layouts]
        if len(self.pools) != len(shapes):
            raise UsageError(f"host: {len(self.pools)} pools for {len(shapes)} parts")
        self._rows = [self._dense(*one, tier.pages) for one in zip(self.pools, shapes, strict=True)]
        self.corrupt = 0
        self._poison = poison
        self._sums = np.zeros((len(shapes), tier.pages), np.uint64)
        self._checked = verify or tier.config.checksum != "none"
        if self._checked:
            checksums_at(self._rows[0], ())  # without xxhash no page would ever get in
        if poison:
            for pool in self.pools:
                pool.poison(range(tier.pages))

    @property
    def pages(self) -> int:
        """Pages that fit."""
        return self.index.tier.pages

    def stats(self) -> dict[str, int]:
        """Counters beside those of the index."""
        return {"corrupt": self.corrupt}

    def seal(self, slots: Pages) -> int:
        """Note the checksums of pages that have just come in; all are good."""
        if self._checked:
            for part in range(len(self.pools)):
                self._sums[part, slots] = self._now(part, slots)
        return len(slots)

    def check(self, slots: Pages) -> int:
        """How many of the pages, from the first on, are as they came in, in every part."""
        good = len(slots)
        if self._checked:
            for part in range(len(self.pools)):
                wrong = np.flatnonzero(self._now(part, slots) != self._sums[part, slots])
                good = min(good, int(wrong[0]) if len(wrong) else good)
            if good < len(slots):
                self.corrupt += 1
        return good

    def sums(self, slots: Pages) -> npt.NDArray[np.uint64]:
        """The checksums noted of pages: [parts][pages]."""
        return self._sums[:, slots]

    def get(self, slots: Pages) -> list[list[Bytes]]:
        """The bytes of pages, a list a part; not copied."""
        return [[rows[slot] for slot in slots] for rows in self._rows]

    def _now(self, part: int, slots: Pages) -> npt.NDArray[np.uint64]:
        return checksums_at(self._rows[part], slots)

    @staticmethod
    def _dense(pool: NumpyPool, shape: PageShape, pages: int) -> Bytes:
        if not isinstance(pool, NumpyPool):
            raise UsageError(f"host: {shown(pool)} is no NumpyPool")
        rows, layout = pool.rows(), pool.layout
        if rows is None or len(rows) < pages or layout.shape != shape:
            raise UsageError(
                f"the host pool is {layout.order} with {layout.blocks} pages of {layout.shape}: "
                f"must be {BLOCK_FIRST}, dense, with {pages} of {shape}"
            )
        return rows

    def left(self, gone: Gone) -> None:
        """Pages have left, and their places are not written yet."""
        if self._poison and gone:
            places = [place for _, place in gone]
            for pool in self.pools:
                pool.poison(places)
