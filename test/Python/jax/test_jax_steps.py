#===- test_jax_steps.py - Steps of tandem.jax ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the optimizers for JAX: steps inside jax.jit, their memory, errors, and resumed
# training.
#
#===----------------------------------------------------------------------===#

import json
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp

import tandem.jax
from support.delayed import with_delayed_gradients
from support.jax_bits import (arrays, assert_same_bits, bits, gradients,
                              run_on_two_devices)

#: One strategy of each kind: plain, compensated, 8-bit, and weights and gradients in codes.
KINDS = ("fp32", "collage-plus", "coat", "fp8-collage-plus")
every_kind = pytest.mark.parametrize("strategy", KINDS)


def tree(dtype):
    w, v, b = arrays([(96, 64), (64, 8), (64,)], dtype)
    return {"first": {"w": w, "b": b}, "second": v}


def make(strategy="collage-plus", **options):
    optimizer = tandem.jax.adamw(strategy=strategy, **options)
    params = tree(jnp.float32 if strategy == "fp32" else jnp.bfloat16)
    return optimizer, params, optimizer.init(params)


def pointers(*trees):
    return {x.unsafe_buffer_pointer() for x in jax.tree.leaves(trees) if x.ndim}

#===----------------------------------------------------------------------===#
# Memory
#===----------------------------------------------------------------------===#


@every_kind
def test_donated_arrays_are_written(strategy):
    """With donation, a step allocates no planes; without it, none of its inputs change."""
    optimizer, params, state = make(strategy, min_8bit_size=0)
    grads = gradients(params, 1)
    before = jax.tree.map(bits, (params, state, grads))
    want = jax.jit(optimizer.step)(grads, state, params)
    assert_same_bits(jax.tree.map(bits, (params, state, grads)), before)

    step = jax.jit(lambda params, state: optimizer.step(grads, state, params),
                   donate_argnums=(0, 1))
    sizes = step.lower(params, state).compile().memory_analysis()
    encoded = sum(x.size for x in jax.tree.leaves(params)) * 1.3 * (strategy == KINDS[-1])
    assert sizes.temp_size_in_bytes < 2048 + encoded
    places = pointers(params, state)
    got = step(params, state)
    assert pointers(*got) == places
    assert all(x.is_deleted() for x in jax.tree.leaves(params))
    assert_same_bits(got, want)


def test_arrays_that_are_kept_elsewhere():
    """Two steps from one state, and NumPy's views of it, see the original values."""
    optimizer, params, state = make()
    step = jax.jit(optimizer.step, donate_argnums=(1,))
    view = np.asarray(params["second"])
    copy, kept = view.copy(), jax.tree.map(jnp.copy, state)
    first = step(gradients(params, 1), state, params)
    second = step(gradients(params, 1), kept, params)
    assert_same_bits(first, second)
    assert np.array_equal(view.view(np.uint16), copy.view(np.uint16))

#===----------------------------------------------------------------------===#
# Steps
#===----------------------------------------------------------------------===#


def test_eager_jitted_and_scanned_steps_agree():
    optimizer, params, state = make("adam8bit", min_8bit_size=0, seed=3)
    grads = [gradients(params, seed) for seed in range(3)]
    rates = jnp.asarray([1e-3, 2e-3, 5e-4], jnp.float32)

    def one(carry, given):
        grad, rate = given
        return optimizer.step(grad, carry[1], carry[0], lr=rate), None

    scanned, _ = jax.jit(lambda start, all: jax.lax.scan(one, start, all))(
        (params, state), (jax.tree.map(lambda *x: jnp.stack(x), *grads), rates))
    eager = jitted = params, state
    step = jax.jit(optimizer.step)
    for grad, rate in zip(grads, rates):
        eager = optimizer.step(grad, eager[1], eager[0], lr=float(rate))
        jitted = step(grad, jitted[1], jitted[0], lr=rate)
    with jax.disable_jit():
        plain = optimizer.step(grads[0], state, params, lr=rates[0])
    assert_same_bits(plain, step(grads[0], state, params, lr=rates[0]))
    assert_same_bits(eager, jitted)
    assert_same_bits(scanned, jitted)


def test_options_decide_bits_as_they_should():
    base, params, state = make("bf16-stochastic", seed=1)
    grads = gradients(params, 0)
    want = base.step(grads, state, params)
    for threads in (1, 3):
        optimizer, *_ = make("bf16-stochastic", seed=1, threads=threads)
        assert_same_bits(optimizer.step(grads, state, params), want)
    other, *_ = make("bf16-stochastic", seed=2)
    found, _ = other.step(grads, state, params)
    assert not np.array_equal(bits(found["second"]), bits(want[0]["second"]))


