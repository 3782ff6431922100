"""A trace through a simulated server: what users would feel, at which load, under which policy.

| room | purpose |
| --- | --- |
| `cards` | what a card has, by its data sheet |
| `shape` | the served model: its weights and its KV; how much of it a card holds |
| `model`, `kinds`, `precision` | the same in a file: formats of weights, and kinds of layers |
| `layered` | what those take in a step |
| `profiles` | how long a step takes: fixed rates, roofline terms, or a measured table |
| `sla` | what users were promised |
| `promise` | whether a promise decides, or the mean time to the first token |
| `durations` | times with their unit |
| `fleet` | several servers behind a router, and one class's flood against the others |
| `routing` | their tables, and what is said of them |
| `cells` | one server on one trace: its options, its numbers |
| `summary` | from a simulation's columns to numbers |
| `job` | what was asked, checked whole, then run |
| `requests` | one row a request, in a file |
| `verdict` | which policy serves best, and whether that outlasts an error in the times |
| `report` | the tables |
"""
