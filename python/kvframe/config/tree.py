"""The whole configuration, and what becomes of it when it is resolved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from kvframe.arguments import shown
from kvframe.config import environment, sources
from kvframe.config.capacity import block_bytes, capacity_blocks, check_model, page_bytes
from kvframe.config.origins import KEYWORD, Origins, join
from kvframe.config.rules import (
    check_groups,
    check_options,
    check_pressure,
    find_admission,
    find_eviction,
    find_prefix,
)
from kvframe.config.schema import (
    AdmissionConfig,
    CacheConfig,
    GroupConfig,
    ModelConfig,
    ObserveConfig,
    PluginsConfig,
    PolicyConfig,
    PrefixConfig,
    PressureConfig,
    RetentionConfig,
    TierConfig,
)
from kvframe.config.tiers import ResolvedTier, resolve_tiers
from kvframe.config.values import build, plain
from kvframe.descriptors import AdmissionPolicy, EvictionPolicy, Kind, PrefixMatcher
from kvframe.errors import ConfigError
from kvframe.registry import Loaded, Registry


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The configuration of a cache, as ``kvframe.toml`` holds it.

    A config that is built directly is checked by `resolve`; construction checks nothing.

    Attributes:
        cache: The block pool and the prefix index.
        model: The shape of its KV, for capacities in bytes; None if there is none.
        groups: The layer groups.
        policy: The eviction policy.
        admission: The admission policy.
        prefix: The prefix matcher.
        pressure: When room counts as scarce.
        retention: What may be kept from eviction.
        observe: What is recorded.
        tiers: The tiers below the pool, nearest first.
        plugins: Which installed packages may load.
    """

    cache: CacheConfig = field(default_factory=CacheConfig)
    model: ModelConfig | None = None
    groups: list[GroupConfig] = field(default_factory=lambda: [GroupConfig(name="full")])
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    prefix: PrefixConfig = field(default_factory=PrefixConfig)
    pressure: PressureConfig = field(default_factory=PressureConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    observe: ObserveConfig = field(default_factory=ObserveConfig)
    tiers: list[TierConfig] = field(default_factory=list)
    plugins: PluginsConfig = field(default_factory=PluginsConfig)

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

    def resolve(self, registry: Registry | None = None) -> Resolved:
        """Check every value, load the policies, count the blocks.

        Values that differ from their defaults have the origin ``keyword``.

        Args:
            registry: Where policies are found; one with the lists of ``[plugins]`` if None.

        Raises:
            ConfigError: A value is of the wrong type or impossible.
            PluginError: A policy is not found, blocked or broken.
        """
        data, defaults = self.plain(), dict(_leaves(Config().plain()))
        given = [path for path, value in _leaves(data) if defaults.get(path, _leaves) != value]
        return _resolve(data, Origins(dict.fromkeys(given, KEYWORD)), None, registry)

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
        policy: The eviction policy, imported.
        options: Its checked options; None if it takes none.
        admission: The admission policy, imported.
        admission_options: Its checked options; None if it takes none.
        prefix: The prefix matcher, imported; the core's index if none is named.
        prefix_options: Its checked options; None if it takes none.
        tiers: The tiers below the pool, nearest first, without those that are off.
        unchecked: Tables of options (``policy.options.NAME``) whose policy is not loaded.
        file: The file that was read, if any.
    """

    config: Config
    provenance: dict[str, str]
    capacity_blocks: int
    block_bytes: int | None
    page_bytes: tuple[int, ...]
    policy: Loaded[EvictionPolicy]
    options: Struct | None
    admission: Loaded[AdmissionPolicy]
    admission_options: Struct | None
    prefix: Loaded[PrefixMatcher]
    prefix_options: Struct | None
    tiers: tuple[ResolvedTier, ...] = ()
    unchecked: tuple[str, ...] = ()
    file: Path | None = None

    @property
    def policy_options(self) -> dict[str, Any]:
        """The chosen policy's options as plain values, as the core takes them."""
        return dict(self.config.policy.options.get(self.policy.descriptor.name, {}))

    @property
    def admission_values(self) -> dict[str, Any]:
        """The admission policy's options as plain values, as the core takes them."""
        return dict(self.config.admission.options.get(self.admission.descriptor.name, {}))

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
        **sections: Any,
    ) -> Resolved:
        """Resolve defaults, a file, the environment and keywords, each overriding those before it.

        Args:
            path: A kvframe.toml, or a pyproject.toml with ``[tool.kvframe]``. None takes the one
                in the current directory, if there is one.
            env: The environment; `os.environ` if None. ``KVFRAME_CACHE__BLOCK_SIZE=32`` sets
                cache.block_size.
            registry: Where policies are found; one with the lists of ``[plugins]`` if None.
            **sections: A mapping for each section to change, as ``cache={"block_size": 32}``.

        Raises:
            ConfigError: A source cannot be read, holds an unknown key, or a value is of the wrong
                type or impossible.
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
            sources.merge(data, tables, origins, origin)
        environment.check_names(env, _keys())
        if environment.variables(env):
            tables, names = environment.layer(env, _policy_names(data))
            sources.merge(data, tables, origins, names.__getitem__)
        sources.merge(data, sections, origins, lambda _: KEYWORD)
        return _resolve(data, origins, file, registry)


def _resolve(
    data: dict[str, Any], origins: Origins, file: Path | None, registry: Registry | None
) -> Resolved:
    if not isinstance(registry, Registry | None):
        raise ConfigError(f"registry = {shown(registry)}: must be a Registry, or None")
    config = build(Config, data, "", origins, root=Config)
    check_groups(config, origins)
    check_model(config.model, origins)
    blocks = capacity_blocks(config, origins)
    check_pressure(config, blocks, origins)
    if registry is None:
        registry = Registry(allow=config.plugins.allow, block=config.plugins.block)
    policy = find_eviction(config, registry, origins)
    admission = find_admission(config, registry, origins)
    checked = check_options("policy", config.policy.options, policy, registry, origins)
    gate = check_options("admission", config.admission.options, admission, registry, origins)
    prefix = find_prefix(config, registry, origins)
    matching = check_options("prefix", config.prefix.options, prefix, registry, origins)
    config = msgspec.structs.replace(
        config,
        policy=msgspec.structs.replace(config.policy, options=checked.tables),
        admission=msgspec.structs.replace(config.admission, options=gate.tables),
        prefix=msgspec.structs.replace(config.prefix, options=matching.tables),
    )
    used = page_bytes(config, origins)
    return Resolved(
        config=config,
        provenance={path: origins.of(path) for path, _ in _leaves(config.plain())},
        capacity_blocks=blocks,
        block_bytes=block_bytes(config, origins),
        page_bytes=tuple(used),
        policy=policy,
        options=checked.chosen,
        admission=admission,
        admission_options=gate.chosen,
        prefix=prefix,
        prefix_options=matching.chosen,
        tiers=resolve_tiers(config, registry, origins, sum(used)),
        unchecked=(
            *(f"policy.options.{name}" for name in checked.unchecked),
            *(f"admission.options.{name}" for name in gate.unchecked),
            *(f"prefix.options.{name}" for name in matching.unchecked),
        ),
        file=file,
    )


def _keys() -> Iterator[str]:
    sections = msgspec.structs.fields(Config)
    for section in sections:
        if isinstance(section.type, type) and issubclass(section.type, msgspec.Struct):
            names = [key.name for key in msgspec.structs.fields(section.type)]
            yield from (f"{section.name}.{name}" for name in names)


def _policy_names(data: Mapping[str, Any]) -> list[str]:
    known = Registry()
    kinds: tuple[Kind, ...] = ("eviction", "admission", "prefix")
    names = [candidate.name for kind in kinds for candidate in known.candidates(kind)]
    for section in ("policy", "admission", "prefix"):
        keys = data.get(section)
        tables = keys.get("options") if isinstance(keys, dict) else None
        names += tables if isinstance(tables, dict) else ()
    return names


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, join(path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from _leaves(item, join(path, index))
    else:
        yield path, value


def _plain(value: object) -> object:
    own = plain(value)
    # NumPy's longdouble has no number of Python's to be.
    return shown(value) if own is value or isinstance(own, np.generic) else own


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
