#===- test_external.py - Steps that the host computes ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests graphs with external steps (tandem.external): compiled code, the interpreter and
# the NumPy model agree, and hosts that lack a step, or fail, get errors.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import (HOST, SCALED_STRATEGIES, STRATEGIES, TENSOR_STRATEGIES, cases, step)
from tandem._companions import kinds_of, rules_of
from support.kernels import (ISAS, SEED, STEP, assert_same, compiled, integers_of, require_isa,
                             seed_of, write_strategies)

NAME, SENT, RECEIVED = "orthogonalize", "direction", "orthogonal"
ALL = STRATEGIES | SCALED_STRATEGIES | TENSOR_STRATEGIES
SIZES = (1, 33, 300)

#: A graph that computes two external steps, the second of which depends on the first one.
CHAIN = """
#id = affine_map<(i) -> (i)>
func.func @chain(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 0.5>}) -> tensor<?xf32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %a, %b = tandem.external "first"(%grad) sends ["x"] receives ["a", "b"] format(f32)
      : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
  %product = arith.mulf %a, %b : tensor<?xf32>
  %total = linalg.reduce { arith.addf } ins(%product : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  %sum = tensor.extract %total[] : tensor<f32>
  %sums = tensor.splat %sum[%size] : tensor<?xf32>
  %y = arith.divf %product, %sums : tensor<?xf32>
  %z = tandem.external "second"(%y, %grad) sends ["y", "g"] receives ["z"] format(f32)
      : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %rate = arith.truncf %lr : f64 to f32
  %rates = tensor.splat %rate[%size] : tensor<?xf32>
  %delta = arith.mulf %rates, %z : tensor<?xf32>
  %new = arith.addf %param, %delta : tensor<?xf32>
  return %new : tensor<?xf32>
}
"""


def mix(bits):
    """Returns bf16 numbers each of which depends on others: neighbours swapped, signs flipped."""
    return np.roll(bits, 1) ^ np.uint16(0x8000)


@pytest.fixture(autouse=True)
def host(monkeypatch):
    monkeypatch.setitem(HOST, NAME, mix)


def example(strategy, size, kind="mixed", table=ALL):
    planes = cases.state("muon", table[strategy], kind, size, seed_of("muon", strategy, size))
    return planes, cases.hypers("muon", table[strategy])


def run(kernel, planes, hypers, function=mix):
    arrays = {name: plane.copy() for name, plane in planes.items()}
    size = max(map(len, arrays.values()))
    arrays |= {name: np.zeros(size, np.uint16) for name in (SENT, RECEIVED)}

    def compute(stream):
        assert stream == 0
        arrays[RECEIVED][:] = function(arrays[SENT])

    kernel(arrays, key=9, external={NAME: compute}, **hypers, **integers_of(kernel))
    return arrays


def interpreted(strategy, planes, hypers, path=()):
    arrays = {name: plane.copy() for name, plane in planes.items()}
    size = max(map(len, arrays.values()))
    arrays |= {name: np.zeros(size, np.uint16) for name in (SENT, RECEIVED)}

    def compute(stream):
        arrays[RECEIVED][:] = mix(arrays[SENT])

    tandem.interpret("muon", strategy, arrays, hypers, path=path, step=STEP, seed=SEED, key=9,
                     external={NAME: compute})
    return arrays


@pytest.mark.parametrize("strategy", tandem.strategies())
def test_model_and_interpreter(strategy):
    """Kernels have the bits of the model and of the interpreter under all strategies."""
    for size in SIZES:
        planes, hypers = example(strategy, size)
        got = run(compiled("muon", strategy), planes, hypers)
        assert_same(got, step("muon", ALL[strategy], planes, hypers, STEP, SEED, 9),
                    f"{strategy}, {size}, model")
        assert_same(got, interpreted(strategy, planes, hypers), f"{strategy}, {size}")


