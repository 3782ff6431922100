"""An engine whose every token's KV says what it was computed from; reads compare it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import (
    CacheConfig,
    Config,
    CopyPlan,
    GroupConfig,
    KVCacheManager,
    ModelConfig,
    PrefixConfig,
    TenantConfig,
    TierConfig,
)
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Inline, Tiers

from ..tiers.helpers import REGISTRY, WAITING, Shelf
from .spaces import SPACES

MODEL = ModelConfig(layers=1, kv_heads=1, head_dim=4, dtype="float16")
Tags = npt.NDArray[np.uint8]


class LeakError(AssertionError):
    """A request was given what was computed from something else."""


def tags(
    space: str, tokens: Sequence[int], version: str = "w1", public: Sequence[int] = ()
) -> Tags:
    """KV of each token, uint8 (tokens, 8): all that a model's KV of it would depend on, and beyond
    what is public whose it is.
    """
    found = np.empty((len(tokens), 8), np.uint8)
    for at, name in enumerate(_names(space, tokens, version, public)):
        found[at] = np.frombuffer(blake2b(name, digest_size=8).digest(), np.uint8)
    return found


def common(one: str, other: str, tokens: Sequence[int], public: Sequence[int] = ()) -> int:
    """Leading tokens whose KV two namespaces have in common (an image may begin behind them)."""
    names = (_names(space, tokens, "w1", public) for space in (one, other))
    same = (a == b for a, b in zip(*names, strict=True))
    return next((at for at, equal in enumerate(same) if not equal), len(tokens))


def _names(space: str, tokens: Sequence[int], version: str, public: Sequence[int]) -> list[bytes]:
    given = SPACES[space]
    whose = [given.get(key) for key in ("tenant", "cache_salt")]
    apart = [given.get(key) for key in ("lora_name", "encoder")]
    pairs = enumerate(zip(tokens, public, strict=False))
    shared = next((at for at, (a, b) in pairs if a != b), min(len(tokens), len(public)))
    items = given.get("mm_items", [])
    return [
        repr(
            (
                version,
                [] if at < shared else whose,
                apart,
                [
                    (item.start, min(item.end, at + 1), item.id)
                    for item in items
                    if item.start <= at
                ],
                list(tokens[: at + 1]),
            )
        ).encode()
        for at in range(len(tokens))
    ]


class World:
    """A manager, a pool of tagged bytes, and tiers if there are any. All deterministic.

    Attributes:
        version: Of the weights that compute now.
        read: Tokens whose bytes were compared.
    """

    def __init__(
        self,
        *,
        blocks: int = 32,
        block: int = 4,
        tiers: Sequence[TierConfig] = (),
        stores: Sequence[Shelf] = (),
        groups: Sequence[GroupConfig] = (),
        tenants: Sequence[TenantConfig] = (),
        version: str = "w1",
        options: dict[str, Any] | None = None,
        public: Path | None = None,
        **cache: Any,
    ) -> None:
        self.block, self.version, self.read, self.now = block, version, 0, 0
        more: dict[str, Any] = {"model": MODEL, "tiers": list(tiers)} if tiers else {}
        self.public: list[int] = []
        if public is not None:
            more["prefix"] = PrefixConfig(public=str(public))
            self.public = json.loads(public.read_text())
        if groups:
            more["groups"] = list(groups)
        config = Config(
            cache=CacheConfig(
                **{"capacity": blocks, "block_size": block, "weight_version": version, **cache}
            ),
            tenants=list(tenants),
            **more,
        )
        self.kv = KVCacheManager(config.resolve(REGISTRY))
        self.groups = max(len(groups), 1)
        shape = PageShape(layers=1, parts=2, block_size=block, heads=1, row_bytes=8)
        self.pool = NumpyPool(Layout.of(LAYER_FIRST, shape, blocks))
        self.pool.poison(range(blocks))
        self.running: dict[int, tuple[str, list[int], str]] = {}
        WAITING[:] = stores
        self.tiers: Tiers | None = None
        if tiers:
            ways = {"worker": lambda _: Inline(), "clock": lambda: self.now, **(options or {})}
            self.tiers = Tiers(self.kv, self.pool, **ways)

    # --- one request --------------------------------------------------------------------------

    def start(self, space: str, tokens: Sequence[int], **more: Any) -> Any:
        """Admit a request of a namespace."""
        front = self.kv if self.tiers is None else self.tiers
        grant = front.allocate(list(tokens), **SPACES[space], **more)
        self.know(grant.seq, space, tokens)
        return grant

    def know(self, seq: int, space: str, tokens: Sequence[int]) -> None:
        """A sequence, and what it is of."""
        self.running[seq] = space, list(tokens), self.version

    def compute(self, seq: int, upto: int | None = None) -> None:
        """Read what is there, compute the rest and commit it."""
        _, tokens, _ = self.running[seq]
        upto = len(tokens) if upto is None else upto
        self.kv.extend(seq, upto)
        self.copy()
        there = self.check(seq)
        self.write(seq, there, upto)
        self.kv.commit(seq, upto)

    def write(self, seq: int, start: int, upto: int) -> None:
        """The KV of some tokens, into every group's blocks."""
        space, tokens, version = self.running[seq]
        wanted = tags(space, tokens[:upto], version, self.public)
        for group in range(self.groups):
            table = self.kv.block_table(seq, group)
            for at in range(start, upto):
                if at // self.block < len(table) and table[at // self.block] >= 0:
                    slot = np.array([int(table[at // self.block]) * self.block + at % self.block])
                    row = wanted[at].reshape(1, 1, 8)
                    self.pool.write(0, [row, ~row], slot)

    def check(self, seq: int) -> int:
        """All that counts as computed was computed from this; how many tokens.

        Raises:
            LeakError: A token's KV is of something else.
        """
        space, tokens, version = self.running[seq]
        there = self.kv.inspect.num_readable_tokens(seq)
        wanted = tags(space, tokens[:there], version, self.public)
        for group in range(self.groups):
            table = self.kv.block_table(seq, group)
            kept = np.repeat(table >= 0, self.block)[:there]
            keys, values = self.pool.read(0, np.maximum(table, 0), there)
            for found, right in ((keys, wanted), (values, ~wanted)):
                wrong = (found.reshape(there, 8) != right).any(axis=1) & kept[:there]
                if wrong.any():
                    at = int(np.argmax(wrong))
                    raise LeakError(f"{space}: token {at} of {tokens} in group {group}")
        self.read += there
        return int(there)

    def copy(self, plan: CopyPlan | None = None) -> None:
        """Carry out the copies of a plan, or of all that wait."""
        plan = self.kv.take_plan() if plan is None else plan
        for source, target, _, _ in plan.copies.tolist():
            self.pool.put([target], self.pool.get([source]))
        if plan:
            self.kv.done(plan.ticket)

    def end(self, seq: int) -> None:
        """A sequence ends."""
        self.kv.release(seq)
        del self.running[seq]

    def serve(self, space: str, tokens: Sequence[int], **more: Any) -> Any:
        """A request from admission to end; what admission gave."""
        grant = self.start(space, tokens, **more)
        self.settle()
        self.compute(grant.seq)
        if self.tiers is not None:
            self.tiers.offload(grant.seq)
            self.settle()
        self.end(grant.seq)
        return grant

    # --- the memories -------------------------------------------------------------------------

    def settle(self) -> None:
        """Everything on its way has ended."""
        if self.tiers is not None:
            self.tiers.drain()

    def forget_pool(self) -> None:
        """The pool forgets what is cached; tiers keep it."""
        self.kv.reset_prefix_cache()

    def close(self) -> None:
        """The engine stops; what a store has stays there."""
        if self.tiers is not None:
            self.tiers.close()
