"""vLLM's GPU prefix cache under any eviction policy of kvframe.

Three ways in, of which one is enough; each puts a policy in place of the order in which vLLM's
``BlockPool`` gives out free blocks, and leaves all else to vLLM:

- ``KVFRAME_VLLM_POLICY=lfu vllm serve ...``: the entry point (`kvframe_vllm.plugin`);
- ``--scheduler-cls kvframe_vllm.scheduler.KvframeScheduler`` with
  ``--additional-config '{"kvframe": "lfu"}'``;
- a KV connector (`kvframe_vllm.connector`), which also exports numbers.

| module | what it does |
| --- | --- |
| `kvframe_vllm.choice` | which policy the configuration asks for |
| `kvframe_vllm.releases` | whether this release of vLLM is one that is known |
| `kvframe_vllm.install` | puts a policy into a live pool, and takes it out again |
| `kvframe_vllm.pool`, `kvframe_vllm.queue` | what a pool notifies, and its free queue |
| `kvframe_vllm.switch` | another policy in a pool that serves |
| `kvframe_vllm.check` | what a setting comes to, before vLLM starts |
| `kvframe_vllm.plugin`, `kvframe_vllm.scheduler`, `kvframe_vllm.connector` | the three ways in |
| `kvframe_vllm.manager` | the whole block manager instead of the pool's order (experimental) |
| `kvframe_vllm.offload` | vLLM's CPU tier: policies by name, admission, kvframe's stores below it |
| `kvframe_vllm.interface` | the interface of a GPU eviction order, as proposed to vLLM |
| `kvframe_vllm.passive` | what the connectors share: they move no bytes |
| `kvframe_vllm.shadow` | what other policies and sizes would hit, while vLLM goes on as it is |
| `kvframe_vllm.compatibility`, `kvframe_vllm.suite` | is lru equal to stock; vLLM's own tests |
| `kvframe_vllm.command` | how every command here ends where kvframe says what is wrong |
| `kvframe_vllm.replay` | vLLM's scheduler without a model: hit rates, stock beside a policy |
"""
