#===- test_torch.py - The optimizers as torch.optim's ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the interface of the PyTorch optimizers: groups, schedulers, closures, hooks,
# memory layouts of parameters, and messages.
#
#===----------------------------------------------------------------------===#

import gc
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.torch_bits import (assert_same_bits, bits, parameters, params_of,
                                set_gradients, train)
from support.torch_needs import needs_grad_dtype, needs_names
from torch.optim import lr_scheduler

SHAPES = [(17,), (3, 5)]
OPTIONS = {"strategy": "flash-f16", "min_8bit_size": 4096, "min_8bit_vector_size": 65536,
           "maximize": False}


def train_alike(theirs, ours, schedules=(), steps=6):
    for seed in range(steps):
        train(theirs, [seed])
        train(ours, [seed])
        for schedule in schedules:
            schedule.step(*([1.0] if isinstance(
                schedule, lr_scheduler.ReduceLROnPlateau) else []))


def pair(lr=1e-2, **options):
    """Returns torch.optim's AdamW and ours, with equal fp32 parameters."""
    return (torch.optim.AdamW(parameters(SHAPES, torch.float32), lr, **options),
            tt.AdamW(parameters(SHAPES, torch.float32), lr, decay="before",
                     strategy="fp32", **options))


#===----------------------------------------------------------------------===#
# Drivers of optimizers
#===----------------------------------------------------------------------===#

SCHEDULERS = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda n: 0.9 ** n),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, total_iters=2),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, total_iters=4),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.8),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 8),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts":
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 1e-3, 1e-2, 2),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 1e-2, total_steps=10),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.9)]),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [2]),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 1e-3, 3),
}


@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name, tensor):
    """A scheduler has the same effect on ours as on torch's, including on momentum."""
    theirs, ours = pair(torch.tensor(1e-2) if tensor else 1e-2)
    schedules = [SCHEDULERS[name](o) for o in (theirs, ours)]
    train_alike(theirs, ours, schedules)
    for p, q in zip(params_of(theirs), params_of(ours)):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    assert float(theirs.param_groups[0]["lr"]) == float(ours.param_groups[0]["lr"])
    assert theirs.param_groups[0]["betas"] == ours.param_groups[0]["betas"]


def test_a_closure_is_called_with_gradients():
    (p,) = params = parameters([(6,)])
    optimizer = tt.AdamW(params, lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p.float() ** 2).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert optimizer.state[p]["step"] == 5


def test_step_hooks():
    optimizer, calls = tt.AdamW(parameters(SHAPES)), []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    train(optimizer, range(2))
    assert calls == ["before", "after"] * 2


def test_a_step_counts_as_a_change_of_the_weights():
    """Autograd detects that a saved weight was overwritten."""
    (p,) = params = parameters([(6,)])
    optimizer = tt.AdamW(params, lr=0.1)
    loss = (p * p).sum()
    set_gradients(params, 0)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradients_that_move_and_stay():
    """Reused tables and rebuilt ones give the same bits."""
    stay, move = (tt.AdamW(parameters(SHAPES), lr=1e-2) for _ in range(2))
    for seed in range(4):
        set_gradients(params_of(move), seed)
        for p, q in zip(params_of(stay), params_of(move)):
            if p.grad is None:
                p.grad = q.grad.clone()
            p.grad.copy_(q.grad)
        stay.step()
        move.step()
        move.zero_grad()
    assert_same_bits(stay, move)


def test_no_gradient_outlives_zero_grad():
    params = parameters(SHAPES)
    optimizer = tt.AdamW(params)
    train(optimizer, [0])
    alive = weakref.ref(params[0].grad)
    optimizer.zero_grad()
    gc.collect()
    assert alive() is None


