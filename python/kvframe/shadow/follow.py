"""The steps that the ordered log of a manager tells (``cache.event_log``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from kvframe.errors import UsageError
from kvframe.events import EventKind as K
from kvframe.request import Request
from kvframe.shadow.report import ShadowReport
from kvframe.shadow.shadows import ShadowSet
from kvframe.stats.log import Event, EventLog

if TYPE_CHECKING:
    from kvframe.manager import KVCacheManager

_FOLLOWED = (
    *(K.ALLOCATE, K.RESUME, K.HIT, K.OBTAIN, K.STORE, K.COMMIT, K.FORK),
    *(K.FINISH, K.ABORT, K.RESET),
)
_GROWS = frozenset((K.OBTAIN, K.STORE, K.COMMIT))
_ENDS = frozenset((K.FINISH, K.ABORT))


@dataclass
class _Sequence:
    """The state of a live sequence after the log entries that were read so far."""

    keys: list[bytes]
    writes: bool = True
    rows: int = 0
    computed: int = 0
    told: tuple[int, int, int] = field(default=(0, 0, 0))

    def changed(self, size: int) -> bool:
        """Whether the shadows have to be told: it has other blocks, or more of them are full."""
        now = len(self.keys), self.rows, self.computed // size
        return now != self.told

    def take_new_keys(self, size: int) -> list[bytes]:
        new = self.keys[self.told[0] :]
        self.told = len(self.keys), self.rows, self.computed // size
        return new


class LogFollower:
    """Gives a set of shadows what a manager's log tells.

    Only the first layer group counts, which must attend to all tokens. What several calls did
    reaches the shadows call by call.

    Args:
        shadows: The set; its blocks are of the log's size.
    """

    def __init__(self, shadows: ShadowSet) -> None:
        self.shadows = shadows
        self._live: dict[int, _Sequence] = {}

    def follow(self, log: EventLog) -> None:
        """Give the shadows the next portion of the log.

        Raises:
            UsageError: Its blocks are of another size, or have no keys (``cache.index = "radix"``).
        """
        if log.block_size not in (None, self.shadows.block_size):
            told = f"blocks of {log.block_size} tokens"
            raise UsageError(f"log: {told}: the shadows have {self.shadows.block_size}")
        events = (event for event in log.of_kinds(_FOLLOWED) if event.group == 0)
        for _, call in groupby(events, key=lambda event: event.tick):
            self._call(list(call), log.requests)

    def _call(self, events: list[Event], requests: Mapping[int, Request]) -> None:
        for event in events:
            if event.kind is K.RESET:
                self.shadows.reset()
            elif event.kind is K.FORK:
                self._fork(event)
            elif event.kind in (K.ALLOCATE, K.RESUME):
                self._begin(event, events, requests[event.seq])
                return
        grown = [event.seq for event in events if event.kind in _GROWS]
        for event in events:
            self._note(event)
        ended = [event.seq for event in events if event.kind in _ENDS]
        progress = self._progress(seq for seq in dict.fromkeys(grown) if seq not in ended)
        gone = list(self._progress(ended, always=True))
        for seq in ended:
            self._live.pop(seq, None)
        told = list(progress)
        if told or gone:
            self.shadows.step(grown=told, ended=gone)

    def _note(self, event: Event) -> None:
        sequence = self._live.get(event.seq)
        if sequence is None:
            return
        if event.kind is K.OBTAIN:
            sequence.rows += 1
        elif event.kind is K.COMMIT and sequence.writes:
            sequence.computed = event.value
        elif event.kind is K.STORE and event.other == len(sequence.keys):
            sequence.keys.append(event.key)

    def _progress(
        self, seqs: Iterable[int], *, always: bool = False
    ) -> Iterator[tuple[int, list[bytes], int, int]]:
        size = self.shadows.block_size
        for seq in seqs:
            sequence = self._live.get(seq)
            if sequence is not None and (always or sequence.changed(size)):
                new = sequence.take_new_keys(size)
                yield seq, new, sequence.rows * size, sequence.computed

    def _begin(self, event: Event, call: Sequence[Event], request: Request) -> None:
        size = self.shadows.block_size
        if request.keys is None:
            raise UsageError(
                "log: its blocks have no keys, so other pools cannot be asked for them"
            )
        raw = request.keys.astype("<u8").tobytes()
        sequence = _Sequence([raw[at : at + 16] for at in range(0, len(raw), 16)])
        sequence.writes = request.write_cache
        own = [one.kind for one in call if one.seq == event.seq]
        sequence.rows = own.count(K.HIT) + own.count(K.OBTAIN)
        sequence.computed = event.other if sequence.writes else 0
        self._live[event.seq] = sequence
        known = request.session, request.turn, request.request_class, request.priority
        use = (*known, event.value, ())
        keys, slots = sequence.take_new_keys(size), sequence.rows * size
        findable = event.value - 1 if request.read_cache else 0
        first = event.kind is K.ALLOCATE
        tokens = event.value, findable, slots, sequence.computed, event.other
        self.shadows.step(begun=[(event.seq, keys, *tokens, first, use)])

    def _fork(self, event: Event) -> None:
        """Follow a fork: to the shadows it is a request that finds the blocks of its origin."""
        origin = self._live.get(event.value)
        if origin is None:
            return
        size = self.shadows.block_size
        fork = _Sequence(list(origin.keys), origin.writes, origin.rows, origin.computed)
        self._live[event.seq] = fork
        keys, slots = fork.take_new_keys(size), fork.rows * size
        tokens = slots, slots, slots, fork.computed, 0
        self.shadows.step(begun=[(event.seq, keys, *tokens, False, (0, 0, 0, 0, slots, ()))])


class ManagerShadows:
    """Shadows of a manager, by its log.

    Attributes:
        shadows: The set.
    """

    def __init__(self, kv: KVCacheManager, shadows: ShadowSet) -> None:
        self.shadows = shadows
        self._log, self._follower = kv.log, LogFollower(shadows)

    def update(self) -> EventLog:
        """Take the manager's log, give it to the shadows, and return it. Call it once a step."""
        log = self._log.take()
        self._follower.follow(log)
        return log

    def report(self) -> ShadowReport:
        """What has been counted so far."""
        return self.shadows.report()

    def close(self) -> None:
        """End the shadows' thread."""
        self.shadows.close()


