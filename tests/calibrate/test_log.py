"""A profile from a server's log: of steps that vary, and of what requests felt."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kvframe.calibrate import (
    SHIPPED,
    Measured,
    Profile,
    Requests,
    Steps,
    fit,
    fit_log,
    fit_requests,
    read_profile,
    write_profile,
)
from kvframe.cli import main
from kvframe.errors import UsageError

HEADER = "arrival,prompt,cached,output,ttft,e2e\n"
TRUE = Profile(250.0, (25.0, 25.0, 25.0, 25.0), 90.0, 0.1, 0.02, 0.0)


def steps(noise: float) -> Steps:
    """A log of a small engine: decoding, and prompts of up to 60 tokens beside it."""
    draw = np.random.default_rng(0)
    n = 4_000
    decodes, chunk = draw.integers(0, 5, n), draw.integers(1, 60, n) * (draw.random(n) < 0.3)
    decodes = np.where(chunk + decodes == 0, 1, decodes)
    context = np.where(chunk > 0, draw.integers(10, 200, n), 0)
    columns = (chunk + decodes, decodes, decodes * 80, chunk, 0 * chunk, 1 + 0 * chunk, 0 * chunk)
    made = Steps(*np.array((*columns, context), dtype=float))
    made.step_us[:] = TRUE.predict(made) * draw.gamma(1 / noise**2, noise**2, n)
    return made


def test_a_log_whose_steps_vary_gives_their_mean() -> None:
    log = steps(0.4)
    found = fit_log(log)
    assert np.median(found.predict(log) / TRUE.predict(log)) == pytest.approx(1, abs=0.02)
    # Errors relative to what was measured would put every step too low.
    assert np.median(fit(log).predict(log) / TRUE.predict(log)) < 0.9


def test_a_batch_that_is_attended_to_at_once_has_a_term_of_its_own(tmp_path: Path) -> None:
    log, out = steps(0.01), tmp_path / "p.toml"
    product = replace(TRUE, mixed=0.05)
    log.step_us[:] = product.predict(log)
    found = fit_log(log)
    assert found.mixed == pytest.approx(0.05, rel=0.05)
    write_profile(out, found, Measured(), None, None)
    assert read_profile(out).mixed == pytest.approx(found.mixed, rel=1e-4)


def test_knots_are_where_the_log_has_prompts(tmp_path: Path) -> None:
    log, out = tmp_path / "steps.csv", tmp_path / "p.toml"
    made = steps(0.01)
    names = ("num_tokens", "n_decode", "kv_decode", "prefill_chunk", "prefill_context", "step_us")
    with log.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*(getattr(made, name) for name in names), strict=True))
    done = CliRunner().invoke(main, ["calibrate", "--from-log", str(log), "-o", str(out)])
    assert done.exit_code == 0, done.output
    found = read_profile(out)
    assert 10 < found.knots[0] < found.knots[1] < found.knots[2] < 60
    assert found.tokens == pytest.approx((25, 25, 25, 25), rel=0.05)
    assert found.pair == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("load", ["0.02", "0.1"])
def test_terms_are_found_in_what_requests_felt(tmp_path: Path, load: str) -> None:
    log, out = tmp_path / "felt.csv", tmp_path / "felt.toml"
    asked = ["--trace", "synthetic", "--policy", "lru", "--profile", "h200-8b", "--load", load]
    asked += ["--requests", str(log), "--quiet"]
    assert CliRunner().invoke(main, ["bench", "serve", *asked]).exit_code == 0
    done = CliRunner().invoke(main, ["calibrate", "--from-log", str(log), "-o", str(out)])
    assert "what requests felt" in done.output
    found, true = read_profile(out), read_profile(SHIPPED["h200-8b"])
    assert found.fixed == pytest.approx(true.fixed + true.host, rel=0.08)
    assert found.tokens[0] == pytest.approx(true.tokens[3], rel=0.10)
    assert found.pair == pytest.approx(true.pair, rel=0.15)


def test_requests_that_were_served_alone_say_it_exactly(tmp_path: Path) -> None:
    """Seconds: a step 0.01, a token of a prompt 0.001, pairs and contexts nothing."""
    log = tmp_path / "alone.csv"
    rows = [
        (
            10.0 * at,
            200 + 7 * at,
            0,
            5,
            0.01 + 0.001 * (200 + 7 * at),
            0.051 + 0.001 * (200 + 7 * at),
        )
        for at in range(40)
    ]
    log.write_text(HEADER + "".join(",".join(map(str, row)) + "\n" for row in rows))
    found = fit_requests(Requests.read(log))
    prompt = found.fixed + 300 * found.tokens[0] + found.pair * 300 * 301 / 2
    assert prompt == pytest.approx(310_000, rel=0.01)
    decode = found.fixed + found.tokens[0] + found.sequence + 300 * found.kv_token
    assert decode == pytest.approx(10_250, rel=0.05)


LINES = "".join(f"{at},100,0,4,0.5,0.9\n" for at in range(25))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no log of a server: must have num_tokens"),
        ("arrival,prompt,cached,output,ttft\n" + LINES, ":1: no column e2e"),
        (HEADER + "".join(LINES.splitlines(keepends=True)[:3]), "3 requests: needs at least 20"),
        (HEADER + LINES + "1,100,0,4,x,0.9\n", ":27: ttft = x: must be a number"),
        (HEADER + LINES + "1,100,0,4,0.9,0.5\n", ":27: must arrive, then have a first token"),
        (HEADER + LINES + "1,100,101,4,0.5,0.9\n", ":27: cached = 101: more than its 100"),
        (HEADER + LINES.replace(",4,0.5,0.9", ",1,0.5,0.5"), "needs 20 answers of several"),
    ],
)
def test_a_log_that_cannot_be_fitted_is_refused(tmp_path: Path, text: str, message: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(text)
    out = str(tmp_path / "p.toml")
    done = CliRunner().invoke(main, ["calibrate", "--from-log", str(log), "-o", out])
    assert (done.exit_code, message in done.output) == (2, True), done.output


def test_one_source_alone(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(HEADER)
    asked = ["calibrate", "--from", str(log), "--from-log", str(log), "-o", str(tmp_path / "p")]
    assert "name one of them" in CliRunner().invoke(main, asked).output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("knots = 3", "knots = 3: must be a list of numbers"),
        ("knots = [8, 8, 9]", "each must be larger than the one before"),
        ("knots = [8]", "must be 2 numbers"),
    ],
)
def test_bad_knots_are_refused(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "profile.toml"
    rest = "fixed = 1\ntokens = [1, 2, 3, 4]\nsequence = 1\nkv_token = 1\npair = 1\nhost = 1\n"
    file.write_text(f"{rest}{line}\n")
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        read_profile(file)
