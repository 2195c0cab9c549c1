#===- test_strategies.py - Strategies that the tests write -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests single rules of the numerics on the smallest graphs and strategies that show them.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import Strategy, cases, step
from model import arithmetic as mcf
from model.formats import decode, encode
from model.storage import Draw, Expansion, Kahan, Master, Plain, Remainder
from support.kernels import assert_kernel, assert_same, integers_of, storage_text, strategy_text
from support.launch import Tensor, aligned_copy, launch

HEAD = """func.func @f(
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %s: tensor<?xf32> {tandem.role = #tandem.role<state "s">},
    %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">},
    %u: f64 {tandem.role = #tandem.role<hyper "u", domain = any>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %u32 = arith.truncf %u : f64 to f32
  %us = tensor.splat %u32[%n] : tensor<?xf32>
"""


def run(directory, body, compute, planes, u=0.0, **storages):
    """Returns the planes after one step of a graph that consists of HEAD and `body`."""
    rules = [f"  tandem.assign {kind} = {storage_text(storage)}"
             for kind, storage in storages.items()]
    (directory / "mine.mlir").write_text("\n".join(
        [f"tandem.strategy @mine compute(<{compute}>) {{", *rules, "}", ""]))
    kernel = tandem.compile(HEAD + body + "\n}\n", "mine", path=[directory])
    arrays = {name: plane.copy() for name, plane in planes.items()}
    kernel(arrays, u=u, **integers_of(kernel, 1, 0))
    return arrays


def bits(*values):
    return np.array(values, dtype=np.uint16)


RETURN = "  return %r, %s : tensor<?xf32>, tensor<?xf32>"
COPY_GRADIENT = "  %r = arith.maximumf %g, %g : tensor<?xf32>\n" + RETURN
FORMATS = ("bf16", "f16", "f32", "f8E4M3FN", "f8E5M2")


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("compute", ("f32, f32", "component, bf16", "component, f16"))
def test_not_a_number(tmp_path, compute, source, to):
    """A NaN of any format converts to the canonical NaN of every other format."""
    width = {"bf16": 16, "f16": 16, "f32": 32}.get(source, 8)
    if width == 32:
        codes = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFC00000, 0x7FC00000,
                          0x7F808000, 0x7FFFE000], np.uint32)
    else:
        codes = np.arange(1 << width).astype(np.uint8 if width == 8 else np.uint16)
        codes = codes[np.isnan(decode(source, codes))]
    want = encode(to, np.full(len(codes), np.nan, np.float32))
    got = run(tmp_path, COPY_GRADIENT, compute,
              {"p": np.zeros_like(want), "s": np.zeros_like(want), "g": codes},
              param=Plain(to), state=Plain(to), grad=Plain(source))
    wrong = np.flatnonzero(got["p"] != want)
    assert not len(wrong), (f"{source} {int(codes[wrong[0]]):#x} became {to} "
                            f"{int(got['p'][wrong[0]]):#x}")


@pytest.mark.parametrize("storage", [Master("bf16"), Master("f16"), Remainder(),
                                     Expansion("bf16"), Expansion("f16"),
                                     Expansion("bf16", 3), Plain("bf16", "stochastic"),
                                     Plain("f16", "dither")], ids=storage_text)
def test_not_a_number_in_storages(tmp_path, storage):
    """An f16 NaN whose payload reaches low f32 bits stays a NaN in any storage."""
    codes = bits(0x7C01, 0x7E00, 0x7FFF, 0xFFFF, 0xFC01)
    nan = np.full(len(codes), np.nan, np.float32)
    want = storage.encode("p", nan, Draw())
    old = {n: np.zeros_like(p) for n, p in want.items()}
    got = run(tmp_path, COPY_GRADIENT, "f32, f32",
              old | {"s": np.zeros(len(codes), np.float32), "g": codes},
              param=storage, state=Plain("f32"), grad=Plain("f16"))
    for name, plane in want.items():
        assert (got[name] == plane).all(), (name, [hex(x) for x in got[name]])


@pytest.mark.parametrize("target", ("cpu", "sm_90"))
@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_copies_compile(tmp_path, source, to, target):
    """A value that is only converted can be converted between any two formats."""
    (tmp_path / "mine.mlir").write_text(f"""tandem.strategy @mine compute(<f32, f32>) {{
  tandem.assign param = #tandem.float<{to}>
  tandem.assign state = #tandem.float<{to}>
  tandem.assign grad = #tandem.float<{source}>
}}
""")
    text = HEAD + "  return %g, %s : tensor<?xf32>, tensor<?xf32>\n}\n"
    tandem.compile(text, "mine", target, path=[tmp_path])


def test_scalar_addend_is_not_rounded_first(tmp_path):
    """1 + u rounds to f32 and then to bf16; rounding u first would give a tie, and 1."""
    u = 2.0**-8 * (1 + 2.0**-9)
    got = run(tmp_path, "  %r = arith.addf %p, %us : tensor<?xf32>\n" + RETURN,
              "component, bf16", {"p": bits(0x3F80), "s": bits(0), "g": bits(0)}, u=u,
              param=Plain("bf16"), state=Plain("bf16"), grad=Plain("bf16"))
    assert got["p"][0] == 0x3F81


def test_scalar_addend_of_an_expansion(tmp_path):
    """grow takes a component, so the scalar is rounded first."""
    u = 2.0**-8 * (1 + 2.0**-9)
    got = run(tmp_path, "  %r = arith.addf %p, %us : tensor<?xf32>\n" + RETURN,
              "component, bf16",
              {"p": bits(0x3F80), "p.lo": bits(0), "s": bits(0), "g": bits(0)}, u=u,
              param=Expansion("bf16"), state=Plain("bf16"), grad=Plain("bf16"))
    assert [hex(got[n][0]) for n in ("p", "p.lo")] == ["0x3f80", "0x3b80"]


