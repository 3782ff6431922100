"""A tier below host memory: a store's objects, their index, and the worker that waits for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.config.tiers import ResolvedTier
from kvframe.drivers.report import origin_of
from kvframe.errors import ConfigError, KVFrameError, TierError, UsageError
from kvframe.pages.layout import PageShape
from kvframe.registry.raised import one_line
from kvframe.tiers.codec import Codec, CorruptError
from kvframe.tiers.cost import Rate
from kvframe.tiers.found import Found, adopt, listed
from kvframe.tiers.gate import Gate
from kvframe.tiers.health import Pause, Trouble
from kvframe.tiers.mac import secrets_of
from kvframe.tiers.object_keys import Key, Space, number
from kvframe.tiers.store import PageStore
from kvframe.tiers.tier_index import Gone, Keys, Owners, TierIndex, as_keys, as_tuples
from kvframe.tiers.worker import Worker

Bytes = npt.NDArray[np.uint8]
Rows = list[list[Bytes]]
"""Pages by part, each a row of bytes."""

KEEP_MS = 1000
"""Milliseconds between two reports of used pages to a store, at least."""

MOST_DOOMED = 1 << 16
"""Pages whose objects wait to be removed while their store is left alone; more are left there."""


class Read(NamedTuple):
    """Pages read from a store.

    Attributes:
        pages: A list of rows a part, uint8 [page bytes] each.
        good: So many of them, from the first on.
        wrong: Why it is not all of them: the objects are gone, or not what they should be.
        missing: Whether the first that is not good is merely gone.
    """

    pages: Rows
    good: int
    wrong: str
    missing: bool


class Written(NamedTuple):
    """Pages put into a store.

    Attributes:
        good: Of each part, how many are there, from the first on.
        refused: How many, of all that were fit to be put, the store did not keep.
        put: How many were fit to be put.
    """

    good: list[int]
    refused: int
    put: int


class StoreTier:
    """Pages in a store.

    Attributes:
        medium: What KV events call it: a disk of this engine's own, or something outside it.

    Args:
        tier: Its configuration.
        shapes: Of each part of a page.
        space: What they have in common.
        worker: Calls the store.

    Raises:
        ConfigError: The file of its key cannot be read, or is too short.
        TierError: The plugin gives no `PageStore`, or the store cannot be opened.
    """

    def __init__(
        self, tier: ResolvedTier, shapes: Sequence[PageShape], space: Space, worker: Worker
    ) -> None:
        config = tier.config
        if tier.store is None or tier.store.loaded.descriptor.make is None:
            raise TierError(f"tier {config.name}: no store below host memory is named")
        self.name, self.config, self.worker = config.name, config, worker
        self._shapes = shapes
        self._key, self._own_keys = secrets_of(tier)
        self.set_space(space)
        self.index = TierIndex(tier, space.block_size, len(shapes))
        origin = origin_of(tier.store.loaded)
        with _told(f"{origin}: make()"):
            store = tier.store.loaded.descriptor.make(tier.store.options)
        if not isinstance(store, PageStore):
            raise TierError(
                f"{origin}: make() gave a {type(store).__name__}, not a kvframe.tiers.PageStore"
            )
        self.store = store
        self.shared = tier.store.loaded.descriptor.shared
        self.medium = "EXTERNAL" if self.shared else "DISK"
        kind = "remote" if self.shared else "disk"
        self.gate = Gate(tier, self.index, kind, space.block_size)
        store.largest = self.codec.largest
        self.tight = 0  # puts in a row that the store did not keep whole
        self.putting = 0  # puts under way
        self.rate = Rate()  # bytes a second that are read, decoded and checked
        self.corrupt = self.missing = self.errors = self.recovered = 0
        self.found = Found()
        self._parts = range(len(shapes))
        self._paused, self._refused = Pause(), Pause()
        self._removals, self._keeping = Pause(), Pause()
        self._origin = f"tier {self.name}: {origin}"
        self._failing, self._refusing = Trouble(), Trouble()
        self._keeps = type(store).keep is not PageStore.keep
        self._used: OrderedDict[Key, None] = OrderedDict()
        self._doomed: dict[Key, Codec] = {}
        self._told_at: int | None = None
        self._telling, self._removing, self._leaving = False, 0, 0
        # Of the worker's thread: keys of objects that this process has put, where others put some
        # too, and of those that it found to be wrong.
        self._own: set[int] = set()
        self._spoiled: set[int] = set()
        try:
            with _told(f"{origin}: recover()"):
                self._recover()
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
            encryption=config.encryption,
            key=self._key,
            own_keys=self._own_keys,
        )

    @property
    def foreign(self) -> int:
        """Objects that were there at the start and are not of this name space."""
        return self.found.foreign

    def stats(self) -> dict[str, int]:
        """Counters of the store, beside those of the index."""
        return {
            "corrupt": self.corrupt,
            "missing": self.missing,
            "errors": self.errors,
            "recovered": self.recovered,
            "orphans": self.found.orphans,
            "foreign": self.found.foreign,
            "other_spaces": self.found.other_spaces,
            "old_format": self.found.old_format,
        }

    # --- whether it is asked ------------------------------------------------------------------

    def is_up(self, now: int) -> bool:
        """Whether calls reach the store at all: one that fails gets none for a while."""
        return self._paused.is_over(now)

    def takes_puts(self, now: int) -> bool:
        """Whether the store gets pages. One that kept none gets none for a while, then a single
        put.
        """
        doubted = self._paused.in_a_row or self._refused.in_a_row
        free = not (doubted and self.putting)
        return free and self.is_up(now) and self._refused.is_over(now)

    def heard(self, outcome: object, now: int) -> None:
        """The store answered, or raised."""
        if not isinstance(outcome, Exception):
            if failures := self._paused.worked():
                self._failing.ends(f"{self._origin} answers again (failures: {failures})")
            return
        self.errors += 1
        self._paused.failed(now)
        told = f"{self._origin} fails, its pages are misses meanwhile: {one_line(outcome)}"
        self._failing.begins(told, now)

    def kept(self, written: Written, now: int) -> None:
        """The store kept what it was given, but for some pages."""
        if not written.refused:
            if written.put:
                self._refused.worked()
                self._refusing.ends(f"{self._origin} keeps what it is given again")
            return
        pages = self.index.tier.pages
        told = f"{self._origin} is full or broken: {written.refused} pages that it was given are"
        self._refusing.begins(f"{told} not there; its capacity is {pages} pages", now)

    def refuses(self, now: int) -> None:
        """The store kept nothing although room was made, so it gets no pages for a while."""
        self._refused.failed(now)

    def judged(self, read: Read) -> None:
        """Count the pages that a read did not return good, by reason."""
        self.missing += read.missing
        self.corrupt += bool(read.wrong) and not read.missing

    # --- what is removed, and what was used -----------------------------------------------------

    def drop(self, gone: Gone, now: int) -> None:
        """Have the store forget pages, once it answers: those that this process wrote."""
        self._doomed.update((key, self.codec) for key, _ in gone)
        while len(self._doomed) > MOST_DOOMED:
            del self._doomed[next(iter(self._doomed))]
        self.tend(now)

    def used(self, keys: Keys) -> None:
        """A request uses pages, wherever it finds them."""
        if self._keeps:
            for key in as_tuples(keys[: self.index.present(keys)]):
                self._used[key] = None
                self._used.move_to_end(key)
            while len(self._used) > self.index.tier.pages:
                self._used.popitem(last=False)

    def tend(self, now: int, *, last: bool = False) -> None:
        """Send the store what waits for it: removals, and which pages were used.

        ``last``: at once, however short ago that was.
        """
        if not self.is_up(now):
            return
        alone = self._removals.in_a_row and self._removing
        if self._doomed and self._removals.is_over(now) and not alone:
            self._remove_now(now)
        early = self._told_at is not None and now - self._told_at < KEEP_MS
        if self._used and not self._telling and self._keeping.is_over(now) and (last or not early):
            self._tell_now(now)

    def unremoved(self) -> int:
        """Pages that have left the tier and whose removal the store has not confirmed yet."""
        return len(self._doomed) + self._leaving

    def _remove_now(self, now: int) -> None:
        doomed, self._doomed = self._absent(self._doomed), {}

        def removed(outcome: Exception | None) -> None:
            self._removing -= 1
            self._leaving -= len(doomed)
            if isinstance(outcome, Exception):
                self.errors += 1
                self._removals.failed(now)
                self._doomed = {**doomed, **self._doomed}
            else:
                self._removals.worked()

        self._removing += 1
        self._leaving += len(doomed)
        self.worker.submit(lambda: self._remove(doomed), removed)

    def _absent(self, doomed: dict[Key, Codec]) -> dict[Key, Codec]:
        """Those of the doomed pages that have not come back meanwhile."""
        return {k: codec for k, codec in doomed.items() if not self.index.present(as_keys([k]))}

    def _tell_now(self, now: int) -> None:
        keys, self._telling, self._told_at = list(self._used), True, now
        self._used.clear()
        names = [self.codec.name(key, part) for key in keys for part in self._parts]

        def told(outcome: Exception | None) -> None:
            self._telling = False
            if isinstance(outcome, Exception):  # it may still be read: that says whether it is away
                self.errors += 1
                self._keeping.failed(now)
            else:
                self._keeping.worked()

        self.worker.submit(lambda: self.store.keep(names), told)

    # --- in the worker -----------------------------------------------------------------------

    def write(
        self, codec: Codec, keys: Keys, owners: Owners, start: int, pages: Callable[[], Rows]
    ) -> Written:
        """Put pages of a prefix from a place on, up to the first that cannot be an object.

        ``codec``: As it was when they were to be put; another, of new weights, may be there by now.
        ``owners``: Whose each page of the prefix is.
        """
        found, chain = pages(), as_tuples(keys)
        count = len(found[0])
        there = self._there(codec, chain[start : start + count])
        objects: list[tuple[str, bytes]] = []
        offered = count
        for at, page in enumerate(zip(*found, strict=True)):
            place = start + at
            if there[at]:
                continue
            key, parent = chain[place], chain[place - 1] if place else None
            owner = owners[place]
            try:
                objects += [
                    (codec.name(key, part), codec.encode(one, key, part, parent, place, owner))
                    for part, one in enumerate(page)
                ]
            except (
                UsageError
            ):  # no fault of the store's: fp8 has no infinity, or its tenant is not known
                offered = at
                break
        return self._put(objects, chain[start : start + offered], there)

    def _put(self, objects: list[tuple[str, bytes]], keys: list[Key], there: list[bool]) -> Written:
        """Put the pages of ``keys`` that are not there; which of all are, then."""
        kept = [bool(one) for one in self.store.put(objects)] if objects else []
        if len(kept) != len(objects):
            raise TierError(f"{self.name}: {len(objects)} objects put, {len(kept)} answers")
        answers = iter(kept)
        rows = [
            [True] * len(self._parts) if has else [next(answers) for _ in self._parts]
            for _, has in zip(keys, there, strict=False)
        ]
        if self.shared:
            put = [(key, row) for key, row, has in zip(keys, rows, there, strict=False) if not has]
            self._own.update(number(key) for key, row in put if any(row))
            self._spoiled.difference_update(number(key) for key, _ in put)
        good = [_leading([row[part] for row in rows]) for part in self._parts]
        return Written(good, len(keys) - min(good), len(objects))

    def _there(self, codec: Codec, keys: list[Key]) -> list[bool]:
        """Which pages another engine has put already: they are not sent again, and stay its own."""
        if not self.shared:
            return [False] * len(keys)
        names = [codec.name(key, part) for key in keys for part in self._parts]
        found = self._answers(self.store.contains(names), names)
        each = len(self._parts)
        there = [all(found[at : at + each]) for at in range(0, len(found), each)]
        there = [
            has and number(key) not in self._spoiled for has, key in zip(there, keys, strict=True)
        ]
        if self._keeps and any(there):
            with suppress(Exception):  # a store that is away says so to the put that follows
                self.store.keep([name for at, name in enumerate(names) if there[at // each]])
        return there

    def _answers(self, answers: Sequence[bool], names: list[str]) -> list[bool]:
        found = [bool(one) for one in answers]
        if len(found) != len(names):
            raise TierError(f"{self.name}: asked for {len(names)} objects, {len(found)} answers")
        return found

    def _remove(self, doomed: dict[Key, Codec]) -> None:
        """Remove objects; of a store that others write to, only those that this process wrote."""
        if self.shared:
            doomed = {key: codec for key, codec in doomed.items() if number(key) in self._own}
        names = [codec.name(key, part) for key, codec in doomed.items() for part in self._parts]
        if names:
            self.store.remove(names)
        self._own.difference_update(map(number, doomed))

    def read(
        self, codec: Codec, keys: Keys, owners: Owners, start: int, into: Rows | None = None
    ) -> Read:
        """Get pages of a prefix from a place on, as far as all parts are good.

        ``codec``, ``owners``: as for `write`. ``into``: where to write them, a list of rows a part;
        fresh memory if None.
        """
        chain = as_tuples(keys)[start:]
        names = [codec.name(key, part) for part in self._parts for key in chain]
        objects = list(self.store.get(names))
        if len(objects) != len(names):
            raise TierError(f"{self.name}: {len(names)} objects asked for, {len(objects)} answers")
        if into is None:
            into = [list(np.empty((len(chain), s.page_bytes), np.uint8)) for s in self._shapes]
        good, wrong, missing = len(chain), "", False
        for part in self._parts:
            for at, key in enumerate(chain[:good]):
                data = objects[part * len(chain) + at]
                if data is None:
                    good, wrong, missing = at, f"{number(key):032x} is gone", True
                    break
                try:
                    into[part][at][:] = codec.decode(data, key, part, owners[start + at])
                except CorruptError as error:
                    good, wrong, missing = at, str(error), False
                    if self.shared:
                        self._spoiled.add(number(key))
                        rest = objects[part * len(chain) + at + 1 : (part + 1) * len(chain)]
                        self._spoil(codec, chain[at + 1 :], owners[start + at + 1 :], part, rest)
                    break
        return Read([some[:good] for some in into], good, wrong, missing)

    def _spoil(
        self, codec: Codec, keys: list[Key], owners: Owners, part: int, objects: list[bytes | None]
    ) -> None:
        """Of pages behind a wrong one, note those that are wrong because a tenant's key is another
        by now: they are put anew at once, and not one with each miss.
        """
        if codec.is_keyed:
            self._spoiled.update(
                number(key)
                for key, owner, data in zip(keys, owners, objects, strict=True)
                if data is not None and not codec.reads(data, key, part, owner)
            )

    def wrong(self, pages: Gone) -> Gone:
        """Those of some pages that do not come back as they were put."""
        codec = self.codec
        return [page for page in pages if not self.read(codec, as_keys([page[0]]), [None], 0).good]

    def look(self, codec: Codec, keys: Keys) -> int:
        """Pages of a prefix that the store has in all parts, from any writer."""
        names = [codec.name(key, part) for key in as_tuples(keys) for part in self._parts]
        there = self._answers(self.store.contains(names), names)
        each = len(self._parts)
        return _leading([all(there[at : at + each]) for at in range(0, len(there), each)])

    # --- before anything else -----------------------------------------------------------------

    def _recover(self) -> None:
        """Take in what is there, as much of what was used last as there is room for."""
        self.found = found = listed(self.store, self.codec)
        self.corrupt += len(found.wrong)
        taken, rest = adopt(self.index, found)
        self.recovered = taken
        if self.shared:
            self._spoiled.update(map(number, found.wrong))
        else:
            # An object that was cut short would take room for ever, and so would one that does not
            # fit.
            self.drop([(key, 0) for key in (*found.wrong, *rest)], 0)
        found.forget()


def check_apart(tiers: Sequence[StoreTier]) -> None:
    """No two tiers keep objects of one name in one place.

    Raises:
        ConfigError: Two tiers do: one would miss the objects that the other removes.
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
    """The number of leading true values."""
    return next((at for at, one in enumerate(kept) if not one), len(kept))
