"""``python -m kvframe_vllm.suite SOURCE``: vLLM's own tests, on its own order and on a policy's.

SOURCE is vLLM's source distribution, unpacked, of the version that is installed; its tests are not
in the wheel. They need pytest, pytest-timeout and pytest-asyncio. What stands in vLLM's place there
is in `kvframe_vllm.suite_faces`; a test in which that fails, fails. The outcome of each file is
entered into ``results/suite.json`` of the folder it is called in, which
`kvframe_vllm.compatibility` shows.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kvframe_vllm.command import needs_vllm, one_line
from kvframe_vllm.suite_faces import FACE, MET, POLICY

RECORD = Path("results") / "suite.json"
_FILES = (
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
    "core/test_prefix_replay.py",
    "core/prefix_cache",
    "simple_kv_offload/test_scheduler.py",
    "simple_kv_offload/test_kv_events.py",
    "kv_connector/unit/test_cache_pollution_prevention.py",
    "kv_connector/unit/test_hisparse_connector.py",
    "kv_connector/unit/test_invalid_blocks_correctness.py",
    "kv_connector/unit/test_kv_load_failure_recovery.py",
    "kv_connector/unit/test_remote_decode_lifecycle.py",
    "kv_connector/unit/test_remote_prefill_lifecycle.py",
    "kv_connector/unit/test_simple_cpu_offload_connector.py",
    "kv_connector/unit/offloading_connector",
)
FILES: Mapping[str, tuple[str, ...]] = {
    "pool": _FILES,
    "manager": _FILES,
    "offload": ("kv_offload",),
}
"""Below ``tests/v1``, by face: prefix caching, scheduler, managers, events, offloading."""

MODEL = "facebook--opt-125m"
"""The model that most tests name; they want its configuration, and load no weights."""

REASONS = {
    "'Pool' object has no attribute": "read the queue, index or events of vLLM's own pool",
    "'NoneType' object is not iterable": "set a connector for auxiliary outputs after the start",
    "prompt = None": "hand in a request without its hashes",
    "assert None is not None": "read the hashes of vLLM's own block objects",
    "req_to_blocks": "read the tables of vLLM's own managers",
    "BlockIds(blocks=": "name ids of empty blocks, which kvframe takes in another order",
    "fake_free_list": "walk the links of vLLM's own free queue",
    "Invalid repository ID or local directory": "want a model's files from a hub",
    "LocalEntryNotFoundError": "want a model's files from a hub",
    "not a block of this pool": "hand in blocks that they made themselves, not the pool",
    "' not found\n>       available fixtures": (
        "want a fixture that stands with the whole of vLLM's tests"
    ),
    "fs_io_C extension not built": "want a compiled part that is not in the wheel",
    "LRUCachePolicy": "want vLLM's own class for lru, or look into it",
    "CacheHitSource.EXTERNAL_UNSPECIFIED": "know vLLM's own tiers alone: kvframe's is a disk's",
    "P2P session did not reach": "wait for two peers by the clock, which passes or not",
    "± 65.536": "measure times, which other work on the machine disturbs",
    "queue.Empty": "wait for processes of their own that do not answer here",
    "got empty parameter set": "have no case without a GPU",
    "Found no NVIDIA driver": "want a GPU",
    "Timeout": "take more than the limit of seconds",
}
"""Why a test cannot pass: by what its failure shows."""

HEADS = {
    "pool": "The policy in vLLM's pool",
    "manager": "kvframe's manager",
    "offload": "The CPU tier",
}

PLACE = re.compile(r"^\S+\.py:\d+: |^\('\S+\.py', \d+, ['\"]Skipped: ")
"""Before the reason of a skipped test."""

MISSING = ("", "not run", 0)

TEST_SECONDS = 60

ENDING_SECONDS = 20
"""That the tests' process may take to end once it has reported."""

SHOWN = 6
"""Tests that the page names for a reason; the record has all."""


@one_line
def main() -> None:
    """Run them with vLLM's own order and with the policy's; print and record what differs, and fail
    where no reason is known.
    """
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.suite", description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--policy", default="lru")
    parser.add_argument("--face", default="pool", choices=FILES)
    parser.add_argument("--files", nargs="+", help="below tests/v1; those of the face")
    parser.add_argument(
        "--reports", type=Path, help="folder of pytest's reports; those in it are not made again"
    )
    asked = parser.parse_args()
    needs_vllm()
    with tempfile.TemporaryDirectory() as folder:
        reports = asked.reports or Path(folder)
        reports.mkdir(exist_ok=True)
        unexplained = []
        for file in asked.files or FILES[asked.face]:
            row = compared(asked.source, file, asked.policy, asked.face, reports)
            enter(row)
            print(
                f"{file}: {row['passed']} of the {row['stock']} that pass with stock, of which "
                f"{row['met']} meet kvframe; {len(row['not with stock'])} do not",
                flush=True,
            )
            for name, why in row["failed"].items():
                print(f"  {name}: {why}")
                unexplained += [] if why in REASONS.values() else [name]
    if unexplained:
        raise SystemExit("\n".join(["no reason is known for:", *unexplained]))


def compared(source: Path, file: str, policy: str, face: str, reports: Path) -> dict[str, Any]:
    """A file's tests under both orders."""
    stock = outcomes(source, file, ("", face), reports)
    ours = outcomes(source, file, (policy, face), reports)
    passed = {name for name, (how, _, _) in stock.items() if how == "passed"}
    failed = sorted(name for name in passed if ours.get(name, MISSING)[0] != "passed")
    others = sorted(stock.keys() - passed)
    return {
        "face": face,
        "file": file,
        "policy": policy,
        "vllm": importlib.metadata.version("vllm"),
        "date": datetime.date.today().isoformat(),
        "stock": len(passed),
        "passed": len(passed) - len(failed),
        "met": sum(ours.get(name, MISSING)[2] > 0 for name in passed),
        "failed": {name: reason(ours.get(name, MISSING)[1]) for name in failed},
        "not with stock": {name: reason(stock[name][1]) for name in others},
    }


