#===- test_errors.py - Refusals and their messages ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that bad input is refused, with a message that names the problem and the fix,
# before any array has changed.
#
#===----------------------------------------------------------------------===#

import pathlib
import re

import numpy as np
import pytest

import tandem
from model import STRATEGIES, cases
from support.kernels import compiled

ROOT = pathlib.Path(__file__).resolve().parents[3]

#===----------------------------------------------------------------------===#
# Compilation
#===----------------------------------------------------------------------===#


def refuse_to_compile(*parts, graph="adamw", strategy="fp32", **options):
    """Asserts that compilation fails with a message that has all parts."""
    with pytest.raises(ValueError) as caught:
        tandem.compile(graph, strategy, **options)
    for part in parts:
        assert part in str(caught.value)


def test_unknown_graph():
    refuse_to_compile("unknown graph 'adamx'", "built-in ones are", "sgd_nesterov",
                      "path of an .mlir file", graph="adamx")


def test_missing_file():
    refuse_to_compile("cannot read graph 'absent.mlir'", "No such file",
                      graph="absent.mlir")


def test_unknown_strategy():
    refuse_to_compile("unknown strategy 'fp33'", "collage-plus",
                      "<name>.mlir on the search path", strategy="fp33")


def test_strategy_file_without_the_strategy(tmp_path):
    (tmp_path / "mine.mlir").write_text(
        "tandem.strategy @other compute(<f32, f32>) {}\n")
    refuse_to_compile("the file of strategy 'mine' does not define",
                      'tandem.strategy @"mine"', strategy="mine", path=[tmp_path])


def test_interpreter_names_what_it_takes(tmp_path):
    (tmp_path / "mine.mlir").write_text(
        "tandem.strategy @other compute(<f32, f32>) {}\n")
    for strategy, message in [("fp33", "unknown strategy 'fp33' .did you mean 'fp32'.*; built-in "
                               "ones are"),
                              ("mine", "the file of strategy 'mine' does not define")]:
        with pytest.raises(ValueError, match=message):
            tandem.interpret("sgd", strategy, {}, {}, path=[tmp_path])


def test_graph_of_the_strategys_name(tmp_path):
    (tmp_path / "sgd.mlir").write_text(
        "tandem.strategy @sgd compute(<f32, f32>) {\n"
        "  tandem.assign param = #tandem.float<bf16>\n"
        "  tandem.assign grad = #tandem.float<bf16>\n}\n")
    assert "#tandem.float<bf16>" in tandem.compile("sgd", "sgd", path=[tmp_path]).ir


def test_strategy_without_a_rule(tmp_path):
    (tmp_path / "mine.mlir").write_text(
        "tandem.strategy @mine compute(<f32, f32>) {\n"
        "  tandem.assign param = #tandem.float<f32>\n"
        "  tandem.assign grad = #tandem.float<f32>\n}\n")
    refuse_to_compile("strategy 'mine' has no rule for the state \"exp_avg\"",
                      "add a tandem.assign", strategy="mine", path=[tmp_path])


def test_storage_that_the_policy_lacks(tmp_path):
    (tmp_path / "mine.mlir").write_text(
        "tandem.strategy @mine compute(<f32, f32>) {\n"
        "  tandem.assign param = #tandem.kahan<bf16>\n"
        "  tandem.assign grad = #tandem.float<bf16>\n"
        "  tandem.assign state = #tandem.float<bf16>\n}\n")
    refuse_to_compile("strategy 'mine' stores \"param\" as #tandem.kahan<bf16>",
                      "f32 policy", strategy="mine", path=[tmp_path])


@pytest.mark.parametrize("target", ("sm_75", "gpu", "CPU"))
def test_unknown_target(target):
    refuse_to_compile(f"unknown target '{target}'", "cpu", "sm_90", target=target)


@pytest.mark.parametrize("target", ("cpu", "sm_90"))
@pytest.mark.parametrize("width", (3, 12, -1, -8, 512, 1 << 62))
def test_width(width, target):
    refuse_to_compile(f"width must be a power of two up to 256, got {width}", width=width,
                      target=target)


