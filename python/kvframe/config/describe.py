"""Type annotations in plain words: what a value must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import inspect

from kvframe.config.text import toml
from kvframe.spelling import did_you_mean

_ABSENT = object()


def members(hint: Any) -> list[inspect.Type]:
    """The alternatives of a type annotation: those of a union, or the one type itself."""
    try:
        return _members(hint)
    except TypeError:  # an annotation that cannot be hashed
        return _flat(inspect.type_info(hint))


@lru_cache(maxsize=512)
def _members(hint: Any) -> list[inspect.Type]:
    return _flat(inspect.type_info(hint))


def rule(hint: Any, value: object = _ABSENT) -> str:
    """``must be ...``: the rule that ``hint`` gives, worded for the ``value`` that broke it."""
    kinds = [kind for kind in members(hint) if not isinstance(kind, inspect.NoneType)]
    if value is _ABSENT:
        info = inspect.type_info(hint)
        if isinstance(info, inspect.Metadata) and "missing" in (info.extra or {}):
            return str((info.extra or {})["missing"])
        return "must be " + _either([_noun(kind) for kind in kinds])
    # The message gives the limit for a number past it, and the type for a string in place of a
    # number.
    alike = [kind for kind in kinds if _takes(kind, value)]
    if len(alike) == 1:
        return f"must be {_limit(alike[0])}{_near(alike[0], value)}"
    return f"must be {_either([_noun(kind) for kind in kinds])}, not {_type_name(value)}"


def _flat(info: inspect.Type) -> list[inspect.Type]:
    if isinstance(info, inspect.Metadata):
        return _flat(info.type)
    if isinstance(info, inspect.UnionType):
        return [kind for member in info.types for kind in _flat(member)]
    return [info]


def _takes(kind: inspect.Type, value: object) -> bool:
    if isinstance(kind, inspect.IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str)
    if isinstance(kind, inspect.LiteralType):
        return type(value) in {type(choice) for choice in kind.values}
    if isinstance(kind, inspect.EnumType):
        return type(value) in {type(member.value) for member in kind.cls}
    if isinstance(kind, inspect.DictType):
        return isinstance(value, Mapping)
    return isinstance(kind, inspect.ListType) and isinstance(value, list | tuple)


def _limit(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return _range(kind) or _noun(kind)
    if isinstance(kind, inspect.StrType):
        if kind.pattern:
            return f"a string that matches {kind.pattern}"
        if kind.max_length is not None:
            return f"a string of {kind.min_length or 0} to {kind.max_length} characters"
        if kind.min_length:
            return f"a string of at least {kind.min_length} character(s)"
    return _noun(kind)


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f"between {kind.ge} and {kind.le}"
    bounds = [
        ("at least", kind.ge),
        ("more than", kind.gt),
        ("at most", kind.le),
        ("less than", kind.lt),
        ("a multiple of", kind.multiple_of),
    ]
    return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


def _noun(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.IntType):
        return f"a whole number {_range(kind)}".rstrip()
    if isinstance(kind, inspect.FloatType):
        return f"a number {_range(kind)}".rstrip()
    if isinstance(kind, inspect.StrType):
        return "a string"
    if isinstance(kind, inspect.LiteralType):
        return _either([toml(choice) for choice in kind.values])
    if isinstance(kind, inspect.ListType):
        return f"an array of {_plural(kind.item_type)}"
    if isinstance(kind, inspect.StructType):
        names = ", ".join(field.encode_name for field in kind.fields)
        return f"a table of {names}"
    if isinstance(kind, inspect.DictType):
        entries = _plural(kind.value_type)
        return "a table" if entries == "values" else f"a table of {entries}"
    if isinstance(kind, inspect.EnumType):
        return _either([toml(member.value) for member in kind.cls])
    return type(kind).__name__.removesuffix("Type").lower()


def _plural(item: inspect.Type) -> str:
    (kind, *others) = _flat(item)
    if others:
        return "values"
    names = {
        inspect.StrType: "strings",
        inspect.IntType: "whole numbers",
        inspect.FloatType: "numbers",
        inspect.StructType: "tables",
    }
    return names.get(type(kind), "values")


def _either(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _near(kind: inspect.Type, value: object) -> str:
    if isinstance(kind, inspect.LiteralType) and isinstance(value, str):
        return did_you_mean(value, [str(choice) for choice in kind.values])
    return ""


def _type_name(value: object) -> str:
    names = {
        bool: "a boolean",
        int: "a whole number",
        float: "a number",
        str: "a string",
        list: "an array",
        tuple: "an array",
        dict: "a table",
    }
    known = (names[kind] for kind in type(value).__mro__ if kind in names)
    return next(known, f"a {type(value).__name__}")
