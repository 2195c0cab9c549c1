#===- test_recipes.py - Recipes of scales ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests what each recipe of a scale promises: delayed scaling, given scales, counts of
# saturated elements, two-stage maxima, the OCP microscaling formats, and NVFP4.
#
#===----------------------------------------------------------------------===#

import ml_dtypes
import numpy as np
import pytest

import tandem
from model import Strategy
from model.codes import FloatCode, MinifloatCode, SoftsignCode
from model.formats import decode, encode
from model.scaled import WHOLE, Coded, Scaled, unpack
from model.storage import Draw, Plain
from support.codes import CODES, SWAP, groups_of_values, values
from support.kernels import assert_same, integers_of, run_plan, strategy_text
from support.launch import Tensor, aligned_copy, launch

E4M3 = FloatCode("f8E4M3FN")
TARGETS = ("cpu", "sm_80", "sm_100")


@pytest.fixture
def compile_swap(tmp_path):
    """Returns compile_swap(storage, target), which compiles a kernel that stores g in w."""
    def build(storage, target="cpu"):
        strategy = Strategy(Plain("f32"), storage, Plain("f32"), Plain("f32"))
        (tmp_path / "swapped.mlir").write_text(strategy_text("swapped", strategy))
        return tandem.compile(SWAP, "swapped", target, path=[tmp_path])
    return build


def zeros(storage, size):
    entries = storage.entries("w", size)
    return {n: np.zeros(entries[n], d) for n, d in storage.planes("w").items()}


def store(kernel, planes, *x, seed=0):
    """Returns the planes of w after storing x."""
    x = np.array(x, np.float32)
    arrays = {n: p.copy() for n, p in planes.items()}
    kernel(arrays | {"g": x, "read": np.zeros_like(x)}, **integers_of(kernel, 1, seed))
    return arrays


#===----------------------------------------------------------------------===#
# Delayed scaling
#===----------------------------------------------------------------------===#


def test_a_scale_follows_the_history(compile_swap):
    """Each step has (amax, the scale it is stored with, the scale of the next store)."""
    storage = Scaled(E4M3, WHOLE, "f32", "pow2", history=3, margin=1)
    kernel = compile_swap(storage)
    planes = zeros(storage, 2)
    steps = [(448.0, 1.0, 2.0),     # nothing is recorded: 1; then 448 / 448 * 2
             (7.0, 2.0, 2.0),       # 448 is still among the last three
             (np.nan, 2.0, 2.0),    # not a number: counts as 0
             (0.0, 2.0, 0.03125),   # 448 has left the history: 7 / 448 * 2
             (0.0, 0.03125, 0.03125),
             (0.0, 0.03125, 0.03125),  # all are 0: the scale stays
             (-9.0, 0.03125, 0.0625)]
    for amax, scale, following in steps:
        planes = store(kernel, planes, amax, 0.0)
        assert decode("f32", planes["w.scale"]).tolist() == [scale]
        assert decode("f32", planes["w.next_scale"]).tolist() == [following]
    assert decode("f32", planes["w.history"]).tolist() == [9.0, 0.0, 0.0]


def test_what_grows_saturates(compile_swap):
    storage = Scaled(E4M3, WHOLE, "f32", "pow2", history=1)
    kernel, planes = compile_swap(storage), zeros(storage, 3)
    for _ in range(2):
        planes = store(kernel, planes, 1.0, -1.0, 0.5)
    planes = store(kernel, planes, 100.0, -np.inf, 3.0)
    assert storage.decode(planes, "w")[[0, 2]].tolist() == [1.75, 1.75]
    assert np.isnan(storage.decode(planes, "w")[1])
    planes = store(kernel, planes, 104.0, -104.0, 3.0)
    assert storage.decode(planes, "w").tolist() == [104.0, -104.0, 3.0]


def test_one_pass(compile_swap):
    """No phase precedes the one that writes, while just-in-time scaling requires one."""
    current, delayed = (compile_swap(Scaled(E4M3, WHOLE, "f32", history=n)) for n in (0, 8))
    assert (current.phases, delayed.phases) == (2, 1)
    assert "-w w.next_scale" not in delayed.signature
    assert "  rw w.history: f32 x 8 for the tensor" in delayed.signature.splitlines()
    assert [p.persistent for p in delayed.planes if p.role == "w"] == [False, False, True, True]


