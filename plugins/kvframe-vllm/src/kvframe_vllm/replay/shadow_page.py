"""The page that ``python -m kvframe_vllm.replay.shadow`` writes from its record."""

from __future__ import annotations

from typing import Any

HEAD = """# How far shadows are from the truth

Written by `{command}` on {date}, vLLM {vllm}, without a GPU. Each load was served by vLLM's own
scheduler under its lru, with shadows of {policies} policies at half, once and twice the pool's size
beside it; then once more for each policy and size, with that policy in the pool. Errors are points
of hit rate, shadow less run. *Sampled* follows one block in {stride}, in pools and under loads
{stride} times as large. The command fails where a shadow is more than {same_size:g} points off at
the pool's size, {other_size:g} at another, {sampled:g} sampled, or costs {cost_percent:g} % of a
step.

"""

COST = """
## Cost

Processor time on the engine's thread with {policies} policies at {sizes} sizes, beside what vLLM's
scheduler takes itself; a model's time is not among it. Median of {turns} turns.

| requests running | shadows, us a step | scheduler, us a step | share |
| --- | --- | --- | --- |
"""


def page(record: dict[str, Any]) -> str:
    """The page, in Markdown."""
    loads = record["loads"]
    named = {"command": record["command"], "date": record["date"], **record["bars"]}
    counted = {"vllm": record["versions"]["vllm"], "policies": len(_policies(loads[0]["cells"]))}
    stride = loads[0]["sampled"]["stride"]
    text = HEAD.format(**named, **counted, stride=stride) + _worst(loads)
    for row in loads:
        text += _one(row)
    return text + _cost(record["costs"])


def _policies(cells: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(cell["policy"] for cell in cells))


def _sizes(cells: list[dict[str, Any]]) -> list[float]:
    return sorted({cell["size"] for cell in cells})


def _worst(loads: list[dict[str, Any]]) -> str:
    lines = [
        "| load | lru equal, of requests | same, asynchronous | worst at half | worst at the "
        "pool's size | worst at twice | sampled: at half | at the pool's size | at twice |\n",
        "| --- |" + " --- |" * 8 + "\n",
    ]
    for row in loads:
        same = row["equal_requests"]
        worst = [
            _most(found, size)
            for found in (row["cells"], row["sampled"]["cells"])
            for size in _sizes(found)
        ]
        said = [f"{same['synchronous']} of {row['requests']}", str(same["asynchronous"])]
        lines.append(f"| {' | '.join([row['load'], *said, *worst])} |\n")
    return "".join(lines)


def _most(cells: list[dict[str, Any]], size: float) -> str:
    return f"{max(abs(cell['error']) for cell in cells if cell['size'] == size):.2f}"


def _one(row: dict[str, Any]) -> str:
    sampled, sizes = row["sampled"], _sizes(row["cells"])
    text = f"\n## {row['load']}\n\n{row['requests']} requests, {row['blocks']} blocks, "
    text += f"{row['running']} running; sampled {sampled['requests']}, {sampled['blocks']}, "
    text += f"{sampled['running']}. Each cell: hit rate of the run, error.\n\n"
    text += "| policy | " + " | ".join(f"x{size:g}" for size in sizes)
    text += " | " + " | ".join(f"sampled, x{size:g}" for size in sizes) + " |\n"
    text += "| --- |" + " --- |" * (2 * len(sizes)) + "\n"
    for policy in _policies(row["cells"]):
        said = [
            f"{cell['run']:.2f} {cell['error']:+.2f}"
            for found in (row["cells"], sampled["cells"])
            for cell in sorted(found, key=lambda cell: float(cell["size"]))
            if cell["policy"] == policy
        ]
        text += f"| {policy} | {' | '.join(said)} |\n"
    return text


def _cost(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    first = rows[0]
    text = COST.format(turns=len(first["shares"]), policies=first["policies"], sizes=first["sizes"])
    for row in rows:
        own, step = f"{row['connector_us']:.1f}", f"{row['step_us']:.0f}"
        text += f"| {row['running']} | {own} | {step} | {row['share']:.2%} |\n"
    return text
