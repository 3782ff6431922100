"""A model in a file: the formats of its weights, and the kinds of its layers.

The keys are those of inference-lab's ``[model]``, at the top of a TOML file: ``[[weights]]`` are
read and multiplied with, each in its ``precision``; ``[[layers]]`` say how many layers attend to
what. A file of its catalogue is read as it is.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from kvframe.bench.options import OptionOrigins
from kvframe.bench.server.kinds import KINDS, Kind, Linear, Mla
from kvframe.bench.server.precision import BYTES, Precision
from kvframe.config import ModelConfig
from kvframe.config.origins import Origins, join
from kvframe.config.values import build
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

_Count = Annotated[int, Meta(ge=1)]


class Routing(Struct, frozen=True, forbid_unknown_fields=True):
    """Experts of a layer, those that a token goes to, and the layers that have them."""

    routed_experts: _Count
    experts_per_tok: _Count
    moe_layers: _Count


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    """Matrices of one number format: parameters that a token is multiplied with, and all of them.

    Without ``routing`` a step reads those that a token is multiplied with; with it, those that all
    share, and the experts that its tokens go to.
    """

    precision: Precision
    active_params: _Count
    resident_params: _Count
    routing: Routing | None = None

    @property
    def expert_params(self) -> float:
        """Parameters of one routed expert, in all layers; 0 where every token goes to all."""
        routing = self.routing
        if routing is None or routing.routed_experts <= routing.experts_per_tok:
            return 0.0
        idle = routing.routed_experts - routing.experts_per_tok
        return (self.resident_params - self.active_params) / idle

    @property
    def shared_params(self) -> float:
        """Parameters that every token is multiplied with, whichever experts it goes to."""
        used = self.routing.experts_per_tok if self.routing else 0
        return max(self.active_params - used * self.expert_params, 0.0)

    def resident_on_card(self, tp: int, ep: int) -> float:
        """Bytes on each of ``tp`` cards, with experts over ``ep`` of them."""
        experts = self.routing.routed_experts * self.expert_params if self.routing else 0.0
        rest = self.resident_params - experts
        return (rest / tp + experts / (ep if ep > 1 else tp)) * BYTES[self.precision]


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` and ``max_seq_len`` change nothing."""

    hidden_dim: _Count
    weights: list[Weights]
    layers: list[dict[str, Any]]
    name: str = ""
    max_seq_len: _Count | None = None
    attention_precision: Precision = "bf16"
    activation_bytes: _Count = 2


