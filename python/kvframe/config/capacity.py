"""How many blocks a capacity means: counted, in bytes, or in sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvframe.config.origins import Origins, join
from kvframe.config.schema import MAX_BLOCKS, ModelConfig, SequenceCapacity
from kvframe.config.sizes import UNITS, layer_bytes, near_bytes, parse_bytes

if TYPE_CHECKING:
    from kvframe.config.tree import Config

_PATH = "cache.capacity"


def block_bytes(config: Config, origins: Origins) -> int | None:
    """Bytes of a page: one block's KV over the layers of its group; None without a model.

    One pool serves all groups, so a page is as large as the largest block needs; `page_bytes` says
    how much of it each group uses.

    Raises:
        ConfigError: The layers do not divide evenly among the groups, or are not the model's.
    """
    used = page_bytes(config, origins)
    return max(used) if used else None


def page_bytes(config: Config, origins: Origins) -> list[int]:
    """Bytes of a page that each group uses: its ``page_bytes``, or keys and values of its block.

    Empty where neither ``[model]`` nor every group says.

    Raises:
        ConfigError: The layers do not divide evenly among the groups, or are not the model's; a
            group of states has no ``page_bytes``.
    """
    model, groups = config.model, config.groups
    if all(group.page_bytes is not None for group in groups):
        return [group.page_bytes for group in groups if group.page_bytes is not None]
    if model is None:
        return []
    open_groups = [group for group in groups if group.layers is None]
    left = model.layers - sum(group.layers or 0 for group in groups)
    share, rest = divmod(left, len(open_groups)) if open_groups else (0, left)
    if rest or left < 0 or (open_groups and share == 0):
        reason = f"must be a multiple of the {len(groups)} groups"
        if len(open_groups) < len(groups):
            reason = f"leaves {left} layers to {len(open_groups)} groups that name no number"
        raise origins.error("model.layers", model.layers, reason)
    used = []
    for index, group in enumerate(groups):
        if group.kind == "state" and group.page_bytes is None:
            raise origins.missing(
                join(join("groups", index), "page_bytes"),
                "missing; [model] says what keys and values take, and a state is neither",
            )
        layers = share if group.layers is None else group.layers
        one = layers * layer_bytes(model)
        used.append(group.page_bytes or (group.block_size or config.cache.block_size) * one)
    return used


def check_model(model: ModelConfig | None, origins: Origins) -> None:
    """A model keeps either keys and values or latents.

    Raises:
        ConfigError: It says neither or both, or only half of the one.
    """
    if model is None:
        return
    heads = {"kv_heads": model.kv_heads, "head_dim": model.head_dim}
    given = [name for name, value in heads.items() if value is not None]
    if model.latent_dim is not None and given:
        raise origins.error(
            join("model", given[0]),
            heads[given[0]],
            "goes without latent_dim: a latent stands for the keys and values of all heads",
        )
    if model.latent_dim is None and len(given) < len(heads):
        lacking = next(name for name, value in heads.items() if value is None)
        raise origins.missing(
            join("model", lacking),
            "missing; a model needs kv_heads and head_dim, or latent_dim (MLA)",
        )


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
        sizes = [group.block_size or config.cache.block_size for group in config.groups]
        each = sum(-(-capacity.max_seq_len // size) for size in sizes)
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
            "{ max_seq_len = 8192, max_requests = 64 }" + near_bytes(text),
        )
    one = block_bytes(config, origins)
    if one is None:
        raise origins.error(
            _PATH, text, "bytes need [model]: layers, kv_heads and head_dim say what a block takes"
        )
    if size < one:
        raise origins.error(_PATH, text, f"must be at least one block, which takes {one} bytes")
    return size // one
