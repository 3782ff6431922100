"""The traffic that foresight never saw stays what it was, and is judged as it says."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from perf.results import FOLDER, last_record
from perf.unseen.__main__ import groups, row, told
from perf.unseen.families import FAMILIES, made, trace
from perf.unseen.judge import GATED, GATES, SHARES, Place, judged, online, together
from perf.unseen.prompts import BLOCK, Author, Prompt, arrivals, rows

from kvframe import _core

ROOT = FOLDER.parent.parent
RECORD = last_record("unseen")

whole = cache(trace)


def some(family: str, seed: int) -> list[Prompt]:
    """The first requests that a family writes."""
    return list(islice(FAMILIES[family](Author(f"{family} {seed}")), 500))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_always_writes_the_same(family: str) -> None:
    assert some(family, 0) == some(family, 0)
    assert some(family, 0) != some(family, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_a_trace_of_a_few_hours(family: str) -> None:
    found = whole(family, 0)
    columns = found.columns()
    assert 5_000 <= found.requests <= 20_000
    assert found.block_size == BLOCK
    assert not found.ids_repeat
    assert (np.diff(columns["timestamp_ms"]) >= 0).all()
    assert columns["timestamp_ms"][-1] > 1_800_000
    assert 256 < found.input_tokens / found.requests < 100_000


@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_has_changed_since_it_was_replayed(family: str) -> None:
    recorded = {
        one["capacity"]: one["whole"]["lru"]
        for one in RECORD["rows"]
        if one["trace"] == f"{family} 0"
    }
    assert len(recorded) == len(SHARES)
    for capacity, hits in recorded.items():
        got = _core.replay(whole(family, 0), "lru", capacity, "engine")
        assert round(100 * got["hit_tokens"] / got["input_tokens"], 3) == hits


def test_the_record_has_every_policy_and_seed() -> None:
    names = {*online(), *(f"{policy}+{gate}" for policy in GATED for gate in GATES)}
    for family in FAMILIES:
        for seed in range(3):
            places = [one for one in RECORD["rows"] if one["trace"] == f"{family} {seed}"]
            assert [one["share"] for one in places] == list(SHARES)
            assert all(names <= set(one["whole"]) for one in places)


def test_the_page_says_what_the_record_says() -> None:
    text = (ROOT / "docs" / "explanation" / "default-policy.md").read_text()
    lines = text[text.index("## On traffic written after") :].splitlines()
    for name, one in RECORD["judgements"].items():
        head = {"all families": "| all families", "files": "| real agent"}.get(name, f"| `{name}`")
        (line,) = (line for line in lines if line.startswith(head))
        cells = [cell.strip() for cell in line.split("|")[2:-1]]
        figures = [one["gain"], one["worst"][0], one["worst_later"][0], one["timed"]]
        figures += [one["worst_timed"][0], one["ahead"]]
        assert [float(cells[at]) for at in (0, 3, 4, 5, 6, 7)] == [
            pytest.approx(figure, abs=0.0051) for figure in figures
        ]
        assert cells[1] == f"{one['low']:+.2f} to {one['high']:+.2f}"
        assert cells[2] == f"{one['better']}, {one['worse']} of {one['cells']}"


def test_prompts_share_the_blocks_that_they_begin_with() -> None:
    author = Author("texts")
    head, one, other = author.text(300), author.text(700), author.text(700)
    prompts = [
        Prompt(2.0, (head, other), 5, "later"),
        Prompt(1.0, (head, one), 5),
        Prompt(3.0, (head, one, other), 5),
    ]
    first, second, third = (json.loads(line) for line in rows(prompts))
    assert [len(found["hash_ids"]) for found in (first, second, third)] == [3, 3, 6]
    assert first["hash_ids"][:1] == second["hash_ids"][:1]
    assert not set(first["hash_ids"][1:]) & set(second["hash_ids"][1:])
    assert third["hash_ids"][:3] == first["hash_ids"]
    assert [first["timestamp"], second["session_id"]] == [1_000, "later"]


def test_arrivals_swing_with_the_day() -> None:
    times = np.array(arrivals(Author("day").random, 4_000, 86_400, 0.9))
    assert len(times) == 4_000
    assert (np.diff(times) >= 0).all()
    assert (times < 43_200).sum() > 2 * (times >= 43_200).sum()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Place]:
    """A small part of a family under three policies."""
    file: Path = tmp_path_factory.mktemp("unseen") / "small.jsonl"
    file.write_bytes(b"".join(made("batches", 0).splitlines(keepends=True)[:1_500]))
    return judged("batches", str(file), "small", ("lru", "foresight", "mru"), 0)


def test_a_place_says_what_replays_say(places: list[Place], tmp_path: Path) -> None:
    data = b"".join(made("batches", 0).splitlines(keepends=True)[:1_500])
    small = _core.Trace.parse(data, "small", BLOCK)
    gated = {f"{policy}+{gate}" for policy in GATED for gate in GATES}
    for place in places:
        assert set(place.whole) == set(place.later) == {"lru", "foresight", "mru"} | gated
        for policy in ("lru", "foresight", "mru"):
            got = _core.replay(small, policy, place.capacity, "engine")
            assert place.whole[policy] == pytest.approx(
                100 * got["hit_tokens"] / got["input_tokens"]
            )
        got = _core.replay(small, "foresight", place.capacity, "timed")
        assert place.timed[1] == pytest.approx(100 * got["hit_tokens"] / got["input_tokens"])
        assert place.best != "foresight"
        assert place.optimum >= max(place.whole.values()) - 0.01


def test_a_judgement_sums_places_up(places: list[Place]) -> None:
    judgement = together(places)
    assert judgement.cells == len(SHARES)
    assert judgement.low <= judgement.gain <= judgement.high
    assert judgement.worst[0] == min(place.gain for place in places)
    assert judgement.means["foresight"] - judgement.means["lru"] == pytest.approx(judgement.gain)
    assert list(judgement.means.values()) == sorted(judgement.means.values(), reverse=True)
    assert set(groups(places)) == {"batches", "all families"}
    assert f"{judgement.gain:+.2f}" in told({"batches": judgement})
    assert row(places[0])["capacity"] == places[0].capacity
