"""The log as events about blocks: what a router that mirrors the cache has to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from kvframe.events import EventKind as K
from kvframe.request import MMItem, Request
from kvframe.stats.log import Event, EventLog, checked


@dataclass(frozen=True)
class BlockStored:
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
        salt: The tenant's salt, which is in the keys too.
        adapter: As ``salt``.
        encoder: As ``salt``, the name of another input that layers attend to.
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


@dataclass(frozen=True)
class BlockRemoved:
    """The last copy under a key is gone."""

    keys: tuple[bytes, ...]
    group: int = 0
    medium: str = "GPU"


@dataclass(frozen=True)
class AllBlocksCleared:
    """Nothing is findable any more. The blocks that were findable get no events of their own."""

    medium: str = "GPU"


BlockEvent = BlockStored | BlockRemoved | AllBlocksCleared


@dataclass(frozen=True)
class _Asked:
    """The fields of a request that its blocks' events carry."""

    salt: str = ""
    adapter: str = ""
    encoder: bytes = b""
    extras: tuple[MMItem, ...] = ()
    session: int = 0

    @classmethod
    def of(cls, request: Request) -> _Asked:
        items = tuple(MMItem(*item) for item in request.mm_items)
        names = request.cache_salt, request.lora_name
        return cls(*names, request.encoder, items, request.session)

    def cut(self, length: int) -> _Asked:
        """The fields after the sequence was cut to ``length`` tokens.

        Multimodal items are cut with it: tokens that come later in their place are not the item.
        """
        items = (MMItem(x.start, min(x.end, length), x.id) for x in self.extras if x.start < length)
        return replace(self, extras=tuple(items)) if self.extras else self


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
    _present: dict[bytes, BlockStored] = field(default_factory=dict)
    _copies: dict[bytes, int] = field(default_factory=dict)
    _asked: dict[int, _Asked] = field(default_factory=dict)
    _out: list[tuple[int, BlockEvent]] = field(default_factory=list)

    def feed(self, log: EventLog) -> list[BlockEvent]:
        """The block events of a portion of the log.

        Raises:
            UsageError: It is no log.
        """
        self._asked |= {seq: _Asked.of(request) for seq, request in checked(log).requests.items()}
        for event in log.of_kinds(self._kinds):
            self._one(event)
        events = [event for _, event in self._out]
        self._out = []
        return events if self.per_block else list(_runs(events))

    @property
    def _kinds(self) -> tuple[K, ...]:
        told = (K.STORE, K.EVICT, K.FORGET, K.RESET, K.FORK, K.STAND_IN, K.TRUNCATE, K.FINISH)
        return (*told, K.HIT) if self.reused else told

    def cached(self) -> list[BlockEvent]:
        """Everything findable now, each block after its parent: for a router that joins late."""
        blocks = sorted(self._present.values(), key=lambda event: event.start)
        return list(blocks)

    def _one(self, e: Event) -> None:
        match e.kind:
            case K.STORE:
                self._store(e)
            case K.HIT if self.reused and e.key in self._present:
                self._out.append((e.tick, replace(self._present[e.key], origin="reused")))
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
                self._asked[e.seq] = self._asked[e.seq].cut(e.other)
            case K.FINISH:
                self._asked.pop(e.seq, None)

    def _store(self, e: Event) -> None:
        if 0 < len(e.ids) < self._size(e.group):
            return  # Part of a block: found by its exact tokens, of no use to a router.
        self._copies[e.key] = self._copies.get(e.key, 0) + 1
        if self._copies[e.key] > 1:
            return
        asked = self._asked.get(e.seq, _Asked())
        size = self._size(e.group)
        start, end = e.other * size, (e.other + 1) * size
        stored = BlockStored(
            keys=(e.key,),
            parent_key=e.parent if any(e.parent) else None,
            token_ids=e.ids,
            block_size=size,
            start=e.other,
            group=e.group,
            salt=asked.salt,
            adapter=asked.adapter,
            encoder=asked.encoder,
            extras=tuple(x for x in asked.extras if x.start < end and x.end > start),
            session=asked.session,
            medium=self.medium,
        )
        self._present[e.key] = stored
        self._out.append((e.tick, stored))

    def _size(self, group: int) -> int:
        sizes = self.block_size
        return int(sizes) if isinstance(sizes, int | np.integer) else sizes[group]

    def _remove(self, e: Event) -> None:
        if e.key not in self._copies:
            return
        self._copies[e.key] -= 1
        if self._copies[e.key] == 0:
            del self._copies[e.key], self._present[e.key]
            self._out.append((e.tick, BlockRemoved((e.key,), e.group, self.medium)))


def _runs(events: Iterable[BlockEvent]) -> Iterable[BlockEvent]:
    """Stored blocks of one prefix that follow each other, as one event each run."""
    run: list[BlockStored] = []
    for event in events:
        if isinstance(event, BlockStored) and run and _follows(run, event):
            run.append(event)
            continue
        if run:
            yield _joined(run)
            run = []
        if isinstance(event, BlockStored):
            run = [event]
        else:
            yield event
    if run:
        yield _joined(run)


def _follows(run: list[BlockStored], event: BlockStored) -> bool:
    last = run[-1]
    return (
        event.parent_key == last.keys[-1]
        and event.start == last.start + len(last.keys)
        and event.group == last.group
        and event.salt == last.salt
        and event.adapter == last.adapter
        and event.encoder == last.encoder
        and event.session == last.session
        and event.origin == last.origin
        and (len(event.token_ids) > 0) == (len(last.token_ids) > 0)
        and (not event.extras or _items_go_on(run, event))
    )


def _items_go_on(run: list[BlockStored], event: BlockStored) -> bool:
    """Whether every item that reaches into the event's first block already belongs to the run."""
    first = event.start * event.block_size
    known = {item for block in run for item in block.extras}
    return all(item in known for item in event.extras if item.start < first)


def _joined(run: list[BlockStored]) -> BlockStored:
    if len(run) == 1:
        return run[0]
    return replace(
        run[0],
        keys=tuple(key for block in run for key in block.keys),
        token_ids=np.concatenate([block.token_ids for block in run]),
        extras=tuple(dict.fromkeys(item for block in run for item in block.extras)),
    )
