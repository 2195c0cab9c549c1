#===- test_flags.py - Flags of launches -----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that a launch reports only gradients that are not finite, on both targets and in
# the interpreter.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import STRATEGIES, cases, flags
from model.formats import FORMATS, encode
from support.kernels import ISAS, compiled, integers_of, seed_of
from support.launch import Tensor, aligned_copy, launch

# The sizes are one element, less than a vector, a vector and a tail, and several chunks.
SIZES = (1, 7, 37, 300)


def specials(name):
    """Returns the nonfinite codes of a format: infinities, and NaNs of both signs."""
    form = FORMATS[name]
    sign, nan = form.sign_bit, form.canonical_nan
    codes = [nan, nan | sign]
    if form.has_infinity:
        codes += [form.infinity, form.infinity | sign, form.infinity + 1]
    return codes


def example(strategy, size):
    return cases.state("adamw", STRATEGIES[strategy], "ordinary", size,
                       seed_of("flags", strategy, size))


def on_cpu(strategy, planes, **options):
    kernel = compiled("adamw", strategy, flags=True, **options)
    hypers = cases.hypers("adamw", STRATEGIES[strategy])
    return kernel({n: p.copy() for n, p in planes.items()}, threads=2, **hypers,
                  **integers_of(kernel))


def on_gpu(strategy, planes, offset=0):
    kernel = compiled("adamw", strategy, "sm_90", flags=True)
    hypers = cases.hypers("adamw", STRATEGIES[strategy])
    tensor = Tensor({n: aligned_copy(p, offset) for n, p in planes.items()})
    return launch(kernel, [tensor], [hypers | integers_of(kernel)]).flags


