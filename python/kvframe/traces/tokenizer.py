"""The tokenizer of a text form: a `tokenizer.json`, its folder, or a model's name on the Hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kvframe.errors import ConfigError


def tokenizer_of(name: str) -> Callable[[str], list[int]]:
    """What makes token ids of a text, without special tokens.

    Args:
        name: A file, a folder with a ``tokenizer.json``, or else a name that the library
            ``tokenizers`` downloads.

    Raises:
        ConfigError: The library is not installed, or finds nothing of that name.
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
        found = Tokenizer.from_file(str(path)) if path.exists() else Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises Exception itself
        what = f"neither a tokenizer.json nor a model of the Hub: {' '.join(str(error).split())}"
        raise ConfigError(f"--tokenizer {name}: {what}") from None

    def tokenize(text: str) -> list[int]:
        ids: list[int] = found.encode(text, add_special_tokens=False).ids
        return ids

    return tokenize
