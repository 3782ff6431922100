"""An engine of a few lines: a token's KV follows from all tokens before it, to be checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

import kvframe
from kvframe import (
    CacheConfig,
    Config,
    EvictionConfig,
    KVCacheManager,
    ModelConfig,
    Registry,
    TenantConfig,
    TierConfig,
    TierStore,
)
from kvframe.config import TierAdmissionConfig
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.registry.discovery import Candidate
from kvframe.tiers import Inline, PageStore, Part, Tiers
from kvframe.tiers.tier_index import as_keys

BLOCK = 4
SHAPE = PageShape(layers=2, parts=2, block_size=BLOCK, heads=2, row_bytes=8)
MODEL = ModelConfig(layers=2, kv_heads=2, head_dim=4, dtype="float16")
Bytes = npt.NDArray[np.uint8]


def key_file(file: Path, secret: bytes) -> str:
    """A file with a secret, for its owner alone; its name."""
    file.touch(mode=0o600)
    file.write_bytes(secret)
    return str(file)


class Shelf(PageStore):
    """A store in memory, with what can go wrong in one.

    Attributes:
        objects: By name.
        fails: Calls that raise before they answer.
        room: Objects that fit.
        calls: Names of the calls made.
        threads: Who made them.
    """

    def __init__(self, options: object = None, objects: dict[str, bytes] | None = None) -> None:
        self.objects: dict[str, bytes] = {} if objects is None else objects
        self.fails = 0
        self.room = 1 << 30
        self.calls: list[str] = []
        self.threads: set[str] = set()

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.threads.add(threading.current_thread().name)
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the store is away")

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self._call("put")
        kept = []
        for name, data in objects:
            kept.append(len(self.objects) < self.room)
            if kept[-1]:
                self.objects[name] = data
        return kept

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        self._call("get")
        return [self.objects.get(name) for name in names]

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self.objects.pop(name, None)

    def recover(self, head: int) -> list[tuple[str, bytes]]:
        return [(name, data[:head]) for name, data in self.objects.items()]

    def flip(self, name: str, at: int) -> None:
        """Change one bit."""
        data = bytearray(self.objects[name])
        data[at % len(data)] ^= 1
        self.objects[name] = bytes(data)


WAITING: list[Shelf] = []
"""Stores that the next tiers of the tests get, in their order."""


class Plugin:
    """Gives the stores that wait, as one that nobody else writes to and as one that others do."""

    @kvframe.hookimpl
    def kvframe_store(self) -> list[TierStore]:
        return [
            TierStore(
                name=name,
                way="batched",
                summary="a test's",
                make=lambda _: WAITING.pop(0),
                shared=name == "shared",
            )
            for name in ("shelf", "shared")
        ]


class Known(Registry):
    """A registry that looks for installed packages once: there are many engines."""

    def __init__(self) -> None:
        super().__init__()
        self.installed = super()._candidates()

    def _candidates(self) -> Sequence[Candidate]:
        return [*self._local, *self.installed[len(self._local) :]]


REGISTRY = Known()
REGISTRY.register(Plugin(), "shelf")


class Engine:
    """A manager, its pool and its tiers; all deterministic."""

    def __init__(
        self,
        tiers: Sequence[TierConfig],
        *,
        blocks: int = 16,
        stores: Sequence[Shelf] = (),
        parts: int = 1,
        options: dict[str, Any] | None = None,
        tenants: Sequence[TenantConfig] = (),
        dice: Random | None = None,
        worker: Callable[[str], Any] | None = None,
        registry: Registry | None = None,
        **more: Any,
    ) -> None:
        config = Config(
            cache=CacheConfig(capacity=blocks, block_size=BLOCK, **(options or {})),
            model=MODEL,
            tiers=list(tiers),
            tenants=list(tenants),
        )
        self.kv = KVCacheManager(config.resolve(registry or REGISTRY))
        WAITING[:] = stores
        # The parts hold the same shape: the second one's bytes are the complement of the first's.
        self.pools = [NumpyPool(Layout.of(LAYER_FIRST, SHAPE, blocks)) for _ in range(parts)]
        for pool in self.pools:
            pool.poison(range(blocks))
        self.now = 0
        self.tiers = Tiers(
            self.kv,
            [Part(pool) for pool in self.pools],
            worker=worker or (lambda _: Inline(dice)),
            **{"model": "tiny", "clock": lambda: self.now, **more},
        )
        self.texts: dict[int, list[int]] = {}

    def start(self, text: Sequence[int], **options: Any) -> Any:
        """Admit, and remember the text."""
        grant = self.tiers.allocate(list(text), **options)
        self.texts[grant.seq] = list(text)
        return grant

    def compute(self, seq: int) -> int:
        """Compute what is not there yet, check what is, commit; tokens computed."""
        text = self.texts[seq]
        self.kv.extend(seq, len(text))
        there = self.kv.lengths(seq).committed
        self.check(seq, there)
        table = self.kv.block_table(seq)
        for at in range(there, len(text)):
            self._write(int(table[at // BLOCK]), at % BLOCK, kv_of(text[: at + 1]))
        self.kv.commit(seq, len(text))
        return len(text) - there

    def _write(self, block: int, offset: int, values: Bytes) -> None:
        slot = np.array([block * BLOCK + offset])
        for part, pool in enumerate(self.pools):
            mine = values ^ np.uint8(255 * part)
            for layer in range(SHAPE.layers):
                pool.write(layer, list(mine[layer][:, None]), slot)

    def check(self, seq: int, tokens: int) -> None:
        """The first tokens of a sequence are in the pool as they were computed."""
        text, table = self.texts[seq], self.kv.block_table(seq)
        for part, pool in enumerate(self.pools):
            for layer in range(SHAPE.layers):
                found = pool.read(layer, table, tokens)
                for at in range(tokens):
                    wanted = kv_of(text[: at + 1])[layer] ^ np.uint8(255 * part)
                    got = np.stack([one[at] for one in found])
                    assert np.array_equal(got, wanted), (text, at, layer)

    def run(self, text: Sequence[int], **options: Any) -> Any:
        """A request from admission to end, backed up on the way; what admission gave."""
        grant = self.start(text, **options)
        self.settle()
        self.compute(grant.seq)
        self.tiers.offload(grant.seq)
        self.settle()
        self.kv.release(grant.seq)
        self.tiers.check_integrity()
        return grant

    def settle(self) -> None:
        """Everything on its way has ended."""
        self.tiers.drain()

    def forget(self) -> None:
        """The pool forgets what is cached; its bytes are overwritten."""
        self.kv.reset_prefix_cache()
        for pool in self.pools:
            pool.poison(range(pool.layout.blocks))

    def only_below(self) -> None:
        """Pool and host memory forget: what is found lies in a store."""
        self.forget()
        index = self.tiers.host.index
        for key, _ in index.stored():
            index.forget(as_keys([key]))


def kv_of(text: Sequence[int]) -> Bytes:
    """The KV of the last token of a text: [layers][parts][heads][row bytes], finite in fp16."""
    name = b",".join(str(token).encode() for token in text)
    size = SHAPE.layers * SHAPE.parts * SHAPE.heads * SHAPE.row_bytes // 2
    drawn = np.frombuffer(blake2b(name, digest_size=size).digest(), np.uint8)
    # The high byte of each value keeps its exponent below the largest, complemented or not.
    both = np.stack([drawn, drawn & 0x3F | 0x20], axis=-1)
    return both.reshape(SHAPE.layers, SHAPE.parts, SHAPE.heads, SHAPE.row_bytes)


def tables(keys: dict[str, Any]) -> dict[str, Any]:
    """The keys of a tier, where a policy may be its name alone."""
    kinds = {"eviction": EvictionConfig, "admission": TierAdmissionConfig}
    for key, table in kinds.items():
        if isinstance(keys.get(key), str):
            keys = {**keys, key: table(policy=keys[key])}
    return keys


def host(pages: int = 16, **more: Any) -> TierConfig:
    return TierConfig(name="host", capacity=pages, **{"high": 1, "low": 1, **tables(more)})


def below(pages: int = 64, store: str = "shelf", name: str = "below", **more: Any) -> TierConfig:
    return TierConfig(
        name=name, store=store, capacity=pages, **{"high": 1, "low": 1, **tables(more)}
    )


def text(seed: int, tokens: int) -> list[int]:
    return [seed * 1000 + at for at in range(tokens)]
