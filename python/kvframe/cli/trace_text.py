"""The figures of `kvframe trace info` for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.traces.info import ENOUGH, Info, Spread

_HITS = {
    "engine": "full blocks, the last token of each prompt computed",
    "trace": "every block, whole prompts too",
}


def shown(info: Info, token_bytes: int | None) -> Iterator[str]:
    """Lines; sizes in GiB where a token's KV has ``token_bytes``."""
    room = _Room(info.block_size, token_bytes)
    yield f"{info.name}: {info.form}, blocks of {info.block_size} tokens"
    yield ""
    yield from aligned(_totals(info, room))
    yield ""
    yield f"A cache without a limit hits {info.ceiling:.4f} of the prompt tokens ({_what(info)})."
    if info.ceiling_hit_tokens:
        late = info.ceiling_hit_tokens_last_half / max(info.input_tokens_last_half, 1)
        yield f"In the last half of the requests, {late:.4f}."
        own = info.same_session_tokens / info.ceiling_hit_tokens
        if info.sessions:
            yield f"Of that, {own:.0%} was used last by the same session."
        shares = {f"{share:.0%}": age for age, share in reversed(info.ages)}
        within = ", ".join(
            f"{share} within {_time(min(age, info.span_seconds))}"
            for share, age in reversed(shares.items())
        )
        yield f"Reused tokens come again: {within}."
        yield ""
        yield from aligned(_filled(_curve(info, room)))
        yield (
            f"Policies no longer matter from {room(info.enough_blocks)} on: there lru has "
            f"{ENOUGH:.0%} of what can hit; all of it from {room(info.all_blocks)} on."
        )
        yield ""
        yield from _prefixes(info)
    if len(info.classes) > 1 or (info.classes and info.classes[0].name):
        yield ""
        yield from aligned(_classes(info))


class _Room:
    """Formats a number of blocks, with their size in bytes if that is known."""

    def __init__(self, block_size: int, token_bytes: int | None) -> None:
        self._bytes = None if token_bytes is None else block_size * token_bytes

    def __call__(self, blocks: int) -> str:
        text = f"{blocks:,} blocks"
        return text if self._bytes is None else f"{text} ({self.gib(blocks)})"

    def gib(self, blocks: int) -> str:
        """The bytes in GiB; nothing where they are not known."""
        return "" if self._bytes is None else f"{blocks * self._bytes / 2**30:,.2f} GiB"


def _filled(table: Table) -> Table:
    """The table without its empty columns."""
    kept = [at for at in range(len(table.header)) if any(row[at] for row in table.rows)]
    filled = Table(table.title, [table.header[at] for at in kept])
    filled.rows += [[row[at] for at in kept] for row in table.rows]
    return filled


def _what(info: Info) -> str:
    return _HITS[info.mode]


def _totals(info: Info, room: _Room) -> Table:
    table = Table("", ["", "total", "mean", "p50", "p90", "p95", "p99", "most"])
    a_second = f"{info.requests / info.span_seconds:.3g}/s" if info.span_seconds else ""
    span = [f"in {_time(info.span_seconds)}", a_second]
    rest = [""] * 4
    table.rows.append(["requests", f"{info.requests:,}", *span, *rest])
    prompt, answer = info.input_length, info.output_length
    table.rows.append(["prompt tokens", f"{info.input_tokens:,}", *_spread(prompt)])
    table.rows.append(["answer tokens", f"{info.output_tokens:,}", *_spread(answer)])
    if info.per_session is not None and info.top_sessions is not None:
        top = f"{info.top_sessions:.0%}"
        table.rows.append(["sessions", f"{info.sessions:,}", "", "", *rest])
        table.rows.append(["  requests each", f"{info.in_sessions:,}", *_spread(info.per_session)])
        table.rows.append(["  tokens of the largest tenth", top, "", "", *rest])
    table.rows.append(["block accesses", f"{info.block_accesses:,}", "", "", *rest])
    size = room.gib(info.unique_blocks)
    working = ["working set, blocks", f"{info.unique_blocks:,}", size, "", *rest]
    table.rows.append(working)
    return table


def _spread(values: Spread) -> list[str]:
    shown = (values.mean, values.p50, values.p90, values.p95, values.p99, values.most)
    return [f"{value:,.0f}" for value in shown]


def _curve(info: Info, room: _Room) -> Table:
    header = ["lru with blocks", "GiB", "of the working set", "token hit", "of the ceiling"]
    header.append("last half")
    table = Table("", header)
    for point in info.lru:
        if point.blocks < info.longest_prompt:
            continue
        rate = point.hit_tokens / max(info.input_tokens, 1)
        cells = [f"{point.blocks:,}", room.gib(point.blocks).removesuffix(" GiB")]
        cells += [f"{point.blocks / max(info.unique_blocks, 1):.0%}", f"{rate:.4f}"]
        cells.append(f"{point.hit_tokens / max(info.ceiling_hit_tokens, 1):.0%}")
        cells.append(f"{point.hit_tokens_last_half / max(info.input_tokens_last_half, 1):.4f}")
        table.rows.append(cells)
    return table


def _prefixes(info: Info) -> Iterator[str]:
    if info.prefixes_by_tokens is None or info.prefixes_by_requests is None:
        yield "Shared prefixes are not listed: there are more than 2^24 distinct blocks."
        return
    table = Table("", ["shared prefix, tokens", "requests", "tokens saved", "of all that can hit"])
    found = dict.fromkeys([*info.prefixes_by_tokens[:3], *info.prefixes_by_requests[:2]])
    for one in found:
        share = one.reuse_tokens / max(info.ceiling_hit_tokens, 1)
        cells = [f"{one.tokens:,}", f"{one.requests:,}", f"{one.reuse_tokens:,}", f"{share:.1%}"]
        table.rows.append(cells)
    yield from aligned(table)


def _classes(info: Info) -> Table:
    table = Table("", ["class", "requests", "prompt tokens", "can hit", "of all that can"])
    for one in sorted(info.classes, key=lambda one: -one.input_tokens):
        rate = one.hit_tokens / max(one.input_tokens, 1)
        share = one.hit_tokens / max(info.ceiling_hit_tokens, 1)
        cells = [one.name or "(none)", f"{one.requests:,}", f"{one.input_tokens:,}"]
        table.rows.append([*cells, f"{rate:.4f}", f"{share:.0%}"])
    return table


def _time(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.3g} s"
