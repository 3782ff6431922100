"""Every option of the configuration reaches the core, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kvframe import Config, KVCacheManager, Registry
from kvframe.policies import BatchedEviction
from kvframe.policies.builtin import BUILTIN

from .helpers import registry

SERVING = [policy.name for policy in BUILTIN if not policy.replay_only]
ELSEWHERE = {
    "model": "turns bytes into blocks before the core is built",
    "plugins": "decides what is loaded before the core is built",
    "prefix": "says who is asked before the core is",
    "tenants": "is told by kv.tenants.rows(), resolved to blocks",
    "security": "says what the configuration itself refuses",
    "tiers": "says what is below the core's pool, which knows nothing of it",
    "admission.on_error": "says what becomes of an error on its way out of the core",
    "admission.budget_ms": "is kept by whoever calls the policy",
    "eviction.budget_ms": "is kept by whoever calls the policy",
    "groups.name": "names a table in the configuration; calls name groups by number",
    "groups.layers": "turns bytes into blocks before the core is built",
    "groups.page_bytes": "turns bytes into blocks before the core is built",
}
"""Options that are not the core's, and where they go."""

ECHO: dict[str, tuple[str, list[tuple[Any, Any]]]] = {
    "cache.block_size": ("block_size", [(1, 1), (48, 48), (65536, 65536)]),
    "cache.capacity": (
        "blocks",
        [(1, 1), (77, 77), (2**32 - 1, 2**32 - 1), ({"max_seq_len": 33, "max_requests": 2}, 6)],
    ),
    "cache.hash": ("hash", [(n, n) for n in ("sha256", "blake3", "xxh3-128")]),
    "cache.index": ("index", [("radix", "radix"), ("hash", "hash")]),
    "cache.prefix_caching": ("prefix_caching", [(False, False), (True, True)]),
    "cache.null_block": ("null_block", [(True, True), (False, False)]),
    "cache.weight_version": ("weight_version", [("é v2", "é v2")]),
    "cache.event_log": ("event_log", [(True, True), (False, False)]),
    "cache.remap_duplicates": ("remap_duplicates", [(True, True), (False, False)]),
    "cache.keep_duplicates": ("keep_duplicates", [(True, True), (False, False)]),
    "cache.partial_hits": ("partial_hits", [(True, True), (False, False)]),
    "groups.kind": (
        "groups",
        [(kind, [{"kind": kind, "block_size": 16}]) for kind in ("full", "state")],
    ),
    "groups.window": (
        "groups",
        [(100, [{"kind": "sliding_window", "block_size": 16, "window": 100}])],
    ),
    "groups.chunk": ("groups", [(64, [{"kind": "chunked", "block_size": 16, "chunk": 64}])]),
    "groups.sink": (
        "groups",
        [(4, [{"kind": "sink_window", "block_size": 16, "sink": 4, "window": 8}])],
    ),
    "groups.block_size": ("groups", [(48, [{"kind": "full", "block_size": 48}])]),
    "groups.interval": (
        "groups",
        [(n, [{"kind": "state", "block_size": 16, "interval": n}]) for n in (0, 32)],
    ),
    "groups.lag": ("groups", [(1, [{"kind": "full", "block_size": 16, "lag": 1}])]),
    "eviction.policy": ("policy", [(n, n) for n in SERVING]),
    "eviction.on_error": ("on_error", [("raise", "raise"), ("fallback", "fallback")]),
    "eviction.window": ("window", [(0, 0), (31, 31), (1024, 1024)]),
    "admission.policy": ("admission", [(n, n) for n in ("always", "second-use", "size")]),
    "admission.options": ("admission_options", [({"uses": 5}, 5)]),
    "pressure.low": ("low", [(0.5, 0.5)]),
    "pressure.high": ("high", [(0.8, 0.8)]),
    "pressure.critical": ("critical", [(0.9, 0.9), (1.0, 1.0)]),
    "observe.statistics": ("statistics", [(True, True), (False, False)]),
    "observe.ghosts": ("ghosts", [(0, 0), (99, 99)]),
    "observe.sample": ("sample", [(0, 0), (64, 64)]),
    "retention.pin_cap": ("pin_cap", [(0.0, 0.0), (0.25, 0.25)]),
    "retention.sessions": ("sessions", [(True, True), (False, False)]),
    "pressure.reserve": ("reserve", [(0, 0), (17, 17)]),
    "eviction.options": ("policy_options", [({"protected_uses": 5}, 5)]),
}
"""Each option: its name in `options()`, and values with what the core must say."""


