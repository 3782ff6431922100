"""The benchmark from Python, and what it agrees with on the command line."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from kvframe import _core
from kvframe.bench.bootstrap import drawn_rates, simultaneous
from kvframe.bench.charts.paired import paired
from kvframe.bench.content import content
from kvframe.bench.study import Study
from kvframe.errors import ConfigError
from kvframe.events import EventKind

from .conftest import Command
from .made import write

SIZES = ["20", "40", "80"]
POLICIES = ["lru", "fifo", "lfu", "opt", "opt-forced"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    trace = write(tmp_path_factory.mktemp("made") / "made.jsonl")
    return Study.run(traces=str(trace), policies=POLICIES, capacities=SIZES, content=True)


def test_rows_and_frames_have_what_cells_have(study: Study) -> None:
    rows = study.rows()
    assert len(rows) == len(POLICIES) * len(SIZES) + 1  # infinite has no size
    assert rows[0]["token_hit_rate"] == study.cells[0].token_hit_rate
    assert rows[0]["compute_saved_position"] == study.cells[0].metrics["compute_saved_position"]
    assert {"miss_cold", "miss_policy"} <= set(rows[0])
    requests = study.rows("requests")
    assert len(requests) == study.cells[0].requests * len(rows)
    assert sum(row["hit_tokens"] for row in requests) == sum(c.hit_tokens for c in study.cells)
    frame = study.frame()
    assert list(frame["policy"]) == [row["policy"] for row in rows]


def test_without_pandas_it_says_how_to_install(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"kvframe\[notebook\]"):
        study.frame()


def test_what_is_not_there_is_named(study: Study) -> None:
    for wrong, message in (
        (lambda: Study.run(polices=["lru"]), "polices: no option of a run; did you mean policies"),
        (lambda: Study.run(capacities=["4k"]), "^capacities = 4k: must be a number of blocks"),
        (lambda: Study.run(policies=["slru:x=1"]), '^policies = slru:x=1: slru.x = "1": unknown'),
        (lambda: Study.run(modes=["engin"]), "^modes = engin: must be one of"),
        (lambda: Study.serve(loads=["x"]), "^loads = x: must be a number above 0"),
        (lambda: Study.serve(sla="x"), "^sla = x: 'x' must read key=value"),
        (lambda: study.rows("cell"), "must be cells, servers or requests; did you mean cells"),
        (lambda: study.compare("lruu"), "lruu: did not run; those .*did you mean lru"),
        (lambda: study.compare("opt"), "opt: is a bound, which no engine can run.*lru, fifo, lfu$"),
        (lambda: study.charts("hit"), "must be one of hits.*did you mean hits"),
        (lambda: study.plot("load"), "have no such chart; they have hits, lead, gap, misses"),
        (
            lambda: study.plot("misses", size=30),
            "none of size = 30; there is size = 20 or 40 or 80",
        ),
        (lambda: study.plot("hits", size=20), "there is show = hit rate or miss ratio"),
        (lambda: study.plot("lead", size=20), "there is no choice, the chart is one of its kind"),
        (lambda: Study.read("nowhere"), "nowhere: No such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            wrong()


def test_differences_are_those_of_the_bootstrap(study: Study) -> None:
    """By sizes apart, and all at once as `simultaneous` makes them."""
    (traffic,) = study.gathered.traffic
    made = paired(traffic)
    assert made.policies == ["lru", "fifo", "lfu"]
    facts = traffic.facts
    assert facts is not None
    hits, names = [], []
    for name in made.policies:
        for size in made.sizes:
            outcomes = traffic.of(name, size)[0].outcomes
            assert outcomes is not None
            hits.append(outcomes.hit_tokens)
            names.append((name, size))
    drawn = drawn_rates(hits, facts.input_tokens, facts.session).reshape(-1, 3, 3)
    rates = np.array(made.rates)
    estimate, spread = [], []
    for one, other in ((0, 1), (0, 2), (1, 2)):
        estimate += [*(rates[one] - rates[other]), (rates[one] - rates[other]).mean()]
        apart = drawn[:, one] - drawn[:, other]
        spread += [*apart.T, apart.mean(axis=1)]
    whole = simultaneous(np.array(estimate), np.stack(spread, axis=1))
    found = [
        made.difference(one, other, size)
        for one, other in (("lru", "fifo"), ("lru", "lfu"), ("fifo", "lfu"))
        for size in (*made.sizes, None)
    ]
    assert np.allclose([row[0] for row in found], whole.estimate, atol=2e-6)
    assert np.allclose([row[1] for row in found], whole.low, atol=2e-4)
    assert np.allclose([row[2] for row in found], whole.high, atol=2e-4)
    there, back = study.compare("lfu", "lru")[0], study.compare("lru", "lfu")[0]
    assert (there.difference, there.low, there.high) == pytest.approx(
        (-back.difference, -back.high, -back.low)
    )


def test_json_without_charts_is_refused_by_name(bench: Command, tmp_path: Path) -> None:
    asked = ("--trace", write(tmp_path / "made.jsonl"), "--capacity", "60", "--json")
    done = bench("tune", "slru", "--option", "protected_uses=3", *asked)
    (tmp_path / "tune.json").write_text(done.stdout)
    with pytest.raises(
        ConfigError, match=r"tune\.json: is of `kvframe bench tune`, which has no ch"
    ):
        Study.read("tune.json")


def test_reading_gives_what_ran(bench: Command, study: Study, tmp_path: Path) -> None:
    trace = write(tmp_path / "made.jsonl")
    done = bench("run", "--trace", trace, "--policy", ",".join(POLICIES), "--capacity",
                 ",".join(SIZES), "--out", "kept", "--content", "--format", "csv", "--quiet",
                 "--model-shape", "layers=2,kv_heads=2,head_dim=8")  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = Study.read("kept")
    assert read.gathered.token_bytes == 2 * 2 * 2 * 8 * 2
    assert [row.difference for row in read.compare("fifo")] == [
        row.difference for row in study.compare("fifo")
    ]
    assert [row.low for row in read.compare("fifo")] == [row.low for row in study.compare("fifo")]
    assert len(read.charts("content")) == len(SIZES)
    # Figures alone have no intervals, and differ by as much.
    (tmp_path / "figures.json").write_bytes((tmp_path / "kept" / "results.json").read_bytes())
    bare = Study.read("figures.json").compare("fifo")
    assert [row.difference for row in bare] == pytest.approx(
        [row.difference for row in read.compare("fifo")], abs=2e-6
    )
    assert all(math.isnan(row.low) and not row.real for row in bare)


def test_results_of_several_runs_are_put_together(study: Study, tmp_path: Path) -> None:
    trace = str(write(tmp_path / "made.jsonl"))
    other = Study.run(traces=trace, policies=["mq"], capacities=SIZES)
    cells = [cell for cell in study.cells if cell.trace != trace]
    moved = Study.run(traces=trace, policies=["lru"], capacities=SIZES)
    both = moved + other
    assert cells
    assert [row.capacity_blocks for row in both.compare("mq")] == [20, 40, 80, None]
    shorter = write(tmp_path / "made.jsonl", sessions=10)
    with pytest.raises(ConfigError, match="two traces have this name"):
        both + Study.run(traces=str(shorter), policies=["lru"], capacities=SIZES)


def test_servers(tmp_path: Path) -> None:
    trace = write(tmp_path / "made.jsonl")
    study = Study.serve(traces=str(trace), policies="lru,opt", capacities="80", loads=[0.5, 1])
    assert len(study.rows("servers")) == 4
    assert len(study.rows("requests")) == 4 * study.gathered.servers[0].requests
    (chart,) = study.charts("load", show="TTFT, mean")
    assert list(chart.x) == [0.5, 1.0]
    assert [one.name for one in chart.series] == ["lru", "opt"]
    assert len(chart.said) == 2
    (change,) = study.charts("load", show="TTFT, mean against lru")
    lru, opt = (one.y for one in chart.series)
    assert [one.name for one in change.series] == ["opt"]
    assert change.series[0].y == pytest.approx(
        [b / a - 1 for a, b in zip(lru, opt, strict=True) if a and b], abs=1e-4
    )
    assert {one.choice["show"] for one in study.charts("requests")} == {
        "TTFT", "E2E", "share of the prompt found",
    }  # fmt: skip


# --- what a cache holds ---------------------------------------------------------------------------


def plain(events: dict[str, np.ndarray], at: list[int]) -> list[tuple[int, int]]:
    """The same as `content`, block by block."""
    clock, never = 0, 1 << 40
    stays: list[list[int]] = []
    here: dict[int, list[int]] = {}
    for kind, block in zip(events["kind"].tolist(), events["block"].tolist(), strict=True):
        if kind == EventKind.ALLOCATE:
            clock += 1
        elif kind == EventKind.STORE:
            here[block] = [clock, clock, never]
            stays.append(here[block])
        elif kind == EventKind.HIT:
            here[block][1] = clock
        elif kind in (EventKind.EVICT, EventKind.FORGET):
            here.pop(block)[2] = clock
    return [
        (
            sum(came <= now < went for came, _, went in stays),
            sum(came <= now < last for came, last, _ in stays),
        )
        for now in at
    ]


@pytest.mark.parametrize("mode", ["trace", "engine", "timed"])
@pytest.mark.parametrize("policy", ["lru", "lfu", "opt"])
def test_content_is_counted_as_a_plain_count_does(policy: str, mode: str, tmp_path: Path) -> None:
    data = write(tmp_path / "made.jsonl", sessions=30).read_bytes()
    trace = _core.Trace.parse(data, "made", None)
    raw = _core.replay(trace, policy, 40, mode, log=True)
    held = content(raw["events"], points=25)
    assert held.requests[-1] == trace.requests
    assert list(zip(held.findable_blocks.tolist(), held.reused_blocks.tolist(), strict=True)) == (
        plain(raw["events"], held.requests.tolist())
    )
    assert int(held.findable_blocks.max()) <= 40
    assert held.reused_blocks[-1] == 0
    assert int(held.reused_blocks.max()) > 0


def test_content_changes_no_number(study: Study, tmp_path: Path) -> None:
    trace = write(tmp_path / "made.jsonl")
    bare = Study.run(traces=str(trace), policies=POLICIES, capacities=SIZES)
    assert [c.hit_tokens for c in bare.cells] == [c.hit_tokens for c in study.cells]
    assert not bare.charts("content")


def test_content_needs_a_place(bench: Command, small: Path) -> None:
    done = bench("run", "--trace", small, "--policy", "lru", "--capacity", "2", "--content")
    assert done.returncode == 2
    assert "--content: needs --out" in done.stderr
