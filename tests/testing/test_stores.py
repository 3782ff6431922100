"""The check of stores: those that ship pass, and each planted fault is found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvframe.testing import StoreError, check_store
from kvframe.tiers import Disk, DiskOptions, PageStore

from ..tiers.helpers import Shelf


def test_stores_that_ship_pass(tmp_path: Path) -> None:
    check_store(Shelf)
    for direct in (False, True):
        path = str(tmp_path / str(direct))
        check_store(partial(Disk, DiskOptions(path=path, fsync=False, direct=direct)), count=20)


class Lossy(Shelf):
    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        return super().put(objects[:-1]) if len(objects) > 1 else super().put(objects)


class Sorted(Shelf):
    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        return super().get(sorted(names))


class Hoarder(Shelf):
    def remove(self, names: Sequence[str]) -> None:
        super().remove(names[:1])


class Strict(Shelf):
    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            del self.objects[name]


class Short(Shelf):
    def recover(self, head: int) -> list[tuple[str, bytes]]:
        return super().recover(head - 1)


@pytest.mark.parametrize(
    ("store", "call"),
    [
        (Lossy, "put"),
        (Sorted, "get in another order"),
        (Hoarder, "contains after remove"),
        (Strict, "nobody"),
        (Short, "recover"),
    ],
)
def test_a_store_that_is_wrong_is_found(store: Any, call: str) -> None:
    made: type[PageStore] = store
    with pytest.raises((StoreError, KeyError), match=call):
        check_store(made)
