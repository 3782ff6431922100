"""Policies by place: ``my_package.policy:DeepFirst``, ``./deep.py:DeepFirst``, ``./deep.py``.

At a place lies a module with a hook; or an object of a module: one with a hook, a descriptor
(`EvictionPolicy`), or a class derived from `BatchedEviction`, `BatchedAdmission`, `BatchedPrefix`
or `PageStore`, whose options are those that its ``__init__`` names.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import typing
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import msgspec

from kvframe.errors import PluginError
from kvframe.files import check_regular
from kvframe.registry.descriptors import DESCRIPTORS, Descriptor, Kind
from kvframe.registry.hooks import HOOKS
from kvframe.registry.hookspecs import hookimpl
from kvframe.registry.raised import one_line
from kvframe.spelling import did_you_mean

_ONE = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def load(place: str, is_taken: Callable[[str], bool] = lambda _: False) -> object:
    """The plugin at ``place``, imported.

    Args:
        place: ``FILE.py``, ``MODULE``, or either with ``:OBJECT``.
        is_taken: Whether a policy of that name is installed; a class of the same name is then
            called ``own-NAME``.

    Raises:
        PluginError: It cannot be imported, or nothing of a plugin is there.
    """
    home, _, name = place.partition(":")
    module = _import(home)
    if name:
        return _plugin(module, home, name, is_taken)
    if not any(hasattr(module, hook) for hook in HOOKS) and _policies(module):
        instead = " or ".join(f"{home}:{name}" for name in _policies(module))
        raise PluginError(f"{home}: it has no hook; name one of its policies: {instead}")
    return module


def policy_name(name: str) -> str:
    """The name that a policy gets from its class: ``deep-first`` for ``DeepFirst``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower().strip("_")


def is_module(name: str) -> bool:
    """Whether Python would find a module of that name, the current directory's among them."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    sys.path.insert(0, "")
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # nor is there the package that it would be in
        return False
    except (Exception, SystemExit):  # that package cannot be imported: to do so again tells why
        return True
    finally:
        sys.path.remove("")


def _import(home: str) -> ModuleType:
    if home.endswith(".py") and not Path(home).exists():
        raise PluginError(f"{home}: no such file")
    try:
        if home.endswith(".py"):
            return _run(Path(home))
        # As `python -m` does.
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(home)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name in _parents(home):
            raise PluginError(f"{home}: no such module: Python finds no {error.name}") from error
        raise PluginError(f"cannot import {home}: {one_line(error)}") from error


def _parents(module: str) -> list[str]:
    """The module, and the packages that it is in."""
    return list(accumulate(module.split("."), "{}.{}".format))


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
    # The schema of the options looks up the names of types in this module.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _plugin(module: ModuleType, home: str, name: str, is_taken: Callable[[str], bool]) -> object:
    try:
        found: object = getattr(module, name)
    except AttributeError:
        raise PluginError(f"{home} has no {name}{_instead(name, module)}") from None
    if isinstance(found, Descriptor):
        return _Holder(found)
    if isinstance(found, type):
        if (kind := _kind_of(found)) is not None:
            try:
                return _Holder(_described(found, DESCRIPTORS[kind], is_taken))
            except Exception as error:  # such as a hint that cannot be looked up
                raise PluginError(f"{home}:{name}: {one_line(error)}") from error
        if not any(hasattr(found, hook) for hook in HOOKS):
            bases = "BatchedEviction, BatchedAdmission, BatchedPrefix, PageStore"
            raise PluginError(f"{home}:{name}: the class derives from none of {bases}")
    return found


def _kind_of(found: type) -> Kind | None:
    """The kind of a policy class, by its base; None for a base itself."""
    kind: Kind | None = getattr(found, "kvframe_kind", None)
    return None if "kvframe_kind" in vars(found) else kind


def _instead(name: str, module: ModuleType) -> str:
    """The policies to suggest in place of ``name``: the module's nearest one, or all."""
    has = _policies(module)
    return did_you_mean(name, has) or (f"; it has {', '.join(has)}" if has else "")


def _policies(module: ModuleType) -> list[str]:
    """Names of policies that a module defines itself; those that it imports are left out."""
    return [
        name
        for name, found in vars(module).items()
        if isinstance(found, Descriptor)
        or (isinstance(found, type) and _kind_of(found) is not None)
    ]


def _described(
    kind: type, descriptor: type[Descriptor], is_taken: Callable[[str], bool]
) -> Descriptor:
    """The descriptor that a package would give of the class."""
    parameters = list(inspect.signature(kind).parameters.values())
    schema = None
    if parameters:
        first = parameters[0]
        if first.annotation is first.default is inspect.Parameter.empty and first.kind in _ONE:
            raise TypeError(
                f"its __init__ names no type of {first.name}: write `{first.name}: Options`, with "
                "Options a msgspec.Struct, for its options"
            )
        hint = typing.get_type_hints(kind.__init__).get(parameters[0].name)  # type: ignore[misc]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            schema = hint
    name = policy_name(kind.__name__)
    if is_taken(name):  # a class may be called Lru
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
    """A plugin of one descriptor."""

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

    @hookimpl
    def kvframe_store(self) -> list[Descriptor]:
        return self._of("store")

    @hookimpl
    def kvframe_trace(self) -> list[Descriptor]:
        return self._of("trace")

    def _of(self, kind: Kind) -> list[Descriptor]:
        return [self.policy] if self.policy.kind == kind else []
