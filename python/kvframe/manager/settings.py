"""``kv.settings``: the configuration of a manager that serves, changed and changed back."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvframe._core import Manager as Core
from kvframe.config import Config, Resolved
from kvframe.config.faults import Faults
from kvframe.config.origins import Origins
from kvframe.config.tree import leaves
from kvframe.errors import UsageError
from kvframe.manager.build import check_public_floor, evicting_of, gate_of, table_of
from kvframe.prompts import Prompts
from kvframe.registry import Registry
from kvframe.stats.inspect import Inspect

_log = logging.getLogger("kvframe.manager")

LIVE = (
    "eviction",
    "admission",
    "pressure",
    "retention.pin_cap",
    "plugins",
)
"""Keys, and sections, that a manager takes while it serves."""

FIXED = {
    "cache.capacity": "`KVCacheManager.resize` changes it",
    "cache": "blocks in the pool were laid out and stored under it",
    "groups": "the present block tables were laid out by them",
    "model": "the present pages have their size from it",
    "prefix": "blocks in the pool were stored under its keys",
    "tiers": "the present tiers were made from it",
    "retention.sessions": "the sessions of blocks in the pool were followed by it",
    "observe": "the present counts began with it",
    "security": "blocks in the pool were hashed under it",
    "tenants": "blocks in the pool are counted by them; floors and quotas of the same can change",
}
"""Keys, and sections, that a manager keeps to its end, and why."""

SHARES = ("floor", "quota")
"""Keys of a tenant that a manager takes while it serves."""


class ConfigChange(NamedTuple):
    """One value that has changed.

    Attributes:
        key: Its path in the configuration, such as ``eviction.policy``.
        before: What it was; None if it had no value.
        after: What it is now; None if it has no value.
    """

    key: str
    before: object
    after: object


class ConfigReceipt(NamedTuple):
    """What a change of the configuration came to.

    Attributes:
        version: The number of the configuration that is in force: 1 for that of the start, one more
            with each change and each return.
        changes: The values that differ from those before; empty if none does, and the version then
            stays.
    """

    version: int
    changes: tuple[ConfigChange, ...]


class Settings:
    """``kv.settings``: another configuration in a manager that serves, and the one before back.

    No block is lost by a change of policy, and no running sequence is touched. A new eviction
    policy finds the cached blocks in the order in which the old one would have evicted them, each
    tenant's those of that tenant; what the old one counted or remembered besides is gone with it.
    """

    def __init__(
        self,
        core: Core,
        resolved: Resolved,
        prompts: Prompts,
        drivers: dict[str, Any],
        inspect: Inspect,
    ) -> None:
        self._core, self._prompts, self._drivers = core, prompts, drivers
        self._inspect = inspect
        self._resolved = resolved
        self._past: list[Resolved] = []
        self._version = 1
        self._lock = threading.RLock()
        self._is_changing = False

    @property
    def version(self) -> int:
        """The number of the configuration in force: 1 at the start, one more with each change."""
        return self._version

    def reload(
        self,
        config: Config | Resolved | str | os.PathLike[str] | None = None,
        *,
        registry: Registry | None = None,
        **sections: Any,
    ) -> ConfigReceipt:
        """Put another configuration in force: all of it, or nothing.

        A policy whose section differs is made anew; one whose section does not stays as it is, with
        all that it has learnt. The tenants of ``[[tenants]]`` may have other floors and quotas:
        under a lower quota a tenant's cached blocks above it are evicted, and what its sequences
        own above it as soon as it is cached. Until then the tenant gets no more blocks.

        Args:
            config: A configuration, or the file that describes one; None takes the file in the
                current directory. The environment overrides a file, as in
                `KVCacheManager.from_toml`.
            registry: With a file: where policies are found.
            **sections: With a file: values to change, by section, as ``pressure={"reserve": 8}``,
                or a policy's name, as ``eviction="lru"``.

        Returns:
            What has changed, and the version that it has.

        Raises:
            ConfigError: A value is wrong, or cannot change while the manager serves: the message
                names the key and says why; `ConfigError.others` has further ones. Also a floor that
                cannot be met beside what others own, or were promised, and a quota below what the
                tenant's own sequences were promised.
            PluginError: A policy is not found, blocked or broken.
            PolicyError: A policy cannot be made, or refuses the pool.
            UsageError: ``registry`` or sections are given beside a configuration, or a policy that
                this reload makes asks for another.
        """
        with self._lock:
            now = self._resolved
            receipt = self._put(_resolved(config, registry, sections))
            if receipt.changes:
                self._past.append(now)
            return receipt

    def rollback(self) -> ConfigReceipt:
        """Put the configuration in force that was so before the last change; again, the one before.

        Raises:
            UsageError: The configuration is the one of the start.
            ConfigError: As `reload`; the configuration stays.
        """
        with self._lock:
            if not self._past:
                raise UsageError(f"version {self._version}: nothing was changed that could go back")
            receipt = self._put(self._past[-1])
            self._past.pop()
            return receipt

    def _put(self, then: Resolved) -> ConfigReceipt:
        if self._is_changing:
            raise UsageError("a change is under way: a policy that it makes cannot ask for another")
        self._is_changing = True
        try:
            return self._put_alone(then)
        finally:
            self._is_changing = False

    def _put_alone(self, then: Resolved) -> ConfigReceipt:
        now = self._resolved
        changes = tuple(_changes(now, then))
        _check(changes, Origins(then.provenance))
        if not changes:
            return ConfigReceipt(self._version, ())
        sections = {change.key.partition(".")[0] for change in changes}
        evicts, admits = "eviction" in sections, "admission" in sections
        if self._prompts.public is not None:
            check_public_floor(then, self._prompts.public)
        evicting = evicting_of(then) if evicts else None
        gate = gate_of(then) if admits else None
        table = table_of(then, evicting, gate)
        self._core.change(table, eviction=evicts, admission=admits)
        if evicts:
            self._drivers["eviction"] = evicting
        if admits:
            self._drivers["admission"] = gate
            self._prompts.replace_gate(gate)
        self._resolved = self._inspect.resolved = then
        self._version += 1
        _tell(self._version, changes)
        return ConfigReceipt(self._version, changes)

    def __repr__(self) -> str:
        return f"Settings(version {self._version}, {len(self._past)} to go back to)"


def _resolved(
    config: Config | Resolved | str | os.PathLike[str] | None,
    registry: Registry | None,
    sections: dict[str, Any],
) -> Resolved:
    if isinstance(config, Config | Resolved):
        beside = [*sections, *(["registry"] if registry is not None else [])]
        if beside:
            raise UsageError(f"{', '.join(beside)}: not beside a configuration, which has them")
        return config if isinstance(config, Resolved) else config.resolve()
    return Resolved.load(config, registry=registry, **sections)


def _changes(now: Resolved, then: Resolved) -> Iterator[ConfigChange]:
    """The values that differ, each by its key."""
    # A table without values is none.
    was, is_now = (
        {key: value for key, value in leaves(one.config.plain()) if value != {}}
        for one in (now, then)
    )
    for key in dict.fromkeys([*was, *is_now]):
        if was.get(key) != is_now.get(key):
            yield ConfigChange(key, was.get(key), is_now.get(key))


def _check(changes: tuple[ConfigChange, ...], origins: Origins) -> None:
    """Check that all of them can be made while a manager serves.

    Raises:
        ConfigError: One cannot; the first, with the others.
    """
    faults = Faults()
    for change in changes:
        why = _why_fixed(change.key)
        if why is None:
            continue
        reason = f"cannot change in a manager that serves: {why}"
        if change.after is None:
            faults.add(origins.missing(change.key, reason))
        else:
            faults.add(origins.error(change.key, change.after, reason))
    faults.tell()


def _why_fixed(key: str) -> str | None:
    section = key.partition(".")[0].partition("[")[0]
    if section in LIVE or key in LIVE:
        return None
    if section == "tenants" and key.rpartition(".")[2] in SHARES:
        return None
    return FIXED.get(key) or FIXED[section]


def _tell(version: int, changes: tuple[ConfigChange, ...]) -> None:
    words = ", ".join(f"{one.key} {one.before!r} -> {one.after!r}" for one in changes)
    fields = {"version": version, "changes": [one._asdict() for one in changes]}
    _log.info("configuration %d: %s", version, words, extra={"kvframe": fields})
