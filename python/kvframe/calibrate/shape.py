"""The shape of a transformer: what its weights and its KV cost in bytes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kvframe.errors import UsageError
from kvframe.spelling import did_you_mean

BYTES = 2
"""Of a number in bf16, for weights and KV alike."""


@dataclass(frozen=True)
class ModelShape:
    """A decoder with grouped-query attention and a gated MLP, in bf16.

    Attributes:
        layers: Decoder layers.
        hidden: Width of the residual stream.
        ffn: Width of the MLP.
        heads: Query heads.
        kv_heads: Key and value heads; divides ``heads``.
        head_dim: Width of a head.
        vocab: Rows of the embedding, and of the head's matrix.
    """

    layers: int = 32
    hidden: int = 4_096
    ffn: int = 14_336
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    vocab: int = 128_256

    @classmethod
    def parse(cls, text: str) -> ModelShape:
        """A shape written as ``layers=32,kv_heads=8``; what is left out has its default.

        Raises:
            UsageError: An unknown key, a value that is no whole number from 1 on, or ``kv_heads``
                that do not divide ``heads``.
        """
        known = [field.name for field in fields(cls)]
        values: dict[str, int] = {}
        for part in filter(None, text.split(",")):
            key, _, value = (piece.strip() for piece in part.partition("="))
            if key not in known:
                raise UsageError(f"--model-shape: no key {key}{did_you_mean(key, known)}")
            if not value.isascii() or not value.isdigit() or int(value) < 1:
                raise UsageError(
                    f"--model-shape: {key} = {value}: must be a whole number, 1 or more"
                )
            values[key] = int(value)
        shape = cls(**values)
        if shape.heads % shape.kv_heads or shape.heads // shape.kv_heads > 16:
            raise UsageError(
                f"--model-shape: kv_heads = {shape.kv_heads}: must divide heads = {shape.heads}, "
                "with at most 16 heads each"
            )
        return shape

    @property
    def qkv(self) -> int:
        """Columns of the fused query, key and value projection."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Parameters of one layer's four matrices."""
        attention = self.hidden * self.qkv + self.heads * self.head_dim * self.hidden
        return attention + 3 * self.hidden * self.ffn

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights, embedding and head included."""
        return (self.layers * self.layer_weights + 2 * self.vocab * self.hidden) * BYTES

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values a token, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * BYTES
