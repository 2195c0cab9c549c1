#===- triton_kernels.py - Updates in Triton --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements AdamW under three strategies in Triton as its users would write it: one pass
# over memory, and one launch per tensor.
#
#===----------------------------------------------------------------------===#
"""`step(strategy, planes)` updates planes in place."""

import triton
import triton.language as tl

import references

BLOCK = 1024


@triton.jit
def moments(g, m, v, b1, c1, b2, c2):
    return b1 * m + c1 * g, b2 * v + c2 * (g * g)


@triton.jit
def moved(p, m, v, r1, r2, eps, neg_lr, decay):
    update = (m * r1) / (tl.sqrt(v * r2) + eps) + decay * p
    return p + neg_lr * update


@triton.jit
def fp32(p_at, g_at, m_at, v_at, n, b1, c1, b2, c2, r1, r2, eps, neg_lr, decay,
         BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p, g = tl.load(p_at + i, mask=inside), tl.load(g_at + i, mask=inside)
    m, v = tl.load(m_at + i, mask=inside), tl.load(v_at + i, mask=inside)
    m, v = moments(g, m, v, b1, c1, b2, c2)
    tl.store(p_at + i, moved(p, m, v, r1, r2, eps, neg_lr, decay), mask=inside)
    tl.store(m_at + i, m, mask=inside)
    tl.store(v_at + i, v, mask=inside)


@triton.jit
def r(x):
    return x.to(tl.bfloat16).to(tl.float32)


@triton.jit
def grown(x, y, a):
    u = r(x + a)
    t = r(y + r(a - r(u - x)))
    s = r(u + t)
    return s, r(t - r(s - u))


@triton.jit
def collage_plus(p_at, q_at, g_at, m_at, v_at, w_at, n, b1, c1, b2, db2, c2, r1, r2, eps,
                 neg_lr, decay, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p = tl.load(p_at + i, mask=inside).to(tl.float32)
    q = tl.load(q_at + i, mask=inside).to(tl.float32)
    g = tl.load(g_at + i, mask=inside).to(tl.float32)
    m = tl.load(m_at + i, mask=inside).to(tl.float32)
    v = tl.load(v_at + i, mask=inside).to(tl.float32)
    w = tl.load(w_at + i, mask=inside).to(tl.float32)
    m = r(r(m * b1) + r(g * c1))
    a = r(r(g * g) * c2)
    x = r(v * b2)
    e = r(r(tl.fma(v, b2, -x)) + r(r(w * b2) + r(v * db2)))
    s = r(x + e)
    v, w = grown(s, r(e - r(s - x)), a)
    d = r(r(tl.sqrt(r(v * r2))) + eps)
    u = r(r(r(m * r1) / d) + r(p * decay))
    p, q = grown(p, q, r(u * neg_lr))
    tl.store(p_at + i, p.to(tl.bfloat16), mask=inside)
    tl.store(q_at + i, q.to(tl.bfloat16), mask=inside)
    tl.store(m_at + i, m.to(tl.bfloat16), mask=inside)
    tl.store(v_at + i, v.to(tl.bfloat16), mask=inside)
    tl.store(w_at + i, w.to(tl.bfloat16), mask=inside)


@triton.jit
def encoded(x, FLOOR: tl.constexpr):
    amax = tl.max(tl.abs(x), axis=1)
    scale = tl.where(amax == 0.0, 1.0, tl.maximum(amax / 448.0, 1.1754943508222875e-38))
    scaled = x / scale[:, None]
    if FLOOR:
        scaled = tl.where(x > 0.0, tl.maximum(scaled, 0.001953125), scaled)
    return scaled.to(tl.float8e4nv), scale


@triton.jit
def e4m3_groups(p_at, g_at, m_at, v_at, ms_at, vs_at, n, b1, c1, b2, c2, r1, r2, eps,
                neg_lr, decay, ROWS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    i = row[:, None] * 128 + tl.arange(0, 128)[None, :]
    inside, has = i < n, row * 128 < n
    p = tl.load(p_at + i, mask=inside).to(tl.float32)
    g = tl.load(g_at + i, mask=inside).to(tl.float32)
    m = tl.load(m_at + i, mask=inside).to(tl.float32)
    v = tl.load(v_at + i, mask=inside).to(tl.float32)
    m *= tl.load(ms_at + row, mask=has)[:, None]
    v *= tl.load(vs_at + row, mask=has)[:, None]
    m, v = moments(g, m, v, b1, c1, b2, c2)
    p = moved(p, m, v, r1, r2, eps, neg_lr, decay)
    tl.store(p_at + i, p.to(p_at.dtype.element_ty), mask=inside)
    m, ms = encoded(m, False)
    v, vs = encoded(v, True)
    tl.store(m_at + i, m, mask=inside)
    tl.store(v_at + i, v, mask=inside)
    tl.store(ms_at + row, ms, mask=has)
    tl.store(vs_at + row, vs, mask=has)


def step(strategy, planes):
    """Takes one step in place."""
    n = planes["param"].numel()
    b1, c1, b2, *rest = references.scalars()
    grid = (triton.cdiv(n, BLOCK),)
    if strategy == "fp32":
        arrays = [planes[k] for k in ("param", "grad", "exp_avg", "exp_avg_sq")]
        fp32[grid](*arrays, n, b1, c1, b2, *rest, BLOCK=BLOCK)
    elif strategy == "collage-plus":
        arrays = [planes[k] for k in ("param", "param.lo", "grad", "exp_avg", "exp_avg_sq",
                                      "exp_avg_sq.lo")]
        high = references.eager_collage._bf16(b2)
        low = references.eager_collage._bf16(b2 - high)
        collage_plus[grid](*arrays, n, b1, c1, high, low, *rest, BLOCK=BLOCK)
    else:
        arrays = [planes[k] for k in ("param", "grad", "exp_avg", "exp_avg_sq",
                                      "exp_avg.scale", "exp_avg_sq.scale")]
        e4m3_groups[grid](*arrays, n, b1, c1, b2, *rest,
                          ROWS=BLOCK // 128)
