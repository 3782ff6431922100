"""SGLang's prefix cache under any eviction policy of kvframe.

One way in: a *tree core*. A server keeps SGLang's ``UnifiedRadixCache`` with all that it does for
requests (checkpoints, sessions, chunks, aborts, metrics) and asks kvframe's tree where its Rust
tree was asked: what of a prompt is cached, and which node goes next. One line chooses the policy:
``--radix-eviction-policy kvframe:arc``, or ``KVFRAME_SGLANG_POLICY=arc`` in the environment.

| module | what it does |
| --- | --- |
| `kvframe_sglang.plugin` | the entry point: names for the command line, and the factory |
| `kvframe_sglang.choice` | which policy the command line and the environment ask for |
| `kvframe_sglang.fit` | which caches the tree serves; all others stay SGLang's |
| `kvframe_sglang.releases` | whether this release of SGLang is one that is known |
| `kvframe_sglang.core`, `kvframe_sglang.hostless` | the tree core; what it answers of other tiers |
| `kvframe_sglang.loose` | values as SGLang may give them, and as the tree takes them |
| `kvframe_sglang.spans` | what an event says of a node |
| `kvframe_sglang.server` | a cache as a server builds it, without a model |
| `kvframe_sglang.streams` | requests served by kvframe's tree and by SGLang's, side by side |
| `kvframe_sglang.command` | what its commands say where SGLang is not installed |
| `kvframe_sglang.replay`, `kvframe_sglang.cost` | what policies hit there; what a call costs |
| `kvframe_sglang.compatibility` | the page that says what was found |
"""