@pytest.mark.parametrize("name", ("graph", "strategy", "target", "isa", "function"))
def test_text_with_nul(name):
    texts = {"graph": "adamw", "strategy": "fp32", "target": "cpu", "isa": "native"}
    text = texts.get(name, "") + "\0x"
    refuse_to_compile(f"{name} has a NUL character", "leave it out", **{name: text})


def test_search_path_that_does_not_exist(tmp_path):
    absent = tmp_path / "absent"
    refuse_to_compile(f"path has {str(absent)!r}, which is not a directory", path=[absent])
    with pytest.raises(ValueError, match="which is not a directory"):
        tandem.interpret("sgd", "fp32", {}, {}, path=[absent])


#===----------------------------------------------------------------------===#
# Graph text
#===----------------------------------------------------------------------===#

ARGUMENTS = """
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg>}"""


def graph_text(body, name="descend", arguments=ARGUMENTS, result="tensor<?xf32>"):
    return f"func.func @{name}({arguments}) -> {result} {{\n{body}\n}}\n"


DESCEND = """
  %n = arith.negf %lr : f64
  %f = arith.truncf %n : f64 to f32
  %c0 = arith.constant 0 : index
  %d = tensor.dim %p, %c0 : tensor<?xf32>
  %s = tensor.splat %f[%d] : tensor<?xf32>
  %x = arith.mulf %s, %g : tensor<?xf32>
  %r = arith.addf %p, %x : tensor<?xf32>
  return %r : tensor<?xf32>"""


def test_the_text_below_is_sound():
    kernel = tandem.compile(graph_text(DESCEND), "fp32")
    p, g = np.ones(4, np.float32), np.full(4, 2, np.float32)
    kernel({"p": p, "g": g}, lr=0.25)
    assert (p == 0.5).all() and (g == 2).all()


def test_syntax_error_has_a_line():
    text = graph_text(DESCEND).replace("arith.mulf %s, %g", "arith.mulf %s %g")
    line = text[:text.index("%s %g")].count("\n") + 1
    refuse_to_compile(f"graph:{line}:", "expected ','", graph=text)


def test_type_error_has_a_line():
    text = graph_text(DESCEND).replace("arith.negf %lr : f64", "arith.negf %lr : f32")
    line = text[:text.index("arith.negf")].count("\n") + 1
    refuse_to_compile(f"graph:{line}:", "'%lr'", graph=text)


def test_reduction():
    body = """
  %z = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %d = tensor.dim %p, %c0 : tensor<?xf32>
  %i = tensor.splat %z : tensor<f32>
  %s = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = ["reduction"]} ins(%g : tensor<?xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<f32>
  %e = tensor.extract %s[] : tensor<f32>
  %t = tensor.splat %e[%d] : tensor<?xf32>
  %r = arith.addf %p, %t : tensor<?xf32>
  return %r : tensor<?xf32>"""
    refuse_to_compile("a reduction in a graph is a linalg.reduce", graph=graph_text(body))


def test_two_elements_meet():
    body = """
  %r = linalg.generic {
      indexing_maps = [affine_map<(i) -> (0)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%g : tensor<?xf32>) outs(%p : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>"""
    refuse_to_compile("indexed by a map other than its rows and columns",
                      graph=graph_text(body))


def test_no_graph():
    refuse_to_compile("expected one graph", "found 0", graph="module {\n}\n")
    refuse_to_compile("expected one graph", "found 0",
                      graph="func.func @f(%a: f32) -> f32 {\n  return %a : f32\n}\n")


def test_no_strategy():
    refuse_to_compile("graph 'adamw' needs a strategy", "collage-plus",
                      "a file on the path", strategy=None)


def test_strategy_of_a_kernel():
    kernel = tandem.compile("adamw", "fp32").ir
    refuse_to_compile("kernel 'adamw' has its storages", "leave out the strategy 'fp32'",
                      graph=kernel)
    refuse_to_compile("nothing to measure", "without metrics", graph=kernel,
                      strategy=None, metrics=True)
    with pytest.raises(ValueError, match="leave out the strategy 'fp32'"):
        tandem.interpret(kernel, "fp32", {}, {})


