#===- test_phases.py - Kernels of several phases --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that kernels of several phases have the bits of the NumPy model and the reference
# interpreter: reductions over tensors and models, and scales of whole tensors, for every division
# of the work.
#
#===----------------------------------------------------------------------===#

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tandem
from model import (GRAPHS, SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY,
                   TENSOR_STRATEGIES, Strategy, cases, flags, plane_groups, step, steps, traces)
from model.formats import encode
from model.metrics import effective_update, tree_sum
from model.scaled import WHOLE, Scaled
from model.storage import Draw, Plain
from support.codes import CODES, SCALES, SWAP, WITH_NAN, groups_of_values, values
from support.kernels import (ISAS, SEED, STEP, STRATEGY_PATH, assert_same, check_all, compiled,
                             integers_of, require_isa, run, run_plan, seed_of, strategy_text, write_strategies)
from support.launch import Tensor, aligned_copy, launch

REDUCING = [graph for graph in GRAPHS if GRAPHS[graph].reduces]
LIBRARY = STRATEGIES | SCALED_LIBRARY
ALL = LIBRARY | TENSOR_STRATEGIES
CHIPS = ("sm_80", "sm_90", "sm_100")
# The sizes are around powers of two, where trees change, and some have several chunks.
SIZES = (0, 1, 2, 3, 4, 70001, 4095, 4096, 4097, 0, 131)
SMALL = (17, 0, 1, 2, 3, 300, 515)

reducing = pytest.mark.parametrize(
    "graph, strategy", [(g, s) for g in REDUCING for s in LIBRARY])
tensor_wide = pytest.mark.parametrize("strategy", TENSOR_STRATEGIES)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Returns a folder of strategy files that are not in the library."""
    directory = tmp_path_factory.mktemp("tensor")
    write_strategies(directory, TENSOR_STRATEGIES)
    return str(directory)


def examples(graph, strategy, kind, sizes):
    """Returns the planes of one tensor for each size."""
    return [cases.state(graph, ALL[strategy], kind, size,
                        seed_of(graph, strategy, kind, size, i))
            for i, size in enumerate(sizes)]


def rows_of(graph, strategy):
    """Returns two rows of scalars."""
    typical = cases.hypers(graph, ALL[strategy])
    others = {"lr": 0.25, "weight_decay": 0.0}
    return [typical, typical | {name: others[name] for name in others if name in typical}]


def want_of(graph, strategy, tensors, rows):
    """Returns the model's results; tensors use the rows alternately."""
    return steps(graph, ALL[strategy], tensors,
                 [rows[i % len(rows)] for i in range(len(tensors))],
                 [Draw(SEED, i, 0, STEP) for i in range(len(tensors))])


def check(graph, strategy, tensors, path, threads=1, context="", **options):
    """Asserts that one launch of all tensors follows the model."""
    kernel, rows = (compiled(graph, strategy, path=(path,), **options),
                    rows_of(graph, strategy))
    got = run_plan(kernel, tensors, rows, [i % 2 for i in range(len(tensors))],
                   threads=threads)
    check_all(got, tensors, want_of(graph, strategy, tensors, rows),
              f"{graph} under {strategy}, {context}")


def interpreted(graph, strategy, planes, hypers, path, key=0):
    got = {name: plane.copy() for name, plane in planes.items()}
    tandem.interpret(graph, strategy, got, hypers, path=[path, STRATEGY_PATH], step=STEP, seed=SEED,
                     key=key)
    return got


#===----------------------------------------------------------------------===#
# Sums
#===----------------------------------------------------------------------===#


@pytest.mark.thinned(1)
@reducing
def test_sizes(graph, strategy, path):
    """Trees of every shape agree, on one thread and on two."""
    tensors = examples(graph, strategy, "ordinary", SIZES)
    for threads in (1, 2):
        check(graph, strategy, tensors, path, threads, f"{threads} threads")


@pytest.mark.thinned(1, times=3)
@reducing
def test_kinds(graph, strategy, path):
    """Adversarial tensors agree, separately and together."""
    kinds = cases.KINDS if strategy in STRATEGIES else cases.SCALED_KINDS
    tensors = []
    for kind in kinds:
        own = examples(graph, strategy, kind, (33, 300))
        check(graph, strategy, own, path, context=kind)
        tensors += own
    check(graph, strategy, tensors, path, context="all kinds")


