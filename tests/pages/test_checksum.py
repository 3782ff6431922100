"""Checksums of many pages are those of each, however many threads read them."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash

from kvframe.pages import checksum
from kvframe.pages.checksum import checksums_at


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_threads_change_no_checksum(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    pages = np.random.default_rng(1).integers(0, 255, (64, 4096), np.uint8)
    ids = [5, 3, 3, *range(40)]
    monkeypatch.setattr(checksum, "THREADS", threads)
    monkeypatch.setattr(checksum, "SHARE", 4096 * 4)
    wanted = [xxhash.xxh3_64_intdigest(pages[row].tobytes()) for row in ids]
    assert checksums_at(pages, ids).tolist() == wanted
    assert checksums_at(pages, []).tolist() == []
    assert checksums_at(pages[:0], []).tolist() == []
