"""A policy of any kind as the command line names it: ``name``, ``name:option=value``."""

import hashlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec

from kvframe.bench.options import OptionOrigins
from kvframe.config.environment import EnvText
from kvframe.config.policies import Chosen, chosen
from kvframe.config.text import cut
from kvframe.registry import Descriptor, Kind, Loaded, Registry
from kvframe.registry.lookup import only
from kvframe.registry.naming import is_place, named
from kvframe.registry.places import is_module

D = TypeVar("D", bound=Descriptor)

OPTIONS: dict[Kind, str] = {
    "eviction": "--policy",
    "admission": "--admission",
    "prefix": "--prefix",
}

_CODE = (".py", ".so", ".pyd")


@dataclass(frozen=True)
class Named(Generic[D]):
    """A policy found by the registry, with its checked options.

    ``label`` is its text on the command line and in results.
    """

    label: str
    loaded: Loaded[D] = field(repr=False, compare=False)
    options: msgspec.Struct | None = field(compare=False)

    @classmethod
    def of(cls, chosen: Chosen[Any]) -> Self:
        """What a configuration chose."""
        return cls(label_of(chosen), chosen.loaded, chosen.options)

    @property
    def option_values(self) -> dict[str, object]:
        """Every option, the defaults too, so that a changed default is another cell."""
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


def found(kind: Kind, text: str, registry: Registry, seed: int = 0) -> Chosen[Any]:
    """What ``text`` names: ``PLUGIN``, or ``PLUGIN:OPTION=VALUE[,OPTION=VALUE]``.

    PLUGIN is the name of an installed policy, or the place of one in the making, as
    `kvframe.registry.places` has them: ``FILE.py:CLASS``, ``MODULE:CLASS``, ``MODULE``. ``seed`` is
    that of a policy with an option of this name which ``text`` does not give; 0 leaves its default.

    Raises:
        PluginError: Not found, not to be imported, or no policy of the kind; or several.
        ConfigError: An option that it does not have, or a value that it refuses.
    """
    option = OPTIONS[kind]
    name, given = named(text, f"{option} {text}")
    loaded: Loaded[Any] = (
        only(registry.at(name), (kind,), name)
        if is_bare_module(name, registry)
        else getattr(registry, kind)(name)
    )
    options = {key: EnvText(value) for key, value in given.items()}
    schema = loaded.descriptor.options
    if seed and schema is not None and "seed" in schema.__struct_encode_fields__:
        options.setdefault("seed", EnvText(str(seed)))
    origins = OptionOrigins(f"{option} {cut(text, 60)}")
    return chosen(loaded, options, loaded.descriptor.name, origins, registry)


def label_of(chosen: Chosen[Any]) -> str:
    """A policy as the command line names it, with the options that differ from their defaults."""
    name: str = chosen.loaded.descriptor.name
    if chosen.options is None:
        return name
    schema = type(chosen.options)
    given = msgspec.to_builtins(chosen.options)
    defaults = {f.name: f.default for f in msgspec.structs.fields(schema)}
    other = [f"{key}={value}" for key, value in given.items() if defaults.get(key) != value]
    return f"{name}:{','.join(other)}" if other else name


def is_bare_module(name: str, registry: Registry) -> bool:
    """Whether it is a module's name, and no policy's."""
    return not is_place(name) and not registry.has(name) and is_module(name)


def source_hash(loaded: Loaded[D]) -> str:
    """Hash of a plugin's code, in Python or compiled: under development its version stays, its code
    does not.

    Empty for a built-in, whose code is the core's.
    """
    files = _package(loaded) | _placed(loaded)
    if not files:
        return ""
    digest = hashlib.sha256()
    for source in sorted(files):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _package(loaded: Loaded[D]) -> set[Path]:
    """The files of the package, or of the module, that makes the policy."""
    # A function of a compiled module may name none.
    home = getattr(loaded.descriptor.make, "__module__", None) or ""
    path = getattr(sys.modules.get(home.partition(".")[0]), "__file__", None)
    if path is None:
        return set()
    file = Path(path)
    if file.name == "__init__.py":
        return {each for each in file.parent.rglob("*") if each.suffix in _CODE and each.is_file()}
    return {file}


def _placed(loaded: Loaded[D]) -> set[Path]:
    """The file by which a policy was named, and the imported modules that lie beside it."""
    place = loaded.plugin.partition(":")[0]
    if not place.endswith(".py"):
        return set()
    file = Path(place).absolute()
    paths = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    beside = {Path(path) for path in paths if path is not None}
    return {file} | {path for path in beside if path.parent == file.parent and path.is_file()}