def enter(row: dict[str, Any]) -> None:
    """Put a row into the record, in place of what it had of that face, file and policy."""
    rows = json.loads(RECORD.read_text()) if RECORD.is_file() else []
    same = ("face", "file", "policy")
    rows = [one for one in rows if any(one[key] != row[key] for key in same)]
    faces = list(FILES)
    known = {(face, file): at for face in faces for at, file in enumerate(FILES[face])}

    def place(one: dict[str, Any]) -> tuple[int, int]:
        return faces.index(one["face"]), known.get((one["face"], one["file"]), len(known))

    RECORD.parent.mkdir(exist_ok=True)
    text = json.dumps(sorted([*rows, row], key=place), indent=1)
    RECORD.write_text(text + "\n", encoding="utf-8")


def reason(failure: str) -> str:
    """What is known of such a failure, or its last line."""
    for part, why in REASONS.items():
        if part in failure:
            return why
    lines = [line for line in failure.splitlines() if line.startswith("E ")]
    if lines:
        return lines[0][1:].strip()
    # Of a skipped test: what it says, without where its file lies here.
    return PLACE.sub("", " ".join(failure.split()))[:200].rstrip("')\"")


def outcomes(
    source: Path, file: str, under: tuple[str, str], reports: Path
) -> dict[str, tuple[str, str, int]]:
    """How each test of a file ended, what it says if it failed, how often it met kvframe."""
    policy, face = under
    name = file.removesuffix(".py").replace("/", "_")
    report = reports.resolve() / f"{f'{face}.{policy}' if policy else 'stock'}.{name}.xml"
    if not report.is_file():
        served(source.resolve(), file, under, report)
    if not report.is_file():
        return {}
    return {
        f"{case.get('classname')}::{case.get('name')}": ended(case)
        for case in ET.parse(report).iter("testcase")
    }


def served(source: Path, file: str, under: tuple[str, str], report: Path) -> None:
    """Run the tests of a file, and have pytest write its report."""
    with tempfile.TemporaryDirectory() as folder:
        tests = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "kvframe_vllm.suite_faces"),
                *("-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}", f"--junitxml={report}"),
                "--continue-on-collection-errors",
                *("--confcutdir", str(source / "tests" / "v1"), f"tests/v1/{file}"),
            ],
            cwd=source,
            env=os.environ
            | dict(zip((POLICY, FACE), under, strict=True))
            | {
                "HF_HOME": hub(Path(folder)),
                "HF_HUB_OFFLINE": "1",
                "VLLM_LOGGING_LEVEL": "ERROR",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Processes that a failed test has left keep it from ending.
        while tests.poll() is None and not report.is_file():
            time.sleep(1)
        try:
            tests.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGKILL)
            tests.wait()


def ended(case: ET.Element) -> tuple[str, str, int]:
    """How a test ended, its report, and how often it met kvframe."""
    told = case.find(f"properties/property[@name='{MET}']")
    met = 0 if told is None else int(told.get("value", 0))
    for part in case:
        if part.tag in ("failure", "error", "skipped"):
            return part.tag, part.text or part.get("message") or "", met
    return "passed", "", met


def hub(folder: Path) -> str:
    """A Hugging Face cache that has that configuration, and nothing else."""
    from kvframe_vllm.replay.engine import MODEL as SMALL

    model = folder / "hub" / f"models--{MODEL}"
    (model / "snapshots" / "0").mkdir(parents=True)
    (model / "snapshots" / "0" / "config.json").write_text(json.dumps(SMALL))
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0")
    return str(folder)


def rows_of(rows: Iterable[dict[str, Any]]) -> str:
    """The record as a table a face, and each test that does not pass with its reason."""
    text = ""
    for face, policy in sorted({(row["face"], row["policy"]) for row in rows}, reverse=True):
        of = [row for row in rows if (row["face"], row["policy"]) == (face, policy)]
        total = [sum(row.get(key, 0) for row in of) for key in ("stock", "passed", "met")]
        text += f"### {HEADS[face]}\n\n"
        text += f"| file | pass with stock | of them under {policy} | meet kvframe there |"
        text += " not with stock here |\n| --- | --- | --- | --- | --- |\n"
        for row in of:
            others = len(row["not with stock"])
            cells = [row["file"], row["stock"], row["passed"], row.get("met", ""), others]
            text += "".join(f"| {cell} " for cell in cells) + "|\n"
        text += f"| all | {total[0]} | {total[1]} | {total[2] or ''} | |\n"
        text += listed(
            f"Not under {policy}", [pair for row in of for pair in row["failed"].items()]
        )
        text += "\n"
    unique = {name: why for row in rows for name, why in row["not with stock"].items()}
    return text.rstrip("\n") + "\n" + listed("Not with stock", list(unique.items()))


def listed(what: str, failures: list[tuple[str, str]]) -> str:
    """Tests by the reason that they do not pass for."""
    reasons: dict[str, list[str]] = {}
    for name, why in failures:
        reasons.setdefault(why.replace("|", "/"), []).append(name.split("::")[-1].split("[")[0])
    text = f"\n{what}:\n\n" if reasons else ""
    for why, names in sorted(reasons.items(), key=lambda one: -len(one[1])):
        unique = sorted(set(names))
        more = f" and {len(unique) - SHOWN} others" if len(unique) > SHOWN else ""
        text += f"- {len(names)} {why}: `{'`, `'.join(unique[:SHOWN])}`{more}\n"
    return text


if __name__ == "__main__":
    main()
