"""kvframe inside other engines. Each module needs its engine, and nothing in kvframe imports it.

| module | plug point |
| --- | --- |
| `vllm` | the `CachePolicy` of vLLM's CPU offload tier |
| `sglang` | the `EvictionStrategy` of SGLang's radix cache |
| `lmcache` | LMCache's cache policies, and the eviction policy of its MP server |
| `transformers` | the blocks of transformers' continuous batching |
"""
