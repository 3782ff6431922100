"""Step times from what requests felt, where a server logs no steps.

Between two moments of a request's life its server did steps, one after the other: from its first
token to its last it did one for each token, and from its arrival to its first token it did those
that gave others their tokens in that time. What these steps computed is known from all requests, so
each of the two times is an equation for what a step takes.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvframe._core import StepProfile
from kvframe.calibrate.profile import COLUMNS as STEPS
from kvframe.calibrate.profile import Floats, Profile, least_squares
from kvframe.errors import UsageError

COLUMNS = ("arrival", "prompt", "cached", "output", "ttft", "e2e")
"""Seconds, tokens, tokens, tokens, seconds, seconds; a row a request."""
SIMULATED = ("arrival", "input_tokens", "cached_tokens", "output_tokens", "first_token", "end")
"""The same as ``kvframe bench serve --requests`` writes it; the last two are moments."""
LEAST = 20
"""Requests: fewer say too little."""
MOST = 2_000
"""Requests whose times are fitted to, spread over the log; each is compared with all others."""


@dataclass(frozen=True)
class Requests:
    """Requests of a log, an array a column, by time of arrival.

    Attributes:
        arrival, first, end: Seconds at which it came, had its first token, and its last.
        prompt, cached, output: Tokens.
    """

    arrival: Floats
    prompt: Floats
    cached: Floats
    output: Floats
    first: Floats
    end: Floats

    @classmethod
    def read(cls, path: Path) -> Requests:
        """The requests of a CSV file whose header names `COLUMNS`, or `SIMULATED`.

        Raises:
            UsageError: A column is missing, a field is no number, times run backwards, or there are
                too few requests.
        """
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            names = SIMULATED if "input_tokens" in header else COLUMNS
            missing = [name for name in names if name not in header]
            if missing:
                raise UsageError(f"{path}:1: no column {missing[0]}; needs {', '.join(names)}")
            rows = [
                _row(path, reader.line_num, row, names)
                for row in reader
                if row.get("fate") in (None, "finished")
            ]
        if len(rows) < LEAST:
            raise UsageError(f"{path}: {len(rows)} requests: needs at least {LEAST}")
        rows.sort()
        return cls(*np.array(rows).T)


def has_steps(path: Path) -> bool:
    """Whether a log has a row a step; otherwise it should have a row a request.

    Raises:
        UsageError: Its header names the columns of neither.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        header = next(csv.reader(file), [])
    if "step_us" in header:
        return True
    if not {"ttft", "first_token"} & set(header):
        raise UsageError(
            f"{path}:1: no log of a server: must have {', '.join(STEPS)}, a row a step; or "
            f"{', '.join(COLUMNS)}, a row a request"
        )
    return False


def _row(path: Path, line: int, row: Mapping[str, str], names: tuple[str, ...]) -> list[float]:
    values = []
    for name in names:
        try:
            value = float(row[name])
        except (TypeError, ValueError):
            value = -1.0
        if not 0 <= value < float("inf"):
            raise UsageError(f"{path}:{line}: {name} = {row[name]}: must be a number, 0 or more")
        values.append(value)
    arrival, prompt, cached, output, first, end = values
    if names is COLUMNS:
        first, end = arrival + first, arrival + end
    if not arrival < first <= end:
        raise UsageError(f"{path}:{line}: must arrive, then have a first token, then end")
    if cached > prompt:
        raise UsageError(f"{path}:{line}: {names[2]} = {cached:g}: more than its {prompt:g} tokens")
    return [arrival, prompt, cached, max(output, 1.0), first, end]


def fit_requests(log: Requests) -> Profile:
    """The profile with which steps take what requests felt.

    It has five terms: a token costs the same in steps of any size.

    Raises:
        UsageError: The requests say too little of one another: too few have several tokens.
    """
    rows, times, began = [], [], _prefilled_from(log)
    some = np.unique(np.linspace(0, len(log.arrival) - 1, MOST).astype(int))
    for at in some.tolist():
        rows.append(_work(log, began, at, waits=True))
        times.append(log.first[at] - log.arrival[at])
        if log.output[at] > 1 and log.end[at] > log.first[at]:
            rows.append(_work(log, began, at, waits=False))
            times.append(log.end[at] - log.first[at])
    if len(rows) < len(some) + LEAST:
        raise UsageError(f"needs {LEAST} answers of several tokens at least")
    terms, seconds = np.array(rows), np.array(times)
    found = least_squares(terms, seconds, seconds)
    for _ in range(4):
        found = least_squares(terms, seconds, np.maximum(terms @ found, 1e-9))
    fixed, token, sequence, kv_token, pair = (found * 1e6).tolist()
    return Profile(fixed, (token,) * 4, sequence, kv_token, pair, 0.0)


def _prefilled_from(log: Requests) -> Floats:
    """When each prompt was first computed: a server computes one prompt after the other."""
    order = np.argsort(log.first, kind="stable")
    firsts = log.first[order]
    before = np.searchsorted(firsts, firsts, side="left") - 1
    free = np.where(before >= 0, firsts[np.maximum(before, 0)], 0.0)
    began = np.empty_like(free)
    began[order] = np.maximum(log.arrival[order], free)
    return began


def _work(log: Requests, began: Floats, own: int, waits: bool) -> Floats:
    """What was computed while a request waited for its first token, or from that to its last.

    That is: steps, tokens, decoding sequences, tokens that these attended to, pairs of prompts.

    Args:
        log: All requests.
        began: When each prompt was first computed.
        own: The request's place.
        waits: Which of the two.
    """
    begin, end = log.first[own], log.end[own]
    if waits:
        begin, end = log.arrival[own], log.first[own]
    more = log.output - 1
    since, until = (_passed(log.first, log.end, moment) for moment in (begin, end))
    decoded = more * (until - since)
    attended = decoded * (log.prompt + more * (since + until) / 2)
    share = _passed(began, log.first, end) - _passed(began, log.first, begin)
    new = log.prompt - log.cached
    rows = np.maximum(new, StepProfile.SHORT_CHUNK)
    pairs = np.where(new > 0, rows * log.cached + new * (new + 1) / 2, 0) @ share
    part = 1.0
    steps = float(more[own])
    if waits:
        moments = len(np.unique(log.first[(log.first > begin) & (log.first <= end)]))
        steps = max(float(decoded.max()), float(moments), 1.0)
        # If it came within a step, half of that was over on the mean.
        is_met = ((log.first < begin) & (log.end > begin)).any()
        part = (steps - 0.5) / steps if is_met else 1.0
    work = (steps, new @ share + decoded.sum(), decoded.sum(), attended.sum(), pairs)
    computed: Floats = part * np.array(work)
    return computed


def _passed(begin: Floats, end: Floats, moment: float) -> Floats:
    """Which share of each span was over at a moment."""
    share: Floats = np.clip((moment - begin) / np.maximum(end - begin, 1e-12), 0, 1)
    return share
