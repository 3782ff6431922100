"""A resolved configuration as TOML, each value with where it came from, and the JSON schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kvframe.config.origins import DEFAULT, join
from kvframe.config.policies import Chosen
from kvframe.config.rules import reusable_unit
from kvframe.config.sizes import rounded
from kvframe.config.text import key, toml
from kvframe.config.tree import Config, Resolved
from kvframe.registry import KINDS, Kind, Loaded, Registry

_SECTIONS: dict[str, Kind] = {
    "EvictionConfig": "eviction",
    "AdmissionConfig": "admission",
    "TierAdmissionConfig": "admission",
    "PrefixConfig": "prefix",
    "TierConfig": "store",
}
"""Tables that name a policy or a store, beside its options."""


def show(resolved: Resolved) -> str:
    """The whole configuration as TOML that resolves to the same; origins stand in comments."""
    rows = list(_rows(resolved.config.plain(), resolved))
    width = max(len(line) for line, origin in rows if origin)
    lines = [f"{line:<{width}}  # {origin}" if origin else line for line, origin in rows]
    return "\n".join([*_summary(resolved), *lines])


def json_schema(registry: Registry) -> dict[str, Any]:
    """The JSON schema of kvframe.toml, for editors.

    The options of every policy and store that ``registry`` can import are part of it: each where
    the key beside them names it.
    """
    options: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for row in registry.list():
        if row.kind is not None and row.state == "ok":
            loaded: Loaded[Any] = getattr(registry, row.kind)(row.name)
            options[row.kind].append(_where_named(row.kind, row.name, loaded.descriptor.options))
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= msgspec.json.schema(Config)
    for section, kind in _SECTIONS.items():
        schema["$defs"][section]["allOf"] = options[kind]
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition["description"].split())
    return schema


def _where_named(kind: Kind, name: str, struct: type[msgspec.Struct] | None) -> dict[str, Any]:
    key = "store" if kind == "store" else "policy"
    return {
        "if": {"properties": {key: {"const": name}}, "required": [key]},
        "then": {"properties": {"options": _options_schema(struct)}},
    }


def _options_schema(struct: type[msgspec.Struct] | None) -> dict[str, Any]:
    if struct is None:
        return {"type": "object", "additionalProperties": False}
    (schema,), definitions = msgspec.json.schema_components([struct], ref_template="{name}")
    name = schema.pop("$ref", None)
    return definitions.pop(name) if name else schema


def _summary(resolved: Resolved) -> list[str]:
    cache = resolved.config.cache
    blocks = resolved.capacity_blocks
    size = f"{blocks:,} blocks of {cache.block_size} tokens ({blocks * cache.block_size:,} tokens"
    if resolved.block_bytes is not None:
        size += f", {rounded(blocks * resolved.block_bytes)}"
    unit = reusable_unit(resolved.config)
    shared = [] if unit == cache.block_size else [f"# prefix hits are multiples of {unit} tokens"]
    padded = [
        f"# group {name}: {unused:,} of the {resolved.block_bytes:,} bytes of a page are padding"
        for name, unused in resolved.padding.items()
        if unused
    ]
    named: list[tuple[str, Chosen[Any]]] = [("eviction", resolved.eviction)]
    if resolved.admission.name != "always":
        named.append(("admission", resolved.admission))
    if resolved.prefix.loaded.descriptor.way != "builtin":
        named.append(("prefixes", resolved.prefix))
    return [
        f"# {_said_by(resolved)}",
        f"# {size})",
        *shared,
        *padded,
        *(f"# {what} by {chosen.name}: {_from(chosen.loaded)}" for what, chosen in named),
        *(f"# {path}: not checked, for a check imports no place" for path in resolved.unchecked),
    ]


def nothing_said(resolved: Resolved) -> bool:
    """Whether neither a file nor a variable gives any value."""
    return resolved.file is None and set(resolved.provenance.values()) == {DEFAULT}


def _said_by(resolved: Resolved) -> str:
    if nothing_said(resolved):
        return "no file and no variable: the defaults"
    return f"{resolved.file or 'no file'}: fine"


def _from(loaded: Loaded[Any]) -> str:
    if not loaded.is_imported:
        return f"{loaded.plugin}, not imported"
    origin = f"{loaded.distribution} {loaded.version}".rstrip()
    return f"{loaded.descriptor.way}, from {origin}"


def _rows(tables: dict[str, Any], resolved: Resolved, path: str = "") -> Iterator[tuple[str, str]]:
    origins = resolved.provenance
    below: list[tuple[str, str, Any]] = []
    for name, value in tables.items():
        here = join(path, name)
        if here == "cache.capacity" and isinstance(value, dict):
            below_origins = sorted({origins[join(here, part)] for part in value})
            yield f"{key(name)} = {toml(value)}", ", ".join(below_origins)
        elif isinstance(value, dict) and value:
            below.append((f"[{_header(here)}]", here, value))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            below += [(f"[[{_header(here)}]]", join(here, i), item) for i, item in enumerate(value)]
        else:
            yield f"{key(name)} = {toml(value)}", origins[here]
    for header, here, table in below:
        if any(not isinstance(item, dict) or not item for item in table.values()):
            yield "", ""
            yield header, ""
        yield from _rows(table, resolved, here)


def _header(path: str) -> str:
    """A table's name in TOML, where an item of an array is the last one above."""
    return re.sub(r"\[\d+\]", "", path)