class Mine(BatchedEviction):
    def score(self, candidates: Any, out: Any) -> None:
        out[:] = 0


def leaves(schema: type[msgspec.Struct], path: str = "") -> Iterator[str]:
    """Every key of the configuration. A table of alternatives (capacity) is one key."""
    for field in msgspec.structs.fields(schema):
        here = f"{path}.{field.encode_name}" if path else field.encode_name
        kind = msgspec.inspect.type_info(field.type)
        if isinstance(kind, msgspec.inspect.UnionType):
            structs = [t for t in kind.types if isinstance(t, msgspec.inspect.StructType)]
            kind = structs[0] if len(structs) == len(kind.types) - 1 == 1 else kind
        if isinstance(kind, msgspec.inspect.ListType):
            kind = kind.item_type
        if isinstance(kind, msgspec.inspect.StructType):
            yield from leaves(kind.cls, here)
        else:
            yield here


def is_elsewhere(key: str) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in ELSEWHERE)


@pytest.mark.scenario("T37")
def test_every_key_of_the_schema_is_echoed_or_accounted_for() -> None:
    keys = set(leaves(Config))
    assert {key for key in keys if not is_elsewhere(key)} == set(ECHO)
    for name in ELSEWHERE:
        assert any(key == name or key.startswith(f"{name}.") for key in keys), name


def sections(key: str, value: Any) -> dict[str, Any]:
    section, name = key.split(".")
    if key == "eviction.window":
        return {"eviction": {"policy": "mine", "window": value}}
    if key == "eviction.options":
        return {"eviction": {"policy": "slru", "options": value}}
    if key == "admission.options":
        return {"admission": {"policy": "second-use", "options": value}}
    kinds: dict[str, dict[str, Any]] = {
        "groups.window": {"kind": "sliding_window"},
        "groups.chunk": {"kind": "chunked"},
        "groups.sink": {"kind": "sink_window", "window": 8},
        "groups.interval": {"kind": "state"},
    }
    if key in kinds:
        return {"groups": [{"name": "g", **kinds[key], name: value}]}
    if section == "groups":
        return {"groups": [{"name": "g", name: value}]}
    return {section: {name: value}}


def built(known: Registry | None = None, **tables: Any) -> dict[str, Any]:
    from kvframe import Resolved

    kv = KVCacheManager(Resolved.load(None, env={}, registry=known, **tables))
    return kv.inspect.options()


@pytest.mark.scenario("T37")
@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [(key, value, told) for key, (_, cases) in ECHO.items() for value, told in cases],
)
def test_an_option_is_told_back_by_the_core(
    key: str, value: Any, expected: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = built(registry("mine", lambda _: Mine()), **sections(key, value))
    name = ECHO[key][0]
    assert name in options, f"{key} does not reach the core, or the core does not tell it"
    told = options[name]
    if key == "eviction.options":
        assert dict(told) == {"protected_uses": expected}
    elif key == "admission.options":
        assert told["uses"] == expected
    else:
        assert told == expected


def test_defaults_are_told_as_the_file_would_say_them(tmp_path: Any) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text("[cache]\ncapacity = 12\n")
    kv = KVCacheManager.from_toml(file, cache={"block_size": 8})
    options = kv.inspect.options()
    assert (options["blocks"], options["block_size"], options["hash"]) == (12, 8, "sha256")
    assert options["groups"] == [{"kind": "full", "block_size": 8}]
    assert (kv.block_size, kv.inspect.resolved.capacity_blocks) == (8, 12)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weight: float = 1.5
    label: str = "x"


def test_options_of_a_policy_in_python_reach_it_and_are_told(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    got: list[Any] = []

    def make(options: Options) -> Mine:
        got.append(options)
        return Mine()

    options = built(
        registry("tuned", make, Options),
        eviction={"policy": "tuned", "options": {"weight": 2}},
    )
    assert got == [Options(weight=2.0)]
    assert dict(options["policy_options"]) == {"weight": 2.0, "label": "x"}
