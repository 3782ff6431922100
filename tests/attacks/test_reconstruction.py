"""Others' prompts, guessed piece by piece: by what is found, and by who is answered first.

PROMPTPEEK (doi:10.14722/ndss.2025.241772) and "The Early Bird" (arXiv:2409.20002). The attacker
here is stronger than theirs: it need not measure a time, it is told how many tokens were found.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvframe import Config, KVCacheManager, Request

from ..bench.conftest import Command

BLOCK, WORDS, LENGTH = 4, 8, 24
VICTIM: dict[str, Any] = {"tenant": "victim"}
APART: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another salt": ({"cache_salt": "a"}, {"cache_salt": "b"}),
    "no salt": ({"cache_salt": "a"}, {}),
    "another tenant": (VICTIM, {"tenant": "attacker"}),
    "no tenant": (VICTIM, {}),
    "another adapter": ({"lora_name": "a"}, {"lora_name": "b"}),
}
WAYS: dict[str, dict[str, Any]] = {
    "token by token": {"partial_hits": True, "index": "radix"},
    "blocks of a token": {"block_size": 1},
}


class Engine:
    """Serves requests of anyone, and says how many tokens were found."""

    def __init__(self, way: str) -> None:
        cache = {"block_size": BLOCK, "capacity": 4096} | WAYS[way]
        shares = [{"name": name, "floor": 0.3, "quota": 0.3} for name in ("victim", "attacker")]
        tenants = [] if "index" in cache else shares  # a radix index has no shares
        self.kv = KVCacheManager(Config.of(cache=cache, tenants=tenants))

    def serve(self, prompt: Sequence[int], **whose: Any) -> int:
        grant = self.kv.allocate(Request([*prompt], **whose))
        self.kv.commit(grant.seq, grant.prompt_tokens)
        if plan := self.kv.take_plan():
            self.kv.done(plan.ticket)
        self.kv.release(grant.seq)
        return grant.cached_tokens


def reconstructed(engine: Engine, **whose: Any) -> tuple[list[int], int]:
    """What an attacker makes out, token by token, and how often it asked."""
    known: list[int] = []
    asked = 0
    while len(known) < LENGTH:
        for word in range(WORDS):
            asked += 1
            # A word of its own ends the guess: the last token of a prompt is computed in any case.
            if engine.serve([*known, word, 999 + asked], **whose) > len(known):
                known.append(word)
                break
        else:
            break
    return known, asked


def secret(seed: int) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(WORDS) for _ in range(LENGTH)]


@pytest.mark.parametrize("way", WAYS)
def test_inside_a_salt_a_prompt_is_made_out_token_by_token(way: str) -> None:
    """As published: what is shared is told. Otherwise the next test would say nothing."""
    for seed in range(4):
        engine = Engine(way)
        engine.serve(secret(seed), **VICTIM)
        known, asked = reconstructed(engine, **VICTIM)
        assert known[: LENGTH - 1] == secret(seed)[: LENGTH - 1]
        assert asked <= LENGTH * WORDS


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("victim", "attacker"), APART.values(), ids=APART)
def test_from_elsewhere_no_token_of_it_is(
    way: str, victim: dict[str, Any], attacker: dict[str, Any]
) -> None:
    for seed in range(4):
        engine = Engine(way)
        engine.serve(secret(seed), **victim)
        assert reconstructed(engine, **attacker) == ([], WORDS)
        other = Engine(way)
        other.serve(secret(seed), **victim)
        assert other.serve(secret(seed), **attacker) == 0  # it knows the whole already
        assert engine.serve(secret(seed), **victim) >= LENGTH - BLOCK


@pytest.mark.parametrize("apart", [False, True])
def test_which_system_prompt_others_use_is_found_inside_a_salt_alone(apart: bool) -> None:
    """The Early Bird's guess: one of many prompts that are known is the one in use."""
    right = 0
    for seed in range(20):
        dice, engine = random.Random(seed), Engine("blocks of a token")
        known = [[dice.randrange(1000) for _ in range(40)] for _ in range(10)]
        used = dice.randrange(10)
        for user in range(5):
            engine.serve([*known[used], 5000 + user], **VICTIM)
        whose = {"tenant": "attacker"} if apart else VICTIM
        found = [engine.serve([*prompt, 6000], **whose) for prompt in known]
        right += max(found) > 0 and found.index(max(found)) == used
        assert not apart or max(found) == 0
    assert right == (0 if apart else 20)


ROUNDS, GUESSES = 24, 8


def places(bench: Command, folder: Path, order: str, *, apart: bool) -> list[int]:
    """The place of the right guess among the answers to the attacker's guesses, round by round.

    Each round the victim sends a prompt. Later the attacker sends a long request, which keeps the
    one place of the server busy, and then all guesses at once, the right one among them.
    """
    dice, made, right = random.Random(7), list[dict[str, Any]](), list[int]()
    attacker = "attacker" if apart else "victim"

    def send(at: float, whose: str, ids: list[int]) -> None:
        row = {"timestamp": int(at), "input_length": 16 * len(ids), "output_length": 2}
        made.append({**row, "hash_ids": ids, "type": whose})

    for turn in range(ROUNDS):
        at, first = 20_000.0 * turn, 10_000 * (turn + 1)
        prompts = [[first + 100 * one + i for i in range(20)] for one in range(GUESSES)]
        right.append(dice.randrange(GUESSES))
        send(at, "victim", prompts[right[-1]])
        send(at + 5000, attacker, [first + 5000 + i for i in range(200)])
        for one, prompt in enumerate(prompts):
            send(at + 5001, attacker, [*prompt, first + 9000 + one])
    (folder / "guesses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    shares = "".join(
        f'[[tenants]]\nname = "{name}"\nfloor = 0.5\nquota = 0.5\n'
        for name in ("victim", "attacker")
    )
    (folder / "apart.toml").write_text(shares)
    told = ["--config", "apart.toml"] if apart else []
    asked = ("--trace", "guesses.jsonl", "--block-size", "16", "--capacity", "20000")
    more = ("--policy", "lru", "--order", order, "--max-num-seqs", "1", "--requests", "rows.jsonl")
    done = bench("serve", *asked, *more, *told, "--quiet")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["request"])
    first_tokens = [row["first_token"] for row in rows]
    found = []
    for turn, guess in enumerate(right):
        start = (2 + GUESSES) * turn + 2
        times = first_tokens[start : start + GUESSES]
        found.append(sorted(times).index(times[guess]))
    return found


@pytest.mark.parametrize("order", ["longest-prefix", "fewest-uncached"])
def test_the_order_of_answers_tells_nothing_of_another_tenant(
    bench: Command, tmp_path: Path, order: str
) -> None:
    inside = places(bench, tmp_path, order, apart=False)
    assert inside == [0] * ROUNDS
    beside = places(bench, tmp_path, order, apart=True)
    # All guesses found nothing, and are answered as they came.
    assert beside == places(bench, tmp_path, "fcfs", apart=True)
