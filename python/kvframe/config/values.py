"""Plain values into a typed struct, with an error of one line for the first that does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import inspect

from kvframe.config.describe import members, rule
from kvframe.config.environment import EnvText
from kvframe.config.faults import Faults
from kvframe.config.moved import moved_keys, moved_text
from kvframe.config.origins import Origins, join, shown
from kvframe.errors import ConfigError
from kvframe.spelling import nearest

S = TypeVar("S", bound=msgspec.Struct)


def build(
    schema: type[S],
    data: Mapping[str, Any],
    path: str,
    origins: Origins,
    root: type[msgspec.Struct] | None = None,
) -> S:
    """An instance of ``schema`` made of ``data``, a tree of plain values.

    Args:
        schema: The struct class; its fields' types and limits are the rules.
        data: What the sources gave.
        path: Where in the configuration ``data`` lies; empty at the root.
        origins: Where each value came from.
        root: The struct of the whole configuration, where a key that is not of this table is
            looked for.

    Raises:
        ConfigError: An unknown or missing key, a wrong type, or a value past its limit: the first,
            with what else is wrong as its ``others``.
    """
    faults = Faults()
    values = build_values(schema, data, path, origins, root, faults)
    faults.tell()
    try:
        return schema(**values)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # raised by the schema's own __post_init__
        said = " ".join(str(error).split()) or f"{type(error).__name__} of its own check"
        raise origins.error(path, data, said) from error


def build_values(
    schema: type[msgspec.Struct],
    data: Mapping[str, Any],
    path: str,
    origins: Origins,
    root: type[msgspec.Struct] | None,
    faults: Faults,
) -> dict[str, Any]:
    """The values of the fields that are well; what is wrong with others goes to ``faults``."""
    fields = _fields(schema)
    for name in data:
        if name not in fields and not faults.is_full():
            faults.add_all(_strange(str(name), data[name], path, list(fields), origins, root))
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in data:
            with faults:
                values[field.name] = _value(
                    field.type, field.kinds, data[name], join(path, name), origins, root
                )
        elif field.required:
            faults.add(origins.missing(join(path, name), f"missing; it {rule(field.type)}"))
    return values


def plain(value: object) -> object:
    """A number or a text of NumPy's as Python's own; all else as it is."""
    return value.item() if isinstance(value, np.generic) else value


class _Field(NamedTuple):
    name: str
    type: Any
    kinds: Sequence[inspect.Type]
    required: bool


@lru_cache(maxsize=256)
def _fields(schema: type[msgspec.Struct]) -> dict[str, _Field]:
    """The fields of a schema by key: evaluating its hints for each of 10,000 tables is slow."""
    return {
        field.encode_name: _Field(field.name, field.type, members(field.type), field.required)
        for field in msgspec.structs.fields(schema)
    }


def _value(
    hint: Any,
    kinds: Sequence[inspect.Type],
    value: object,
    path: str,
    origins: Origins,
    root: type[msgspec.Struct] | None,
) -> object:
    if isinstance(value, EnvText):
        value = value.as_one_of(kinds)
    value = plain(value)
    if isinstance(value, str) and (told := moved_text(path)) is not None:
        raise origins.error(path, value, told)
    for kind in kinds:
        if isinstance(kind, inspect.StructType) and isinstance(value, Mapping):
            return build(kind.cls, value, path, origins, root)
        item = kind.item_type if isinstance(kind, inspect.ListType) else None
        if isinstance(item, inspect.StructType):
            if isinstance(value, list | tuple):
                return _items(item.cls, value, path, origins, root)
            if isinstance(value, Mapping):
                raise origins.error(path, value, f"must be an array of tables: write [[{path}]]")
    try:
        return msgspec.convert(value, hint)
    # `convert` raises UnicodeError for some texts where a number belongs, and AttributeError for a
    # value that can be indexed, such as an array, because it asks the value for its keys.
    except (msgspec.ValidationError, UnicodeError, AttributeError) as error:
        raise origins.error(path, value, rule(hint, value)) from error


def _items(
    schema: type[msgspec.Struct],
    entries: list[Any] | tuple[Any, ...],
    path: str,
    origins: Origins,
    root: type[msgspec.Struct] | None,
) -> list[object]:
    faults, items, kinds = Faults(), [], members(schema)
    for index, entry in enumerate(entries):
        with faults:
            items.append(_value(schema, kinds, entry, join(path, index), origins, root))
    faults.tell()
    return items


def _strange(
    name: str,
    value: object,
    path: str,
    siblings: list[str],
    origins: Origins,
    root: type[msgspec.Struct] | None,
) -> Iterator[ConfigError]:
    """What is wrong with a key that the table does not have."""
    here = join(path, name)
    if root is not None and (moved := list(moved_keys(here, value))):
        yield from (origins.error(key, given, told) for key, given, told in moved)
    else:
        yield origins.error(here, value, _unknown(name, path, siblings, root))


def _unknown(name: str, path: str, siblings: list[str], root: type[msgspec.Struct] | None) -> str:
    near = nearest(name, siblings)
    if near:
        return f"unknown key; did you mean {shown(join(path, near))}?"
    elsewhere: dict[str, list[str]] = {}
    for key in _keys(root) if root else ():
        elsewhere.setdefault(key.rpartition(".")[2], []).append(key)
    near = nearest(name, elsewhere, cutoff=0.8)  # a key of another table must be very similar
    if near and len(elsewhere[near]) == 1:  # one of several would be a guess
        return f"unknown key; did you mean {elsewhere[near][0]}?"
    told = f"unknown key; {shown(path) or 'a configuration'} has {', '.join(siblings)}"
    if "options" in siblings:
        told += f"; an option of what is chosen there is {shown(join(join(path, 'options'), name))}"
    return told


def _keys(schema: type[msgspec.Struct], path: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(schema):
        here = join(path, field.encode_name)
        yield here
        for kind in members(field.type):
            if isinstance(kind, inspect.StructType):
                yield from _keys(kind.cls, here)
