"""Finds the policies and stores that a configuration names, and checks their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from kvframe.config.environment import EnvText, Items
from kvframe.config.faults import Faults
from kvframe.config.origins import KEYWORD, Origins, join
from kvframe.config.schema import EvictionConfig
from kvframe.config.values import build
from kvframe.errors import PluginError
from kvframe.registry.descriptors import DESCRIPTORS, Descriptor, Kind
from kvframe.registry.lookup import HERE, Loaded, Registry
from kvframe.registry.naming import is_place, named
from kvframe.registry.places import policy_name

D = TypeVar("D", bound=Descriptor)


@dataclass(frozen=True)
class Chosen(Generic[D]):
    """A policy or store that is named: imported, with its options.

    Attributes:
        loaded: What was found.
        options: Its checked options; None if it takes none.
        window: Candidates that it is offered, where its text says so (``mine:window=64``).
        unchecked: Options as they were given, of one that was not imported.
    """

    loaded: Loaded[D]
    options: msgspec.Struct | None = None
    window: int | None = None
    unchecked: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.loaded.descriptor.name

    @property
    def values(self) -> dict[str, Any]:
        """Its options as plain values, as TOML holds them; those without a value are left out."""
        if self.options is None:
            return dict(self.unchecked or {})
        values: dict[str, Any] = msgspec.to_builtins(self.options)
        return {name: value for name, value in values.items() if value is not None}


class Place(NamedTuple):
    """Where something is named: in the table at ``path``, by ``key``, beside ``options``."""

    path: str
    table: dict[str, Any]
    key: str = "policy"

    @property
    def name(self) -> str | None:
        """The name there, without the options in its text; None if there is no name."""
        text = self.table.get(self.key)
        return named(text, self.path).name if isinstance(text, str) else None


def named_in(data: Mapping[str, Any]) -> Iterator[Place]:
    """Every place of a configuration where a policy or a store may be named."""
    for section in ("eviction", "admission", "prefix"):
        if isinstance(data.get(section), dict):
            yield Place(section, data[section])
    tiers = data.get("tiers")
    numbered = tiers.items() if isinstance(tiers, Items) else enumerate(_list(tiers))
    for index, tier in numbered:
        if isinstance(tier, dict):
            path = join("tiers", index)
            yield Place(path, tier, "store")
            yield from (
                place._replace(path=f"{path}.{place.path}") for place in named_in(_of(tier))
            )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _of(tier: dict[str, Any]) -> dict[str, Any]:
    return {name: tier.get(name) for name in ("eviction", "admission")}


def forget_options(data: Mapping[str, Any], layer: Mapping[str, Any], origins: Origins) -> None:
    """Remove a policy's options from ``data`` where ``layer`` names another policy in its place."""
    below = {place.path: place for place in named_in(data)}
    for place in named_in(layer):
        known = below.get(place.path)
        if known is None or place.name in (None, known.name) or "options" not in known.table:
            continue
        del known.table["options"]
        origins.forget(join(place.path, "options"))


def spread(data: Mapping[str, Any], layer: Mapping[str, Any], origins: Origins) -> None:
    """Put the options of a text (``slru:protected_uses=3``) into the table of options beside it.

    Raises:
        ConfigError: One of them is in that table of the same layer, too.
    """
    given = {place.path: place.table.get("options") for place in named_in(layer)}
    for path, table, key in named_in(data):
        if not isinstance(text := table.get(key), str):
            continue
        where = join(path, key)
        name, options = named(text, f"{origins.where(where)}{where} = {text}")
        if not options:
            continue
        table[key] = name
        beside = table.setdefault("options", {})
        if not isinstance(beside, dict):  # `build` refuses it
            continue
        for option, value in options.items():
            here = join(join(path, "options"), option)
            if option in (given.get(path) or {}):
                raise origins.error(here, beside[option], f"is given in {where}, too")
            beside[option] = EnvText(value)
            origins.set(here, origins.of(where))


