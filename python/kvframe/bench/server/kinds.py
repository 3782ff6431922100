"""Kinds of layers: to which tokens they attend, what that takes, and what they keep of a token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from kvframe.bench.server.precision import BYTES, Precision
from kvframe.config.origins import Origins, join
from kvframe.errors import ConfigError

_Count = Annotated[int, Meta(ge=1, lt=2**32)]
_Least0 = Annotated[int, Meta(ge=0, lt=2**32)]


class Indexer(Struct, frozen=True, forbid_unknown_fields=True):
    """Scores every entry of a history for each token, by keys of its own.

    ``precision`` is the format of the scores' products, by default the model's
    ``attention_precision``.
    """

    heads: _Count
    head_dim: _Count
    kv_precision: Precision
    precision: Precision | None = None


class History(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry every ``compress_ratio`` tokens: a token attends to all, or to ``index_topk``."""

    compress_ratio: _Count
    index_topk: _Least0 = 0
    indexer: Indexer | None = None


class Attention(Struct, frozen=True, forbid_unknown_fields=True):
    """Layers that keep keys and values of ``kv_heads``: of all tokens, or of the last ``window``.

    With ``kv_shared`` keys and values are one.
    """

    count: _Count
    heads: _Count
    head_dim: _Count
    kv_heads: _Count
    kv_precision: Precision
    kv_shared: bool = False
    window: _Least0 = 0

    state: ClassVar[int] = 0

    @property
    def position_bytes(self) -> float:
        """Bytes that one layer keeps of a token that it attends to."""
        parts = 1 if self.kv_shared else 2
        return parts * self.kv_heads * self.head_dim * BYTES[self.kv_precision]

    @property
    def token_bytes(self) -> float:
        """Bytes that all of them keep of a token for good."""
        return 0.0 if self.window else self.count * self.position_bytes

    @property
    def window_bytes(self) -> float:
        """Bytes that all of them keep of a full window."""
        return self.count * self.window * self.position_bytes

    def pair_flops(self, hidden: int) -> tuple[float, float]:
        """Operations of a token and one that it attends to, in a layer: of prompts, of answers."""
        flops = 4.0 * self.heads * self.head_dim
        return flops, flops

    def ranks(self, tp: int) -> int:
        """Cards over which a token's KV is spread: each has a head at least."""
        return min(tp, self.kv_heads)


class Mla(Struct, frozen=True, forbid_unknown_fields=True):
    """Layers that keep one latent a token, for all heads.

    They attend to the last ``window`` tokens and to a ``history``; with neither to all tokens. Of
    prompts, latents become keys and values of each head (2 x heads x (qk + v) operations a pair);
    of answers, heads attend to the latents (2 x heads x (2 x latent + rope)); without a head shape
    a pair is 4 x hidden. ``q_latent_dim`` and ``o_latent_dim`` change nothing: ``weights`` say
    what projections take.
    """

    count: _Count
    latent_dim: _Least0
    kv_precision: Precision
    rope_dim: _Least0 = 0
    window: _Least0 = 0
    history: History | None = None
    heads: _Count | None = None
    qk_head_dim: _Count | None = None
    v_head_dim: _Count | None = None
    q_latent_dim: _Count | None = None
    o_latent_dim: _Count | None = None

    state: ClassVar[int] = 0

    @property
    def position_bytes(self) -> float:
        """Bytes that one layer keeps of a position that it attends to."""
        return (self.latent_dim + self.rope_dim) * BYTES[self.kv_precision]

    @property
    def index_bytes(self) -> float:
        """Bytes that one layer's indexer keeps of a token."""
        if self.history is None or self.history.indexer is None:
            return 0.0
        one = self.history.indexer
        return one.head_dim * BYTES[one.kv_precision] / self.history.compress_ratio

    @property
    def token_bytes(self) -> float:
        """Bytes that all of them keep of a token for good."""
        if self.history is None:
            return 0.0 if self.window else self.count * self.position_bytes
        entry = self.position_bytes / self.history.compress_ratio
        return self.count * (entry + self.index_bytes)

    @property
    def window_bytes(self) -> float:
        """Bytes that all of them keep of a full window."""
        return self.count * self.window * self.position_bytes

    def pair_flops(self, hidden: int) -> tuple[float, float]:
        """Operations of a token and one that it attends to, in a layer: of prompts, of answers."""
        if self.heads is None or self.qk_head_dim is None or self.v_head_dim is None:
            return 4.0 * hidden, 4.0 * hidden
        each = 2.0 * self.heads
        of_latents = each * (2 * self.latent_dim + self.rope_dim)
        return each * (self.qk_head_dim + self.v_head_dim), of_latents

    def ranks(self, tp: int) -> int:
        """Cards over which a token's latent is spread: each needs all of it."""
        return 1

    def wrong(self, path: str, origins: Origins) -> Iterator[ConfigError]:
        """What the values forbid one another."""
        if self.latent_dim + self.rope_dim == 0:
            yield origins.error(join(path, "latent_dim"), 0, "must be above 0, or rope_dim")
        shape = {
            "heads": self.heads,
            "qk_head_dim": self.qk_head_dim,
            "v_head_dim": self.v_head_dim,
        }
        lacking = [name for name, value in shape.items() if value is None]
        if 0 < len(lacking) < len(shape):
            yield origins.missing(
                join(path, lacking[0]), f"missing; all of {', '.join(shape)} or none"
            )


class Linear(Struct, frozen=True, forbid_unknown_fields=True):
    """Layers that keep a state of ``state_bytes`` for a sequence, and attend to no token."""

    count: _Count
    state_bytes: Annotated[int, Meta(ge=1)]

    window_bytes: ClassVar[float] = 0.0
    token_bytes: ClassVar[float] = 0.0
    position_bytes: ClassVar[float] = 0.0

    @property
    def state(self) -> int:
        """Bytes that all of them keep for a sequence."""
        return self.count * self.state_bytes

    def ranks(self, tp: int) -> int:
        """Cards over which a state is spread."""
        return tp


Kind = Attention | Mla | Linear

KINDS: dict[str, type[Kind]] = {"attention": Attention, "mla": Mla, "linear": Linear}
