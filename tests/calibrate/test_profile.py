"""Terms fitted to measured steps, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kvframe.calibrate import (
    SHIPPED,
    ModelShape,
    Profile,
    Steps,
    fit,
    fitted,
    held_out,
    read_profile,
)
from kvframe.cli import main
from kvframe.errors import UsageError

TRUE = Profile(5_000.0, (8.0, 18.0, 12.0, 24.0), 1.5, 0.03, 0.0016, 100.0)
MEASURED = Path(__file__).parents[2] / "perf" / "results" / "h200-8b-2026-11-29"


def grid(count: int = 0) -> Steps:
    """Steps of the grid, which take what ``TRUE`` says."""
    steps = list(fitted(480_000))[-count:] + list(held_out(480_000))
    columns = [
        (s.num_tokens, len(s.contexts), sum(s.contexts), s.chunk, s.before, 1.0, 100.0, 0.0)
        for s in steps
    ]
    made = Steps(*np.array(columns, dtype=float).T)
    made.step_us[:] = TRUE.predict(made)
    return made


def test_a_fit_finds_the_terms_that_made_the_steps() -> None:
    found = fit(grid())
    assert found.fixed == pytest.approx(TRUE.fixed, rel=1e-3)
    assert found.tokens == pytest.approx(TRUE.tokens, rel=1e-2)
    assert (found.kv_token, found.pair) == pytest.approx((TRUE.kv_token, TRUE.pair), rel=1e-3)
    assert found.host == 100.0
    assert np.abs(found.errors(grid())).max() < 1e-3


def test_the_shipped_profile_is_that_of_the_steps_on_record() -> None:
    fitted_to, judged = (Steps.read(Path(f"{MEASURED}.{name}.csv")) for name in ("steps", "judged"))
    shipped = read_profile(SHIPPED["h200-8b"])
    assert fit(fitted_to).kv_token == pytest.approx(shipped.kv_token, rel=1e-4)
    errors = np.abs(shipped.errors(judged))
    assert np.median(errors) <= 0.08
    assert errors.max() <= 0.20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_tokens,n_decode,kv_decode,prefill_chunk\n1,1,1,0\n", "no column step_us"),
        ("num_tokens,n_decode,kv_decode,prefill_chunk,step_us\n1,-1,1,0,9\n", "n_decode = -1"),
        ("num_tokens,n_decode,kv_decode,prefill_chunk,step_us\n1,1,x,0,9\n", ":2: kv_decode = x"),
        ("num_tokens,n_decode,kv_decode,prefill_chunk,step_us\n1,1,1,0,9\n", "1 steps: needs"),
    ],
)
def test_steps_that_cannot_be_fitted_are_refused(tmp_path: Path, text: str, message: str) -> None:
    source = tmp_path / "steps.csv"
    source.write_text(text)
    with pytest.raises(UsageError, match=message):
        fit(Steps.read(source))


def test_a_step_without_time_is_refused() -> None:
    steps = grid()
    steps.step_us[3] = 0
    with pytest.raises(UsageError, match="step_us"):
        fit(steps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("fixd = 1\n", "no key fixd; did you mean fixed"),
        ("", "fixed is missing"),
        ("fixed = -1\n", "fixed = -1: must be a number, 0 or more"),
        ("fixed = true\n", "fixed = True"),
        ("fixed = \n", "not TOML"),
    ],
)
def test_a_bad_profile_is_refused(tmp_path: Path, change: str, message: str) -> None:
    file = tmp_path / "profile.toml"
    rest = "tokens = [1, 2, 3, 4]\nsequence = 1\nkv_token = 1\npair = 1\nhost = 1\n"
    file.write_text(change + rest)
    with pytest.raises(UsageError, match=message):
        read_profile(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer=3", "no key layer; did you mean layers"),
        ("layers=0", "layers = 0: must be a whole number, 1 or more"),
        ("layers", "layers = : must be"),
        ("heads=32,kv_heads=5", "must divide heads = 32"),
    ],
)
def test_a_bad_shape_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ModelShape.parse(text)


def test_an_8b_shape_costs_what_is_known_of_it() -> None:
    shape = ModelShape.parse("")
    assert shape.kv_bytes_per_token == 131_072
    assert shape.weight_bytes == pytest.approx(16.06e9, rel=1e-3)


def test_the_command_fits_a_file_and_says_its_error(tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    source, judge = f"{MEASURED}.steps.csv", f"{MEASURED}.judged.csv"
    done = CliRunner().invoke(
        main, ["calibrate", "--from", source, "--judge", judge, "-o", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "not fitted to 60 steps: median error" in done.output
    assert read_profile(out).fixed == pytest.approx(fit(Steps.read(Path(source))).fixed, rel=1e-5)
