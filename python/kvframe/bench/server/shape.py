"""The served model: what a step reads and computes of it, and the blocks a card holds beside it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from kvframe.bench.capacity import parse_shape
from kvframe.bench.options import keyed
from kvframe.bench.server.cards import Card
from kvframe.config import ModelConfig
from kvframe.config.sizes import rounded, token_bytes
from kvframe.errors import ConfigError

DEFAULT = "layers=32,kv_heads=8,head_dim=128,dtype=bf16,params=8e9"
"""A model of 8 billion parameters with grouped queries."""
USED = 0.9
"""The share of a card's memory that a server takes, as vLLM's default has it."""

_Positive = Annotated[float, msgspec.Meta(gt=0)]


class Shape(NamedTuple):
    """A model.

    Attributes:
        text: As it was asked for.
        kv: What of it KV is kept.
        params: Parameters that a token is multiplied with.
        weight_bytes: Bytes a parameter.
        heads: Heads of queries, of a layer.
    """

    text: str
    kv: ModelConfig
    params: float
    weight_bytes: float
    heads: float

    @property
    def weights(self) -> float:
        """Bytes of all weights."""
        return self.params * self.weight_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes of a token's KV, in all layers."""
        return token_bytes(self.kv)

    @property
    def pair_flops(self) -> float:
        """Operations of the attention of one token to one token, in all layers: a product with the
        key, and one with the value.
        """
        width = self.kv.head_dim or self.kv.latent_dim or 0
        return 4 * self.kv.layers * self.heads * width

    def blocks_on(self, card: Card, block_size: int) -> int:
        """Blocks that a card holds beside the weights.

        Raises:
            ConfigError: The weights leave no room for a block.
        """
        room = card.memory * USED - self.weights
        blocks = int(room // (self.token_bytes * block_size))
        if blocks < 1:
            raise ConfigError(
                f"--card {card.name}: {USED:.0%} of {rounded(int(card.memory))} leaves no block of "
                f"{rounded(self.token_bytes * block_size)} beside weights of "
                f"{rounded(int(self.weights))}"
            )
        return blocks


def parse_server_shape(text: str) -> Shape:
    """``layers=32,kv_heads=8,head_dim=128,dtype=bf16,params=8e9``: a shape as ``--model-shape`` of
    `kvframe bench run` has it, and besides ``params``, ``weight_bytes`` (default 2) and ``heads``
    (default 4 for each of ``kv_heads``).

    Raises:
        ConfigError: A key or value that is missing, unknown or impossible.
    """
    pairs = keyed(text.split(","), f"--model-shape {text}")
    own = {key: str(pairs.pop(key)) for key in ("params", "weight_bytes", "heads") if key in pairs}
    kv = parse_shape(",".join(f"{key}={value}" for key, value in pairs.items()))
    if "params" not in own:
        raise ConfigError(f"--model-shape {text}: params is missing: the model's parameters (8e9)")
    if kv.kv_heads is None and "heads" not in own:
        raise ConfigError(f"--model-shape {text}: heads is missing: a latent serves all of them")
    numbers = {"weight_bytes": 2.0, "heads": 4.0 * (kv.kv_heads or 0)}
    for key, value in own.items():
        try:
            numbers[key] = msgspec.convert(value, _Positive, strict=False)
        except msgspec.ValidationError:
            raise ConfigError(
                f"--model-shape {text}: {key} = {value}: must be a number above 0"
            ) from None
    return Shape(text, kv, **numbers)
