"""Numbers of an independent replay, written in plain Python for this purpose.

Each integer agrees with the PyPI package kvcache-simulator 0.1.3 wherever that one has the cell.
Rates are the same cells to four digits, where no integer was kept.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One policy over one trace: ``values`` go with ``capacities``."""

    trace: str
    mode: str
    policy: str
    capacities: tuple[int, ...]
    values: tuple[float, ...]


CONVERSATION = (1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000)
SYNTHETIC = (500, 1000, 2000, 4000, 8000, 16000, 32000)
AGENT = (2000, 4000, 8000, 16000, 32000)

TOTALS = {  # input tokens, those of the last half
    "conversation": (144_793_823, 67_915_607),
    "synthetic": (None, 36_552_394),
    "agent": (929_658_798, None),
}

ACCESSES = {  # block accesses in trace mode, in engine mode
    "conversation": (288_500, 276_491),
    "synthetic": (121_877, None),
    "agent": (1_811_981, None),
}

UNIQUE = {"conversation": 182_790, "synthetic": 43_924, "agent": 66_298}
REQUESTS = {"conversation": 12_031, "synthetic": 3_993, "agent": 7_529}

HIT_TOKENS = [
    Row(
        *("conversation", "trace", "lru", CONVERSATION),
        (6575459, 8016630, 12772896, 26284453, 38785539, 49016486, 53042667, 53930987),
    ),
    Row(
        *("conversation", "trace", "opt", CONVERSATION),
        (28153578, 37645705, 47590911, 54027755, 54098411, 54098411, 54098411, 54098411),
    ),
    Row(
        *("conversation", "engine", "lru", CONVERSATION),
        (6650880, 8163328, 13314560, 27354112, 39565824, 49793024, 53132800, 53973504),
    ),
    Row(
        *("conversation", "engine", "opt-forced", CONVERSATION),
        (26468352, 36817920, 47309312, 53965824, 54063104, 54063104, 54063104, 54063104),
    ),
    Row(
        *("agent", "engine", "lru", AGENT),
        (315028992, 576313856, 805191680, 886002176, 893769216),
    ),
    Row(
        *("agent", "engine", "opt", AGENT),
        (586980864, 755017216, 863302656, 893789696, 893789696),
    ),
    Row(
        *("agent", "engine", "lfu", AGENT),
        (150906880, 210875392, 293779456, 428077568, 656024064),
    ),
    Row(*("agent", "engine", "slru", (2000, 8000)), (289707008, 579055104)),
    Row(*("agent", "engine", "fifo", (2000, 8000)), (312366080, 805772288)),
]

TIMED = (6594048, 7675904, 13015040, 27072000, 39582720, 49802752, 53126144, 53905408)
"""Hit tokens of the conversation trace under lru, by the clock: 50,000 prompt tokens and 50 output
tokens a second and sequence.
"""

HIT_TOKENS_LAST_HALF = [
    Row(
        *("conversation", "trace", "lru", CONVERSATION[:7]),
        (3173822, 3814129, 5837031, 12515013, 18770545, 23913544, 26053492),
    ),
    Row(
        *("conversation", "trace", "opt", CONVERSATION[:7]),
        (13381287, 18054257, 23305276, 26967412, 27038068, 27038068, 27038068),
    ),
    Row(
        *("synthetic", "trace", "lru", SYNTHETIC),
        (2503767, 4755642, 8134569, 12902320, 19850941, 26495784, 30821769),
    ),
    Row(
        *("synthetic", "trace", "opt", SYNTHETIC),
        (9638408, 13311599, 18158527, 23739240, 28781378, 31535563, 31535563),
    ),
    Row(*("agent", "trace", "lru", (2000, 8000)), (260980736, 483214848)),
    Row(*("agent", "trace", "opt", (2000, 8000)), (381636608, 502181888)),
]

_LFU = (0.0490, 0.0608, 0.0874, 0.1197, 0.1822, 0.2901, 0.3633, 0.3723)

