"""Admission policies as the command line names them: ``second-use``, ``second-use:uses=3``."""

from collections.abc import Iterable

from kvframe.bench.named import Named, found
from kvframe.drivers.admission import AdmissionDriver, driver
from kvframe.drivers.asker import Terms
from kvframe.registry import Registry
from kvframe.registry.descriptors import AdmissionPolicy

KEEP_ALL = "always"
DEFAULT = (KEEP_ALL,)


class Admission(Named[AdmissionPolicy]):
    """An admission policy and its options."""

    def engine_policy(self, block_size: int) -> tuple[AdmissionDriver | str, dict[str, object]]:
        """What `kvframe._core.replay` takes, made anew.

        Raises:
            PluginError: the policy cannot be made.
        """
        made = driver(self.loaded, Terms(block_size, self.options))
        return made or self.loaded.descriptor.name, self.option_values


def choose_all(texts: Iterable[str], registry: Registry) -> list[Admission]:
    """Resolve each ``name[:option=value,...]``, in order.

    Raises:
        PluginError: no such policy; lists what was found and where from.
        ConfigError: an option the policy does not have, or a value it refuses.
    """
    return [choose(text, registry) for text in texts]


def choose(text: str, registry: Registry, label: str | None = None) -> Admission:
    """Resolve one, as `kvframe.bench.named.found` does; raises as `choose_all`."""
    chosen = found("admission", text, registry)
    return Admission(label or text, chosen.loaded, chosen.options)
