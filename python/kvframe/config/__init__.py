"""Configuration: defaults, then kvframe.toml, then the environment, then keywords.

Every value is checked before anything is built, and the origin of each is known. An error is one
line: the place, the key's path, the value, what it must be, and the nearest known spelling.
"""

from __future__ import annotations

from kvframe.config.policies import Chosen
from kvframe.config.schema import (
    AdmissionConfig,
    CacheConfig,
    EvictionConfig,
    GroupConfig,
    ModelConfig,
    ObserveConfig,
    PluginsConfig,
    PrefixConfig,
    PressureConfig,
    RetentionConfig,
    SecurityConfig,
    SequenceCapacity,
    TenantConfig,
    TierAdmissionConfig,
    TierConfig,
)
from kvframe.config.tree import Config, Resolved

__all__ = [
    "AdmissionConfig",
    "CacheConfig",
    "Chosen",
    "Config",
    "EvictionConfig",
    "GroupConfig",
    "ModelConfig",
    "ObserveConfig",
    "PluginsConfig",
    "PrefixConfig",
    "PressureConfig",
    "Resolved",
    "RetentionConfig",
    "SecurityConfig",
    "SequenceCapacity",
    "TenantConfig",
    "TierAdmissionConfig",
    "TierConfig",
]
