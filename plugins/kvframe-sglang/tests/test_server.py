"""A process that loads plugins, parses arguments and builds its cache as SGLang's does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sglang", reason="SGLang is not installed")

# A spawned process: what it knows it has from the entry point, the arguments and the environment.
PROGRAM = """
import json, logging, multiprocessing, sys

def scheduler(arguments, given, out):
    import io
    log = io.StringIO()
    ours = logging.getLogger("sglang.kvframe")
    ours.setLevel(logging.WARNING)  # the server's own level is that of errors
    ours.addHandler(logging.StreamHandler(log))
    from kvframe_sglang.server import Requests, cache, start
    parsed = start(*arguments)
    made = cache(parsed, 4096, page_size=parsed.page_size or 1, **given)
    core = made.tree_core
    requests = Requests(made)
    for prompt in ([1] * 64, [1] * 64 + [2] * 64):
        request = requests.begin(prompt)
        requests.compute(request, len(prompt))
        requests.answer(request, [7])
        requests.end(request)
    made.sanity_check()
    tree = getattr(core, "tree", None)
    out.put({
        "core": type(core).__name__, "cache": type(made).__name__, "hit": request.prefix_len,
        "policy": tree and tree.policy, "options": tree and dict(tree.resolved.eviction.values),
        "told": log.getvalue(),
    })

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    out = spawn.Queue()
    process = spawn.Process(target=scheduler, args=(*json.loads(sys.argv[1]), out))
    process.start()
    while process.is_alive() and out.empty():
        process.join(0.2)
    told = out.get(timeout=5)
    process.join()
    print("TOLD " + json.dumps(told))
"""


def served(
    tmp_path: Path, *arguments: str, env: dict[str, str] | None = None, **given: object
) -> dict[str, object]:
    """What a scheduler process built and did."""
    import os

    program = tmp_path / "serve.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), json.dumps([arguments, given])],
        cwd=tmp_path,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    told = [line[5:] for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    said = done.stdout[-2000:] + done.stderr[-2000:]
    assert done.returncode == 0, said
    assert told, said
    found: dict[str, object] = json.loads(told[0])
    return found


def test_the_command_line_chooses(tmp_path: Path) -> None:
    told = served(
        tmp_path,
        *("--radix-eviction-policy", "kvframe:s3-fifo", "--page-size", "16"),
        *("--radix-eviction-policy-config", '{"small_percent": 20}'),
    )
    assert told["core"] == "KvframeTreeCore"
    assert told["cache"] == "UnifiedRadixCache"
    assert told["policy"] == "s3-fifo"
    assert told["options"] == {"small_percent": 20}
    assert told["hit"] == 64


def test_the_environment_chooses(tmp_path: Path) -> None:
    told = served(tmp_path, env={"KVFRAME_SGLANG_POLICY": "arc"})
    assert (told["core"], told["policy"], told["hit"]) == ("KvframeTreeCore", "arc", 64)


def test_a_file_chooses(tmp_path: Path) -> None:
    (tmp_path / "kvframe.toml").write_text('[eviction]\npolicy = "lfu"\non_error = "raise"\n')
    told = served(tmp_path, "--radix-eviction-policy", "kvframe")
    assert (told["core"], told["policy"]) == ("KvframeTreeCore", "lfu")


def test_without_a_word_sglang_is_as_it_was(tmp_path: Path) -> None:
    told = served(tmp_path)
    assert told["core"] == "RustUnifiedTreeCore"
    assert told["told"] == ""
    assert told["hit"] == 64


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("no-such-policy", "no-such-policy"),
        ("s3-fifo:small_percent=many", "small_percent"),
        ("/no/such/file.toml", "no/such/file.toml"),
    ],
)
def test_a_policy_that_cannot_be_had_leaves_sglang_alone(
    tmp_path: Path, policy: str, why: str
) -> None:
    told = served(tmp_path, env={"KVFRAME_SGLANG_POLICY": policy})
    assert told["core"] == "RustUnifiedTreeCore"
    assert told["hit"] == 64
    sentence = str(told["told"]).strip()
    assert sentence.startswith("kvframe does not rule the prefix cache")
    assert why in sentence
    assert len(sentence.splitlines()) == 1
