"""A kvframe.toml as a benchmark runs it: what serving code would be made from, on a trace."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kvframe.bench.admissions import Admission
from kvframe.bench.capacity import Capacity
from kvframe.bench.matchers import Matcher
from kvframe.bench.policies import Choice
from kvframe.config import Resolved
from kvframe.config.rules import core_table
from kvframe.registry import Registry


@dataclass(frozen=True, eq=False)
class Configured:
    """A configuration, checked. Flags of the command line come before it."""

    resolved: Resolved

    @property
    def eviction(self) -> Choice:
        """Its eviction policy."""
        return Choice.of(self.resolved.eviction, self.resolved.config.eviction.window)

    @property
    def admission(self) -> Admission:
        """Its admission policy."""
        return Admission.of(self.resolved.admission)

    @property
    def matcher(self) -> Matcher | None:
        """Its prefix matcher; None where the core's index finds prefixes."""
        named = self.resolved.config.prefix.policy is not None
        found = Matcher.of(self.resolved.prefix)
        return found if named and found.loaded.descriptor.name not in ("hash", "radix") else None

    @property
    def capacity(self) -> Capacity:
        """Its capacity, for traces of any block size: as many tokens."""
        blocks, size = self.resolved.capacity_blocks, self.resolved.config.cache.block_size
        return Capacity(str(self.resolved.config.cache.capacity), None, tokens=blocks * size)

    def blocks(self, block_size: int) -> int:
        """The same in blocks of a size, rounded down."""
        return self.capacity.blocks(block_size)

    def core(self, block_size: int) -> dict[str, Any]:
        """The options of the core's manager, but for what the trace decides."""
        table = core_table(self.resolved.config, self.blocks(block_size))
        size = self.resolved.config.cache.block_size
        for tenant in table["tenants"]:
            for key in ("floor", "quota"):
                if isinstance(tenant[key], int):  # blocks of the file's size, as the capacity is
                    tenant[key] = tenant[key] * size // block_size
        return {**table, "cache.block_size": block_size, "cache.index": "hash"}

    @property
    def tenants(self) -> int:
        """Tenants that are told apart."""
        return len(self.resolved.config.tenants)

    def identity(self, block_size: int) -> dict[str, Any]:
        """What of it decides a replay's numbers, beside the policies and the capacity."""
        table = self.core(block_size)
        return {key: table[key] for key in sorted(table) if key != "cache.capacity"}

    def unclaimed(self, requests: str, block_size: int, claimed: Collection[str]) -> list[str]:
        """The floors that no request claims: room without an owner.

        Args:
            requests: Whose they are, for the sentence.
            block_size: Of the trace.
            claimed: The tenants that they name.
        """
        said = []
        for tenant in self.core(block_size)["tenants"]:
            floor = tenant["floor"]
            # A share is of the blocks of each run, whatever the file's own capacity.
            room = f"{floor:g} of all" if isinstance(floor, float) else f"{floor:,}"
            if floor and tenant["name"] not in claimed:
                said.append(
                    f"no request of {requests} is of tenant {tenant['name']}: {room} blocks, "
                    "its floor, stay unused."
                )
        return said

    def no_tenants(self, requests: str, classes: Collection[str]) -> list[str]:
        """That a replay makes no class a tenant, where classes have the names of tenants.

        Args:
            requests: Whose they are, for the sentence.
            classes: Those of the trace.
        """
        names = [one.name for one in self.resolved.config.tenants if one.name in classes]
        if not names:
            return []
        return [
            f"{requests}: a replay makes no class a tenant, with tiers neither; `kvframe bench "
            f"serve --config` does ({', '.join(names)})."
        ]

    def remarks(self, block_sizes: Sequence[int]) -> list[str]:
        """What of it a trace cannot have."""
        cache = self.resolved.config.cache
        said = [
            f"{self.resolved.file}: {self.resolved.capacity_blocks:,} blocks of "
            f"{cache.block_size} tokens are {self.blocks(size):,} of the {size} that the trace has."
            for size in dict.fromkeys(block_sizes)
            if size != cache.block_size
        ]
        if cache.index == "radix":
            said.append(
                "cache.index = radix: a trace has keys and no tokens; the hash index stands in, "
                "which finds the same full blocks."
            )
        return said


def configured(path: str | os.PathLike[str] | None, registry: Registry) -> Configured | None:
    """The configuration of a file, with the environment's changes; None without a file.

    Raises:
        ConfigError: It cannot be read, or a value is wrong.
        PluginError: A policy is not found, blocked or broken.
    """
    return None if path is None else Configured(Resolved.load(path, registry=registry))
