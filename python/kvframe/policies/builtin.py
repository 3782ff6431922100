"""The built-in eviction policies: described here, run by the core.

They come through the same hook as every other policy. Each orders the blocks that the core says may
be evicted; that a leaf goes before its parent is the core's rule, not theirs.
"""

from __future__ import annotations

from kvframe.policies.core_options import options_of
from kvframe.registry.descriptors import EvictionPolicy
from kvframe.registry.hookspecs import hookimpl


def _policy(name: str, summary: str, source: str = "", replay_only: bool = False) -> EvictionPolicy:
    return EvictionPolicy(
        name=name,
        way="builtin",
        summary=summary,
        source=source,
        options=options_of("eviction", name),
        replay_only=replay_only,
    )


BUILTIN = (
    _policy(
        "lru",
        "least recently used first",
        source="vLLM, SGLang and TensorRT-LLM: their default",
    ),
    _policy(
        "fifo",
        "first inserted first",
        source="LMCache, FlexKV",
    ),
    _policy(
        "lfu",
        "fewest uses first, then least recently used",
        source="SGLang",
    ),
    _policy(
        "lfuda",
        "fewest uses first, aged by the score of the last victim",
        source="Arlitt et al., Performance Evaluation Review 27(4), 2000",
    ),
    _policy(
        "slru",
        "blocks below protected_uses uses first, then least recently used",
        source="SGLang",
    ),
    _policy(
        "foresight",
        "worth least by the time it takes up first, measured by class of reuse",
        source="kvframe; KVCache in the Wild, ATC 2025; LHD, NSDI 2018; Gittins, 1979",
    ),
    _policy(
        "mru",
        "most recently used first",
        source="LMCache, FlexKV",
    ),
    _policy(
        "filo",
        "last inserted first",
        source="SGLang, FlexKV",
    ),
    _policy(
        "lfu-aged",
        "fewest uses first, each use fading by half_life_ticks",
        source="LRFU: Lee et al., IEEE Transactions on Computers 50(12), 2001",
    ),
    _policy(
        "wlfu",
        "least recently used first, later by the logarithm of hits",
        source="SGLang #23781",
    ),
    _policy(
        "hpt",
        "fewest hits by tokens of the prefix first",
        source="SGLang #30300",
    ),
    _policy(
        "gdsf",
        "lowest uses times recompute cost first, aged by the last victim",
        source="Cherkasova, HPL-98-69, 1998",
    ),
    _policy(
        "cost",
        "lowest recompute cost first, aged by the last victim",
        source="GreedyDual: Young, Algorithmica 11, 1994",
    ),
    _policy(
        "priority",
        "lowest priority of any request first, then least recently used",
        source="SGLang; TensorRT-LLM",
    ),
    _policy(
        "longest-first",
        "deepest first, then least recently used",
        source="cbtop",
    ),
    _policy(
        "ttl",
        "first to expire first, by last use and a time for each class",
        source="inference-lab; Continuum",
    ),
    _policy(
        "clock",
        "first in first, another round for what was used since",
        source="Corbató, 1968",
    ),
    _policy(
        "sieve",
        "a hand spares what was used since it came by",
        source="Zhang et al., NSDI 2024",
    ),
    _policy(
        "2q",
        "used once in a FIFO, back again in an LRU",
        source="Johnson and Shasha, VLDB 1994",
    ),
    _policy(
        "arc",
        "recency and frequency share by their ghosts' hits",
        source="Megiddo and Modha, FAST 2003",
    ),
    _policy(
        "mq",
        "a queue for each power of two of uses, idle blocks move down",
        source="Zhou, Philbin and Li, USENIX 2001",
    ),
    _policy(
        "s3-fifo",
        "a small FIFO filters what is used once",
        source="Yang et al., SOSP 2023",
    ),
    _policy(
        "slru-lists",
        "a probationary LRU first, then a bounded protected one",
        source="Karedla, Love and Wherry, IEEE Computer 27(3), 1994",
    ),
    _policy(
        "slru-decay",
        "as slru; bursts count once, and protection fades",
        source="SGLang #24075",
    ),
    _policy(
        "lirs",
        "longest time between two uses first",
        source="Jiang and Zhang, SIGMETRICS 2002",
    ),
    _policy(
        "w-tinylfu",
        "a window, then what a sketch has seen asked for more often stays",
        source="Einziger, Friedman and Manes, ACM TOS 13(4), 2017",
    ),
    _policy(
        "lecar",
        "least recently or least frequently used first, by lately smaller regret",
        source="Vietri et al., HotStorage 2018",
    ),
    _policy(
        "random-compute",
        "of a sample the least recompute cost by age first",
        source="RandomCompute: arXiv 2609.28870",
    ),
    _policy(
        "random-quick-demotion",
        "of a sample the fewest uses by age and recompute cost first, unused ones sooner",
        source="RandomQuickDemotion: arXiv 2609.28870",
    ),
    _policy(
        "partial-node-random-compute",
        "as random-compute; the tail of the node that is drawn loses a chunk",
        source="PartialNodeRandomCompute: arXiv 2609.28870",
    ),
    _policy(
        "asymcache",
        "least recompute cost by a chance of reuse that falls with idle time first",
        source="AsymCache: arXiv 2606.02964",
    ),
    _policy(
        "rr-evict",
        "idle agents in turn lose a chunk of their tails",
        source="RR-Evict: arXiv 2609.32278",
    ),
    _policy(
        "marconi",
        "lowest recency plus work saved first",
        source="Marconi: Pan et al., MLSys 2025",
    ),
    _policy(
        "workload",
        "least likely to be used again first, by request type, turn and idle time",
        source="KVCache in the Wild: Wang et al., ATC 2025",
    ),
    _policy(
        "session",
        "sessions least likely to go on first, by turns and silence",
        source="LPC, NeurIPS 2025; Continuum",
    ),
    _policy(
        "next-use",
        "no next use known first, then the farthest (Request.next_use)",
        source="inference-lab: outlook; AttentionStore: Gao et al., ATC 2024",
    ),
    _policy(
        "opt",
        "farthest next use first; may refuse an insertion",
        source="Belady, IBM Systems Journal 5(2), 1966",
        replay_only=True,
    ),
    _policy(
        "opt-forced",
        "farthest next use first; every block is inserted",
        source="Belady, IBM Systems Journal 5(2), 1966",
        replay_only=True,
    ),
    _policy(
        "belady-compute",
        "longest until its next use by recompute cost first",
        source="BeladyCompute: arXiv 2609.28870",
        replay_only=True,
    ),
    _policy(
        "infinite",
        "nothing is ever evicted: the bound of every policy",
        replay_only=True,
    ),
)


@hookimpl
def kvframe_eviction() -> tuple[EvictionPolicy, ...]:
    """The eviction policies that the core runs itself."""
    return BUILTIN
