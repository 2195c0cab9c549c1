#===- test_ptx.py - Emitted PTX against the model --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the emitted PTX, executed in integer arithmetic, computes what the CPU kernel
# and the NumPy model compute.
#
#===----------------------------------------------------------------------===#

import re

import numpy as np
import pytest

import tandem
from model import (BF16_STRATEGIES, GRAPHS, SCALED_LIBRARY, STRATEGIES, cases,
                   plane_groups, step, steps, takes_whole_tensors)
from model.storage import Draw
from support.kernels import (SEED, STEP, assert_same, compiled, integers_of, run_plan,
                             seed_of)
from support.launch import Tensor, aligned_copy, launch

CHIPS = ("sm_80", "sm_90", "sm_100")
# These sizes include tails of a thread's vector, and several chunks.
SIZES = (1, 17, 300)
ADVERSARIAL = ("mixed", "bits", "subnormal", "huge", "edges", "not_normalized")
LIBRARY = STRATEGIES | SCALED_LIBRARY


def examples(graph, strategy, kinds, sizes=SIZES):
    """Returns one set of planes per kind and size."""
    return [cases.state(graph, LIBRARY[strategy], kind, size,
                        seed_of(graph, strategy, kind, size))
            for kind in kinds for size in sizes]


def tensors_of(examples, offset=0, unit=1):
    """Returns copies of the planes as tensors that differ in all their fields; each begins at a
    multiple of `unit`."""
    return [Tensor({n: aligned_copy(p, offset) for n, p in planes.items()},
                   first=unit * (3 * i + offset), key=i, row=i % 2)
            for i, planes in enumerate(examples)]


def rows_of(kernel, graph, strategy):
    """Returns two rows of scalars."""
    typical = cases.hypers(graph, strategy)
    others = {"lr": 0.25, "weight_decay": 0.0}
    return [typical, typical | {name: others[name] for name in others if name in typical}]


def check(graph, strategy, chip, kinds, *, sizes=SIZES, offset=0, **options):
    """Asserts that PTX, CPU kernel and model agree on every plane."""
    ptx, cpu = compiled(graph, strategy, chip), compiled(graph, strategy)
    before = examples(graph, strategy, kinds, sizes)
    is_whole = takes_whole_tensors(graph, LIBRARY[strategy])
    unit = 0 if is_whole else max(plane_groups(graph, LIBRARY[strategy]).values())
    tensors = tensors_of(before, offset, unit)
    rows = rows_of(ptx, graph, LIBRARY[strategy])
    launch(ptx, tensors, [row | integers_of(ptx) for row in rows], **options)
    want = steps(graph, LIBRARY[strategy], before, [rows[t.row] for t in tensors],
                 [Draw(SEED, t.key, t.first, STEP) for t in tensors])
    got = run_plan(cpu, before, rows, [t.row for t in tensors], [t.key for t in tensors],
                   [t.first for t in tensors])
    for i, tensor in enumerate(tensors):
        context = f"{graph} {strategy} {chip} tensor {i}"
        assert_same(tensor.planes, got[i], context)
        assert_same(tensor.planes, want[i], f"{context}, model")


# Chips differ in how they compute bf16; f16 is the same on all.
on_chips = pytest.mark.parametrize(
    "strategy, chip", [(s, c) for s in STRATEGIES for c in CHIPS
                       if s in BF16_STRATEGIES or c == "sm_90"])


@on_chips
def test_adamw(strategy, chip):
    check("adamw", strategy, chip, ADVERSARIAL)


@pytest.mark.parametrize("strategy", ("collage-plus", "bf16", "master-weights"))
@pytest.mark.parametrize("graph", [g for g in GRAPHS if g != "adamw"])
def test_graphs(graph, strategy):
    check(graph, strategy, "sm_90", ADVERSARIAL)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("strategy", ("collage-plus", "master-weights", "fp32",
                                      "bf16-stochastic"))
def test_misaligned(strategy, chip):
    """Addresses that are misaligned by one element take the element-wise path."""
    check("adamw", strategy, chip, ("mixed", "bits"), offset=1)


@pytest.mark.parametrize("blocks", (1, 3))
@pytest.mark.parametrize("threads", (32, 64))
@pytest.mark.parametrize("chunk_size", (8, 40, 104, 4096))
def test_grids(blocks, threads, chunk_size):
    """Grid, block and chunks divide the work without changing bits."""
    for strategy in ("collage-plus", "bf16-stochastic"):
        check("adamw", strategy, "sm_90", ("mixed",), blocks=blocks, threads=threads,
              chunk_size=chunk_size)


def test_chunks_begin_anywhere():
    """A chunk that does not begin at a multiple of 8 takes the element-wise path."""
    check("adamw", "collage-plus", "sm_90", ("ordinary",), sizes=(40,), chunk_size=13)


