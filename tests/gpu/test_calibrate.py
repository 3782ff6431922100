"""One step of a decoder on the card, as `kvframe calibrate` measures it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch's own, as it is imported
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("triton", reason="Triton is not installed")

    from kvframe.calibrate import ModelShape, Step, Steps
    from kvframe.calibrate import attention as paged
    from kvframe.calibrate.engine import Engine
    from kvframe.calibrate.measure import measure

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = ModelShape(layers=2, hidden=512, ffn=1_024, heads=8, kv_heads=2, head_dim=64, vocab=1_000)


def attended(q: Any, keys: Any, values: Any) -> Any:
    """In float32, from the definition: ``q`` of the last tokens of ``keys``."""
    group = q.shape[1] // keys.shape[1]
    keys, values = (part.float().repeat_interleave(group, 1) for part in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", q.float(), keys) * q.shape[-1] ** -0.5
    n, held = q.shape[0], keys.shape[0]
    at = torch.arange(held, device=q.device)
    scores = scores.masked_fill(at[None, :] > at[held - n :, None], float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


def off(got: Any, expected: Any) -> float:
    return float((got.float() - expected).norm() / expected.norm())


@pytest.mark.parametrize("lengths", [[1], [1, 17, 200, 256], [4_000] * 3, [16] * 130])
def test_decoding_attends_to_the_pages_of_its_table(lengths: list[int]) -> None:
    torch.manual_seed(0)
    most = -(-max(lengths) // paged.PAGE)
    tables = torch.randperm(most * len(lengths), device="cuda", dtype=torch.int32)
    tables = tables.view(len(lengths), most)
    k, v = torch.randn(2, tables.numel() * paged.PAGE, 2, 64, device="cuda").bfloat16()
    q = torch.randn(len(lengths), 8, 64, device="cuda").bfloat16()
    got = paged.decode(q, k, v, tables, torch.tensor(lengths, device="cuda", dtype=torch.int32))
    offsets = torch.arange(paged.PAGE, device="cuda")
    for i, length in enumerate(lengths):
        slots = (tables[i].long()[:, None] * paged.PAGE + offsets).flatten()[:length]
        assert off(got[i], attended(q[i : i + 1], k[slots], v[slots])[0]) < 1e-2


def test_a_chunk_attends_to_what_is_before_it() -> None:
    engine = Engine(SMALL, room=4_096, longest=2_048)
    step = Step(chunk=100, before=300)
    q = torch.randn(100, 8, 64, device="cuda").bfloat16()
    kv = torch.randn(2, 100, 2, 64, device="cuda").bfloat16()
    got = engine._prefill(0, step, q, kv)
    keys, values = engine.prompt[0, :, :400]
    assert torch.equal(keys[300:], kv[0])
    assert off(got, attended(q, keys, values)) < 1e-2


def test_steps_are_measured_and_kept(tmp_path: Path) -> None:
    engine = Engine(SMALL, room=4_096, longest=2_048)
    steps = [Step(contexts=(17, 200)), Step(64, 128), Step(64, 0, (100,) * 5)]
    seen: list[int] = []
    got = measure(engine, steps, tmp_path / "steps.csv", seen.append)
    assert seen == [1, 2, 3]
    assert (got.step_us > 0).all()
    assert got.num_tokens.tolist() == [2, 64, 69]
    assert Steps.read(tmp_path / "steps.csv").kv_prefill.tolist() == [0, 128, 0]
