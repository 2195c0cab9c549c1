#===- test_jax_convert.py - States under other strategies ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.jax.convert_state: its bits, which are those of tandem.torch.convert_state,
# and its errors.
#
#===----------------------------------------------------------------------===#

import functools
import itertools

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp

import tandem
import tandem.jax
from support.delayed import with_delayed_gradients
from support.jax_bits import (arrays, assert_same_bits, dtype_of, gradients, state_of_torch,
                              to_jax, to_torch)
from support.kernels import STRATEGY_PATH
from tandem.jax import convert_state

SHAPES = [(24, 80), (150,), (), (3, 4, 16), (0, 3), (1, 300), (6, 10)]
#: One strategy for each storage of weights and of states.
NAMES = ("fp32", "bf16-kahan", "collage-plus", "master-weights", "remainder", "flash", "coat",
         "fp8-collage-plus", "dither-softsign-root", "adam8bit", "fp8-lm", "fp8-lm-delayed")
PAIRS = [pair for pair in itertools.product(NAMES, NAMES)
         if {"fp32", "fp8-collage-plus", "adam8bit"} & set(pair)]
#: The PyTorch classes of the graphs.
KINDS = {"adamw": "AdamW", "adafactor": "Adafactor", "lion": "Lion", "sgd": "SGD"}


def make(strategy, name="adamw", **options):
    return getattr(tandem.jax, name)(strategy=strategy, **{"min_8bit_size": 0} | options)


def uneven_gradients(params, seed):
    """Returns gradients of many sizes, so that some moments are tiny relative to their scale."""
    return [grad * jnp.exp2(-4.0 * (jnp.arange(grad.size) % 8)).reshape(grad.shape).astype(grad.dtype)
            for grad in gradients(params, seed)]


def make_torch(name, tensors, **options):
    torch = pytest.importorskip("torch")
    import tandem.torch
    return getattr(tandem.torch, KINDS[name])([torch.nn.Parameter(x) for x in tensors],
                                              **{"min_8bit_size": 0} | options)


def trained_torch(strategy, name, params, seeds=range(2), **options):
    """Returns a PyTorch optimizer after some steps."""
    optimizer = make_torch(name, map(to_torch, params), strategy=strategy, **options)
    tensors = optimizer.param_groups[0]["params"]
    for seed in seeds:
        for tensor, grad in zip(tensors, uneven_gradients([to_jax(t) for t in tensors], seed)):
            tensor.grad = to_torch(grad)
        optimizer.step()
    return optimizer, tensors


def compared(source, target, name="adamw", shapes=SHAPES, dtypes=None, written=False,
             bound=0, path=(STRATEGY_PATH,), graph=None, **options):
    """Converts in both libraries and compares, also after another step."""
    pytest.importorskip("torch")
    import tandem.torch
    given = {"path": path} | (graph or {})
    ours, theirs = make(source, name, **given), make(target, name, min_8bit_size=bound, **given)
    params = arrays(shapes, dtype_of(ours))
    params = [x.astype(dtype) for x, dtype in zip(params, dtypes or [dtype_of(ours)] * len(params))]
    optimizer, tensors = trained_torch(source, name, params, **given)
    if written:
        tensors[0].data.mul_(0.75)
    leaves = [to_jax(t) for t in tensors]
    state = state_of_torch(ours, [optimizer.state.get(t, {}) for t in tensors], leaves)
    state_dict, weights = tandem.torch.convert_state(
        optimizer.state_dict(), tensors, target, min_8bit_size=bound, path=path, **options)
    convert = jax.jit(functools.partial(convert_state, source=ours, target=theirs, **options))
    params, state = convert(state, leaves)
    assert_same_bits(params, [to_jax(w) for w in weights])
    loaded = make_torch(name, weights, strategy=target, min_8bit_size=bound, **given)
    loaded.load_state_dict(state_dict)
    want = state_of_torch(theirs, [loaded.state.get(p, {}) for p in
                                   loaded.param_groups[0]["params"]], params)
    assert_same_bits(state, want)
    params, state = jax.jit(theirs.step)(gradients(params, 5), state, params)
    assert int(state.count) == 3
    return params, state


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_bits_of_pytorch(source, target):
    compared(source, target)


@pytest.mark.parametrize(("source", "target"), (("adam8bit", "coat"), ("flash", "adam8bit")))
def test_groups_of_other_lengths(source, target):
    """Short rows that share one scale are grouped differently for another group length."""
    compared(source, target, shapes=[(24, 80), (30, 40)])


@pytest.mark.parametrize(("source", "target"), (
    ("dither-ratio4", "fp32"), ("fp32", "dither-ratio4"), ("residual-ratio4", "coded-ratio4")))
def test_codes_of_four_bits(source, target):
    """A byte holds the codes of two elements, also where a row has an odd number of them."""
    compared(source, target, shapes=[(24, 80), (30, 45), (7, 33)], graph={"stores_ratio": True})