def test_two_graphs():
    refuse_to_compile("expected one graph", "found 2",
                      graph=graph_text(DESCEND) + graph_text(DESCEND, "again"))


@pytest.mark.parametrize("old, new, parts", [
    (' {tandem.role = #tandem.role<grad "g">}', "",
     ("argument #1 has no tandem.role", "needs one")),
    ('<grad "g">', '<grad "p">', ('two arguments are named "p"', "unique")),
    ('<grad "g">', '<gradient "g">', ("unknown role 'gradient'", "hyper")),
    ("domain = nonneg", "domain = positive",
     ("unknown role field 'domain = positive'", "nonneg")),
    ("return %r : tensor<?xf32>", "return %r, %x : tensor<?xf32>, tensor<?xf32>",
     ("expected 1 results, got 2",)),
])
def test_bad_graph(old, new, parts):
    text = graph_text(DESCEND).replace(old, new)
    if "got 2" in parts[0]:
        text = text.replace("-> tensor<?xf32>", "-> (tensor<?xf32>, tensor<?xf32>)")
    assert text != graph_text(DESCEND)
    refuse_to_compile(*parts, graph=text)


def test_expansion_that_nothing_could_keep():
    body = DESCEND.replace("arith.addf %p, %x", "arith.maximumf %p, %x")
    refuse_to_compile('the new value of "p" is not made of s + d', "plain storage",
                      graph=graph_text(body), strategy="collage-plus")


def test_scalar_operation():
    body = DESCEND.replace("%n = arith.negf %lr", "%n = math.exp %lr")
    refuse_to_compile("a scalar expression of hyperparameters uses + - * /",
                      "'math.exp' is none of them", graph=graph_text(body))


#===----------------------------------------------------------------------===#
# Launches
#===----------------------------------------------------------------------===#


@pytest.fixture
def kernel():
    return compiled("adamw", "collage-plus")


@pytest.fixture
def arrays():
    return cases.state("adamw", STRATEGIES["collage-plus"], "ordinary", 20, 1)


HYPERS = cases.hypers("adamw", STRATEGIES["collage-plus"])
SCALARS = HYPERS | {"step": 1}


def refuse_to_run(kernel, arrays, *parts, error=ValueError, **scalars):
    """Asserts that a launch fails with a message that has all parts and changes nothing."""
    before = {n: np.array(a, copy=True) for n, a in arrays.items()}
    with pytest.raises(error) as caught:
        kernel(arrays, **SCALARS | scalars)
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    for name, old in before.items():
        assert np.asarray(arrays[name]).tobytes() == old.tobytes(), f"{name} changed"


def test_missing_array(kernel, arrays):
    del arrays["exp_avg"]
    refuse_to_run(kernel, arrays, "adamw under collage-plus lacks 'exp_avg'",
                  "its arrays are param, param.lo, grad", error=TypeError)


def test_missing_plane(kernel, arrays):
    del arrays["param.lo"]
    refuse_to_run(kernel, arrays, "lacks 'param.lo'", error=TypeError)


def test_extra_array(kernel, arrays):
    arrays["exp_avg.lo"] = arrays["exp_avg"].copy()
    refuse_to_run(kernel, arrays, "has no 'exp_avg.lo'", "its arrays are param",
                  error=TypeError)


def test_state_of_another_strategy(kernel, arrays):
    """The message names the strategy if planes have other names or are incomplete for their
    tensor, but not if a name is misspelt or a tensor is missing."""
    hint = "looks like a state of another strategy, which tandem.convert_state converts"
    other = arrays | {"exp_avg.scale": arrays["exp_avg"].copy()}
    refuse_to_run(kernel, other, f"'exp_avg.scale' {hint}", error=TypeError)
    part = {name: array for name, array in arrays.items() if name != "exp_avg_sq.lo"}
    refuse_to_run(kernel, part, f"'exp_avg_sq' {hint}", error=TypeError)
    for wrong in (arrays | {"momentum": arrays["exp_avg"]},
                  {name: array for name, array in arrays.items() if name != "exp_avg"},
                  arrays | {"grad.2": arrays["grad"]}):
        with pytest.raises(TypeError) as caught:
            kernel(wrong, **SCALARS)
        assert "another strategy" not in str(caught.value)


