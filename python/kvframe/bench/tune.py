"""``kvframe bench tune``: options that fit one part of a trace, judged on the part held out.

Every combination is replayed on the whole trace. The best is chosen by the requests of the first
part, and compared with the policy's defaults, and with lru, by the requests of the rest: what only
fits the first part does not hold there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.bench.bootstrap import DRAWS, LEVEL, drawn_rates, simultaneous, told
from kvframe.bench.cells import Plan
from kvframe.bench.comparison import Comparison
from kvframe.bench.edges import edges
from kvframe.bench.lacks import lacks
from kvframe.bench.locate import choose_all
from kvframe.bench.outcomes import RequestOutcomes
from kvframe.bench.policies import BASELINE, Choice
from kvframe.bench.run import run_whole
from kvframe.bench.traces import Source
from kvframe.errors import ConfigError
from kvframe.registry import Registry
from kvframe.registry.naming import named

MOST = 1_000
"""Combinations."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A combination: token hit rates on the mean of the sizes, of both parts."""

    policy: str
    fitted: float
    held_out: float


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it.

    Attributes:
        best: The combination that hits most in the first part; the defaults where they hit as much.
        default: The policy without options.
        settings: All combinations, best in the first part first, and lru.
        first_part: Requests, from the start, that the choice goes by: rates ``fitted``, ``gain``.
        held_out: Requests behind them that judge it: rates ``held_out``, ``held``, ``overfits``.
        gain: Of the best over the defaults in the first part, as a share.
        held: The best with the defaults, and with lru, by the requests held out.
        overfits: Whether a gain in the first part is none in the rest, beyond doubt.
        sentence: The answer.
        doubt: What the intervals of ``held`` are of.
        remarks: Where the best lies at the edge of what was tried; what the policy goes by, and the
            trace does not tell.
    """

    best: str
    default: str
    settings: Sequence[Setting]
    first_part: int
    held_out: int
    gain: float
    held: Sequence[Comparison]
    overfits: bool
    sentence: str
    doubt: str
    remarks: Sequence[str]


def combinations(policy: str, options: Mapping[str, Sequence[str]]) -> list[str]:
    """``slru:protected_uses=2`` and so on, without the defaults.

    Raises:
        ConfigError: More than `MOST`.
    """
    pairs = [[f"{name}={value}" for value in values] for name, values in options.items()]
    count = int(np.prod([len(values) for values in pairs], dtype=np.int64))
    if count > MOST:
        raise ConfigError(f"--option: {count} combinations; must be at most {MOST}")
    name, fixed = named(policy, f"tune {policy}")
    kept = [f"{key}={value}" for key, value in fixed.items() if key not in options]
    return [f"{name}:{','.join([*kept, *chosen])}" for chosen in itertools.product(*pairs)]


def tune(
    source: Source,
    policy: str,
    options: Mapping[str, Sequence[str]],
    sizes: Sequence[int],
    mode: str,
    first: float = 0.5,
    *,
    quiet: bool = True,
) -> Tuned:
    """Try every combination of ``options`` at ``sizes``.

    Args:
        source: The trace.
        policy: The policy, perhaps with options that stay as they are.
        options: Values to try by option.
        sizes: Blocks.
        mode: The mode.
        first: The share of the requests, from the start, that the choice goes by.
        quiet: No progress on stderr.

    Raises:
        KVFrameError: An option or a value is wrong, or a cell failed.
        KeyboardInterrupt: Ctrl-C.
    """
    if not 0 < first < 1:
        raise ConfigError(f"--fit {first}: must be above 0 and below 1")
    tried = _tried(combinations(policy, options))
    default, lru = choose_all("eviction", [policy, BASELINE], Registry())
    choices = list(dict.fromkeys([*tried, default, lru]))
    plans = [Plan(source, choice, mode, size) for choice in choices for size in sizes]
    requests = run_whole(plans, quiet=quiet).requests
    found = _tuned(source, tried, default, lru, sizes, mode, first, requests)
    best = next((choice for choice in tried if choice.label == found.best), None)
    if best is None or found.gain <= 0:
        return found
    beyond = edges(best, tried, options)
    return msgspec.structs.replace(found, remarks=[*beyond, *found.remarks])


def _tried(texts: Iterable[str]) -> list[Choice]:
    registry, tried = Registry(), []
    for text in texts:
        try:
            tried += choose_all("eviction", [text], registry)
        except ConfigError as error:
            given = text.partition(":")[2]
            told = re.sub(r"^--policy .*?: ", "", str(error))
            several = "; several values go with commas" if ".." in given or "-" in given else ""
            raise ConfigError(f"--option {given}: {told}{several}") from None
    return tried


def _tuned(
    source: Source,
    tried: Sequence[Choice],
    default: Choice,
    lru: Choice,
    sizes: Sequence[int],
    mode: str,
    first: float,
    requests: Mapping[Plan, RequestOutcomes],
) -> Tuned:
    tokens, session = source.facts.input_tokens, source.facts.together
    cut = int(first * len(tokens))
    hits = {
        choice.label: np.stack(
            [requests[Plan(source, choice, mode, size)].hit_tokens for size in sizes]
        ).sum(axis=0, dtype=np.int64)
        for choice in (*tried, default, lru)
    }

    def rate(label: str, part: slice) -> float:
        whole = int(tokens[part].sum(dtype=np.int64)) * len(sizes)
        return int(hits[label][part].sum()) / max(whole, 1)

    fit, rest = slice(None, cut), slice(cut, None)
    settings = [
        Setting(policy=label, fitted=rate(label, fit), held_out=rate(label, rest)) for label in hits
    ]
    settings.sort(key=lambda setting: (-setting.fitted, setting.policy != default.label))
    own = [setting for setting in settings if setting.policy != lru.label]
    best, base = own[0].policy, default.label
    others = list(dict.fromkeys(label for label in (base, lru.label) if label != best))
    labels = [best, *others]
    drawn = drawn_rates([hits[label][rest] for label in labels], tokens[rest], session[rest])
    drawn /= len(sizes)
    estimate = np.array([rate(best, rest) - rate(label, rest) for label in others])
    made = simultaneous(estimate, drawn[:, :1] - drawn[:, 1:])
    held = [
        Comparison(
            policy=best,
            baseline=label,
            capacity_blocks=None if len(sizes) > 1 else sizes[0],
            difference=float(made.estimate[i]),
            low=float(made.low[i]),
            high=float(made.high[i]),
            p=float(made.p[i]),
        )
        for i, label in enumerate(others)
    ]
    gain = rate(best, fit) - rate(base, fit)
    against = next((row for row in held if row.baseline == base), None)
    overfits = against is not None and gain > 0 and against.high <= 0
    return Tuned(
        best=best,
        default=base,
        settings=settings,
        first_part=cut,
        held_out=len(tokens) - cut,
        gain=gain,
        held=held,
        overfits=overfits,
        sentence=_no_choice([hits[choice.label] for choice in tried], own)
        or _sentence(best, base, len(tried), gain, held, overfits),
        doubt=f"{LEVEL:.0%} intervals by {DRAWS:,} paired resamplings of {told(source.facts, cut)}",
        remarks=lacks([(default, source)]),
    )


def _no_choice(hits: Sequence[npt.NDArray[np.int64]], own: Sequence[Setting]) -> str:
    """Why the first part cannot choose among the settings, the defaults among them; empty if it
    can.
    """
    if len(hits) > 1 and all(np.array_equal(hits[0], other) for other in hits):
        return f"all {len(hits)} settings hit the same in every request: no option acts here"
    if all(setting.fitted == own[0].fitted for setting in own):
        return "all settings hit the same in the first part: it cannot choose; keep the defaults"
    return ""


def _sentence(
    best: str, base: str, tried: int, gain: float, held: Sequence[Comparison], overfits: bool
) -> str:
    against = next((row for row in held if row.baseline == base), None)
    lru = next((row for row in held if row.baseline == BASELINE), None)
    told = ""
    if lru is not None and base != BASELINE:
        word = "better" if lru.better else "no better"
        told = f"; in the part held out {best} is {word} than lru, {lru.points}"
    if against is None or gain <= 0:
        return f"none of {tried} settings hits more than the defaults in the first part{told}"
    start = (
        f"of {tried} settings {best} hits most in the first part, {100 * gain:+.2f} points from "
        f"the defaults there; in the part held out it is {against.points} from them"
    )
    end = "the two are not told apart there: keep the defaults, or tune on more requests"
    if against.better:
        end = "that holds"
    elif overfits:
        end = "that does not hold: keep the defaults"
    return f"{start}: {end}{told}"
