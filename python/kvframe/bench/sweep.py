"""``SWEEP.toml``: a whole study in a file, its keys the options of ``kvframe bench run``.

::

    trace = ["conversation", "mine.jsonl"]
    policy = ["lru", { name = "slru", protected_uses = [2, 3] }]
    capacity = ["1000:64000:x2", "5%"]
    mode = ["engine", "timed"]
    block-factor = [1, 4]
    load = [0.5, 1]
    arrival-seed = [0, 1, 2]

A policy with options is a table; of options that are lists every combination runs.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kvframe.errors import ConfigError
from kvframe.files import CONFIG_BYTES, read_regular
from kvframe.spelling import did_you_mean

Text = str | dict[str, Any]
Texts = Text | list[Text]


class Sweep(msgspec.Struct, forbid_unknown_fields=True, rename="kebab", omit_defaults=True):
    """The keys of a sweep; see ``kvframe bench run --help``."""

    trace: str | list[str] | None = None
    policy: Texts | None = None
    admission: Texts | None = None
    prefix: Texts | None = None
    capacity: int | str | list[int | str] | None = None
    mode: str | list[str] | None = None
    block_factor: int | list[int] | None = None
    load: float | list[float] | None = None
    arrival_seed: int | list[int] | None = None
    metric: str | list[str] | None = None
    block_size: int | None = None
    time_unit: str | None = None
    trace_format: str | None = None
    sort: bool | None = None
    tokenizer: str | None = None
    model_shape: str | None = None
    warm_up: float | None = None
    content: bool | None = None
    min_hit_rate: float | None = None


LISTS = {
    "trace": "traces",
    "policy": "policies",
    "admission": "admissions",
    "prefix": "matchers",
    "capacity": "capacities",
    "mode": "modes",
    "block_factor": "block_factors",
    "load": "loads",
    "arrival_seed": "arrival_seeds",
    "metric": "metrics",
}
"""Keys that may be lists, and their names in `kvframe.bench.job.Request`."""


def read(path: Path) -> dict[str, Any]:
    """The fields of a `kvframe.bench.job.Request` that the file gives.

    Raises:
        ConfigError: It cannot be read, is no TOML, or a key is unknown or of another type.
    """
    try:
        table = tomllib.loads(read_regular(path, CONFIG_BYTES).decode())
    except FileNotFoundError:
        told = "no such sweep; several values of an option go with commas: --policy lru,lfu"
        raise ConfigError(f"{path}: {told}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    known = [field.encode_name for field in msgspec.structs.fields(Sweep)]
    for key in table:
        if key not in known:
            every = f"; keys are {', '.join(known)}"
            raise ConfigError(f"{path}: {key}: unknown{did_you_mean(key, known) or every}")
    try:
        sweep = msgspec.convert(table, Sweep)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    modes = sweep.mode if isinstance(sweep.mode, list) else [sweep.mode or "engine"]
    for name in ("load", "arrival_seed"):
        if getattr(sweep, name) is not None and not any("timed" in mode for mode in modes):
            key = name.replace("_", "-")
            raise ConfigError(f'{path}: {key}: only timed mode goes by the clock: mode = "timed"')
    found = {}
    for name, value in msgspec.structs.asdict(sweep).items():
        if value is None:
            continue
        if name in LISTS:
            items = value if isinstance(value, list) else [value]
            found[LISTS[name]] = [
                text for item in items for text in _texts(item, f"{path}: {name}")
            ]
        else:
            found[name] = value
    return found


def _texts(item: Any, where: str) -> Iterator[Any]:
    """An item as the command line has it; a table as one text for each combination of options."""
    if not isinstance(item, dict):
        yield str(item) if where.endswith("capacity") else item
        return
    options = dict(item)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"{where}: a table needs a name")
    values = [value if isinstance(value, list) else [value] for value in options.values()]
    for chosen in itertools.product(*values):
        pairs = ",".join(f"{key}={value}" for key, value in zip(options, chosen, strict=True))
        yield f"{name}:{pairs}" if pairs else name
