"""A scrape as a page of text: what the cache holds, what it finds, and who holds what."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvframe.errors import UsageError

try:
    from prometheus_client.parser import text_string_to_metric_families
    from rich.console import Console as Console
    from rich.console import Group, RenderableType
    from rich.live import Live as Live  # the command takes both from here, message and all
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise ImportError(
        "kvframe top needs prometheus_client and rich: pip install 'kvframe[top]'", name=error.name
    ) from error

PAGE_BYTES = 16 << 20
"""The largest page of metrics."""

ANSWER_S = 5.0
"""Seconds that a page may take."""

_LEVELS = ("normal", "high", "critical")
_STYLES = ("green", "yellow", "red")

Labels = frozenset[tuple[str, str]]


class Scrape(NamedTuple):
    """The samples of one engine at one time.

    Attributes:
        at: Seconds, by any clock that does not go back.
        samples: By name and labels, ``engine`` left out.
    """

    at: float
    samples: Mapping[tuple[str, Labels], float]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels, 0 if there are none."""
        wanted = labels.items()
        return sum(
            value
            for (found, own), value in self.samples.items()
            if found == f"kvframe_{name}" and wanted <= own
        )

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The samples of a family by the values of some of its labels, summed."""
        found: dict[tuple[str, ...], float] = {}
        for (family, own), value in self.samples.items():
            if family == f"kvframe_{name}":
                given = dict(own)
                key = tuple(given.get(label, "") for label in labels)
                found[key] = found.get(key, 0) + value
        return found


def scraped(text: str, engine: str | None, at: float) -> Scrape:
    """Read a page of metrics.

    Args:
        text: The page.
        engine: Whose samples; None for the only one there is.
        at: When it was read.

    Raises:
        UsageError: The text is no page of metrics; it has no such engine; or it has several engines
            and ``engine`` is None.
    """
    try:
        families = [
            family
            for family in text_string_to_metric_families(text)
            if family.name.startswith("kvframe_")
        ]
    except (ValueError, KeyError, IndexError) as error:
        raise UsageError(f"a page that is none of metrics: {error}") from None
    samples = [sample for family in families for sample in family.samples]
    engines = sorted({sample.labels.get("engine", "") for sample in samples})
    if engine is None and len(engines) > 1:
        raise UsageError(f"engines {', '.join(engines)}: name one with --engine")
    if not engines or engine not in (None, *engines):
        told = ", ".join(engines) or "none"
        raise UsageError(f"no metrics of kvframe for engine {engine or '-'}; there: {told}")
    own = engines[0] if engine is None else engine
    return Scrape(
        at,
        {
            (sample.name, frozenset(sample.labels.items() - {("engine", own)})): sample.value
            for sample in samples
            if sample.labels.get("engine") == own
        },
    )


def fetched(url: str) -> str:
    """A page of metrics over HTTP.

    Raises:
        UsageError: It cannot be had, or is too large.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"url = {url!r}: must start with http:// or https://")
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            data: bytes = answer.read(PAGE_BYTES + 1)
    except (OSError, urllib.error.URLError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        if isinstance(why, ConnectionRefusedError):
            why = "nothing serves metrics there; an engine does after kvframe.metrics.serve(kv)"
        raise UsageError(f"{url}: {why}") from None
    if len(data) > PAGE_BYTES:
        raise UsageError(f"{url}: more than {PAGE_BYTES} bytes")
    return data.decode(errors="replace")


def page(now: Scrape, before: Scrape | None = None) -> RenderableType:
    """The page of a scrape. Its rates are those since the scrape before, or since the start."""
    parts: list[RenderableType] = [_head(now), _usage(now), _hits(now, before)]
    parts += [
        table
        for table in (
            _held(now),
            _tenants(now),
            _ends(now),
            _tiers(now),
            _tenants_in_tiers(now),
            _shadows(now),
        )
        if table.row_count
    ]
    return Group(*parts)


def _head(now: Scrape) -> Text:
    told = next((dict(own) for name, own in now.samples if name == "kvframe_info"), {})
    level = min(max(int(now.value("pressure_level")), 0), 2)
    policies = f"eviction {told.get('eviction', '?')}, admission {told.get('admission', '?')}"
    runs = f"kvframe {told.get('version', '?')}  {policies}, index {told.get('index', '?')}"
    text = _text(runs)
    text.append("  pressure ")
    text.append(_LEVELS[level], style=_STYLES[level])
    failed = now.value("policy_failures_total")
    if failed:
        text.append(f"  {failed:.0f} decisions of policies failed", style="red")
    return text


def _usage(now: Scrape) -> Table:
    blocks = {state: value for (state,), value in now.by("blocks", "state").items()}
    total = sum(blocks.values())
    share = now.value("cache_usage_ratio")
    states = ", ".join(f"{value:,.0f} {state}" for state, value in blocks.items())
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=1.0, completed=share, width=20)
    grid.add_row(f"in use {share:.1%}", bar, f"of {total:,.0f} blocks: {states}")
    return grid


