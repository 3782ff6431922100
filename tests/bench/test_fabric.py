"""Replicas on several nodes: what sums and sends take within a node and between nodes, by hand."""

from __future__ import annotations

import pytest

from kvframe.bench.server.parallel import Parallel, parse_parallel
from kvframe.bench.server.shape import Shape, parse_server_shape
from kvframe.errors import ConfigError

ONE_LAYER = parse_server_shape(
    "layers=1,kv_heads=32,head_dim=4,params=1000,heads=32,hidden=4000000"
)
"""A token of 8 MB: 4,000,000 numbers of 2 bytes."""
EXPERTS = parse_server_shape(
    "layers=1,kv_heads=32,head_dim=4,params=1000,heads=32,hidden=4000000,"
    "expert_params=800,experts=8,experts_used=2"
)
NODE = "link=1TB/s,latency=1us"
NODES = f"{NODE},gpus_per_node=8,scale_out=100GB/s,scale_out_latency=10us"


def step(text: str, tokens: int = 1, shape: Shape = ONE_LAYER) -> float:
    """Seconds that the exchanges of a step take."""
    over = parse_parallel(text, shape)
    return over.exchange_seconds(shape) + tokens * over.token_seconds(shape)


def test_a_sum_within_a_node_is_a_ring_over_its_link() -> None:
    # Two sums a layer: 2 x 7/8 x 8 MB at 1 TB/s are 14 us, and 1 us.
    assert step(f"tp=8,{NODE}") == pytest.approx(2 * 15e-6)
    assert step(f"tp=8,{NODES}") == pytest.approx(2 * 15e-6)


def test_a_switch_that_sums_gets_and_gives_each_number_once() -> None:
    assert step(f"tp=8,{NODE},in_network_reduction=true") == pytest.approx(2 * 9e-6)
    assert step(f"tp=8,{NODE},in_network_reduction=false") == pytest.approx(2 * 15e-6)
    assert step(f"tp=1,{NODE},in_network_reduction=true") == 0


def test_a_sum_over_nodes_is_one_between_them_amid_one_within() -> None:
    # Twice 7/8 x 8 MB at 1 TB/s and 1 us; between, 2 x 1/2 x 1 MB at 100 GB/s and 10 us.
    assert step(f"tp=16,{NODES}") == pytest.approx(2 * (2 * 8e-6 + 20e-6))
    # Of four nodes: 2 x 3/4 x 1 MB are 15 us.
    assert step(f"tp=32,{NODES}") == pytest.approx(2 * (2 * 8e-6 + 25e-6))


def test_a_network_that_sums_saves_nothing_within_the_node() -> None:
    far = f"tp=32,{NODES},scale_out_in_network_reduction=true"
    # 1 MB once at 100 GB/s.
    assert step(far) == pytest.approx(2 * (2 * 8e-6 + 20e-6))
    assert step(f"{far},in_network_reduction=true") == step(far)


def test_each_data_parallel_group_sums_its_own_tokens() -> None:
    assert step(f"tp=16,dp=2,{NODES}", 2) == pytest.approx(step(f"tp=16,{NODES}", 1))


def test_tokens_go_to_experts_within_and_beyond_the_node_at_once() -> None:
    # There and back, of a sixteenth of the tokens: 2 copies of 8 MB, of which 8/16 leave the node
    # at 100 GB/s, while 7/16 go to other cards of it at 1 TB/s.
    over = parse_parallel(f"dp=16,ep=16,{NODES}", EXPERTS)
    assert over.exchange_seconds(EXPERTS) == pytest.approx(2 * 10e-6)
    assert over.token_seconds(EXPERTS) == pytest.approx(2 * 2 * 8e6 * 8 / 16 / 100e9 / 16)
    fast = parse_parallel(f"dp=16,ep=16,{NODE},gpus_per_node=15,scale_out=1TB/s", EXPERTS)
    assert fast.token_seconds(EXPERTS) == pytest.approx(2 * 2 * 8e6 * 14 / 16 / 1e12 / 16)
    near = parse_parallel(f"dp=8,ep=8,{NODES}", EXPERTS)
    assert near.exchange_seconds(EXPERTS) == pytest.approx(2 * 1e-6)
    assert near.token_seconds(EXPERTS) == pytest.approx(2 * 2 * 8e6 * 7 / 8 / 1e12 / 8)


def test_without_nodes_nothing_changes() -> None:
    for over in (Parallel(tp=4, dp=2, ep=8), Parallel(tp=4, dp=2, ep=8, gpus_per_node=64)):
        assert over.exchange_seconds(EXPERTS) == pytest.approx(4 * over.latency)
        assert over.token_seconds(EXPERTS) == 8e6 * (2 * 2 * 3 / 4 / 2 + 2 * 2 * 7 / 8 / 8) / 450e9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp=16,gpus_per_node=8", "scale_out is missing: tp = 16 is beyond gpus_per_node = 8"),
        ("dp=16,ep=16,gpus_per_node=8", "scale_out is missing: ep = 16 is beyond gpus_per_node"),
        ("tp=16,scale_out=50GB/s", "scale_out goes with gpus_per_node: the cards that link joins"),
        ("tp=2,scale_out_latency=2us", "scale_out_latency goes with gpus_per_node"),
        ("tp=2,gpus_per_node=0", "gpus_per_node = 0: must be a whole number from 1 to 4096"),
        ("tp=16,gpus_per_node=8,scale_out=9", "scale_out = 9: must be bytes a second"),
        ("tp=16,gpus_per_node=8,scale_out_latency=9", "scale_out_latency = 9: must be a time"),
        ("tp=2,in_network_reduction=yes", "in_network_reduction = yes: must be true or false"),
        ("tp=2,gpu_per_node=8", "did you mean gpus_per_node"),
    ],
)
def test_what_no_fabric_can_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_parallel(text, EXPERTS)
    assert message in str(refused.value)
