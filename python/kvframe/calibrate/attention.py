"""Attention of one token a sequence over paged KV, its blocks named by a block table.

A program attends to one split of a sequence and keeps a running maximum and sum (Flash-Decoding,
Dao et al. 2023); a second kernel joins the splits. Pages hold ``PAGE`` tokens and lie
scattered over the pool, as an engine's do.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

PAGE = 16
TILE = 64
PROGRAMS = 1_024
"""Programs that fill a card: sequences x heads are split until there are about so many."""


@triton.jit
def _splits(
    q, k_pool, v_pool, tables, lengths, partial, sums,
    scale, table_stride, row_stride,
    num_heads: tl.constexpr, num_kv_heads: tl.constexpr, dim: tl.constexpr,
    page_size: tl.constexpr, tile: tl.constexpr, num_splits: tl.constexpr,
):  # fmt: skip
    seq = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    group: tl.constexpr = num_heads // num_kv_heads
    rows = tl.arange(0, 16)  # a tensor core's least; rows beyond the group are masked
    dims = tl.arange(0, dim)
    live = rows < group
    heads = kv_head * group + rows
    query = tl.load(
        q + (seq * num_heads + heads)[:, None] * dim + dims[None, :], mask=live[:, None], other=0.0
    )
    length = tl.load(lengths + seq)
    per_split = tl.cdiv(tl.cdiv(length, num_splits), tile) * tile
    first = split * per_split
    last = tl.minimum(first + per_split, length)
    top = tl.full([16], float("-inf"), tl.float32)
    total = tl.zeros([16], tl.float32)
    out = tl.zeros([16, dim], tl.float32)
    for start in range(first, last, tile):
        at = start + tl.arange(0, tile)
        there = at < last
        page = tl.load(tables + seq * table_stride + at // page_size, mask=there, other=0)
        row = (page.to(tl.int64) * page_size + at % page_size) * row_stride + kv_head * dim
        keys = tl.load(k_pool + row[:, None] + dims[None, :], mask=there[:, None], other=0.0)
        score = tl.dot(query, tl.trans(keys)) * scale
        score = tl.where(there[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        values = tl.load(v_pool + row[:, None] + dims[None, :], mask=there[:, None], other=0.0)
        out = out * shrink[:, None] + tl.dot(weight.to(values.dtype), values)
        total = total * shrink + tl.sum(weight, 1)
        top = higher
    place = (seq * num_heads + heads) * num_splits + split
    tl.store(partial + place[:, None] * dim + dims[None, :], out, mask=live[:, None])
    tl.store(sums + place * 2, top, mask=live)
    tl.store(sums + place * 2 + 1, total, mask=live)


@triton.jit
def _join(partial, sums, out, dim: tl.constexpr, num_splits: tl.constexpr):
    row = tl.program_id(0)
    dims = tl.arange(0, dim)
    splits = tl.arange(0, num_splits)
    place = row * num_splits + splits
    top = tl.load(sums + place * 2)
    total = tl.load(sums + place * 2 + 1)
    weight = tl.exp(top - tl.max(top, 0))
    parts = tl.load(partial + place[:, None] * dim + dims[None, :])
    joined = tl.sum(parts * weight[:, None], 0) / tl.sum(total * weight, 0)
    tl.store(out + row * dim + dims, joined.to(out.dtype.element_ty))


def decode(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """Attends one token a sequence to its pages.

    Args:
        q: ``[sequences, heads, dim]``.
        k_pool: ``[slots, kv_heads, dim]``; a page is ``PAGE`` consecutive slots.
        v_pool: As ``k_pool``.
        tables: Pages, int32 ``[sequences, most pages]``.
        lengths: Tokens, int32 ``[sequences]``, each at least 1.

    Returns:
        ``[sequences, heads, dim]``, as ``q``.
    """
    n, heads, dim = q.shape
    kv_heads = k_pool.shape[1]
    splits = 1
    while splits < 64 and n * kv_heads * splits < PROGRAMS:
        splits *= 2
    partial = torch.empty(n, heads, splits, dim, dtype=torch.float32, device=q.device)
    sums = torch.empty(n, heads, splits, 2, dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    _splits[(n, kv_heads, splits)](
        q, k_pool, v_pool, tables, lengths, partial, sums,
        dim**-0.5, tables.stride(0), k_pool.stride(0),
        num_heads=heads, num_kv_heads=kv_heads, dim=dim,
        page_size=PAGE, tile=TILE, num_splits=splits,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    _join[(n * heads,)](partial, sums, out, dim=dim, num_splits=splits, num_warps=4)
    return out
