"""Finds the policy or store of a name: built in, from an installed package, or in a file."""

from __future__ import annotations

from kvframe.registry.descriptors import (
    KINDS,
    AdmissionPolicy,
    Descriptor,
    EvictionPolicy,
    Kind,
    PrefixMatcher,
    TierStore,
    TraceForm,
    Way,
)
from kvframe.registry.hookspecs import PLUGIN_API, hookimpl
from kvframe.registry.lock import Lock
from kvframe.registry.lookup import Loaded, PluginInfo, Registry

__all__ = [
    "KINDS",
    "PLUGIN_API",
    "AdmissionPolicy",
    "Descriptor",
    "EvictionPolicy",
    "Kind",
    "Loaded",
    "Lock",
    "PluginInfo",
    "PrefixMatcher",
    "Registry",
    "TierStore",
    "TraceForm",
    "Way",
    "hookimpl",
]
