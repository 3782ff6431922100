"""Pictures: forms, errors, the best few named, names that do not collide."""

import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from kvframe.bench.charts.choose import ENOUGH, FEW
from kvframe.bench.charts.pictures import COLORS, file_name, spread
from kvframe.bench.study import Study
from kvframe.errors import ConfigError

from .conftest import Command
from .made import write


@pytest.fixture
def results(bench: Command, small: Path, tmp_path: Path) -> Path:
    bench("run", "--trace", small, "--policy", "lru,fifo", "--capacity", "1,2,3", "--mode",
          "trace,engine", "--out", "results")  # fmt: skip
    return tmp_path / "results"


def test_png_and_svg(bench: Command, results: Path, tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        done = bench("plot", results, "-o", name)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (tmp_path / name).read_bytes().startswith(start)


def test_the_same_cells_give_the_same_svg(results: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        Study.read(results).draw(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_json_of_a_run_from_stdin(bench: Command, results: Path, tmp_path: Path) -> None:
    data = (results / "results.json").read_bytes()
    assert bench("plot", "-", "-o", "a.png", stdin=data).returncode == 0
    assert (tmp_path / "a.png").exists()


def test_errors_are_one_line(bench: Command, results: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"cells": [{"trace": 1}]}')
    (tmp_path / "none.json").write_text('{"cells": []}')
    (tmp_path / "some.csv").write_text("a,b\n1,2\n")
    for source, target, word in (
        (results, "a.gif", "a.gif"),
        (results, "nowhere/a.png", "nowhere/a.png"),
        ("bad.json", "a.png", "bad.json"),
        ("none.json", "a.png", "none.json"),
        ("some.csv", "a.png", "some.csv"),
        ("nothing.json", "a.png", "nothing.json"),
    ):
        done = bench("plot", source, "-o", target)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert word in done.stderr


def test_without_matplotlib_it_says_how_to_install(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="pip install"):
        Study.read(results).draw(tmp_path / "a.png")


def test_plots_need_only_the_contracts_keys(results: Path, tmp_path: Path) -> None:
    kept = json.loads((results / "results.json").read_bytes())
    for cell in kept["cells"]:
        for extra in ("block_hit_rate", "mean_request_hit_rate", "gap_closed"):
            del cell[extra]
    (tmp_path / "plain.json").write_text(json.dumps(kept))
    assert len(Study.read(tmp_path / "plain.json").cells) == len(kept["cells"])


def test_every_chart_has_a_file_of_its_own(bench: Command, small: Path, tmp_path: Path) -> None:
    bench("run", "--trace", small, "--policy", "lru,fifo", "--capacity", "3", "--out", "results")
    results = tmp_path / "results"
    done = bench("report", results, "--out", "r.html", "--svg", "pictures")
    drawn = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    names = {f"{file_name(chart)}.svg" for chart in Study.read(results).charts()}
    assert drawn == sorted(names)
    assert done.stderr == f"r.html; {len(names)} charts in pictures\n"
    assert "hit-rate-by-cache-size-small.jsonl-engine-mode-blocks-of-512.svg" in names


def test_a_name_may_have_dollars(tmp_path: Path) -> None:
    trace = write(tmp_path / "a$b_{$.jsonl", sessions=5)
    study = Study.run(traces=str(trace), policies="lru", capacities=[10])
    study.draw(tmp_path / "a.svg")
    assert "a$b_{$.jsonl" in study.plot("hits").axes[0].get_title(loc="left")


def test_of_many_policies_the_best_few_are_named(tmp_path: Path) -> None:
    """Forty lines: each is drawn, and those that hit most, lru and the bounds have their names."""
    policies = [f"slru:protected_uses={n}" for n in range(2, 40)] + ["lru", "mq", "opt", "infinite"]
    study = Study.run(
        traces=[str(write(tmp_path / "t.jsonl", sessions=20))],
        policies=policies,
        capacities=["20", "40"],
    )
    (axis,) = study.plot("hits").axes
    named = {text.get_text() for text in axis.texts}
    rates = {
        name: sum(c.token_hit_rate for c in study.cells if c.policy == name) for name in policies
    }
    online = sorted(rates[name] for name in policies if name not in ("opt", "infinite"))
    assert {"lru", "opt", "infinite"} <= named
    assert len(named) <= FEW + 3
    assert max(name for name in named if rates[name] == online[-1])
    whole = [line for line in axis.lines if _is_data(line, axis)]
    assert len(whole) == len(policies)
    grey = [line for line in whole if line.get_linewidth() < 1]
    assert len(grey) == len(policies) - len(named)
    assert len(COLORS) >= ENOUGH


def test_the_best_of_each_chart_is_named(bench: Command, tmp_path: Path) -> None:
    """On one trace a policy leads by little that is far behind on the other."""
    policies = [f"slru:protected_uses={n}" for n in range(2, 12)] + ["lru", "fifo"]
    for name in ("a.jsonl", "b.jsonl"):
        write(tmp_path / name, sessions=5)
    bench("run", "--trace", "a.jsonl,b.jsonl", *(f"--policy={name}" for name in policies),
          "--capacity", "20,40", "--out", "results")  # fmt: skip
    kept = json.loads((tmp_path / "results" / "results.json").read_bytes())
    for cell in kept["cells"]:
        if cell["policy"] not in policies:
            continue
        rate = 0.5 + 0.01 * policies.index(cell["policy"])
        if cell["policy"] == "fifo":
            rate = 0.7 if cell["trace"] == "a.jsonl" else 0.1
        cell["token_hit_rate"] = rate
    (tmp_path / "changed.json").write_text(json.dumps(kept))
    axes = Study.read(tmp_path / "changed.json").plot("lead").axes
    assert len(axes) == 2
    for axis in axes:
        named = {text.get_text() for text in axis.texts}
        assert len(named) == FEW
        assert {"fifo", "slru:protected_uses=11"} <= named


def _is_data(line: Any, axis: Any) -> bool:
    return len(line.get_xdata()) == 2 and bool(line.get_transform() == axis.transData)


def test_names_keep_their_order_and_distance() -> None:
    chance = random.Random(7)
    for _ in range(500):
        wanted = sorted(chance.random() for _ in range(chance.randrange(1, 12)))
        got = spread(wanted, 0.05)
        assert all(b - a > 0.05 - 1e-9 for a, b in itertools.pairwise(got))
        assert min(got) > -1e-9
        assert max(got) < 1 + 1e-9
    assert spread([0.2, 0.5, 0.8], 0.05) == [0.2, 0.5, 0.8]
