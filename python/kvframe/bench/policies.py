"""Eviction policies as the command line names them: ``lru``, ``slru:protected_uses=3``.

A batched policy takes ``window=N`` besides its own options: how many candidates it is offered at a
time, 0 for all, in place of what the policy asks for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import msgspec

from kvframe.bench.named import found, label_of, source_hash
from kvframe.config import Chosen
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import EvictionDriver, NativeDriver, driver
from kvframe.errors import KVFrameError
from kvframe.policies.batched import DEFAULT_WINDOW
from kvframe.registry import Loaded, Registry
from kvframe.registry.descriptors import EvictionPolicy

BASELINE, OPTIMUM, BOUND = "lru", "opt", "infinite"
DEFAULT = ("lru", "foresight", "lfu", "lfuda", "mq", "s3-fifo", OPTIMUM)
"""A few policies that differ, so that a run takes seconds."""
EVERY = "all"
"""Stands for every installed policy."""
REFERENCE = (BASELINE, OPTIMUM, BOUND)


class EnginePolicy(NamedTuple):
    """What `kvframe._core.replay` takes as its policy and options."""

    policy: object
    options: dict[str, object] | None


@dataclass(frozen=True)
class Choice:
    """A policy found by the registry, with its checked options.

    ``label`` is its text on the command line and in results; ``option_values`` holds every option,
    the defaults too, so that a changed default is another cell. ``window`` is the one asked for, or
    None.
    """

    label: str
    loaded: Loaded[EvictionPolicy] = field(repr=False, compare=False)
    options: msgspec.Struct | None = field(compare=False)
    option_values: dict[str, object] = field(compare=False)
    source_hash: str = field(compare=False)
    window: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, chosen: Chosen[EvictionPolicy], window: int | None = None) -> Self:
        """The policy of a configuration; ``window`` is what its section says."""
        values = msgspec.to_builtins(chosen.options) if chosen.options is not None else {}
        window = chosen.window if chosen.window is not None else window
        if window is not None:
            values["window"] = window
        source, label = source_hash(chosen.loaded), label_of(chosen)
        return cls(label, chosen.loaded, chosen.options, values, source, window)

    @property
    def name(self) -> str:
        return self.loaded.descriptor.name

    @property
    def version(self) -> str:
        return f"{self.loaded.distribution} {self.loaded.version}"

    @property
    def replay_only(self) -> bool:
        """True for a bound that no engine can run, such as opt."""
        return self.loaded.descriptor.replay_only

    def engine_policy(self, block_size: int) -> EnginePolicy:
        """A built-in goes to the core by name; any other as a driver of a policy made anew, so that
        no state leaks between cells.

        Raises:
            PluginError: the policy cannot be made.
        """
        made = driver(self.loaded, Terms(block_size, self.options, window=self.window))
        if made is None:
            values = msgspec.structs.asdict(self.options) if self.options is not None else None
            return EnginePolicy(self.name, values)
        return EnginePolicy(made, None)

    def columns(self, block_size: int) -> tuple[str, ...]:
        """The columns that a policy in Python asks for; none of any other."""
        made = driver(self.loaded, Terms(block_size, self.options, window=self.window))
        return tuple(made.policy.columns) if isinstance(made, EvictionDriver) else ()

    def offered(self, block_size: int) -> int:
        """Blocks among which a policy from outside chooses, 0 for all; 0 for a built-in one."""
        made = driver(self.loaded, Terms(block_size, self.options, window=self.window))
        if made is None or (
            isinstance(made, NativeDriver) and "score" not in made.policy.functions
        ):
            return 0  # the core, or the policy's own code, keeps an order of all
        asked = made.window if self.window is not None else made.policy.window
        return DEFAULT_WINDOW if asked is None else asked


def choose(text: str, registry: Registry, label: str | None = None, seed: int = 0) -> Choice:
    """Resolve ``name[:option=value,...]``, as `kvframe.bench.named.found` does.

    Raises:
        PluginError: no such policy; lists what was found and where from.
        ConfigError: an option the policy does not have, or a value it refuses.
    """
    chosen: Chosen[EvictionPolicy] = found("eviction", text, registry, seed)
    values = msgspec.to_builtins(chosen.options) if chosen.options is not None else {}
    if chosen.window is not None:
        values["window"] = chosen.window
    source = source_hash(chosen.loaded)
    return Choice(label or text, chosen.loaded, chosen.options, values, source, chosen.window)


def choose_all(texts: Iterable[str], registry: Registry) -> list[Choice]:
    """Resolve each text in order, once each."""
    return [choose(text, registry) for text in dict.fromkeys(texts)]


def expand(texts: Iterable[str], registry: Registry) -> tuple[list[str], list[str]]:
    """Put every installed policy that works in the place of ``all``, in the order of `kvframe
    plugins`.

    Returns:
        The names; and for each policy that ``all`` leaves out since it does not work, why.
    """
    names, broken = [], []
    for text in texts:
        if text != EVERY:
            names.append(text)
            continue
        for row in registry.list():
            if row.state != "ok":
                broken.append(f"{row.name} ({row.distribution} {row.version}) is {row.state}")
            elif row.kind == "eviction":
                try:
                    choose(row.name, registry).engine_policy(block_size=1)
                except KVFrameError as error:
                    broken.append(str(error))
                else:
                    names.append(row.name)
    return names, broken
