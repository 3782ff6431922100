"""What can be asked about a sequence."""

from __future__ import annotations

from .model import need
from .oracle import Oracle
from .sequence import Seq

Spans = list[tuple[int, int]]


def readable(o: Oracle, s: Seq) -> int:
    """Computed tokens before the first that somebody else still brings or computes."""
    waits = [
        row * kind.span
        for kind, table in zip(o.kinds, s.tables, strict=True)
        for row, block in enumerate(table)
        if not kind.cross and o.loading(s, [block])
    ]
    return min([s.committed, *waits])


def computed(o: Oracle, s: Seq, group: int) -> int:
    """Tokens that a group may be read up to."""
    kind = o.kinds[group]
    if kind.cross:
        return s.ask.encoder_tokens if s.has_encoder else 0
    return kind.computed(readable(o, s), s.cached)


def pages(o: Oracle, seq: int, start: int, stop: int, group: int) -> tuple[list[int], int, int]:
    """Blocks, tokens of the first before the range, and valid ones of the last."""
    s = o.live(seq)
    need(group < len(o.kinds))
    need(start <= stop <= computed(o, s, group))
    if start == stop:
        return [], 0, 0
    span = o.kinds[group].span
    blocks = s.tables[group][start // span : -(-stop // span)]
    need(None not in blocks)
    return [b for b in blocks if b is not None], start % span, (stop - 1) % span + 1


def unkeyed(o: Oracle, s: Seq) -> list[list[int]]:
    """The blocks that nobody finds, in each group."""
    return [[b for b in table if b is not None and not o.is_found(b)] for table in s.tables]


def sight(o: Oracle, s: Seq, group: int) -> tuple[Spans, Spans, int]:
    """What the next token attends to; what is there and must be masked; blocks there."""
    kind, table = o.kinds[group], s.tables[group]
    if kind.cross:
        at = s.ask.encoder_tokens
        return spans(list(range(at))), [], len(table)
    at = kind.computed(s.committed, s.cached)
    sees = set(kind.sees(at))
    kept = [t for t in range(at) if t // kind.span < len(table)]
    hidden = [t for t in kept if table[t // kind.span] is not None and t not in sees]
    return spans(sorted(sees)), spans(hidden), len(table) - table.count(None)


def spans(tokens: list[int]) -> Spans:
    """Numbers in a row as one (start, end)."""
    out: Spans = []
    for token in tokens:
        if out and out[-1][1] == token:
            out[-1] = (out[-1][0], token + 1)
        else:
            out.append((token, token + 1))
    return out