RATES = [
    Row(
        *("conversation", "trace", "lru", CONVERSATION),
        (0.0454, 0.0554, 0.0882, 0.1815, 0.2679, 0.3385, 0.3663, 0.3725),
    ),
    Row(
        *("conversation", "trace", "fifo", CONVERSATION),
        (0.0454, 0.0554, 0.0878, 0.1817, 0.2676, 0.3383, 0.3662, 0.3725),
    ),
    Row("conversation", "trace", "lfu", CONVERSATION, _LFU),
    Row("conversation", "trace", "slru", CONVERSATION, _LFU),
    Row(
        *("conversation", "trace", "opt-forced", CONVERSATION),
        (0.1827, 0.2543, 0.3268, 0.3729, 0.3736, 0.3736, 0.3736, 0.3736),
    ),
    Row(
        *("conversation", "trace", "opt", CONVERSATION),
        (0.1944, 0.2600, 0.3287, 0.3731, 0.3736, 0.3736, 0.3736, 0.3736),
    ),
    Row(
        *("conversation", "engine", "lru", CONVERSATION),
        (0.0459, 0.0564, 0.0920, 0.1889, 0.2733, 0.3439, 0.3670, 0.3728),
    ),
    Row(
        *("conversation", "engine", "lfuda", (2000, 4000, 8000, 16000, 32000)),
        (0.0593, 0.0982, 0.2001, 0.2837, 0.3397),
    ),
    Row(
        *("conversation", "engine", "opt-forced", CONVERSATION),
        (0.1828, 0.2543, 0.3267, 0.3727, 0.3734, 0.3734, 0.3734, 0.3734),
    ),
    Row(
        *("conversation", "engine", "opt", CONVERSATION),
        (0.1944, 0.2599, 0.3285, 0.3729, 0.3734, 0.3734, 0.3734, 0.3734),
    ),
    Row(
        *("synthetic", "trace", "lru", SYNTHETIC),
        (0.0460, 0.0857, 0.1492, 0.2389, 0.3802, 0.5396, 0.6396),
    ),
    Row(
        *("synthetic", "trace", "lfu", SYNTHETIC),
        (0.0388, 0.0511, 0.1152, 0.1726, 0.3133, 0.5548, 0.6407),
    ),
    Row(
        *("synthetic", "trace", "opt", SYNTHETIC),
        (0.2029, 0.2819, 0.3866, 0.5025, 0.6062, 0.6512, 0.6512),
    ),
    Row(
        *("synthetic", "engine", "lru", SYNTHETIC),
        (0.0473, 0.0868, 0.1527, 0.2528, 0.3883, 0.5471, 0.6446),
    ),
    Row(
        *("synthetic", "engine", "lfuda", SYNTHETIC),
        (0.0474, 0.0887, 0.1542, 0.2428, 0.3940, 0.5582, 0.6452),
    ),
    Row(*("agent", "engine", "lru", AGENT), (0.3389, 0.6199, 0.8661, 0.9530, 0.9614)),
    Row(*("agent", "engine", "fifo", AGENT), (0.3360, 0.6193, 0.8667, 0.9532, 0.9614)),
    Row(*("agent", "engine", "lfu", AGENT), (0.1623, 0.2268, 0.3160, 0.4605, 0.7057)),
    Row(*("agent", "engine", "opt", AGENT), (0.6314, 0.8121, 0.9286, 0.9614, 0.9614)),
    Row(*("agent", "engine", "opt-forced", AGENT), (0.5818, 0.8013, 0.9283, 0.9614, 0.9614)),
    Row(*("agent", "trace", "lfuda", (2000, 8000)), (0.3211, 0.7664)),
]

INFINITE = {  # rate over the whole trace, rate of the last half
    ("conversation", "trace"): (0.3736, 0.3981),
    ("conversation", "engine"): (0.3734, None),
    ("synthetic", "trace"): (0.6512, 0.8627),
    ("synthetic", "engine"): (0.6504, None),
    ("agent", "trace"): (0.9614, 0.9699),
    ("agent", "engine"): (0.9614, None),
}
