"""The log as events about blocks: what a router that mirrors the cache has to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from kvframe.events import EventKind as K
from kvframe.request import MMItem, Request
from kvframe.stats.log import EventLog, Span, checked


class BlockStored(Struct, frozen=True):
    """Blocks became findable; those of one prefix that follow each other come as one event.

    Attributes:
        keys: Their keys, 16 bytes each, as they are stored: in groups other than the first, that
            group's own.
        parent_key: Key of the block before the first, by the prompt; None at its start.
        token_ids: uint32, those of all the blocks; empty where the request came as keys, and for
            blocks of another input (a group of kind ``cross``).
        block_size: Tokens of a block.
        start: Place of the first block in its prefix.
        group: Layer group.
        tenant: Whose request computed them, which is in the keys too.
        salt: As ``tenant``.
        adapter: As ``tenant``.
        encoder: As ``tenant``, the name of another input that layers attend to.
        extras: Multimodal items that reach into the blocks.
        session: The request's session; no part of any key.
        medium: Where the blocks are.
        origin: ``new``, or ``reused`` where an admission found them.
    """

    keys: tuple[bytes, ...]
    parent_key: bytes | None
    token_ids: npt.NDArray[np.uint32]
    block_size: int
    start: int
    group: int = 0
    salt: str = ""
    adapter: str = ""
    encoder: bytes = b""
    extras: tuple[MMItem, ...] = ()
    session: int = 0
    medium: str = "GPU"
    origin: Literal["new", "reused"] = "new"
    tenant: str = ""


class BlockRemoved(Struct, frozen=True):
    """The last copy under each key is gone."""

    keys: tuple[bytes, ...]
    group: int = 0
    medium: str = "GPU"


class AllBlocksCleared(Struct, frozen=True):
    """Nothing is findable any more. The blocks that were findable get no events of their own."""

    medium: str = "GPU"


BlockEvent = BlockStored | BlockRemoved | AllBlocksCleared


class _Asked(Struct, frozen=True):
    """The fields of a request that its blocks' events carry."""

    salt: str = ""
    adapter: str = ""
    encoder: bytes = b""
    extras: tuple[MMItem, ...] = ()
    session: int = 0
    tenant: str = ""
    public: int = 0
    private: tuple[str, str] = ("", "")

    @classmethod
    def of(cls, request: Request) -> _Asked:
        items = tuple(MMItem(*item) for item in request.mm_items)
        names, public = (request.cache_salt, request.tenant), request.public
        # Where blocks at the front are public, an item says whose the others are.
        salt, tenant = ("", "") if public else names
        rest = request.encoder, items, request.session, tenant
        return cls(salt, request.lora_name, *rest, public, names)

    def cut(self, length: int, size: int) -> _Asked:
        """The fields after the sequence was cut to ``length`` tokens, in blocks of ``size``.

        Multimodal items are cut with it: tokens that come later in their place are not the item.
        What comes in the place of public blocks is not public.
        """
        if self.public:
            *items, boundary = self.extras
            alone = replace(self, extras=tuple(items), public=0).cut(length, size)
            public = min(self.public, length // size)
            if not public:
                salt, tenant = self.private
                return replace(alone, salt=salt, tenant=tenant)
            moved = MMItem(public * size, public * size + 1, boundary.id)
            return replace(alone, extras=(*alone.extras, moved), public=public)
        left = (MMItem(x.start, min(x.end, length), x.id) for x in self.extras if x.start < length)
        return replace(self, extras=tuple(left)) if self.extras else self


@dataclass
class BlockEvents:
    """Turns a manager's log into block events; feed it every portion of the log, in order.

    Args:
        block_size: Tokens of a block: a number, or one a layer group where they differ.
        medium: Where the blocks are: "GPU", "CPU", ....
        per_block: One event a block, instead of one a run of blocks.
        reused: Report blocks that admissions found, too (vLLM's full report mode), so that a router
            that lost some catches up.
    """

    block_size: int | Sequence[int]
    medium: str = "GPU"
    per_block: bool = False
    reused: bool = False
    _present: dict[bytes, tuple[BlockStored, int]] = field(default_factory=dict)
    """By key: the run that the block was stored with, and its place there."""
    _parted: dict[bytes, tuple[BlockStored, int]] = field(default_factory=dict)
    """The same of blocks that the last portion removed."""
    _copies: dict[bytes, int] = field(default_factory=dict)
    _asked: dict[int, _Asked] = field(default_factory=dict)
    _out: list[tuple[int, BlockEvent]] = field(default_factory=list)

    def feed(self, log: EventLog) -> list[BlockEvent]:
        """The block events of a portion of the log.

        Raises:
            UsageError: It is no log.
        """
        self._asked |= {seq: _Asked.of(request) for seq, request in checked(log).requests.items()}
        self._parted = {}
        for span in log.spans(self._kinds):
            self._one(span)
        events = [event for _, event in self._out]
        self._out = []
        return [*(_each(events) if self.per_block else joined(events))]

    @property
    def _kinds(self) -> tuple[K, ...]:
        told = (K.STORE, K.EVICT, K.FORGET, K.RESET, K.FORK, K.STAND_IN, K.TRUNCATE, K.FINISH)
        return (*told, K.HIT) if self.reused else told

    def cached(self) -> list[BlockEvent]:
        """Everything findable now, each block after its parent: for a router that joins late."""
        found = sorted(self._present.values(), key=lambda at: at[0].start + at[1])
        return [part(run, place, place + 1) for run, place in found]

    def find(self, key: bytes) -> tuple[BlockStored, int] | None:
        """The run that a block was stored with, and its place there; None unless the block is
        findable, or was until the last portion.
        """
        return self._present.get(key) or self._parted.get(key)

    def _one(self, e: Span) -> None:
        match e.kind:
            case K.STORE:
                self._store(e)
            case K.HIT if self.reused and (found := self._present.get(e.keys[0])):
                run, place = found
                again = replace(part(run, place, place + 1), origin="reused")
                self._out.append((e.tick, again))
            case K.EVICT | K.FORGET:
                self._remove(e)
            case K.RESET:
                # The blocks that a reset removed are reported as one event.
                while self._out and self._out[-1][0] == e.tick:
                    self._out.pop()
                self._out.append((e.tick, AllBlocksCleared(self.medium)))
            case K.FORK | K.STAND_IN:
                self._asked[e.seq] = self._asked.get(e.value, _Asked())
            case K.TRUNCATE if e.seq in self._asked:
                self._asked[e.seq] = self._asked[e.seq].cut(e.other, self._size(0))
            case K.FINISH:
                self._asked.pop(e.seq, None)

    def _store(self, e: Span) -> None:
        size, count = self._size(e.group), len(e.keys)
        if 0 < len(e.ids) < size * count:
            return  # Part of a block: found by its exact tokens, of no use to a router.
        asked = self._asked.get(e.seq, _Asked())
        end = (e.other + count) * size
        extras = tuple(x for x in asked.extras if x.start < end and x.end > e.other * size)
        run = BlockStored(
            keys=e.keys,
            parent_key=e.parent if any(e.parent) else None,
            token_ids=e.ids,
            block_size=size,
            start=e.other,
            group=e.group,
            salt=asked.salt,
            adapter=asked.adapter,
            encoder=asked.encoder,
            extras=extras,
            session=asked.session,
            medium=self.medium,
            tenant=asked.tenant,
        )
        if self._copies.keys().isdisjoint(e.keys):
            self._tell(e.tick, run)
            return
        for at, key in enumerate(e.keys):
            if key in self._copies:
                self._copies[key] += 1
            else:
                self._tell(e.tick, part(run, at, at + 1))

    def _tell(self, tick: int, run: BlockStored) -> None:
        self._copies.update(dict.fromkeys(run.keys, 1))
        self._present.update(zip(run.keys, zip(repeat(run), range(len(run.keys))), strict=True))
        self._out.append((tick, run))

    def _size(self, group: int) -> int:
        sizes = self.block_size
        return int(sizes) if isinstance(sizes, int | np.integer) else sizes[group]

    def _remove(self, e: Span) -> None:
        gone = []
        for key in e.keys:
            left = self._copies.get(key, 0) - 1
            if left > 0:
                self._copies[key] = left
            elif left == 0:
                del self._copies[key]
                self._parted[key] = self._present.pop(key)
                gone.append(key)
        if gone:
            self._out.append((e.tick, BlockRemoved(tuple(gone), e.group, self.medium)))


def part(run: BlockStored, begin: int, end: int) -> BlockStored:
    """Some blocks of a run, by their places in it."""
    if (begin, end) == (0, len(run.keys)):
        return run
    size, start = run.block_size, run.start + begin
    first, last = start * size, (start + end - begin) * size
    return replace(
        run,
        keys=run.keys[begin:end],
        parent_key=run.keys[begin - 1] if begin else run.parent_key,
        token_ids=run.token_ids[begin * size : end * size],
        start=start,
        extras=tuple(x for x in run.extras if x.start < last and x.end > first),
    )


def _each(events: Iterable[BlockEvent]) -> Iterator[BlockEvent]:
    """One event a block."""
    for event in events:
        match event:
            case BlockStored():
                yield from (part(event, at, at + 1) for at in range(len(event.keys)))
            case BlockRemoved():
                yield from (replace(event, keys=(key,)) for key in event.keys)
            case _:
                yield event


def joined(events: Iterable[BlockEvent]) -> Iterator[BlockEvent]:
    """Blocks of one prefix that follow each other, and removals in a row, as one event each."""
    run: list[BlockEvent] = []
    for event in events:
        if run and not _goes_on(run, event):
            yield _joined(run)
            run = []
        run.append(event)
    if run:
        yield _joined(run)


def _goes_on(run: list[BlockEvent], event: BlockEvent) -> bool:
    last = run[-1]
    if isinstance(event, BlockStored):
        return isinstance(last, BlockStored) and _follows(run, last, event)
    return isinstance(event, BlockRemoved) and (
        isinstance(last, BlockRemoved) and (event.group, event.medium) == (last.group, last.medium)
    )


def _follows(run: list[BlockEvent], last: BlockStored, event: BlockStored) -> bool:
    return (
        event.parent_key == last.keys[-1]
        and event.start == last.start + len(last.keys)
        and (event.group, event.medium) == (last.group, last.medium)
        and event.salt == last.salt
        and event.adapter == last.adapter
        and event.encoder == last.encoder
        and event.tenant == last.tenant
        and event.session == last.session
        and event.origin == last.origin
        and (len(event.token_ids) > 0) == (len(last.token_ids) > 0)
        and (not event.extras or _items_go_on(run, event))
    )


def _items_go_on(run: list[BlockEvent], event: BlockStored) -> bool:
    """Whether every item that reaches into the event's first block already belongs to the run."""
    first = event.start * event.block_size
    known = {item for block in run if isinstance(block, BlockStored) for item in block.extras}
    return all(item in known for item in event.extras if item.start < first)


def _joined(run: list[BlockEvent]) -> BlockEvent:
    first = run[0]
    if len(run) == 1 or isinstance(first, AllBlocksCleared):
        return first
    keys = tuple(
        key for event in run if not isinstance(event, AllBlocksCleared) for key in event.keys
    )
    if isinstance(first, BlockRemoved):
        return replace(first, keys=keys)
    stored = [event for event in run if isinstance(event, BlockStored)]
    return replace(
        first,
        keys=keys,
        token_ids=np.concatenate([block.token_ids for block in stored]),
        extras=tuple(dict.fromkeys(item for block in stored for item in block.extras)),
    )
