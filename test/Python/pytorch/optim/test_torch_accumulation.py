#===- test_torch_accumulation.py - Sums of gradients -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers that add up the gradients of several backward passes in a storage of
# their own (grad_accumulation).
#
#===----------------------------------------------------------------------===#

import copy
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt  # noqa: E402

PASSES = 64
#: The storages, their bytes, and bounds of their error relative to the sum's norm.
STORAGES = {"f32": (4, 1e-7), "bf16x2": (4, 2e-5), "bf16+i8": (3, 2e-4)}
EVERY = pytest.mark.parametrize("accumulation", STORAGES)


def parameter(size=(40, 40), dtype=torch.bfloat16, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Parameter(torch.randn(size).to(dtype))


def optimizer_of(param, accumulation, strategy="dither-mulaw", **options):
    return tt.AdamW([param], lr=1e-2, strategy=strategy, grad_accumulation=accumulation,
                    min_8bit_size=0, **options)


def gradients_of(param, count=PASSES):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(param.shape, generator=generator).to(param.dtype) for _ in range(count)]


def add_up(param, gradients):
    for gradient in gradients:
        (param * gradient).sum().backward()


def error(found, gradients):
    exact = sum(gradient.double() for gradient in gradients)
    return float((found.double() - exact).norm() / exact.norm())


@EVERY
@pytest.mark.parametrize("strategy", ["dither-mulaw", "flash-f16", "dither-softsign-root",
                                      "residual-mulaw", "f16-master-weights"])
def test_sums(accumulation, strategy):
    """The sum is nearer to float64's than p.grad's is by orders of magnitude."""
    param = parameter(dtype=torch.float16 if strategy.startswith("f16") else torch.bfloat16)
    optimizer, gradients = optimizer_of(param, accumulation, strategy), gradients_of(param)
    add_up(param, gradients)
    assert param.grad is None
    size, bound = STORAGES[accumulation]
    assert optimizer.live_bytes()["gradients"] == size * param.numel()
    assert error(optimizer.gradient(param, torch.float32), gradients) < bound
    twin = parameter(dtype=param.dtype)
    add_up(twin, gradients)
    assert error(twin.grad, gradients) > (5 if param.dtype is torch.float16 else 40) * bound
    assert optimizer.gradient(param).dtype is param.dtype


def test_f32_has_the_bits_of_float32_sums():
    param = parameter()
    optimizer, gradients = optimizer_of(param, "f32"), gradients_of(param)
    add_up(param, gradients)
    wanted = torch.zeros(param.shape)
    for gradient in gradients:
        wanted += gradient.float()
    assert torch.equal(optimizer.gradient(param, torch.float32), wanted)


@EVERY
def test_steps_use_the_sum(accumulation):
    """256 + 8 in bf16 is 256 if each 1 is added by itself; a step sees 264."""
    one, other = parameter((8, 8)), parameter((8, 8))
    ones = [torch.full((8, 8), value, dtype=torch.bfloat16) for value in (256, *[1] * 8)]
    summed, whole = optimizer_of(one, accumulation), optimizer_of(other, None)
    add_up(one, ones)
    add_up(other, [torch.full((8, 8), 264, dtype=torch.bfloat16)])
    summed.step()
    whole.step()
    assert torch.equal(one, other)
    assert all(torch.equal(plane, whole.state[other][name])
               for name, plane in summed.state[one].items() if torch.is_tensor(plane))


@EVERY
def test_float32_parameters_have_float32_gradients(accumulation):
    param = parameter(dtype=torch.float32)
    optimizer = optimizer_of(param, accumulation)
    add_up(param, gradients_of(param, 2))
    assert param.grad.dtype is torch.float32
    optimizer.step()


def test_components():
    """Strategies that compute in components have no other sums than components."""
    param = parameter()
    optimizer, gradients = optimizer_of(param, "bf16x2", "collage-plus"), gradients_of(param)
    add_up(param, gradients)
    optimizer.step()
    for accumulation in ("f32", "bf16+i8"):
        with pytest.raises(ValueError, match="'collage-plus' computes in components; take "
                                             "'bf16x2'"):
            optimizer_of(parameter(), accumulation, "collage-plus")


