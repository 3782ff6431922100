"""Several cards that serve as one replica: what each holds and computes, and what they exchange.

``tp=4,dp=2,ep=8,link=450GB/s,latency=10us``: tensor-parallel ranks split every matrix and the heads
of attention, data-parallel ones each attend to sequences of their own, and expert-parallel ones
split the experts of a mixture.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvframe.bench.options import keyed
from kvframe.bench.server.cards import Card
from kvframe.bench.server.links import parse_latency, parse_rate
from kvframe.bench.server.shape import Served
from kvframe.config.sizes import rounded, whole
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

LINK = 450e9
"""Bytes a second each way between cards of a host: NVLink of an H100 or H200, by the data sheet."""
LATENCY = 10e-6
"""Seconds that an exchange takes besides, an estimate."""
KEYS = (
    *("tp", "dp", "ep", "link", "latency", "in_network_reduction"),
    *("gpus_per_node", "scale_out", "scale_out_latency", "scale_out_in_network_reduction"),
)
COUNTS = ("tp", "dp", "ep", "gpus_per_node")
MOST_RANKS = 4096
"""Of each count: a check on typing errors, past what is served anywhere."""
OUT = ("scale_out", "scale_out_latency", "scale_out_in_network_reduction")
"""Keys of the network between nodes."""


class Parallel(NamedTuple):
    """How a replica is spread over cards.

    Attributes:
        tp: Tensor-parallel ranks.
        dp: Data-parallel ranks, of ``tp`` cards each.
        ep: Cards over which experts are spread; 1: as other matrices.
        link: Bytes a second that a card sends to the others.
        latency: Seconds of an exchange besides.
        in_network_reduction: Whether the switch sums: a card sends its numbers and gets the sum.
        gpus_per_node: Cards that ``link`` joins; ranks fill one node after the other.
        scale_out: Bytes a second that a card sends to other nodes, over a port of its own.
        scale_out_latency: Seconds of an exchange between nodes besides.
        scale_out_in_network_reduction: Whether the network between nodes sums.
    """

    tp: int = 1
    dp: int = 1
    ep: int = 1
    link: float = LINK
    latency: float = LATENCY
    in_network_reduction: bool = False
    gpus_per_node: int | None = None
    scale_out: float | None = None
    scale_out_latency: float = LATENCY
    scale_out_in_network_reduction: bool = False

    @property
    def cards(self) -> int:
        """Cards of a replica."""
        return self.tp * self.dp

    def weights(self, shape: Served) -> float:
        """Bytes of weights on each card."""
        return shape.weights_on_card(self.tp, self.ep)

    def exchanges(self, shape: Served) -> int:
        """How often in a step all cards wait for one another.

        A layer sums over the tensor-parallel ranks behind its attention and behind its MLP, and
        sends tokens to experts and back.
        """
        return 2 * (shape.layers * (self.tp > 1) + shape.moe_layers * (self.ep > 1))

    def exchange_seconds(self, shape: Served) -> float:
        """What these take whatever they carry.

        A sum over several nodes is one within each, in two halves, around one between them. Tokens
        go to experts of their own node and of others at once.
        """
        if self.gpus_per_node is None:
            return self.latency * self.exchanges(shape)
        out = self.scale_out_latency
        sums = 2 * self.latency + out if self._spans(self.tp) else self.latency
        sent = max(self.latency, out) if self._spans(self.ep) else self.latency
        return 2 * (shape.layers * (self.tp > 1) * sums + shape.moe_layers * (self.ep > 1) * sent)

    def token_seconds(self, shape: Served) -> float:
        """What exchanges take for one token of a step.

        A sum over ``tp`` ranks sends ``2 (tp - 1) / tp`` of the token's numbers over a card's link
        (a ring's reduce-scatter and all-gather), or all of them where the network sums; an expert
        on another card gets all of them. Over nodes of ``k`` cards a sum sends ``2 (k - 1) / k`` of
        the numbers within, and between nodes a card sums its ``k``-th.
        """
        sums = 2 * self._summed() / self.dp
        sent = self._sent(2 * shape.sent_experts) / self.cards
        size = shape.layers * shape.hidden * shape.activation_bytes
        return size * (sums + sent) / self.link

    def _spans(self, ranks: int) -> bool:
        return self.gpus_per_node is not None and ranks > self.gpus_per_node

    def _summed(self) -> float:
        """Times that a sum sends a number over a card's link, or what takes as long."""
        near, out, tp = self.gpus_per_node, self.scale_out, self.tp
        if near is None or out is None or tp <= near:
            return 1.0 if self.in_network_reduction and tp > 1 else 2 * (tp - 1) / tp
        nodes = -(-tp // near)
        far = 1.0 if self.scale_out_in_network_reduction else 2 * (nodes - 1) / nodes
        return 2 * (near - 1) / near + far / near * self.link / out

    def _sent(self, copies: float) -> float:
        """How many of a token's copies pass a card's link, or what takes as long."""
        near, out, ep = self.gpus_per_node, self.scale_out, self.ep
        if near is None or out is None or ep <= near:
            return copies * (ep - 1) / ep
        return copies * max((near - 1) / ep, (ep - near) / ep * self.link / out)

    def blocks_on(self, card: Card, shape: Served, block_size: int, sequences: int = 0) -> int:
        """Blocks that a replica's cards hold beside the weights, and beside what ``sequences`` have
        whatever their length.

        Raises:
            ConfigError: These leave no room for a block.
        """
        room, weights = card.memory * card.utilization, self.weights(shape)
        size = shape.block_on_card(block_size, self.tp)
        held = self.held(shape, sequences)
        blocks = int((room - weights - held) // size)
        if blocks < 1:
            besides = (
                f" and {rounded(int(held))} for windows and states of {sequences} sequences: "
                "lower --max-num-seqs"
                if held
                else ""
            )
            raise ConfigError(
                f"--card {card.name}: {card.utilization:.0%} of {rounded(int(card.memory))} leaves "
                f"no block of {rounded(int(size))} beside weights of "
                f"{rounded(int(weights))}{besides}"
            )
        return blocks * self.dp

    def held(self, shape: Served, sequences: int) -> float:
        """Bytes of each card that so many sequences have whatever their length."""
        return shape.sequence_on_card(self.tp) * -(-sequences // self.dp)


ALONE = Parallel()


def parse_parallel(text: str | None, shape: Served) -> Parallel:
    """What ``--parallel`` says.

    Raises:
        ConfigError: An unknown key, an impossible value, or one that the model does not allow.
    """
    if text is None:
        return ALONE
    where = f"--parallel {text}"
    given = keyed(text.split(","), where)
    made = Parallel(**{key: _value(key, str(value), where) for key, value in given.items()})
    if shape.heads % made.tp:
        raise ConfigError(f"{where}: tp = {made.tp}: must divide the {shape.heads:g} heads")
    if made.cards % made.ep:
        raise ConfigError(f"{where}: ep = {made.ep}: must divide tp x dp = {made.cards}")
    if made.ep > 1 and not shape.is_mixture:
        raise ConfigError(f"{where}: ep = {made.ep}: --model-shape has no expert_params")
    for key in OUT:
        if key in given and "gpus_per_node" not in given:
            raise ConfigError(f"{where}: {key} goes with gpus_per_node: the cards that link joins")
    for key in ("tp", "ep"):
        ranks = getattr(made, key)
        if made.gpus_per_node and ranks > made.gpus_per_node and made.scale_out is None:
            raise ConfigError(
                f"{where}: scale_out is missing: {key} = {ranks} is beyond gpus_per_node = "
                f"{made.gpus_per_node}"
            )
    return made


def _value(key: str, value: str, where: str) -> Any:
    if key not in KEYS:
        raise ConfigError(f"{where}: no key {key}: {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
    if key in ("link", "scale_out"):
        return parse_rate(value, f"{where}: {key}")
    if key in ("latency", "scale_out_latency"):
        return parse_latency(value, f"{where}: {key}")
    if key not in COUNTS:
        if value not in ("true", "false"):
            raise ConfigError(f"{where}: {key} = {value}: must be true or false")
        return value == "true"
    count = whole(value) or 0
    if not 1 <= count <= MOST_RANKS:
        raise ConfigError(
            f"{where}: {key} = {value}: must be a whole number from 1 to {MOST_RANKS}"
        )
    return count
