"""A store of kvframe below vLLM's CPU tier: a folder, Redis, Mooncake, or what a package brings.

As one of ``secondary_tiers`` of vLLM's ``TieringOffloadingSpec``::

    {"type": "kvframe", "store": "redis", "capacity": 100000, "options": {...},
     "eviction": {"policy": "lfu"}, "admission": {"policy": "second-use"}}

The keys are those of a row of ``[[tiers]]`` in kvframe.toml; ``capacity`` counts vLLM's chunks. An
object is a chunk with a checksum before it, named by vLLM's key and by all that the chunk's bytes
depend on: the model, its layers, parallelism and layout. Reuse by a later process needs the same
keys there, which vLLM's hashes have if ``PYTHONHASHSEED`` is set.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
import xxhash
from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadingEvent,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.file_mapper import FileMapper
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

from kvframe.config import Resolved
from kvframe.errors import TierError
from kvframe.flat import TierPolicy
from kvframe.flat_admission import FlatAdmission
from kvframe.integrations.peers import use_of
from kvframe.tiers import PageStore
from kvframe.tiers.object_keys import FORMAT, Named, parse, words
from kvframe_vllm.log import logger

CODEC = "vllm"
"""What stands in the names of these objects where kvframe's own tiers say how they encode pages."""

CHECKSUM = 8


