"""`Tiers`: host memory and the stores below a manager's pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Unpack

import msgspec

from kvframe.arguments import is_int, shown
from kvframe.config.tiers import MOVED
from kvframe.errors import TierError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.pages.numpy import NumpyPool
from kvframe.pages.pool import PagePool
from kvframe.renamed import CACHE, Renamed
from kvframe.request import PER_TRY, Request, RequestOptions, TokenIds, requested, session_id
from kvframe.results import Allocation
from kvframe.tiers.base import Level, Levels, PollResult
from kvframe.tiers.build import keep, open_stores, prefetched_pages, space_of, tiers_of
from kvframe.tiers.check import forget_wrong
from kvframe.tiers.clock import clock_of
from kvframe.tiers.cost import SwapCost
from kvframe.tiers.demote import Demotion
from kvframe.tiers.erasure import Erasure, erased
from kvframe.tiers.host import HostTier
from kvframe.tiers.moves import Mover, Moves, Part, check_movers, parts_of
from kvframe.tiers.names import Scope
from kvframe.tiers.object_keys import Key
from kvframe.tiers.offload import Offload
from kvframe.tiers.onboard import Arriving, Loading, Onboard
from kvframe.tiers.origins import Origins
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.swap import Swap, Swapped
from kvframe.tiers.tier_index import Keys, Kind, TierTenantRow, as_keys, kind_of
from kvframe.tiers.uses import access_of
from kvframe.tiers.work import LIMIT_S, StalledError, Work, check_limit
from kvframe.tiers.worker import Thread, Worker
from kvframe.tiers.worth import Worth

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


class Tiers(metaclass=Renamed, old=CACHE):
    """Host memory and the stores below it, as ``[[tiers]]`` of a manager's configuration says.

    Call all methods from the engine's thread, and `poll` once per step. Blocking work runs in a
    thread of each tier. A page in flight has no owner, and a load that fails, is late or is wrong
    is a miss.

    How blocks go down and come up:

    .. code-block:: text

        pool   --offload, make_room, swap_out-->  host  --demotion: ahead of need, tidy-->  stores
        pool   <--allocate, swap_in-------------  host  <--prefetch, allocate-------------  stores

    - ask, and begin sequences: `lookup`, `allocate`, `prefetch`, `arriving`, `cancel`
    - down: `offload`, `make_room`, `tidy`
    - whole sequences: `preempt`, `swap_out`, `swap_in`, `drop_swapped`
    - settle what has ended, once per step: `poll`; wait for it: `drain`, `close`; ask: `leaving`
    - forget: `reset_prefix_cache`, `erase_tenant`, `set_weight_version`
    - look inside: `levels`, `page_bytes`, `stats`, `tenants`, `kinds`, `spaces`; `verify`,
      `check_integrity`

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
        layerwise: Bring pages to the pool layer by layer, so that compute may start on the first
            (`arriving`); the movers have an ``onboard``.
        poison: Overwrite pages before they are filled and after they have left.
        verify: Compare checksums after every copy, in the pool too.

    Raises:
        ConfigError: The configuration has no ``[[tiers]]``, or does not allow them (those that are
            off are allowed, and these tiers then keep nothing); there is a store, and neither the
            model nor its weights have a name; or two tiers are in one place.
        ImportError: A package is missing that a tier's checksum or codec needs.
        TierError: A store cannot be opened.
        UsageError: A part, rank or name is wrong; pages are not as ``[model]`` says; it has tiers.
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
        layerwise: bool = False,
        poison: bool = False,
        verify: bool = False,
    ) -> None:
        first, *others = tiers = tiers_of(kv)
        self.kv, self.block_size = kv, kv.block_size
        parts = parts_of(pools, kv.inspect.resolved, kv.counts().total)
        check_movers(movers, parts, layerwise=layerwise)
        most = prefetched_pages(prefetch_tokens, self.block_size)
        self._space = space_of(kv, parts, model=model, rank=rank, ranks=ranks, salt=salt)
        self._clock = clock_of(clock)
        self._closed = False

        shapes = [part.pool.layout.shape for part in parts]
        checks = {"poison": poison, "verify": verify}
        self.host = HostTier(first, shapes, self.block_size, host, **checks)
        self.workers = [worker(f"kvframe-{tier.config.name}") for tier in tiers]
        sums = self.host.sums if verify else None
        self.moves = moves = Moves(parts, self.host.pools, self.workers[0], movers, sums)
        self.below: list[StoreTier] = []
        try:
            open_stores(self.below, others, shapes, self._space, self.workers[1:])
        except BaseException:
            Work(self.workers, [self.host, *self.below], moves).shut(LIMIT_S)
            raise

        self._levels = levels = Levels(self.host, self.below, self._clock)
        self._work = Work(self.workers, levels.all, moves)
        self._origins = Origins(levels)
        self._demotion = demotion = Demotion(levels)
        self._offload = Offload(kv, levels, demotion, moves, self._origins)
        self._onboard = Onboard(
            kv, levels, demotion, moves, most_prefetched=most, poison=poison, layerwise=layerwise
        )
        self._worth = Worth(levels, moves)
        self._swap = Swap(kv, levels, demotion, moves)
        keep(kv, self._work)

    @property
    def levels(self) -> list[Level]:
        """Every tier, the nearest first."""
        return self._levels.all

    @property
    def leaving(self) -> int:
        """Pages that are being copied out of the pool; their blocks are held until then."""
        return self._worth.moves.leaving

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, all parts together."""
        return self._worth.moves.page_bytes

    @property
    def spaces(self) -> dict[str, str]:
        """The name space of each tier with a store, as ``kvframe tiers list`` shows it."""
        return {below.name: below.codec.space.digest.hex() for below in self.below}

    # --- ask, and begin: blocks come up ---------------------------------------------------------

    def lookup(self, prompt: Request | TokenIds, **options: Unpack[RequestOptions]) -> TierHit:
        """How much of a prompt each memory has now. Changes and counts nothing."""
        request, _ = requested(prompt, options)
        keys = self._keys(request)
        found = {level.name: level.index.find(keys) for level in self._levels.up()}
        here, present = found[self.host.name], self.host.index.present(keys)
        return TierHit(
            pool=self.kv.lookup(request).tokens,
            tiers={name: pages * self.block_size for name, pages in found.items()},
            in_flight=(present - here) * self.block_size,
            leader=self._onboard.leader(keys[: here + 1]) if present > here else None,
        )

    def allocate(
        self,
        prompt: Request | TokenIds,
        *,
        cost: SwapCost | None = None,
        **options: Unpack[RequestOptions],
    ) -> Allocation:
        """Begin a sequence, and start to bring what a tier has of it and the pool lacks.

        `poll` settles `Allocation.load` and says whose load has arrived; until then the sequence
        has slots, but the KV of its external tokens is not there. Everything else is as in
        `KVCacheManager.allocate`.

        Args:
            prompt: As there.
            cost: Bring only what comes faster than it is computed. Measured bandwidths stand in for
                the stated ones as soon as there are some. What is left where it is counts as
                ``computed_instead``.
            **options: As there.
        """
        self._check_open()
        request, attempt = requested(prompt, options, PER_TRY)
        own = request.num_external_tokens or request.external_until
        if own or "external_until" in attempt:
            return self.kv.allocate(request, **attempt)  # the caller brings KV itself
        keys, use = self._keys(request), access_of(request)
        found = max(level.index.find(keys) for level in self._levels.up())
        found = max(found, self.host.index.present(keys))
        if cost is not None and found:
            pool = self.kv.lookup(request).tokens
            if not self._worth.takes(keys, found, pool, self.block_size, cost):
                found = 0
        given = self.kv.allocate(request, external_until=found * self.block_size, **attempt)
        self._levels.uses.begin(given.seq, use)
        self._origins.note(keys, self.kv.inspect.origin(request))
        if given.joined_tokens:
            self._onboard.join(given.seq, given.cached_tokens + given.joined_tokens)
        used = keys[: max(found, given.cached_tokens // self.block_size)]
        self._levels.uses.count(keys, len(used))
        for below in self.below:
            below.used(used)
        if given.load is not None:
            self._onboard.load(given, keys, use)
        elif found:
            here = keys[: self.host.index.present(keys)]
            self.host.index.touch(here, use)
            self._levels.used(self.host, here)
        return given

    def prefetch(self, prompt: Request | TokenIds, **options: Unpack[RequestOptions]) -> Loading:
        """Bring what stores have of a prompt to host memory, ahead of its allocation.

        Stores that others write to are asked what they have. If too much is in flight already, the
        prefetch is queued; `Loading.state` says so.
        """
        self._check_open()
        request, _ = requested(prompt, options)
        keys = self._keys(request)
        self._origins.note(keys, self.kv.inspect.origin(request))
        return self._onboard.prefetch(keys, access_of(request))

    def cancel(self, loading: Loading | int) -> None:
        """Cancel a prefetch, or the load of a sequence (before it is released, say).

        It is no error if that has ended already.
        """
        if not isinstance(loading, Loading) and not is_int(loading):
            raise UsageError(f"loading = {shown(loading)}: must be a Loading or a sequence")
        self._onboard.cancel(loading)

    def arriving(self, seq: int) -> Arriving | None:
        """What is on its way to a sequence layer by layer, once its copies are queued.

        With ``layerwise``, the engine need not wait for `poll`: a computation may be queued whose
        stream waits for the events of each layer before it reads that layer. Commit it after the
        poll that says that the sequence has landed.
        """
        return self._onboard.arriving(seq)

    def _keys(self, request: Request) -> Keys:
        """Keys of the blocks that may be taken: at least one token is always computed."""
        stored = self.kv.inspect.stored_request(request)
        if not stored.read_cache:
            return as_keys([])
        most = max(len(stored) - 1, 0) // self.block_size
        keys = self.kv.blocks.hash_blocks(stored)[:most]
        return self._origins.named(keys, self.kv.inspect.origin(request))

    # --- down -----------------------------------------------------------------------------------

    def offload(self, seq: int) -> int:
        """Back up what a sequence has computed, as far as the host tier's admission lets it in.

        Call it after commits, and before the sequence ends. Its blocks are held until they are
        copied, whatever becomes of it. What does not fit now is taken up by the next call.

        Returns:
            Blocks that are on their way.

        Raises:
            BusyError: With ``when_full = "refuse"``: the tier below lacks what would have to go.
        """
        self._check_open()
        return self._offload.back_up(seq)

    def make_room(self, free: int) -> int:
        """Evict from the pool until ``free`` blocks are free, as far as that loses nothing.

        Blocks that are about to be evicted and that the host tier then lets in (`write-back`) are
        backed up first, whether or not `offload` was called for them: at once, since to hold them
        for a while would make them recent. What the host tier has no room for stays in the pool.
        With ``cache.index = "radix"``, whose blocks have no keys, only blocks are known here of
        which an `offload` has been told. Call it ahead of need.

        Returns:
            Blocks that were backed up.
        """
        self._check_open()
        return self._offload.make_room(free)

    def tidy(self) -> None:
        """Make room ahead in each tier that is fuller than its high mark, down to its low mark."""
        self._demotion.tidy()

    # --- whole sequences, down and up -----------------------------------------------------------

    def preempt(self, seq: int, cost: SwapCost) -> Swapped | Request:
        """End a running sequence for now, the cheaper way: swapped out, or to be computed again.

        Measured bandwidths stand in for the stated ones as soon as there are some. Where host
        memory has no room, or none now, it is computed again. Pages that host memory has as a
        prefix (`offload`) are loaded rather than computed, and need not be copied out once more.

        Returns:
            A `Swapped` for `swap_in`, or the request for `allocate`.
        """
        self._check_open()
        return self._swap.preempt(seq, cost, self._offload.backed(seq))

    def swap_out(self, seq: int) -> Swapped:
        """Preempt a sequence and keep all that it has computed in host memory.

        Its handle is stale at once; its blocks are held until they are copied.

        Raises:
            BusyError: With ``when_full = "refuse"``: the tier below lacks what would have to go.
            CapacityError: Host memory has no room; nothing has changed.
            UsageError: A window has given blocks up: they cannot come back.
        """
        self._check_open()
        return self._swap.swap_out(seq)

    def swap_in(self, swapped: Swapped) -> Allocation:
        """Allocate a swapped sequence and bring its pages back, as they were.

        `poll` says when it has landed: it is then as long as it was. If pages are not as they went
        out, it is rewound to what is good. What other weights computed does not come back.

        Raises:
            BusyError: It is still on its way out.
            HandleError: It is back already, or was dropped.
            CapacityError: The pool has no room now; it stays swapped.
        """
        self._check_open()
        return self._swap.swap_in(swapped)

    def drop_swapped(self, swapped: Swapped) -> None:
        """A swapped request has ended: its pages in host memory are free.

        Raises:
            HandleError: It is back already, or was dropped.
        """
        self._swap.drop(swapped)

    # --- what has ended -------------------------------------------------------------------------

    def poll(self, timeout: float = 0) -> PollResult:
        """Settle what has ended, and start what can be started. Call it once per step.

        Args:
            timeout: Seconds to wait for something to end, if anything is in flight.
        """
        self._check_open()
        levels, onboard = self._levels, self._onboard
        self._work.poll(timeout)
        now = self._clock()
        for level in levels.all:
            late, forgotten = level.index.expire_until(now)
            levels.left(level, forgotten)
            if late:
                onboard.give_up_late(level, late)
        onboard.go_on()
        self._demotion.catch_up()
        self._demotion.tidy()
        for below in self.below:
            below.tend(now)
        onboard.land_joined()
        return levels.take_arrived()

    def drain(self, limit: float = LIMIT_S) -> PollResult:
        """Poll until nothing is in flight.

        What a store refuses, or what waits until it answers again, is not in flight: it is tried
        again by later polls.

        Args:
            limit: Seconds that may pass without anything ending.

        Raises:
            TierError: They have passed; the message says what is still in flight. It stays so, and
                the next `poll` reports what has ended.
            UsageError: ``limit`` is no number above 0.
        """
        check_limit(limit)
        ended = PollResult([], [])

        def poll() -> bool:
            polled = self.poll(0.01)
            ended.rewound.extend(polled.rewound)
            ended.landed.extend(polled.landed)
            return any(polled)

        try:
            self._work.drain(poll, limit)
        except StalledError:
            self._levels.put_back(ended)
            raise
        return ended

    def close(self, limit: float = LIMIT_S) -> None:
        """Finish what is in flight, and close workers and stores. Closing again does nothing.

        A store that does not answer is given up: its calls under way are abandoned, what they were
        to write or read is lost, and it is not closed.

        Args:
            limit: Seconds that may pass without anything ending; so long is also waited, in all,
                for stores to close.

        Raises:
            TierError: A store cannot be closed, or does not answer; all others are closed. The
                message says what was left.
            UsageError: As for `drain`.
        """
        check_limit(limit)
        if self._closed:
            return
        failed: list[str] = []
        try:
            now = self._clock()
            for below in self.below:
                below.tend(now, last=True)
            self.drain(limit)
        except StalledError as error:
            failed.append(str(error))
        except BaseException:
            self._closed = True
            self._work.shut(limit)
            raise
        self._closed = True
        failed += self._work.shut(limit, stalled=bool(failed))
        if failed:
            raise TierError("; ".join(failed))

    def __enter__(self) -> Tiers:
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        self.close()
        return False

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the tiers are closed: make new ones")

    # --- forget ---------------------------------------------------------------------------------

    def reset_prefix_cache(
        self,
        *,
        lora_name: str | None = None,
        cache_salt: str | None = None,
        session: int | str | None = None,
    ) -> int:
        """Forget in the pool and in every tier what all of the given applies to; else everything.

        Pages on their way are dropped when they arrive, and sequences that were swapped out are
        computed again. A tier's pages from before this process started, of which no request has
        come since, may be of any adapter: they are forgotten with each adapter or salt.

        In a store that others write to, what others wrote stays. Unless a session is given, this
        engine calls its pages of what is forgotten by new names from then on: it never finds the
        old pages, nor do others find its new ones. A process that starts later knows nothing of
        this: give an adapter's new version another name, or another ``cache.weight_version``.

        Args:
            lora_name: As in `KVCacheManager.reset_prefix_cache`, and so are the other two.
            cache_salt: As there.
            session: As there; in tiers, pages that requests of this session alone asked for.

        Returns:
            Blocks freed in the pool.
        """
        self._check_open()
        freed = self.kv.reset_prefix_cache(
            lora_name=lora_name, cache_salt=cache_salt, session=session
        )
        number = None if session is None else session_id(session)
        scope = Scope(cache_salt, lora_name, number)
        self._origins.forget(scope)
        self._swap.forget(scope)
        return freed

    def erase_tenant(self, tenant: str) -> Erasure:
        """Forget in the pool and in every tier what was computed for a tenant, as a reset does.

        Args:
            tenant: Its name, whether it is in ``[[tenants]]`` or not.

        Returns:
            The receipt: what was erased where, and what could not be reached.

        Raises:
            UsageError: The name is empty, or no string.
        """
        self._check_open()
        return erased(tenant, self.kv, self._levels, self._origins, self._swap)

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
            self._levels.left(level, level.index.clear())
        self._space = space
        for below in self.below:
            below.set_space(space)
        return freed

    # --- look inside ----------------------------------------------------------------------------

    def stats(self) -> dict[str, dict[str, int]]:
        """Counters: of the directions under ``moved``, and of each tier by its name."""
        told = {MOVED: dict(self._levels.counters)}
        for level, index in ((level, level.index) for level in self.levels):
            told[level.name] = {**index.stats(), **index.counts()._asdict(), **level.stats()}
        return told

    def tenants(self) -> dict[str, list[TierTenantRow]]:
        """What each tenant has of each tier, by the tier's name; nothing where none has a share."""
        return {level.name: level.index.tenants() for level in self._levels.all}

    def kinds(self) -> dict[str, dict[str, Kind]]:
        """The kind of each entry of `stats`: a counter only grows, a gauge may fall."""
        return {name: {key: kind_of(key) for key in told} for name, told in self.stats().items()}

    def verify(self, limit: float = LIMIT_S) -> list[tuple[str, Key]]:
        """Read every page of every tier back and compare checksums; blocks until that is done.

        Args:
            limit: Seconds that a store may take for 64 pages.

        Returns:
            Pages that were wrong or gone, which are forgotten: (name of the tier, key).

        Raises:
            TierError: A store cannot be asked, or does not answer. What it has stays.
        """
        check_limit(limit)
        self._check_open()
        return forget_wrong(self._levels, limit)

    def check_integrity(self) -> None:
        """Recount the manager and the index of every tier.

        Raises:
            IntegrityError: Something disagrees: a defect of kvframe.
        """
        self.kv.check_integrity()
        for level in self.levels:
            level.index.check_integrity()

    def __repr__(self) -> str:
        levels = ", ".join(level.name for level in self.levels)
        state = "closed" if self._closed else f"{len(self._onboard.loading)} loading"
        return f"Tiers({levels}: {state})"
