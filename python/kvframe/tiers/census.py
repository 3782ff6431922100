"""Counts and, on demand, removes the objects of a store by name space, of all writers.

For the command line. An engine reads its own name space alone, and removes only objects that it
wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kvframe.tiers.codec import HEAD_BYTES, CorruptError, Head, head_of
from kvframe.tiers.found import connected, is_whole
from kvframe.tiers.object_keys import FORMAT, Key, Named, parse
from kvframe.tiers.store import PageStore

AT_ONCE = 1000
"""Objects that are removed in one call."""


@dataclass
class Lot:
    """The objects of one name space.

    Attributes:
        format: Version of its names.
        space: Its digest, in hexadecimal digits.
        codec: What was done to its pages.
        names: Of its objects.
        pages: Whole pages that requests can find; None for another format, which is not read.
        orphans: Names of objects whose page no request finds, each with the names of which at
            least one would have to be there: of a page before it, or of its own other parts.
        wrong: Names under which something else lies.
    """

    format: int
    space: str
    codec: str
    names: list[str] = field(default_factory=list)
    pages: int | None = None
    orphans: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    heads: dict[Key, dict[int, Head]] = field(default_factory=dict, repr=False)


@dataclass
class Census:
    """What a store lists.

    Attributes:
        lots: By name space, the largest first.
        foreign: Objects that are not kvframe's: they are never removed.
    """

    lots: list[Lot]
    foreign: int


def census(store: PageStore) -> Census:
    """Count what a store lists.

    Raises:
        Exception: What the store raises.
    """
    lots: dict[tuple[int, bytes, str], Lot] = {}
    foreign = 0
    for name, data in store.recover(HEAD_BYTES):
        named = parse(name)
        if named is None:
            foreign += 1
            continue
        same = (named.format, named.space, named.codec)
        lot = lots.setdefault(same, Lot(named.format, named.space.hex(), named.codec))
        lot.names.append(name)
        if named.format == FORMAT:
            _read(lot, named, data)
    for lot in lots.values():
        if lot.format == FORMAT:
            _find_orphans(lot)
        lot.heads.clear()
    order = sorted(lots.values(), key=lambda lot: (-len(lot.names), lot.space))
    return Census(order, foreign)


def remove(store: PageStore, names: Sequence[str]) -> int:
    """Remove objects; how many.

    Raises:
        Exception: What the store raises.
    """
    for at in range(0, len(names), AT_ONCE):
        store.remove(names[at : at + AT_ONCE])
    return len(names)


def remove_orphans(store: PageStore, lot: Lot) -> int:
    """Remove those orphans of a name space that are still orphans; returns how many.

    An engine may be about to write what an orphan lacks, so the store is asked again first.

    Raises:
        Exception: What the store raises.
    """
    lacked = sorted({name for names in lot.orphans.values() for name in names})
    there: set[str] = set()
    for at in range(0, len(lacked), AT_ONCE):
        some = lacked[at : at + AT_ONCE]
        there.update(name for name, has in zip(some, store.contains(some), strict=True) if has)
    there.difference_update(lot.wrong)
    gone = [name for name, lacks in lot.orphans.items() if not there.intersection(lacks)]
    return remove(store, gone)


def _read(lot: Lot, named: Named, data: object) -> None:
    try:
        head = head_of(data)
    except CorruptError:
        head = None
    if head is None or (head.space, head.key, head.part) != (named.space, named.key, named.part):
        lot.wrong.append(named.name)
    else:
        lot.heads.setdefault(named.key, {})[named.part] = head


def _find_orphans(lot: Lot) -> None:
    whole = {key: parts[0] for key, parts in lot.heads.items() if is_whole(parts)}
    found = connected(whole)
    lot.pages = len(found)
    lacks: dict[Key, tuple[str, ...]] = {}
    by_depth = sorted(lot.heads.items(), key=lambda item: next(iter(item[1].values())).depth)
    for key, parts in by_depth:
        if key in found:
            continue
        lacks[key] = _lacking(lot, key, parts, lacks, whole=key in whole)
        for part in parts:
            (name,) = _names(lot, key, [part])
            lot.orphans[name] = lacks[key]


def _lacking(
    lot: Lot, key: Key, parts: dict[int, Head], lacks: dict[Key, tuple[str, ...]], *, whole: bool
) -> tuple[str, ...]:
    """What would have to be there for an orphan to be found; nothing where nothing would help."""
    head = next(iter(parts.values()))
    if not whole:
        return tuple(_names(lot, key, set(range(head.parts)) - parts.keys()))
    before = head.parent
    if before is None or before in lot.heads:
        # If the page before it is no orphan, or is not exactly one page shallower, this head is
        # wrong.
        follows = before in lacks and next(iter(lot.heads[before].values())).depth + 1 == head.depth
        return lacks[before] if before is not None and follows else ()
    return tuple(_names(lot, before, range(head.parts)))


def _names(lot: Lot, key: Key, parts: Iterable[int]) -> list[str]:
    space = bytes.fromhex(lot.space)
    return [Named(space, lot.codec, key, part, lot.format).name for part in parts]