def test_codes_are_listed(tmp_path):
    """A strategy without a code gets a list of all codes."""
    attributes = (ROOT / "include/tandem/Dialect/Scaled/IR/ScaledAttrs.td").read_text()
    codes = re.findall(r': Scaled_Code<"\w+", "(\w+)"', attributes)
    assert len(codes) >= 7
    (tmp_path / "mine.mlir").write_text(
        "tandem.strategy @mine compute(<f32, f32>) {\n"
        "  tandem.assign param = #tandem.scaled<f8E4M3FN, group = 32, scale = f32>\n}\n")
    with pytest.raises(ValueError) as caught:
        tandem.compile("adamw", "mine", path=[tmp_path])
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'mine.mlir'}:2:40: expected a code, got f8E4M3FN")
    assert all(f"#scaled.{code}" in message for code in codes)
    assert "\n" not in message


@pytest.mark.parametrize("dtype", (np.float32, np.float16, np.uint8, np.int64))
def test_wrong_dtype(kernel, arrays, dtype):
    arrays["exp_avg"] = np.ones(20, dtype=dtype)
    refuse_to_run(kernel, arrays, "array 'exp_avg' must be bf16 (or 16-bit integers)",
                  f"got {np.dtype(dtype)}", error=TypeError)


def test_no_array(kernel, arrays):
    with pytest.raises(TypeError, match="array 'grad' is a list, which is not an"):
        kernel(arrays | {"grad": [0] * 20}, step=1)


def test_sizes_differ(kernel, arrays):
    arrays["exp_avg_sq.lo"] = np.zeros(21, np.uint16)
    refuse_to_run(kernel, arrays, "array 'exp_avg_sq.lo' has 21 elements",
                  "'param' has 20", "must have one size")


def test_read_only(kernel, arrays):
    arrays["exp_avg"].flags.writeable = False
    refuse_to_run(kernel, arrays, "array 'exp_avg' is read-only",
                  "pass a writable copy")


def test_read_only_gradient_is_fine(kernel, arrays):
    arrays["grad"].flags.writeable = False
    kernel(arrays, **SCALARS)


def test_swapped_bytes(kernel, arrays):
    arrays["param"] = arrays["param"].astype(">u2")
    refuse_to_run(kernel, arrays, "array 'param' has the bytes of its elements swapped",
                  "newbyteorder", error=TypeError)


@pytest.mark.parametrize("name, value, message", (
    ("key", 2**70, "key must be an integer of 64 bits"),
    ("first", 2**64, "first must be an integer of 64 bits"),
    ("threads", 10**12, "threads is 1000000000000; pass 0 for one per core, or 1 to 1024"),
    ("threads", -1, "threads is -1; pass 0"),
    ("step", 2**63, "step is 9223372036854775808; it must be less than 2**63")))
def test_numbers_out_of_range(kernel, arrays, name, value, message):
    refuse_to_run(kernel, arrays, message, **{name: value})


def test_not_contiguous(kernel, arrays):
    arrays["grad"] = np.repeat(arrays["grad"], 2)[::2]
    refuse_to_run(kernel, arrays, "array 'grad'", "not contiguous",
                  "pass a contiguous copy")


@pytest.mark.parametrize("other", ("grad", "param.lo", "exp_avg"))
def test_overlap(kernel, arrays, other):
    """Planes may not overlap even by one element, also if the other one is only read."""
    memory = np.zeros(39, np.uint16)
    arrays["param"], arrays[other] = memory[:20], memory[19:]
    refuse_to_run(kernel, arrays, "which the kernel writes, shares 2 bytes with",
                  "'param'", f"'{other}'", "give each its own memory")


def test_same_array_twice(kernel, arrays):
    arrays["exp_avg"] = arrays["param"]
    refuse_to_run(kernel, arrays, "shares 40 bytes with", "'exp_avg'", "'param'")


def test_unaligned(kernel, arrays):
    memory = np.zeros(41, np.uint8)
    odd = 1 - memory.ctypes.data % 2
    arrays["param"] = memory[odd:odd + 40].view(np.uint16)
    refuse_to_run(kernel, arrays, "plane 'param' is at", "not aligned to its elements "
                  "of 2 bytes")


