"""Capacities: a number of blocks of the trace, or bytes with the shape of a model."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kvframe.bench.options import OptionOrigins, keyed, split_list
from kvframe.config import CacheConfig, Config, ModelConfig
from kvframe.config.capacity import block_bytes, capacity_blocks, check_model
from kvframe.config.schema import MAX_BLOCKS
from kvframe.config.values import build
from kvframe.errors import ConfigError

DEFAULT = ("1000", "2000", "4000", "8000", "16000", "32000")

_ORIGINS = OptionOrigins("--capacity")
_SIZE = re.compile(r"\d+(\.\d+)?\s*[kmgtp]?i?b", re.IGNORECASE)


@dataclass(frozen=True)
class Capacity:
    """A capacity as it was written; ``count`` is its number of blocks, or None where ``text`` is a
    size that ``model`` turns into blocks.
    """

    text: str
    count: int | None
    model: ModelConfig | None = None

    def blocks(self, block_size: int) -> int:
        """Blocks of ``block_size`` tokens, rounded down.

        Raises:
            ConfigError: not even one block fits, or more than 2^32 - 1 do.
        """
        if self.count is not None:
            return self.count
        return capacity_blocks(self._config(block_size), _ORIGINS)

    def remark(self, block_size: int) -> str:
        """``"40 GiB is 640 blocks of 67,108,864 bytes."``, or nothing for a number of blocks."""
        if self.count is not None:
            return ""
        one = block_bytes(self._config(block_size), _ORIGINS)
        return f"{self.text} is {self.blocks(block_size)} blocks of {one:,} bytes."

    def _config(self, block_size: int) -> Config:
        cache = CacheConfig(block_size=block_size, capacity=self.text)
        return Config(cache=cache, model=self.model)


def parse_all(texts: Iterable[str], shape: str | None) -> list[Capacity]:
    """Parse each item of ``--capacity``, with the text of ``--model-shape``.

    Raises:
        ConfigError: not a number, out of range, bytes without a shape, or a bad shape.
    """
    return parse_each(texts, parse_shape(shape) if shape is not None else None)


def parse_each(texts: Iterable[str], model: ModelConfig | None) -> list[Capacity]:
    """The same with a model that is known already.

    Raises:
        ConfigError: As `parse_all`.
    """
    return [_parse(text, model) for text in split_list(texts, "--capacity")]


def parse_shape(text: str) -> ModelConfig:
    """``layers=32,kv_heads=8,head_dim=128,dtype=bfloat16``; dtype may be left out.

    Raises:
        ConfigError: a key or value that is missing, unknown or impossible.
    """
    option = "--model-shape"
    values = keyed(text.split(","), f"{option} {text}")
    model = build(ModelConfig, values, "model", OptionOrigins(option))
    check_model(model, OptionOrigins(option))
    return model


def _parse(text: str, model: ModelConfig | None) -> Capacity:
    try:
        count = int(text)
    except ValueError:
        if _SIZE.fullmatch(text) is None:
            raise ConfigError(
                f"--capacity {text}: must be a number of blocks (1 to {MAX_BLOCKS}) or a size such "
                "as '40 GiB'"
            ) from None
        if model is None:
            raise ConfigError(f"--capacity {text}: a size in bytes needs --model-shape") from None
        return Capacity(text, None, model)
    if not 1 <= count <= MAX_BLOCKS:
        raise ConfigError(f"--capacity {text}: must be between 1 and {MAX_BLOCKS} blocks")
    return Capacity(text, count)
