"""``python -m kvframe_vllm.suite SOURCE``: vLLM's own tests, on its own order and on a policy's.

SOURCE is vLLM's source distribution, unpacked, of the version that is installed; its tests are not
in the wheel. Under a policy, every pool with prefix caching is ruled by it as soon as it is made. A
test is reported if it passes with vLLM's own order and not with the policy's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIABLE = "KVFRAME_SUITE_POLICY"
FILES = (
    "core/test_prefix_caching.py",
    "core/test_scheduler.py",
    "core/test_async_scheduler.py",
    "core/test_single_type_kv_cache_manager.py",
    "core/test_deferred_block_free.py",
    "core/test_kv_cache_metrics.py",
    "core/test_kv_cache_utils.py",
    "core/test_mamba_align_chunk_split.py",
    "core/test_priority_scheduler_random.py",
    "core/test_swa_inflight_window_free.py",
    "simple_kv_offload/test_scheduler.py",
    "kv_connector/unit/test_cache_pollution_prevention.py",
    "kv_connector/unit/test_kv_load_failure_recovery.py",
    "kv_connector/unit/test_remote_decode_lifecycle.py",
    "kv_connector/unit/test_remote_prefill_lifecycle.py",
    "kv_connector/unit/offloading_connector/test_scheduler.py",
    "kv_connector/unit/offloading_connector/test_events.py",
)
"""Below ``tests/v1``: prefix caching, scheduler, managers, events, offloading."""

MODEL = "facebook--opt-125m"
"""The model that the tests name; they want its configuration, and load no weights."""

REASONS = {"fake_free_list": "walks the links of vLLM's own free queue"}
"""Why a test cannot pass: by what its failure shows."""


def main() -> None:
    """Run them with vLLM's own order and with the policy's, and print what differs."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.suite", description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--policy", default="lru")
    parser.add_argument("--files", nargs="+", default=FILES, help="below tests/v1")
    asked = parser.parse_args()
    stock, ours = (outcomes(asked.source, asked.files, policy) for policy in ("", asked.policy))
    passed = {name for name, (how, _) in stock.items() if how == "passed"}
    failed = {name for name in passed if ours.get(name, ("", ""))[0] != "passed"}
    for file in asked.files:
        module = file.removesuffix(".py").replace("/", ".")
        of = [{name for name in names if module in name} for names in (passed, failed, stock)]
        others = len(of[2]) - len(of[0])
        print(f"{file}: {len(of[0]) - len(of[1])} of {len(of[0])}; {others} not with stock either")
    for name in sorted(failed):
        print(f"  {name}: {reason(ours.get(name, ('', 'not run'))[1])}")
    print(f"{len(passed) - len(failed)} of {len(passed)} pass under {asked.policy}")


def reason(failure: str) -> str:
    """What is known of such a failure, or its last line."""
    for part, why in REASONS.items():
        if part in failure:
            return why
    lines = [line for line in failure.splitlines() if line.startswith("E ")]
    return lines[0][1:].strip() if lines else failure[:200]


def outcomes(source: Path, files: Sequence[str], policy: str) -> dict[str, tuple[str, str]]:
    """How each test ended, and what it says if it failed."""
    tests = [f"tests/v1/{file}" for file in files]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "kvframe_vllm.suite"),
                *("-p", "no:cacheprovider", f"--junitxml={report}"),
                "--continue-on-collection-errors",
                *("--confcutdir", str(source / "tests" / "v1"), *tests),
            ],
            cwd=source,
            env=os.environ
            | {
                VARIABLE: policy,
                "HF_HOME": hub(Path(folder)),
                "HF_HUB_OFFLINE": "1",
                "VLLM_LOGGING_LEVEL": "ERROR",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if not report.is_file():
            return {}
        return {
            f"{case.get('classname')}::{case.get('name')}": ended(case)
            for case in ET.parse(report).iter("testcase")
        }


def ended(case: ET.Element) -> tuple[str, str]:
    """How a test ended, and its report."""
    for part in case:
        if part.tag in ("failure", "error", "skipped"):
            return part.tag, part.text or part.get("message") or ""
    return "passed", ""


def hub(folder: Path) -> str:
    """A Hugging Face cache that has that configuration, and nothing else."""
    from kvframe_vllm.replay.engine import MODEL as SMALL

    model = folder / "hub" / f"models--{MODEL}"
    (model / "snapshots" / "0").mkdir(parents=True)
    (model / "snapshots" / "0" / "config.json").write_text(json.dumps(SMALL))
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0")
    return str(folder)


def pytest_configure() -> None:
    """As a plugin of pytest: rule every pool that a test makes."""
    import torch
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    if vllm.platforms.current_platform.is_unspecified() or not torch.cuda.is_available():
        vllm.platforms._current_platform = CpuPlatform()
    if not (policy := os.environ.get(VARIABLE)):
        return
    from vllm.v1.core.block_pool import BlockPool

    from kvframe_vllm.choice import resolved
    from kvframe_vllm.install import put_in

    stock = BlockPool.__init__

    def init(pool: Any, *args: Any, **kwargs: Any) -> None:
        stock(pool, *args, **kwargs)
        if type(pool) is BlockPool and pool.enable_caching:
            put_in(pool, resolved(policy))

    BlockPool.__init__ = init


if __name__ == "__main__":
    main()
