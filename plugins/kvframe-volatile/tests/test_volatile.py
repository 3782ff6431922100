"""The matcher: what it rewrites and what it leaves, in a manager, in a file, under the kit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from kvframe_volatile import Options, Volatile, kvframe_prefix

import kvframe
from kvframe.cli import main
from kvframe.config import Resolved
from kvframe.errors import ConfigError
from kvframe.policies import Prompts
from kvframe.testing import KindConformance

START, END = (90, 91), (95,)
MARKED = {"start": START, "end": END, "put": (7,), "longest": 8}


def steady(tokens: list[int], **options: Any) -> list[int] | None:
    """What the matcher makes of a prompt."""
    zeros = np.zeros(1, np.uint32)
    (made,) = Volatile(Options(**{**MARKED, **options})).normalise(
        Prompts(
            block_size=4,
            tokens=[np.array(tokens, np.uint32)],
            keys=None,
            lengths=np.array([len(tokens)]),
            salts=[""],
            sessions=zeros.astype(np.uint64),
            turns=zeros,
            request_classes=zeros,
            priorities=zeros.astype(np.int32),
        )
    )
    return None if made is None else made.tolist()


def managed(**options: Any) -> kvframe.KVCacheManager:
    prefix = {"policy": "volatile", "on_error": "raise", "options": options}
    return kvframe.KVCacheManager(
        Resolved.load(env={}, cache={"block_size": 16, "capacity": 4096}, prefix=prefix)
    )


@pytest.mark.scenario("F36")
@pytest.mark.parametrize(
    ("tokens", "options", "made"),
    [
        ([1, 90, 91, 20, 26, 95, 2], {}, [1, 90, 91, 7, 95, 2]),
        ([1, 90, 91, 95, 2], {}, [1, 90, 91, 7, 95, 2]),
        ([1, 90, 91, 7, 95, 2], {}, None),  # it reads so already
        ([1, 90, 91, 20, 95, 2, 90, 91, 21, 95], {}, [1, 90, 91, 7, 95, 2, 90, 91, 7, 95]),
        ([1, 90, 91, 20, 95], {"put": ()}, [1, 90, 91, 95]),
        ([1, 90, 91, 20, 21, 2, 3], {"end": ()}, None),
        ([1, 90, 91, *range(9), 95], {}, None),  # the end is too far
        ([1, 90, 91, *range(8), 95], {}, [1, 90, 91, 7, 95]),
        ([1, 90, 91, 90, 91, 20, 95], {}, [1, 90, 91, 7, 95]),  # a mark inside a span
        ([1, 2, 3, 90, 91, 20, 95], {"within": 4}, None),
        ([1, 2, 3, 90, 91, 20, 95], {"within": 5}, [1, 2, 3, 90, 91, 7, 95]),
        ([1, 90, 91], {}, None),
        ([90], {}, None),
        ([], {}, None),
        ([1, 90, 91, 20, 95], {"start": ()}, None),
    ],
)
def test_what_is_rewritten(
    tokens: list[int], options: dict[str, Any], made: list[int] | None
) -> None:
    assert steady(tokens, **options) == made
    if made is not None:
        assert steady(made, **options) in (None, made), "once is enough"


@pytest.mark.scenario("F36")
def test_what_follows_the_date_is_shared() -> None:
    """The figures of the README: 100 prompts of 1,000 tokens that differ in a date at token 20."""
    plain, mine = managed(), managed(start=[*START], end=[*END], put=[7])
    dice = np.random.default_rng(1)
    system = dice.integers(0, 80, 1000)
    for _ in range(100):
        date = dice.integers(0, 80, 6)
        prompt = np.concatenate([system[:18], START, date, END, system[27:]])
        for kv in (plain, mine):
            grant = kv.allocate(prompt)
            kv.step(commit=([grant.seq], [grant.prompt_tokens]), release=[grant.seq])
            kv.check_integrity()
    assert plain.stats.counters()["hit_tokens"] == 99 * 16
    assert mine.stats.counters()["hit_tokens"] == 99 * 992
    assert mine.stats.prefix_stats() == {"prefix_failures": 0, "prefix_wrong": 0}


@pytest.mark.scenario("F36")
def test_the_engine_is_told_what_to_compute() -> None:
    kv = managed(start=[*START], end=[*END], put=[7])
    told = kv.allocate([1, 90, 91, 20, 26, 95, 2]).prompt
    assert told is not None
    assert told.tolist() == [1, 90, 91, 7, 95, 2]
    assert kv.allocate([1, 2, 3]).prompt is None


def test_the_list_shows_it() -> None:
    rows = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).stdout)
    (row,) = (row for row in rows if row["name"] == "volatile")
    assert (row["kind"], row["way"], row["state"]) == ("prefix", "batched", "ok")
    assert row["distribution"] == "kvframe-volatile"


def test_options_from_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text(
        '[prefix]\npolicy = "volatile"\n[prefix.options]\nstart = [90, 91]\nend = [95]\n'
    )
    env = {"KVFRAME_PREFIX__OPTIONS__LONGEST": "8"}
    assert Resolved.load(file, env=env).prefix.options == Options(START, END, longest=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"longest": 0}, "prefix.options.longest = 0: must be between 1 and"),
        ({"start": [-1]}, "prefix.options.start"),
        ({"strat": [1]}, "did you mean prefix.options.start?"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        managed(**options)
    assert message in str(caught.value)


class TestConformance(KindConformance):
    """The kit's tests, with marks that its prompts hold."""

    policy = next(kvframe_prefix())
    options: ClassVar[Mapping[str, Any]] = {"start": [1], "end": [2], "put": [3]}
