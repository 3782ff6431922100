"""Policies of any kind by name or by place: ``t-lru``, ``my_package.policy:DeepFirst``."""

from __future__ import annotations

import typing
from collections.abc import Iterable

from kvframe.bench import admissions, matchers, policies
from kvframe.bench.admissions import Admission
from kvframe.bench.matchers import Matcher
from kvframe.bench.named import is_bare_module
from kvframe.bench.policies import Choice
from kvframe.registry import Kind, Registry
from kvframe.registry.lookup import only
from kvframe.registry.naming import is_place, named

KINDS: tuple[Kind, ...] = ("eviction", "admission", "prefix")
"""A name that is of several kinds is of the first of these, unless one is asked for."""

Located = Choice | Admission | Matcher


def locate(text: str, kind: Kind | None = None) -> tuple[Located, Registry]:
    """Resolve ``PLUGIN[:OPTION=VALUE,...]``, and the registry that knows it.

    Args:
        text: What to resolve, as `kvframe.bench.named.found` does.
        kind: Of which kind it is; the first of `KINDS` that it is if None.

    Raises:
        PluginError: Not found, not to be imported, or no policy; or several.
        ConfigError: An option that it does not have, or a value that it refuses.
    """
    registry = Registry()
    name = named(text, text).name
    kinds = KINDS if kind is None else (kind,)
    if is_place(name) or is_bare_module(name, registry):
        descriptor = only(registry.at(name), kinds, name).descriptor
        label = descriptor.name + text.strip().removeprefix(name)
        return _choose(descriptor.kind, text, registry, label), registry
    own = (kind for kind in kinds if any(c.name == name for c in registry.candidates(kind)))
    return _choose(next(own, kinds[0]), text, registry), registry


@typing.overload
def choose_all(
    kind: typing.Literal["eviction"], texts: Iterable[str], registry: Registry, seed: int = ...
) -> list[Choice]: ...
@typing.overload
def choose_all(
    kind: typing.Literal["admission"], texts: Iterable[str], registry: Registry
) -> list[Admission]: ...
@typing.overload
def choose_all(
    kind: typing.Literal["prefix"], texts: Iterable[str], registry: Registry
) -> list[Matcher]: ...
def choose_all(
    kind: Kind, texts: Iterable[str], registry: Registry, seed: int = 0
) -> typing.Sequence[Located]:
    """Resolve each text as `locate` does, once each; its label is the text.

    Args:
        kind: Of which kind they are.
        texts: Names that ``registry`` knows, or places.
        registry: Knows the installed policies.
        seed: Of eviction policies with such an option, where a text does not give it.

    Raises:
        PluginError: As `locate`.
        ConfigError: As `locate`.
    """
    return [_choose(kind, text, registry, seed=seed) for text in dict.fromkeys(texts)]


def _choose(
    kind: Kind, text: str, registry: Registry, label: str | None = None, seed: int = 0
) -> Located:
    if kind == "admission":
        return admissions.choose(text, registry, label)
    if kind == "prefix":
        return matchers.choose(text, registry, label)
    return policies.choose(text, registry, label, seed)