NOT_FINITE = (float("nan"), float("inf"), -float("inf"))


@pytest.mark.parametrize("name", HYPERS)
@pytest.mark.parametrize("value", NOT_FINITE)
def test_not_finite(kernel, arrays, name, value):
    refuse_to_run(kernel, arrays, f"hyper '{name}' of row 0 is {value}", "must be",
                  **{name: value})


@pytest.mark.parametrize("name", ("lr", "weight_decay", "eps", "beta1", "beta2"))
def test_negative(kernel, arrays, name):
    refuse_to_run(kernel, arrays, f"hyper '{name}' of row 0 is -0.5",
                  "it must be at least 0", **{name: -0.5})


@pytest.mark.parametrize("name", ("beta1", "beta2"))
def test_beta_is_one(kernel, arrays, name):
    refuse_to_run(kernel, arrays, f"hyper '{name}' of row 0 is 1; it must be",
                  "less than 1", **{name: 1.0})


@pytest.mark.parametrize("value", (0, -1, -2**63))
def test_step(kernel, arrays, value):
    refuse_to_run(kernel, arrays, f"integer 'step' of row 0 is {value}",
                  "at least 1", step=value)


def test_fractional_step(kernel, arrays):
    refuse_to_run(kernel, arrays, "step", error=TypeError, step=1.5)


def test_unknown_scalar(kernel, arrays):
    refuse_to_run(kernel, arrays, "adamw has no scalar 'momentum'",
                  "it takes lr, beta1, beta2, eps, weight_decay, step",
                  error=TypeError, momentum=0.9)


def test_the_step_has_no_default(kernel, arrays):
    """With a default, every call that omits it would be the first step."""
    hypers = {name: value for name, value in SCALARS.items() if name != "step"}
    before = arrays["param"].copy()
    with pytest.raises(TypeError, match="adamw under collage-plus depends on the number of "
                                        "the step; pass step=1 to the first call, and one "
                                        "more to each"):
        kernel(arrays, **hypers)
    assert (arrays["param"] == before).all()
    with pytest.raises(TypeError, match="sgd under bf16-stochastic depends on the number"):
        drawn(lambda a: tandem.compile("sgd", "bf16-stochastic")(a, seed=3, **SGD_HYPERS))
    tandem.compile("sgd", "fp32")(sgd_arrays(), **SGD_HYPERS)  # has no step


def test_scalar_without_default(arrays):
    kernel = tandem.compile(graph_text(DESCEND), "fp32")
    planes = {"p": np.ones(4, np.float32), "g": np.ones(4, np.float32)}
    with pytest.raises(TypeError, match="descend needs a value for 'lr'"):
        kernel(planes)
    assert (planes["p"] == 1).all()


def test_eps_that_rounds_to_zero():
    """With an f16 component, the default eps would divide by zero."""
    kernel = compiled("adamw", "f16")
    planes = {p.name: np.ones(8, np.uint16) for p in kernel.planes}
    refuse_to_run(kernel, planes, "hyper 'eps' of row 0 is 1e-08",
                  "this kernel's format would round to zero", "use 0 or at least",
                  eps=1e-8)


def test_least_eps():
    """The message's bound is exact: half of the smallest subnormal is a tie, rounded to zero."""
    kernel = compiled("adamw", "f16")
    planes = {p.name: np.ones(8, np.uint16) for p in kernel.planes}
    refuse_to_run(kernel, planes, "would round to zero", eps=2.0**-25)
    for eps in (0.0, np.nextafter(2.0**-25, 1.0)):
        kernel(planes, **SCALARS | {"eps": eps})


@pytest.mark.parametrize("threads", (-1, 10**6))
def test_threads(kernel, arrays, threads):
    refuse_to_run(kernel, arrays, f"threads is {threads}", "0 for one per core",
                  threads=threads)


@pytest.mark.parametrize("first", (-1, 2**63 - 10))
def test_first(kernel, arrays, first):
    refuse_to_run(kernel, arrays, f"first is {first}", first=first)


#===----------------------------------------------------------------------===#
# Plans and targets
#===----------------------------------------------------------------------===#