def positions(size):
    return sorted({0, size // 2, max(size - 2, 0), size - 1})


def with_special(strategy, size):
    """Returns states whose gradient is finite except in one element."""
    name = STRATEGIES[strategy].grad.format
    for place in positions(size):
        for code in specials(name):
            planes = example(strategy, size)
            planes["grad"] = planes["grad"].copy()
            planes["grad"][place] = code
            assert flags("adamw", STRATEGIES[strategy], planes) == tandem.NON_FINITE
            yield f"{strategy}, {code:#x} at {place} of {size}", planes


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_non_finite(strategy):
    for size in SIZES:
        assert on_cpu(strategy, example(strategy, size)) == 0
        for context, planes in with_special(strategy, size):
            assert on_cpu(strategy, planes) == tandem.NON_FINITE, context


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_non_finite_on_gpus(strategy):
    for size in SIZES:
        for offset in (0, 1):
            assert on_gpu(strategy, example(strategy, size), offset) == 0
    for size in (1, 37):
        for context, planes in with_special(strategy, size):
            assert on_gpu(strategy, planes) == tandem.NON_FINITE, context
            assert on_gpu(strategy, planes, offset=1) == tandem.NON_FINITE, context


@pytest.mark.parametrize("width", (1, 8, 64))
@pytest.mark.parametrize("isa", (ISAS[0], "native"))
def test_widths(width, isa):
    for strategy in ("bf16", "fp32"):
        assert on_cpu(strategy, example(strategy, 300), width=width, isa=isa) == 0
        for context, planes in with_special(strategy, 130):
            got = on_cpu(strategy, planes, width=width, isa=isa)
            assert got == tandem.NON_FINITE, f"{context}, width {width}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_else_raises(strategy):
    """The largest gradients, and nonfinite weights and states, raise no flag."""
    planes = example(strategy, 40)
    largest = FORMATS[STRATEGIES[strategy].grad.format].largest
    extreme = planes | {"grad": np.full_like(planes["grad"], largest)}
    assert on_cpu(strategy, extreme) == on_gpu(strategy, extreme) == 0
    others = {n: p if n == "grad" else np.full_like(p, np.iinfo(p.dtype).max)
              for n, p in planes.items()}
    assert on_cpu(strategy, others) == on_gpu(strategy, others) == 0


def test_flags_must_be_asked_for():
    """A kernel without flags reports nothing and loads gradients unchanged."""
    kernel = compiled("adamw", "bf16")
    assert "tandem.set_flag" not in kernel.ir
    _, planes = next(with_special("bf16", 37))
    hypers = cases.hypers("adamw", STRATEGIES["bf16"])
    assert kernel({n: p.copy() for n, p in planes.items()}, **hypers, step=1) == 0


@pytest.mark.parametrize("strategy", ("bf16", "collage-plus", "remainder"))
def test_interpreter(strategy):
    hypers = cases.hypers("adamw", STRATEGIES[strategy])

    def interpreted(planes):
        return tandem.interpret("adamw", strategy,
                                {n: p.copy() for n, p in planes.items()}, hypers)

    assert interpreted(example(strategy, 7)) == 0
    for context, planes in with_special(strategy, 7):
        assert interpreted(planes) == tandem.NON_FINITE, context


@pytest.mark.parametrize("form", ("f8E4M3FN", "f8E5M2", "f16"))
def test_gradients_of_any_format(form, tmp_path):
    (tmp_path / "mine.mlir").write_text(f"""tandem.strategy @mine compute(<f32, f32>) {{
      tandem.assign grad = #tandem.float<{form}>
      tandem.assign param = #tandem.float<f32>
    }}""")
    cpu, gpu = (tandem.compile("sgd", "mine", target, path=[tmp_path], flags=True)
                for target in ("cpu", "sm_90"))

    def raised(planes):
        copies = [{n: aligned_copy(p) for n, p in planes.items()} for _ in range(3)]
        hypers = {"lr": 0.0, "weight_decay": 0.0}
        found = {cpu(copies[0], **hypers), launch(gpu, [Tensor(copies[1])], [hypers]).flags,
                 tandem.interpret("sgd", "mine", copies[2], hypers, path=[tmp_path])}
        assert len(found) == 1, f"targets differ: {found}"
        return found.pop()

    start = {p.name: np.zeros(19, f"u{p.bits // 8}") for p in cpu.planes}
    assert raised(start) == 0
    largest = FORMATS[form].largest
    assert raised(start | {"grad": np.full_like(start["grad"], largest)}) == 0
    for code in specials(form):
        planes = start | {"grad": start["grad"].copy()}
        planes["grad"][18] = code
        assert raised(planes) == tandem.NON_FINITE, f"{code:#x}"


UNUSED = """
func.func @unused(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                  %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">},
                  %h: tensor<?xf32> {tandem.role = #tandem.role<grad "h">}) -> tensor<?xf32> {
  %new = arith.addf %p, %g : tensor<?xf32>
  return %new : tensor<?xf32>
}"""


@pytest.mark.parametrize("name", ("g", "h"))
def test_gradients_that_nobody_reads(name):
    """A gradient is checked even if it is not used."""
    for value, raised in ((1.0, 0), (np.inf, tandem.NON_FINITE), (np.nan, tandem.NON_FINITE)):
        arrays = {n: np.ones(37, np.float32) for n in "pgh"}
        arrays[name][35] = value
        copies = [{n: aligned_copy(a) for n, a in arrays.items()} for _ in range(3)]
        assert tandem.interpret(UNUSED, "fp32", copies[0], {}) == raised
        assert tandem.compile(UNUSED, "fp32", flags=True)(copies[1]) == raised
        kernel = tandem.compile(UNUSED, "fp32", target="sm_90", flags=True)
        assert launch(kernel, [Tensor(copies[2])], [{}]).flags == raised


#: Raises flag 2 if an f32 sum is zero, as it is in lanes beyond the end.
ZEROS = """
!f = !tandem.stored<tensor<?xf32>, #tandem.float<FORM>>
tandem.kernel @zeros compute(<POLICY>) tensors [#tandem.role<param "p">]
    scalars [#tandem.role<hyper "h">] prologue {
^bb0(%h: f64):
  %0 = arith.truncf %h : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !f, %h: f32):
  %0 = tandem.load %p : !f -> f32
  %1 = arith.addf %0, %h : f32
  %zero = arith.constant 0.0 : f32
  %2 = arith.cmpf oeq, %1, %zero : f32
  tandem.set_flag %2[2] : i1
  tandem.store %1, %p : f32, !f
  tandem.yield
}"""


@pytest.mark.parametrize("form, policy", (
    ("bf16", "f32, f32"), ("f16", "f32, f32"), ("f32", "f32, f32"), ("f8E4M3FN", "f32, f32"),
    ("bf16", "component, bf16"), ("f16", "component, f16")))
def test_lanes_beyond_the_end_raise_nothing(form, policy):
    text = ZEROS.replace("FORM", form).replace("POLICY", policy)
    kernels = [(tandem.compile(text, target=chip, width=width), chip)
               for chip, width in (("cpu", 1), ("cpu", 8), ("cpu", 16), ("sm_80", 0), ("sm_90", 0))]
    # The interpreter requires an applied policy for components.
    source = text if policy.startswith("f32") else kernels[0][0].ir
    one, minus_half = encode(form, np.array([1.0, -0.5], np.float32))
    for size in (1, 5, 8, 31, 300):
        for place in (None, 0, size - 1):
            ones = np.full(size, one)
            if place is not None:
                ones[place] = minus_half
            for h in (0.0, 0.5):
                want = {"p": ones.copy()}
                flags = tandem.interpret(source, None, want, {"h": h})
                assert flags == (4 if place is not None and h else 0)
                for kernel, chip in kernels:
                    got = {"p": aligned_copy(ones)}
                    raised = (kernel(got, h=h) if chip == "cpu" else
                              launch(kernel, [Tensor(got)], [{"h": h}]).flags)
                    assert raised == flags, (chip, size, place, h)
                    assert got["p"].tobytes() == want["p"].tobytes()
