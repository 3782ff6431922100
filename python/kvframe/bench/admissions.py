"""Admission policies as the command line names them: ``second-use``, ``second-use:uses=3``."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from kvframe.bench.options import keyed
from kvframe.bench.policies import options_of, source_hash
from kvframe.descriptors import AdmissionPolicy
from kvframe.policies.gate import AdmissionDriver, gate_of
from kvframe.registry import Loaded, Registry

KEEP_ALL = "always"
DEFAULT = (KEEP_ALL,)


@dataclass(frozen=True)
class Admission:
    """An admission policy found by the registry, with its checked options (see `Choice`)."""

    label: str
    loaded: Loaded[AdmissionPolicy] = field(repr=False, compare=False)
    options: msgspec.Struct | None = field(compare=False)

    def engine_policy(self, block_size: int) -> tuple[AdmissionDriver | str, dict[str, object]]:
        """What `kvframe._core.replay` takes, made anew.

        Raises:
            PluginError: the policy cannot be made.
        """
        return gate_of(self.loaded, self.options, block_size), self.option_values

    @property
    def option_values(self) -> dict[str, object]:
        """Every option, the defaults too."""
        return {} if self.options is None else msgspec.to_builtins(self.options)

    @property
    def identity(self) -> dict[str, object]:
        """Everything about it that decides a cell's numbers."""
        return {
            "policy": self.loaded.descriptor.name,
            "version": f"{self.loaded.distribution} {self.loaded.version}",
            "source": source_hash(self.loaded),
            "options": self.option_values,
        }


def choose_all(texts: Iterable[str], registry: Registry) -> list[Admission]:
    """Resolve each ``name[:option=value...]``, in order.

    Raises:
        PluginError: no such policy; lists what was found and where from.
        ConfigError: an option the policy does not have, or a value it refuses.
    """
    return [_choose(text, registry) for text in texts]


def _choose(text: str, registry: Registry) -> Admission:
    name, *pairs = text.split(":")
    loaded = registry.admission(name)
    given = keyed(pairs, f"--admission {text}")
    return Admission(text, loaded, options_of("--admission", text, loaded.descriptor, given))
