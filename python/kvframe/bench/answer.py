"""One trace, one cache, one policy, and what each request hits: a public task's form.

The form is that of ``llm-prefix-cache-replay`` (benchflow-ai/skillsbench): a configuration with
``block_size``, ``cache_capacity_blocks``, ``policy`` and perhaps a table of the policy's options;
a report with totals, the rate, the blocks left in the cache, and a row a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kvframe import _core
from kvframe.bench.policies import choose
from kvframe.bench.traces import ReadOptions, Source
from kvframe.errors import ConfigError
from kvframe.files import CONFIG_BYTES, read_regular
from kvframe.policies.builtin import BUILTIN
from kvframe.registry import Registry

RULES = (
    "blocks are evicted as an engine may, none before those that follow it; simulators of single "
    "blocks answer otherwise"
)

_CONSTANTS = {("s3-fifo", "max_freq"): 3}
"""Options elsewhere that a policy has as a constant."""


class Asked(msgspec.Struct, frozen=True):
    """What is asked.

    Attributes:
        capacity: Blocks that the cache holds.
        policy: As `kvframe.bench.policies.choose` takes it.
        block_size: Tokens a block, where the trace does not say.
    """

    capacity: int
    policy: str
    block_size: int | None


class _Config(msgspec.Struct):
    cache_capacity_blocks: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 2)]
    policy: str = "lru"
    block_size: Annotated[int, msgspec.Meta(ge=1, le=65_536)] | None = None


def configured(path: Path) -> Asked:
    """The configuration of a file. Policies may be spelled as elsewhere: ``S3FIFO`` is ``s3-fifo``,
    and ``small_ratio = 0.1`` of its table is ``small_percent=10``.

    Raises:
        ConfigError: It is no JSON, lacks a key, or has an impossible value; names file and key.
    """
    try:
        text = read_regular(path, CONFIG_BYTES)
        found = msgspec.json.decode(text, type=_Config)
        tables: Mapping[str, Any] = msgspec.json.decode(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    plain = {_plain(policy.name): policy for policy in BUILTIN}
    known = plain.get(_plain(found.policy))
    if known is None:
        return Asked(found.cache_capacity_blocks, found.policy, found.block_size)
    names = known.options.__struct_fields__ if known.options is not None else ()
    options = []
    for key, table in tables.items():
        if _plain(key) == _plain(known.name) and isinstance(table, dict):
            options += [_option(path, known.name, names, *item) for item in table.items()]
    given = ",".join(option for option in options if option)
    policy = f"{known.name}:{given}" if given else known.name
    return Asked(found.cache_capacity_blocks, policy, found.block_size)


def answer(source: Source, asked: Asked, mode: str = "trace") -> dict[str, Any]:
    """The report.

    Raises:
        PluginError, ConfigError: The policy is not known, or does not have an option.
    """
    choice = choose(asked.policy, Registry())
    policy, options = choice.engine_policy(source.trace.block_size)
    got = _core.replay(source.trace, policy, asked.capacity, mode, options, per_request=True)
    hits = got["request_hit_tokens"].tolist()
    prompts = source.facts.input_tokens.tolist()
    rows = zip(prompts, hits, strict=True)
    return {
        "total_requests": got["requests"],
        "total_prompt_tokens": got["input_tokens"],
        "total_hit_tokens": got["hit_tokens"],
        "overall_hit_rate": got["hit_tokens"] / max(got["input_tokens"], 1),
        "final_cache_blocks": got["cached_blocks"],
        "per_request": [
            {"idx": at, "prompt_tokens": prompt, "hit_tokens": hit}
            for at, (prompt, hit) in enumerate(rows)
        ],
    }


def read_options(asked: Asked, options: ReadOptions) -> ReadOptions:
    """How the trace is read: what the command line says goes before the configuration."""
    size = options.block_size if options.block_size is not None else asked.block_size
    return replace(options, block_size=size)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


def _option(path: Path, policy: str, names: tuple[str, ...], key: str, value: object) -> str:
    if key in names:
        return f"{key}={value}"
    percent = key.removesuffix("_ratio") + "_percent"
    if percent in names and isinstance(value, (int, float)):
        share = 100 * value
        if abs(share - round(share)) < 1e-9:
            return f"{percent}={round(share)}"
        raise ConfigError(f"{path}: {policy}.{key} = {value}: must be whole per cents")
    constant = _CONSTANTS.get((policy, key))
    if constant is None:
        has = ", ".join(names) or "none"
        raise ConfigError(f"{path}: {policy}.{key}: no such option; {policy} has {has}")
    if value != constant:
        raise ConfigError(f"{path}: {policy}.{key} = {value}: must be {constant} here")
    return ""
