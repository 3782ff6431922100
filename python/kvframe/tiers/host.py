"""The host tier: pages in pinned or plain memory, block-first, one piece each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvframe.config.tiers import ResolvedTier
from kvframe.pages.checksum import checksums
from kvframe.pages.layout import BLOCK_FIRST, Layout, PageShape
from kvframe.pages.numpy import NumpyPool
from kvframe.tiers.books import Books, Gone
from kvframe.tiers.moves import Pages

Bytes = npt.NDArray[np.uint8]


class HostTier:
    """Host memory of exactly its size, its books, and a checksum of each page.

    Args:
        tier: Its configuration.
        shapes: Of each part of a page.
        block_size: Tokens of a page.
        pools: Memory to use, one pool a part, block-first (`kvframe.pages.cupy.host_pool` gives
            pinned ones); allocated if None.
        poison: Overwrite pages that leave, so that whoever reads them will notice.
    """

    def __init__(
        self,
        tier: ResolvedTier,
        shapes: Sequence[PageShape],
        block_size: int,
        pools: Sequence[NumpyPool] | None = None,
        *,
        poison: bool = False,
    ) -> None:
        self.name, self.config = tier.config.name, tier.config
        self.books = Books(tier, block_size, len(shapes))
        layouts = [Layout.of(BLOCK_FIRST, shape, tier.pages) for shape in shapes]
        self.pools = list(pools) if pools is not None else [NumpyPool(one) for one in layouts]
        self.corrupt = 0
        self._poison = poison
        self._sums = np.zeros((len(shapes), tier.pages), np.uint64)
        self._checked = tier.config.checksum != "none"
        if poison:
            for pool in self.pools:
                pool.poison(range(tier.pages))

    @property
    def pages(self) -> int:
        """Pages that fit."""
        return self.books.tier.pages

    def seal(self, slots: Pages) -> int:
        """Note the checksums of pages that have just come in; all are good."""
        if self._checked:
            for part, pool in enumerate(self.pools):
                self._sums[part, slots] = checksums(pool.get(slots))
        return len(slots)

    def check(self, slots: Pages) -> int:
        """How many of the pages, from the first on, are as they came in, in every part."""
        good = len(slots)
        if self._checked:
            for part, pool in enumerate(self.pools):
                wrong = np.flatnonzero(checksums(pool.get(slots)) != self._sums[part, slots])
                good = min(good, int(wrong[0]) if len(wrong) else good)
            if good < len(slots):
                self.corrupt += 1
        return good

    def sums(self, slots: Pages) -> npt.NDArray[np.uint64]:
        """The checksums noted of pages: [parts][pages]."""
        return self._sums[:, slots]

    def get(self, slots: Pages) -> list[Bytes]:
        """The bytes of pages, one array a part: uint8 [pages][page bytes]."""
        return [pool.get(slots) for pool in self.pools]

    def put(self, slots: Pages, pages: Sequence[Bytes]) -> int:
        """Fill pages, as `get` gives them, and seal them."""
        for pool, some in zip(self.pools, pages, strict=True):
            pool.put(slots, some)
        return self.seal(slots)

    def left(self, gone: Gone) -> None:
        """Pages have left; nobody writes their places yet."""
        if self._poison and gone:
            places = [place for _, place in gone]
            for pool in self.pools:
                pool.poison(places)
