"""Roofline terms of a model's file: from bytes and operations to seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvframe import _core
from kvframe.bench.server.cards import Card
from kvframe.bench.server.kinds import Linear, Mla
from kvframe.bench.server.model import Model
from kvframe.bench.server.parallel import Parallel
from kvframe.bench.server.precision import BYTES, Precision
from kvframe.errors import ConfigError

if TYPE_CHECKING:
    from kvframe.bench.server.profiles import Roofline

ALL = 2**32 - 1
"""What the core takes for no limit."""

_Format = tuple[float, float, list[tuple[float, float, float]]]
_History = tuple[int, int, float, float]
_Kind = tuple[int, _History | None, float, float, float]


class _Terms:
    """Seconds on each card of a replica."""

    def __init__(self, factors: Roofline, card: Card, model: Model, over: Parallel) -> None:
        self._factors, self._card, self._model, self._over = factors, card, model, over

    def rate(self, precision: Precision) -> float:
        rate = self._card.rate(precision)
        if rate is None:
            raise ConfigError(
                f"--card {self._card.name}: flops_{precision} is missing, for what --model-shape "
                f"{self._model.text} computes in {precision}: "
                f"--card {self._card.name.partition(':')[0]}:flops_{precision}=N"
            )
        return rate

    def matrices(self) -> list[_Format]:
        """Of each format: reading what all tokens share, one token's products, and experts."""
        over = self._over
        each: dict[Precision, _Format] = {}
        for one in self._model.weights:
            read, token, routed = each.get(one.precision, (0.0, 0.0, []))
            rate = self._factors.weights * BYTES[one.precision] / self._card.bandwidth
            read += rate * one.shared_params / over.tp
            compute = self._factors.compute * 2 * one.active_params
            token += compute / self.rate(one.precision) / over.cards
            if one.expert_params and one.routing is not None:
                # Experts that are spread see the tokens of all ranks, others those of their own.
                ranks, seen = (over.ep, 1) if over.ep > 1 else (over.tp, over.dp)
                used = one.routing.experts_per_tok / seen
                expert = rate * one.expert_params / ranks
                routed = [*routed, (float(one.routing.routed_experts), used, expert)]
            each[one.precision] = (read, token, routed)
        return list(each.values())

    def kinds(self) -> list[_Kind]:
        """Of each kind that attends: window, history, reading a position, and pairs of it."""
        model, over = self._model, self._over
        each = self._pair(model.attention_precision)
        found = []
        for kind in model.kinds:
            if isinstance(kind, Linear):
                continue
            read = self._read(kind.count * kind.position_bytes / kind.ranks(over.tp))
            prompt, answer = (kind.count * n * each for n in kind.pair_flops(model.hidden))
            history = self._history(kind) if isinstance(kind, Mla) else None
            is_whole = kind.window == 0 and history is None
            found.append((ALL if is_whole else kind.window, history, read, prompt, answer))
        return found

    def states(self) -> float:
        """Reading the states of a sequence."""
        return self._read(sum(kind.state for kind in self._model.kinds) / self._over.tp)

    def _read(self, size: float) -> float:
        return self._factors.kv * size / self._card.bandwidth / self._over.dp

    def _pair(self, precision: Precision) -> float:
        """One operation of attention."""
        return self._factors.attention / self.rate(precision) / self._over.cards

    def _history(self, kind: Mla) -> _History | None:
        if kind.history is None:
            return None
        score, one = 0.0, kind.history.indexer
        if one is not None:
            each = self._pair(one.precision or self._model.attention_precision)
            score = kind.count * 2 * one.heads * one.head_dim * each
        most = kind.history.index_topk or ALL
        return kind.history.compress_ratio, most, score, self._read(kind.count * kind.index_bytes)


def layered(
    factors: Roofline, card: Card, model: Model, over: Parallel, *, cascade: bool
) -> _core.StepProfile:
    """The terms of a model's file, each times its factor.

    Raises:
        ConfigError: The card's data sheet has no rate for a format that the model computes in.
    """
    terms = _Terms(factors, card, model, over)
    return _core.StepProfile.layered(
        host=factors.host_us / 1e6 + over.exchange_seconds(model),
        matrices=terms.matrices(),
        kinds=terms.kinds(),
        state=terms.states(),
        exchange=over.token_seconds(model),
        cascade=cascade,
    )
