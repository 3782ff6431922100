"""The tokenizer of a text form: a `tokenizer.json`, its folder, or a model's name on the Hub."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from kvframe.errors import ConfigError

HUB_S = 60.0
"""Seconds that the Hub has to bring a tokenizer. Its own library tries again several times."""


def tokenizer_of(name: str) -> Callable[[str], list[int]]:
    """What makes token ids of a text, without special tokens.

    Args:
        name: A file, a folder with a ``tokenizer.json``, or else a model's name, whose file the
            Hub has `HUB_S` to bring.

    Raises:
        ConfigError: The library is not installed, or finds nothing of that name in that time.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        what = "needs the library tokenizers: pip install 'kvframe[text]'"
        raise ConfigError(f"--tokenizer {name}: {what}") from None
    path = Path(name)
    if not path.exists() and (name.endswith(".json") or path.is_absolute() or name[:1] in ".~"):
        raise ConfigError(f"--tokenizer {name}: no such file or folder")
    try:
        if path.is_dir():
            path /= "tokenizer.json"
        found = Tokenizer.from_file(str(path) if path.exists() else _downloaded(name))
    except Exception as error:  # the library raises Exception itself
        what = f"neither a tokenizer.json nor a model of the Hub: {' '.join(str(error).split())}"
        raise ConfigError(f"--tokenizer {name}: {what}") from None

    def tokenize(text: str) -> list[int]:
        ids: list[int] = found.encode(text, add_special_tokens=False).ids
        return ids

    return tokenize


def _downloaded(name: str) -> str:
    """The file that the Hub brings, or has brought before."""
    from huggingface_hub import hf_hub_download

    outcome: list[str | Exception] = []

    def fetch() -> None:
        try:
            outcome.append(hf_hub_download(name, "tokenizer.json"))
        except Exception as error:
            outcome.append(error)

    # The library has no limit of its own for the whole, so it is left behind when the time is up.
    thread = threading.Thread(target=fetch, name="kvframe tokenizer", daemon=True)
    thread.start()
    thread.join(HUB_S)
    if not outcome:
        raise TimeoutError(
            f"no answer in {HUB_S:g} s; with HF_HUB_OFFLINE=1 only its cache is asked"
        )
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]
