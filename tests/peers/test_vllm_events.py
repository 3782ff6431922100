"""vLLM's own decoder reads what kvframe publishes, where vLLM is installed."""

from __future__ import annotations

import json
import subprocess

import pytest

from kvframe.wire import AllBlocksCleared, BlockRemoved, BlockStored, encode
from tests.peers.compare import vllm_python

DECODER = """
import json, os, sys
import msgspec
from vllm.distributed.kv_events import KVEventBatch

batch = msgspec.msgpack.Decoder(type=KVEventBatch).decode(bytes.fromhex(sys.stdin.read()))
events = [{"type": type(e).__name__, **msgspec.to_builtins(e)} for e in batch.events]
again = msgspec.msgpack.encode(batch).hex()
print(json.dumps([batch.ts, batch.data_parallel_rank, events, again]), flush=True)
os._exit(0)  # its threads may outlive the program
"""


def test_its_classes_decode_every_event_and_write_the_same_bytes() -> None:
    python = vllm_python()
    if python is None:
        pytest.skip("no Python that has vLLM: set VLLM_PYTHON")
    stored = BlockStored(
        [1 << 63, 2], 7, [1, 2, 3, 4], 2, None, "GPU", "L", [["L", ["cat", -1]], None]
    )
    payload = encode([stored, BlockRemoved([2], "GPU"), AllBlocksCleared()], time=1.5, rank=3)
    done = subprocess.run(
        [python, "-c", DECODER],
        input=payload.hex(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0 and "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"vLLM cannot be imported: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    time, rank, events, again = json.loads(done.stdout.splitlines()[-1])
    assert (time, rank) == (1.5, 3)
    assert [event["type"] for event in events] == [
        "BlockStored",
        "BlockRemoved",
        "AllBlocksCleared",
    ]
    first = events[0]
    assert first["block_hashes"] == [1 << 63, 2]
    assert (first["parent_block_hash"], first["token_ids"]) == (7, [1, 2, 3, 4])
    assert (first["lora_name"], first["medium"], first["block_size"]) == ("L", "GPU", 2)
    assert first["extra_keys"] == [["L", ["cat", -1]], None]
    # Releases of msgspec write the head of a map whose defaults are left out in 1 byte or in 3.
    assert again.replace("de0009", "89") == payload.hex().replace("de0009", "89")