@pytest.mark.parametrize("strategy", ["fp32", "flash-f16", "dither-mulaw", "collage-plus"])
def test_instruction_sets(strategy):
    planes, hypers = example(strategy, 4097, "ordinary")
    want = run(compiled("muon", strategy), planes, hypers)
    for isa in ISAS:
        require_isa(isa)
        assert_same(run(compiled("muon", strategy, isa=isa), planes, hypers), want, isa)


def test_threads():
    planes, hypers = example("dither-mulaw", 300_000, "ordinary")
    kernel = compiled("muon", "dither-mulaw")
    want = run(kernel, planes, hypers)
    for threads in (2, 5):
        arrays = {n: p.copy() for n, p in planes.items()}
        arrays |= {n: np.zeros(300_000, np.uint16) for n in (SENT, RECEIVED)}

        def compute(stream):
            arrays[RECEIVED][:] = mix(arrays[SENT])

        kernel(arrays, key=9, threads=threads, external={NAME: compute}, **hypers,
               **integers_of(kernel))
        assert_same(arrays, want, f"{threads} threads")


@pytest.mark.parametrize("strategy", ["fp32", "flash-f16", "collage-plus", "fp8-lm"])
def test_rules_for_what_is_exchanged(strategy, tmp_path):
    """A strategy's rules widen what a graph exchanges in bf16: kernels agree with the interpreter,
    and the host finds float32."""
    kernel = tandem.compile("muon", strategy)
    rules = rules_of(kernel.compute, kinds_of(kernel), kernel.storages).storages
    policy, format = kernel.compute.split()
    lines = [f'  tandem.assign {kind.name.lower()} named("{role}") = {storage}'
             for kind, role, storage in rules]
    lines += [f"  tandem.assign {kind} = #tandem.float<f32>" for kind in ("sent", "received")]
    (tmp_path / "wide.mlir").write_text(
        f"tandem.strategy @wide compute(<{policy}, {format}>) {{\n" + "\n".join(lines) + "\n}\n")
    wide = tandem.compile("muon", "wide", path=[tmp_path])
    assert {p.type for p in wide.planes if p.is_exchanged} == {"f32"}
    planes, hypers = example(strategy, 300, "ordinary")
    planes |= {name: np.zeros(300, np.uint32) for name in (SENT, RECEIVED)}
    given = {name: plane.copy() for name, plane in planes.items()}
    want = {name: plane.copy() for name, plane in planes.items()}

    def computing(arrays):
        def compute(stream):
            arrays[RECEIVED][:] = (arrays[SENT].view(np.float32)[::-1] * np.float32(0.3)).view(
                np.uint32)
        return compute

    tandem.interpret("muon", "wide", want, hypers, path=[tmp_path], step=STEP, seed=SEED, key=9,
                     external={NAME: computing(want)})
    wide(given, key=9, external={NAME: computing(given)}, **hypers, **integers_of(wide))
    assert (want[SENT] & 0xFFFF).any() or strategy == "collage-plus"
    assert_same(given, want, strategy)


def test_two_steps():
    """Steps run in order, with a sum between them, and each sees what the former has left."""
    rng = np.random.default_rng(0)
    kernel, called = tandem.compile(CHAIN, "fp32"), []
    assert kernel.externals == ["first", "second"] and kernel.phases == 4
    arrays = {name: rng.standard_normal(100).astype(np.float32)
              for name in ("param", "grad", "x", "a", "b", "y", "g", "z")}
    before = {name: array.copy() for name, array in arrays.items()}
    again = {name: array.copy() for name, array in arrays.items()}

    def functions(of):
        def first(stream):
            called.append("first")
            of["a"][:], of["b"][:] = of["x"][::-1], of["x"] + 1

        def second(stream):
            called.append("second")
            of["z"][:] = of["y"] * of["g"]

        return {"first": first, "second": second}

    kernel(arrays, lr=0.25, external=functions(arrays))
    assert called == ["first", "second"]
    g = before["grad"]
    product = g[::-1] * (g + 1)
    np.testing.assert_allclose(
        arrays["param"], before["param"] + 0.25 * product / product.sum() * g, rtol=1e-4)
    tandem.interpret(CHAIN, "fp32", again, {"lr": 0.25}, external=functions(again))
    assert all(np.array_equal(again[name], array) for name, array in arrays.items())


