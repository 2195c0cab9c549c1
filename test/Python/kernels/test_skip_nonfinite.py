#===- test_skip_nonfinite.py - Skipped steps ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that plans and optimizers skip a step if a gradient is not finite, on the CPU and
# on a GPU that the PTX evaluator stands in for.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases
from model.formats import FORMATS
from support.fake_gpu import FakeGPU
from support.kernels import assert_same, compiled, integers_of, run_plan, seed_of

LIBRARY = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
SIZES = (300, 0, 1, 131)
# The cases have bf16, f16, f32 and 8-bit gradients, several phases, and a commit phase.
CASES = [("adamw", "bf16"), ("adamw", "f16"), ("adamw", "fp32"), ("lamb", "collage-light"),
         ("adamw_clip", "coat"), ("adamw", "fp8-lm"), ("sgd", "fp8-lm-delayed")]

each = pytest.mark.parametrize("graph, strategy", CASES)


@pytest.fixture(scope="module")
def gpu():
    return FakeGPU()


def examples(graph, strategy):
    return [cases.state(graph, LIBRARY[strategy], "ordinary", size,
                        seed_of(graph, strategy, size)) for size in SIZES]


def bad_gradients(kernel, tensors):
    """Returns copies of tensors with one nonfinite gradient element: the last one of the last
    tensor, the only one of another tensor, or one in the middle."""
    (plane,) = [p for p in kernel.planes if p.kind == tandem._plane.RoleKind.GRAD
                and p.sets_size]
    form = FORMATS[plane.type]
    codes = [form.canonical_nan] + ([form.infinity] if form.has_infinity else [])
    for tensor, place in ((3, -1), (2, 0), (0, 150)):
        for code in codes:
            copies = [{n: p.copy() for n, p in planes.items()} for planes in tensors]
            copies[tensor][plane.name][place] = code
            yield f"{code:#x} at {place} of tensor {tensor}", copies


def scalars(graph, strategy, kernel):
    hypers = cases.hypers(graph, LIBRARY[strategy])
    return [[value] for value in kernel.scalars(hypers | integers_of(kernel))]


def on_cpu(kernel, tensors):
    plan = tandem.Plan(kernel, skip_nonfinite=True)
    plan.update([len(planes["param"]) for planes in tensors],
                [[planes[p.name].ctypes.data for p in kernel.planes] for planes in tensors])
    return plan


@each
def test_plans_on_the_cpu(graph, strategy):
    kernel, tensors = compiled(graph, strategy), examples(graph, strategy)
    given = scalars(graph, strategy, kernel)
    for context, planes in bad_gradients(kernel, tensors):
        before = [{n: p.copy() for n, p in tensor.items()} for tensor in planes]
        plan = on_cpu(kernel, planes)
        assert plan.launch(*given, threads=2) == plan.flags() == tandem.NON_FINITE, context
        for got, want in zip(planes, before):
            assert_same(got, want, context)
    want = run_plan(kernel, tensors, [cases.hypers(graph, LIBRARY[strategy])], [0] * 4)
    plan = on_cpu(kernel, tensors)
    assert plan.launch(*given) == plan.flags() == 0
    for got, expected in zip(tensors, want):
        assert_same(got, expected, "all finite")


@each
def test_plans_on_a_gpu(gpu, graph, strategy):
    kernel, tensors = compiled(graph, strategy, "sm_90"), examples(graph, strategy)
    given = scalars(graph, strategy, kernel)
    found_inf = gpu.arrays({"": np.zeros(1, np.float32)})[""]
    want = run_plan(compiled(graph, strategy), tensors,
                    [cases.hypers(graph, LIBRARY[strategy])], [0] * 4)
    context, bad = next(bad_gradients(kernel, tensors))
    for planes, skips, expected in ((bad, 0.0, None), (tensors, 1.0, None),
                                    (tensors, 0.0, want)):
        found_inf.write(np.array([skips], np.float32))
        there = [gpu.arrays(tensor) for tensor in planes]
        plan = tandem.Plan(kernel, gpu.device, skip_nonfinite=True)
        plan.update(list(SIZES), [[tensor[p.name].address for p in kernel.planes]
                                  for tensor in there])
        plan.launch_async(*given, skip=found_inf.address)
        gpu.device.synchronize()
        gpu.check()
        assert plan.flags() == (tandem.NON_FINITE if planes is bad else 0)
        for got, expected_planes in zip(there, expected or planes):
            assert_same({n: a.read() for n, a in got.items()}, expected_planes, context)


def test_integer_codes(tmp_path):
    (tmp_path / "mine.mlir").write_text("""tandem.strategy @mine compute(<f32, f32>) {
      tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 32, scale = f16>
      tandem.assign param = #tandem.float<f32>
    }""")
    kernel = tandem.compile("sgd", "mine", path=[tmp_path])
    with pytest.raises(ValueError, match="stores gradients in integer codes, where no step looks"):
        tandem.Plan(kernel, skip_nonfinite=True)


#===------------------------------------------------------------------------===#
# Optimizers
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", ("fp32", "collage-plus", "bf16-stochastic", "fp8-lm"))
def test_optimizers(strategy):
    """A skipped step leaves no trace; f32 parameters such as norms are checked, too."""
    torch = pytest.importorskip("torch")
    import tandem.torch as tt
    from support.torch_bits import assert_same_bits, parameters, params_of

    def make(skips):
        dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
        params = parameters([(40,), (5, 7)], dtype) + parameters([(9,)], torch.float32)
        return tt.AdamW(params, lr=1e-2, strategy=strategy, skip_nonfinite=skips,
                        min_8bit_size=0)

    def train(optimizer, seed, bad=None):
        generator = torch.Generator().manual_seed(seed)
        for i, p in enumerate(params_of(optimizer)):
            scale = torch.randn(p.shape, generator=generator)
            if i == bad:
                scale.view(-1)[3] = torch.nan
            (p.float() * scale).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    got, want = make(True), make(False)
    for seed in range(3):
        train(got, seed)
        train(want, seed)
        assert not got.skipped
        for bad in range(3):
            train(got, 10 + seed, bad)
            assert got.skipped
    assert_same_bits(got, want)
    with pytest.raises(RuntimeError, match="create it with skip_nonfinite=True"):
        want.skipped


def test_a_matrix_optimizer():
    torch = pytest.importorskip("torch")
    import tandem.torch as tt
    from support.torch_bits import bits, parameters, set_gradients

    params = parameters([(5, 7), (6,)], torch.float32)
    optimizer = tt.Adafactor(params, strategy="fp32", skip_nonfinite=True)
    for bad in (None, 0, 1):
        set_gradients(params, 1)
        if bad is not None:
            params[bad].grad.view(-1)[-1] = torch.inf
        before = [bits(p) for p in params]
        optimizer.step()
        assert optimizer.skipped == (bad is not None)
        same = [np.array_equal(bits(p), b) for p, b in zip(params, before)]
        assert same == [bad is not None] * 2
    assert {state["step"] for state in optimizer.state.values()} == {1}
