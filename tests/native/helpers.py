"""What the tests make policies of: a C compiler, capsules, ctypes; and caches with them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from kvframe import CacheConfig, Config, EvictionConfig, EvictionPolicy, KVCacheManager
from kvframe.config import Chosen
from kvframe.native import ABI, CAPSULE, NativePolicy, include_dir
from kvframe.registry import Loaded

from ..manager.helpers import installed

HERE = Path(__file__).parent
VERSION = "3.2.1"

Void, U32, U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
Ids = ctypes.POINTER(U32)
EVENT = ctypes.CFUNCTYPE(ctypes.c_int32, Void, Void, U64, U32, Ids)
TYPES: Mapping[str, Any] = {
    "create": ctypes.CFUNCTYPE(Void, Void),
    "destroy": ctypes.CFUNCTYPE(None, Void),
    "resize": ctypes.CFUNCTYPE(ctypes.c_int32, Void, U32),
    "insert": ctypes.CFUNCTYPE(
        *(ctypes.c_int32, Void, Void, U64, U32, Ids, Ids, Ids, ctypes.POINTER(U64), Void)
    ),
    "hit": ctypes.CFUNCTYPE(ctypes.c_int32, Void, Void, U64, U32, Ids, Void),
    "acquire": EVENT,
    "release": EVENT,
    "on_evictable": EVENT,
    "remove": ctypes.CFUNCTYPE(ctypes.c_int32, Void, Void, U64, U32, U32),
    "victim": ctypes.CFUNCTYPE(ctypes.c_int64, Void, Void, U64),
    "score": ctypes.CFUNCTYPE(
        *(ctypes.c_int32, Void, Void, U64, U32),
        *(ctypes.POINTER(Void), ctypes.POINTER(ctypes.c_double)),
    ),
}


class Function:
    """A Python function with an address, kept as long as whoever holds this."""

    def __init__(self, name: str, body: Callable[..., Any]) -> None:
        self.callback = TYPES[name](body)
        self.address = int(ctypes.cast(self.callback, Void).value or 0)


def functions(**bodies: Callable[..., Any]) -> dict[str, Function]:
    """Python functions as native ones, by name."""
    return {name: Function(name, body) for name, body in bodies.items()}


def of(bodies: Mapping[str, Callable[..., Any]], **more: Any) -> NativePolicy:
    """A native policy whose functions are Python's."""
    return NativePolicy.of_functions(functions(**bodies), abi=ABI, **more)


def compiler() -> str:
    """The C compiler; tests that want one are left out where there is none."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("needs a C compiler: cc")
    return found


@cache
def compiled() -> ctypes.CDLL:
    """lru.c, compiled."""
    built = Path(mkdtemp()) / "lru.so"
    command = [compiler(), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += [f"-I{include_dir()}", str(HERE / "lru.c"), "-o", str(built)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(built))


def capsule(address: int, name: str = CAPSULE) -> object:
    """A capsule of that name over an address."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [Void, ctypes.c_char_p, Void]
    kept = NAMES.setdefault(name, name.encode())
    return new(address, kept, None)


NAMES: dict[str, bytes] = {}
"""Names of capsules: a capsule keeps a pointer to its own."""


def table(symbol: str) -> int:
    """The address of a table of lru.c."""
    return ctypes.addressof(ctypes.c_char.in_dll(compiled(), symbol))


def in_c(symbol: str) -> NativePolicy:
    """A policy of lru.c."""
    return NativePolicy(capsule(table(symbol)))


def found(make: Callable[[], object], way: Any = "native", name: str = "test") -> Any:
    """What the registry would answer if the policy were a package's."""
    policy = EvictionPolicy(name=name, way=way, summary="of a test", make=lambda _: make())
    return Loaded(policy, "kvframe-test", VERSION, name)


def manager(
    make: Callable[[], object],
    blocks: int = 8,
    block_size: int = 4,
    *,
    on_error: Any = "raise",
    window: int | None = None,
    way: Any = "native",
    name: str = "test",
    **cache: Any,
) -> KVCacheManager:
    """A small cache under that policy."""
    config = Config(
        cache=CacheConfig(capacity=blocks, block_size=block_size, **cache),
        eviction=EvictionConfig(policy="lru", on_error=on_error, window=window),
    )
    return KVCacheManager(
        replace(config.resolve(installed()), eviction=Chosen(found(make, way, name)))
    )


def serve(kv: KVCacheManager, first: int, tokens: int) -> int:
    """One request, start to end; tokens that were found."""
    grant = kv.allocate(list(range(first, first + tokens)))
    kv.commit(grant.seq, tokens)
    kv.release(grant.seq)
    return grant.cached_tokens
