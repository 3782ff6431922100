"""The compiled core refuses what it has no use for, by the key and the nearest right spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kvframe import ConfigError, KVFrameError, _core
from kvframe.registry import Registry

pytestmark = pytest.mark.scenario("F38")

TRACE = b'{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}\n'

SMALL = {"cache.capacity": 4, "cache.block_size": 4}
LRU = {**SMALL, "eviction.policy": "lru"}

EVICTION: dict[str, Callable[[str, Any], object]] = {
    "Manager": lambda name, options: _core.Manager(
        {**SMALL, "eviction.policy": name, "eviction.options": options}
    ),
    "TierPolicy": lambda name, options: _core.TierPolicy(
        blocks=4, block_size=4, policy=name, policy_options=options
    ),
    "TierPages": lambda name, options: _core.TierPages(
        pages=4, block_size=4, in_flight=4, policy=name, policy_options=options
    ),
    "Slots": lambda name, options: _core.Slots(
        slots=4, length=4, least_copy=0, fingerprint=b"", policy=name, policy_options=options
    ),
    "replay": lambda name, options: _core.replay(
        _core.Trace.parse(TRACE, "t"), name, 4, "engine", options
    ),
}

ADMISSION: dict[str, Callable[[str, Any], object]] = {
    "Manager": lambda name, options: _core.Manager(
        {**LRU, "admission.policy": name, "admission.options": options}
    ),
    "TierGate": _core.TierGate,
    "replay": lambda name, options: _core.replay(
        _core.Trace.parse(TRACE, "t"), "lru", 4, "engine", admission=name, admission_options=options
    ),
}

WRONG = [
    ({"protected_use": 3}, "slru", "protected_use: unknown option; did you mean protected_uses?"),
    ({"strange": 3}, "slru", "strange: unknown option; slru has protected_uses"),
    ({"protected_uses": 3}, "lru", "protected_uses: unknown option; lru takes no options"),
    ({"protected_uses": -1}, "slru", "protected_uses = -1: must be a whole number between 0 and "),
    ({"protected_uses": 0}, "slru", "protected_uses = 0: must be between 1 and 4294967295"),
    ({"in_percent": 101}, "2q", "in_percent = 101: must be between 0 and 100"),
    ({"protected_uses": "2"}, "slru", "protected_uses = '2': must be a whole number between 0 "),
    ({"protected_uses": 2**6000}, "slru", "protected_uses = "),
    ({3: 3}, "slru", " 3: an option is named by a string"),
    ({"x" * 10_000: 3}, "lru", "x" * 60 + "...: unknown option; lru takes no options"),
]


@pytest.mark.parametrize("kind", EVICTION)
@pytest.mark.parametrize(("options", "policy", "said"), WRONG, ids=range(len(WRONG)))
def test_unknown_options_of_an_eviction_policy(
    kind: str, options: Any, policy: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        EVICTION[kind](policy, options)
    start = "policy_options:" if said.startswith(" ") else "policy_options."
    assert str(caught.value).startswith(start + said)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", ADMISSION)
@pytest.mark.parametrize(
    ("options", "policy", "said"),
    [
        ({"use": 2}, "second-use", "use: unknown option; did you mean uses?"),
        ({"uses": 2}, "always", "uses: unknown option; always takes no options"),
        ({"uses": None}, "second-use", "uses = None: must be a whole number"),
    ],
)
def test_unknown_options_of_an_admission_policy(
    kind: str, options: Any, policy: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ADMISSION[kind](policy, options)
    assert str(caught.value).startswith(f"admission_options.{said}")


def test_every_option_of_a_schema_is_taken() -> None:
    known = Registry()
    for row in known.list():
        if row.way != "builtin" or row.kind not in ("eviction", "admission"):
            continue
        if row.kind == "eviction":
            schema, made = known.eviction(row.name).descriptor.options, EVICTION
        else:
            schema, made = known.admission(row.name).descriptor.options, ADMISSION
        if schema is not None:
            values = msgspec.to_builtins(schema())
            made["Manager"](row.name, {name: v for name, v in values.items() if v is not None})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"windw": 4}, "groups[1].windw: unknown option; did you mean window?"),
        ({"colour": 4}, "groups[1].colour: unknown option; a group has kind, block_size, window"),
        (
            {"kind": "sliding_windw"},
            'groups[1].kind = "sliding_windw": must be one of full, sliding_window, chunked, '
            "sink_window, state, cross; did you mean sliding_window?",
        ),
        ({"kind": 3}, "groups[1].kind = 3: must be one of full, "),
        ({"lag": -1}, "groups[1].lag = -1: must be a whole number between 0 and 4294967295"),
        ({"block_size": 6}, "groups[1].block_size = 6: must be a multiple of cache.block_size = 4"),
    ],
)
def test_unknown_keys_of_a_group(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _core.Manager({**LRU, "groups": [{"kind": "full"}, table]})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ({"eviction.policy": "lur"}, "lru"),
        ({"cache.hash": "sha265"}, "sha256"),
        ({"cache.index": "radx"}, "radix"),
        ({"cache.indx": "radix"}, "cache.index"),
        ({"admission.policy": "alway"}, "always"),
    ],
)
def test_names_have_a_nearest_spelling(given: dict[str, Any], near: str) -> None:
    with pytest.raises(ConfigError, match=rf"did you mean {near}\?$"):
        _core.Manager({**LRU, **given})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cache.capacity": 0}, "cache.capacity = 0: must be between 1 and 4294967295"),
        ({"cache.capacity": True}, "blocks = true: must be a whole number between 0 and 42949"),
        ({"cache.hash": 3}, "hash = 3: must be a text"),
        ({"cache.null_block": 1}, "null_block = 1: must be true or false"),
        ({"pressure.low": "x"}, 'low = "x": must be a number'),
        ({"pressure.high": 0.5}, "pressure.high = 0.5: must be above low = 0.7"),
        ({"pressure.reserve": 4}, "pressure.reserve = 4: must be below the 4 blocks of the pool"),
        ({"retention.pin_cap": 2}, "retention.pin_cap = 2: must be 0 to 1"),
        ({"observe.ghosts": [3]}, "observe.ghosts = [3]: is no value of an option"),
        ({"groups": [{"kind": "cross"}]}, 'groups: at least one group must not be kind = "cross"'),
        ({"groups": [{"kind": "state", "lag": 1}]}, "groups[0].lag = 1: a state group does not"),
        ({"groups": [{"window": 4}]}, "groups[0].window = 4: only valid with kind = "),
    ],
)
def test_a_rule_of_the_core_names_the_key(options: dict[str, Any], told: str) -> None:
    with pytest.raises(KVFrameError) as caught:
        _core.Manager({**LRU, **options})
    assert str(caught.value).startswith(told)


def test_a_manager_without_a_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^eviction.policy: missing$"):
        _core.Manager(SMALL)


def test_every_fault_is_told_at_once() -> None:
    options = {"cache.block_size": 0, "pressure.low": 0.0, "pressure.critical": 1.5}
    assert _core.check_options(options) == [
        ("cache.block_size", True, "must be between 1 and 65536"),
        ("pressure.low", True, "must be above 0"),
        ("pressure.critical", True, "must be at most 1"),
    ]
    assert _core.check_options({}) == []
