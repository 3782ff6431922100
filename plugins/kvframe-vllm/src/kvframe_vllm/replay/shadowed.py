"""A load that shadows watch."""

from __future__ import annotations

from typing import Any

from kvframe_vllm.replay.engine import Load


def with_shadows(load: Load, extra: dict[str, Any]) -> Load:
    """The same load, watched."""
    connector = {
        "kv_connector": "ShadowConnector",
        "kv_connector_module_path": "kvframe_vllm.shadow",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": extra,
    }
    return Load(**{**vars(load), "connector": connector})