def test_wrong_history(compile_swap):
    storage = Scaled(E4M3, WHOLE, "f32", history=8)
    planes = zeros(storage, 2) | {"g": np.zeros(2, np.uint32), "read": np.zeros(2, np.uint32)}
    planes["w.history"] = planes["w.history"][:1].copy()
    with pytest.raises(ValueError, match="'w.history' has 1 elements, .* a whole tensor "
                       "has a history of 8"):
        compile_swap(storage)(planes)


#===----------------------------------------------------------------------===#
# Given scales
#===----------------------------------------------------------------------===#


def test_given_scales_are_only_read(compile_swap):
    kernel = compile_swap(Scaled(E4M3, WHOLE, "f32", "given"))
    assert kernel.phases == 1 and not kernel.reductions
    assert [(p.read, p.written) for p in kernel.planes if p.name == "w.scale"] == [
        (True, False)]
    scale = encode("f32", np.array([0.5], np.float32))
    scale.flags.writeable = False
    planes = {"w": np.zeros(2, np.uint8), "w.scale": scale}
    got = {"w": planes["w"], "w.scale": scale, "g": np.array([2.0, 448.0], np.float32),
           "read": np.zeros(2, np.float32)}
    kernel(got)
    assert got["w"].tolist() == [0x48, 0x7E]  # 4, and 448 for 896


def test_tensors_may_share_a_given_scale(compile_swap):
    """No kernel writes a given scale."""
    kernel = compile_swap(Scaled(E4M3, WHOLE, "f32", "given"))
    scale = encode("f32", np.array([2.0], np.float32))
    tensors = [{"w": np.zeros(n, np.uint8), "g": np.full(n, 3.0, np.float32),
                "read": np.zeros(n, np.float32)} for n in (1, 40)]
    plan = tandem.Plan(kernel)
    plan.update([1, 40], [[(t | {"w.scale": scale})[p.name].ctypes.data
                           for p in kernel.planes] for t in tensors])
    plan.launch([[]], [[]])
    assert all((t["w"] == 0x3C).all() for t in tensors)  # 1.5


#===----------------------------------------------------------------------===#
# Saturation
#===----------------------------------------------------------------------===#

COUNT = """
!w = !tandem.stored<tensor<?xf32>, {storage}>
!g = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
tandem.kernel @count compute(<f32, f32>)
    tensors [#tandem.role<state "w">, #tandem.role<grad "g">] scalars [] prologue {{
  tandem.yield
}} body {{
^bb0(%w: !w, %g: !g):
  %x = tandem.load %g : !g -> f32
  tandem.store %x, %w : f32, !w
  tandem.saturation %w : !w
  tandem.yield
}}"""
COUNTED = [Scaled(CODES[name], group, "f32", recipe, history)
           for name, group, recipe, history in (
               ("e4m3", 16, "given", 0), ("e4m3", WHOLE, "given", 0), ("pair", 32, "pow2", 0),
               ("expanded", 64, "current", 0), ("softsign", WHOLE, "current", 0),
               ("signed", 16, "mx_floor", 0), ("e2m1", 32, "mx_floor", 0),
               ("e5m2", WHOLE, "pow2", 3), ("root", WHOLE, "current", 2))]
COUNTED += [Coded(CODES[name]) for name in ("e4m3", "e2m1", "f16", "unsigned")]


def counted_tensors(storage):
    rng = np.random.default_rng(4)
    ordinary = [rng.standard_normal(n).astype(np.float32) * 300 for n in (5000, 1, 70)]
    tensors = [*ordinary, np.zeros(0, np.float32), values(rng, 300),
               groups_of_values(storage.code.largest)[:4000]]
    for x in tensors:
        planes = {n: rng.integers(0, 1 << 8 * d.itemsize, storage.entries("w", len(x))[n],
                                  dtype=np.uint64).astype(d)
                  for n, d in storage.planes("w").items()}
        yield planes | {"g": x.view(np.uint32)}, storage.renew(planes, "w", x, Draw())


