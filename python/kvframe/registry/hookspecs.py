"""The hooks a plugin may implement, and the marker it implements them with.

A plugin is a module (or any object) whose functions carry `hookimpl`. Its package names it in the
entry-point group of the kind, once for each policy: the entry point's name is the policy's name.

    [project.entry-points."kvframe.eviction"]
    deep-first = "kvframe_deep_first"

pluggy calls the hooks, one plugin at a time, as a configuration names it: a call that asked all
plugins at once would import every package for one name. Hook wrappers work: those of an object that
was given to `Registry.register` go around the hooks of every plugin that is loaded after it. A
whole plugin of each kind is in docs/reference/hooks.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from kvframe.registry.descriptors import (
    AdmissionPolicy,
    EvictionPolicy,
    PrefixMatcher,
    TierStore,
    TraceForm,
)

PROJECT = "kvframe"

PLUGIN_API = 1
"""The version of the plugin API: entry-point groups, hooks, descriptors, and the classes of
`kvframe.policies`, `kvframe.tiers` and `kvframe.traces` that plugins derive from, with the columns
that they are given.

It counts up where a plugin that worked no longer would. A plugin that needs a later one than 1 says
so beside its hooks, ``KVFRAME_PLUGIN_API = 2``, and a kvframe that does not speak it says that. The
interface of compiled policies has a version of its own, `kvframe.native.ABI`.
"""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def kvframe_eviction() -> Iterable[EvictionPolicy]:  # type: ignore[empty-body]
    """Return or yield the eviction policies of this plugin."""


@hookspec
def kvframe_admission() -> Iterable[AdmissionPolicy]:  # type: ignore[empty-body]
    """Return or yield the admission policies of this plugin."""


@hookspec
def kvframe_prefix() -> Iterable[PrefixMatcher]:  # type: ignore[empty-body]
    """Return or yield the prefix matchers of this plugin."""


@hookspec
def kvframe_store() -> Iterable[TierStore]:  # type: ignore[empty-body]
    """Return or yield the stores for lower tiers of this plugin."""


@hookspec
def kvframe_trace() -> Iterable[TraceForm]:  # type: ignore[empty-body]
    """Return or yield the forms of trace that this plugin reads."""
