"""A policy on trial: what it is called, where it comes from, and managers that run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import msgspec
from msgspec import structs

from kvframe.arguments import shown
from kvframe.config import (
    CacheConfig,
    Config,
    EvictionConfig,
    ObserveConfig,
    Resolved,
    TenantConfig,
)
from kvframe.errors import KVFrameError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.policies import BatchedEviction
from kvframe.registry import Loaded, Registry
from kvframe.registry.descriptors import Descriptor, EvictionPolicy
from kvframe.registry.raised import one_line
from kvframe.testing.report import PromiseError
from kvframe.testing.spy import Watch, spied

TENANTS = [TenantConfig(name="a", floor=0.2), TenantConfig(name="b", quota=0.5)]
"""Those of a trial with tenants."""


def table_of(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a policy on trial, as they were given.

    Raises:
        UsageError: They are no mapping.
    """
    if not isinstance(options, Mapping | None):
        raise UsageError(f"options = {shown(options)}: must be a mapping of names, or None")
    return dict(options or {})


@dataclass(frozen=True)
class Subject:
    """An eviction policy with options; managers of it are strict and keep their log."""

    loaded: Loaded[EvictionPolicy]
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls, policy: str | EvictionPolicy | Loaded[EvictionPolicy], options: Mapping[str, Any]
    ) -> Subject:
        """Make a subject from the name of an installed policy, or from a descriptor.

        Raises:
            PluginError: No such policy, or it is blocked or broken.
            UsageError: It can only be replayed, or is no eviction policy.
        """
        if isinstance(policy, str):
            loaded = Registry().eviction(policy)
        elif isinstance(policy, EvictionPolicy):
            loaded = Loaded(policy, "this process", "", policy.name)
        elif isinstance(policy, Loaded) and isinstance(policy.descriptor, EvictionPolicy):
            loaded = policy
        else:
            kind = policy.kind if isinstance(policy, Descriptor) else type(policy).__name__
            raise UsageError(
                f"policy is a {kind}: must be an EvictionPolicy, or the name of an installed one"
            )
        if loaded.descriptor.replay_only:
            raise UsageError(
                f"{loaded.descriptor.name} needs to know the future: a replay runs it, no engine "
                "does, and so there is nothing to check"
            )
        return cls(loaded, dict(options))

    @property
    def descriptor(self) -> EvictionPolicy:
        return self.loaded.descriptor

    @property
    def batched(self) -> bool:
        """Whether a spy can stand between it and the core."""
        return self.descriptor.way == "batched"

    def make(self) -> object:
        """One object of a batched policy.

        Raises:
            PromiseError: It cannot be made with its options.
        """
        descriptor = self.descriptor
        assert descriptor.make is not None
        schema = descriptor.options
        try:
            options = None if schema is None else msgspec.convert(dict(self.options), schema)
            return descriptor.make(options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PromiseError("options", f"it cannot be made: {one_line(error)}") from error

    def manager(
        self,
        blocks: int,
        block_size: int = 4,
        *,
        window: int | None = None,
        watch: Watch | None = None,
        index: Literal["hash", "radix"] = "hash",
        tenants: bool = False,
    ) -> KVCacheManager:
        """A manager of ``blocks`` blocks; ``watch`` puts a spy before a batched policy.

        ``tenants``: with `TENANTS`.

        Raises:
            PromiseError: The policy cannot be made.
        """
        loaded = self.loaded
        if watch is not None and self.batched:
            loaded = replace(loaded, descriptor=replace(self.descriptor, make=_Spying(self, watch)))
        known = self._resolved
        cache = structs.replace(
            known.config.cache, block_size=block_size, capacity=blocks, index=index
        )
        eviction = structs.replace(known.config.eviction, window=window)
        shares = TENANTS if tenants else []
        config = structs.replace(known.config, cache=cache, eviction=eviction, tenants=shares)
        try:
            return KVCacheManager(
                replace(
                    known,
                    config=config,
                    capacity_blocks=blocks,
                    eviction=replace(known.eviction, loaded=loaded),
                )
            )
        except KVFrameError as error:
            raise PromiseError("options", str(error)) from error

    @cached_property
    def _resolved(self) -> Resolved:
        """The configuration, resolved once: that takes longer than a trial of a small pool."""
        name = self.descriptor.name
        config = Config(
            cache=CacheConfig(event_log=True),
            eviction=EvictionConfig(policy=name, on_error="raise", options=dict(self.options)),
            observe=ObserveConfig(statistics=False),
        )
        try:
            return config.resolve(_Knows(self.loaded))
        except KVFrameError as error:
            raise PromiseError("options", str(error)) from error


class _Knows(Registry):
    """A registry in which a name means the policy on trial, spied upon or not."""

    def __init__(self, loaded: Loaded[EvictionPolicy]) -> None:
        super().__init__()
        self._loaded = loaded

    def eviction(self, name: str) -> Loaded[EvictionPolicy]:
        return self._loaded if name == self._loaded.descriptor.name else super().eviction(name)


class _Spying:
    def __init__(self, subject: Subject, watch: Watch) -> None:
        self._subject, self._watch = subject, watch

    def __call__(self, options: Any) -> object:
        make = self._subject.descriptor.make
        assert make is not None
        policy = make(options)
        return spied(policy, self._watch) if isinstance(policy, BatchedEviction) else policy
