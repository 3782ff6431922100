"""Figures that others published of the shipped traces, beside kvframe's.

``python -m perf.published`` writes `docs/reference/published.md`; ``--check`` says whether the page
is as it would be written.
"""

from __future__ import annotations

import argparse
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kvframe.bench.cells import Plan
from kvframe.bench.policies import choose
from kvframe.bench.run import measure
from kvframe.bench.traces import Source, load
from kvframe.registry import Registry
from kvframe.traces.info import Info, info
from kvframe.traces.source import ReadOptions

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "published.md"
BLOCK = 512

HEAD = """\
# Published figures

Figures that others published of traces that ship with kvframe, beside what kvframe says of the
same traces. *Equal* means equal in every digit that was published. `python -m perf.published` in a
checkout writes this page, and `tests/perf/test_published.py` tests it.
"""

_ELSEWHERE = (
    (
        "Mooncake, arXiv 2407.00079, table 1: LRU, LFU and LengthAware over 23,608 requests",
        "another trace, which does not ship; on the released one "
        "[no denominator](https://github.com/kvcache-ai/Mooncake/issues/4020) was found that gives "
        "0.51 without a limit",
    ),
    (
        "Mooncake, FAST'25: Tool&Agent, and section 5.3's stores",
        "the trace does not ship; the engine is not public",
    ),
    (
        "When Fancy Eviction Fails, arXiv 2609.28870: 39 policies on FreeInference and Chutes",
        "the traces do not ship",
    ),
    (
        "KVCache in the Wild, ATC'25: 62 % and 54 % ideal hits of Qwen-Bailian's traffic",
        "the traces do not ship; `kvframe trace info` reads them",
    ),
    (
        "Marconi, T-LRU, KVFlow, Continuum, LPC, SAECache",
        "real engines, or data sets as text that do not ship",
    ),
    (
        "SGLang's and vLLM's own figures of policies",
        "real engines",
    ),
    (
        "llm-d, Dynamo, AIPerf: times and goodput on this trace",
        "real clusters",
    ),
)
"""What others published that cannot be had here, and why."""

TAIL = "\n".join(
    [
        "## Not reproducible here\n",
        "| what | why |\n| --- | --- |",
        *(f"| {what} | {why} |" for what, why in _ELSEWHERE),
        "",
    ]
)


@dataclass(frozen=True)
class Figure:
    """One published figure, and ours in the same digits; ``why`` where they differ."""

    what: str
    theirs: str
    ours: str
    why: str = ""

    @property
    def equal(self) -> bool:
        return self.theirs == self.ours


@dataclass(frozen=True)
class Published:
    """A table of one source."""

    title: str
    url: str
    about: str
    figures: Sequence[Figure]


@cache
def source(name: str) -> Source:
    """A shipped trace."""
    return load(name)


@cache
def facts(name: str) -> Info:
    """Its figures, whole prompts and partial blocks counted."""
    return info(name, ReadOptions(), "trace")


@cache
def lru(name: str, blocks: int | None) -> tuple[float, float]:
    """The token hit rate of lru of the whole trace, and of its last half."""
    policy = choose("lru" if blocks is not None else "infinite", Registry())
    cell = measure(Plan(source(name), policy, "trace", blocks)).cell
    return cell.token_hit_rate, cell.hit_tokens_last_half / cell.input_tokens_last_half


def single_blocks(trace: Source, blocks: int | None, first: int) -> float:
    """The hit rate of the requests from ``first`` on under a simulator of single blocks.

    Every block is its own: one that others follow may be evicted, one behind a missing block is a
    hit, and a last block that is partial counts as a whole one.
    """
    kept: OrderedDict[int, None] = OrderedDict()
    hits = tokens = 0
    for at in range(trace.trace.requests):
        _, length, _, _, nodes = trace.trace.request(at)
        tokens += length if at >= first else 0
        for node in nodes:
            if node in kept:
                kept.move_to_end(node)
                hits += BLOCK if at >= first else 0
            else:
                kept[node] = None
                if blocks is not None and len(kept) > blocks:
                    kept.popitem(last=False)
    return hits / tokens


def uses(name: str) -> Counter[int]:
    """How many requests have each block."""
    trace = source(name).trace
    return Counter(node for at in range(trace.requests) for node in trace.request(at)[4])


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent."""
    return f"{100 * share:.{digits}f} %"


def dynamo() -> Published:
    """What Dynamo's recipe says of the conversation trace."""
    found, counts = facts("conversation"), uses("conversation")
    inputs = source("conversation").facts.input_tokens
    repeats, again = counts.total() - len(counts), sum(many > 1 for many in counts.values())
    rows = [
        ("requests", "12,031", f"{found.requests:,}"),
        ("requests a second", "3.4", f"{found.requests / found.span_seconds:.1f}"),
        ("prompt tokens a second", "40,937", f"{found.input_tokens / found.span_seconds:,.0f}"),
        ("prompt tokens, mean", "12,035", f"{found.input_length.mean:,.0f}"),
        ("shortest prompt", "891", f"{inputs.min():,}"),
        ("longest prompt", "126,195", f"{inputs.max():,}"),
        ("answer tokens, mean", "343", f"{found.output_length.mean:,.0f}"),
        ("distinct blocks", "182,790", f"{len(counts):,}"),
        ("of them in more than one request", "44,144", f"{again:,}"),
        ("the same as a share", "24.2 %", percent(again / len(counts))),
        ("block references", "288,500", f"{counts.total():,}"),
        ("of them repeats", "105,710", f"{repeats:,}"),
        ("the same as a share", "36.64 %", percent(repeats / counts.total(), 2)),
    ]
    return Published(
        "NVIDIA Dynamo: Qwen3-32B recipe",
        "https://github.com/ai-dynamo/dynamo/blob/main/recipes/qwen3-32b/README.md",
        "`conversation`; a share of blocks, not of tokens.",
        [Figure(*row) for row in rows],
    )


