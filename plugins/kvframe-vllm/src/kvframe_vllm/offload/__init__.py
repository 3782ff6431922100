"""Below the GPU: vLLM's CPU tier under kvframe's policies, and kvframe's stores below it.

| module | what it does |
| --- | --- |
| `names` | enters kvframe's policies, spec and tier into vLLM's registries, by name |
| `spec` | vLLM's CPU tier behind an admission policy of kvframe |
| `tier` | a store of kvframe (disk, Redis, Mooncake, a package's) below vLLM's CPU tier |
"""
