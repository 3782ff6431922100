"""Options that fit one part of a trace only are said to."""

from __future__ import annotations

import json

import pytest

from kvframe import _core
from kvframe.bench.edges import edges
from kvframe.bench.locate import choose_all
from kvframe.bench.traces import Source
from kvframe.bench.tune import Tuned, combinations, tune
from kvframe.errors import ConfigError
from kvframe.registry import Registry

from .conftest import Command
from .made import text


def test_every_combination() -> None:
    assert combinations("a", {"x": ["1", "2"], "y": ["3"]}) == ["a:x=1,y=3", "a:x=2,y=3"]
    assert combinations("a:z=0", {"x": ["1"]}) == ["a:z=0,x=1"]
    with pytest.raises(ConfigError, match="1001 combinations"):
        combinations("a", {"x": list(map(str, range(1001)))})


def scanned(runs: int, hot: range, at: int = 0) -> list[dict[str, object]]:
    """Prompts that come twice, and again after prompts that never do."""
    rows: list[dict[str, object]] = []
    for run in range(runs):
        for ids in (
            *[[1_000 + hot[run % len(hot)]]] * 2,
            [100_000 + at + run],
            [200_000 + at + run],
        ):
            rows.append({"timestamp": at + run, "input_length": 17, "output_length": 1,
                         "hash_ids": ids, "block_size": 16})  # fmt: skip
    return rows


def tuned(rows: list[dict[str, object]]) -> Tuned:
    made = Source("made", "", _core.Trace.parse(text(rows), "made", None))
    return tune(made, "slru:protected_uses=4294967295", {"protected_uses": ["2"]}, [12], "engine")


def test_what_pays_throughout_holds() -> None:
    """Scans would push all out, unless two uses protect."""
    found = tuned(scanned(1_000, range(6)))
    assert found.best.endswith("protected_uses=2")
    assert not found.overfits
    assert found.held[0].better
    assert "that holds" in found.sentence


def test_the_edge_of_what_was_tried_is_told() -> None:
    """Not where nothing lies beyond, and not where the defaults are best."""
    chosen = choose_all("eviction", [f"slru:protected_uses={n}" for n in (1, 2, 5)], Registry())
    assert edges(chosen[0], chosen, ["protected_uses"]) == [], "none is below 1"
    assert edges(chosen[1], chosen, ["protected_uses"]) == []
    assert edges(chosen[2], chosen, ["protected_uses"]) == [
        "slru:protected_uses=5 has the largest protected_uses of those tried: try beyond 5."
    ]
    assert edges(chosen[2], chosen[2:], ["protected_uses"]) == [], "a single value is no grid"
    made = Source("made", "", _core.Trace.parse(text(scanned(300, range(6))), "made", None))
    default, values = "slru:protected_uses=4294967295", {"protected_uses": ["4294967294", "2"]}
    found = tune(made, default, values, [12], "engine")
    assert found.best.endswith("protected_uses=2")
    assert "has the least protected_uses of those tried: try below 2." in found.remarks[0]


def test_what_only_fits_the_first_part_does_not() -> None:
    """Later nothing comes again."""
    once = scanned(1_000, range(10, 2_000), at=1_000)
    found = tuned([*scanned(1_000, range(6)), *once])
    assert found.gain > 0.1
    assert found.overfits
    assert "that does not hold: keep the defaults" in found.sentence


def test_what_may_be_chance_is_not_told_apart() -> None:
    """Later one prompt alone comes again."""
    few = scanned(7, range(20, 26), at=1_000)
    once = scanned(993, range(100, 2_000), at=2_000)
    found = tuned([*scanned(1_000, range(6)), *few, *once])
    (against,) = (row for row in found.held if row.baseline == found.default)
    assert against.low <= 0 < against.high
    assert not found.overfits
    assert ": the two are not told apart there: keep the defaults, or tune on " in found.sentence


def test_a_tie_in_the_first_part_goes_to_the_defaults() -> None:
    """Nothing is evicted before the second part, so nothing there tells settings apart."""
    rows = [*scanned(3, range(6)), *scanned(500, range(10, 16), at=1_000)]
    made = Source("made", "", _core.Trace.parse(text(rows), "made", None))
    options = {"protected_uses": ["2", "3"]}
    found = tune(made, "slru:protected_uses=4294967295", options, [12], "engine", 0.005)
    assert len({setting.held_out for setting in found.settings}) > 1
    assert found.best == found.default == found.settings[0].policy
    told = "all settings hit the same in the first part: it cannot choose; keep the defaults"
    assert found.sentence == told
    assert [row.baseline for row in found.held] == ["lru"]


@pytest.mark.parametrize("command", [("tune", "slru", "--option", "protected_uses=2"), ("curve",)])
def test_several_traces_are_refused(bench: Command, command: tuple[str, ...]) -> None:
    done = bench(*command, "--trace", "conversation,synthetic")
    assert done.returncode == 2
    assert "--trace conversation,synthetic: must be one trace; `kvframe bench run` takes" in (
        done.stderr
    )


def test_options_that_change_nothing_are_said_to(bench: Command) -> None:
    done = bench("tune", "slru", "--option", "protected_uses=2,3", "--capacity", "10000000")
    assert "all 2 settings hit the same in every request: no option acts here" in done.stdout


def test_the_command_tells_it(bench: Command) -> None:
    done = bench("tune", "slru", "--option", "protected_uses=2,3", "--capacity", "4000", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {setting["policy"] for setting in told["settings"]} == {
        "slru", "slru:protected_uses=2", "slru:protected_uses=3", "lru",
    }  # fmt: skip
    assert (told["first_part"], told["held_out"]) == (6_015, 6_016)
    assert bench("tune", "slru", "--option", "protected_uses").returncode == 2


def test_each_figure_says_which_requests_it_is_of(bench: Command) -> None:
    done = bench("tune", "slru", "--option", "protected_uses=3", "--trace", "synthetic",
                 "--capacity", "1000,4000", "--fit", "0.25")  # fmt: skip
    title, _, header, *_ = done.stdout.splitlines()
    assert title == "synthetic: engine mode, 1,000, 4,000 blocks; token hit rates"
    assert header.split("  ")[-2:] == ["first part", "held out"]
    told = "first part: requests 1 to 998, by which settings are ranked. held out: requests 999 to "
    told += "3,993, in the cache that the first part has left; 95% intervals by 2,000 paired "
    assert f"{told}resamplings of " in done.stdout
