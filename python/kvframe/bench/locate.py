"""Policies by name or by place: ``t-lru``, ``my_package.policy:DeepFirst``, ``./deep.py``."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import re
import sys
import typing
from collections.abc import Iterable
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
    registry = Registry()
    plugin, *rest = text.split(":")
    by_object = _names_object(plugin, rest, registry)
    options = rest[1:] if by_object else rest
    kinds = KINDS if kind is None else (kind,)
    if not by_object and not _is_place(plugin, registry):
        return _choose(_kind_of(plugin, kinds, registry), text, registry), registry
    module = _import(plugin)
    holder = _holder(module, plugin, rest[0]) if by_object else module
    if not by_object and not any(hasattr(module, hook) for hook in HOOKS) and _policies(module):
        places = " or ".join(f"{plugin}:{name}" for name in _policies(module))
        raise PluginError(f"{plugin}: it has no hook; name one of its policies: {places}")
    found, name, registry = _registered(holder, ":".join((plugin, *rest[:by_object])), kinds)
    return _choose(found, ":".join((name, *options)), registry), registry


@typing.overload
def choose_all(
    kind: typing.Literal["eviction"], texts: Iterable[str], registry: Registry
) -> list[Choice]: ...
@typing.overload
def choose_all(
    kind: typing.Literal["admission"], texts: Iterable[str], registry: Registry
) -> list[Admission]: ...
@typing.overload
def choose_all(
    kind: typing.Literal["prefix"], texts: Iterable[str], registry: Registry
) -> list[Matcher]: ...
def choose_all(kind: Kind, texts: Iterable[str], registry: Registry) -> typing.Sequence[Located]:
    """Resolve each text as `locate` does, once each; its label is the text.

    Args:
        kind: Of which kind they are.
        texts: Names that ``registry`` knows, or places.
        registry: Knows the installed policies.

    Raises:
        PluginError: As `locate`.
        ConfigError: As `locate`.
    """
    return [_labelled(kind, text, registry) for text in dict.fromkeys(texts)]


def _labelled(kind: Kind, text: str, registry: Registry) -> Located:
    plugin, *rest = text.split(":")
    if _names_object(plugin, rest, registry) or _is_place(plugin, registry):
        found, _ = locate(text, kind)
        # Two files may give one name, and a file that of an installed policy.
        return dataclasses.replace(found, label=text)
    return _choose(kind, text, registry)


def _names_object(plugin: str, rest: list[str], registry: Registry) -> bool:
    """Whether what stands behind the first colon is an object of a module, and no option."""
    return bool(rest) and "=" not in rest[0] and not _is_installed(plugin, registry)


def _is_installed(name: str, registry: Registry) -> bool:
    return any(found.name == name for kind in KINDS for found in registry.candidates(kind))


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
    if _is_installed(plugin, registry):
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
        raise PluginError(f"{plugin} has no {name}{_instead(name, module)}") from None
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


def _instead(name: str, module: ModuleType) -> str:
    """The policies that a module has in place of ``name``: the nearest, or all."""
    has = _policies(module)
    return did_you_mean(name, has) or (f"; it has {', '.join(has)}" if has else "")


def _policies(module: ModuleType) -> list[str]:
    """Names in a module that `locate` takes: not what it imports."""
    bases = tuple(_DESCRIBED)
    return [
        name
        for name, found in vars(module).items()
        if isinstance(found, Descriptor)
        or (isinstance(found, type) and issubclass(found, bases) and found not in bases)
    ]


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
    if _is_installed(name, Registry()):  # a class may be called Lru
        name = f"own-{name}"

    def bare(_: object) -> object:
        return kind()

    bare.__module__ = kind.__module__  # whose code it is
    return descriptor(
        name=name,
        way="batched",
        summary=(inspect.getdoc(kind) or name).splitlines()[0],
        options=schema,
        make=kind if parameters else bare,
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
        raise PluginError(f"{place}: {told or _gives_none(kinds, registry)}")
    kind, name = mine[0]
    rivals = {c.distribution for c in found[kind] if c.name == name} - {HERE, "kvframe"}
    if rivals:
        registry = Registry(block=tuple(rivals))
        registry.register(holder, place, distribution=HERE)
    return kind, name, registry


def _gives_none(kinds: tuple[Kind, ...], registry: Registry) -> str:
    """Why what was registered is of none of the kinds that were asked for."""
    others = [
        f"{_WORDS[kind]} ({one.name})"
        for kind in KINDS
        for one in registry.candidates(kind)
        if one.distribution == HERE
    ]
    if len(kinds) > 1 or not others:
        return "it gives no policy"
    return f"it gives {', '.join(others)}; must be {_WORDS[kinds[0]]}"


_WORDS = {
    "eviction": "an eviction policy",
    "admission": "an admission policy",
    "prefix": "a prefix matcher",
}