@pytest.mark.parametrize("storage", COUNTED, ids=str)
def test_saturation(storage):
    """The count is exact, in the pass that writes, for any division of the work."""
    text = strategy_text("s", Strategy(storage, *3 * [Plain("f32")]))
    spelled = text.split("grad = ")[1].splitlines()[0]
    tensors, want = zip(*counted_tensors(storage))
    counts = [storage.saturated(new, "w") for new in want]
    assert sum(counts) > 1
    kernel = tandem.compile(COUNT.format(storage=spelled))
    for threads in (1, 3):
        arrays = [{n: p.copy() for n, p in t.items()} for t in tensors]
        plan = tandem.Plan(kernel)
        plan.update([len(t["g"]) for t in tensors],
                    [[t[p.name].ctypes.data for p in kernel.planes] for t in arrays])
        plan.launch([[]], [[]], threads=threads)
        for i, (before, after) in enumerate(zip(tensors, want)):
            assert_same(arrays[i], before | after, f"tensor {i}")
            assert plan.metrics(i) == [counts[i]]
        assert plan.metrics() == [sum(counts)]
    for chip in ("sm_80", "sm_90"):
        launched = [Tensor({n: aligned_copy(p) for n, p in t.items()}) for t in tensors]
        done = launch(tandem.compile(COUNT.format(storage=spelled), target=chip), launched,
                      [{}], chunk_size=1024, threads=64, blocks=2)
        for i, (before, after) in enumerate(zip(tensors, want)):
            assert_same(launched[i].planes, before | after, f"tensor {i} on {chip}")
            assert done.metrics(i) == [counts[i]]


#===----------------------------------------------------------------------===#
# Two stages
#===----------------------------------------------------------------------===#


def test_two_stages(compile_swap):
    """In COAT's group scaling, the maximum of the groups' maxima is that of the tensor, so that
    a per-tensor scale is the same as in one stage."""
    rng, tensors = np.random.default_rng(8), []
    for size in (1, 15, 4097, 70001):
        x = rng.standard_normal(size) * np.exp2(rng.uniform(-100, 100, size))
        x[:-1:9] = rng.choice([0.0, np.nan, np.inf], len(x[:-1:9]))
        tensors.append(x.astype(np.float32))
    scales = []
    # Softsign's scale is the largest magnitude itself.
    for storage in (Scaled(SoftsignCode(), group, "f32") for group in (16, WHOLE)):
        planes = [zeros(storage, len(x)) | {"g": x.view(np.uint32),
                                            "read": np.zeros(len(x), np.uint32)}
                  for x in tensors]
        scales.append([decode("f32", new["w.scale"])
                       for new in run_plan(compile_swap(storage), planes, [{}], threads=2)])
    for x, stage, whole in zip(tensors, *scales):
        assert whole.tolist() == [stage.max()] == [np.abs(x[np.isfinite(x)]).max()]


#===----------------------------------------------------------------------===#
# The OCP's microscaling formats
#===----------------------------------------------------------------------===#

# (code, the exponent of the largest number, the largest number): OCP Microscaling
# Formats v1.0, table 1.
MX = {"MXFP8 E4M3": (E4M3, 8, 448.0), "MXFP8 E5M2": (FloatCode("f8E5M2"), 15, 57344.0),
      "MXFP6 E3M2": (MinifloatCode(3, 2, specials="none"), 4, 28.0),
      "MXFP6 E2M3": (MinifloatCode(2, 3, specials="none"), 2, 7.5),
      "MXFP4 E2M1": (MinifloatCode(2, 1, specials="none"), 2, 6.0)}


