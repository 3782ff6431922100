"""Capacities: blocks of the trace, a share of its distinct ones, bytes with the shape of a model,
or a range of blocks: ``1000:64000:x2``, ``1000:4000:+1000``.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvframe.bench.options import OptionOrigins, keyed, split_list
from kvframe.config import CacheConfig, Config, ModelConfig
from kvframe.config.capacity import block_bytes, capacity_blocks, check_model
from kvframe.config.environment import EnvText
from kvframe.config.schema import MAX_BLOCKS
from kvframe.config.values import build
from kvframe.errors import ConfigError

SHORT = "--capacity 5%,10%,20%"
"""Sizes that are short of room for any trace, as the command line has them."""

SHIPPED = ("1000", "2000", "4000", "8000", "16000", "32000")
"""Tried of a shipped trace, where nothing else is asked for."""

SHARES = ("1%", "3%", "10%", "30%")
"""Tried of any other: what is little room for one is plenty for another."""

DEFAULT: tuple[str, ...] = ()
"""Stands for these."""

_ORIGINS = OptionOrigins("--capacity")
MOST_OF_A_RANGE = 1_000

_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_PERCENT = re.compile(r"(\d+(\.\d+)?|\.\d+)\s*%")
_RANGE = re.compile(r"(\d[\d_]*):(\d[\d_]*):([x+])(\d+(\.\d+)?)")
_SIZE = re.compile(r"\d+(\.\d+)?\s*[kmgtp]?i?b", re.IGNORECASE)


@dataclass(frozen=True)
class Capacity:
    """A capacity as it was written; ``count`` is its number of blocks, or None where ``text`` is a
    size that ``model`` turns into blocks, ``share`` a part of the trace's distinct blocks, or
    ``tokens`` how many tokens they hold.
    """

    text: str
    count: int | None
    model: ModelConfig | None = None
    share: float | None = None
    tokens: int | None = None

    def blocks(self, block_size: int, distinct: int = 0) -> int:
        """Blocks of ``block_size`` tokens, rounded down; a share of ``distinct`` ones up.

        Raises:
            ConfigError: not even one block fits, or more than 2^32 - 1 do.
        """
        if self.share is not None:
            return max(1, math.ceil(self.share * distinct))
        if self.count is not None:
            return self.count
        if self.tokens is not None:
            return max(self.tokens // block_size, 1)
        return capacity_blocks(self._config(block_size), _ORIGINS)

    def remark(self, block_size: int) -> str:
        """``"40 GiB is 640 blocks of 67,108,864 bytes."``, or nothing for a number of blocks."""
        if self.count is not None or self.share is not None or self.tokens is not None:
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


def parse_blocks(texts: Iterable[str]) -> list[Capacity]:
    """Parse each item as `parse_all` does, for a command that knows no model.

    Raises:
        ConfigError: As `parse_all`; also a size in bytes.
    """
    items = split_list(texts, "--capacity")
    for text in items:
        if _SIZE.fullmatch(text):
            raise ConfigError(
                f"--capacity {text}: must be in blocks here; `kvframe bench curve --capacity "
                f'"{text}" --model-shape ...` says how many that is'
            )
    return [one for text in items for one in _several(text, None)]


def parse_each(texts: Iterable[str], model: ModelConfig | None) -> list[Capacity]:
    """Parse each item as `parse_all` does, for a model that is known already.

    Raises:
        ConfigError: As `parse_all`.
    """
    items = split_list(texts, "--capacity")
    return [one for text in items for one in _several(text, model)]


def parse_shape(text: str) -> ModelConfig:
    """``layers=32,kv_heads=8,head_dim=128,dtype=bfloat16``; dtype may be left out, or short (bf16).

    Raises:
        ConfigError: a key or value that is missing, unknown or impossible.
    """
    option = "--model-shape"
    values = keyed(text.split(","), f"{option} {text}")
    if "dtype" in values:
        values["dtype"] = EnvText(_DTYPES.get(values["dtype"], values["dtype"]))
    model = build(ModelConfig, values, "model", OptionOrigins(option))
    check_model(model, OptionOrigins(option))
    return model


def _several(text: str, model: ModelConfig | None) -> Iterator[Capacity]:
    """The capacities of one item: those of a range, or itself."""
    found = _RANGE.fullmatch(text)
    if found is None:
        yield _parse(text, model)
        return
    size, last, step = int(found[1]), int(found[2]), float(found[4])
    grows = step > 1 if found[3] == "x" else step >= 1
    if not (1 <= size <= last <= MAX_BLOCKS and grows):
        raise ConfigError(
            f"--capacity {text}: must read FIRST:LAST:xFACTOR or FIRST:LAST:+STEP, and grow"
        )
    at, count = float(size), 0
    while at <= last:
        count += 1
        if count > MOST_OF_A_RANGE:
            raise ConfigError(f"--capacity {text}: more than {MOST_OF_A_RANGE} capacities")
        yield Capacity(str(round(at)), round(at))
        at = at * step if found[3] == "x" else at + step


def _parse(text: str, model: ModelConfig | None) -> Capacity:
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        share = float(percent[1]) / 100
        if not 0 < share <= 10:
            raise ConfigError(f"--capacity {text}: must be above 0 and at most 1000 %")
        return Capacity(text, None, share=share)
    try:
        count = int(text)
    except ValueError:
        if _SIZE.fullmatch(text) is None:
            raise ConfigError(
                f"--capacity {text}: must be a number of blocks (1 to {MAX_BLOCKS}), a range "
                "(1000:64000:x2), a share of the distinct blocks (5%) or a size such as '40 GiB'"
            ) from None
        if model is None:
            raise ConfigError(f"--capacity {text}: a size in bytes needs --model-shape") from None
        return Capacity(text, None, model)
    if not 1 <= count <= MAX_BLOCKS:
        raise ConfigError(f"--capacity {text}: must be between 1 and {MAX_BLOCKS} blocks")
    return Capacity(text, count)
