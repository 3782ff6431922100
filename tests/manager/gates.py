"""Admission policies of the test's own, and managers under them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvframe import (
    AdmissionConfig,
    AdmissionPolicy,
    CacheConfig,
    Config,
    GroupConfig,
    KVCacheManager,
    Registry,
    hookimpl,
)
from kvframe.policies import BatchedAdmission

from .helpers import INDEX, VERSION, installed


class GateHolder:
    """A plugin of the running test: one batched admission policy."""

    def __init__(self, name: str, make: Callable[[Any], object], options: Any = None) -> None:
        self.policy = AdmissionPolicy(
            name=name, way="batched", summary="a policy of a test", make=make, options=options
        )

    @hookimpl
    def kvframe_admission(self) -> list[AdmissionPolicy]:
        return [self.policy]


def gates(name: str, make: Callable[[Any], object], options: Any = None) -> Registry:
    """A registry that knows one admission policy more, of ``kvframe-test 3.2.1``."""
    found = Registry()
    found.register(GateHolder(name, make, options), name, "kvframe-test", VERSION)
    return found


def gated(
    policy: str,
    blocks: int = 16,
    *,
    known: Registry | None = None,
    on_error: Any = "raise",
    budget_ms: float | None = None,
    options: dict[str, Any] | None = None,
    groups: tuple[GroupConfig, ...] = (),
    **cache: Any,
) -> KVCacheManager:
    """A manager of small blocks under an admission policy."""
    if not groups:
        cache.setdefault("index", INDEX[0])
    admission = AdmissionConfig(
        policy=policy, on_error=on_error, budget_ms=budget_ms, options=options or {}
    )
    config = Config(
        cache=CacheConfig(capacity=blocks, block_size=4, **cache),
        admission=admission,
        groups=list(groups) or [GroupConfig(name="full")],
    )
    return KVCacheManager(config.resolve(known or installed()))


class UsedTwice(BatchedAdmission):
    """second-use, in Python."""

    def __init__(self, uses: int = 2) -> None:
        self.uses = uses
        self.counts: dict[bytes, int] = {}

    def seen(self, keys: Any, now: int) -> None:
        for key in keys:
            self.counts[key.tobytes()] = self.counts.get(key.tobytes(), 0) + 1

    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        out[:] = [self.counts.get(key.tobytes(), 0) >= self.uses for key in blocks["key"]]


def found(kv: KVCacheManager, tokens: list[int]) -> int:
    """Whole blocks of a prompt that could be found, its last token apart."""
    return kv.lookup([*tokens, 999_999]).tokens // kv.block_size


def serve(kv: KVCacheManager, tokens: list[int], **options: Any) -> int:
    """One request, start to end; tokens found."""
    grant = kv.allocate(tokens, **options)
    kv.commit(grant.seq, grant.prompt_tokens)
    kv.release(grant.seq)
    kv.check_integrity()
    return grant.cached_tokens