@pytest.mark.parametrize("name", MX)
def test_mx(name, compile_swap):
    """Blocks have 32 elements. The shared exponent is floor(log2(amax)) minus that of the
    largest number; elements are rounded and saturate (section 6.3)."""
    code, exponent, largest = MX[name]
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((500, 32)) * np.exp2(rng.uniform(-100, 90, (500, 1))))
    x[:, 1:] *= np.exp2(-rng.uniform(0, 12, (500, 31)))
    x = x.astype(np.float32)
    storage = Scaled(code, 32, "f8E8M0FNU", "mx_floor")
    planes = store(compile_swap(storage), zeros(storage, x.size), *x.ravel())
    amax = np.abs(x).max(1).astype(np.float64)
    shared = np.floor(np.log2(amax)) - exponent
    assert np.array_equal(planes["w.scale"], shared + 127)
    y = x / np.exp2(shared)[:, None]
    got = storage.decode(planes, "w").reshape(x.shape) / np.exp2(shared)[:, None]
    numbers = np.unique(np.abs(code.decode([np.arange(256, dtype=np.uint8)])))
    numbers = numbers[numbers <= largest].astype(np.float64)
    assert numbers[-1] == largest
    nearest = np.abs(np.abs(y)[..., None] - numbers).min(-1)
    assert np.array_equal(np.abs(np.abs(y) - np.abs(got)), nearest)
    assert (np.abs(got) == largest).any() and (np.abs(y) > largest).any()


#===----------------------------------------------------------------------===#
# NVFP4
#===----------------------------------------------------------------------===#


def transformer_engine_nvfp4(x):
    """Returns the codes, the scales of blocks and the scale of the tensor of rows of 16 elements, by
    the arithmetic of Transformer Engine's kernels: all in float32, and formats of ml_dtypes."""
    f32, e2m1, e4m3 = np.float32, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn
    amax = np.abs(x).max()
    encode = np.minimum(f32(448 * 6) / amax, np.finfo(f32).max) if amax else f32(1)
    blocks = (np.abs(x).max(1) * (encode * (f32(1) / f32(6)))).astype(e4m3)
    decode = f32(1) / encode
    inverse = np.minimum(f32(1) / (blocks.astype(f32) * decode), np.finfo(f32).max)
    codes = np.clip(x * inverse[:, None], -6, 6).astype(e2m1)
    return codes.view(np.uint8), blocks.view(np.uint8), decode


@pytest.mark.parametrize("spread", (0, 8, 30))
def test_nvfp4(spread, compile_swap):
    """Codes and scales have the bytes of Transformer Engine's, where a block's scale is not 0."""
    rng = np.random.default_rng(spread)
    x = rng.standard_normal((500, 16)) * np.exp2(rng.uniform(-spread, 0, (500, 1)))
    x = x.astype(np.float32)
    code = MinifloatCode(2, 1, specials="none")
    storage = Scaled(code, 16, "f8E4M3FN", tensor_scale=True)
    planes = store(compile_swap(storage), zeros(storage, x.size), *x.ravel())
    codes, blocks, decode = transformer_engine_nvfp4(x)
    assert np.array_equal(planes["w.scale"], blocks)
    assert planes["w.tensor_scale"].view(np.float32) == decode
    kept = blocks != 0
    assert spread < 30 or not kept.all()
    assert np.array_equal(unpack(planes["w"], 2).reshape(x.shape)[kept], codes[kept])
    got = storage.decode(planes, "w").reshape(x.shape)
    want = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32) * (
        blocks.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * decode)[:, None]
    assert np.array_equal(got[kept], want[kept]) and not got[~kept].any()


def test_nvfp4_is_unbiased_with_dither(compile_swap):
    """Scales that are rounded up clamp nothing, so that the mean of dithered numbers is the value."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(64 * 16).astype(np.float32)
    code = MinifloatCode(2, 1, specials="none", rounding="dither")
    storage = Scaled(code, 16, "f8E4M3FN", tensor_scale=True)
    kernel, total = compile_swap(storage), 0
    for seed in range(256):
        planes = store(kernel, zeros(storage, x.size), *x, seed=seed)
        total = total + storage.decode(planes, "w").astype(np.float64)
    one = np.linalg.norm(storage.decode(planes, "w") - x) / np.linalg.norm(x)
    assert np.linalg.norm(total / 256 - x) / np.linalg.norm(x) < one / 10
