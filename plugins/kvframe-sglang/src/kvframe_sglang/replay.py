"""``python -m kvframe_sglang.replay``: what each policy hits in the cache that a server builds.

300 requests, of which 60 % begin with one of 20 prefixes of 512 tokens (the k-th as often as 1/k)
and 40 % share nothing (256 to 1,023 tokens); 16 answer tokens, 8 running, chunks of 512 tokens. No
model runs: SGLang's own cache, pools and allocators serve the requests. A cell is the share of
prompt tokens that were cached when their request was admitted.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

from kvframe.errors import KVFrameError
from kvframe_sglang import choice
from kvframe_sglang.command import needs_sglang
from kvframe_sglang.server import Request, Requests, cache, start

CHUNK, RUNNING, ANSWER = 512, 8, 16


def prompts(count: int, seed: int = 1) -> list[list[int]]:
    """The requests."""
    draw = random.Random(seed)
    heads = [[draw.randrange(1 << 16) for _ in range(512)] for _ in range(20)]
    weights = [1 / (k + 1) for k in range(len(heads))]
    made = []
    for _ in range(count):
        if draw.random() < 0.6:
            rest = draw.randint(16, 128)
            head = draw.choices(heads, weights)[0]
        else:
            rest, head = draw.randint(256, 1023), []
        made.append(head + [draw.randrange(1 << 16) for _ in range(rest)])
    return made


def served(made: Any, asked: list[list[int]]) -> float:
    """The share of prompt tokens that were found."""
    requests, found = Requests(made), 0
    running: list[Request] = []
    for prompt in asked:
        if len(running) == RUNNING:
            requests.end(running.pop(0))
        request = requests.begin(prompt)
        found += request.prefix_len
        upto, fits = request.prefix_len, True
        while fits and upto < len(prompt):
            upto = min(upto + CHUNK, len(prompt))
            fits = requests.compute(request, upto)
        if fits and requests.answer(request, range(ANSWER)):
            running.append(request)
        else:
            requests.end(request, aborted=True)
    for request in running:
        requests.end(request)
    made.sanity_check()
    return found / sum(map(len, asked))


def main() -> None:
    """Serve under each policy, print."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_sglang.replay", description=__doc__)
    parser.add_argument("--policies", default="lru,lfu,slru,arc", help="kvframe's, with commas")
    parser.add_argument("--tokens", default="8000,10000", help="sizes of the pool, with commas")
    parser.add_argument("--page-size", type=int, default=16)
    parser.add_argument("--requests", type=int, default=300)
    asked = parser.parse_args()
    for name in asked.policies.split(","):
        try:
            choice.asked(f"{choice.NAME}:{name}")
        except KVFrameError as error:
            parser.error(str(error))
    needs_sglang(parser)
    server = start("--page-size", str(asked.page_size))
    sizes = [int(size) for size in asked.tokens.split(",")]
    print("policy".ljust(12), *(f"{size:8d}" for size in sizes), flush=True)
    rows = {"stock": "lru", **{name: f"kvframe:{name}" for name in asked.policies.split(",")}}
    for name, policy in rows.items():
        cells = []
        for size in sizes:
            made = cache(server, size, page_size=asked.page_size, eviction_policy=policy)
            cells.append(served(made, prompts(asked.requests)))
        print(name.ljust(12), *(f"{cell:8.4f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