def test_gpu_kernel_on_arrays(arrays):
    kernel = compiled("adamw", "collage-plus", "sm_90")
    refuse_to_run(kernel, arrays, "no image runs on cpu", "one for sm_90")


def test_ptx_of_a_cpu_kernel(kernel):
    with pytest.raises(AttributeError, match="compiled for 'cpu'.*target='sm_90'"):
        kernel.ptx


def test_plan_row_out_of_range(kernel, arrays):
    plan = tandem.Plan(kernel)
    before = {n: a.copy() for n, a in arrays.items()}
    plan.update([20], [[arrays[p.name].ctypes.data for p in kernel.planes]], rows=[2])
    hypers, integers = kernel.scalars(SCALARS)
    with pytest.raises(ValueError, match="scalar_row is 2 but the launch has 1 rows"):
        plan.launch([hypers], [integers])
    assert all((arrays[n] == before[n]).all() for n in before)


def test_plan_second_row_is_checked(kernel, arrays):
    """Every row is checked before any element changes."""
    plan = tandem.Plan(kernel)
    before = {n: a.copy() for n, a in arrays.items()}
    plan.update([20], [[arrays[p.name].ctypes.data for p in kernel.planes]])
    good, integers = kernel.scalars(SCALARS)
    bad, _ = kernel.scalars(SCALARS | {"lr": -1.0})
    with pytest.raises(ValueError, match="hyper 'lr' of row 1 is -1"):
        plan.launch([good, bad], [integers, integers])
    assert all((arrays[n] == before[n]).all() for n in before)


def test_plan_null_pointer(kernel):
    with pytest.raises(ValueError, match="plane 'param' is NULL.*has 20 elements"):
        tandem.Plan(kernel).update([20], [[0] * len(kernel.planes)])


def test_plan_lists_differ(kernel):
    with pytest.raises(ValueError, match="lists of a plan differ in length"):
        tandem.Plan(kernel).update([20, 20], [[0] * len(kernel.planes)])


def test_plan_keeps_its_tensors(kernel, arrays):
    """A refused update does not change the plan."""
    plan = tandem.Plan(kernel)
    plan.update([20], [[arrays[p.name].ctypes.data for p in kernel.planes]])
    with pytest.raises(ValueError, match=re.escape("columns is -1")):
        plan.update([-1], [[0] * len(kernel.planes)])
    expected = {n: a.copy() for n, a in arrays.items()}
    kernel(expected, **SCALARS)
    hypers, integers = kernel.scalars(SCALARS)
    plan.launch([hypers], [integers])
    assert all((arrays[n] == expected[n]).all() for n in expected)


#===----------------------------------------------------------------------===#
# Arrays that are not planes
#===----------------------------------------------------------------------===#


def sgd_arrays(**changed):
    return {"param": np.ones(4, np.float32), "grad": np.ones(4, np.float32)} | changed


SGD_HYPERS = {"lr": 0.5, "weight_decay": 0.0}


@pytest.mark.parametrize("make", (
    lambda: memoryview(bytes(16)),
    lambda: np.frombuffer(bytes(16), np.float32),
    lambda: np.frombuffer(bytes(16), np.float32).view(np.recarray)))
def test_what_is_read_only_is_not_written(make):
    with pytest.raises(ValueError, match="array 'param' is read-only"):
        tandem.compile("sgd", "fp32")(sgd_arrays(param=make()), **SGD_HYPERS)
    with pytest.raises(ValueError, match="array 'param' is read-only"):
        tandem.interpret("sgd", "fp32", sgd_arrays(param=make()), SGD_HYPERS)


class Unchanging:
    """An immutable array, like JAX's, with DLPack before version 1 and a dtype that the buffer
    protocol lacks."""

    def __init__(self, array, exports=lambda array, **_: array.__dlpack__()):
        self._array, self._exports = array, exports

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self._exports(self._array, **options)


def refuse_options(array, **options):
    """Refuses the options of DLPack 1, as exporters from before 2023 do."""
    if "max_version" in options:
        raise TypeError("unexpected keyword argument 'max_version'")
    return array.__dlpack__()