def test_clipping_sees_the_sum():
    """max_norm scales the sum of all passes down, as clip_grad_norm_ scales a wide p.grad."""
    one, other = parameter((8, 8)), parameter((8, 8))
    summed = optimizer_of(one, "f32", max_norm=1.0)
    whole = optimizer_of(other, None, max_norm=1.0)
    add_up(one, [torch.ones(8, 8).bfloat16()] * 3)
    add_up(other, [torch.full((8, 8), 3.0).bfloat16()])
    summed.step()
    whole.step()
    assert torch.equal(one, other)


@EVERY
def test_states_do_not_depend_on_it(accumulation, tmp_path):
    """State dicts, pickles and copies load with and without the option."""
    param = parameter()
    optimizer = optimizer_of(param, accumulation)
    add_up(param, gradients_of(param, 3))
    optimizer.step()
    plain = optimizer_of(param, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is converted
        plain.load_state_dict(optimizer.state_dict())
        again = optimizer_of(parameter(), accumulation)
        again.load_state_dict(plain.state_dict())
    for twin in (plain, again, pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        (theirs,), (ours,) = twin.state.values(), optimizer.state.values()
        assert all(torch.equal(theirs[name], plane) for name, plane in ours.items()
                   if torch.is_tensor(plane))
    unpickled = pickle.loads(pickle.dumps(optimizer))
    (param,) = unpickled.param_groups[0]["params"]
    add_up(param, gradients_of(param, 2))
    assert param.grad is None and unpickled.gradient(param) is not None


def test_release_accumulates_in_it():
    """With gradient_release, passes inside accumulate() add up in the storage."""
    one, other = parameter((8, 8)), parameter((8, 8))
    optimizer = optimizer_of(one, "bf16+i8", gradient_release=True)
    with optimizer.accumulate():
        add_up(one, [torch.full((8, 8), 256.0).bfloat16(), *[torch.ones(8, 8).bfloat16()] * 7])
    add_up(one, [torch.ones(8, 8).bfloat16()])
    whole = optimizer_of(other, None)
    add_up(other, [torch.full((8, 8), 264.0).bfloat16()])
    whole.step()
    assert torch.equal(one, other)


def test_errors():
    for wrong in ("f64", torch.float32, 32):
        with pytest.raises(ValueError, match="grad_accumulation: gradients add up in 'f32', "
                                             f"'bf16x2' or .*, got '{wrong}'; None is"):
            optimizer_of(parameter(), wrong)
    with pytest.raises(ValueError, match="maximize=True, .* plain gradients and no "
                                         "grad_accumulation"):
        optimizer_of(parameter(), "f32", maximize=True)


def test_a_wrapper_that_comes_later_is_refused(tmp_path):
    """DistributedDataParallel finds no gradient where hooks that do not know of it take them."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0,
                                         world_size=1)
    try:
        model = torch.nn.Linear(8, 8).bfloat16()
        optimizer = tt.AdamW(model.parameters(), strategy="flash-f16", grad_accumulation="f32")
        model(torch.ones(2, 8).bfloat16()).sum().backward()
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        wrapped(torch.ones(2, 8).bfloat16()).sum().backward()
        before = [param.detach().clone() for param in model.parameters()]
        with pytest.raises(RuntimeError, match="was created after the first backward pass with "
                                               "grad_accumulation and has averaged zeros"):
            optimizer.step()
        optimizer.zero_grad()
        assert all(map(torch.equal, model.parameters(), before))
        wrapped(torch.ones(2, 8).bfloat16()).sum().backward()
        optimizer.step()
        assert not any(map(torch.equal, model.parameters(), before))
    finally:
        torch.distributed.destroy_process_group()


def test_one_rank_needs_no_average(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0,
                                         world_size=1)
    try:
        param = parameter()
        optimizer, gradients = optimizer_of(param, "f32"), gradients_of(param, 4)
        add_up(param, gradients)
        assert param.grad is None
        assert error(optimizer.gradient(param, torch.float32), gradients) < 1e-7
    finally:
        torch.distributed.destroy_process_group()
