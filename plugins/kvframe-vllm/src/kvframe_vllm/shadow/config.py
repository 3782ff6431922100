"""What ``kv_connector_extra_config`` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvframe.errors import ConfigError
from kvframe.shadow import Batching, ShadowSet
from kvframe.spelling import did_you_mean

WHERE = "kv_connector_extra_config"

LEAST = 250
"""Blocks that a sample of the smallest pool has, at least: fewer say too little."""


@dataclass(frozen=True)
class ShadowConfig:
    """Which shadows there are.

    Attributes:
        policies: As kvframe's command line names them.
        sizes: Of the pools, as multiples of the real one.
        stride: Follow one block in so many, where the pools are large enough.
        policy: A policy that really rules the pool; None leaves it to vLLM.
    """

    policies: tuple[str, ...] = ("lru", "lfu", "slru", "s3-fifo", "w-tinylfu")
    sizes: tuple[float, ...] = (0.5, 1.0, 2.0)
    stride: int = 1
    policy: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ShadowConfig:
        """Read it.

        Raises:
            ConfigError: A key is not known, or a value cannot be.
        """
        known = ("policies", "sizes", "stride", "policy")
        for key in given:
            if key not in known:
                near = did_you_mean(key, known)
                raise ConfigError(f"{WHERE}[{key!r}]: unknown key{near}")
        made = cls(
            policies=tuple(_list(given, "policies", str, cls.policies)),
            sizes=tuple(map(float, _list(given, "sizes", (int, float), cls.sizes))),
            stride=given.get("stride", 1),
            policy=given.get("policy"),
        )
        if type(made.stride) is not int or made.stride < 1:
            raise ConfigError(f"{WHERE}['stride'] = {made.stride!r}: must be an integer from 1 on")
        if min(made.sizes) <= 0:
            raise ConfigError(f"{WHERE}['sizes'] = {made.sizes}: must be greater than 0")
        if made.policy is not None and not isinstance(made.policy, str):
            raise ConfigError(f"{WHERE}['policy'] = {made.policy!r}: must be a policy's name")
        return made

    def capacities(self, blocks: int) -> list[int]:
        """The sizes in blocks, of a pool of so many."""
        return list(dict.fromkeys(max(1, round(size * blocks)) for size in self.sizes))

    def shadows(
        self,
        blocks: int,
        block_size: int,
        *,
        actual: tuple[str, int] | None = None,
        batching: Batching | None = None,
    ) -> ShadowSet:
        """The shadows of a pool of so many blocks of so many tokens.

        Args:
            blocks: Of the pool, without the null block.
            block_size: Tokens of a block.
            actual: The policy and number of blocks that the engine really runs.
            batching: How it makes up its steps, if that is known.

        Raises:
            ConfigError, PluginError, UsageError: A policy cannot be had.
        """
        return ShadowSet(
            self.policies,
            self.capacities(blocks),
            block_size,
            actual=actual,
            stride=self.fitted(blocks),
            reserved=1,
            batching=batching,
        )

    def fitted(self, blocks: int) -> int:
        """The stride in a pool of so many blocks."""
        return max(1, min(self.stride, min(self.capacities(blocks)) // LEAST))


def _list(given: Mapping[str, Any], key: str, kind: Any, default: tuple[Any, ...]) -> Any:
    found = given.get(key, default)
    whole = isinstance(found, list | tuple) and len(found) > 0
    if whole and all(isinstance(each, kind) and not isinstance(each, bool) for each in found):
        return found
    raise ConfigError(f"{WHERE}[{key!r}] = {found!r}: must be a list, at least one entry")