@pytest.mark.parametrize("exports", (lambda array, **_: array.__dlpack__(), refuse_options))
def test_what_does_not_say_that_it_may_be_written_is_not(exports):
    kernel, array = tandem.compile("sgd", "fp32"), np.ones(4, np.float32)
    with pytest.raises(ValueError, match="array 'param' is read-only, or does not say that it "
                                         "may be written, but the kernel writes it; pass a"):
        kernel(sgd_arrays(param=Unchanging(array, exports)), **SGD_HYPERS)
    arrays = sgd_arrays(grad=Unchanging(array, exports))
    kernel(arrays, **SGD_HYPERS)
    assert (array == 1).all() and (arrays["param"] == 0.5).all()


def test_what_says_that_it_may_be_written_is():
    array = np.ones(4, np.float32)
    exported = Unchanging(array, lambda array, **options: array.__dlpack__(**options))
    tandem.compile("sgd", "fp32")(sgd_arrays(param=exported), **SGD_HYPERS)
    assert (array == 0.5).all()


def test_gradients_may_be_read_only():
    arrays = sgd_arrays(grad=np.frombuffer(np.ones(4, np.float32).tobytes(), np.float32))
    tandem.compile("sgd", "fp32")(arrays, **SGD_HYPERS)
    assert (arrays["param"] == 0.5).all()


def test_counts_are_no_floats():
    """32-bit counts are signed; unsigned arrays are bits."""
    kernel = tandem.compile("sgd", "fp32")
    with pytest.raises(TypeError, match="must be f32 .or unsigned 32-bit integers., got int32"):
        kernel(sgd_arrays(grad=np.ones(4, np.int32)), **SGD_HYPERS)
    arrays = sgd_arrays()
    kernel(arrays | {"grad": arrays["grad"].view(np.uint32)}, **SGD_HYPERS)
    assert (arrays["param"] == 0.5).all()


def test_one_array_twice_is_interpreted():
    """The interpreter does not return an array that is read and not written."""
    array = np.ones(4, np.float32)
    tandem.interpret("sgd", "fp32", {"param": array, "grad": array}, SGD_HYPERS)
    assert (array == 0.5).all()


#===----------------------------------------------------------------------===#
# Integers
#===----------------------------------------------------------------------===#


def drawn(run):
    """Returns the results of a step with stochastic rounding."""
    arrays = {"param": np.full(64, 0x3F80, np.uint16), "grad": np.full(64, 0x3A80, np.uint16)}
    run(arrays)
    return arrays["param"].tobytes()


def test_seeds_have_64_bits():
    """Signed and unsigned seeds with the same bits are equal."""
    kernel = tandem.compile("sgd", "bf16-stochastic")
    seen = set()
    for seed in (0, 1, -1, 2**63, 2**64 - 1, -(2**63), np.uint64(2**63), np.int8(-1)):
        compiled = drawn(lambda a: kernel(a, **SGD_HYPERS, step=3, seed=seed))
        assert compiled == drawn(lambda a: tandem.interpret(
            "sgd", "bf16-stochastic", a, SGD_HYPERS, step=3, seed=seed))
        seen.add(compiled)
    assert len(seen) == 4


@pytest.mark.parametrize("name", ("step", "seed"))
@pytest.mark.parametrize("value, error, why", (
    (2**64, ValueError, "of 64 bits, got 18446744073709551616"),
    (-(2**63) - 1, ValueError, "of 64 bits, got -9223372036854775809"),
    (1.5, TypeError, "got 1.5"), ("1", TypeError, "got '1'"), (None, TypeError, "got None")))
def test_integers_that_are_none(name, value, error, why):
    kernel = tandem.compile("sgd", "bf16-stochastic")
    with pytest.raises(error, match=f"{name} must be an integer.*{why}"):
        drawn(lambda a: kernel(a, **SGD_HYPERS, **{"step": 1, name: value}))
    with pytest.raises(error, match=f"{name} must be an integer.*{why}"):
        drawn(lambda a: tandem.interpret("sgd", "bf16-stochastic", a, SGD_HYPERS, **{name: value}))


