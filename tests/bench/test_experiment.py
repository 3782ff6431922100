"""Experiments: traffic that is drawn, and files of variants."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kvframe.bench.server.experiment import read_experiment
from kvframe.bench.server.workload import drawn, parse_workload
from kvframe.bench.study import Study

from .conftest import Command

SHIPPED = sorted((Path(__file__).parents[2] / "examples" / "experiments").glob("*.toml"))
SMALL = """
draws = 2

[workload]
rate = 4.0
requests = 40
turns = 3
gap = 2.0
shared = 64
input = { kind = "uniform", least = 20, most = 200 }
output = { kind = "fixed", value = 8 }

[serve]
policy = ["lru", "fifo"]
capacity = [60]

[variants.one.serve]
card = "h100"

[variants.tiers.serve]
card = "h100"
tier = ["host=100"]
preemption = "auto"
replicas = [2]
routing = ["prefix"]
"""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_experiments_can_be_read(path: Path) -> None:
    variants = read_experiment(path).variants
    assert len({variant.name for variant in variants}) == len(variants) > 0
    for variant in variants:
        assert variant.workload is not None
        work = parse_workload({**variant.workload, "requests": 30}, path.name)
        assert drawn(work, path.stem).trace.requests == 30


def test_seven_are_shipped() -> None:
    names = ["arrivals", "hardware", "outlook", "prefetch", "routers", "shared", "tiers"]
    assert [path.stem for path in SHIPPED] == names


def test_variants_are_rows_and_have_verdicts(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    done = bench("experiment", "small.toml")
    assert (done.returncode, done.stderr) == (0, "")
    title, header, *rows = done.stdout.splitlines()
    assert title == "small, TTFT and E2E in s"
    assert [row.split()[0] for row in rows[:6]] == ["one"] * 2 + ["tiers"] * 4
    assert header.split()[:3] == ["variant", "policy", "routing"]
    assert header.split()[-2:] == ["rejected", "unfinished"]
    verdict, _, of_all, of_one, of_its_tier = rows[-5:]
    assert verdict.endswith("for all at once, over 2 draws of the traffic.")
    assert of_all.startswith("Step times: what a model of 8 billion parameters moves")
    assert of_one.startswith("tiers: --capacity is what each replica has")
    assert of_its_tier.startswith("tiers: tier host: ")
    assert sum(row.startswith("small/one, load 1, 60 blocks: ") for row in rows) == 1
    below = [row for row in rows if "2 replicas by prefix of 60 blocks: host below the pool" in row]
    assert len(below) == 1
    assert "GPU-seconds" not in below[0]  # they would round to 0


RECORDED = """
[serve]
trace = ["./small.jsonl"]
capacity = [8]
policy = ["lru", "fifo"]
sla = "ttft=2s"

[variants.fast.serve]
card = "h200"