def isolation() -> Published:
    """What isolation-tax says of it."""
    counts = uses("conversation")
    repeats = counts.total() - len(counts)
    requests = facts("conversation").requests
    shared = sum(many - 1 for many in counts.values() if many == requests)
    rows = [
        ("blocks read", "288,500", f"{counts.total():,}"),
        ("cache hits", "105,710", f"{repeats:,}"),
        ("the same as a share", "36.6 %", percent(repeats / counts.total())),
        ("of the block that all requests share", "12,030", f"{shared:,}"),
        ("of others", "93,680", f"{repeats - shared:,}"),
    ]
    return Published(
        "isolation-tax 0.1.0: `measure`",
        "https://github.com/nickharris808/isolation-tax",
        "`conversation`; a cache without a limit, shares of blocks. What tenants lose by\n"
        "isolation is its own estimate, and has no counterpart here.",
        [Figure(*row) for row in rows],
    )


THEIR_RULES = "see the next row"


def lens(published: Sequence[str], first: int, half: bool) -> Iterator[Figure]:
    """The curve of llmtrafficlens: as kvframe counts, and by its own rules."""
    trace = source("conversation")
    for tokens, theirs in zip((16, 64, 256, 1_024, 4_096, 16_384, None), published, strict=True):
        blocks = None if tokens is None else tokens * 1_024 // BLOCK
        size = "no limit" if tokens is None else f"{blocks:,} blocks ({tokens:,} Ki tokens)"
        yield Figure(
            f"lru, {size}", theirs, percent(lru("conversation", blocks)[half]), THEIR_RULES
        )
        again = percent(single_blocks(trace, blocks, first))
        yield Figure(f"lru, {size}, by its rules", theirs, again)


def lens_half() -> Published:
    """Its present page: the last half of the requests."""
    figures = ("3.6 %", "4.5 %", "4.5 %", "5.6 %", "18.8 %", "35.6 %", "39.8 %")
    first = facts("conversation").requests // 2
    return Published(
        "llmtrafficlens 0.13: the page on PyPI",
        "https://pypi.org/project/llmtrafficlens/",
        "`conversation`, the last half of the requests, a share of tokens. Its cache is one of\n"
        "single blocks: the first block of a prompt may be evicted before those behind it, blocks\n"
        "behind a missing one are hits, and a partial last block counts as 512 tokens. Rows *by\n"
        "its rules* are counted so, in a dozen lines of `perf/published.py`. `python -m\n"
        "perf.lens` runs it beside `kvframe trace info`.",
        list(lens(figures, first, half=True)),
    )


def lens_whole() -> Published:
    """An older one: the whole trace."""
    figures = ("3.3 %", "4.2 %", "4.3 %", "5.6 %", "18.5 %", "34.2 %", "37.4 %")
    return Published(
        "llmtrafficlens 0.6: the page on PyPI",
        "https://pypi.org/project/llmtrafficlens/0.6.2/",
        "`conversation`, all requests from a cold cache; otherwise as above.",
        list(lens(figures, 0, half=False)),
    )


def mooncake() -> Published:
    """FAST'25, table 2."""
    why = (
        "no denominator tried gives both: of blocks 36.6 and 64.0 %, mean of requests 40.9 and "
        "43.2 %"
    )
    rows = []
    for name, theirs in (
        ("conversation", ("12,031", "40 %")),
        ("synthetic", ("3,993", "66 %")),
    ):
        found = facts(name)
        ours = f"{found.requests:,}", percent(found.ceiling, 0)
        whats = ("requests", "cache ratio")
        rows += [
            Figure(f"{name}: {what}", one, other, why)
            for what, one, other in zip(whats, theirs, ours, strict=True)
        ]
    return Published(
        "Mooncake, FAST'25: table 2",
        "https://www.usenix.org/system/files/fast25-qin.pdf",
        "`conversation` and `synthetic`; ours is the share of tokens that a cache without a limit\n"
        "has.",
        rows,
    )


def tables() -> list[Published]:
    """Every published table."""
    return [dynamo(), lens_half(), lens_whole(), isolation(), mooncake()]


def page() -> str:
    """The page."""
    parts = [HEAD]
    for one in tables():
        equal = sum(figure.equal for figure in one.figures)
        parts.append(f"## {one.title}\n\n[Published here]({one.url}).\n{one.about}\n")
        parts.append("| figure | published | kvframe | |\n| --- | --- | --- | --- |")
        for figure in one.figures:
            told = "equal" if figure.equal else figure.why
            parts.append(f"| {figure.what} | {figure.theirs} | {figure.ours} | {told} |")
        parts.append(f"\n{equal} of {len(one.figures)} equal.\n")
    return "\n".join([*parts, TAIL])


def main() -> None:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        raise SystemExit(0 if PAGE.read_text() == page() else f"{PAGE}: python -m perf.published")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
