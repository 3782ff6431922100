"""Prefix matchers as the command line names them: ``min-hit``, ``min-hit:min_tokens=1024``."""

from collections.abc import Iterable

from kvframe.bench.named import Named, found
from kvframe.drivers.asker import Terms
from kvframe.drivers.prefix import PrefixDriver, driver
from kvframe.errors import ConfigError
from kvframe.registry import Registry
from kvframe.registry.descriptors import PrefixMatcher

OWN = "hash"
"""The index of the core, by keys, as a trace brings them."""

DEFAULT = (OWN,)


class Matcher(Named[PrefixMatcher]):
    """A prefix matcher and its options."""

    def engine_policy(self, block_size: int) -> PrefixDriver | None:
        """What `kvframe._core.replay` takes, made anew.

        Raises:
            PluginError: the matcher cannot be made.
        """
        return driver(self.loaded, Terms(block_size, self.options))


def choose_all(texts: Iterable[str], registry: Registry) -> list[Matcher]:
    """Resolve each ``name[:option=value,...]``, in order.

    Raises:
        PluginError: no such matcher; lists what was found and where from.
        ConfigError: an option it does not have, or a value it refuses; an index that needs tokens.
    """
    return [choose(text, registry) for text in texts]


def choose(text: str, registry: Registry, label: str | None = None) -> Matcher:
    """Resolve one, as `kvframe.bench.named.found` does; raises as `choose_all`."""
    chosen = found("prefix", text, registry)
    if chosen.name == "radix":
        raise ConfigError(f"--prefix {text}: a trace has keys and no tokens, which radix matches")
    return Matcher(label or text, chosen.loaded, chosen.options)