def test_chunk_range():
    """A launch writes only the chunks that it is given."""
    kernel = compiled("adamw", "collage-plus", "sm_90")
    planes = examples("adamw", "collage-plus", ("ordinary",), (300,))[0]
    tensor = tensors_of([planes])[0]
    hypers = cases.hypers("adamw", STRATEGIES["collage-plus"])
    launch(kernel, [tensor], [hypers | integers_of(kernel)], chunk_size=64,
           chunk_range=(1, 3))
    want = step("adamw", STRATEGIES["collage-plus"], planes, hypers, STEP)
    for name, new in want.items():
        assert (tensor.planes[name][64:192] == new[64:192]).all()
        assert (tensor.planes[name][:64] == planes[name][:64]).all()
        assert (tensor.planes[name][192:] == planes[name][192:]).all()


@pytest.mark.parametrize("strategy", ("collage-plus", "fp32-optim", "fp32"))
def test_every_byte_once(strategy):
    """If data are aligned and whole, a thread moves 16 bytes at a time, each once."""
    kernel = compiled("adamw", strategy, "sm_90")
    body = kernel.ptx.split(".entry tandem_adamw(")[1]
    for kind in ("ld", "st"):
        wide = re.findall(rf"{kind}\.global[.\w]*\.v(\d)\.\w(\d+)", body)
        moved = sum(int(count) * int(bits) // 8 for count, bits in wide)
        width = 8
        planes = [p for p in kernel.planes if (p.read if kind == "ld" else p.written)]
        assert moved == width * sum(p.bits // 8 for p in planes), (kind, wide)


@on_chips
def test_arithmetic_is_exact(strategy, chip):
    """Roundings are explicit, subnormals are kept, and no instruction is approximate."""
    text = compiled("adamw", strategy, chip).ptx
    assert not re.search(r"\.(ftz|approx|full)\b", text)
    assert not re.search(r"\b(add|sub|mul|fma|div|sqrt)\.(?!rn\b)\S*\.?(f16|bf16|f32|f64)"
                         r"(x2)?\b", text)


#===----------------------------------------------------------------------===#
# Groups
#===----------------------------------------------------------------------===#

GROUPED = ("flash", "coat", "adam8bit", "fp8-collage-plus")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("strategy", GROUPED)
@pytest.mark.parametrize("kind", cases.SCALED_KINDS)
def test_groups(strategy, kind, chip):
    """Tails of groups, of warps and of chunks are correct, also in several chunks."""
    check("adamw", strategy, chip, (kind,), sizes=(1, 31, 300, 515), chunk_size=256,
          threads=64)


@pytest.mark.parametrize("threads", (32, 64, 128, 256))
@pytest.mark.parametrize("strategy", GROUPED)
def test_grids_of_groups(strategy, threads):
    """Grid, block and chunks divide the work without changing bits."""
    for blocks, chunk_size in ((1, 256), (3, 512), (2, 4096)):
        check("adamw", strategy, "sm_90", ("mixed", "groups"), sizes=(257, 1100),
              blocks=blocks, threads=threads, chunk_size=chunk_size)


@pytest.mark.parametrize("strategy", GROUPED)
def test_misaligned_groups(strategy):
    check("adamw", strategy, "sm_90", ("mixed", "bits"), chunk_size=256, offset=1)


def vector_accesses(kernel, kind):
    """Returns the sorted widths in bits of the vector loads or stores."""
    body = kernel.ptx.split(f".entry tandem_{kernel.name}(")[1]
    return sorted(int(count) * int(bits) for count, bits in re.findall(
        rf"\b{kind}\.global[.\w]*\.v(\d)\.\w(\d+)", body))


def accesses_of(plane):
    """Returns the widths of the accesses to eight elements of a plane; 32-bit elements take two."""
    return [128, 128] if plane.bits == 32 else [8 * plane.bits]


@pytest.mark.parametrize("strategy", SCALED_LIBRARY)
def test_wide_accesses_of_groups(strategy):
    """Eight elements take 128 bits of bf16 and 64 bits of codes, with no narrower access."""
    kernel = compiled("adamw", strategy, "sm_90")
    for kind in ("ld", "st"):
        planes = [p for p in kernel.planes if p.group == 1
                  and (p.read if kind == "ld" else p.written)]
        assert vector_accesses(kernel, kind) == sorted(
            bits for p in planes for bits in accesses_of(p))


@pytest.mark.parametrize("strategy", SCALED_LIBRARY)
def test_one_tree_for_each_reduction(strategy):
    """A thread first reduces its eight elements; 32 / 8, 128 / 8 and 256 / 8 threads then need
    2, 4 and 5 shuffles. There is one tree for each scale that is written, and one for each
    exponent, which depends on the smallest magnitude."""
    kernel = compiled("adamw", strategy, "sm_90")
    text = kernel.ptx.split(".entry tandem_adamw(")[1]
    trees = [p.group // 8 for p in kernel.planes
             if p.is_grouped and p.written and not p.is_packed]
    assert trees
    assert (len(re.findall(r"\bshfl\.sync\.bfly", text))
            == sum(threads.bit_length() - 1 for threads in trees))


#===----------------------------------------------------------------------===#
# Metrics
#===----------------------------------------------------------------------===#


def cpu_metrics(kernel, tensors, rows):
    """Returns the runtime's metrics of each tensor, and the planes after the step."""
    planes = [{n: p.copy() for n, p in t.planes.items()} for t in tensors]
    plan = tandem.Plan(kernel)
    plan.update([t.size for t in tensors],
                [[p[q.name].ctypes.data for q in kernel.planes] for p in planes],
                rows=[t.row for t in tensors], keys=[t.key for t in tensors],
                firsts=[t.first for t in tensors])
    scalars = [kernel.scalars(row | integers_of(kernel)) for row in rows]
    plan.launch([h for h, _ in scalars], [i for _, i in scalars])
    return [plan.metrics(i) for i in range(len(tensors))], planes


def same_sums(got, want):
    """Returns whether bits are equal, with all NaNs counted as equal."""
    got, want = np.array(got), np.array(want)
    return (np.isnan(got) & np.isnan(want)
            | (got.view(np.uint64) == want.view(np.uint64))).all()


def check_metrics(strategy, chip, sizes, kinds=("ordinary", "mixed"), graph="adamw",
                  **options):
    kernels = [compiled(graph, strategy, target, metrics=True)
               for target in ("cpu", chip)]
    unit = 0 if takes_whole_tensors(graph, STRATEGIES[strategy]) else 1
    tensors = tensors_of(examples(graph, strategy, kinds, sizes), unit=unit)
    rows = rows_of(kernels[1], graph, STRATEGIES[strategy])
    want, planes = cpu_metrics(kernels[0], tensors, rows)
    launched = launch(kernels[1], tensors, [r | integers_of(kernels[1]) for r in rows],
                      **options)
    for i, tensor in enumerate(tensors):
        context = f"{strategy} {chip} tensor {i} of {tensor.size}, {options}"
        assert_same(tensor.planes, planes[i], context)
        assert same_sums(launched.metrics(i), want[i]), (
            f"{context}: {launched.metrics(i)} for {want[i]}")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_metrics(strategy):
    """The sums of each chunk agree for tensors of any size."""
    check_metrics(strategy, "sm_90", (0, 1, 15, 17, 600), chunk_size=512, threads=64)


@pytest.mark.parametrize("graph", [g for g in GRAPHS if GRAPHS[g].reduces])
@pytest.mark.parametrize("strategy", ("bf16", "collage-plus", "fp32"))
def test_metrics_beside_sums(graph, strategy):
    """Metrics and sums share the slots of a chunk."""
    check_metrics(strategy, "sm_90", (0, 1, 17, 600), ("ordinary",), graph,
                  chunk_size=512, threads=64)


@pytest.mark.parametrize("chip", CHIPS)
def test_metrics_of_long_chunks(chip):
    """Sums agree over whole blocks of threads, several iterations and several chunks."""
    check_metrics("collage-plus", chip, (4097, 12000), ("ordinary",), chunk_size=8192,
                  threads=256, blocks=2)


@pytest.mark.parametrize("threads", (32, 128, 256))
def test_metrics_of_blocks(threads):
    """The number of threads changes no bit."""
    check_metrics("bf16", "sm_90", (5000,), chunk_size=4096, threads=threads)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_unmeasured_kernels_do_not_meet(strategy):
    """Kernels without metrics have no shuffles, barriers or shared memory."""
    assert not re.search(r"\b(shfl|bar|barrier|shared)\b",
                         compiled("adamw", strategy, "sm_90").ptx)


#===----------------------------------------------------------------------===#
# Rows
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("chunk_size", [512, 4096])
@pytest.mark.parametrize("strategy", ["adam8bit", "coat", "flash", "flash-f16"])
def test_rows(strategy, chunk_size):
    """Groups restart in each row, and sums are computed per row first."""
    cpu, ptx = (compiled("adamw", strategy, target, metrics=True)
                for target in ("cpu", "sm_90"))
    rows, columns, hypers = 5, 300, cases.hypers("adamw", LIBRARY[strategy])
    before = examples("adamw", strategy, ("ordinary", "mixed", "edges", "bits", "subnormal"),
                      (columns,))
    joined = {name: np.concatenate([row[name] for row in before]) for name in before[0]}
    tensor = Tensor({n: aligned_copy(p) for n, p in joined.items()}, key=3,
                    shape=(rows, columns))
    launched = launch(ptx, [tensor], [hypers | integers_of(ptx)], chunk_size=chunk_size,
                      blocks=2, threads=64)
    plan = tandem.Plan(cpu)
    planes = {name: plane.copy() for name, plane in joined.items()}
    plan.update([(rows, columns)], [[planes[p.name].ctypes.data for p in cpu.planes]], keys=[3])
    scalars, integers = cpu.scalars(hypers | integers_of(cpu))
    plan.launch([scalars], [integers])
    assert_same(tensor.planes, planes, strategy)
    assert same_sums(launched.metrics(0), plan.metrics(0))
    draws = [Draw(SEED, 3, i * columns, STEP, columns=columns) for i in range(rows)]
    want = steps("adamw", LIBRARY[strategy], before, [hypers] * rows, draws)
    assert_same(planes, {name: np.concatenate([row[name] for row in want])
                         for name in want[0]}, f"{strategy}, model")
