"""The requests that both sides of a comparison serve. Needs NumPy only: peers' Pythons import it.

Twenty families of prompts; a request takes the first 70 % of its 2,048 to 8,192 tokens from its
family's stream, the rest is its own. 32 are live at a time in 20,000 blocks of 16 tokens: 67 % of
the tokens are found, 318 blocks a request.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

VOCABULARY = 128_256
POOL, LIVE = 20_000, 32
RUNNING, PROMPT = 256, 2_048


def prompts(count: int, seed: int = 0) -> list[npt.NDArray[np.uint32]]:
    """Prompts of requests that share prefixes."""
    rng = np.random.default_rng(seed)
    families = rng.integers(VOCABULARY, size=(20, 8_192), dtype=np.uint32)
    made = []
    for _ in range(count):
        length = int(rng.integers(2_048, 8_193))
        shared = int(length * 0.7)
        own = rng.integers(VOCABULARY, size=length - shared, dtype=np.uint32)
        made.append(np.concatenate([families[rng.integers(20)][:shared], own]))
    return made


def running_prompts(count: int, seed: int = 1) -> list[npt.NDArray[np.uint32]]:
    """Prompts of sequences that decode: about 2,048 tokens, at different places in a block."""
    rng = np.random.default_rng(seed)
    lengths = PROMPT - rng.integers(16, size=count)
    return [rng.integers(VOCABULARY, size=n, dtype=np.uint32) for n in lengths]


def long_prompt(tokens: int = 32_768) -> npt.NDArray[np.uint32]:
    """One prompt of random tokens."""
    return np.random.default_rng(2).integers(VOCABULARY, size=tokens, dtype=np.uint32)