def test_grad_scaler():
    (p,) = params = parameters([(6,)], torch.float32)
    optimizer = tt.AdamW(params, lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale((p ** 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.state[p]["step"] == 1
    p.grad.fill_(float("inf"))
    scaler.step(optimizer)
    assert optimizer.state[p]["step"] == 1


#===----------------------------------------------------------------------===#
# Param groups
#===----------------------------------------------------------------------===#


def test_groups_that_are_added_later():
    first, later = parameters(SHAPES), parameters([(5,)])
    optimizer = tt.AdamW(first, lr=1e-2)
    train(optimizer, range(2))
    optimizer.add_param_group({"params": later, "lr": 0.0, "weight_decay": 0.0})
    before = bits(later[0])
    train(optimizer, [2])
    assert np.array_equal(bits(later[0]), before)
    assert [optimizer.state[p]["step"] for p in params_of(optimizer)] == [3, 3, 1]


def test_a_refused_group_is_not_added():
    optimizer = tt.AdamW(parameters(SHAPES))
    with pytest.raises(ValueError, match="'lr' of param group 1 is -1"):
        optimizer.add_param_group({"params": parameters([(2,)]), "lr": -1})
    assert len(optimizer.param_groups) == 1


def test_defaults_come_from_the_graph():
    assert tt.AdamW(parameters([(2,)])).defaults == {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01,
        "seed": 0, **OPTIONS}
    assert tt.SGD(parameters([(2,)]), momentum=0.5).defaults == {
        "lr": 1e-3, "momentum": 0.5, "weight_decay": 0.0, "seed": 0, **OPTIONS}
    assert tt.Lion(parameters([(2,)]), strategy="bf16-stochastic",
                   seed=4).defaults["seed"] == 4


def test_text():
    optimizer = tt.AdamW(parameters([(64, 64)]))
    assert optimizer.bytes_per_parameter == 8.25
    for text in ("AdamW (", "graph: adamw", "flash-f16 (8.25 B/parameter)",
                 "Parameter Group 0", "lr: 0.001"):
        assert text in repr(optimizer)


@pytest.mark.parametrize("momentum, nesterov, graph", [
    (0, False, "sgd"), (0.9, False, "sgd_momentum"), (0.9, True, "sgd_nesterov")])
def test_sgd_chooses_the_graph(momentum, nesterov, graph):
    optimizer = tt.SGD(parameters(SHAPES), momentum=momentum, nesterov=nesterov)
    assert optimizer.kernel.name == graph


#===----------------------------------------------------------------------===#
# Layouts and types
#===----------------------------------------------------------------------===#

LAYOUTS = {
    "transposed": lambda: torch.randn(5, 7).bfloat16().t(),
    "channels_last": lambda: torch.randn(2, 3, 4, 5).bfloat16().to(
        memory_format=torch.channels_last),
    "permuted": lambda: torch.randn(3, 4, 5).bfloat16().permute(2, 0, 1),
    "one row": lambda: torch.randn(6, 4).bfloat16()[2:3],
    "columns with gaps": lambda: torch.randn(6, 8).bfloat16()[:, ::2],
    "transposed with gaps": lambda: torch.randn(6, 8).bfloat16()[:, 1:5].t(),
}


@pytest.mark.parametrize("strategy", ["collage-plus", "master-weights", "remainder"])
@pytest.mark.parametrize("aligned", [True, False], ids=["its own", "C order"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, aligned, strategy):
    """All layouts of weights and gradients give the bits of the contiguous layout."""
    torch.manual_seed(1)
    value = LAYOUTS[name]()
    strided = torch.nn.Parameter(value)
    plain = torch.nn.Parameter(value.contiguous().clone())
    ours, want = (tt.AdamW([p], lr=1e-2, strategy=strategy) for p in (strided, plain))
    for _ in range(3):
        plain.grad = torch.randn(value.shape).bfloat16()
        grad = torch.empty_like(value) if aligned else torch.empty(
            value.shape, dtype=value.dtype)
        strided.grad = grad.copy_(plain.grad)
        ours.step()
        want.step()
    assert_same_bits(ours, want)
    assert strided.data_ptr() == value.data_ptr()


def test_gaps_stay_untouched():
    base = torch.arange(24.0).reshape(4, 6)
    p = torch.nn.Parameter(base[:, ::2])
    optimizer = tt.AdamW([p], lr=0.1, strategy="fp32")
    train(optimizer, range(2))
    assert torch.equal(base[:, 1::2], torch.arange(24.0).reshape(4, 6)[:, 1::2])
    assert not torch.equal(base[:, ::2], torch.arange(24.0).reshape(4, 6)[:, ::2])


def test_a_parameter_that_changes_its_memory():
    """The test uses model.to(memory_format=...) and p.data = ... between steps."""
    ours, want = (tt.AdamW(parameters([(2, 3, 4, 5)]), lr=1e-2, strategy="collage-plus")
                  for _ in range(2))
    train(ours, [0])
    train(want, [0])
    (p,) = params_of(ours)
    p.data = p.data.to(memory_format=torch.channels_last)
    train(ours, [1])
    train(want, [1])
    assert ours.state[p]["exp_avg"].stride() == p.stride()
    p.data = p.data.contiguous()
    train(ours, [2])
    train(want, [2])
    assert_same_bits(ours, want)


def test_empty_and_missing():
    params = parameters([(0,), (4,), (2, 0)])
    frozen = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64),
                                requires_grad=False)
    optimizer = tt.AdamW([*params, frozen])
    optimizer.step()
    assert not optimizer.state
    train(tt.AdamW(params), [0])
    params[1].grad = None
    optimizer.step()
    assert params[1] not in optimizer.state and params[0] in optimizer.state


def test_all_empty():
    optimizer = tt.AdamW(parameters([(0,)]))
    train(optimizer, range(2))
    assert optimizer.state[params_of(optimizer)[0]]["step"] == 2


@needs_grad_dtype
def test_wider_gradients_are_rounded_to_nearest():
    (p,), (q,) = parameters([(40,)]), parameters([(40,)])
    p.grad_dtype = torch.float32
    wide, narrow = tt.AdamW([p], lr=1e-2), tt.AdamW([q], lr=1e-2)
    for _ in range(2):
        p.grad = torch.randn(40)
        q.grad = p.grad.bfloat16()
        wide.step()
        narrow.step()
    assert_same_bits(wide, narrow)


def test_negative_views_of_gradients():
    """PyTorch negates such a gradient lazily."""
    (p,), (q,) = parameters([(4,)]), parameters([(4,)])
    p.grad = torch._neg_view(torch.ones(4, dtype=torch.bfloat16))
    q.grad = -torch.ones(4, dtype=torch.bfloat16)
    for one in (p, q):
        tt.AdamW([one], lr=1e-2).step()
    assert np.array_equal(bits(p), bits(q))


#===----------------------------------------------------------------------===#
# Messages
#===----------------------------------------------------------------------===#


def refused(error, message, make, *arguments, **options):
    with pytest.raises(error, match=message):
        make(*arguments, **options)


@pytest.mark.parametrize("options, error, message", [
    (dict(fuse=True), TypeError, "adamw has no hyperparameter 'fuse'; it takes lr, "
                                  "betas, eps, weight_decay"),
    (dict(beta1=0.9, betas=(0.8, 0.9)), TypeError, "either betas or beta1, not both"),
    (dict(betas=(0.9,)), TypeError, "betas of param group 0 must be a pair of numbers"),
    (dict(betas=(0.9, 1.5)), ValueError, "'beta2' of param group 0 is 1.5; it must be"),
    (dict(lr="fast"), TypeError, "lr of param group 0 must be a number, got 'fast'"),
    (dict(lr=-1.0), ValueError, "'lr' of param group 0 is -1; it must be at least 0"),
    (dict(lr=float("nan")), ValueError, "'lr' of param group 0 is nan"),
    (dict(eps=1e-60), ValueError, "would round to zero"),
    (dict(decay="never"), ValueError, "'inside', 'before' or 'after', got 'never'"),
    (dict(decay="after", eps_inside_root=True), ValueError, "needs decay='inside'"),
    (dict(strategy="adam8"), ValueError, "unknown strategy 'adam8'; built-in ones are"),
    (dict(strategy="bf16-stochastic", seed=2**70), ValueError, "does not fit in 64"),
])
def test_bad_options(options, error, message):
    refused(error, message, tt.AdamW, parameters([(3,)]), **options)


def test_bad_graphs():
    refused(ValueError, "unknown graph 'adamx' .did you mean 'adam'.*; built-in ones are",
            tt.Optimizer, parameters([(3,)]), "adamx", "bf16")
    refused(ValueError, "cannot read graph", tt.Optimizer, parameters([(3,)]),
            "nowhere.mlir", "bf16")


def test_bad_sgd():
    refused(ValueError, "nesterov needs a momentum", tt.SGD, parameters([(3,)]),
            nesterov=True)
    refused(ValueError, "this SGD was created without", tt.SGD,
            [{"params": parameters([(3,)]), "momentum": 0.9}])


@pytest.mark.parametrize("params, strategy, error, message", [
    (lambda: [], "fp32", ValueError, "empty parameter list"),
    (lambda: [torch.zeros(3, requires_grad=True) * 2], "fp32", ValueError, "non-leaf"),
    (lambda: parameters([(3,)]), "fp32", TypeError,
     r"parameter 0 is torch.bfloat16, but strategy 'fp32' keeps weights in "
     r"torch.float32; convert it with p.to\(torch.float32\), or choose a strategy "
     r"whose weights are torch.bfloat16"),
    (lambda: parameters([(3,)], torch.float16), "collage-plus", TypeError,
     "parameter 0 is torch.float16, but strategy 'collage-plus' keeps"),
    (lambda: parameters([(3,)], torch.float64), "fp32", TypeError, "torch.float64"),
    (lambda: parameters([(3,)], torch.complex64), "fp32", TypeError,
     "parameter 0 is complex .*view_as_real"),
    (lambda: [torch.nn.Parameter(torch.zeros(3, device="meta"))], "fp32", ValueError,
     "parameter 0 is on meta; tandem.torch updates parameters on the CPU"),
    (lambda: [torch.nn.Parameter(torch.zeros(3, 3).to_sparse())], "fp32", TypeError,
     "parameter 0 is sparse"),
    (lambda: [torch.nn.Parameter(torch.zeros(1).expand(4))], "fp32", ValueError,
     "parameter 0 has elements that share memory"),
])
def test_bad_parameters(params, strategy, error, message):
    refused(error, message, lambda: tt.AdamW(params(), strategy=strategy))


@needs_names
def test_messages_name_parameters():
    model = torch.nn.Linear(2, 2, dtype=torch.float64)
    refused(TypeError, r"parameter 0 \('weight'\) is torch.float64", tt.AdamW,
            model.named_parameters())


def test_shared_memory():
    base = torch.zeros(6, dtype=torch.bfloat16)
    params = [torch.nn.Parameter(t) for t in (torch.zeros_like(base), base, base[2:])]
    optimizer = tt.AdamW(params)
    set_gradients(params, 0)
    refused(ValueError, "parameter 1: plane 'param', which the kernel writes, shares 8 "
                        "bytes with plane 'param' of parameter 2", optimizer.step)
    assert not optimizer.state and not base.any()


def test_sparse_gradients():
    table = torch.nn.Embedding(4, 2, sparse=True)
    dense = parameters([(3,)], torch.float32)
    optimizer = tt.AdamW([*dense, table.weight], strategy="fp32")
    set_gradients(dense, 0)
    table(torch.tensor([1])).sum().backward()
    before = bits(dense[0])
    refused(RuntimeError, "gradient of parameter 1 is sparse .*to_dense", optimizer.step)
    assert not optimizer.state and np.array_equal(bits(dense[0]), before)
    table.weight.grad = table.weight.grad.to_dense()
    optimizer.step()
    assert optimizer.state[dense[0]]["step"] == 1


def test_a_failed_step_changes_nothing():
    optimizer = tt.AdamW(parameters(SHAPES), lr=1e-2)
    other = tt.AdamW(parameters(SHAPES), lr=1e-2)
    train(optimizer, [0])
    train(other, [0])
    optimizer.param_groups[0]["lr"] = -1.0
    refused(ValueError, "'lr' of param group 0 is -1", train, optimizer, [1])
    optimizer.param_groups[0]["lr"] = 1e-2
    assert_same_bits(optimizer, other)
    train(optimizer, [1])
    train(other, [1])
    assert_same_bits(optimizer, other)


def test_a_parameter_that_changes_its_type():
    params = parameters(SHAPES)
    optimizer = tt.AdamW(params, strategy="collage-plus")
    train(optimizer, [0])
    params[0].data = params[0].data.float()
    refused(ValueError, "state of parameter 0 has 'param.lo', not the weight by itself, as "
            "'adamw' under 'collage-plus with f32 weights' needs", train, optimizer, [1])
    params[0].data = params[0].data.double()
    refused(TypeError, "parameter 0 is torch.float64", train, optimizer, [1])