[variants.slow.serve]
profile = "roofline:weights=9,host_us=90000"
"""


def test_variants_of_a_recorded_trace_are_named_in_every_line(
    bench: Command, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(RECORDED)
    done = bench("experiment", "mine.toml")
    assert (done.returncode, done.stderr) == (0, "")
    _, header, *rows = done.stdout.splitlines()
    assert "good/s" in header
    said = rows[rows.index("") + 1 :]
    *verdicts, winner = said[: said.index("")]
    assert [line.split(", load")[0] for line in verdicts] == [
        "mine/fast: ./small.jsonl",
        "mine/slow: ./small.jsonl",
    ]
    assert winner.startswith(
        "mine, ./small.jsonl, load 1: the best of 2 variants is not told apart: "
    )
    assert winner.endswith(
        "; fast leads at 1.4 times these step times; one draw of the traffic gives no interval."
    )
    assert ": fast, 1.331 good requests/s under lru, from slow within 5%; " in winner


def test_a_model_lies_beside_the_experiment(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / "model.toml").write_text(
        "hidden_dim = 64\n"
        'weights = [{ precision = "bf16", active_params = 9, resident_params = 9 }]\n'
        'layers = [{ kind = "mla", count = 2, latent_dim = 8, kv_precision = "fp8" }]\n'
    )
    changed = SMALL.replace(
        'card = "h100"', 'model_shape = "model.toml"\ncascade_attention = true', 1
    )
    (tmp_path / "of" / "small.toml").write_text(changed)
    done = bench("experiment", "of/small.toml")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "of" / "model.toml").unlink()
    assert "of/model.toml: No such file" in bench("experiment", "of/small.toml").stderr


def test_a_trace_lies_beside_the_experiment(bench: Command, small: Path, tmp_path: Path) -> None:
    (tmp_path / "of").mkdir()
    small.rename(tmp_path / "of" / "small.jsonl")
    (tmp_path / "of" / "mine.toml").write_text(RECORDED)
    done = bench("experiment", "of/mine.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "mine/fast: of/small.jsonl, load 1" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate = 4.0", "rat = 4.0", "workload.rat = 4.0: unknown key; did you mean workload.rate"),
        ("rate = 4.0", "rate = 0", "workload.rate = 0: must be more than 0"),
        ('policy = ["lru", "fifo"]', 'polic = ["lru"]', "no key polic: an option of bench serve"),
        ('card = "h100"\n\n', "card = 5\n\n", "serve.card = 5: must be a string"),
        ("[serve]", "[server]", "no key server: draws, workload, serve, variants"),
        ("[workload]", "[workload", "small.toml: "),
        ("requests = 40", "requests = 40\nseconds = 1e-9", "no request begins within"),
    ],
)
def test_what_is_wrong_is_named(
    bench: Command, tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SMALL
    (tmp_path / "small.toml").write_text(SMALL.replace(old, new, 1))
    done = bench("experiment", "small.toml")
    assert done.returncode == 2
    assert message in done.stderr


def starts(**keys: object) -> np.ndarray:
    work = parse_workload({"requests": 4000, "rate": 5.0, **keys}, "here")
    times: np.ndarray = drawn(work, "here").trace.columns()["timestamp_ms"]
    return times / 1000


def test_arrivals_come_as_they_are_named() -> None:
    assert np.allclose(np.diff(starts(arrivals="uniform")), 0.2)
    gaps = np.diff(starts(arrivals="poisson"))
    # Exponential: the deviation is the mean.
    assert gaps.mean() == pytest.approx(0.2, rel=0.1)
    assert gaps.std() == pytest.approx(0.2, rel=0.1)
    bursts = starts(arrivals="burst", burst=50)
    assert len(set(bursts.tolist())) == 80
    assert not starts(arrivals="batched").any()
    # Half of the time at the lower rate: a tenth of the requests.
    wave = starts(rates=[[0, 1.0], [50, 1.0], [50.001, 9.0], [100, 9.0]]) % 100
    assert (wave < 50).mean() == pytest.approx(0.1, abs=0.02)


def test_prompts_of_a_session_go_on_from_the_answer() -> None:
    work = parse_workload(
        {
            "requests": 500,
            "turns": 4,
            "shared": 32,
            "input": {"kind": "lognormal", "mean": 4.0, "deviation": 0.5},
            "output": {"value": 20},
        },
        "here",
    )
    trace = drawn(work, "here").trace
    columns = trace.columns()
    for session in range(int(columns["session"].max())):
        lengths = columns["input_tokens"][columns["session"] == session]
        assert (np.diff(lengths.astype(int)) > 20).all()
        assert lengths[0] > 32
    # 32 shared tokens are 2 blocks that all requests but the first can find.
    bound = trace.prepare("engine")
    assert bound["unique_blocks"] < bound["block_accesses"]


def test_users_begin_apart_and_lulls_lie_between_bursts() -> None:
    users: dict[str, object] = {"arrivals": "closed", "users": 500, "requests": 500}
    assert not starts(**users).any()
    apart = starts(**users, jitter=4.0)
    assert 0 <= apart.min() < 0.1 < 3.9 < apart.max() < 4.0
    assert apart.mean() == pytest.approx(2.0, abs=0.2)
    gaps = np.diff(starts(arrivals="lulls"))
    short = gaps < 0.02
    assert short.mean() == pytest.approx(0.2, abs=0.03)
    assert gaps[short].max() < 0.012
    assert 0.49 < gaps[~short].min() < gaps[~short].max() < 2.01


def test_json_has_all_variants_and_a_report_reads_it(
    bench: Command, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "mine.toml").write_text(RECORDED)
    for name, draws, traces in (
        ("small", 2, {"small/one", "small/tiers"}),
        ("mine", 1, {"mine/fast: ./small.jsonl", "mine/slow: ./small.jsonl"}),
    ):
        done = bench("experiment", f"{name}.toml", "--format", "json")
        assert (done.returncode, done.stderr) == (0, "")
        told = json.loads(done.stdout)
        assert (told["experiment"], told["draws"]) == (name, draws)
        assert {cell["trace"] for cell in told["cells"]} == traces
        assert [cell["trace"].split("/")[1].split(":")[0] for cell in told["cells"]] == (
            told["variants"]
        )
        assert "the best of 2 variants" in told["verdicts"][-1]
        *rows, _ = bench("experiment", f"{name}.toml").stdout.splitlines()
        assert set(told["verdicts"]) <= set(rows)
        (tmp_path / f"{name}.json").write_text(done.stdout)
    found = Study.read(tmp_path / "small.json", tmp_path / "mine.json")
    charts = found.charts("load", show="hit rate")
    assert len(charts) == 4, "a variant each"
    assert all(any(" variants " in said for said in chart.said) for chart in charts)
    refused = bench("experiment", "small.toml", "mine.toml", "--format", "json")
    assert refused.returncode == 2
    assert "--format json: of one FILE at a time, not of 2" in refused.stderr