def _hits(now: Scrape, before: Scrape | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "tokens", "found", "hit rate", "requests", "refused", "evicted"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_row("since the start", *_row(now, None))
    if before is not None:
        table.add_row("per second", *_row(now, before))
    return table


def _row(now: Scrape, before: Scrape | None) -> Iterable[str]:
    def grown(name: str, **labels: str) -> float:
        past = 0.0 if before is None else before.value(name, **labels)
        return now.value(name, **labels) - past

    seconds = 1.0 if before is None else max(now.at - before.at, 1e-9)
    asked = grown("prefix_cache_query_tokens_total", request="new")
    found = grown("prefix_cache_hit_tokens_total", request="new")
    yield _number(asked / seconds)
    yield _number(found / seconds)
    yield f"{found / asked:.1%}" if asked > 0 else "-"
    yield _number(grown("requests_total", outcome="allocated") / seconds)
    yield _number(grown("requests_total", outcome="refused") / seconds)
    yield _number(grown("evictions_total") / seconds)


def _held(now: Scrape) -> Table:
    table = Table(title="who holds what", title_justify="left", box=None, padding=(0, 2))
    for name in ("holder", "holds"):
        table.add_column(name, header_style="dim")
    sequences = now.value("sequences")
    if sequences:
        held = now.value("blocks", state="referenced")
        table.add_row("all owners", f"{held:,.0f} blocks, {sequences:,.0f} live sequences")
    owners = now.by("pinned_blocks", "owner")
    for (owner,), blocks in sorted(owners.items(), key=lambda item: -item[1])[:8]:
        pins = now.value("pins", owner=owner)
        table.add_row(
            _text(f"pins of {owner or '(no owner)'}"), f"{blocks:,.0f} blocks, {pins:,.0f} pins"
        )
    for kind, open_ in now.by("tickets", "kind").items():
        if open_:
            blocks = now.value("ticket_blocks", kind=kind[0])
            oldest = now.value("oldest_ticket", kind=kind[0])
            told = f"{blocks:,.0f} blocks, {open_:,.0f} tickets, the oldest is {oldest:.0f}"
            table.add_row(_text(f"unsettled: {kind[0]}"), told)
    return table


def _tenants(now: Scrape) -> Table:
    table = Table(title="tenants", title_justify="left", box=None, padding=(0, 2))
    for name in ("tenant", "referenced", "cached", "floor", "hit rate", "lost to others"):
        table.add_column(name, header_style="dim", justify="left" if name == "tenant" else "right")
    for tenant, floor in now.by("tenant_floor_blocks", "tenant").items():
        of = {"tenant": tenant[0]}
        states = [now.value("tenant_blocks", state=s, **of) for s in ("referenced", "cached")]
        asked = now.value("tenant_query_tokens_total", **of)
        rate = f"{now.value('tenant_hit_tokens_total', **of) / asked:.1%}" if asked else "-"
        lost = now.value("tenant_evictions_total", sake="others", **of)
        cells = *map(_number, (*states, floor)), rate, _number(lost)
        table.add_row(_text(tenant[0]), *cells)
    return table


def _ends(now: Scrape) -> Table:
    table = Table(title="why prefixes end", title_justify="left", box=None, padding=(0, 2))
    for name in ("reason", "requests", "tokens not found"):
        table.add_column(name, header_style="dim", justify="left" if name == "reason" else "right")
    counts = {
        reason: value for (reason,), value in now.by("prefix_ends_total", "reason").items() if value
    }
    for reason, count in sorted(counts.items(), key=lambda item: -item[1])[:6]:
        tokens = now.value("prefix_missed_tokens_total", reason=reason)
        table.add_row(_text(reason), _number(count), _number(tokens))
    return table


def _tiers(now: Scrape) -> Table:
    table = Table(title="tiers", title_justify="left", box=None, padding=(0, 2))
    for name in ("tier", "free", "cached", "owned", "moving", "stored", "loaded", "failed"):
        table.add_column(name, header_style="dim", justify="left" if name == "tier" else "right")
    pages = now.by("tier_pages", "tier", "state")
    for tier in sorted({tier for tier, _ in pages}):
        states = (pages.get((tier, state), 0) for state in ("free", "cached", "owned", "moving"))
        moved = (
            now.value("tier_transfers_total", tier=tier, **labels)
            for labels in (
                {"direction": "store", "outcome": "done"},
                {"direction": "load", "outcome": "done"},
                {"outcome": "failed"},
            )
        )
        table.add_row(_text(tier), *map(_number, states), *map(_number, moved))
    return table


def _tenants_in_tiers(now: Scrape) -> Table:
    table = Table(title="tenants in tiers", title_justify="left", box=None, padding=(0, 2))
    for name in ("tier", "tenant", "owned", "cached", "floor", "lost to others"):
        text = name in ("tier", "tenant")
        table.add_column(name, header_style="dim", justify="left" if text else "right")
    for (tier, tenant), floor in now.by("tier_tenant_floor_pages", "tier", "tenant").items():
        of = {"tier": tier, "tenant": tenant}
        states = [now.value("tier_tenant_pages", state=s, **of) for s in ("owned", "cached")]
        lost = now.value("tier_tenant_evictions_total", sake="others", **of)
        table.add_row(_text(tier), _text(tenant), *map(_number, (*states, floor, lost)))
    return table


def _shadows(now: Scrape) -> Table:
    trusted = now.value("shadow_trusted") > 0
    title = "shadows: what would have hit" if trusted else "shadows: not to be trusted"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    hits = now.by("shadow_hit_tokens_total", "policy", "blocks")
    asked = now.by("shadow_query_tokens_total", "policy", "blocks")
    sizes = sorted({blocks for _, blocks in hits}, key=lambda blocks: (len(blocks), blocks))
    table.add_column("policy", header_style="dim")
    for blocks in sizes:
        table.add_column(_text(f"{blocks} blocks"), header_style="dim", justify="right")
    for policy in dict.fromkeys(policy for policy, _ in hits):
        shares = (
            f"{hits[policy, blocks] / asked[policy, blocks]:.1%}"
            if asked.get((policy, blocks))
            else "-"
            for blocks in sizes
        )
        table.add_row(_text(policy), *shares)
    return table


def _text(words: str) -> Text:
    """Words of the page as they are: no markup, and nothing that moves the cursor."""
    return Text("".join(each if each.isprintable() else "?" for each in words))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value % 1 == 0 or abs(value) >= 10 else f"{value:.1f}"