def attach(
    kv: KVCacheManager,
    policies: Sequence[str],
    capacities: Sequence[int] | None = None,
    *,
    stride: int = 1,
) -> ManagerShadows:
    """Shadows of a manager, which goes on as it is; its own policy and size are the anchor.

    Args:
        kv: A manager with ``cache.event_log``, which did nothing yet.
        policies: As `ShadowSet` takes them.
        capacities: Blocks; by default half the manager's, as many, and twice as many.
        stride: As `ShadowSet` takes it.

    Raises:
        UsageError: Its log is off, or as `ShadowSet`.
    """
    options = kv.inspect.options()
    if not options["event_log"]:
        raise UsageError("cache.event_log = false: shadows follow the log: set it to true")
    blocks, size = options["blocks"], options["block_size"]
    sizes = capacities if capacities is not None else [max(blocks // 2, 1), blocks, 2 * blocks]
    actual = kv.inspect.resolved.eviction.name, blocks
    shadows = ShadowSet(policies, sizes, size, actual=actual, chained=True, stride=stride)
    return ManagerShadows(kv, shadows)


def followed(log: EventLog, shadows: ShadowSet) -> ShadowReport:
    """The report of shadows that have followed a whole log.

    Raises:
        UsageError: As `LogFollower.follow`.
        CapacityError: The shadows do not catch up.
    """
    LogFollower(shadows).follow(log)
    shadows.flush()
    return shadows.report()
