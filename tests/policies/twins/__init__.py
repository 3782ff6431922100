"""A plain twin of every built-in policy: what the books say, sorted and counted anew each time."""

from __future__ import annotations

from . import draws, foresight, keys, lecar, lists, returns, tinylfu
from .base import Block, Twin, Use

__all__ = ["TWINS", "Block", "Twin", "Use"]

TWINS: dict[str, type[Twin]] = {
    "lru": keys.Lru,
    "fifo": keys.Fifo,
    "lfu": keys.Lfu,
    "lfuda": keys.Lfuda,
    "slru": keys.Slru,
    "foresight": foresight.Foresight,
    "mru": keys.Mru,
    "filo": keys.Filo,
    "lfu-aged": keys.LfuAged,
    "wlfu": keys.Wlfu,
    "hpt": keys.Hpt,
    "gdsf": keys.Gdsf,
    "cost": keys.Cost,
    "priority": keys.Priority,
    "longest-first": keys.LongestFirst,
    "ttl": keys.Ttl,
    "clock": lists.Clock,
    "sieve": lists.Sieve,
    "2q": lists.TwoQ,
    "arc": lists.Arc,
    "mq": lists.Mq,
    "s3-fifo": lists.S3Fifo,
    "slru-lists": lists.SlruLists,
    "slru-decay": keys.SlruDecay,
    "lirs": lists.Lirs,
    "w-tinylfu": tinylfu.WTinyLfu,
    "lecar": lecar.Lecar,
    "random-compute": draws.RandomCompute,
    "random-quick-demotion": draws.RandomQuickDemotion,
    "partial-node-random-compute": draws.PartialNodeRandomCompute,
    "asymcache": draws.AsymCache,
    "rr-evict": draws.RrEvict,
    "marconi": keys.Marconi,
    "workload": returns.Workload,
    "session": returns.Session,
    "next-use": keys.NextUse,
    "opt": keys.Opt,
    "opt-forced": keys.Opt,
    "belady-compute": keys.BeladyCompute,
    "infinite": keys.Lru,
}
