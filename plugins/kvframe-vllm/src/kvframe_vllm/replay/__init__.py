"""vLLM's own scheduler without a model or a GPU: what a policy does to its prefix cache.

``python -m kvframe_vllm.replay`` prints a table, stock beside policies.

``workload``   requests: families with a shared prefix among scans
``engine``     a scheduler on a made-up model, and the loop around it
``loads``      others: conversations, documents
``shadow``     how far shadows are from runs with that policy and size
``shadow_cost``  what they cost a step
``exposed``    their numbers as ``/metrics`` has them
``check``      what must hold after every step
``scenarios``  lru against stock under preemption, aborts, drafts, windows and late frees
``fuzz``       loose values of clients and operators
``cost``       time of the KV manager a step
``mixed``      prefixes, scans, conversations and agents at once
``demonstration``  watched in shadow, switched, measured: one figure
``manager``    the scenarios under kvframe's whole manager
``manager_cost``  what a step costs under it
``manager_fuzz``  loose values of clients under it
``switching``  time of a switch in a full pool
"""

from kvframe_vllm.command import commands_need_vllm

commands_need_vllm()
