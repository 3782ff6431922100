"""The served model: what a step reads and computes of it, and the blocks a card holds beside it."""

from __future__ import annotations

from typing import NamedTuple

from kvframe.bench.capacity import parse_shape
from kvframe.bench.options import LARGEST, keyed, positive
from kvframe.bench.server.model import Model, read_model
from kvframe.config import ModelConfig
from kvframe.config.sizes import token_bytes
from kvframe.errors import ConfigError

DEFAULT = "layers=32,kv_heads=8,head_dim=128,dtype=bf16,params=8e9"
"""A model of 8 billion parameters with grouped queries."""

OWN = ("params", "weight_bytes", "heads", "hidden", "expert_params", "experts", "experts_used")
"""What a shape has here besides what of it KV is kept."""


class Shape(NamedTuple):
    """A model.

    Attributes:
        text: As it was asked for.
        kv: What of it KV is kept.
        params: All parameters.
        weight_bytes: Bytes a parameter.
        heads: Heads of queries, of a layer.
        hidden: Width of what goes from layer to layer.
        expert_params: Of ``params``, those of all experts together.
        experts, experts_used: Experts of a layer, and of them those that a token goes to.
    """

    text: str
    kv: ModelConfig
    params: float
    weight_bytes: float
    heads: float
    hidden: float
    expert_params: float = 0.0
    experts: float = 1.0
    experts_used: float = 1.0

    @property
    def layers(self) -> int:
        """Layers."""
        return self.kv.layers

    @property
    def moe_layers(self) -> int:
        """Layers whose tokens go to experts, if there are any."""
        return self.kv.layers

    @property
    def sent_experts(self) -> float:
        """Experts that a token goes to in a layer."""
        return self.experts_used

    @property
    def is_mixture(self) -> bool:
        """Whether there are experts."""
        return self.expert_params > 0

    @property
    def activation_bytes(self) -> int:
        """Bytes of a number that goes from card to card."""
        return 2

    @property
    def active_params(self) -> float:
        """Parameters that a token is multiplied with."""
        idle = 1 - self.experts_used / self.experts
        return self.params - self.expert_params * idle

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

    def weights_on_card(self, tp: int, ep: int) -> float:
        """Bytes of weights on each of ``tp`` cards, with experts over ``ep`` of them."""
        experts = self.expert_params / (ep if ep > 1 else tp)
        return ((self.params - self.expert_params) / tp + experts) * self.weight_bytes

    def kv_ranks(self, tp: int) -> int:
        """Cards over which the KV of a sequence is spread: each has a head at least."""
        return min(tp, self.kv.kv_heads or 1)

    def block_on_card(self, block_size: int, tp: int) -> float:
        """Bytes of a block on each of the cards that have its sequence."""
        return self.token_bytes * block_size / self.kv_ranks(tp)

    def sequence_on_card(self, tp: int) -> float:
        """Bytes of a sequence there whatever its length."""
        return 0.0


Served = Shape | Model
"""A model, by the few numbers of one kind of layers or by a file."""


def parse_served(text: str) -> Served:
    """A model file, or a shape as `parse_server_shape` has it.

    Raises:
        ConfigError: As `read_model` and `parse_server_shape`.
    """
    return read_model(text) if text.endswith(".toml") else parse_server_shape(text)


def parse_server_shape(text: str) -> Shape:
    """``layers=32,kv_heads=8,head_dim=128,dtype=bf16,params=8e9``: a shape as ``--model-shape`` of
    `kvframe bench run` has it, and besides ``params``, ``weight_bytes`` (default 2), ``heads``
    (default 4 for each of ``kv_heads``), ``hidden`` (default that of all heads together), and for a
    mixture ``expert_params``, ``experts`` and ``experts_used``.

    Raises:
        ConfigError: A key or value that is missing, unknown or impossible.
    """
    pairs = keyed(text.split(","), f"--model-shape {text}")
    own = {key: str(pairs.pop(key)) for key in OWN if key in pairs}
    kv = parse_shape(",".join(f"{key}={value}" for key, value in pairs.items()))
    if "params" not in own:
        raise ConfigError(f"--model-shape {text}: params is missing: the model's parameters (8e9)")
    if kv.kv_heads is None and "heads" not in own:
        raise ConfigError(f"--model-shape {text}: heads is missing: a latent serves all of them")
    numbers = {"weight_bytes": 2.0, "heads": 4.0 * (kv.kv_heads or 0)}
    for key, value in own.items():
        number = positive(value)
        if number is None:
            limit = f"must be a number above 0, at most {LARGEST:g}"
            raise ConfigError(f"--model-shape {text}: {key} = {value}: {limit}")
        numbers[key] = number
    width = kv.head_dim or kv.latent_dim or 0
    shape = Shape(text, kv, **{"hidden": numbers["heads"] * width, **numbers})
    for key, most in (("expert_params", "params"), ("experts_used", "experts")):
        if getattr(shape, key) > getattr(shape, most):
            raise ConfigError(
                f"--model-shape {text}: {key} = {getattr(shape, key):g}: must be at most {most} = "
                f"{getattr(shape, most):g}"
            )
    return shape
