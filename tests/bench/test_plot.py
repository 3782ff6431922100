"""The picture: forms, errors, labels that do not collide."""

import itertools
import json
import random
import sys
from pathlib import Path

import pytest

from kvframe.bench.plot import save, spread
from kvframe.bench.plot_style import styles
from kvframe.bench.results import read_cells
from kvframe.errors import ConfigError
from kvframe.policies.builtin import BUILTIN

from .conftest import Command


@pytest.fixture
def results(bench: Command, small: Path, tmp_path: Path) -> Path:
    bench("run", "--trace", small, "--policy", "lru,fifo", "--capacity", "1,2,3", "--mode",
          "trace,engine", "--out", "results")  # fmt: skip
    return tmp_path / "results"


def test_png_and_svg(bench: Command, results: Path, tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        done = bench("plot", results, "-o", name)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (tmp_path / name).read_bytes().startswith(start)


def test_the_same_cells_give_the_same_svg(results: Path, tmp_path: Path) -> None:
    cells = read_cells(str(results))
    save(cells, tmp_path / "a.svg")
    save(cells, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_json_of_a_run_from_stdin(bench: Command, results: Path, tmp_path: Path) -> None:
    data = (results / "results.json").read_bytes()
    assert bench("plot", "-", "-o", "a.png", stdin=data).returncode == 0
    assert (tmp_path / "a.png").exists()


def test_errors_are_one_line(bench: Command, results: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"cells": [{"trace": 1}]}')
    (tmp_path / "none.json").write_text('{"cells": []}')
    for source, target, word in (
        (results, "a.gif", "a.gif"),
        (results, "nowhere/a.png", "nowhere/a.png"),
        ("bad.json", "a.png", "bad.json"),
        ("none.json", "a.png", "none.json"),
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
        save(read_cells(str(results)), tmp_path / "a.png")


def test_plots_need_only_the_contracts_keys(results: Path, tmp_path: Path) -> None:
    kept = json.loads((results / "results.json").read_bytes())
    for cell in kept["cells"]:
        for extra in ("block_hit_rate", "mean_request_hit_rate", "gap_closed"):
            del cell[extra]
    (tmp_path / "plain.json").write_text(json.dumps(kept))
    assert len(read_cells(str(tmp_path / "plain.json"))) == len(kept["cells"])


def test_labels_keep_their_order_and_distance() -> None:
    chance = random.Random(7)
    for _ in range(500):
        wanted = sorted(chance.random() for _ in range(chance.randrange(1, 12)))
        got = spread(wanted, 0.05)
        assert all(b - a > 0.05 - 1e-9 for a, b in itertools.pairwise(got))
        assert min(got) > -1e-9
        assert max(got) < 1 + 1e-9
    assert spread([0.2, 0.5, 0.8], 0.05) == [0.2, 0.5, 0.8]


def test_no_two_policies_look_the_same() -> None:
    names = [*(policy.name for policy in BUILTIN), *(f"plugin-{i}" for i in range(20))]
    looks = {(style.color, style.marker) for style in styles(names).values()}
    assert len(looks) == len(names)
