"""A tier below host memory: a store's objects, their books, and the worker that waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.config.tiers import ResolvedTier
from kvframe.errors import ConfigError, KVFrameError, TierError, UsageError
from kvframe.pages.layout import PageShape
from kvframe.plugin import one_line
from kvframe.policies.report import origin_of
from kvframe.tiers.books import Books, Gone, Keys, as_keys, as_tuples
from kvframe.tiers.codec import HEAD_BYTES, Codec, CorruptError, Head
from kvframe.tiers.gate import Gate
from kvframe.tiers.health import Trouble
from kvframe.tiers.space import Key, Space, number, parse
from kvframe.tiers.store import PageStore
from kvframe.tiers.worker import Worker

Bytes = npt.NDArray[np.uint8]
Rows = list[list[Bytes]]
"""Pages by part, each a row of bytes."""

BACK_OFF_MS = (100, 200, 400, 800, 1600, 3200)
"""How long a store that failed is left alone, by how often it has failed in a row."""


class Read(NamedTuple):
    """Pages read from a store.

    Attributes:
        pages: A list of rows a part, uint8 [page bytes] each.
        good: So many of them, from the first on.
        wrong: Why it is not all of them: the objects are gone, or not what they should be.
    """

    pages: Rows
    good: int
    wrong: str


class Written(NamedTuple):
    """Pages put into a store.

    Attributes:
        good: Of each part, how many are there, from the first on.
        refused: How many, of all that were fit to be put, the store did not keep.
    """

    good: list[int]
    refused: int


class StoreTier:
    """Pages in a store.

    Args:
        tier: Its configuration.
        shapes: Of each part of a page.
        space: What they have in common.
        worker: Calls the store.

    Raises:
        TierError: The plugin gives no `PageStore`, or the store cannot be opened.
    """

    def __init__(
        self, tier: ResolvedTier, shapes: Sequence[PageShape], space: Space, worker: Worker
    ) -> None:
        config = tier.config
        if tier.store is None or tier.store.descriptor.make is None:
            raise TierError(f"tier {config.name}: no store below host memory is named")
        self.name, self.config, self.worker = config.name, config, worker
        self._shapes = shapes
        self.set_space(space)
        self.books = Books(tier, space.block_size, len(shapes))
        origin = origin_of(tier.store)
        with _told(f"{origin}: make()"):
            store = tier.store.descriptor.make(tier.store_options)
        if not isinstance(store, PageStore):
            raise TierError(
                f"{origin}: make() gave a {type(store).__name__}, not a kvframe.tiers.PageStore"
            )
        self.store = store
        self.shared = tier.store.descriptor.shared
        kind = "remote" if self.shared else "disk"
        self.gate = Gate(tier, self.books, kind, space.block_size)
        self.tight = 0  # puts in a row that the store did not keep whole
        self.corrupt = self.foreign = self.errors = 0
        self._parts = range(len(shapes))
        self._in_a_row, self._again = 0, 0
        self._origin = f"tier {self.name}: {origin}"
        self._failing, self._refusing = Trouble(), Trouble()
        try:
            with _told(f"{origin}: recover()"):
                self.recovered = self._recover()
        except BaseException:
            store.close()
            raise

    def set_space(self, space: Space) -> None:
        """What pages have in common that are put from now on."""
        config = self.config
        self.codec = Codec(
            space,
            self._shapes,
            checksum=config.checksum,
            compression=config.compression,
            quantise=config.quantise,
        )

    def is_up(self, now: int) -> bool:
        """Whether the store is asked at all: one that fails is left alone for a while."""
        return now >= self._again

    def heard(self, outcome: object, now: int) -> None:
        """The store answered, or raised."""
        if not isinstance(outcome, Exception):
            if self._in_a_row:
                self._failing.ends(f"{self._origin} answers again (failures: {self._in_a_row})")
                self._in_a_row = 0
            return
        self.errors += 1
        self._again = now + BACK_OFF_MS[min(self._in_a_row, len(BACK_OFF_MS) - 1)]
        self._in_a_row += 1
        told = f"{self._origin} fails, its pages are misses meanwhile: {one_line(outcome)}"
        self._failing.begins(told, now)

    def kept(self, refused: int, now: int) -> None:
        """The store kept what it was given, but for so many pages."""
        if not refused:
            self._refusing.ends(f"{self._origin} keeps what it is given again")
            return
        pages = self.books.tier.pages
        told = f"{self._origin} is full or broken: {refused} pages that it was given are not there"
        self._refusing.begins(f"{told}; its capacity is {pages} pages", now)

    # --- in the worker -----------------------------------------------------------------------

    def write(self, codec: Codec, keys: Keys, start: int, pages: Callable[[], Rows]) -> Written:
        """Put pages of a prefix from a place on, up to the first that cannot be an object.

        ``codec``: As it was when they were to be put; another, of new weights, may be there by now.
        """
        found = pages()
        chain = as_tuples(keys)
        objects: list[list[tuple[str, bytes]]] = []
        for at, page in enumerate(zip(*found, strict=True), start):
            key, parent = chain[at], chain[at - 1] if at else None
            try:
                objects.append(
                    [
                        (codec.name(key, part), codec.encode(one, key, part, parent, at))
                        for part, one in enumerate(page)
                    ]
                )
            except UsageError:  # no fault of the store's: fp8 has no infinity
                break
        flat = [one for page in zip(*objects, strict=True) for one in page]
        kept = list(self.store.put(flat)) if flat else []
        if len(kept) != len(flat):
            raise TierError(f"{self.name}: {len(flat)} objects put, {len(kept)} answers")
        each = len(objects)
        good = [_leading(kept[part * each : (part + 1) * each]) for part in self._parts]
        return Written(good, each - min(good))

    def read(self, codec: Codec, keys: Keys, start: int, into: Rows | None = None) -> Read:
        """Get pages of a prefix from a place on, as far as all parts are good.

        ``codec``: as for `write`. ``into``: where to write them, a list of rows a part; fresh
        memory if None.
        """
        chain = as_tuples(keys)[start:]
        names = [codec.name(key, part) for part in self._parts for key in chain]
        objects = list(self.store.get(names))
        if len(objects) != len(names):
            raise TierError(f"{self.name}: {len(names)} objects asked for, {len(objects)} answers")
        if into is None:
            into = [list(np.empty((len(chain), s.page_bytes), np.uint8)) for s in self._shapes]
        good, wrong = len(chain), ""
        for part in self._parts:
            for at, key in enumerate(chain[:good]):
                data = objects[part * len(chain) + at]
                try:
                    if data is None:
                        raise CorruptError(f"{number(key):032x} is gone")
                    into[part][at][:] = codec.decode(data, key, part)
                except CorruptError as error:
                    good, wrong = at, str(error)
                    break
        return Read([some[:good] for some in into], good, wrong)

    def wrong(self, pages: Gone) -> Gone:
        """Those of some pages that do not come back as they were put."""
        codec = self.codec
        return [page for page in pages if not self.read(codec, as_keys([page[0]]), 0).good]

    def drop(self, gone: Gone) -> None:
        """Have the store forget pages."""
        names = [self.codec.name(key, part) for key, _ in gone for part in self._parts]

        def dropped(outcome: Exception | None) -> None:
            self.errors += isinstance(outcome, Exception)

        self.worker.submit(lambda: self.store.remove(names), dropped)

    def look(self, codec: Codec, keys: Keys) -> int:
        """Pages of a prefix that the store has in all parts, whoever wrote them."""
        names = [codec.name(key, part) for key in as_tuples(keys) for part in self._parts]
        there = list(self.store.contains(names))
        if len(there) != len(names):
            raise TierError(f"{self.name}: asked for {len(names)} objects, {len(there)} answers")
        each = len(self._parts)
        return _leading([all(there[at : at + each]) for at in range(0, len(there), each)])

    # --- before anything else -----------------------------------------------------------------

    def _recover(self) -> int:
        """Take in what an earlier process left, prefix by prefix; how many pages."""
        heads: dict[Key, Head] = {}
        parts: dict[Key, set[int]] = {}
        left: Gone = []
        for name, data in self.store.recover(HEAD_BYTES):
            named = parse(name)
            ours = named is not None and named.part in self._parts
            if named is None or not ours or name != self.codec.name(named.key, named.part):
                self.foreign += 1
                continue
            try:
                head = self.codec.head(data)
            except CorruptError:
                head = None
            if head is None or (named.key, named.part) != (head.key, head.part):
                self.corrupt += 1  # cut short by a power failure, say
                left.append((named.key, 0))
                continue
            heads[head.key] = head
            parts.setdefault(head.key, set()).add(head.part)
        taken = 0
        for key, head in sorted(heads.items(), key=lambda item: (item[1].depth, item[0])):
            parent = None if head.parent is None else as_keys([head.parent])
            whole = len(parts[key]) == head.parts
            if whole and self.books.adopt(as_keys([key]), parent):
                taken += 1
            else:
                left.append((key, 0))
        if left and not self.shared:
            self.drop(left)
        return taken


def check_apart(tiers: Sequence[StoreTier]) -> None:
    """No two tiers keep objects of one name in one place.

    Raises:
        ConfigError: Two do: what one of them drops, the other would miss.
    """
    taken: dict[tuple[str, bytes], str] = {}
    for tier in tiers if len(tiers) > 1 else ():
        with _told(f"{tier.name}: place()"):
            place = tier.store.place()
        if place is None:
            continue
        name = taken.setdefault((place, tier.codec.space.digest), tier.name)
        if name != tier.name:
            raise ConfigError(
                f"tiers {name} and {tier.name} keep the same pages under the same names in one "
                f"place ({place}): drop one of them, or give it a database, folder or cluster of "
                "its own"
            )


@contextmanager
def _told(what: str) -> Iterator[None]:
    """What a store raises as it is opened, as kvframe's."""
    try:
        yield
    except KVFrameError:
        raise
    except Exception as error:
        raise TierError(f"{what} raised {type(error).__name__}: {error}") from error


def _leading(kept: Sequence[bool]) -> int:
    """How many are true before the first that is not."""
    return next((at for at, one in enumerate(kept) if not one), len(kept))