@pytest.mark.parametrize("component", ("bf16", "f16", None))
@pytest.mark.parametrize("grad", FORMATS)
@pytest.mark.parametrize("param", FORMATS)
def test_formats_mix(tmp_path, param, grad, component):
    """Any plain formats can be combined under any policy, on CPU and GPU."""
    strategy = Strategy(Plain(grad), Plain(param), Plain("f32"), Plain("f32"), component)
    (tmp_path / "mine.mlir").write_text(strategy_text("mine", strategy))
    planes = cases.state("sgd", strategy, "mixed", 100, 1)
    hypers = cases.hypers("sgd", strategy)
    want = step("sgd", strategy, planes, hypers, 1)
    assert_kernel(tandem.compile("sgd", "mine", path=[tmp_path]), planes, want, hypers,
                  "cpu")
    ptx = tandem.compile("sgd", "mine", "sm_90", path=[tmp_path])
    tensor = Tensor({n: aligned_copy(p) for n, p in planes.items()})
    launch(ptx, [tensor], [hypers])
    assert_same(tensor.planes, want, "sm_90")


# Three spellings of one graph: b * s is part of s's update, and p's update reads it, too.
APART = """  %m = arith.mulf %us, %s : tensor<?xf32>
  %t = tensor.empty(%n) : tensor<?xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>,
      affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%m, %g : tensor<?xf32>, tensor<?xf32>) outs(%t : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %x = arith.addf %a, %b : f32
    linalg.yield %x : f32
  } -> tensor<?xf32>
  %r = arith.addf %p, %m : tensor<?xf32>
  return %r, %q : tensor<?xf32>, tensor<?xf32>"""
TOGETHER = """  %m = arith.mulf %us, %s : tensor<?xf32>
  %q = arith.addf %m, %g : tensor<?xf32>
  %r = arith.addf %p, %m : tensor<?xf32>
  return %r, %q : tensor<?xf32>, tensor<?xf32>"""
INSIDE = """  %r, %q = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>,
      affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%g : tensor<?xf32>) outs(%p, %s : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%b: f32, %w: f32, %v: f32):
    %m = arith.mulf %u32, %v : f32
    %x = arith.addf %m, %b : f32
    %y = arith.addf %w, %m : f32
    linalg.yield %y, %x : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %r, %q : tensor<?xf32>, tensor<?xf32>"""


@pytest.mark.parametrize("storage", (Expansion("bf16"), Kahan("bf16")), ids=storage_text)
def test_spelling_changes_no_bit(tmp_path, storage):
    """The division of a graph into tensor operations changes no bit."""
    rng = np.random.default_rng(1)

    def values():
        return rng.standard_normal(500).astype(np.float32)

    planes = {"p": encode("bf16", values() * np.float32(0.01)),
              "g": encode("bf16", values())}
    planes |= Expansion("bf16").encode("s", values(), Draw())
    if isinstance(storage, Kahan):
        planes["s.compensation"] = planes.pop("s.lo")
    results = [run(tmp_path, body, "component, bf16", planes, u=0.999,
                   param=Plain("bf16"), state=storage, grad=Plain("bf16"))
               for body in (INSIDE, TOGETHER, APART)]
    for other in results[1:]:
        for name in planes:
            assert (other[name] == results[0][name]).all(), name


def test_first_rule_wins(tmp_path):
    """Rules apply in order; names and moments restrict them."""
    (tmp_path / "mine.mlir").write_text("""tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign state named("exp_avg_sq") = #tandem.float<f16>
  tandem.assign state moment(second) = #tandem.float<f32>
  tandem.assign state = #tandem.float<bf16>
  tandem.assign param = #tandem.master<f16>
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f8E5M2>
}
""")
    kernel = tandem.compile("adamw", "mine", path=[tmp_path])
    assert {p.name: p.type for p in kernel.planes} == {
        "param": "f16", "param.master": "f32", "grad": "f8E5M2", "exp_avg": "bf16",
        "exp_avg_sq": "f16"}
    assert kernel.bytes_per_parameter == 11


def test_path_hides_the_library(tmp_path):
    """A file on the path takes precedence over the built-in strategy of the same name."""
    (tmp_path / "fp32.mlir").write_text("""tandem.strategy @fp32 compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<bf16>
}
""")
    assert tandem.compile("adamw", "fp32").bytes_per_parameter == 16
    assert tandem.compile("adamw", "fp32", path=[tmp_path]).bytes_per_parameter == 8


def test_grow_is_the_models(tmp_path):
    """A single accumulation has the bits of the operation itself."""
    rng = np.random.default_rng(2)
    k = mcf.Arithmetic("bf16")
    planes = Expansion("bf16").encode("p", rng.standard_normal(400).astype(np.float32),
                                      Draw())
    gradient = encode("bf16", rng.standard_normal(400).astype(np.float32))
    got = run(tmp_path, "  %r = arith.addf %g, %p : tensor<?xf32>\n" + RETURN,
              "component, bf16", planes | {"g": gradient, "s": np.zeros_like(gradient)},
              param=Expansion("bf16"), state=Plain("bf16"), grad=Plain("bf16"))
    whole = tuple(decode("bf16", planes[n]) for n in ("p", "p.lo"))
    for name, part in zip(("p", "p.lo"), mcf.grow(k, whole, decode("bf16", gradient))):
        assert (got[name] == encode("bf16", part)).all(), name