@pytest.mark.parametrize("step", (0, -1, 2**63))
def test_steps_begin_at_one(step):
    kernel = tandem.compile("sgd", "bf16-stochastic")
    with pytest.raises(ValueError, match="step"):
        drawn(lambda a: kernel(a, **SGD_HYPERS, step=step))
    with pytest.raises(ValueError, match="step"):
        drawn(lambda a: tandem.interpret("sgd", "bf16-stochastic", a, SGD_HYPERS, step=step))


#===----------------------------------------------------------------------===#
# Texts that crash MLIR's own parser
#===----------------------------------------------------------------------===#

LIST = """
func.func @f(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  %none = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%p : tensor<?xf32>) outs(%none : tensor<f32>)
      dimensions = LIST
  return %p : tensor<?xf32>
}"""


@pytest.mark.parametrize("dimensions", (
    "[0, ]", "[0 1]", "[x]", "0", "[-1]", "[99999999999999999999]"))
def test_lists_of_dimensions(dimensions):
    graph = LIST.replace("LIST", dimensions)
    with pytest.raises(ValueError, match=r"5:20: expected a list of dimensions, such as \[0"):
        tandem.compile(graph, "fp32")
    with pytest.raises(ValueError, match="expected a list of dimensions"):
        tandem.interpret(graph, "fp32", {"p": np.zeros(3, np.float32)}, {})


@pytest.mark.parametrize("iterators", ("[5]", '["parallel", 2.0]', "[#linalg.iterator_type<x>]"))
def test_lists_of_iterators(iterators):
    graph = """
func.func @f(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ITERATORS}
      outs(%p : tensor<?xf32>) {
  ^bb0(%out: f32):
    linalg.yield %out : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}"""
    tandem.compile(graph.replace("ITERATORS", '["parallel"]'), "fp32")
    with pytest.raises(ValueError, match=r"3:83: expected a list of iterators, such as \["):
        tandem.compile(graph.replace("ITERATORS", iterators), "fp32")


def test_reductions_of_numbers():
    graph = """
func.func @f(%h: f64 {tandem.role = #tandem.role<hyper "h">},
             %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  %x = arith.truncf %h : f64 to f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%x : f32) outs(%none : tensor<f32>) dimensions = []
  return %p : tensor<?xf32>
}"""
    with pytest.raises(ValueError, match=r"6:25: expected an operation in braces, ins\(\.\.\.\) "
                                         r"and outs\(\.\.\.\) of tensors"):
        tandem.compile(graph, "fp32")


def test_comments_are_no_lists():
    graph = LIST.replace("LIST", '[ 0 ] {note = "a // b"} // dimensions = [0 1]')
    arrays = {"p": np.ones(3, np.float32)}
    tandem.interpret(graph, "fp32", arrays, {})
    tandem.compile(graph, "fp32")(arrays)


SECOND = """
!p = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
!q = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
tandem.kernel @k compute(<f32, f32>)
    tensors [#tandem.role<param "p">, #tandem.role<state "NAME">]
    scalars [#tandem.role<hyper "lr">, #tandem.role<hyper "HYPER">] prologue {
^bb0(%lr: f64, %wd: f64):
  tandem.yield
} body {
^bb0(%p: !p, %q: !q):
  tandem.yield
}"""


GENERIC = """
func.func @f(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  %none = arith.constant dense<0.0> : tensor<f32>
  %sum = "linalg.reduce"(%p, %none) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }) : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  return %p : tensor<?xf32>
}"""


def test_the_generic_form_is_read():
    arrays = {"p": np.ones(3, np.float32)}
    tandem.interpret(GENERIC, "fp32", arrays, {})
    tandem.compile(GENERIC, "fp32")(arrays)


@pytest.mark.parametrize("name, hyper, repeated", (
    ("q", "wd", None), ("p", "wd", "p"), ("p.lo", "wd", "p.lo"), ("lr", "wd", "lr"),
    ("q", "lr", "lr")))
def test_arguments_of_one_name(name, hyper, repeated):
    text = SECOND.replace("NAME", name).replace("HYPER", hyper)
    if repeated is None:
        tandem.compile(text)
        return
    with pytest.raises(ValueError, match=f"kernel 'k' takes two arguments named '{repeated}'"):
        tandem.compile(text)
