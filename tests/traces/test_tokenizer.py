"""The tokenizer of text forms: a Hub that does not answer, and traces that need none."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from kvframe.traces.source import ReadOptions, open_trace

WAIT = """
from kvframe.errors import ConfigError
from kvframe.traces import tokenizer
tokenizer.HUB_S = 0.5
try:
    tokenizer.tokenizer_of("no-such/model")
except ConfigError as error:
    print(error)
"""


def test_a_hub_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it listens, and nobody accepts
        hub = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", WAIT],
            env={**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == (
        "--tokenizer no-such/model: neither a tokenizer.json nor a model of the Hub: "
        "no answer in 0.5 s; with HF_HUB_OFFLINE=1 only its cache is asked\n"
    )


def test_a_trace_of_blocks_asks_for_none_and_says_so() -> None:
    with open_trace("synthetic", ReadOptions(tokenizer="no-such/model")) as found:
        assert found.remarks[0].endswith("keep no text: --tokenizer no-such/model is not used")
