"""The page that ``python -m kvframe_vllm.replay.shadow`` writes from its record."""

from __future__ import annotations

from typing import Any

HEAD = """# How far shadows are from the truth

Written by `{command}` on {date}, vLLM {vllm}, without a GPU. Each load was served by vLLM's own
scheduler under its lru, with shadows of {policies} policies at half, once and twice the pool's size
beside it; then once more for each policy and size, with that policy in the pool. Errors are points
of hit rate, shadow less run. *Sampled* follows every 8th block alone.

"""


def page(record: dict[str, Any]) -> str:
    """The page, in Markdown."""
    loads = record["loads"]
    named = {"command": record["command"], "date": record["date"]}
    counted = {"vllm": record["versions"]["vllm"], "policies": len(_policies(loads[0]))}
    text = HEAD.format(**named, **counted) + _worst(loads)
    for row in loads:
        text += _one(row)
    return text


def _policies(row: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(cell["policy"] for cell in row["cells"]))


def _sizes(row: dict[str, Any]) -> list[float]:
    return sorted({cell["size"] for cell in row["cells"]})


def _worst(loads: list[dict[str, Any]]) -> str:
    lines = [
        "| load | lru equal, of requests | same, asynchronous | worst at half | worst at the "
        "pool's size | worst at twice | worst sampled, at the pool's size |\n",
        "| --- | --- | --- | --- | --- | --- | --- |\n",
    ]
    for row in loads:
        same = row["equal_requests"]
        worst = [_most(row, size, "error") for size in _sizes(row)]
        sampled = _most(row, 1.0, "sampled_error")
        said = [f"{same['synchronous']} of {row['requests']}", str(same["asynchronous"])]
        lines.append(f"| {' | '.join([row['load'], *said, *worst, sampled])} |\n")
    return "".join(lines)


def _most(row: dict[str, Any], size: float, key: str) -> str:
    found = (abs(cell[key]) for cell in row["cells"] if cell["size"] == size)
    return f"{max(found):.2f}"


def _one(row: dict[str, Any]) -> str:
    sizes = _sizes(row)
    text = f"\n## {row['load']}\n\n{row['requests']} requests, {row['blocks']} blocks, "
    text += f"{row['running']} running. Each cell: hit rate of the run, error of the shadow, "
    text += "error sampled.\n\n"
    text += "| policy | " + " | ".join(f"x{size:g}" for size in sizes) + " |\n"
    text += "| --- |" + " --- |" * len(sizes) + "\n"
    cells = {(cell["policy"], cell["size"]): cell for cell in row["cells"]}
    for policy in _policies(row):
        said = [
            f"{cells[policy, size]['run']:.2f} {cells[policy, size]['error']:+.2f} "
            f"{cells[policy, size]['sampled_error']:+.2f}"
            for size in sizes
        ]
        text += f"| {policy} | {' | '.join(said)} |\n"
    return text
