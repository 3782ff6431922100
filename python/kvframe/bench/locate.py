"""Policies by name or by place: ``t-lru``, ``my_package.policy:DeepFirst``, ``./deep.py``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import typing
from pathlib import Path
from types import ModuleType

import msgspec

from kvframe.bench.policies import Choice, choose
from kvframe.descriptors import Descriptor, EvictionPolicy
from kvframe.discovery import GROUP
from kvframe.errors import PluginError
from kvframe.hookspecs import hookimpl
from kvframe.plugin import one_line
from kvframe.policies import BatchedEviction
from kvframe.registry import Registry

HERE = "this process"


def locate(text: str) -> tuple[Choice, Registry]:
    """Resolve ``PLUGIN[:OPTION=VALUE...]``, and the registry that knows it.

    PLUGIN is the name of an installed policy; or ``MODULE`` or ``FILE.py``, which holds a hook; or
    ``MODULE:OBJECT``, an object with a hook, an `EvictionPolicy`, or a `BatchedEviction` class. A
    policy of a module goes before an installed one of its name.

    Raises:
        PluginError: Not found, not to be imported, or no eviction policy; or several.
        ConfigError: An option that it does not have, or a value that it refuses.
    """
    plugin, *rest = text.split(":")
    by_object = bool(rest) and "=" not in rest[0]
    options = rest[1:] if by_object else rest
    registry = Registry()
    if not by_object and not _is_place(plugin, registry):
        return choose(text, registry), registry
    module = _import(plugin)
    holder = _holder(module, plugin, rest[0]) if by_object else module
    name, registry = _registered(holder, ":".join((plugin, *rest[:by_object])))
    return choose(":".join((name, *options)), registry), registry


def _is_place(plugin: str, registry: Registry) -> bool:
    if plugin.endswith(".py"):
        return True
    if any(found.name == plugin for found in registry.candidates("eviction")):
        return False
    sys.path.insert(0, "")
    try:
        return plugin.isidentifier() and importlib.util.find_spec(plugin) is not None
    finally:
        sys.path.remove("")


def _import(plugin: str) -> ModuleType:
    try:
        if plugin.endswith(".py"):
            return _run(Path(plugin))
        # As `python -m` does.
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(plugin)
    except (Exception, SystemExit) as error:
        raise PluginError(f"cannot import {plugin}: {one_line(error)}") from error


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where the schema of its options looks up the names of types.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def _holder(module: ModuleType, plugin: str, name: str) -> object:
    try:
        found: object = getattr(module, name)
    except AttributeError:
        raise PluginError(f"{plugin} has no {name}") from None
    if isinstance(found, Descriptor):
        return _Holder(found)
    if isinstance(found, type) and issubclass(found, BatchedEviction):
        return _Holder(_described(found))
    return found


def _described(kind: type[BatchedEviction]) -> EvictionPolicy:
    """What a package would say of the class: its options are those that ``__init__`` names."""
    parameters = list(inspect.signature(kind).parameters.values())
    schema = None
    if parameters:
        hint = typing.get_type_hints(kind.__init__).get(parameters[0].name)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            schema = hint
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower().strip("_")
    return EvictionPolicy(
        name=name,
        way="batched",
        summary=(inspect.getdoc(kind) or name).splitlines()[0],
        options=schema,
        make=kind if parameters else lambda _: kind(),
    )


class _Holder:
    def __init__(self, policy: Descriptor) -> None:
        self.policy = policy

    @hookimpl
    def kvframe_eviction(self) -> list[Descriptor]:
        return [self.policy]


def _registered(holder: object, place: str) -> tuple[str, Registry]:
    """The one eviction policy that ``holder`` gives, and a registry where its name means that."""
    registry = Registry()
    registry.register(holder, place, distribution=HERE)
    found = registry.candidates("eviction")
    mine = [candidate.name for candidate in found if candidate.distribution == HERE]
    if len(mine) != 1:
        told = f"it gives {', '.join(mine)}: name one, as {GROUP} entry points do" if mine else ""
        raise PluginError(f"{place}: {told or 'it gives no eviction policy'}")
    rivals = {c.distribution for c in found if c.name == mine[0]} - {HERE, "kvframe"}
    if rivals:
        registry = Registry(block=tuple(rivals))
        registry.register(holder, place, distribution=HERE)
    return mine[0], registry
