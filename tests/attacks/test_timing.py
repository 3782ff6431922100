"""Is a prompt's beginning cached? Asked of times to first token, from outside, by a test.

After the audit of arXiv:2502.07776: times of prompts that others may have sent before, and times of
prompts that nobody has sent, are held against each other by the two-sample test of Kolmogorov and
Smirnov. CVE-2025-46570 and InputSnatch (arXiv:2411.18191) come down to such times, too. They are
the simulated server's, whose steps a roofline says; what others send makes them vary.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ..bench.conftest import Command

ROUNDS = 120
Times = npt.NDArray[np.float64]


def p_value(one: Times, other: Times) -> float:
    """Of two samples of one distribution being so far apart, for many samples (Smirnov, 1939)."""
    places = np.sort(np.concatenate([one, other]))
    below = [np.searchsorted(np.sort(each), places, "right") / len(each) for each in (one, other)]
    apart = float(np.abs(below[0] - below[1]).max())
    scaled = apart * math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    if scaled < 0.2:
        return 1.0
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101))
    return float(min(1.0, 2 * sum(terms)))


def times(bench: Command, folder: Path, policy: str, apart: str) -> tuple[Times, Times]:
    """Seconds to first token of prompts whose beginning the victim sent, and of others.

    ``apart``: nothing, or "tenants" with equal floor and quota.
    """
    dice, made, asked = random.Random(3), list[dict[str, Any]](), dict[int, bool]()
    attacker = "attacker" if apart else "victim"

    def send(at: float, whose: str, ids: list[int]) -> None:
        row = {"timestamp": int(at), "input_length": 16 * len(ids), "output_length": 8}
        made.append({**row, "hash_ids": ids, "type": whose})

    for turn in range(ROUNDS):
        at, first = 4000.0 * turn, 100_000 * (turn + 1)
        secret = [first + i for i in range(64)]
        send(at, "victim", [*secret, first + 900])
        for place, right in enumerate(dice.sample([True, False], 2)):
            begins = secret if right else [first + 10_000 + i for i in range(64)]
            own = [first + 20_000 + 1000 * right + i for i in range(dice.randrange(4, 40))]
            asked[len(made)] = right
            send(at + 1500 + 1000 * place, attacker, [*begins, *own])
            # Somebody else's request is computed with some of them.
            other = [first + 30_000 + 1000 * place + i for i in range(dice.randrange(8, 200))]
            send(at + 1501 + 1000 * place + dice.randrange(40), "others", other)
    (folder / "audit.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    shares = "".join(
        f'[[tenants]]\nname = "{name}"\nfloor = 0.3\nquota = 0.3\n'
        for name in ("victim", "attacker", "others")
    )
    (folder / "apart.toml").write_text(shares)
    told = ["--config", "apart.toml"] if apart else []
    more = ("--block-size", "16", "--capacity", "4000", "--policy", policy)
    rows = ("--requests", "rows.jsonl", "--quiet")
    done = bench("serve", "--trace", "audit.jsonl", *more, *rows, *told)
    assert done.returncode == 0, done.stderr
    found: dict[bool, list[float]] = {True: [], False: []}
    for line in (folder / "rows.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["request"] in asked:
            found[asked[row["request"]]].append(row["first_token"] - row["arrival"])
    return np.array(found[True]), np.array(found[False])


def test_the_test_tells_one_distribution_from_two() -> None:
    dice = np.random.default_rng(0)
    same = [p_value(dice.normal(size=120), dice.normal(size=120)) for _ in range(200)]
    assert 0.02 < np.mean(np.array(same) < 0.1) < 0.2
    assert p_value(dice.normal(size=120), dice.normal(1, size=120)) < 1e-8


@pytest.mark.parametrize("policy", ["lru", "s3-fifo"])
def test_times_tell_of_prompts_inside_a_salt_and_of_none_across_tenants(
    bench: Command, tmp_path: Path, policy: str
) -> None:
    inside = p_value(*times(bench, tmp_path, policy, ""))
    right, wrong = times(bench, tmp_path, policy, "tenants")
    across = p_value(right, wrong)
    means = f"{right.mean():.4f} and {wrong.mean():.4f} s"
    print(f"{policy}: p = {inside:.1e} inside a salt; across tenants {across:.2f}, {means}")
    assert inside < 1e-8
    assert across > 0.05
