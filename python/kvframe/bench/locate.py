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

from kvframe.bench import admissions, matchers
from kvframe.bench.admissions import Admission
from kvframe.bench.matchers import Matcher
from kvframe.bench.policies import Choice, choose
from kvframe.descriptors import (
    AdmissionPolicy,
    Descriptor,
    EvictionPolicy,
    Kind,
    PrefixMatcher,
)
from kvframe.errors import PluginError
from kvframe.files import check_regular
from kvframe.hookspecs import hookimpl
from kvframe.plugin import HOOKS, one_line
from kvframe.policies import BatchedAdmission, BatchedEviction, BatchedPrefix
from kvframe.registry import Registry
from kvframe.spelling import did_you_mean

HERE = "this process"
KINDS: tuple[Kind, ...] = ("eviction", "admission", "prefix")
"""A name that is of several kinds is of the first of these, unless one is asked for."""

Located = Choice | Admission | Matcher


def locate(text: str, kind: Kind | None = None) -> tuple[Located, Registry]:
    """Resolve ``PLUGIN[:OPTION=VALUE...]``, and the registry that knows it.

    PLUGIN is the name of an installed policy; or ``MODULE`` or ``FILE.py``, which holds a hook; or
    ``MODULE:OBJECT``, an object with a hook, a descriptor (`EvictionPolicy`), or a class derived
    from `BatchedEviction`, `BatchedAdmission` or `BatchedPrefix`. A policy of a module goes before
    an installed one of its name.

    Args:
        text: What to resolve.
        kind: Of which kind it is; the first of `KINDS` that it is if None.

    Raises:
        PluginError: Not found, not to be imported, or no policy; or several.
        ConfigError: An option that it does not have, or a value that it refuses.
    """
    plugin, *rest = text.split(":")
    by_object = bool(rest) and "=" not in rest[0]
    options = rest[1:] if by_object else rest
    registry = Registry()
    kinds = KINDS if kind is None else (kind,)
    if not by_object and not _is_place(plugin, registry):
        return _choose(_kind_of(plugin, kinds, registry), text, registry), registry
    module = _import(plugin)
    holder = _holder(module, plugin, rest[0]) if by_object else module
    found, name, registry = _registered(holder, ":".join((plugin, *rest[:by_object])), kinds)
    return _choose(found, ":".join((name, *options)), registry), registry


def _choose(kind: Kind, text: str, registry: Registry) -> Located:
    if kind == "admission":
        return admissions.choose_all([text], registry)[0]
    if kind == "prefix":
        return matchers.choose_all([text], registry)[0]
    return choose(text, registry)


def _kind_of(name: str, kinds: tuple[Kind, ...], registry: Registry) -> Kind:
    """The first kind in which an installed policy has that name."""
    finders = {
        "eviction": registry.eviction,
        "admission": registry.admission,
        "prefix": registry.prefix,
    }
    failures = []
    for kind in kinds:
        try:
            finders[kind](name)
        except PluginError as error:
            failures.append(error)
        else:
            return kind
    raise failures[0]


def _is_place(plugin: str, registry: Registry) -> bool:
    if plugin.endswith(".py"):
        return True
    if any(found.name == plugin for kind in KINDS for found in registry.candidates(kind)):
        return False
    if not all(part.isidentifier() for part in plugin.split(".")):
        return False
    sys.path.insert(0, "")
    try:
        return importlib.util.find_spec(plugin) is not None
    except ModuleNotFoundError:  # nor is there the package that it would be in
        return False
    except (Exception, SystemExit):  # that package cannot be imported: to do so again tells why
        return True
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
    path = path.absolute()
    check_regular(path)
    folder = str(path.parent)
    if folder not in sys.path:  # its neighbours; last, so that none of them hides a library
        sys.path.append(folder)
    known = sys.modules.get(path.stem)
    # random.py may be a policy, and must not become Python's own.
    taken = known is not None and getattr(known, "__file__", None) != str(path)
    name = f"_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where the schema of its options looks up the names of types.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _holder(module: ModuleType, plugin: str, name: str) -> object:
    try:
        found: object = getattr(module, name)
    except AttributeError:
        raise PluginError(f"{plugin} has no {name}{did_you_mean(name, vars(module))}") from None
    if isinstance(found, Descriptor):
        return _Holder(found)
    if isinstance(found, type):
        for base, described in _DESCRIBED.items():
            if issubclass(found, base):
                return _Holder(_described(found, described))
        if not any(hasattr(found, hook) for hook in HOOKS):
            bases = ", ".join(base.__name__ for base in _DESCRIBED)
            raise PluginError(f"{plugin}:{name}: the class derives from none of {bases}")
    return found


_DESCRIBED: dict[type, type[Descriptor]] = {
    BatchedEviction: EvictionPolicy,
    BatchedAdmission: AdmissionPolicy,
    BatchedPrefix: PrefixMatcher,
}


def _described(kind: type, descriptor: type[Descriptor]) -> Descriptor:
    """What a package would say of the class: its options are those that ``__init__`` names."""
    parameters = list(inspect.signature(kind).parameters.values())
    schema = None
    if parameters:
        hint = typing.get_type_hints(kind.__init__).get(parameters[0].name)  # type: ignore[misc]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            schema = hint
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower().strip("_")
    return descriptor(
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
        return self._of("eviction")

    @hookimpl
    def kvframe_admission(self) -> list[Descriptor]:
        return self._of("admission")

    @hookimpl
    def kvframe_prefix(self) -> list[Descriptor]:
        return self._of("prefix")

    def _of(self, kind: Kind) -> list[Descriptor]:
        return [self.policy] if self.policy.kind == kind else []


def _registered(holder: object, place: str, kinds: tuple[Kind, ...]) -> tuple[Kind, str, Registry]:
    """The one policy that ``holder`` gives, and a registry where its name means that."""
    registry = Registry()
    registry.register(holder, place, distribution=HERE)
    found = {kind: registry.candidates(kind) for kind in kinds}
    mine = [(kind, one.name) for kind in kinds for one in found[kind] if one.distribution == HERE]
    if len(mine) != 1:
        names = ", ".join(name for _, name in mine)
        told = f"it gives {names}: name an installed one, or MODULE:CLASS" if mine else ""
        word = "policy" if len(kinds) > 1 else f"{kinds[0]} policy"
        raise PluginError(f"{place}: {told or f'it gives no {word}'}")
    kind, name = mine[0]
    rivals = {c.distribution for c in found[kind] if c.name == name} - {HERE, "kvframe"}
    if rivals:
        registry = Registry(block=tuple(rivals))
        registry.register(holder, place, distribution=HERE)
    return kind, name, registry
