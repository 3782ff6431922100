"""What the core calls to ask a policy in Python, or takes from a compiled one: a module a kind.

| module | asks |
| --- | --- |
| `eviction` | which block is evicted next; `kvframe.policies.BatchedEviction`, `kvframe.native` |
| `admission` | which blocks become findable, and who waits; `kvframe.policies.BatchedAdmission` |
| `prefix` | how prompts become keys, and what is used; `kvframe.policies.BatchedPrefix` |

All three are an `asker.Asker`, made of the policy and of one table, `asker.Terms`.
"""
