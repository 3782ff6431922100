"""A serving loop in a few hundred lines: continuous batching over a paged KV cache, on NumPy.

Read in this order: `engine` (the loop an engine author would copy), `runner` and `pages` (the data
plane), `model` (the transformer whose answers prove the pages right), `workload`, `run`.
"""