def test_hyperparameters():
    """A function of the count, an argument of the step and a constant give the same bits."""
    optimizer, params, state = make(lr=0.25, betas=(0.8, 0.9))
    grads = gradients(params, 0)
    want = optimizer.step(grads, state, params)
    counted, *_ = make(lr=lambda count: 0.25 * (count + 1), betas=(0.8, 0.9))
    assert_same_bits(counted.step(grads, state, params), want)
    later, *_ = make(betas=(0.8, 0.9))
    assert_same_bits(later.step(grads, state, params, lr=jnp.float32(0.25)), want)
    rounded, *_ = make(lr=0.25, betas=tuple(map(float, np.float32((0.8, 0.9)))))
    given, *_ = make(lr=0.25)
    assert_same_bits(given.step(grads, state, params, betas=(0.8, 0.9)),
                     rounded.step(grads, state, params))


def test_strategies_of_leaves():
    def choose(path, leaf):
        return "remainder" if path == "['second']" else "collage-plus"

    optimizer, params, state = make(choose)
    assert set(state.planes["second"]) == {"param.remainder", "exp_avg", "exp_avg_sq"}
    grads = gradients(params, 0)
    params_after, state = optimizer.step(grads, state, params)
    one, *_ = make("remainder")
    assert_same_bits(params_after["second"],
                     one.step(grads, one.init(params), params)[0]["second"])
    assert 12 < optimizer.bytes_per_parameter(params) < 14


def test_skipped_steps():
    optimizer, params, state = make("coat", skip_nonfinite=True, min_8bit_size=1000)
    step, grads = jax.jit(optimizer.step), gradients(params, 0)
    params, state = step(grads, state, params)
    assert not state.skipped and int(state.count) == 1
    bad = jax.tree.map(lambda x: x, grads)
    bad["first"]["b"] = grads["first"]["b"].at[3].set(jnp.nan)
    after, kept = step(bad, state, params)
    assert kept.skipped and int(kept.count) == 1
    assert_same_bits((after, kept.planes), (params, state.planes))


def test_skipped_steps_remember_nothing(tmp_path):
    """A skipped gradient does not affect the scales of later ones."""
    optimizer, params, state = make(with_delayed_gradients(tmp_path), path=[tmp_path],
                                    skip_nonfinite=True, min_8bit_size=0)
    grads = gradients(params, 0)
    params, state = optimizer.step(grads, state, params)
    history = state.planes["second"]["grad.history"]
    assert history.any()
    bad = grads | {"second": grads["second"].at[3].set(jnp.inf)}
    after, kept = optimizer.step(bad, state, params)
    assert kept.skipped
    assert_same_bits((after, kept.planes), (params, state.planes))


def test_metrics():
    torch = pytest.importorskip("torch")
    import tandem.torch
    optimizer, params, state = make("bf16", metrics=True)
    grads = gradients(params, 0)
    _, state = jax.jit(optimizer.step)(grads, state, params)
    tensors = []
    for param, grad in zip(jax.tree.leaves(params), jax.tree.leaves(grads)):
        tensors.append(torch.nn.Parameter(torch.tensor(np.float32(param)).bfloat16()))
        tensors[-1].grad = torch.tensor(np.float32(grad)).bfloat16()
    theirs = tandem.torch.AdamW(tensors, strategy="bf16", metrics=True)
    theirs.step()
    for name, value in theirs.metrics().items():
        np.testing.assert_allclose(float(state.metrics[name]), value, rtol=1e-5)


@pytest.mark.parametrize("strategy", KINDS[1:])
def test_training(strategy):
    """A small network trains, with rates of an optax schedule if optax is installed."""
    try:
        import optax
        rate = optax.cosine_decay_schedule(1e-2, 60)
    except ImportError:
        rate = 1e-2
    optimizer, params, _ = make(strategy, lr=rate)
    params = jax.tree.map(lambda x: 0.1 * x, params)
    state = optimizer.init(params)
    x, y = arrays([(32, 96), (32, 8)], jnp.float32, seed=5)

    def loss_of(params):
        hidden = jax.nn.relu(x.astype(params["second"].dtype) @ params["first"]["w"]
                             + params["first"]["b"])
        return jnp.mean((jnp.float32(hidden @ params["second"]) - y) ** 2)

    @jax.jit
    def train(params, state):
        loss, grads = jax.value_and_grad(loss_of)(params)
        return loss, *optimizer.step(grads, state, params)

    losses = []
    for _ in range(60):
        loss, params, state = train(params, state)
        losses.append(float(loss))
    assert losses[-1] < 0.3 * losses[0]