def constant_planes(graph, strategy, size, **of_roles):
    """Returns planes that are constant except for one element: (constant, element) by role."""
    planes = {}
    for role in GRAPHS[graph].roles:
        constant, element = of_roles.get(role, (1e-3, 1e-3))
        x = np.full(size, constant, np.float32)
        x[size // 2 : size // 2 + 1] = element
        planes |= ALL[strategy].storage(role).encode(role, x, Draw())
    return planes


# Norms that are zero, infinite or NaN, or that overflow in an intermediate result.
NORMS = {
    "no gradient": {"grad": (0.0, 0.0)},
    "no param": {"param": (0.0, -0.0)},
    "nothing": {"grad": (0.0, 0.0), "exp_avg": (-0.0, -0.0), "param": (0.0, 0.0)},
    # The second row has no weight decay.
    "no update": {"grad": (0.0, 0.0), "exp_avg": (-0.0, 0.0), "param": (0.5, 1.0)},
    "negative zeros": {role: (-0.0, -0.0) for g in REDUCING for role in GRAPHS[g].roles},
    "one infinity": {"grad": (1e-3, np.inf)},
    "one NaN": {"grad": (1e-3, np.nan)},
    "infinite param": {"param": (1.0, -np.inf)},
    "NaN in param": {"param": (1.0, np.nan)},
    "overflow": {"grad": (3e19, 1e20), "param": (2e19, 3e19)},
    "subnormal squares": {"grad": (1e-21, 1e-20), "param": (1e-20, -1e-21)},
    "vanishing squares": {"grad": (1e-30, 1e-30), "param": (1e-30, 1e-30)},
    "one giant": {"grad": (1.0, 4096.0), "param": (1.0, 4097.0)},
}


@pytest.mark.thinned(1, times=2)
@pytest.mark.parametrize("norm", NORMS)
@reducing
def test_norms(graph, strategy, norm, path):
    tensors = [constant_planes(graph, strategy, size, **NORMS[norm]) for size in (1, 40, 257)]
    check(graph, strategy, tensors, path, context=norm)
    # These tensors are among ordinary ones.
    tensors += [constant_planes(graph, strategy, 19), constant_planes(graph, strategy, 0)]
    check(graph, strategy, tensors, path, context=f"{norm} and others")


@pytest.mark.thinned(1)
@reducing
def test_interpreter(graph, strategy, path):
    """The interpreter of the source graph follows the model."""
    model, hypers = ALL[strategy], cases.hypers(graph, ALL[strategy])
    tensors = [planes for kind in ("ordinary", "mixed", "bits", "zeros")
               for planes in examples(graph, strategy, kind, (0, 1, 3, 67))]
    tensors += [constant_planes(graph, strategy, 5, **norm) for norm in NORMS.values()]
    for i, planes in enumerate(tensors):
        want = step(graph, model, planes, hypers, STEP, SEED)
        assert_same(interpreted(graph, strategy, planes, hypers, path), planes | want,
                    f"tensor {i}")


def test_cases_are_not_trivial():
    """The cases have trust ratios other than 1, and clipped and unclipped gradients."""
    hypers = cases.hypers("adamw_clip")
    big, small = (examples("adamw_clip", "fp32", kind, (300,))[0]["grad"].view(np.float32)
                  for kind in ("ordinary", "subnormal"))
    norms = [np.sqrt(tree_sum(x * x)) for x in (big, small)]
    assert norms[0] > hypers["max_norm"] > norms[1]
    planes = examples("lamb", "fp32", "ordinary", (300,))[0]
    lamb, adamw = (step(graph, STRATEGIES["fp32"], planes, cases.hypers("lamb"), STEP)
                   for graph in ("lamb", "adamw"))
    assert (lamb["param"] != adamw["param"]).mean() > 0.5
    assert (lamb["exp_avg"] == adamw["exp_avg"]).all()


@pytest.mark.parametrize("threads", (1, 2, 3, 7))
def test_many_tensors(threads, path):
    """There are more tensors than a block has elements, most of them tiny."""
    sizes = np.random.default_rng(1).integers(0, 40, 700).tolist() + [9000]
    for graph, strategy in (("adamw_clip", "collage-plus"), ("lamb", "fp8-lm")):
        check(graph, strategy, examples(graph, strategy, "ordinary", sizes), path,
              threads)


def test_many_parts(path):
    """The parts of a tensor, and those of a model, are added in pairs."""
    sizes = [chunks * 4096 - 7 for chunks in (4, 5, 6, 7)]
    for graph in ("lamb", "adamw_clip"):
        check(graph, "fp32", examples(graph, "fp32", "ordinary", sizes), path)


NEGATIVE_ZEROS = """
func.func @sums(%w: tensor<?xf32> {tandem.role = #tandem.role<param "w">},
                %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">}) -> tensor<?xf32> {
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %w, %c0 : tensor<?xf32>
  %total = linalg.reduce { arith.addf } ins(%g : tensor<?xf32>) outs(%none : tensor<f32>)
      dimensions = [0]
  %sum = tensor.extract %total[] : tensor<f32>
  %new = tensor.splat %sum[%size] : tensor<?xf32>
  return %new : tensor<?xf32>
}
"""


@pytest.mark.parametrize("size", (1, 3, 70, 4099))
def test_sums_are_padded_with_negative_zeros(size):
    """A sum of only -0.0 is -0.0, for any padding of blocks, warps and trees."""
    def planes():
        return {"w": np.ones(size, np.float32),
                "g": np.full(size, -0.0, np.float32)}
    results = [planes() for _ in range(6)]
    tandem.interpret(NEGATIVE_ZEROS, "fp32", results[0], {})
    for got, width in zip(results[1:], (0, 1, 8, 64)):
        tandem.compile(NEGATIVE_ZEROS, "fp32", width=width)(got)
    tensor = Tensor(results[5])
    launch(tandem.compile(NEGATIVE_ZEROS, "fp32", "sm_90"), [tensor], [{}],
           chunk_size=1024)
    results[5] = tensor.planes
    for got in results:
        assert (got["w"].view(np.uint32) == 0x80000000).all()


VARIED = ("collage-plus", "fp32", "bf16-stochastic", "fp8-lm", "tensor-coat",
          "tensor-delayed", "tensor-delayed-codes")


@pytest.mark.thinned(1)
@pytest.mark.parametrize("strategy", VARIED)
@pytest.mark.parametrize("options", [{"isa": isa} for isa in ISAS]
                         + [{"width": width} for width in (1, 8, 16, 64)], ids=str)
def test_instruction_sets_and_widths(options, strategy, path):
    require_isa(options.get("isa", ISAS[0]))
    for graph in REDUCING:
        check(graph, strategy, examples(graph, strategy, "ordinary", (5000, *SMALL)),
              path, **options)


def test_many_steps(path):
    """A step reads the states that the previous step has written."""
    for graph in REDUCING:
        for strategy in ("collage-plus", "fp8-lm", "tensor-collage", "tensor-delayed",
                         "tensor-delayed-codes"):
            kernel = compiled(graph, strategy, path=(path,))
            hypers, mine = cases.hypers(graph, ALL[strategy], lr=0.02), None
            planes = mine = examples(graph, strategy, "ordinary", (333,))[0]
            for number in range(1, 9):
                fresh = cases.state(graph, ALL[strategy], "ordinary", 333, number)
                grad = {n: p for n, p in fresh.items() if n.startswith("grad")}
                planes, mine = planes | grad, mine | grad
                planes |= step(graph, ALL[strategy], planes, hypers, number, SEED)
                mine = run(kernel, mine, hypers, step=number)
                assert_same(mine, planes, f"{graph} under {strategy}, step {number}")


@pytest.mark.parametrize("graph", REDUCING)
def test_flags(graph):
    """A nonfinite gradient is reported even if a norm is computed from it."""
    kernel, hypers = compiled(graph, "bf16", flags=True), cases.hypers(
        graph, STRATEGIES["bf16"])
    for name, norm in NORMS.items():
        planes = constant_planes(graph, "bf16", 70, **norm)
        got = {n: p.copy() for n, p in planes.items()}
        raised = kernel(got, **hypers, **integers_of(kernel, 1))
        assert raised == flags(graph, STRATEGIES["bf16"], planes), name


def check_metrics(kernel, graph, model, before):
    """Asserts that a launch's metrics match the model's intended and effective updates."""
    after = [{n: p.copy() for n, p in planes.items()} for planes in before]
    plan, hypers = tandem.Plan(kernel), cases.hypers(graph, model)
    plan.update([len(p["grad"]) for p in before],
                [[p[q.name].ctypes.data for q in kernel.planes] for p in after])
    scalars = kernel.scalars(hypers | integers_of(kernel))
    plan.launch([scalars[0]], [scalars[1]])
    draws = [Draw(SEED, i, 0, STEP) for i in range(len(before))]
    traced = traces(graph, model, before, [hypers] * len(before), draws)
    for i, (new, intended) in enumerate(traced):
        assert_same(after[i], before[i] | new, f"tensor {i}")
        change = effective_update(model.storage("param"), "param", before[i], new)
        asked = intended != 0
        assert plan.metrics(i) == [tree_sum(intended * change), tree_sum(intended**2),
                                   np.count_nonzero(asked & (change == 0)),
                                   np.count_nonzero(asked)]


@pytest.mark.parametrize("strategy", ("bf16", "collage-plus", "fp32", "master-weights"))
@pytest.mark.parametrize("graph", REDUCING)
def test_metrics(graph, strategy):
    """The intended update contains the reductions."""
    check_metrics(compiled(graph, strategy, metrics=True), graph, ALL[strategy],
                  examples(graph, strategy, "ordinary", (300, 1, 5000)))


def test_sums():
    """A plan returns the sums of its last launch: over the model for "adamw_clip", over each tensor
    for "lamb"."""
    given = [cases.state("lamb", STRATEGIES["fp32"], "ordinary", size, 3) for size in (300, 1, 5000)]
    squares = {role: [tree_sum(np.square(planes[role].view(np.float32))) for planes in given]
               for role in ("grad", "param")}
    clip = launched("adamw_clip", given)
    assert [clip.sum(0, tensor) for tensor in range(3)] == [tree_sum(squares["grad"])] * 3
    lamb = launched("lamb", given)
    assert [lamb.sum(0, tensor) for tensor in range(3)] == squares["param"]
    for reduction, tensor, message in ((1, 0, "there is no reduction 1 in a kernel of 1"),
                                       (0, 3, "there is no tensor 3 in a plan of 3")):
        with pytest.raises(ValueError, match=message):
            clip.sum(reduction, tensor)


def launched(graph, given):
    """Returns a plan that has taken a step of copies of tensors in f32."""
    kernel, copies = compiled(graph, "fp32"), [{n: p.copy() for n, p in planes.items()} for planes in given]
    plan = tandem.Plan(kernel)
    plan.update([len(p["grad"]) for p in copies],
                [[p[q.name].ctypes.data for q in kernel.planes] for p in copies])
    scalars = kernel.scalars(cases.hypers(graph, STRATEGIES["fp32"]) | integers_of(kernel))
    plan.launch([scalars[0]], [scalars[1]])
    return plan


@pytest.mark.parametrize("group", (32, WHOLE))
@pytest.mark.parametrize("graph", ("sgd_momentum", "adamw"))
def test_metrics_under_given_scales(graph, group, tmp_path):
    """A scale that no step writes applies to the value before and after the step."""
    drawn = Strategy(Plain("f32"), Scaled(CODES["e4m3"], group, "f32", "pow2"), Plain("f32"),
                     Plain("f32"))
    given = replace(drawn, param=replace(drawn.param, recipe="given"))
    write_strategies(tmp_path, {"given-param": given})
    kernel = tandem.compile(graph, "given-param", path=[tmp_path], metrics=True)
    check_metrics(kernel, graph, given,
                  [cases.state(graph, drawn, "ordinary", size, 7) for size in (300, 1, 5000)])


#===----------------------------------------------------------------------===#
# Scales of whole tensors
#===----------------------------------------------------------------------===#


@pytest.mark.thinned(1, times=2)
@tensor_wide
@pytest.mark.parametrize("graph", GRAPHS)
def test_tensor_wide(graph, strategy, path):
    for kind in cases.SCALED_KINDS:
        check(graph, strategy, examples(graph, strategy, kind, SMALL), path, context=kind)


@pytest.mark.thinned(1, times=2)
@tensor_wide
@pytest.mark.parametrize("graph", ("adamw", "sgd_nesterov", *REDUCING))
def test_tensor_wide_sizes(graph, strategy, path):
    tensors = examples(graph, strategy, "ordinary", SIZES)
    for threads in (1, 2):
        check(graph, strategy, tensors, path, threads, f"{threads} threads")


@pytest.mark.thinned(1, times=2)
@tensor_wide
@pytest.mark.parametrize("graph", ("adamw", "lion", *REDUCING))
def test_tensor_wide_interpreter(graph, strategy, path):
    hypers = cases.hypers(graph)
    for kind in cases.SCALED_KINDS:
        for planes in examples(graph, strategy, kind, (0, 1, 70)):
            want = step(graph, ALL[strategy], planes, hypers, STEP, SEED)
            assert_same(interpreted(graph, strategy, planes, hypers, path), planes | want,
                        kind)


@tensor_wide
def test_signature(strategy, path):
    kernel = compiled("adamw", strategy, path=(path,))
    groups = plane_groups("adamw", ALL[strategy])
    assert {p.name: WHOLE if p.is_whole_tensor else p.group
            for p in kernel.planes} == groups
    assert WHOLE in groups.values()
    assert all(p.entries(n) == (p.history or 1) for p in kernel.planes if p.is_whole_tensor
               for n in (1, 7, 5000))
    assert {p.entries(0) for p in kernel.planes} == {0}
    lines = [line for line in kernel.signature.splitlines() if "scale" in line]
    assert any(line.endswith(" for the tensor") for line in lines)
    assert str(WHOLE) not in kernel.signature


def swap_cases(storage):
    """Returns tensors of values whose largest magnitude is at various places, and old planes."""
    rng = np.random.default_rng(5)
    groups = groups_of_values(storage.code.largest).reshape(-1, 16)
    tensors = [g.copy() for g in groups[rng.permutation(len(groups))[:150]]]
    tensors += [values(rng, size) for size in (1, 2, 100, 4097)]
    tensors += [np.full(40, x, np.float32) for x in (0.0, -0.0, np.nan, np.inf, 3e38)]
    for x in tensors:
        old = cases.stored(storage, "w", rng.permutation(x), rng)
        yield x, {n: rng.integers(0, 1 << 8 * p.itemsize, len(p)).astype(p.dtype)
                  if rng.random() < 0.3 else p for n, p in old.items()}


def check_swaps(storage, tmp_path):
    """Asserts that values are encoded and old planes are decoded as in the model."""
    strategy = Strategy(Plain("f32"), storage, Plain("f32"), Plain("f32"))
    (tmp_path / "swapped.mlir").write_text(strategy_text("swapped", strategy))
    kernel = tandem.compile(SWAP, "swapped", path=[tmp_path])
    tensors, want = [], []
    for x, old in swap_cases(storage):
        tensors.append(old | {"g": x.view(np.uint32),
                              "read": np.zeros(len(x), np.uint32)})
        want.append(storage.renew(old, "w", x, Draw(SEED, len(want), 0, STEP))
                    | {"read": encode("f32", storage.decode(old, "w")[:len(x)])})
    check_all(run_plan(kernel, tensors, [{}], threads=2), tensors, want, storage)
    for key, (planes, new) in list(enumerate(zip(tensors, want)))[::30]:
        got = {n: p.copy() for n, p in planes.items()}
        tandem.interpret(SWAP, "swapped", got, {}, path=[tmp_path], step=STEP, seed=SEED,
                         key=key)
        assert_same(got, planes | new, f"{storage}, interpreted")


@pytest.mark.thinned(1)
@pytest.mark.parametrize("scale, recipe", SCALES)
@pytest.mark.parametrize("code", WITH_NAN)
def test_codes(code, scale, recipe, tmp_path):
    """Every code works with every recipe."""
    check_swaps(Scaled(CODES[code], WHOLE, scale, recipe), tmp_path)


HISTORIES = [(1, 0), (2, 16), (16, 1), (1024, 0)]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("scale, recipe", [s for s in SCALES if s[1] != "given"])
@pytest.mark.parametrize("code", ("e4m3", "e5m2", "f16", "pair", "softsign", "root",
                                  "unsigned", "tiny", "drawn", "wide-drawn"))
def test_delayed_codes(code, scale, recipe, tmp_path):
    """Histories contain numbers, and bit patterns that are not numbers."""
    history, margin = HISTORIES[seed_of(code, scale, recipe) % len(HISTORIES)]
    check_swaps(Scaled(CODES[code], WHOLE, scale, recipe, history, margin), tmp_path)


#===----------------------------------------------------------------------===#
# PTX
#===----------------------------------------------------------------------===#


def check_ptx(graph, strategy, chip, tensors, path, offset=0, **options):
    """Asserts that PTX, CPU kernel and model agree on every plane."""
    ptx, cpu = (compiled(graph, strategy, target, path=(path,))
                for target in (chip, "cpu"))
    rows, turns = rows_of(graph, strategy), [i % 2 for i in range(len(tensors))]
    launched = [Tensor({n: aligned_copy(p, offset) for n, p in planes.items()}, key=i,
                       row=i % 2) for i, planes in enumerate(tensors)]
    launch(ptx, launched, [row | integers_of(ptx) for row in rows], **options)
    context = f"{graph} under {strategy} on {chip}, {options}"
    got = [tensor.planes for tensor in launched]
    check_all(got, tensors, run_plan(cpu, tensors, rows, turns), f"{context}, CPU")
    check_all(got, tensors, want_of(graph, strategy, tensors, rows), context)


@pytest.mark.thinned(1, times=2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("strategy", ("collage-plus", "bf16-stochastic", "fp32", "flash",
                                      "f16-collage-light", *TENSOR_STRATEGIES))
@pytest.mark.parametrize("graph", REDUCING)
def test_ptx(graph, strategy, chip, path):
    for kind in ("ordinary", "mixed"):
        check_ptx(graph, strategy, chip, examples(graph, strategy, kind, SMALL), path,
                  chunk_size=256, threads=64)


@pytest.mark.parametrize("chip", CHIPS)
@tensor_wide
def test_ptx_tensor_wide(strategy, chip, path):
    for kind in cases.SCALED_KINDS:
        tensors = examples("adamw", strategy, kind, (1, 0, 31, 300))
        check_ptx("adamw", strategy, chip, tensors, path, chunk_size=128, threads=32)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("chunk_size", (256, 1024, 4096))
@pytest.mark.parametrize("threads", (32, 64, 128, 256))
@pytest.mark.parametrize("blocks", (1, 2, 5))
@pytest.mark.parametrize("graph, strategy", [
    ("lamb", "collage-plus"), ("adamw_clip", "fp32"), ("lamb", "fp8-lm"),
    ("adamw", "tensor-coat"), ("adamw", "tensor-delayed")])
def test_grids(graph, strategy, blocks, threads, chunk_size, path):
    """Grid, block and chunks divide the work without changing bits."""
    tensors = examples(graph, strategy, "ordinary", (257, 0, 1100, 3, 2049))
    check_ptx(graph, strategy, "sm_90", tensors, path, blocks=blocks, threads=threads,
              chunk_size=chunk_size)


def test_many_tensors_ptx(path):
    """There are more tensors than threads, and more chunks than threads."""
    sizes = np.random.default_rng(2).integers(0, 9, 150).tolist() + [2100]
    for graph, strategy in (("adamw_clip", "fp32"), ("lamb", "bf16")):
        tensors = examples(graph, strategy, "ordinary", sizes)
        for blocks in (1, 4):
            check_ptx(graph, strategy, "sm_90", tensors, path, blocks=blocks, threads=32,
                      chunk_size=32)


@pytest.mark.parametrize("strategy", ("collage-plus", "fp32", "fp8-lm"))
def test_misaligned_ptx(strategy, path):
    tensors = examples("lamb", strategy, "mixed", SMALL)
    check_ptx("lamb", strategy, "sm_90", tensors, path, offset=1, chunk_size=256)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("graph", REDUCING)
def test_norms_ptx(graph, norm, path):
    for strategy in ("collage-plus", "fp32", "fp8-lm"):
        tensors = [constant_planes(graph, strategy, size, **NORMS[norm]) for size in (1, 70)]
        tensors.append(constant_planes(graph, strategy, 19))
        check_ptx(graph, strategy, "sm_90", tensors, path)


#===----------------------------------------------------------------------===#
# Hand-written kernels
#===----------------------------------------------------------------------===#

# Reductions of each kind over each scope; the second one depends on the first.
BY_HAND = """
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!scaled = !tandem.stored<tensor<?xf32>,
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">
#q = #tandem.role<state "q">
tandem.kernel @by_hand compute(<f32, f32>) tensors [#p, #q] scalars [] prologue {{
  tandem.yield
}} body {{
^bb0(%p: !f32, %q: !scaled):
  %x = tandem.load_plane %p[0] : !f32 -> f32
  %old = tandem.load_plane %q[1] : !scaled -> f32
  %code = tandem.load_plane %q[0] : !scaled -> i8
  %sum = tandem.reduce sum %x over {scope} : f32
  %size = tandem.size : i64
  %count = arith.sitofp %size : i64 to f32
  %mean = arith.divf %sum, %count : f32
  %y = arith.subf %x, %mean : f32
  %bits = arith.bitcast %y : f32 to i32
  %most = tandem.reduce {kind} %bits over {scope} : i32
  %scale = arith.bitcast %most : i32 to f32
  tandem.store_plane %mean, %q[1] : f32, !scaled
  %wide = arith.extui %code : i8 to i32
  %real = arith.uitofp %wide : i32 to f32
  %z = arith.mulf %real, %scale : f32
  %new = arith.addf %z, %old : f32
  tandem.store_plane %new, %p[0] : f32, !f32
  tandem.store_plane %code, %q[0] : i8, !scaled
  tandem.yield
}}
"""


def by_hand(tensors, kind, scope):
    """Computes the steps of BY_HAND in NumPy."""
    extreme = {"max": np.max, "min": np.min}[kind]

    def over(f, parts):
        own = [f(part) for part in parts]
        return own if scope == "tensor" else [f(np.array(own))] * len(parts)

    x = [t["p"].view(np.float32) for t in tensors]
    with np.errstate(all="ignore"):
        mean = [s / np.float32(len(a)) for s, a in zip(over(tree_sum, x), x)]
        bits = [(a - m).view(np.uint32) for a, m in zip(x, mean)]
        most = over(extreme, bits)
        return [{"p": encode("f32", t["q"].astype(np.float32) * m.view(np.float32)
                             + t["q.scale"].view(np.float32)),
                 "q.scale": encode("f32", mean[i : i + 1])}
                for i, (t, m) in enumerate(zip(tensors, most))]


def by_hand_tensors(sizes):
    rng = np.random.default_rng(len(sizes))
    return [{"p": rng.uniform(0, 1 << i, size).astype(np.float32).view(np.uint32),
             "q": rng.integers(0, 256, size).astype(np.uint8),
             "q.scale": rng.uniform(0, 9, 1).astype(np.float32).view(np.uint32)}
            for i, size in enumerate(sizes)]


@pytest.mark.parametrize("scope", ("tensor", "model"))
@pytest.mark.parametrize("kind", ("max", "min"))
def test_by_hand(kind, scope):
    """A kernel with three phases and an epilogue works on both targets."""
    text = BY_HAND.format(kind=kind, scope=scope)
    tensors = by_hand_tensors((1, 5000, 3, 64, 70001))
    kernel = tandem.compile(text)
    assert kernel.phases == 3 and kernel._native.epilogues
    want = by_hand(tensors, kind, scope)
    for threads in (1, 2):
        check_all(run_plan(kernel, tensors, [{}], threads=threads), tensors, want, "CPU")
    tensors = tensors[:4]
    launched = [Tensor({n: aligned_copy(p) for n, p in t.items()}) for t in tensors]
    launch(tandem.compile(text, target="sm_90"), launched, [{}], blocks=2, threads=64,
           chunk_size=1024)
    check_all([t.planes for t in launched], tensors, by_hand(tensors, kind, scope), "PTX")


@pytest.mark.parametrize("scope", ("tensor", "model"))
@pytest.mark.parametrize("kind", ("max", "min"))
def test_by_hand_interpreted(kind, scope):
    text = BY_HAND.format(kind=kind, scope=scope)
    for planes in by_hand_tensors((1, 2, 700)):
        got = {n: p.copy() for n, p in planes.items()}
        tandem.interpret(text, None, got, {})
        check_all([got], [planes], by_hand([planes], kind, scope), "interpreted")


@pytest.mark.parametrize("graph, strategy", [
    ("lamb", "collage-plus"), ("adamw_clip", "fp32"), ("lamb", "fp8-lm"),
    ("adamw", "tensor-collage"), ("adamw", "tensor-and-groups"),
    ("adamw", "tensor-delayed"), ("lamb", "tensor-delayed-codes"),
    ("adamw", "tensor-given")])
def test_kernels_interpreted(graph, strategy, path):
    """The kernel before its phases are split has the same meaning."""
    kernel, hypers = (compiled(graph, strategy, path=(path,)),
                      cases.hypers(graph, ALL[strategy]))
    for kind in ("ordinary", "mixed"):
        for planes in examples(graph, strategy, kind, (0, 1, 70, 600)):
            got = {n: p.copy() for n, p in planes.items()}
            tandem.interpret(kernel.ir, None, got, hypers, step=STEP)
            want = step(graph, ALL[strategy], planes, hypers, STEP)
            assert_same(got, planes | want, kind)


TANDEM_OPT = Path(tandem._tandem.__file__).parents[2] / "bin/tandem-opt"
needs_tandem_opt = pytest.mark.skipif(not TANDEM_OPT.exists(),
                                      reason="tandem-opt is not beside the package")


def optimized(text, *passes):
    """Returns the output of tandem-opt for MLIR text."""
    done = subprocess.run([TANDEM_OPT, *passes], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_tandem_opt
@pytest.mark.parametrize("passes", [[], ["-tandem-emulate-floats"],
                                    ["-tandem-emulate-floats", "-tandem-widen=width=8"]],
                         ids=len)
@pytest.mark.parametrize("graph, strategy", [
    ("lamb", "collage-plus"), ("adamw_clip", "fp32"), ("lamb", "fp8-lm"),
    ("adamw", "tensor-and-groups"), ("adamw", "tensor-delayed"),
    ("lamb", "tensor-delayed-codes")])
def test_phases_interpreted(graph, strategy, passes, path):
    """The launches of a step are interpreted in sequence."""
    kernel, hypers = (compiled(graph, strategy, path=(path,)),
                      cases.hypers(graph, ALL[strategy]))
    text = optimized(kernel.ir, "-tandem-split-phases", *passes)
    assert text.count("tandem.launch ") > 1
    for planes in examples(graph, strategy, "mixed", (0, 1, 70, 600)):
        got = {n: p.copy() for n, p in planes.items()}
        tandem.interpret(text, None, got, hypers, step=STEP)
        want = step(graph, ALL[strategy], planes, hypers, STEP)
        assert_same(got, planes | want, f"{len(planes['param'])} elements")


@needs_tandem_opt
def test_separated_phases_are_not_compiled():
    text = optimized(compiled("lamb", "fp32").ir, "-tandem-split-phases")
    with pytest.raises(ValueError, match="'lamb' is a step, whose launches are separated "
                       "already; compile the kernel as it was before -tandem-split-phases"):
        tandem.compile(text)


@needs_tandem_opt
@pytest.mark.parametrize("name, strategy", [("sgd", "bf16"), ("sgd_momentum", "triple")])
def test_a_body_without_its_policy_is_not_interpreted(name, strategy):
    """Its f32 operations are not what the kernel computes, even if components are f32."""
    triple = (
        "tandem.strategy @triple compute(<component, f32>) {\n"
        "  tandem.assign grad = #tandem.float<f32>\n"
        "  tandem.assign param = #tandem.expansion<f32 x 3>\n"
        "  tandem.assign state = #tandem.expansion<f32 x 3>\n}\n")
    graph = triple + (Path(__file__).parents[3] / f"lib/Graphs/{name}.mlir").read_text()
    passes = ["-tandem-recognize-updates",
              f"-tandem-apply-strategy=strategy={strategy}",
              "-tandem-form-kernel"]
    with pytest.raises(ValueError, match=f"kernel '{name}' computes in components that its "
                       "body does not have yet; run -tandem-apply-policy first"):
        tandem.interpret(optimized(graph, *passes), None, {}, {})
    with pytest.raises(ValueError, match="'param'"):
        tandem.interpret(optimized(graph, *passes, "-tandem-apply-policy"), None, {}, {})


#===----------------------------------------------------------------------===#
# Refusals
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("graph, strategy", [(g, "bf16") for g in REDUCING]
                         + [("adamw", "fp8-lm"), ("lamb", "fp8-lm")])
def test_shards(graph, strategy, path):
    """The kernel, the interpreter and the model refuse parts of tensors."""
    kernel = compiled(graph, strategy, path=(path,))
    planes, hypers = (examples(graph, strategy, "ordinary", (64,))[0],
                      cases.hypers(graph, ALL[strategy]))
    for first in (1, 4096, 2**40):
        with pytest.raises(ValueError, match=f"first is {first}, but the kernel works "
                           "on whole tensors; pass the unsharded tensor"):
            run(kernel, planes, hypers, first=first)
        with pytest.raises(ValueError, match="takes the whole tensor, but element 0 is "
                           f"number {first} of the unsharded tensor; pass the unsharded tensor"):
            tandem.interpret(graph, strategy, planes, hypers, path=[path], first=first)
        with pytest.raises(ValueError, match="pass the unsharded tensor"):
            step(graph, ALL[strategy], planes, hypers, 1, first=first)


def test_kernel_of_a_shard():
    planes = by_hand_tensors((64,))[0]
    text = BY_HAND.format(kind="max", scope="tensor")
    with pytest.raises(ValueError, match="takes the whole tensor, but element 0 is "
                       "number 8"):
        tandem.interpret(text, None, planes, {}, first=8)


@pytest.mark.parametrize("name", TENSOR_LIBRARY)
def test_library(name, path):
    """The library's strategies match the files that the model writes."""
    library, written = compiled("adamw", name), compiled("adamw", name, path=(path,))
    assert library.storages == written.storages


def test_entries_of_a_scale(path):
    """A whole tensor has one scale."""
    kernel = compiled("adamw", "fp8-lm", path=(path,))
    planes = examples("adamw", "fp8-lm", "ordinary", (33,))[0]
    planes["exp_avg.scale"] = np.zeros(2, np.uint32)
    with pytest.raises(ValueError, match="'exp_avg.scale' has 2 elements, '.*' has 33; a "
                       "whole tensor shares one entry"):
        run(kernel, planes, cases.hypers("adamw"))
    with pytest.raises(ValueError, match="plane 'exp_avg.scale' has 2 elements, but "
                       "'.*' has 33; a whole tensor shares one entry"):
        tandem.interpret("adamw", "fp8-lm", planes, cases.hypers("adamw"), path=[path])