@pytest.mark.parametrize("source", ("fp8-collage-plus", "dither-softsign-root"))
@pytest.mark.parametrize("target", ("fp8-collage-plus", "remainder"))
def test_written_weights(source, target):
    """If a leaf differs from its decoded codes, the leaf's value is converted."""
    compared(source, target, written=True)


@pytest.mark.parametrize("source", ("fp32", "delayed"))
def test_delayed_scales_of_gradients(source, tmp_path):
    """Delayed scales of gradients restart."""
    assert with_delayed_gradients(tmp_path) == "delayed"
    _, state = compared(source, "delayed", path=[tmp_path])
    assert (state.planes[0]["grad.history"] > 0).sum() == 1


@pytest.mark.parametrize("keep_types", (False, True))
def test_f32_leaves(keep_types):
    """f32 leaves stay f32 under a 16-bit strategy; other types stay with `keep_types`."""
    types = [jnp.bfloat16, jnp.float32, *[jnp.bfloat16] * 5]
    params, _ = compared("collage-plus", "adam8bit", dtypes=types, keep_types=keep_types)
    assert [x.dtype for x in params] == types
    params, _ = compared("fp32", "collage-plus", keep_types=keep_types)
    assert {x.dtype for x in params} == {jnp.dtype("float32" if keep_types else "bfloat16")}


def test_small_leaves():
    """The target's size bound decides which leaves have f32 states."""
    _, state = compared("adam8bit", "adam8bit", bound=1000)
    assert "exp_avg.scale" in state.planes[0] and "exp_avg.scale" not in state.planes[5]


@pytest.mark.parametrize(("source", "target"), (
    ("fp32", "coat"), ("coat", "fp32"), ("adam8bit", "flash"), ("flash", "coat")))
def test_matrices(source, target):
    """Adafactor's row and column moments, and groups that restart in each row, are converted."""
    compared(source, target, "adafactor", [(24, 80), (150,), (7, 33)])


@pytest.mark.parametrize("name", ("lion", "sgd"))
def test_other_graphs(name):
    """The graphs include one without a state."""
    compared("bf16", "fp32", name)


def tree():
    w, b = arrays([(96, 64), (64,)], jnp.bfloat16)
    return {"w": w, "b": b}


def begun(**options):
    optimizer, params = make("collage-plus", **options), tree()
    params, state = optimizer.step(gradients(params, 1), optimizer.init(params), params)
    return optimizer, params, state


def test_there_and_back():
    """A round trip through a lossless strategy, without jit, keeps the bits of training."""
    optimizer, params, state = begun()
    there = make("fp32")
    wide, held = convert_state(state, params, optimizer, there)
    assert wide["w"].dtype == jnp.float32
    again = convert_state(held, wide, there, make("collage-plus"))
    sums = (jnp.float32(x) + jnp.float32(kept["param.lo"]) for x, kept in (
        (params["w"], state.planes["w"]), (again[0]["w"], again[1].planes["w"])))
    assert jnp.array_equal(*sums) and int(again[1].count) == 1


def test_strategies_of_leaves():
    """The function gets the source's leaf, and the resulting state fits the new optimizer."""
    optimizer, params, state = begun()
    target = make(lambda path, leaf: "remainder" if "b" in path else "flash-f16", metrics=True,
                  skip_nonfinite=True)
    params, state = convert_state(state, params, optimizer, target)
    assert "param.remainder" in state.planes["b"] and not state.skipped
    params, state = jax.jit(target.step)(gradients(params, 2), state, params)
    assert float(state.metrics["update_norm"]) > 0


def test_refusals():
    optimizer, params, state = begun()
    with pytest.raises(ValueError, match="source is an optimizer of adamw, but target is one of "
                                         "another graph, lion; .* create target by the function"):
        convert_state(state, params, optimizer, make("fp32", "lion"))
    with pytest.raises(ValueError, match="adamw_decay_before"):
        convert_state(state, params, optimizer, make("fp32", decay="before"))
    with pytest.raises(TypeError, match="target is a str; pass an optimizer of tandem.jax"):
        convert_state(state, params, optimizer, "fp32")
    with pytest.raises(TypeError, match=r"state is a dict; .* convert_state\(state, params, sou"):
        convert_state(params, state, optimizer, optimizer)
    with pytest.raises(ValueError, match="state is one of adamw under collage-plus, but"):
        convert_state(state, params, make("fp32"), optimizer)
    with pytest.raises(ValueError, match=r"state.planes lacks \['v'\]"):
        convert_state(state, params | {"v": params["b"]}, optimizer, make("fp32"))


def test_shards_are_refused():
    optimizer, params, state = begun()
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("data")

    def convert(params):
        return convert_state(state, params, optimizer, make("fp32"))[0]

    with pytest.raises(ValueError, match=r"params\['b'\] is a shard inside of jax.shard_map; call"):
        jax.shard_map(convert, mesh=mesh, in_specs=(spec,), out_specs=spec)(params)