#===----------------------------------------------------------------------===#
# Checkpoints and processes
#===----------------------------------------------------------------------===#


@every_kind
def test_pickled_state_goes_on(strategy):
    optimizer, params, state = make(strategy, min_8bit_size=0)
    step = jax.jit(optimizer.step)
    params, state = step(gradients(params, 0), state, params)
    params_again, state_again = pickle.loads(pickle.dumps((params, state)))
    grads = gradients(params, 1)
    assert_same_bits(step(grads, state_again, params_again), step(grads, state, params))


PROGRAM = textwrap.dedent("""
    import hashlib, json, sys
    import jax, jax.numpy as jnp, numpy as np
    import tandem.jax
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    params = [jnp.linspace(-1, 1, 3000, dtype=jnp.bfloat16).reshape(30, 100)]
    optimizer = tandem.jax.adamw(strategy="fp8-collage-plus", lr=1e-2, min_8bit_size=0)
    state, step = optimizer.init(params), jax.jit(optimizer.step)
    for _ in range(2):
        params, state = step(params, state, params)
    bits = [np.asarray(x).tobytes() for x in jax.tree.leaves((params, state))]
    print(hashlib.sha256(b"".join(bits)).hexdigest())
""")


def test_processes_are_independent(tmp_path):
    """Two processes have the same bits; the second uses executables compiled by the first."""
    def run():
        return subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], check=True, timeout=120,
                              capture_output=True, text=True).stdout

    first, compiled = run(), sorted(path.name for path in tmp_path.iterdir())
    assert any("step" in name for name in compiled)
    assert run() == first and len(first) == 65

#===----------------------------------------------------------------------===#
# Refusals
#===----------------------------------------------------------------------===#


def test_transformations_are_refused():
    optimizer, params, state = make()
    grads = gradients(params, 0)

    def rated(rate):
        return optimizer.step(grads, state, params, lr=rate)[0]["second"].sum()

    with pytest.raises(NotImplementedError, match="adamw is one launch, which jax.vmap cannot"):
        jax.vmap(rated)(jnp.ones(2))
    with pytest.raises(NotImplementedError, match="has no derivative"):
        jax.grad(lambda x: rated(x).astype(jnp.float32))(1e-3)
    with pytest.raises(NotImplementedError, match="has no derivative"):
        jax.jit(jax.jacfwd(rated))(1e-3)


def test_steps_of_the_host_are_refused():
    with pytest.raises(ValueError, match="muon has the external step 'orthogonalize', which the "
                                         "host computes .* tandem.jax has no functions"):
        tandem.jax.Optimizer("muon", strategy="fp32")


def test_other_platforms_are_refused_by_name():
    optimizer, params, state = make()
    traced = jax.jit(optimizer.step).trace(gradients(params, 0), state, params)
    for platform in ("rocm", "tpu"):
        with pytest.raises(NotImplementedError, match=f"a step of adamw was to run on {platform}"):
            traced.lower(lowering_platforms=(platform,))


def without(x, name):
    return {key: value for key, value in x.items() if key != name}


CHANGES = {
    "lacks a gradient": (lambda g, s, p: (without(g, "second"), s, p),
                         r"grads lacks \['second'\]"),
    "None for a gradient": (lambda g, s, p: (g | {"second": None}, s, p),
                            r"grads\['second'\] is NoneType"),
    "another gradient": (lambda g, s, p: (g | {"third": g["second"]}, s, p),
                         r"grads has \['third'\], which params lacks"),
    "transposed gradient": (lambda g, s, p: (g | {"second": g["second"].T}, s, p),
                            r"grads\['second'\] has the shape \(8, 64\)"),
    "integers for a gradient": (lambda g, s, p: (g | {"second": g["second"].astype(int)}, s, p),
                                r"pass grads\['second'\].astype\('bfloat16'\)"),
    "state of others": (lambda g, s, p: (
        without(g, "second"), s, without(p, "second")), r"state.planes has \['second'\]"),
    "state and params": (lambda g, s, p: (g, p, s), r"step\(grads, state, params\)"),
    "f16 weights": (lambda g, s, p: (g, s, p | {"second": p["second"].astype(jnp.float16)}),
                    r"params\['second'\] is float16, .* convert it with x.astype\('bfloat16'\)"),
    "integers": (lambda g, s, p: (g, s, p | {"second": p["second"].astype(int)}),
                 r"params\['second'\] is int32"),
    "f32 weights": (lambda g, s, p: (g, s, p | {"second": p["second"].astype(jnp.float32)}),
                    r"state.planes\['second'\] has .* 'collage-plus with f32 weights' has "),
    "a plane of another shape": (lambda g, s, p: (g, with_plane(s, lambda x: x[1:]), p),
                                 r"\['exp_avg'\] is bfloat16\[63, 8\], .* bfloat16\[64, 8\]"),
    "a plane of another type": (lambda g, s, p: (g, with_plane(s, jnp.float16), p),
                                r"\['exp_avg'\] is float16\[64, 8\]"),
}


