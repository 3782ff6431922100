"""The forms that kvframe reads, in the order in which a file is tried against them."""

from __future__ import annotations

from collections.abc import Sequence

from kvframe.traces.forms.agents import Copilot, FreeInference, Steps, Weka
from kvframe.traces.forms.chat import Conversations, Gateway, OpenAI, Prompts
from kvframe.traces.forms.engines import Dynamo, KVEvents, LMCacheHashes, LMCacheLog, TokenIds
from kvframe.traces.forms.hashes import AIPerf, Bailian, Mooncake
from kvframe.traces.forms.lengths import Azure, BurstGPT, Lengths
from kvframe.traces.forms.objects import (
    LCP,
    LCSLLM,
    Compact,
    FlatCsv,
    Log,
    OracleGeneral,
    Recording,
)
from kvframe.traces.reader import TraceReader

FORMS: Sequence[TraceReader] = (
    Compact(),
    Log(),
    Recording(),
    LCSLLM(),
    LCP(),
    OracleGeneral(),
    Dynamo(),
    LMCacheHashes(),
    LMCacheLog(),
    KVEvents(),
    Bailian(),
    AIPerf(),
    Mooncake(),
    FreeInference(),
    Weka(),
    Steps(),
    Copilot(),
    TokenIds(),
    Gateway(),
    Conversations(),
    OpenAI(),
    Prompts(),
    Azure(),
    BurstGPT(),
    Lengths(),
    FlatCsv(),
)
"""Every built-in reader; the first that recognises a file reads it."""
