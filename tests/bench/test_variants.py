"""The verdict between variants: intervals that hold, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvframe.bench.server.variants import between

from .conftest import Command

T_9 = 2.262
"""The 97.5th percentile of Student's distribution with 9 degrees of freedom, as tables have it."""

FILE = """
draws = {draws}

[workload]
rate = 4.0
requests = 40
input = {{ kind = "uniform", least = 200, most = 2000 }}
output = {{ kind = "fixed", value = 8 }}

[serve]
policy = ["lru", "opt"]
capacity = [2000]

[variants.h100.serve]
card = "h100"

[variants.a100.serve]
card = "a100"

[variants.named.serve]
card = "h100"
max_num_seqs = 255
{more}
"""


def test_two_variants_have_the_interval_of_student() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(10, 2)) * (1.0, 3.0)
    apart = values[:, 0] - values[:, 1]
    gap = between(values)[0, 1]
    assert gap.estimate == pytest.approx(apart.mean())
    reach = (gap.high - gap.low) / 2
    assert reach == pytest.approx(T_9 * apart.std(ddof=1) / 10**0.5, rel=0.05)
    assert between(values)[1, 0] == (-gap.estimate, -gap.high, -gap.low)


def test_all_intervals_hold_together() -> None:
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(100):
        # What a draw of the traffic does to all variants, and to each: no variant differs.
        values = rng.normal(size=(8, 1)) + rng.normal(size=(8, 4))
        held += all(gap.low <= 0 <= gap.high for gap in between(values).values())
    assert held >= 90


def test_variants_that_are_equal_are_told_apart_by_nothing() -> None:
    same = np.repeat(np.arange(5.0)[:, None], 2, axis=1)
    assert between(same)[0, 1] == (0, 0, 0)


def test_the_winner_is_named_with_its_interval(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "cards.toml").write_text(FILE.format(draws=4, more=""))
    done = bench("experiment", "cards.toml")
    assert (done.returncode, done.stderr) == (0, "")
    begins = "cards, load 1: h100 serves best of 3 variants, mean TTFT "
    (verdict,) = (line for line in done.stdout.splitlines() if line.startswith(begins))
    assert " under lru; ahead of a100 by " in verdict
    assert "; not told apart from named by 0.000 s (0.000 to 0.000); intervals of 95%" in verdict
    assert "over 4 draws of the traffic." in verdict


BOUND = '[variants.bound.serve]\ncard = "h200"\npolicy = ["opt"]\n'


def test_a_variant_that_no_engine_can_run_does_not_win(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "cards.toml").write_text(FILE.format(draws=2, more=BOUND))
    done = bench("experiment", "cards.toml")
    begins = "cards, load 1: h100 serves best of 3 variants, "
    (verdict,) = (line for line in done.stdout.splitlines() if line.startswith(begins))
    assert verdict.endswith("; bound left out, since no engine can run the policy.")


def test_of_variants_that_no_engine_can_run_none_wins(bench: Command, tmp_path: Path) -> None:
    bounds = FILE.format(draws=2, more="").replace('["lru", "opt"]', '["opt"]')
    (tmp_path / "cards.toml").write_text(bounds)
    said = "cards, load 1: no verdict between variants, since fewer than two have a policy that "
    assert said in bench("experiment", "cards.toml").stdout


@pytest.mark.parametrize("draws", [1, 4])
def test_where_nothing_is_told_apart_none_is_said_to_win(
    bench: Command, tmp_path: Path, draws: int
) -> None:
    alike = FILE.format(draws=draws, more="").replace('"a100"', '"h100"')
    (tmp_path / "cards.toml").write_text(alike)
    done = bench("experiment", "cards.toml")
    begins = "cards, load 1: the best of 3 variants is not told apart: h100, mean TTFT "
    (verdict,) = (line for line in done.stdout.splitlines() if line.startswith(begins))
    assert " under lru, from " in verdict
    assert "serves best" not in verdict


def test_a_promise_that_hardly_anything_keeps_decides_nothing(
    bench: Command, tmp_path: Path
) -> None:
    """Within a millisecond nothing is answered; an A100 is slower all the same."""
    promised = FILE.format(draws=2, more="").replace("[serve]", '[serve]\nsla = "ttft=1ms"')
    (tmp_path / "cards.toml").write_text(promised)
    done = bench("experiment", "cards.toml")
    begins = "cards, load 1: no request keeps the promise; judged by mean TTFT, h100 serves best "
    assert any(line.startswith(begins) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("draws", "more", "said"),
    [
        (1, "", "one draw of the traffic gives no interval"),
        (4, "[variants.other.workload]\nrate = 9.0", "no verdict between variants, since their"),
    ],
)
def test_where_there_is_no_interval_that_is_said(
    bench: Command, tmp_path: Path, draws: int, more: str, said: str
) -> None:
    (tmp_path / "cards.toml").write_text(FILE.format(draws=draws, more=more))
    assert said in bench("experiment", "cards.toml").stdout


@pytest.mark.parametrize("draws", ["0", "true", '"9"', "5000"])
def test_a_number_of_draws_that_is_none_is_refused(
    bench: Command, tmp_path: Path, draws: str
) -> None:
    (tmp_path / "cards.toml").write_text(FILE.format(draws=draws, more=""))
    done = bench("experiment", "cards.toml")
    assert done.returncode == 2
    assert "must be a whole number from 1 to 1000" in done.stderr
