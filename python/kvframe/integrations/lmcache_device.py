"""How LMCache learns kvframe's policies without a line of code: an entry point that it loads.

LMCache loads the entry points of the group ``lmcache.device_plugins`` in each of its processes,
long before it builds a backend. This one is a device that is never there; what it is for is that
``cache_policy: "kvframe:arc"`` then names a policy. LMCache's own modules are half imported at that
moment, so its table is entered when it comes to be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kvframe.integrations.peers import PREFIX, seam
from kvframe.registry import Registry

TABLE = "lmcache.v1.storage_backend.cache_policy"
"""The module that has LMCache's table of cache policies."""

if TYPE_CHECKING:
    from lmcache.v1.platform.base.device_spec import DeviceSpec
else:
    DeviceSpec = seam("lmcache.v1.platform.base.device_spec", "lmcache", "0.5.6").DeviceSpec


class Policies(DeviceSpec):  # type: ignore[misc]
    """The device that is never there."""

    @property
    def device_type(self) -> str:
        return "kvframe"

    def is_available(self) -> bool:
        return False


def enter(table: ModuleType) -> None:
    """Let LMCache's table name every policy; each is made when a backend asks for it."""
    mapping: dict[str, Any] = table.POLICY_MAPPING
    for name in ("", *(found.name for found in Registry().candidates("eviction"))):
        known = f"{PREFIX}{name}" if name else PREFIX.rstrip(":")
        mapping.setdefault(known.upper(), partial(_made, name))


def _made(name: str) -> Any:
    from kvframe.flat import resolve
    from kvframe.integrations.lmcache import KvframeCachePolicy

    return KvframeCachePolicy(resolve(name) if name else None)


class _Once(MetaPathFinder):
    """Calls ``then`` with a module as soon as it is imported."""

    def __init__(self, module: str, then: Callable[[ModuleType], None]) -> None:
        self._module, self._then = module, then

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run, then = spec.loader.exec_module, self._then

            def exec_module(module: ModuleType) -> None:
                run(module)
                then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _when_it_is_there() -> None:
    if TABLE in sys.modules:
        enter(sys.modules[TABLE])
    else:
        sys.meta_path.insert(0, _Once(TABLE, enter))


_when_it_is_there()
