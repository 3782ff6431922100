"""The whole configuration, and what becomes of it when it is resolved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from kvframe.arguments import shown
from kvframe.config import environment, rules, sources
from kvframe.config.capacity import capacity_blocks, check_model, page_bytes
from kvframe.config.faults import Faults
from kvframe.config.limits import check_tree
from kvframe.config.origins import KEYWORD, Origins, join
from kvframe.config.policies import Chosen, Finder, forget_options, spread
from kvframe.config.schema import (
    AdmissionConfig,
    CacheConfig,
    EvictionConfig,
    GroupConfig,
    ModelConfig,
    ObserveConfig,
    PluginsConfig,
    PrefixConfig,
    PressureConfig,
    RetentionConfig,
    SecurityConfig,
    TenantConfig,
    TierConfig,
)
from kvframe.config.security import check_security
from kvframe.config.tiers import ResolvedTier, check_tiers, resolve_tiers
from kvframe.config.values import build, build_values, plain
from kvframe.errors import ConfigError, PluginError
from kvframe.registry.descriptors import AdmissionPolicy, EvictionPolicy, PrefixMatcher
from kvframe.registry.lock import Lock
from kvframe.registry.lookup import Registry

LISTS = ("groups", "tenants", "tiers")
"""Sections that are arrays of tables."""


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The configuration of a cache, as ``kvframe.toml`` holds it.

    A config that is built directly is checked by `resolve`; construction checks nothing.

    Attributes:
        cache: The block pool and the prefix index.
        model: The shape of its KV, for capacities in bytes; None if there is none.
        groups: The layer groups.
        eviction: The eviction policy.
        admission: The admission policy.
        prefix: The prefix matcher.
        pressure: When room counts as scarce.
        retention: What may be kept from eviction.
        observe: What is recorded.
        tenants: How much of pool and tiers each tenant is sure of, and may have.
        tiers: The tiers below the pool, nearest first.
        plugins: Which installed packages may load.
        security: What must not be used.
    """

    cache: CacheConfig = field(default_factory=CacheConfig)
    model: ModelConfig | None = None
    groups: list[GroupConfig] = field(default_factory=lambda: [GroupConfig(name="full")])
    eviction: EvictionConfig = field(default_factory=EvictionConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    prefix: PrefixConfig = field(default_factory=PrefixConfig)
    pressure: PressureConfig = field(default_factory=PressureConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    observe: ObserveConfig = field(default_factory=ObserveConfig)
    tenants: list[TenantConfig] = field(default_factory=list)
    tiers: list[TierConfig] = field(default_factory=list)
    plugins: PluginsConfig = field(default_factory=PluginsConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        **sections: Any,
    ) -> Config:
        """The configuration of a file, the environment and keywords: `Resolved.load`'s ``config``.

        Arguments and errors are those of `Resolved.load`, which also takes a ``registry``.
        """
        return Resolved.load(path, env=env, **sections).config

    @classmethod
    def of(
        cls,
        *,
        block_size: int | None = None,
        capacity: int | str | Mapping[str, int] | None = None,
        eviction: str | Mapping[str, Any] | EvictionConfig | None = None,
        admission: str | Mapping[str, Any] | AdmissionConfig | None = None,
        prefix: str | Mapping[str, Any] | PrefixConfig | None = None,
        **sections: Any,
    ) -> Config:
        """The configuration that keywords say; no file and no variable is read.

        Args:
            block_size: ``cache.block_size``.
            capacity: ``cache.capacity``.
            eviction: The eviction policy as it is named everywhere: ``"lru"``,
                ``"w-tinylfu:window_percent=2"``, ``"deep.py:DeepFirst"``; or its section.
            admission: The admission policy, likewise.
            prefix: The prefix matcher, likewise.
            **sections: A mapping, or a section's class, for each further section, as
                ``observe={"statistics": False}``.

        Raises:
            ConfigError: A section or a key is unknown, or a value is of the wrong type.
        """
        named = {"eviction": eviction, "admission": admission, "prefix": prefix}
        sections |= {name: given for name, given in named.items() if given is not None}
        sections = _with_tables(sections)
        data = {name: _unstructured(given) for name, given in sections.items()}
        for key, value in (("block_size", block_size), ("capacity", capacity)):
            if value is None:
                continue
            cache = data.setdefault("cache", {})
            if isinstance(cache, dict):  # `build` refuses all else
                if key in cache:
                    raise ConfigError(f"cache.{key} = {shown(value)}: is given twice")
                cache[key] = _unstructured(value)
        return build(cls, data, "", Origins(), root=cls)

    def resolve(self, registry: Registry | None = None) -> Resolved:
        """Check every value, load the policies, count the blocks.

        Values that differ from their defaults have the origin ``keyword``.

        Args:
            registry: Where policies are found; one with the lists of ``[plugins]`` if None.

        Raises:
            ConfigError: A value is of the wrong type or impossible.
            PluginError: A policy is not found, blocked or broken.
        """
        data, defaults = self.plain(), dict(leaves(Config().plain()))
        given = [path for path, value in leaves(data) if defaults.get(path, leaves) != value]
        origins = Origins(dict.fromkeys(given, KEYWORD))
        spread(data, data, origins)
        return _resolve(data, origins, None, registry)

    def plain(self) -> dict[str, Any]:
        """The tables as TOML would hold them: keys without a value are left out."""
        tables: dict[str, Any] = _without_none(msgspec.to_builtins(self, enc_hook=_plain))
        return tables


@dataclass(frozen=True)
class Resolved:
    """A configuration that has been checked, and everything that follows from it.

    Attributes:
        config: Every value, with defaults filled in, those of the policies' options too.
        provenance: For each key path (``cache.block_size``, ``groups[0].name``), where its value
            came from: ``default``, ``FILE:LINE``, ``env VARIABLE`` or ``keyword``.
        capacity_blocks: Blocks of the pool, including the null block.
        block_bytes: Bytes of a page, which has room for a block of any group; None if neither
            ``[model]`` nor every group says.
        page_bytes: Bytes of a page that each group uses; the rest is padding. Empty likewise.
        eviction: The eviction policy, imported, with its checked options.
        admission: The admission policy likewise.
        prefix: The prefix matcher likewise; the core's index if none is named.
        tiers: The tiers below the pool, nearest first, without those that are off.
        unchecked: Tables of options (``eviction.options``) of what was not imported.
        file: The file that was read, if any.
    """

    config: Config
    provenance: dict[str, str]
    capacity_blocks: int
    block_bytes: int | None
    page_bytes: tuple[int, ...]
    eviction: Chosen[EvictionPolicy]
    admission: Chosen[AdmissionPolicy]
    prefix: Chosen[PrefixMatcher]
    tiers: tuple[ResolvedTier, ...] = ()
    unchecked: tuple[str, ...] = ()
    file: Path | None = None

    @property
    def padding(self) -> dict[str, int]:
        """Bytes of each page that a block of each group leaves unused, by the group's name."""
        names = [group.name for group in self.config.groups]
        used = zip(names, self.page_bytes, strict=False)
        return {name: (self.block_bytes or 0) - bytes_used for name, bytes_used in used}

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        registry: Registry | None = None,
        imports: bool = True,
        **sections: Any,
    ) -> Resolved:
        """Resolve defaults, a file, the environment and keywords, each overriding those before it.

        Args:
            path: A kvframe.toml, or a pyproject.toml with ``[tool.kvframe]``. None takes the one
                in the current directory, if there is one.
            env: The environment; `os.environ` if None. ``KVFRAME_CACHE__BLOCK_SIZE=32`` sets
                cache.block_size.
            registry: Where policies are found; one with the lists of ``[plugins]`` if None.
            imports: Whether policies that are named by their place are imported. If not, their
                options stay unchecked, and no manager can be made of what is resolved.
            **sections: A mapping for each section to change, as ``cache={"block_size": 32}``, or a
                policy's name, as ``eviction="lru"``.

        Raises:
            ConfigError: A source cannot be read, holds an unknown key, or a value is of the wrong
                type or impossible. The first error is raised; `ConfigError.others` has the next.
            PluginError: A policy or a store is not found, blocked or broken.
        """
        env = os.environ if env is None else env
        data: dict[str, Any] = {}
        origins = Origins()
        if isinstance(path, Mapping):
            raise ConfigError("a mapping is no file: values go by keyword, as cache={...}")
        if not isinstance(path, str | os.PathLike | None):
            raise ConfigError(f"path = {shown(path)}: must be a file's name, or None")
        if not isinstance(env, Mapping):
            raise ConfigError(f"env = {shown(env)}: must be a mapping of names to texts, or None")
        file = sources.find(Path()) if path is None else Path(path)
        if file is not None:
            tables, origin = sources.read(file)
            _lay(data, tables, origins, origin)
        environment.check_names(env, _keys())
        if environment.variables(env):
            tables, names = environment.layer(env, LISTS)
            defaults = Config().plain()
            for section in LISTS:
                if isinstance(tables.get(section), environment.Items):
                    data.setdefault(section, defaults[section])
            _lay(data, tables, origins, names.__getitem__)
        sections = _with_tables(sections)
        check_tree(sections, "")
        _lay(data, sections, origins, lambda _: KEYWORD)
        return _resolve(data, origins, file, registry, imports=imports)


_NAMED = ("eviction", "admission", "prefix")
"""Sections that may be said by the name of their policy alone."""


def _with_tables(sections: dict[str, Any]) -> dict[str, Any]:
    """Sections given by keyword, each that is a policy's name as its table."""
    return {
        name: {"policy": given} if name in _NAMED and isinstance(given, str) else given
        for name, given in sections.items()
    }


def _lay(
    data: dict[str, Any], layer: dict[str, Any], origins: Origins, origin: Callable[[str], str]
) -> None:
    """Lay one source over those before it."""
    forget_options(data, layer, origins)
    sources.merge(data, layer, origins, origin)
    spread(data, layer, origins)


def _resolve(
    data: dict[str, Any],
    origins: Origins,
    file: Path | None,
    registry: Registry | None,
    *,
    imports: bool = True,
) -> Resolved:
    if not isinstance(registry, Registry | None):
        raise ConfigError(f"registry = {shown(registry)}: must be a Registry, or None")
    faults = Faults()
    values = build_values(Config, data, "", origins, Config, faults)
    config = Config(**values)
    # The rules skip a section that is wrong in itself: its defaults would give errors of their own.
    well = {name for name in Config.__struct_fields__ if name in values or name not in data}
    blocks, used = _sizes(config, well, origins, faults)
    plugins = config.plugins
    lock = None
    if plugins.lock is not None and "plugins" in well:
        with faults:
            lock = _lock(plugins.lock, origins, file)
    finder = Finder(
        registry or Registry(allow=plugins.allow, block=plugins.block, lock=lock),
        origins,
        file,
        tuple(plugins.places),
        imports,
    )
    chosen = _policies(config, well, finder, faults)
    tiers: tuple[ResolvedTier, ...] = ()
    if {"cache", "security", "tiers"} <= well:
        faults.add_all(check_security(config, origins))
    if {"prefix", "tenants"} <= well:
        faults.add_all(rules.check_public(config, origins))
    if "tiers" in well:
        faults.add_all(check_tiers(config, origins) if "cache" in well else ())
        tiers = resolve_tiers(config, finder, None if used is None else sum(used), faults)
    faults.tell()
    eviction, admission, prefix = chosen
    config = _filled(config, chosen, tiers)
    return Resolved(
        config=config,
        provenance={path: origins.of(path) for path, _ in leaves(config.plain())},
        capacity_blocks=blocks,
        block_bytes=max(used) if used else None,
        page_bytes=tuple(used or ()),
        eviction=eviction,
        admission=admission,
        prefix=prefix,
        tiers=tiers,
        unchecked=tuple(_unchecked(chosen, tiers)),
        file=file,
    )


def _lock(name: str, origins: Origins, file: Path | None) -> Lock:
    """The lock that a file of a configuration names, relative to its folder."""
    of_file = file is not None and origins.near("plugins.lock").startswith(str(file))
    try:
        return Lock.read((file.parent if of_file and file else Path()) / name)
    except PluginError as error:
        raise origins.error("plugins.lock", name, str(error)) from error


def _sizes(
    config: Config, well: set[str], origins: Origins, faults: Faults
) -> tuple[int, list[int] | None]:
    """Blocks of the pool, and bytes of a page that each group uses; None where these are wrong."""
    blocks: int | None = None
    used: list[int] | None = None
    sized = {"cache", "groups", "model"} <= well
    if "model" in well:
        with faults:
            check_model(config.model, origins)
            if sized:
                used = page_bytes(config, origins)
                blocks = capacity_blocks(config, origins)
    if "groups" in well:
        faults.add_all(rules.check_names(config, origins))
    faults.add_all(rules.check_core(config, well, blocks, origins))
    return blocks or 0, used


def _policies(
    config: Config, well: set[str], finder: Finder, faults: Faults
) -> tuple[Chosen[EvictionPolicy], Chosen[AdmissionPolicy], Chosen[PrefixMatcher]]:
    """The three policies. A stand-in replaces a wrong one, and no caller sees it."""
    known, origins = finder.registry, finder.origins
    eviction: Any = None
    admission: Any = None
    prefix: Any = None
    if "plugins" not in well:
        return eviction, admission, prefix
    if "eviction" in well:
        with faults:
            table = config.eviction
            eviction = finder.choose(
                known.eviction, "eviction", table.policy, table.options, "eviction"
            )
            if eviction.loaded.descriptor.replay_only:
                reason = "needs to know the future; only kvframe bench can run it, on a trace"
                raise origins.error("eviction.policy", table.policy, reason)
    if "admission" in well:
        with faults:
            gate = config.admission
            admission = finder.choose(
                known.admission, "admission", gate.policy, gate.options, "admission"
            )
    if {"prefix", "cache"} <= well:
        with faults:
            matcher = config.prefix
            name = matcher.policy or config.cache.index
            prefix = finder.choose(known.prefix, "prefix", name, matcher.options, "prefix")
            is_builtin = prefix.loaded.descriptor.way == "builtin"
            rules.check_prefix(config, name, is_builtin=is_builtin, origins=origins)
    return eviction, admission, prefix


def _filled(
    config: Config, chosen: tuple[Chosen[Any], ...], tiers: tuple[ResolvedTier, ...]
) -> Config:
    """The configuration with the defaults of its policies' options filled in."""
    replace = msgspec.structs.replace
    eviction, admission, prefix = chosen
    on = iter(tiers)
    filled = []
    for tier in config.tiers:
        if tier.capacity != 0:
            resolved = next(on)
            tier = replace(
                tier,
                eviction=_with_options(tier.eviction, resolved.eviction),
                admission=_with_options(tier.admission, resolved.admission),
                options=resolved.store.values if resolved.store else tier.options,
            )
        filled.append(tier)
    return replace(
        config,
        eviction=_with_options(config.eviction, eviction),
        admission=_with_options(config.admission, admission),
        prefix=_with_options(config.prefix, prefix),
        tiers=filled,
    )


def _with_options(table: Any, chosen: Chosen[Any]) -> Any:
    filled = msgspec.structs.replace(table, options=chosen.values)
    if chosen.window is None:
        return filled
    return msgspec.structs.replace(filled, window=chosen.window)


def _unchecked(chosen: tuple[Chosen[Any], ...], tiers: tuple[ResolvedTier, ...]) -> Iterator[str]:
    sections = ("eviction", "admission", "prefix")
    named = dict(zip(sections, chosen, strict=True))
    for index, tier in enumerate(tiers):
        path = join("tiers", index)
        named |= {f"{path}.eviction": tier.eviction, f"{path}.admission": tier.admission}
        if tier.store is not None:
            named[path] = tier.store
    yield from (join(path, "options") for path, one in named.items() if one.unchecked is not None)


def _keys() -> Iterator[str]:
    sections = msgspec.structs.fields(Config)
    for section in sections:
        if isinstance(section.type, type) and issubclass(section.type, msgspec.Struct):
            names = [key.name for key in msgspec.structs.fields(section.type)]
            yield from (f"{section.name}.{name}" for name in names)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value of nested tables, and lists of them, with its key path."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from leaves(item, join(path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from leaves(item, join(path, index))
    else:
        yield path, value


def _plain(value: object) -> object:
    own = plain(value)
    # NumPy's longdouble has no number of Python's to be.
    return shown(value) if own is value or isinstance(own, np.generic) else own


def _unstructured(value: Any) -> Any:
    """A section as plain tables, whether it is given as one or as its class."""
    if isinstance(value, Struct):
        return _without_none(msgspec.to_builtins(value, enc_hook=_plain))
    if isinstance(value, Mapping):
        return {name: _unstructured(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_unstructured(item) for item in value]
    return value


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
