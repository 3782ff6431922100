"""vLLM's own tests, on vLLM's own code, with a kvframe policy loaded by path where they say "lru".

They are in vLLM's source distribution, not in its wheel: ``pip download --no-binary vllm --no-deps
vllm==VERSION``, unpacked, is VLLM_SOURCE; VLLM_PYTHON has that version, with pytest. No GPU is
needed.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from .peer import HERE, Peer, guest

POLICY = ("tests/v1/kv_offload/cpu/test_manager.py", "tests/v1/kv_offload/cpu/policies")
SCHEDULER = (
    "tests/v1/kv_connector/unit/offloading_connector/test_scheduler.py",
    "tests/v1/kv_connector/unit/offloading_connector/test_events.py",
    "tests/v1/kv_offload/tiering/test_tiering_offloading.py",
    "tests/v1/kv_offload/test_factory.py",
)
PRIVATE = {
    "test_lru_repeated_pin_cycles_compact_lazy_heap_entries": "reads the length of LRU's _heap",
    "test_touch_propagates_to_all_tiers": "reads LRU's _ranks",
}
"""Tests of what vLLM's own lru is made of; whoever replaces it cannot pass them."""

MODEL = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "ffn_dim": 3072,
    "max_position_embeddings": 2048,
    "vocab_size": 50272,
    "word_embed_proj_dim": 768,
    "torch_dtype": "float16",
}
"""What the tests want to know of facebook/opt-125m; they load no weights."""


def source() -> Path:
    if not (folder := os.environ.get("VLLM_SOURCE")):
        pytest.skip("no tests of vLLM: set VLLM_SOURCE to its unpacked source distribution")
    return Path(folder)


def hub(folder: Path) -> str:
    """A Hugging Face cache that has that model's configuration, and nothing else."""
    model = folder / "hub" / "models--facebook--opt-125m"
    (model / "snapshots" / "0").mkdir(parents=True)
    (model / "snapshots" / "0" / "config.json").write_bytes(msgspec.json.encode(MODEL))
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0")
    return str(folder)


def run(folder: Path, policy: str, *tests: str) -> tuple[dict[str, str], int]:
    """(outcome of each test, how many of them made a kvframe policy)."""
    peer, report, where = Peer("vllm", folder), folder / "report.xml", source()
    package, library = guest(folder)
    done = peer.run(
        *("-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider"),
        *("--confcutdir", str(where / "tests" / "v1"), f"--junitxml={report}", *tests),
        cwd=where,
        path=(HERE / "vllm", package),
        GUEST_LIBRARY=str(library),
        KVFRAME_TEST_POLICY=policy,
        HF_HOME=hub(folder),
        HF_HUB_OFFLINE="1",
        VLLM_LOGGING_LEVEL="ERROR",
    )
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr[-2000:]
    outcomes: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        found = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = found[0] if found else "passed"
    line = next(line for line in done.stdout.splitlines() if "made a kvframe policy" in line)
    return outcomes, int(line.split()[0])


@pytest.mark.scenario("VT68")
@pytest.mark.parametrize("policy", ["lru", "guest-batched", "guest-column"])
@pytest.mark.parametrize(
    ("tests", "passed", "used"),
    [(POLICY, 75, 20), (SCHEDULER, 500, 150)],
    ids=["policy", "scheduler"],
)
def test_vllms_tests_pass_with_a_kvframe_policy(
    tests: tuple[str, ...], passed: int, used: int, policy: str, tmp_path: Path
) -> None:
    """With the built-in lru, and with lru as a plugin: in Python, and compiled."""
    outcomes, made = run(tmp_path, policy, *tests)
    bad = [name for name, outcome in outcomes.items() if outcome in ("failure", "error")]
    unexplained = [name for name in bad if name.split("::")[-1] not in PRIVATE]
    assert not unexplained
    assert sum(outcome == "passed" for outcome in outcomes.values()) >= passed
    assert made >= used
