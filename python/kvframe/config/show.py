"""A resolved configuration as TOML, each value with where it came from, and the JSON schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kvframe.config.origins import join
from kvframe.config.rules import reusable_unit
from kvframe.config.sizes import rounded
from kvframe.config.text import key, toml
from kvframe.config.tree import Config, Resolved
from kvframe.registry import Loaded, Registry


def show(resolved: Resolved) -> str:
    """The whole configuration as TOML that resolves to the same; origins stand in comments."""
    rows = list(_rows(resolved.config.plain(), resolved))
    width = max(len(line) for line, origin in rows if origin)
    lines = [f"{line:<{width}}  # {origin}" if origin else line for line, origin in rows]
    return "\n".join([*_summary(resolved), *lines])


def json_schema(registry: Registry) -> dict[str, Any]:
    """The JSON schema of kvframe.toml, for editors.

    The options of every policy that ``registry`` can import are part of it.
    """
    options: dict[str, dict[str, Any]] = {"eviction": {}, "admission": {}, "prefix": {}}
    for row in registry.list():
        if row.kind == "eviction" and row.state == "ok":
            struct = registry.eviction(row.name).descriptor.options
            options["eviction"][row.name] = _options_schema(struct)
        elif row.kind == "admission" and row.state == "ok":
            struct = registry.admission(row.name).descriptor.options
            options["admission"][row.name] = _options_schema(struct)
        elif row.kind == "prefix" and row.state == "ok":
            struct = registry.prefix(row.name).descriptor.options
            options["prefix"][row.name] = _options_schema(struct)
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= msgspec.json.schema(Config)
    sections = {
        "eviction": "PolicyConfig",
        "admission": "AdmissionConfig",
        "prefix": "PrefixConfig",
    }
    for kind, section in sections.items():
        schema["$defs"][section]["properties"]["options"]["properties"] = options[kind]
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition["description"].split())
    return schema


def _options_schema(struct: type[msgspec.Struct] | None) -> dict[str, Any]:
    if struct is None:
        return {"type": "object", "additionalProperties": False}
    (schema,), definitions = msgspec.json.schema_components([struct], ref_template="{name}")
    name = schema.pop("$ref", None)
    return definitions.pop(name) if name else schema


def _summary(resolved: Resolved) -> list[str]:
    cache, policy = resolved.config.cache, resolved.policy
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
    descriptor, gate, matcher = policy.descriptor, resolved.admission, resolved.prefix
    skipped = resolved.unchecked
    return [
        f"# {resolved.file or 'no file'}: fine",
        f"# {size})",
        *shared,
        *padded,
        f"# eviction by {descriptor.name}: {_from(policy)}",
        *(
            [f"# admission by {gate.descriptor.name}: {_from(gate)}"]
            if gate.descriptor.name != "always"
            else []
        ),
        *(
            [f"# prefixes by {matcher.descriptor.name}: {_from(matcher)}"]
            if matcher.descriptor.way != "builtin"
            else []
        ),
        *(f"# {name}: not checked, for its policy is not loaded" for name in skipped),
    ]


def _from(loaded: Loaded[Any]) -> str:
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
            below.append((f"[{here}]", here, value))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            below += [(f"[[{here}]]", join(here, i), item) for i, item in enumerate(value)]
        else:
            yield f"{key(name)} = {toml(value)}", origins[here]
    for header, here, table in below:
        if any(not isinstance(item, dict) or not item for item in table.values()):
            yield "", ""
            yield header, ""
        yield from _rows(table, resolved, here)
