"""Small files of every form, and the command that reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tokenizers import Tokenizer, models, pre_tokenizers

from kvframe.cli import main

FORMS = Path(__file__).parent / "forms"
Command = Callable[..., Result]


@pytest.fixture
def kvframe() -> Command:
    """Runs ``kvframe ...`` in this process; ``exit_code``, ``stdout`` and ``stderr`` come back."""

    def call(*args: object, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(main, [*map(str, args)], input=stdin)

    return call


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer.json in which every word is a token of its own, known or not."""
    words = [
        "[UNK]",
        *("hi hello What is the capital of India ? Summarize Sure user assistant".split()),  # noqa: SIM905
    ]
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


def lines(*rows: Any) -> bytes:
    """JSON lines."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(at: float, length: int, ids: Sequence[int], **more: object) -> dict[str, object]:
    """A row in Mooncake's form."""
    made = {"timestamp": at, "input_length": length, "output_length": 1, "hash_ids": list(ids)}
    return made | more
