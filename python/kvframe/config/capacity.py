"""How many blocks a capacity means: counted, in bytes, or in sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvframe.config.origins import Origins
from kvframe.config.schema import MAX_BLOCKS, SequenceCapacity
from kvframe.config.sizes import UNITS, parse_bytes, token_bytes

if TYPE_CHECKING:
    from kvframe.config.tree import Config

_PATH = "cache.capacity"


def block_bytes(config: Config, origins: Origins) -> int | None:
    """Bytes of one block's KV over the layers of its group; None without a model.

    Keys and values of ``block_size`` tokens. With several groups, each has the same share of the
    layers, so that one pool serves all.

    Raises:
        ConfigError: The layers do not divide evenly among the groups.
    """
    model = config.model
    if model is None:
        return None
    layers, rest = divmod(model.layers, len(config.groups))
    if rest:
        raise origins.error(
            "model.layers", model.layers, f"must be a multiple of the {len(config.groups)} groups"
        )
    one = token_bytes(layers, model.kv_heads, model.head_dim, model.dtype)
    return config.cache.block_size * one


def capacity_blocks(config: Config, origins: Origins) -> int:
    """Blocks of the pool, the null block among them.

    Raises:
        ConfigError: The capacity is not understood, holds no block, or more than 2**32 - 1.
    """
    capacity = config.cache.capacity
    if isinstance(capacity, int):
        blocks = capacity
    elif isinstance(capacity, SequenceCapacity):
        # Every group is counted as if it kept all tokens: what fits then fits in any phase.
        each = -(-capacity.max_seq_len // config.cache.block_size) * len(config.groups)
        blocks = each * capacity.max_requests + config.cache.null_block
    else:
        blocks = _from_bytes(capacity, config, origins)
    least = 2 if config.cache.null_block else 1
    if not least <= blocks <= MAX_BLOCKS:
        reason = f"gives {blocks} blocks; must be between {least} and {MAX_BLOCKS}"
        if isinstance(capacity, int):
            reason = f"must be at least {least}: block 0 is the null block"
        raise origins.error(_PATH, config.plain()["cache"]["capacity"], reason)
    return blocks


def _from_bytes(text: str, config: Config, origins: Origins) -> int:
    size = parse_bytes(text)
    if size is None:
        raise origins.error(
            _PATH,
            text,
            f'must be blocks (4096), bytes with a unit ("40 GiB"; {UNITS}) or '
            "{ max_seq_len = 8192, max_requests = 64 }",
        )
    one = block_bytes(config, origins)
    if one is None:
        raise origins.error(
            _PATH, text, "bytes need [model]: layers, kv_heads and head_dim say what a block takes"
        )
    if size < one:
        raise origins.error(_PATH, text, f"must be at least one block, which takes {one} bytes")
    return size // one