def test_results_may_replace_operands():
    """A step may leave its result in the array of its operand."""
    planes, hypers = example("dither-mulaw", 300)
    kernel = compiled("muon", "dither-mulaw")
    want = run(kernel, planes, hypers)
    arrays = {name: plane.copy() for name, plane in planes.items()}
    shared = np.zeros(300, np.uint16)

    def compute(stream):
        shared[:] = mix(shared)

    kernel(arrays | {SENT: shared, RECEIVED: shared}, key=9, external={NAME: compute}, **hypers,
           **integers_of(kernel))
    assert_same(arrays | {RECEIVED: shared},
                {name: plane for name, plane in want.items() if name != SENT})
    with pytest.raises(ValueError, match="shares .* bytes with plane"):
        kernel(arrays | {SENT: shared, RECEIVED: want[RECEIVED], "grad": shared}, external={
            NAME: compute}, **hypers, **integers_of(kernel))


def test_package(tmp_path):
    """A loaded kernel has its external steps, which the host must bind by name."""
    compiled("muon", "flash-f16").save(tmp_path / "muon.tdm")
    kernel = tandem.load(tmp_path / "muon.tdm")
    assert kernel.externals == [NAME]
    planes, hypers = example("flash-f16", 300)
    assert_same(run(kernel, planes, hypers), run(compiled("muon", "flash-f16"), planes, hypers))
    with pytest.raises(ValueError, match="muon has the external step 'orthogonalize', which the "
                                         "host computes; give a function for it"):
        kernel(planes, **hypers, **integers_of(kernel))


def test_failures_leave_states():
    planes, hypers = example("dither-mulaw", 300)
    kernel = compiled("muon", "dither-mulaw")

    def fail(bits):
        raise ArithmeticError("no inverse")

    arrays = {name: plane.copy() for name, plane in planes.items()}
    arrays |= {name: np.zeros(300, np.uint16) for name in (SENT, RECEIVED)}
    with pytest.raises(ArithmeticError, match="no inverse"):
        kernel(arrays, external={NAME: lambda stream: fail(None)}, **hypers,
               **integers_of(kernel))
    assert_same({n: arrays[n] for n in planes}, planes)
    with pytest.raises(ArithmeticError, match="no inverse"):
        tandem.interpret("muon", "dither-mulaw", arrays, hypers, step=1,
                         external={NAME: lambda stream: fail(None)})
    with pytest.raises(ValueError, match="the host computes the step 'orthogonalize', for which "
                                         "there is no function"):
        tandem.interpret("muon", "dither-mulaw", arrays, hypers, step=1)
    with pytest.raises(ValueError, match="muon has no external step 'invert'; it has "
                                         "'orthogonalize'"):
        kernel(arrays, external={NAME: print, "invert": print}, **hypers, **integers_of(kernel))
    with pytest.raises(ValueError, match="adamw has no external step 'invert'; it has none"):
        tandem.Plan(compiled("adamw", "fp32")).set_external({"invert": print})


def test_outside_strategies(tmp_path):
    """Storages with scales of tensors and rows, and other codes, under the same step."""
    names = ("tensor-delayed", "fp8-collage", "masked", "tensor-two-levels")
    write_strategies(tmp_path, {name: ALL[name] for name in names})
    for name in names:
        planes, hypers = example(name, 300, "ordinary")
        got = run(compiled("muon", name, path=(tmp_path,)), planes, hypers)
        assert_same(got, step("muon", ALL[name], planes, hypers, STEP, SEED, 9), name)