class Model(NamedTuple):
    """A model.

    Attributes:
        text: The file that it was read from.
        hidden: Width of what goes from layer to layer.
        attention_precision: Format in which tokens attend to one another.
        activation_bytes: Bytes of a number that goes from card to card.
        weights: Matrices, by format.
        kinds: Layers, by what they attend to.
    """

    text: str
    hidden: int
    attention_precision: Precision
    activation_bytes: int
    weights: Sequence[Weights]
    kinds: Sequence[Kind]

    @property
    def params(self) -> float:
        """All parameters."""
        return float(sum(one.resident_params for one in self.weights))

    @property
    def layers(self) -> int:
        """Layers of all kinds."""
        return sum(kind.count for kind in self.kinds)

    @property
    def moe_layers(self) -> int:
        """Layers whose tokens go to experts."""
        return sum(one.routing.moe_layers for one in self.weights if one.routing)

    @property
    def sent_experts(self) -> float:
        """Experts that a token goes to in a layer, on the mean of all layers."""
        each = (one.routing for one in self.weights if one.routing)
        return sum(one.moe_layers * one.experts_per_tok for one in each) / self.layers

    @property
    def heads(self) -> int:
        """What ranks must divide so that each has as many heads of each kind; 0: any."""
        return math.gcd(*(kind.heads or 0 for kind in self.kinds if not isinstance(kind, Linear)))

    @property
    def is_mixture(self) -> bool:
        """Whether there are experts."""
        return self.moe_layers > 0

    @property
    def token_bytes(self) -> int:
        """Bytes that a token of a prompt takes for good, in all layers, rounded up."""
        return math.ceil(self._token_bytes(1))

    @property
    def kv(self) -> ModelConfig:
        """As many bytes a token, for capacities in bytes."""
        return ModelConfig(layers=1, latent_dim=1, dtype="int8", extra_bytes=self.token_bytes - 1)

    def weights_on_card(self, tp: int, ep: int) -> float:
        """Bytes of weights on each card."""
        return sum(one.resident_on_card(tp, ep) for one in self.weights)

    def block_on_card(self, block_size: int, tp: int) -> float:
        """Bytes of a block on each of the cards that have its sequence."""
        return self._token_bytes(tp) * block_size

    def sequence_on_card(self, tp: int) -> float:
        """Bytes of a sequence there whatever its length: full windows, and states."""
        windows = sum(kind.window_bytes / kind.ranks(tp) for kind in self.kinds)
        states = sum(kind.state / tp for kind in self.kinds)
        return states + (windows if self._grows else 0.0)

    def _token_bytes(self, tp: int) -> float:
        bytes_of = (
            kind.token_bytes if self._grows else kind.position_bytes * kind.count
            for kind in self.kinds
        )
        return sum(n / kind.ranks(tp) for n, kind in zip(bytes_of, self.kinds, strict=True))

    @property
    def _grows(self) -> bool:
        """Whether any layer keeps all tokens; otherwise a block is of windows."""
        return any(kind.token_bytes for kind in self.kinds)


def read_model(path: str) -> Model:
    """A model file.

    Raises:
        ConfigError: It cannot be read, or a key or value is missing, unknown or impossible.
    """
    origins = OptionOrigins(f"--model-shape {path}")
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--model-shape {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"--model-shape {path}: {error}") from None
    file = build(_File, table, "", origins)
    kinds = [_kind(row, join("layers", at), origins) for at, row in enumerate(file.layers)]
    for name, rows in (("weights", file.weights), ("layers", kinds)):
        if not rows:
            raise origins.error(name, [], f"must have a row at least: [[{name}]]")
    made = Model(
        path, file.hidden_dim, file.attention_precision, file.activation_bytes, file.weights, kinds
    )
    for wrong in _wrong(made, origins):
        raise wrong
    return made


def _kind(row: dict[str, Any], path: str, origins: Origins) -> Kind:
    given = dict(row)
    name = given.pop("kind", None)
    if name not in KINDS:
        known = ", ".join(KINDS)
        near = did_you_mean(str(name), KINDS) if name is not None else ""
        raise origins.error(join(path, "kind"), name, f"must be one of {known}{near}")
    return build(KINDS[name], given, path, origins)


def _wrong(model: Model, origins: Origins) -> Iterator[ConfigError]:
    """What the values forbid one another."""
    for at, one in enumerate(model.weights):
        path = join("weights", at)
        if one.resident_params < one.active_params:
            yield origins.error(
                join(path, "resident_params"),
                one.resident_params,
                f"must be at least active_params = {one.active_params}",
            )
        routing = one.routing
        if routing is not None and routing.routed_experts < routing.experts_per_tok:
            yield origins.error(
                join(path, "routing.routed_experts"),
                routing.routed_experts,
                f"must be at least experts_per_tok = {routing.experts_per_tok}",
            )
        if routing is not None and routing.moe_layers > model.layers:
            yield origins.error(
                join(path, "routing.moe_layers"),
                routing.moe_layers,
                f"must be at most the {model.layers} layers",
            )
    for at, kind in enumerate(model.kinds):
        if isinstance(kind, Mla):
            yield from kind.wrong(join("layers", at), origins)
    if all(isinstance(kind, Linear) for kind in model.kinds):
        yield origins.error(
            "layers",
            "linear",
            "must have a row that keeps KV, of attention or mla: a pool has blocks",
        )
