"""vLLM's scheduler under a policy of kvframe, without a model. Run by `perf.peers.Peer`.

Needs a Python that imports vLLM, kvframe and kvframe-vllm; no GPU.
"""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import vllm
from _serve import serve
from kvframe_vllm.replay.__main__ import counted, rule
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.workload import Families

FOLDER = tempfile.TemporaryDirectory()


def text(eviction: str, admission: str | None) -> str:
    """What kvframe-vllm is told: a policy's name, or a file where there are two policies."""
    if admission is None:
        return eviction
    file = Path(FOLDER.name, f"{eviction}-{admission}.toml")
    sections = {"eviction": eviction, "admission": admission}
    lines = [f"[{name}]\npolicy = {json.dumps(policy)}\n" for name, policy in sections.items()]
    file.write_text("".join(lines), "utf-8")
    return str(file)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Hit tokens of each request, in the order of arrival, for each seed."""
    policy = text(request["eviction"], request["admission"])
    hits = []
    for seed in request["seeds"]:
        load = Load(blocks=request["blocks"])
        made = scheduler(load)
        rule(made, policy, request["face"])
        prompts = Families(requests=request["requests"], seed=seed).prompts()
        for one in requests(prompts, load.block_size):
            made.add_request(one)
        done = run(made, load)
        if failures := counted(made.kv_cache_manager, request["face"]).get("failures"):
            raise RuntimeError(f"{policy}: {failures} decisions failed")
        hits.append([done.hits[str(number)] for number in range(len(prompts))])
    return {"hits": hits}


if __name__ == "__main__":
    logging.getLogger("vllm").setLevel(logging.ERROR)
    serve(f"vllm {vllm.__version__}", answer)
