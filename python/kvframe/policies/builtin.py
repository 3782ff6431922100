"""The built-in eviction policies: described here, run by the core.

They come through the same hook as every other policy. Each orders the blocks that the core says may
be evicted; that a leaf goes before its parent is the core's rule, not theirs.
"""

from __future__ import annotations

from kvframe.policies.builtin_options import (
    BeladyComputeOptions,
    GreedyDualOptions,
    LfuAgedOptions,
    LirsOptions,
    MarconiOptions,
    MqOptions,
    S3FifoOptions,
    SlruDecayOptions,
    SlruListsOptions,
    SlruOptions,
    TtlOptions,
    TwoQOptions,
    WlfuOptions,
    WTinyLfuOptions,
)
from kvframe.registry.descriptors import EvictionPolicy
from kvframe.registry.hookspecs import hookimpl

BUILTIN = (
    EvictionPolicy(
        name="lru",
        way="builtin",
        summary="least recently used first",
        source="vLLM, SGLang and TensorRT-LLM: their default",
    ),
    EvictionPolicy(
        name="fifo",
        way="builtin",
        summary="first inserted first",
        source="LMCache, FlexKV",
    ),
    EvictionPolicy(
        name="lfu",
        way="builtin",
        summary="fewest uses first, then least recently used",
        source="SGLang",
    ),
    EvictionPolicy(
        name="lfuda",
        way="builtin",
        summary="fewest uses first, aged by the score of the last victim",
        source="Arlitt et al., Performance Evaluation Review 27(4), 2000",
    ),
    EvictionPolicy(
        name="slru",
        way="builtin",
        summary="blocks below protected_uses uses first, then least recently used",
        source="SGLang",
        options=SlruOptions,
    ),
    EvictionPolicy(
        name="foresight",
        way="builtin",
        summary="worth least by the time it takes up first, measured by class of reuse",
        source="kvframe; KVCache in the Wild, ATC 2025; LHD, NSDI 2018; Gittins, 1979",
    ),
    EvictionPolicy(
        name="mru",
        way="builtin",
        summary="most recently used first",
        source="LMCache, FlexKV",
    ),
    EvictionPolicy(
        name="filo",
        way="builtin",
        summary="last inserted first",
        source="SGLang, FlexKV",
    ),
    EvictionPolicy(
        name="lfu-aged",
        way="builtin",
        summary="fewest uses first, each use fading by half_life_ticks",
        source="LRFU: Lee et al., IEEE Transactions on Computers 50(12), 2001",
        options=LfuAgedOptions,
    ),
    EvictionPolicy(
        name="wlfu",
        way="builtin",
        summary="least recently used first, later by the logarithm of hits",
        source="SGLang #23781",
        options=WlfuOptions,
    ),
    EvictionPolicy(
        name="hpt",
        way="builtin",
        summary="fewest hits by tokens of the prefix first",
        source="SGLang #30300",
    ),
    EvictionPolicy(
        name="gdsf",
        way="builtin",
        summary="lowest uses times recompute cost first, aged by the last victim",
        source="Cherkasova, HPL-98-69, 1998",
        options=GreedyDualOptions,
    ),
    EvictionPolicy(
        name="cost",
        way="builtin",
        summary="lowest recompute cost first, aged by the last victim",
        source="GreedyDual: Young, Algorithmica 11, 1994",
        options=GreedyDualOptions,
    ),
    EvictionPolicy(
        name="priority",
        way="builtin",
        summary="lowest priority of any request first, then least recently used",
        source="SGLang; TensorRT-LLM",
    ),
    EvictionPolicy(
        name="longest-first",
        way="builtin",
        summary="deepest first, then least recently used",
        source="cbtop",
    ),
    EvictionPolicy(
        name="ttl",
        way="builtin",
        summary="first to expire first, by last use and a time for each class",
        source="inference-lab; Continuum",
        options=TtlOptions,
    ),
    EvictionPolicy(
        name="clock",
        way="builtin",
        summary="first in first, another round for what was used since",
        source="Corbató, 1968",
    ),
    EvictionPolicy(
        name="sieve",
        way="builtin",
        summary="a hand spares what was used since it came by",
        source="Zhang et al., NSDI 2024",
    ),
    EvictionPolicy(
        name="2q",
        way="builtin",
        summary="used once in a FIFO, back again in an LRU",
        source="Johnson and Shasha, VLDB 1994",
        options=TwoQOptions,
    ),
    EvictionPolicy(
        name="arc",
        way="builtin",
        summary="recency and frequency share by their ghosts' hits",
        source="Megiddo and Modha, FAST 2003",
    ),
    EvictionPolicy(
        name="mq",
        way="builtin",
        summary="a queue for each power of two of uses, idle blocks move down",
        source="Zhou, Philbin and Li, USENIX 2001",
        options=MqOptions,
    ),
    EvictionPolicy(
        name="s3-fifo",
        way="builtin",
        summary="a small FIFO filters what is used once",
        source="Yang et al., SOSP 2023",
        options=S3FifoOptions,
    ),
    EvictionPolicy(
        name="slru-lists",
        way="builtin",
        summary="a probationary LRU first, then a bounded protected one",
        source="Karedla, Love and Wherry, IEEE Computer 27(3), 1994",
        options=SlruListsOptions,
    ),
    EvictionPolicy(
        name="slru-decay",
        way="builtin",
        summary="as slru; bursts count once, and protection fades",
        source="SGLang #24075",
        options=SlruDecayOptions,
    ),
    EvictionPolicy(
        name="lirs",
        way="builtin",
        summary="longest time between two uses first",
        source="Jiang and Zhang, SIGMETRICS 2002",
        options=LirsOptions,
    ),
    EvictionPolicy(
        name="w-tinylfu",
        way="builtin",
        summary="a window, then what a sketch has seen asked for more often stays",
        source="Einziger, Friedman and Manes, ACM TOS 13(4), 2017",
        options=WTinyLfuOptions,
    ),
    EvictionPolicy(
        name="lecar",
        way="builtin",
        summary="least recently or least frequently used first, by lately smaller regret",
        source="Vietri et al., HotStorage 2018",
    ),
    EvictionPolicy(
        name="marconi",
        way="builtin",
        summary="lowest recency plus work saved first",
        source="Marconi: Pan et al., MLSys 2025",
        options=MarconiOptions,
    ),
    EvictionPolicy(
        name="workload",
        way="builtin",
        summary="least likely to be used again first, by request type, turn and idle time",
        source="KVCache in the Wild: Wang et al., ATC 2025",
    ),
    EvictionPolicy(
        name="session",
        way="builtin",
        summary="sessions least likely to go on first, by turns and silence",
        source="LPC, NeurIPS 2025; Continuum",
    ),
    EvictionPolicy(
        name="next-use",
        way="builtin",
        summary="no next use known first, then the farthest (Request.next_use)",
        source="inference-lab: outlook; AttentionStore: Gao et al., ATC 2024",
    ),
    EvictionPolicy(
        name="opt",
        way="builtin",
        summary="farthest next use first; may refuse an insertion",
        source="Belady, IBM Systems Journal 5(2), 1966",
        replay_only=True,
    ),
    EvictionPolicy(
        name="opt-forced",
        way="builtin",
        summary="farthest next use first; every block is inserted",
        source="Belady, IBM Systems Journal 5(2), 1966",
        replay_only=True,
    ),
    EvictionPolicy(
        name="belady-compute",
        way="builtin",
        summary="longest until its next use by recompute cost first",
        source="BeladyCompute: arXiv 2609.28870",
        options=BeladyComputeOptions,
        replay_only=True,
    ),
    EvictionPolicy(
        name="infinite",
        way="builtin",
        summary="nothing is ever evicted: the bound of every policy",
        replay_only=True,
    ),
)


@hookimpl
def kvframe_eviction() -> tuple[EvictionPolicy, ...]:
    """The eviction policies that the core runs itself."""
    return BUILTIN