@dataclass(frozen=True)
class Finder:
    """Finds what a configuration names.

    Attributes:
        registry: Where policies are found.
        origins: Where each value came from.
        file: The configuration's file, if any; places in it are relative to its folder.
        places: ``plugins.places``.
        imports: Whether policies that are named by their place are imported; if not, their options
            stay unchecked.
    """

    registry: Registry
    origins: Origins
    file: Path | None = None
    places: tuple[str, ...] = ()
    imports: bool = True

    def find(
        self, look_up: Callable[[str], Loaded[D]], kind: Kind, name: str, path: str
    ) -> Loaded[D]:
        """What is found for the ``name`` that stands at the key ``path``.

        Raises:
            PluginError: It is not found, blocked or broken; the message says where the name stands.
            ConfigError: It is a place that the configuration does not allow.
        """
        try:
            if is_place(name):
                name = self._allowed(name, path)
                if not self.imports:
                    return Loaded(_unread(kind, name), HERE, "", name, is_imported=False)  # type: ignore[arg-type] # of that kind
            return look_up(name)
        except PluginError as error:
            message = str(self.origins.error(path, name, str(error)))
            raise PluginError(message) from (error.__cause__ or error)

    def choose(
        self,
        look_up: Callable[[str], Loaded[D]],
        kind: Kind,
        name: str,
        table: Mapping[str, Any],
        path: str,
        key: str = "policy",
    ) -> Chosen[D]:
        """What is named at ``path``, with its checked options.

        Raises:
            PluginError: As `find`.
            ConfigError: As `find`; or an option is unknown or wrong.
        """
        loaded = self.find(look_up, kind, name, join(path, key))
        path = join(path, "options")
        if not loaded.is_imported:
            values = {k: v.guess() if isinstance(v, EnvText) else v for k, v in table.items()}
            return Chosen(loaded, unchecked=values)
        return chosen(loaded, table, path, self.origins, self.registry)

    def _allowed(self, name: str, path: str) -> str:
        """The place as it is imported: a file of a configuration is relative to its folder."""
        home, colon, rest = name.partition(":")
        origin = self.origins.near(path)
        is_file = home.endswith(".py")
        if is_file:
            home = str(self._folder(origin) / home)
        if origin != KEYWORD:
            here = self._folder(self.origins.near("plugins.places"))
            if not any(_covers(entry, here, home, is_file) for entry in self.places):
                told = "imports code: allow it by plugins.places = ["
                raise self.origins.error(path, name, f'{told}"{name.partition(":")[0]}"]')
        return f"{home}{colon}{rest}"

    def _folder(self, origin: str) -> Path:
        of_file = self.file is not None and origin.startswith(str(self.file))
        return self.file.parent if of_file and self.file else Path()


def _covers(entry: str, folder: Path, home: str, is_file: bool) -> bool:
    """Whether an entry of ``plugins.places`` allows a file or a module."""
    if not is_file:
        return home == entry or home.startswith(f"{entry}.")
    try:
        allowed, file = (folder / entry).resolve(), Path(home).resolve()
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # no file has such a name
        return False
    return file == allowed or allowed in file.parents


def _unread(kind: Kind, place: str) -> Descriptor:
    """The descriptor that stands in for a policy that is not imported."""
    home, _, name = place.partition(":")

    def make(_: object) -> object:
        raise PluginError(f"{place}: is not imported here")

    called = re.sub(r"[^a-z0-9]+", "-", policy_name(name or Path(home).stem)).strip("-") or "unread"
    return DESCRIPTORS[kind](name=called, way="batched", summary="not imported", make=make)


def chosen(
    loaded: Loaded[D],
    table: Mapping[str, Any],
    path: str,
    origins: Origins,
    registry: Registry | None = None,
) -> Chosen[D]:
    """The options in ``table`` by the schema of what was found.

    If a policy in Python has no option ``window`` of its own, the key says how many candidates it
    is offered.

    Raises:
        ConfigError: One is unknown or wrong: the first, with the others.
    """
    descriptor = loaded.descriptor
    schema = descriptor.options
    own = schema.__struct_encode_fields__ if schema is not None else ()
    window = None
    is_offered = descriptor.kind == "eviction" and descriptor.make and "window" not in own
    if is_offered and isinstance(table.get("window"), EnvText):  # in a text alone
        said = {"window": table["window"]}
        window = build(EvictionConfig, said, path.rpartition(".")[0] or path, origins).window
        table = {key: value for key, value in table.items() if key != "window"}
    if schema is not None and not any(_is_old(key, table, own, registry) for key in table):
        return Chosen(loaded, build(schema, table, path, origins), window)
    faults = Faults()
    for key, value in table.items():
        reason = f"{descriptor.name} takes no options"
        if _is_old(key, table, own, registry):
            reason = f"the options of the chosen policy now stand in {path} itself, without a name"
        elif key in own:
            continue
        faults.add(origins.error(join(path, key), value, reason))
    faults.tell()
    return Chosen(loaded, None, window)


def _is_old(key: str, table: Mapping[str, Any], own: Any, registry: Registry | None) -> bool:
    """Whether ``key`` is the options table of one policy in the old form, with a table for each."""
    is_table = isinstance(table[key], Mapping) and key not in own
    return is_table and (registry is None or registry.has(key) or not own)
