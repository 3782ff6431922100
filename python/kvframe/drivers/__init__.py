"""The drivers through which the core asks policies of plugins: one module for each kind of policy.

| module | asks |
| --- | --- |
| `eviction` | which block is evicted next; `kvframe.policies.BatchedEviction`, `kvframe.native` |
| `admission` | which blocks become findable, and who waits; `kvframe.policies.BatchedAdmission` |
| `prefix` | how prompts become keys, and what is used; `kvframe.policies.BatchedPrefix` |

All three derive from `asker.Asker`, and are made from the policy and one table, `asker.Terms`.
"""