def with_plane(state, change):
    planes = state.planes | {"second": dict(state.planes["second"])}
    planes["second"]["exp_avg"] = change(planes["second"]["exp_avg"])
    return tandem.jax.State(state.count, planes, None, None, state.identity)


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit(change):
    optimizer, params, state = make()
    apply, message = CHANGES[change]
    with pytest.raises((TypeError, ValueError), match=message):
        jax.eval_shape(optimizer.step, *apply(gradients(params, 0), state, params))


def test_states_of_others():
    with pytest.raises(TypeError, match=r"params\['w'\] is 1.0, which is not an array"):
        tandem.jax.lion().init({"w": 1.0})
    optimizer, params, state = make("collage-plus")
    other, *_ = make("collage-light")
    with pytest.raises(ValueError, match="state is one of adamw under collage-plus"):
        other.step(gradients(params, 0), state, params)


@pytest.mark.parametrize(("options", "message"), (
    ({"lr": -1.0}, "hyper 'lr' of this optimizer is -1; it must be at least 0"),
    ({"lr": "fast"}, "lr must be a number or a function"),
    ({"beta3": 1.0}, "no hyperparameter 'beta3'; it takes lr, beta1"),
    ({"betas": (1, 2, 3)}, "betas must be a pair"),
    ({"betas": 0.9}, "betas must be a pair of numbers, got 0.9"),
    ({"strategy": {"w": "fp32"}}, "strategy must be the name of one, or a function of a leaf's"),
    ({"decay": "outside"}, "decay must be 'inside'"),
    ({"strategy": "fp33"}, "fp33"),
    ({"strategy": "auto"}, "tandem.torch.recommend says which, of names and shapes"),
))
def test_options_are_checked(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tandem.jax.adamw(**options)


def test_hyperparameters_of_steps_are_checked():
    optimizer, params, state = make()
    grads = gradients(params, 0)
    with pytest.raises(TypeError, match=r"lr must be a real number .* got float32\[2\]"):
        optimizer.step(grads, state, params, lr=jnp.ones(2))
    with pytest.raises(TypeError, match="no hyperparameter 'rate'"):
        optimizer.step(grads, state, params, rate=1)
    with pytest.raises(Exception, match="hyper 'lr' of this step is -1"):
        jax.block_until_ready(jax.jit(optimizer.step)(grads, state, params, lr=-1.0))


def test_clipping_needs_one_type():
    optimizer = tandem.jax.adamw(max_norm=1.0, strategy="collage-plus")
    params = tree(jnp.bfloat16)
    params["second"] = params["second"].astype(jnp.float32)
    with pytest.raises(ValueError, match=r"adamw_clip sums over all parameters, but params\["):
        optimizer.init(params)


def test_adafactor_takes_matrices():
    with pytest.raises(ValueError, match=r"params\['w'\] has the shape \(2, 3, 4\)"):
        tandem.jax.adafactor().init({"w": jnp.ones((2, 3, 4), jnp.bfloat16)})


def test_missing_parts_are_named(monkeypatch, tmp_path):
    from tandem.jax import _library
    monkeypatch.setattr(tandem, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(ImportError, match="no libtandem_jax.so, since jaxlib was not there"):
        _library._load()
    program = "import sys; sys.modules['jax'] = None; import tandem.jax"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                            timeout=60)
    assert "pip install 'jax>=0.10'" in result.stderr

#===----------------------------------------------------------------------===#
# Shards
#===----------------------------------------------------------------------===#

SHARDS = textwrap.dedent("""
    import functools, json, sys
    import jax, jax.numpy as jnp, numpy as np
    import tandem.jax
    from jax.sharding import AxisType, PartitionSpec as P
    from support.jax_bits import arrays, assert_same_bits, gradients

    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    shapes = {"w": (64, 300), "b": (300,), "v": (512,)}
    params = dict(zip(shapes, arrays(shapes.values(), jnp.bfloat16)))
    grads, specs = gradients(params, 0), {"w": P("data"), "b": P(), "v": P("data")}

    def spread(optimizer):
        state = optimizer.state_specs(params, specs)
        mapped = functools.partial(jax.shard_map, mesh=mesh)
        return (mapped(functools.partial(optimizer.init, specs=specs), in_specs=(specs,),
                       out_specs=state),
                mapped(functools.partial(optimizer.step, specs=specs),
                       in_specs=(specs, state, specs), out_specs=(specs, state)))

    for strategy in sys.argv[1:]:
        optimizer = tandem.jax.adamw(strategy=strategy, min_8bit_size=512, seed=3)
        init, step = map(jax.jit, spread(optimizer))
        got, want = (params, init(params)), (params, optimizer.init(params))
        for _ in range(2):
            got = step(grads, got[1], got[0])
            want = jax.jit(optimizer.step)(grads, want[1], want[0])
        assert_same_bits(got, want)

    refused = {}
    for name, optimizer in {"lamb": tandem.jax.lamb(), "groups": tandem.jax.adamw(
            strategy="adam8bit", min_8bit_size=0)}.items():
        params["v"] = jnp.ones(514, jnp.bfloat16)
        try:
            spread(optimizer)[0](params)
        except ValueError as error:
            refused[name] = str(error)
    try:
        step = jax.shard_map(tandem.jax.lamb(strategy="fp32").init, mesh=mesh, in_specs=P("data"),
                             out_specs=P())
        step({"v": jnp.ones((8, 8))})
    except ValueError as error:
        refused["specs"] = str(error)

    optimizer = tandem.jax.adamw(strategy="bf16-stochastic", seed=3)
    wrapped = tandem.jax.as_optax(optimizer, specs=specs)
    params = dict(zip(shapes, arrays(shapes.values(), jnp.bfloat16)))

    def update(params, grads):
        return wrapped.update(grads, wrapped.init(params), params)[0]

    updates = jax.shard_map(update, mesh=mesh, in_specs=(specs, specs), out_specs=specs)(
        params, grads)
    got = jax.tree.map(lambda x, y: (x + y).astype(x.dtype), params, updates)
    assert_same_bits(got, optimizer.step(grads, optimizer.init(params), params)[0])
    print(json.dumps(refused))
""")


def test_shards():
    """Shards on two devices have the bits of whole arrays on one, with random bits as well."""
    refused = json.loads(run_on_two_devices(
        SHARDS, "adam8bit", "bf16-stochastic", "fp8-collage-plus"))
    assert "lamb under 'flash-f16 with f32 states' computes values from all of it" in refused["lamb"]
    assert "(257,), inside of 256 elements that share a scale" in refused["groups"]
    assert ("params['v'] differs along the mesh axis 'data', but its spec is P(); say how leaves are "
            "spread: specs=..., with P('data')") in refused["specs"].replace("PartitionSpec", "P")

#===----------------------------------------------------------------------===#
# Averages of weights
#===----------------------------------------------------------------------===#


@every_kind
def test_averages(strategy):
    """The average of weights has the error of its storage, also where it is traced."""
    optimizer, params, state = make(strategy, lr=1e-2, ema_decay=0.5, min_8bit_size=0)
    step, total, weight = jax.jit(optimizer.step), 0.0, 0.0
    for seed in range(8):
        params, state = step(gradients(params, seed), state, params)
        now = params["first"]["w"].astype(jnp.float32)
        total, weight = 0.5 * total + now, 0.5 * weight + 1
    found = optimizer.averages(state, params)
    assert_same_bits(found, jax.jit(optimizer.averages)(state, params))
    error = jnp.linalg.norm(found["first"]["w"] - total / weight) / jnp.linalg.norm(total / weight)
    assert error < 1e-2 and found["second"].dtype == jnp.float32


def test_averages_refused():
    optimizer, params, state = make()
    with pytest.raises(ValueError, match="averages no weights; create it with ema_decay=0.999"):
        optimizer.averages(state, params)
    other = make(ema_decay=0.9)[0]
    with pytest.raises(ValueError, match="only one of source and target averages weights"):
        tandem.jax.convert_state(state, params, optimizer, other)
    with pytest.raises(ValueError, match="'ema_decay' of this optimizer is 2"):
        make(ema_decay=2)