class KvframeTier(SecondaryTierManager):  # type: ignore[misc]
    """Chunks in a store, under an eviction and an admission policy; a thread of its own calls it.

    A store that fails loses chunks, which are misses then; vLLM's log says so.
    """

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        locality: Any = None,
        **row: Any,
    ) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        tier = _resolved(row)
        chosen = {"policy": tier.eviction.name, "options": tier.config.eviction.options}
        resolved = Resolved.load(os.devnull, env={}, eviction=chosen)
        self.pages: TierPolicy[str] = TierPolicy(resolved, tier.pages)
        size = offloading_spec.config.cache
        self._size = size.tokens_per_hash * size.blocks_per_chunk
        self.admission = FlatAdmission(
            tier.admission, tier.config.admission, kind="disk", block_size=self._size
        )
        self._capacity: int = tier.pages
        self.store = _opened(tier)
        array = np.asarray(primary_kv_view)
        self._rows = array.reshape(len(array), -1).view(np.uint8)
        self.store.largest = self._rows.shape[1] + CHECKSUM
        path = FileMapper.from_offloading_spec("", offloading_spec).base_path
        self._space = blake2b(path.encode(), digest_size=16).digest()
        self._writing: set[str] = set()
        # Chunks by object, where vLLM collects KV events, and the events that it has not taken.
        self._keys: dict[str, bytes] | None = None
        if offloading_spec.kv_events_config.enable_kv_cache_events:
            self._keys = {}
        self._events: list[OffloadingEvent] = []
        self._jobs: deque[tuple[Future[Sequence[bool]], TransferJob, list[str]]] = deque()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="kvframe-tier")
        self._recover()

    def _recover(self) -> None:
        """Takes in what is there already: chunks of another process over the same model."""
        for name, _ in self.store.recover(CHECKSUM):
            named = parse(name)
            ours = named is not None and (named.space, named.codec) == (self._space, CODEC)
            if ours and name not in self.pages:
                # The last one comes last, and is the one to keep.
                self.store.remove(self._room(1) or [])
                self.pages.insert(name)
                self.pages.release([name])

    def name(self, key: bytes) -> str:
        """The object of a chunk."""
        digest = blake2b(key, digest_size=16).digest()
        key_words = words(int.from_bytes(digest, "little"))
        return Named(self._space, CODEC, key_words, 0, FORMAT).name

    # --- what vLLM calls --------------------------------------------------------------------------

    def lookup(self, key: bytes, req_context: Any) -> LookupResult:
        name = self.name(key)
        if name in self._writing:
            return LookupResult.RETRY
        return LookupResult.HIT if name in self.pages else LookupResult.MISS

    def touch(self, keys: Collection[bytes], req_context: Any) -> None:
        names = [name for name in map(self.name, keys) if name in self.pages]
        self.pages.hit(names, _use(req_context))

    def submit_store(self, job_metadata: TransferJob) -> None:
        job, use = job_metadata, _use(job_metadata.req_context)
        chunks = dict(zip(map(self.name, job.keys), job.chunk_ids.tolist(), strict=True))
        new = {name: chunk for name, chunk in chunks.items() if name not in self.pages}
        ends = (job.req_context.get_offload_key_position(key) or 1 for key in job.keys)
        depths = dict(zip(chunks, ((end - 1) // self._size for end in ends), strict=True))
        given = [name.encode() for name in new]
        kept = self.admission.admitted(given, [depths[name] for name in new], use=use)
        names = [name.decode() for name in kept][: self._free() + self.pages.evictable]
        gone = self._room(len(names)) or []
        for name in names:
            self.pages.insert(name, depth=depths[name], use=use)
        self._writing.update(names)
        self._left(gone)
        if self._keys is not None:
            self._keys.update((name, key) for key in job.keys if (name := self.name(key)) in new)
        rows = [new[name] for name in names]
        self._submit(job, names, lambda: self._put(names, rows, gone))

    def submit_load(self, job_metadata: TransferJob) -> None:
        job = job_metadata
        names = [*map(self.name, job.keys)]
        here = [name for name in names if name in self.pages and name not in self._writing]
        self.pages.acquire(here)
        rows, there = job.chunk_ids.tolist(), set(here)
        self._submit(job, names, lambda: self._get(names, rows, there))

    def get_finished_jobs(self) -> Iterable[JobResult]:
        done = []
        while self._jobs and self._jobs[0][0].done():
            future, job, names = self._jobs.popleft()
            good = self._outcome(future, names)
            done.append(self._ended(job, names, good))
        return done

    def take_events(self) -> Iterable[OffloadingEvent]:
        """Chunks that came and went; of those that another process stored, none is told."""
        events, self._events = self._events, []
        return events

    def has_pending_work(self) -> bool:
        return bool(self._jobs)

    def on_new_request(self, req_context: Any) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def drain_jobs(self) -> None:
        wait([future for future, _, _ in self._jobs])

    def shutdown(self) -> None:
        self._worker.shutdown(wait=True)
        self.store.close()

    # --- the worker's thread ----------------------------------------------------------------------

    def _put(self, names: list[str], rows: list[int], gone: list[str]) -> Sequence[bool]:
        if gone:
            self.store.remove(gone)
        objects = [
            (name, _object(self._rows[row].tobytes()))
            for name, row in zip(names, rows, strict=True)
        ]
        return self.store.put(objects)

    def _get(self, names: list[str], rows: list[int], there: set[str]) -> Sequence[bool]:
        wanted = [name for name in names if name in there]
        found = dict(zip(wanted, self.store.get(wanted), strict=True))
        good = []
        for name, row in zip(names, rows, strict=True):
            data = _checked(found.get(name), self._rows.shape[1])
            if data is not None:
                self._rows[row] = data
            good.append(data is not None)
        return good

    # --- the scheduler's --------------------------------------------------------------------------

    def _free(self) -> int:
        """Chunks for which there is room without eviction."""
        return self._capacity - len(self.pages)

    def _room(self, count: int) -> list[str] | None:
        """Make room for so many; what went, or None if there cannot be."""
        short = count - self._free()
        return [] if short <= 0 else self.pages.victims(short)

    def _left(self, names: Iterable[str]) -> None:
        """Objects that readers of the events were told of are gone."""
        if self._keys is not None:
            self._tell([key for name in names if (key := self._keys.pop(name, None))], removed=True)

    def _tell(self, keys: list[bytes], *, removed: bool) -> None:
        if keys:
            self._events.append(OffloadingEvent(keys=keys, medium=self.medium, removed=removed))

    def _submit(self, job: TransferJob, names: list[str], work: Any) -> None:
        self._jobs.append((self._worker.submit(work), job, names))

    def _outcome(self, future: Future[Sequence[bool]], names: list[str]) -> list[bool]:
        try:
            return [*map(bool, future.result())]
        except Exception as error:
            told = len(names), type(error).__name__, error
            logger.warning("kvframe's tier has lost %d chunks: %s: %s", *told)
            return [False] * len(names)

    def _ended(self, job: TransferJob, names: list[str], good: list[bool]) -> JobResult:
        fine = [name for name, ok in zip(names, good, strict=True) if ok]
        if job.is_promotion:
            held = [name for name in names if name in self.pages and name not in self._writing]
            self.pages.release(held)
        else:
            self._writing.difference_update(names)
            self.pages.release(names)
        lost = set(names) - set(fine)
        if job.is_promotion:
            self._left(lost)
        elif self._keys is not None:
            for name in lost:
                self._keys.pop(name, None)
            self._tell([self._keys[name] for name in fine if name in self._keys], removed=False)
        self.pages.remove([name for name in lost if name in self.pages])
        loaded = [key for key, ok in zip(job.keys, good, strict=False) if ok]
        return JobResult(
            job_id=job.job_id,
            success=not lost,
            successful_keys=loaded if job.is_promotion and lost else None,
            transfer_bytes=len(fine) * self._rows.shape[1],
        )


def _resolved(row: dict[str, Any]) -> Any:
    """The row of ``[[tiers]]``, checked.

    Raises:
        ConfigError, PluginError: A key or a value is wrong.
    """
    rows = [{"name": "host", "capacity": 1}, {"name": "below", **row}]
    return Resolved.load(os.devnull, env={}, tiers=rows).tiers[1]


def _opened(tier: Any) -> PageStore:
    store = tier.store.loaded.descriptor.make(tier.store.options)
    if not isinstance(store, PageStore):
        raise TierError(
            f"{tier.config.store}: make() gave a {type(store).__name__}, not a PageStore"
        )
    return store


def _object(data: bytes) -> bytes:
    return xxhash.xxh3_64_digest(data) + data


def _checked(data: bytes | None, size: int) -> np.ndarray[Any, Any] | None:
    """The chunk in an object; None if it is gone, of another size, or wrong."""
    if data is None or len(data) != size + CHECKSUM:
        return None
    if xxhash.xxh3_64_digest(data[CHECKSUM:]) != data[:CHECKSUM]:
        return None
    return np.frombuffer(data, np.uint8, offset=CHECKSUM)


def _use(req_context: Any) -> Any:
    return use_of((req_context.kv_transfer_params or {}).get("kvframe"))
