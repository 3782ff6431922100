"""Configuration: defaults, then kvframe.toml, then the environment, then keywords.

Every value is checked before anything is built, and each knows where it came from. An error is one
line: where, the key's path, the value, what it must be, and the nearest right spelling.
"""

from __future__ import annotations

from kvframe.config.schema import (
    AdmissionConfig,
    CacheConfig,
    GroupConfig,
    ModelConfig,
    ObserveConfig,
    PluginsConfig,
    PolicyConfig,
    PrefixConfig,
    PressureConfig,
    SequenceCapacity,
    TierConfig,
)
from kvframe.config.tree import Config, Resolved

__all__ = [
    "AdmissionConfig",
    "CacheConfig",
    "Config",
    "GroupConfig",
    "ModelConfig",
    "ObserveConfig",
    "PluginsConfig",
    "PolicyConfig",
    "PrefixConfig",
    "PressureConfig",
    "Resolved",
    "SequenceCapacity",
    "TierConfig",
]
