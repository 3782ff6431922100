"""Where the bytes of a pool's pages lie: the shape of a page, and strides over one allocation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex

from kvframe.arguments import is_int, shown
from kvframe.config.schema import ModelConfig
from kvframe.config.sizes import layer_bytes
from kvframe.errors import ConfigError, UsageError

LAYER_FIRST = "LPBTH"
"""Layers apart, keys apart from values within each: FlashAttention's and FlashInfer's NHD."""
LAYER_FIRST_TOGETHER = "LBPTH"
"""Layers apart, a block's keys beside its values."""
PARTS_FIRST = "PLBTH"
"""All keys before all values (SGLang's pools)."""
BLOCK_FIRST = "BLPTH"
"""A whole page in one piece: what host, disk and remote tiers keep."""
PAGE_FIRST = "PBTLH"
"""Keys apart from values, and a token's layers side by side (SGLang's page_first host pool)."""
LAYER_FIRST_HND = "LPBHT"
"""As `LAYER_FIRST`, with a head's tokens side by side."""
BLOCK_FIRST_HND = "BLPHT"
"""As `BLOCK_FIRST`, with a head's tokens side by side."""

_AXES = "LPBTH"


@dataclass(frozen=True)
class PageShape:
    """What one page holds, whatever order its bytes are in. dtypes count by their bytes only.

    Attributes:
        layers: Layers that keep KV (of this layer group).
        parts: 2 for keys and values of one size; 1 for one latent (MLA), or where keys and values
            are pools of their own.
        block_size: Tokens in a page.
        heads: KV heads (1 for a latent).
        row_bytes: Bytes of one head of one token of one part: head_dim x bytes of the dtype, and
            what is kept besides (scales).
    """

    layers: int
    parts: int
    block_size: int
    heads: int
    row_bytes: int

    def __post_init__(self) -> None:
        for name in ("layers", "parts", "block_size", "heads", "row_bytes"):
            value = getattr(self, name)
            if not isinstance(value, SupportsIndex) or int(value) < 1:
                raise UsageError(f"{name} = {value}: a page needs at least 1")
        if self.parts > 2:
            raise UsageError(f"parts = {self.parts}: at most 2, keys and values")

    @classmethod
    def of_model(
        cls, model: ModelConfig | None, block_size: int, *, layers: int | None = None
    ) -> PageShape:
        """The page of a ``[model]``; of so many of its layers where a group has not all.

        Raises:
            ConfigError: The configuration has no ``[model]``, or one whose ``extra_bytes`` are not
                the same for each head's key and value.
        """
        if model is None:
            raise ConfigError("model: the configuration has none; say [model], or make a PageShape")
        parts, heads = (1, 1) if model.latent_dim is not None else (2, model.kv_heads or 0)
        row, rest = divmod(layer_bytes(model), parts * heads)
        if rest:
            raise ConfigError(
                f"model.extra_bytes = {model.extra_bytes}: must be a multiple of {parts * heads}, "
                "as each head's key and value has a share of them"
            )
        return cls(layers or model.layers, parts, block_size, heads, row)

    @property
    def token_bytes(self) -> int:
        """Bytes of a token's KV, all layers."""
        return self.layers * self.parts * self.heads * self.row_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, without padding."""
        return self.block_size * self.token_bytes

    def extent(self, axis: str) -> int:
        """How long the axis L, P, T or H is."""
        return {"L": self.layers, "P": self.parts, "T": self.block_size, "H": self.heads}[axis]


class Strides(NamedTuple):
    """Bytes from one layer, part, block, token, head to the next.

    ``layer`` and ``part`` are 0 where those are allocations of their own.
    """

    layer: int
    part: int
    block: int
    token: int
    head: int


@dataclass(frozen=True)
class Layout:
    """A pool: so many pages of a shape, and where each of their bytes is.

    Attributes:
        shape: What a page holds.
        blocks: Pages.
        strides: In bytes.
    """

    shape: PageShape
    blocks: int
    strides: Strides

    def __post_init__(self) -> None:
        if not is_int(self.blocks) or self.blocks < 1:
            raise UsageError(f"blocks = {self.blocks}: a pool needs at least 1")
        inner, reach = "a head's row", self.shape.row_bytes
        for axis in reversed(self.order):
            stride = self.strides[_AXES.index(axis)]
            if stride < reach and self._extent(axis) > 1:
                raise UsageError(
                    f"stride {stride} of axis {axis} is below the {reach} bytes of {inner}: "
                    "pages would overlap"
                )
            inner, reach = f"axis {axis}", reach + stride * (self._extent(axis) - 1)

    @classmethod
    def of(
        cls, order: str, shape: PageShape, blocks: int, *, page_bytes: int | None = None
    ) -> Layout:
        """One allocation with its axes in an order.

        Args:
            order: L(ayer) P(art) B(lock) T(oken) H(ead), each once, outermost first; LAYER_FIRST,
                BLOCK_FIRST and others have names. A head's row is always innermost.
            shape: What a page holds.
            blocks: Pages.
            page_bytes: Bytes from one page to the next, where blocks are outermost and pages are
                padded, as where layer groups of different sizes share a pool.

        Raises:
            UsageError: The order is none, or pages would overlap.
        """
        if not isinstance(order, str) or sorted(order) != sorted(_AXES):
            raise UsageError(f"order {order!r}: must name each of L, P, B, T, H once")
        for name, value in (("blocks", blocks), ("page_bytes", page_bytes)):
            if not is_int(value) and (name, value) != ("page_bytes", None):
                raise UsageError(f"{name} = {shown(value)}: must be an integer")
        if page_bytes is not None and not order.startswith("B"):
            raise UsageError(f"page_bytes = {page_bytes}: only where blocks are outermost")
        steps, reach = {}, shape.row_bytes
        for axis in reversed(order):
            if axis == "B" and page_bytes is not None:
                if page_bytes < reach:
                    raise UsageError(f"page_bytes = {page_bytes}: a page has {reach} bytes")
                reach = page_bytes
            steps[axis] = reach
            reach *= blocks if axis == "B" else shape.extent(axis)
        return cls(shape, blocks, Strides(*(steps[axis] for axis in _AXES)))

    @property
    def order(self) -> str:
        """Its axes, outermost first; layers and parts with allocations of their own come first."""
        outside = {"L": self.strides.layer == 0, "P": self.strides.part == 0}
        strides = dict(zip(_AXES, self.strides, strict=True))
        # Of two axes with one stride the longer one is outside: the other has length 1.
        return "".join(
            sorted(_AXES, key=lambda a: (not outside.get(a), -strides[a], -self._extent(a)))
        )

    @property
    def nbytes(self) -> int:
        """Bytes from the first to past the last, of the allocation (or of each of them)."""
        reach = self.shape.row_bytes
        for axis, stride in zip(_AXES, self.strides, strict=True):
            reach += stride * (self._extent(axis) - 1)
        return reach

    def _extent(self, axis: str) -> int:
        if axis == "B":
            return self.blocks
        alone = self.strides.layer == 0 if axis == "L" else self.strides.part == 0
        return 1 if axis in "LP" and alone else self.shape.extent(axis)
