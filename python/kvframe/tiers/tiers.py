"""`Tiers`: host memory and the stores below a manager's pool."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Unpack
from weakref import WeakSet

import msgspec

from kvframe.arguments import is_int, shown
from kvframe.errors import ConfigError, UsageError
from kvframe.flat import Access
from kvframe.manager import KVCacheManager
from kvframe.pages.numpy import NumpyPool
from kvframe.pages.pool import PagePool
from kvframe.prompts import other_prompt
from kvframe.renamed import CACHE, Renamed
from kvframe.request import Request, RequestOptions, TokenIds, name_bytes
from kvframe.results import Allocation
from kvframe.tiers.base import REMEMBERED
from kvframe.tiers.cost import Rate
from kvframe.tiers.ending import LIMIT_S, Ending, PollResult
from kvframe.tiers.forgetting import Forgetting, Origins
from kvframe.tiers.host import HostTier
from kvframe.tiers.inside import Inside
from kvframe.tiers.moves import Mover, Moves, Part, dtype_of, parts_of
from kvframe.tiers.names import Names
from kvframe.tiers.object_keys import Space
from kvframe.tiers.offload import Downward
from kvframe.tiers.onboard import Loading, Upward
from kvframe.tiers.store_tier import StoreTier, check_apart
from kvframe.tiers.swap import Swapping
from kvframe.tiers.tier_index import Keys, as_keys
from kvframe.tiers.worker import Thread, Worker

PREFETCH_TOKENS = 1 << 17


class TierHit(NamedTuple):
    """How much of a prompt each memory has, in tokens from its beginning.

    Attributes:
        pool: In the manager's pool.
        tiers: In each tier, by its name, the nearest first.
        in_flight: On its way to host memory, after what is there already.
        leader: The sequence whose load brings that, if there is one.
    """

    pool: int
    tiers: dict[str, int]
    in_flight: int
    leader: int | None

    @property
    def best(self) -> int:
        """The most that any of them has."""
        return max([self.pool, *self.tiers.values()])


class Tiers(Forgetting, Downward, Upward, Swapping, Inside, Ending, metaclass=Renamed, old=CACHE):
    """Host memory and the stores below it, as ``[[tiers]]`` of a manager's configuration says.

    Call all methods from the engine's thread, and `poll` once per step. Blocking work runs in a
    thread of each tier. A page in flight has no owner, and a load that fails, is late or is wrong
    is a miss.

    Args:
        kv: The manager.
        pools: The engine's pages: one pool, or one per layer group, or a `Part` for each pool where
            several hold parts of the same blocks (keys apart from values, ranks of one process).
        host: Memory of the host tier, one block-first pool per part; allocated if None.
        movers: For each part, what queues its copies on a device (`kvframe.pages.swap.Swap` over
            the pool and its ``host``); None if the pools are in host memory.
        model: The model's name, part of every name in a store. A store needs it or
            ``cache.weight_version``: without, two models would read each other's pages.
        rank: The number of these pools among the ``ranks``.
        ranks: How many ranks hold parts of the same tokens' KV (tensor- and pipeline-parallel ones
            counted together).
        salt: Sets this deployment's pages apart from others in the same store.
        worker: Makes the worker of a tier from its name. With `Inline` all work is done by the
            caller, in `poll`, and is deterministic.
        clock: Returns milliseconds, for timeouts; the system's clock if None.
        prefetch_tokens: Most tokens that prefetches bring at once; further ones queue.
        poison: Overwrite pages before they are filled and after they have left.
        verify: Compare checksums after every copy, in the pool too.

    Raises:
        ConfigError: The configuration has no tiers, or does not allow them; there is a store, and
            neither the model nor its weights have a name; or two tiers are in one place.
        ImportError: A package is missing that a tier's checksum or codec needs.
        TierError: A store cannot be opened.
        UsageError: A part, a rank or a name is wrong.
    """

    def __init__(
        self,
        kv: KVCacheManager,
        pools: PagePool | Sequence[PagePool | Part],
        *,
        host: Sequence[NumpyPool] | None = None,
        movers: Sequence[Mover] | None = None,
        model: str = "",
        rank: int = 0,
        ranks: int = 1,
        salt: str = "",
        worker: Callable[[str], Worker] = Thread,
        clock: Callable[[], int] | None = None,
        prefetch_tokens: int = PREFETCH_TOKENS,
        poison: bool = False,
        verify: bool = False,
    ) -> None:
        if not isinstance(kv, KVCacheManager):
            raise UsageError(f"kv = {shown(kv)}: must be a KVCacheManager")
        resolved = kv.inspect.resolved
        if not resolved.tiers:
            raise ConfigError("tiers: the configuration has none; say [[tiers]]")
        self.kv, self.block_size = kv, kv.block_size
        self.parts = parts_of(pools, resolved, kv.counts().total)
        for name, number in (("rank", rank), ("ranks", ranks)):
            if not is_int(number):
                raise UsageError(f"{name} = {shown(number)}: must be an integer")
        if not 0 <= rank < ranks:
            raise UsageError(f"rank = {rank}: must be at least 0 and below ranks = {ranks}")
        if movers is not None and len(movers) != len(self.parts):
            raise UsageError(f"movers: {len(movers)} of them for {len(self.parts)} parts")
        for name, text in (("model", model), ("salt", salt)):
            name_bytes(name, text)
        self.counters: Counter[str] = Counter()
        self._uses: OrderedDict[bytes, int] = OrderedDict()
        self._requests: OrderedDict[int, Access] = OrderedDict()
        self._clock = clock or (lambda: time.monotonic_ns() // 1_000_000)
        self._least = int(resolved.config.cache.null_block)
        self._poison, self._verify = poison, verify
        self._most_prefetched = self._check_prefetch(prefetch_tokens)
        self._loading: list[Loading] = []
        self._queue: deque[Loading] = deque()
        self._rewound: list[int] = []
        self._joined: dict[int, int] = {}
        self._origins, self._names, self._swapped = Origins(), Names(), WeakSet()
        self._landed: list[int] = []
        self._ended = 0
        self._held, self._closed = {}, False
        self._out_rate, self._in_rate = Rate(), Rate()
        first, *others = resolved.tiers
        if first.admission.name == "write-back" and len(resolved.config.groups) > 1:
            raise ConfigError(f"tier {first.config.name}: write-back serves one layer group")
        shapes = [part.pool.layout.shape for part in self.parts]
        self._space = Space(
            model=model,
            fingerprint=(kv._core.fingerprint() or b"").decode(),
            dtype=dtype_of(self.parts, resolved),
            block_size=self.block_size,
            parts=tuple((s.layers, s.parts, s.heads, s.row_bytes) for s in shapes),
            hash=resolved.config.cache.hash,
            rank=rank,
            ranks=ranks,
            salt=salt,
        )
        for tier in others:
            self._space.check_weights(tier.config.name, tier.config.store)
        checks = {"poison": poison, "verify": verify}
        self.host = HostTier(first, shapes, self.block_size, host, **checks)
        self.workers = [worker(f"kvframe-{tier.config.name}") for tier in resolved.tiers]
        self.moves = Moves(self.parts, self.host.pools, self.workers[0], movers)
        self.below, self._behind = [], [OrderedDict() for _ in others]
        self._cleaned = [{} for _ in others]
        try:
            for tier, one in zip(others, self.workers[1:], strict=True):
                self.below.append(StoreTier(tier, shapes, self._space, one))
            check_apart(self.below)
        except BaseException:
            self._shut(LIMIT_S)
            raise

    @property
    def spaces(self) -> dict[str, str]:
        """The name space of each tier with a store, as ``kvframe tiers list`` shows it."""
        return {below.name: below.codec.space.digest.hex() for below in self.below}

    # --- requests -----------------------------------------------------------------------------

    def lookup(self, prompt: Request | TokenIds, **options: Unpack[RequestOptions]) -> TierHit:
        """How much of a prompt each memory has now. Changes and counts nothing."""
        request = prompt if isinstance(prompt, Request) else Request(prompt, **options)
        pool = self.kv.lookup(request).tokens
        keys = self._keys(request)
        now = self._clock()
        index = {level.name: level.index.find(keys) for level in self.levels}
        up = {below.name: below.is_up(now) for below in self.below}
        tiers = {n: found * self.block_size for n, found in index.items() if up.get(n, True)}
        found, present = index[self.host.name], self.host.index.present(keys)
        leader = self._leader(keys[: found + 1]) if present > found else None
        return TierHit(pool, tiers, (present - found) * self.block_size, leader)

    def allocate(self, prompt: Request | TokenIds, **options: Unpack[RequestOptions]) -> Allocation:
        """Begin a sequence, and start to bring what a tier has of it and the pool lacks.

        `poll` settles `Allocation.load` and says whose load has arrived; until then the sequence
        has slots, but the KV of its external tokens is not there. Everything else is as in
        `KVCacheManager.allocate`.
        """
        self._check_open()
        request = prompt if isinstance(prompt, Request) else Request(prompt, **options)
        if request.num_external_tokens or request.external_until:
            return self.kv.allocate(request)  # the caller brings KV itself
        keys = self._keys(request)
        found = max([level.index.find(keys) for level in self._up()], default=0)
        found = max(found, self.host.index.present(keys))
        (core,) = self.kv._prompts.rewritten([request])
        grant = self.kv.allocate(core.replace(external_until=found * self.block_size))
        self._requests[grant.seq] = self._use(request)
        self._note_request(request, keys)
        if grant.joined_tokens:
            self._joined[grant.seq] = grant.cached_tokens + grant.joined_tokens
        if len(self._requests) > REMEMBERED:
            self._requests.popitem(last=False)
        count = max(found, grant.cached_tokens // self.block_size)
        self._count_uses(keys, count)
        for below in self.below:
            below.used(keys[:count])
        if core is not request:
            grant = grant._replace(prompt=other_prompt(core, request))
        if grant.load is not None:
            self._load(grant, keys, self._use(request))
        elif found:
            here = keys[: self.host.index.present(keys)]
            self.host.index.touch(here, self._use(request))
            self._used(self.host, here)
        return grant

    def prefetch(self, prompt: Request | TokenIds, **options: Unpack[RequestOptions]) -> Loading:
        """Bring what stores have of a prompt to host memory, ahead of its admission.

        Stores that others write to are asked what they have. If too much is in flight already, the
        prefetch is queued; `Loading.state` says so.
        """
        self._check_open()
        request = prompt if isinstance(prompt, Request) else Request(prompt, **options)
        keys = self._keys(request)
        self._note_request(request, keys)
        return self._prefetch(keys, self._use(request))

    def cancel(self, loading: Loading | int) -> None:
        """Cancel a prefetch, or the load of a sequence (before it is released, say).

        It is no error if that has ended already.
        """
        if not isinstance(loading, Loading) and not is_int(loading):
            raise UsageError(f"loading = {shown(loading)}: must be a Loading or a sequence")
        under_way = [*self._loading, *self._queue]
        mine = [one for one in under_way if one is loading or one.seq == loading]
        for one in mine:
            self._cancel(one)

    def poll(self, timeout: float = 0) -> PollResult:
        """Settle what has ended, and start what can be started. Call it once per step.

        Args:
            timeout: Seconds to wait for something to end, if anything is in flight.
        """
        self._check_open()
        self._work(timeout)
        now = self._clock()
        for level in self.levels:
            late, forgotten = level.index.expire(now)
            self._left(level, forgotten)
            if late:
                self._late(level, late)
        self._unfinished()
        self._catch_up()
        self.tidy()
        for below in self.below:
            below.tend(now)
        self._land_joined()
        polled = PollResult(self._rewound, self._landed)
        self._rewound, self._landed = [], []
        return polled

    # --- new weights, and the end -----------------------------------------------------------------

    def set_weight_version(self, version: str) -> int:
        """Say that the weights have changed: nothing computed before is found in any tier.

        Returns:
            Blocks freed in the pool.

        Raises:
            ConfigError: It is empty although there is a store, and the model has no name either.
        """
        self._check_open()
        space = msgspec.structs.replace(self._space, fingerprint=version)
        for below in self.below:
            space.check_weights(below.name, below.config.store)
        freed = self.kv.set_weight_version(version)
        for level in self.levels:
            self._left(level, level.index.clear())
        self._space = space
        for below in self.below:
            below.set_space(self._space)
        return freed

    def __enter__(self) -> Tiers:
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        self.close()
        return False

    def __repr__(self) -> str:
        levels = ", ".join([self.host.name, *(below.name for below in self.below)])
        state = "closed" if self._closed else f"{len(self._loading)} loading"
        return f"Tiers({levels}: {state})"

    # --- inside ---------------------------------------------------------------------------------

    def _up(self) -> list[HostTier | StoreTier]:
        now = self._clock()
        return [self.host, *(below for below in self.below if below.is_up(now))]

    def _keys(self, request: Request) -> Keys:
        """Keys of the blocks that may be taken: at least one token is always computed."""
        (core,) = self.kv._prompts.rewritten([request])
        if not core.read_cache:
            return as_keys([])
        keys: Keys = self.kv._core.tier_keys_of_request(core)
        salt, adapter, _ = core.origin()
        return self._names.of(keys, salt, adapter)[: max(len(core) - 1, 0) // self.block_size]

    def _note_request(self, request: Request, keys: Keys) -> None:
        (core,) = self.kv._prompts.rewritten([request])
        self._note_origin(keys, *core.origin())

    def _land_joined(self) -> None:
        """Sequences that joined another's load have landed with it."""
        for seq, end in list(self._joined.items()):
            there = not self._lives(seq) or seq in self._rewound
            if not there and self.kv.inspect.num_readable_tokens(seq) >= end:
                self._landed.append(seq)
                there = True
            if there:
                del self._joined[seq]

    def _use(self, request: Request) -> Access:
        next_use = request.next_use
        return Access(
            session=request.session,
            turn=request.turn,
            request_class=request.request_class,
            priority=request.priority,
            tokens=len(request),
            next_use=[] if next_use is None else next_use.tolist(),
        )

    def _load(self, grant: Allocation, keys: Keys, use: Access) -> None:
        start = (grant.cached_tokens + grant.joined_tokens) // self.block_size
        rows = start + grant.external_tokens // self.block_size
        tables = [self.kv.block_table(grant.seq, part.group)[start:rows] for part in self.parts]
        loading = Loading(keys[:rows], use, seq=grant.seq, start=start, ticket=grant.load)
        loading.pages = list(tables)
        self._start(loading)

    def _leader(self, keys: Keys) -> int | None:
        at = len(keys) - 1
        for loading in self._loading:
            if len(loading.keys) > at and (loading.keys[at] == keys[at]).all():
                return loading.seq
        return None
