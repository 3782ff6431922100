"""One check for authors of stores: everything that the store of a lower tier must do."""

from __future__ import annotations

from collections.abc import Callable

from kvframe.tiers.object_keys import Space
from kvframe.tiers.store import PageStore


class StoreError(AssertionError):
    """A store does not do what `PageStore` says; the message says which call."""


def check_store(make: Callable[[], PageStore], *, size: int = 4096, count: int = 300) -> None:
    """Check that a store keeps the contract of `PageStore`, with batches of every size from 0 on.

    Args:
        make: Opens the store, with nothing in it.
        size: Bytes of the largest objects.
        count: Objects of the largest batch.

    Raises:
        StoreError: The store breaks its contract.
    """
    store, space = make(), Space(model="check")
    names = [space.name((at, 1), at % 3) for at in range(count)]
    objects = {name: bytes([at % 251]) * (1 + size * at // count) for at, name in enumerate(names)}
    _same("place", isinstance(store.place(), str | None), True)
    _same("put of nothing", list(store.put([])), [])
    _same("get of nothing", list(store.get([])), [])
    store.remove([])
    _same("get before put", list(store.get(names[:3])), [None] * 3)
    _same("contains before put", [bool(one) for one in store.contains(names[:3])], [False] * 3)
    _same("put", [bool(one) for one in store.put(list(objects.items()))], [True] * count)
    _same("get", list(store.get(names)), [objects[name] for name in names])
    backwards = [*reversed(names), "kv1-nobody"]
    _same(
        "get in another order", list(store.get(backwards))[:2], [objects[n] for n in backwards[:2]]
    )
    _same("get of one that is not there", list(store.get(backwards))[-1], None)
    _same("contains", [bool(one) for one in store.contains(backwards)], [True] * count + [False])
    store.keep(backwards)
    store.keep([])
    found = dict(store.recover(16))
    if found:
        _same("recover", found, {name: data[:16] for name, data in objects.items()})
    store.remove([*names[::2], "kv1-nobody"])
    there = [bool(one) for one in store.contains(names)]
    _same("contains after remove", there, [at % 2 == 1 for at in range(count)])
    _same("get after remove", list(store.get(names[:2])), [None, objects[names[1]]])
    _same("put after remove", [bool(o) for o in store.put([(names[0], b"again")])], [True])
    _same("get after that", list(store.get(names[:1])), [b"again"])
    store.remove(names)
    _same("contains of nothing left", any(store.contains(names)), False)
    store.close()


def _same(call: str, found: object, wanted: object) -> None:
    if found != wanted:
        shown = [f"{value!r}"[:120] for value in (found, wanted)]
        raise StoreError(f"{call}: gave {shown[0]}, must be {shown[1]}")
