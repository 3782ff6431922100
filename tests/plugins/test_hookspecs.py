"""Each hook is documented by a whole plugin (docs/reference/hooks.md) that works as printed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kvframe.config import Resolved
from kvframe.policies.batched import COLUMNS, BatchedEviction, Candidates
from kvframe.registry import Registry, hookspecs
from kvframe.registry.descriptors import Kind
from kvframe.registry.hooks import HOOKS

NAMES: dict[Kind, str] = {
    "eviction": "deep-first",
    "admission": "first-turns",
    "prefix": "long-enough",
    "store": "shelf",
}


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "hooks.md").read_text()


def example(hook: str, language: str) -> str:
    """The first code block of ``language`` below the hook's heading."""
    _, _, section = PAGE.partition(f"\n## `{hook}`\n")
    _, _, rest = section.partition(f"```{language}\n")
    return rest.partition("```")[0]


def plugin(hook: str) -> ModuleType:
    module = ModuleType(f"example_of_{hook}")
    code = compile(example(hook, "python"), f"<example of {hook}>", "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


def test_every_hook_is_known() -> None:
    declared = {name for name in vars(hookspecs) if name.startswith("kvframe_")}
    assert declared == set(HOOKS)
    assert {HOOKS[hook].kind for hook in declared} == {*NAMES, "trace"}


@pytest.mark.parametrize("kind", NAMES)
def test_example_plugin_loads_and_makes_its_policy(kind: Kind) -> None:
    registry = Registry()
    registry.register(plugin(f"kvframe_{kind}"), "example")
    lookup = getattr(registry, kind)
    descriptor = lookup(NAMES[kind]).descriptor
    options = descriptor.options
    assert descriptor.make(options() if options else None) is not None


def test_example_policy_scores_as_it_says() -> None:
    registry = Registry()
    registry.register(plugin("kvframe_eviction"), "example")
    sections = tomllib.loads(example("kvframe_eviction", "toml"))
    resolved = Resolved.load(env={}, registry=registry, **sections)
    make = resolved.eviction.loaded.descriptor.make
    assert make is not None
    policy = make(resolved.eviction.options)
    assert isinstance(policy, BatchedEviction)
    dtypes = {name: COLUMNS[name].partition(":")[0] for name in policy.columns}
    columns = {
        "last_use": np.array([10, 10], dtypes["last_use"]),
        "depth": np.array([1, 4], dtypes["depth"]),
    }
    out = np.empty(2)
    policy.score(Candidates(now=11, block_size=16, columns=columns), out)
    assert out.tolist() == [8.0, 2.0]
