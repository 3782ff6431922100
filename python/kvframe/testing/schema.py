"""Whether a policy's options form a complete schema: defaults, descriptions, no unknown keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from kvframe.testing.report import PromiseError
from kvframe.testing.subject import Subject

_NUMBERS = (inspect.IntType, inspect.FloatType)


def check_schema(subject: Subject) -> None:
    """Every option has a default and a description; unknown ones are refused.

    Raises:
        PromiseError: An option breaks one of these rules.
    """
    descriptor, schema = subject.descriptor, subject.descriptor.options
    if not descriptor.summary.strip():
        raise PromiseError(
            "options", "the descriptor's summary is empty: say in a line what is evicted first"
        )
    if schema is None:
        if subject.options:
            raise PromiseError(
                "options", f"options {sorted(subject.options)} given, and it takes none"
            )
        return
    info = inspect.type_info(schema)
    assert isinstance(info, inspect.StructType)
    name = schema.__name__
    if not info.forbid_unknown_fields:
        raise PromiseError(
            "options", f"{name} takes unknown options: add forbid_unknown_fields=True"
        )
    if not schema.__struct_config__.frozen:
        raise PromiseError("options", f"{name} can be changed after its check: add frozen=True")
    for field in info.fields:
        if field.required and field.encode_name not in subject.options:
            raise PromiseError("options", f"{name}.{field.encode_name} has no default")
        if not _described(field.type):
            raise PromiseError(
                "options", f"{name}.{field.encode_name} has no description: add msgspec.Meta(...)"
            )


def limits(subject: Subject) -> Iterator[Subject]:
    """The policy with one numeric option at a time at its lower or upper limit.

    A value that the schema refuses together with the other options' is left out.
    """
    schema = subject.descriptor.options
    if schema is None:
        return
    info = inspect.type_info(schema)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        for value in _limits(field.type):
            options = {**subject.options, field.encode_name: value}
            try:
                msgspec.convert(options, schema)
            except (msgspec.ValidationError, ValueError):
                continue
            yield Subject(subject.loaded, options)


def _described(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        extra = kind.extra_json_schema or {}
        return bool(extra.get("description")) or _described(kind.type)
    return False


def _limits(kind: inspect.Type) -> Iterator[Any]:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, _NUMBERS):
        yield from (value for value in (kind.ge, kind.le) if value is not None)
