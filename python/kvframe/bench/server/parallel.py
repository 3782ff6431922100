"""Several cards that serve as one replica: what each holds and computes, and what they exchange.

``tp=4,dp=2,ep=8,link=450GB/s,latency=10us``: tensor-parallel ranks split every matrix and the heads
of attention, data-parallel ones each attend to sequences of their own, and expert-parallel ones
split the experts of a mixture.
"""

from __future__ import annotations

from typing import NamedTuple

from kvframe.bench.options import keyed
from kvframe.bench.server.cards import Card
from kvframe.bench.server.links import parse_latency, parse_rate
from kvframe.bench.server.shape import Shape
from kvframe.config.sizes import rounded
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

LINK = 450e9
"""Bytes a second each way between cards of a host: NVLink of an H100 or H200, by the data sheet."""
LATENCY = 10e-6
"""Seconds that an exchange takes besides, an estimate."""
NUMBER = 2
"""Bytes of a number of the residual stream."""
KEYS = ("tp", "dp", "ep", "link", "latency")


class Parallel(NamedTuple):
    """How a replica is spread over cards.

    Attributes:
        tp: Tensor-parallel ranks.
        dp: Data-parallel ranks, of ``tp`` cards each.
        ep: Cards over which experts are spread; 1: as other matrices.
        link: Bytes a second that a card sends to the others.
        latency: Seconds of an exchange besides.
    """

    tp: int = 1
    dp: int = 1
    ep: int = 1
    link: float = LINK
    latency: float = LATENCY

    @property
    def cards(self) -> int:
        """Cards of a replica."""
        return self.tp * self.dp

    def weights(self, shape: Shape) -> float:
        """Bytes of weights on each card."""
        experts = shape.expert_params / (self.ep if self.ep > 1 else self.tp)
        return ((shape.params - shape.expert_params) / self.tp + experts) * shape.weight_bytes

    def kv_ranks(self, shape: Shape) -> int:
        """Cards over which the KV of a sequence is spread: each has a head at least."""
        return min(self.tp, shape.kv.kv_heads or 1)

    def exchanges(self, shape: Shape) -> int:
        """How often in a step all cards wait for one another.

        A layer sums over the tensor-parallel ranks behind its attention and behind its MLP, and
        sends tokens to experts and back.
        """
        return shape.kv.layers * 2 * ((self.tp > 1) + (self.ep > 1))

    def token_seconds(self, shape: Shape) -> float:
        """What exchanges take for one token of a step.

        A sum over ``tp`` ranks sends ``2 (tp - 1) / tp`` of the token's numbers over a card's link
        (a ring's reduce-scatter and all-gather); an expert on another card gets all of them.
        """
        sums = 2 * 2 * (self.tp - 1) / self.tp / self.dp
        sent = 2 * shape.experts_used * (self.ep - 1) / self.ep / self.cards
        size = shape.kv.layers * shape.hidden * NUMBER
        return size * (sums + sent) / self.link

    def blocks_on(self, card: Card, shape: Shape, block_size: int) -> int:
        """Blocks that a replica's cards hold beside the weights.

        Raises:
            ConfigError: The weights leave no room for a block.
        """
        room, weights = card.memory * card.utilization, self.weights(shape)
        size = shape.token_bytes * block_size / self.kv_ranks(shape)
        blocks = int((room - weights) // size)
        if blocks < 1:
            raise ConfigError(
                f"--card {card.name}: {card.utilization:.0%} of {rounded(int(card.memory))} leaves "
                f"no block of {rounded(int(size))} beside weights of {rounded(int(weights))}"
            )
        return blocks * self.dp


ALONE = Parallel()


def parse_parallel(text: str | None, shape: Shape) -> Parallel:
    """What ``--parallel`` says.

    Raises:
        ConfigError: An unknown key, an impossible value, or one that the model does not allow.
    """
    if text is None:
        return ALONE
    where = f"--parallel {text}"
    numbers: dict[str, int] = {}
    link, latency = LINK, LATENCY
    for key, value in keyed(text.split(","), where).items():
        if key not in KEYS:
            raise ConfigError(f"{where}: no key {key}: {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
        if key == "link":
            link = parse_rate(value, f"{where}: link")
        elif key == "latency":
            latency = parse_latency(value, f"{where}: latency")
        elif not str(value).isdecimal() or int(value) < 1:
            raise ConfigError(f"{where}: {key} = {value}: must be a whole number, 1 or more")
        else:
            numbers[key] = int(value)
    made = Parallel(**numbers, link=link, latency=latency)
    if shape.heads % made.tp:
        raise ConfigError(f"{where}: tp = {made.tp}: must divide the {shape.heads:g} heads")
    if made.cards % made.ep:
        raise ConfigError(f"{where}: ep = {made.ep}: must divide tp x dp = {made.cards}")
    if made.ep > 1 and not shape.expert_params:
        raise ConfigError(f"{where}: ep = {made.ep}: --model-shape has no expert_params")
    return made
