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
#: The arrays that the external steps of graphs send and receive, and their type.
STEPS = {
    "muon": {NAME: ([SENT], [RECEIVED])},
    "soap": {"rotate": (["gradient"], ["gradient_rotated"]),
             "rotate_back": (["direction", "momentum"], ["update", "momentum_turned"])},
    "shampoo": {"precondition": (["gradient", "momentum", "grafted"], ["direction"])},
}
TYPES = {"muon": np.uint16, "soap": np.uint32, "shampoo": np.uint32}
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
    """Returns the numbers with their signs flipped, each in its neighbour's place."""
    return np.roll(bits, 1) ^ bits.dtype.type(1 << 8 * bits.itemsize - 1)


@pytest.fixture(autouse=True)
def host(monkeypatch):
    for name in (name for steps in STEPS.values() for name in steps):
        count = next(len(steps[name][1]) for steps in STEPS.values() if name in steps)
        monkeypatch.setitem(HOST, name, lambda *arrays, count=count: list(map(mix, arrays[:count])))


def example(strategy, size, kind="mixed", table=ALL, graph="muon"):
    planes = cases.state(graph, table[strategy], kind, size, seed_of(graph, strategy, size))
    return planes, cases.hypers(graph, table[strategy])


def with_exchanged(graph, planes):
    """Returns copies of planes and arrays for what external steps exchange."""
    size = max(map(len, planes.values()))
    return {name: plane.copy() for name, plane in planes.items()} | {
        name: np.zeros(size, TYPES[graph]) for pair in STEPS[graph].values() for names in pair
        for name in names}


def mixing(graph, arrays):
    """Returns functions for the external steps of a graph that :func:`mix` what is sent."""
    def compute(sent, received):
        for given, found in zip(sent, received):
            arrays[found][:] = mix(arrays[given])
    return {name: lambda stream, pair=pair: compute(*pair) for name, pair in STEPS[graph].items()}


def run(kernel, planes, hypers, graph="muon", **options):
    arrays = with_exchanged(graph, planes)
    kernel(arrays, key=9, external=mixing(graph, arrays), **hypers, **integers_of(kernel),
           **options)
    return arrays


def interpreted(graph, strategy, planes, hypers):
    arrays = with_exchanged(graph, planes)
    tandem.interpret(graph, strategy, arrays, hypers, step=STEP, seed=SEED, key=9,
                     external=mixing(graph, arrays))
    return arrays


@pytest.mark.parametrize("graph", STEPS)
@pytest.mark.parametrize("strategy", tandem.strategies())
def test_model_and_interpreter(strategy, graph):
    """Kernels have the bits of the model and of the interpreter under all strategies."""
    for size in SIZES:
        planes, hypers = example(strategy, size, graph=graph)
        got = run(compiled(graph, strategy), planes, hypers, graph)
        assert_same(got, step(graph, ALL[strategy], planes, hypers, STEP, SEED, 9),
                    f"{strategy}, {size}, model")
        assert_same(got, interpreted(graph, strategy, planes, hypers), f"{strategy}, {size}")


@pytest.mark.parametrize("graph", STEPS)
@pytest.mark.parametrize("strategy", ["fp32", "flash-f16", "dither-mulaw", "collage-plus"])
def test_instruction_sets(strategy, graph):
    planes, hypers = example(strategy, 4097, "ordinary", graph=graph)
    want = run(compiled(graph, strategy), planes, hypers, graph)
    for isa in ISAS:
        require_isa(isa)
        assert_same(run(compiled(graph, strategy, isa=isa), planes, hypers, graph), want, isa)


@pytest.mark.parametrize("graph", STEPS)
def test_threads(graph):
    planes, hypers = example("dither-mulaw", 300_000, "ordinary", graph=graph)
    kernel = compiled(graph, "dither-mulaw")
    want = run(kernel, planes, hypers, graph)
    for threads in (2, 5):
        got = run(kernel, planes, hypers, graph, threads=threads)
        assert_same(got, want, f"{threads} threads")


def test_a_first_step_of_soap_changes_nothing():
    """With moves = 0 weights, moments and their codes keep their bits. Residuals have two codes for
    the middle of two weights, and mu-law has two for zero."""
    for strategy in ("fp32", "dither-softsign-root", "collage-plus"):
        planes, hypers = example(strategy, 300, "ordinary", graph="soap")
        kernel = compiled("soap", strategy)
        once = {name: run(kernel, planes, hypers, "soap")[name] for name in planes}
        arrays = with_exchanged("soap", once)

        def keep(stream):
            arrays["momentum_turned"][:] = arrays["momentum"]

        kernel(arrays, key=9, external=mixing("soap", arrays) | {"rotate_back": keep},
               **hypers | {"moves": 0.0}, **integers_of(kernel))
        assert_same({name: arrays[name] for name in planes}, once, strategy)


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
