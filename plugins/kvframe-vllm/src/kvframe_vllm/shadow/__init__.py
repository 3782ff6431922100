"""Shadow mode: what other policies and sizes would have hit in vLLM's GPU prefix cache.

In ``--kv-transfer-config``::

    {"kv_connector": "ShadowConnector", "kv_connector_module_path": "kvframe_vllm.shadow",
     "kv_role": "kv_producer",
     "kv_connector_extra_config": {"policies": ["lru", "lfu", "s3-fifo"], "sizes": [0.5, 1, 2]}}

| module | what it does |
| --- | --- |
| `connector` | the KV connector: moves nothing, changes nothing, and watches |
| `arrivals` | from what a connector is told to shadows that schedule themselves |
| `traffic` | the same to shadows that do as the scheduler does, where its way is not known |
| `stats` | the numbers in vLLM's log and ``/metrics`` |
| `config` | what the extra configuration asks for |
"""

from typing import Any

__all__ = ["ShadowConnector"]


def __getattr__(name: str) -> Any:
    # `config` is read where vLLM need not be imported, which takes seconds.
    if name == "ShadowConnector":
        from kvframe_vllm.shadow.connector import ShadowConnector

        return ShadowConnector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
