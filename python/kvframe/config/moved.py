"""Keys that were renamed, and the sentence that gives each new name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvframe.config.origins import join

_MOVED = {
    "policy": "eviction",
    "policy.eviction": "eviction.policy",
    "policy.on_error": "eviction.on_error",
    "policy.window": "eviction.window",
    "policy.budget_ms": "eviction.budget_ms",
    "policy.options": "eviction.options",
    "cache.fingerprint": "cache.weight_version",
    "tiers.eviction_options": "tiers.eviction.options",
    "tiers.admission_options": "tiers.admission.options",
}

_TABLES = {"eviction", "admission", "prefix", "tiers.eviction", "tiers.admission"}
"""Tables that may be taken for the name of a policy."""


def moved_keys(path: str, value: object) -> Iterator[tuple[str, object, str]]:
    """The old keys at ``path``: each with its value, and the sentence with the new key."""
    name = _without_numbers(path)
    if name == "policy" and isinstance(value, Mapping) and value:
        for key, item in value.items():
            here = join(path, str(key))
            yield here, item, _sentence(_MOVED.get(here, "eviction"))
    elif name.startswith("tiers.") and name in _MOVED:
        table = _MOVED[name].removeprefix("tiers.")
        yield path, value, _sentence(f"{path.rpartition('.')[0]}.{table}")
    elif name in _MOVED:
        yield path, value, _sentence(_MOVED[name])


def moved_text(path: str) -> str | None:
    """What to write if a text is at ``path`` and a table belongs there; None if unknown."""
    name = _without_numbers(path)
    return f"must be a table: write {path}.policy" if name in _TABLES else None


def _sentence(key: str) -> str:
    told = f"is now {key}"
    if key == "eviction.options":
        told += ", which holds those of the chosen policy, without its name"
    return told


def _without_numbers(path: str) -> str:
    return re.sub(r"\[\d+\]", "", path)
