"""A tiny decoder-only transformer: grouped-query heads, rotary positions, RMS norm, gated MLP.

Its weights are random and it says nothing of use; what matters is that each answer depends on every
KV entry before it, to the last bit. And on nothing else: a token's result must not depend on which
tokens are computed beside it, or another chunking would round otherwise and an argmax could flip.
So every product runs row by row at a fixed shape (`rows`, `attend`), in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from examples.serving.pages import Floats, Ints, Pages
from examples.serving.shape import Shape


@dataclass(frozen=True)
class Batch:
    """The tokens of a step, one sequence after the other, and where their KV goes and lies.

    Attributes:
        tokens: Their ids.
        positions: Their places in their sequences.
        slots: Where the KV of each is written.
        tables: A block table for each sequence, padded with -1.
        ends: For each sequence, one past its last token here.
    """

    tokens: Ints
    positions: Ints
    slots: npt.NDArray[np.int64]
    tables: npt.NDArray[np.int32]
    ends: list[int]


class Transformer:
    """The model; the same seed gives the same weights."""

    def __init__(self, shape: Shape | None = None, seed: int = 0) -> None:
        self.shape = s = shape or Shape()
        draw = np.random.default_rng(seed)

        def weights(rows: int, columns: int) -> Floats:
            drawn: Floats = draw.normal(size=(rows, columns)) / np.sqrt(rows)
            return drawn

        self.embedding = draw.normal(size=(s.vocab, s.width))
        self.layers = [
            {
                "q": weights(s.width, s.heads * s.head_dim),
                "k": weights(s.width, s.kv_heads * s.head_dim),
                "v": weights(s.width, s.kv_heads * s.head_dim),
                "o": weights(s.heads * s.head_dim, s.width),
                "gate": weights(s.width, s.hidden),
                "up": weights(s.width, s.hidden),
                "down": weights(s.hidden, s.width),
            }
            for _ in range(s.layers)
        ]
        self.head = weights(s.width, s.vocab)
        turns = 100.0 ** -(np.arange(s.head_dim // 2) / (s.head_dim // 2))
        angles = np.arange(s.max_tokens)[:, None] * turns
        self.cos, self.sin = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def forward(self, batch: Batch, pages: Pages) -> Floats:
        """Compute a step: writes the KV of its tokens, reads all KV through the block tables.

        Returns:
            Logits after the last token of each sequence, (sequences, vocabulary).
        """
        s, at = self.shape, batch.positions
        x = self.embedding[batch.tokens]
        for layer, w in enumerate(self.layers):
            h = norm(x)
            q = self.rotate(rows(h, w["q"]).reshape(-1, s.heads, s.head_dim), at)
            k = self.rotate(rows(h, w["k"]).reshape(-1, s.kv_heads, s.head_dim), at)
            v = rows(h, w["v"]).reshape(-1, s.kv_heads, s.head_dim)
            pages.write(layer, batch.slots, k, v)
            mixed = np.empty_like(q)
            for table, start, end in zip(batch.tables, [0, *batch.ends], batch.ends, strict=False):
                keys, values = pages.read(layer, table)
                mixed[start:end] = attend(q[start:end], keys, values, at[start:end])
            x = x + rows(mixed.reshape(len(x), -1), w["o"])
            h = norm(x)
            gate = rows(h, w["gate"])
            x = x + rows(gate / (1 + np.exp(-gate)) * rows(h, w["up"]), w["down"])
        last = np.array(batch.ends) - 1
        return rows(norm(x[last]), self.head)

    def rotate(self, x: Floats, positions: Ints) -> Floats:
        """Rotary positions: pairs (i, i + half) of each head turn with the token's place."""
        cos, sin = self.cos[positions], self.sin[positions]
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def rows(x: Floats, w: Floats) -> Floats:
    """``x @ w``, each row for itself: the same bits whatever other rows there are."""
    products: Floats = np.matmul(x[:, None, :], w)
    return products[:, 0]


def norm(x: Floats) -> Floats:
    """RMS norm without a gain."""
    size: Floats = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return x / size


def attend(q: Floats, keys: Floats, values: Floats, positions: Ints) -> Floats:
    """Causal attention of a sequence's tokens over its whole block table.

    The table is as wide for a short sequence as for a long one, so every sum has the same length
    and is added in the same order; places to come weigh exactly 0.

    Args:
        q: (tokens, heads, head dim).
        keys: (places, KV heads, head dim); NaN where nothing was written.
        values: As ``keys``.
        positions: Place of each token; it attends to places up to its own.
    """
    tokens, heads, dim = q.shape
    places, groups, _ = keys.shape
    place = np.arange(places)
    # 0 x NaN is NaN. Only places after the last token are cleared: what lies before must be there.
    values = np.where(place[:, None, None] <= positions[-1], values, 0.0)
    # Head h reads KV head h // (heads / KV heads).
    grouped = q.reshape(tokens, groups, heads // groups, dim)
    scores = np.matmul(grouped, keys.transpose(1, 2, 0)) / np.sqrt(dim)
    seen = (place <= positions[:, None])[:, None, None]
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed: Floats = np.matmul(weights, values.transpose(1, 0, 2))
    return mixed.reshape(q.shape)
