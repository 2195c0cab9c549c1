#===- test_reports_wrappers.py - Reports about what wraps ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tries what users of other optimizers reported about what surrounds a step: gradient
# scalers, compilers, checkpoints of activations, adapters, steps in backward passes, and memory.
# docs/Reports.md lists the reports.
#
#===----------------------------------------------------------------------===#

import copy
import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.report_steps import error, set_alike, values
from support.torch_bits import assert_same_bits, dtype_of, parameters, params_of, train
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

SHAPES = [(64, 80), (33,)]


class Allocations(TorchDispatchMode):
    """Adds up the bytes of tensors that operations allocate, views and inputs excepted."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        flat = torch.utils._pytree.tree_leaves((args, kwargs or {}))
        known = {x.untyped_storage().data_ptr() for x in flat if isinstance(x, torch.Tensor)}
        result = function(*args, **kwargs or {})
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in known:
                self.bytes += x.untyped_storage().nbytes()
        return result


# pytorch/pytorch#97712
@pytest.mark.parametrize("strategy", ["fp32", "remainder", "coat", "flash", "adam8bit"])
def test_a_step_needs_no_tensors_as_large_as_parameters(strategy):
    params = parameters([(256, 1024)] * 4, dtype_of(strategy))
    size = sum(p.nbytes for p in params)
    optimizer = tt.AdamW(params, lr=1e-3, strategy=strategy)
    train(optimizer, range(2))
    for p in params:
        p.grad = torch.full_like(p, 1e-3)
    with Allocations() as ours:
        optimizer.step()
    assert ours.bytes < size / 100
    wide = torch.optim.AdamW([torch.nn.Parameter(p.detach().clone()) for p in params], foreach=True)
    train(wide, range(2))
    with Allocations() as theirs:
        wide.step()
    assert theirs.bytes >= size  # so that the test above shows something


# pytorch/pytorch#120814, meta-pytorch/torchtune#2718
@pytest.mark.parametrize("strategy", ["fp32", "remainder", "coat"])
def test_a_step_inside_a_compiled_function(strategy):
    compiled, other = (tt.AdamW(parameters(SHAPES, dtype_of(strategy)), lr=1e-2, min_8bit_size=0,
                                strategy=strategy) for _ in range(2))
    step = torch.compile(lambda: compiled.step(), backend="eager")
    for seed in range(4):
        for optimizer in (compiled, other):
            for p in params_of(optimizer):
                generator = torch.Generator().manual_seed(seed)
                p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
            optimizer.param_groups[0]["lr"] = 1e-2 / (1 + seed)
        step()
        other.step()
    assert_same_bits(compiled, other)


class Blocks(torch.nn.Module):
    """Two layers, each inside an activation checkpoint if `checks`."""

    def __init__(self, checks):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(2)).bfloat16()
        self.checks = checks

    def forward(self, x):
        for layer in self.layers:
            if self.checks:
                x = checkpoint(layer, x, use_reentrant=self.checks == "reentrant")
            else:
                x = layer(x)
        return x


# LoganBooker/prodigy-plus-schedule-free#7, kohya-ss/sd-scripts#1834
@pytest.mark.parametrize("checks", ["reentrant", "not reentrant"])
def test_steps_in_the_backward_pass_under_activation_checkpoints(checks):
    models = [Blocks(checks), Blocks(None)]
    optimizers = [tt.AdamW(models[0].parameters(), strategy="flash", gradient_release=True),
                  tt.AdamW(models[1].parameters(), strategy="flash")]
    for step in range(3):
        for model, optimizer in zip(models, optimizers):
            x = torch.randn(4, 64, generator=torch.Generator().manual_seed(step))
            x = x.bfloat16().requires_grad_()
            model(x).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert_same_bits(*optimizers)


# meta-pytorch/torchtune#2750, verl-project/verl#1295
@pytest.mark.parametrize("strategy", ["fp32", "flash", "remainder"])
def test_steps_in_the_backward_pass_accumulate_first(strategy):
    released, other = (tt.AdamW(parameters(SHAPES, dtype_of(strategy)), lr=1e-2, strategy=strategy,
                                **options) for options in ({"gradient_release": True}, {}))
    for step in range(3):
        for part in range(3):
            for optimizer in (released, other):
                def backward(optimizer=optimizer):
                    generator = torch.Generator().manual_seed(10 * step + part)
                    sum((p.float() * torch.randn(p.shape, generator=generator)).sum()
                        for p in params_of(optimizer)).backward()
                if optimizer is released and part < 2:
                    with released.accumulate():
                        backward()
                else:
                    backward()
        for optimizer in (released, other):
            optimizer.step()
            optimizer.zero_grad()
    assert_same_bits(released, other)
    assert other.state[params_of(other)[0]]["step"] == 3


# bitsandbytes-foundation/bitsandbytes#945, pytorch/pytorch#74739
@pytest.mark.parametrize("strategy", ["f16-fp32-optim", "f16-master-weights"])
def test_a_gradient_scaler_of_f16_parameters_with_f16_gradients(strategy):
    """PyTorch's scaler refuses to unscale f16 gradients on a CPU whatever the optimizer is."""
    messages = []
    for make in (lambda params: tt.AdamW(params, lr=1e-2, eps=1e-4, strategy=strategy),
                 lambda params: torch.optim.AdamW(params, lr=1e-2, eps=1e-4)):
        params = parameters(SHAPES, torch.float16)
        kept = [p.detach().clone() for p in params]
        optimizer, scaler = make(params), torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale(sum((p.float() * 1e-2).sum() for p in params)).backward()
        with pytest.raises(ValueError) as caught:
            scaler.step(optimizer)
        messages.append(str(caught.value))
        assert all(torch.equal(p, k) for p, k in zip(params, kept))
    assert messages[0] == messages[1] == "Attempting to unscale FP16 gradients."


# huggingface/peft#2437
@pytest.mark.parametrize("strategy", ["fp32-optim", "remainder", "coat", "fp8-lm"])
def test_merging_an_adapter_and_unmerging_it_changes_no_training(strategy):
    def make():
        torch.manual_seed(0)
        base = torch.nn.Parameter(torch.randn(64, 64, dtype=torch.bfloat16), requires_grad=False)
        down, up = (torch.nn.Parameter((torch.randn(shape) * 0.1).bfloat16())
                    for shape in ((8, 64), (64, 8)))
        return base, down, up, tt.AdamW([base, down, up], lr=1e-2, strategy=strategy)

    merged, other = make(), make()
    for step in range(4):
        for base, down, up, optimizer in (merged, other):
            x = torch.randn(4, 64, generator=torch.Generator().manual_seed(step)).bfloat16()
            (x @ base.T + x @ down.T @ up.T).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        base, down, up, _ = merged
        kept = base.detach().clone()
        base.data += (up @ down).detach()
        assert not torch.equal(base, kept)
        base.data.copy_(kept)
    assert_same_bits(merged[3], other[3])
    assert torch.equal(merged[0], make()[0]) and merged[0] not in merged[3].state


# rosinality/sagan-pytorch#8, pytorch/pytorch#25092
@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm", "orthogonal"])
def test_parametrized_weights_follow_float64(norm):
    torch.manual_seed(0)
    model = getattr(torch.nn.utils.parametrizations, norm)(torch.nn.Linear(24, 48))
    wide = copy.deepcopy(model).double()
    ours = tt.AdamW(model.parameters(), lr=1e-3, strategy="fp32")
    theirs, start = torch.optim.AdamW(wide.parameters(), lr=1e-3), values(wide.parameters())
    for step in range(4):
        x = torch.randn(8, 24, generator=torch.Generator().manual_seed(step))
        model(x).square().mean().backward()
        wide(x.double()).square().mean().backward()
        for optimizer in (ours, theirs):
            optimizer.step()
            optimizer.zero_grad()
    assert error(model.parameters(), wide.parameters(), start) < 2e-3


# pypose/pypose#380
@pytest.mark.parametrize("strategy", ["fp32", "coat", "remainder"])
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_steps_inside_inference_mode(mode, strategy):
    inside, other = (tt.AdamW(parameters(SHAPES, dtype_of(strategy)), lr=1e-2, min_8bit_size=0,
                              strategy=strategy) for _ in range(2))
    for optimizer in (inside, other):  # torch.optim needs states from outside, too
        train(optimizer, [0])
    for seed in range(1, 4):
        for optimizer in (inside, other):
            set_alike(params_of(optimizer), params_of(optimizer), seed)
        with mode():
            inside.step()
        other.step()
    train(inside, [4])
    train(other, [4])
    assert_same_bits(inside, other)


# pytorch/pytorch#143828, ByteDance-Seed/VeOmni#878
def test_a_group_without_parameters_survives_a_distributed_state_dict():
    from torch.distributed.checkpoint.state_dict import (get_optimizer_state_dict,
                                                         set_optimizer_state_dict)
    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(80, 64, dtype=torch.bfloat16)
        return model, tt.AdamW([{"params": model.parameters()},
                                {"params": [], "betas": (0.5, 0.75), "weight_decay": 0.25}],
                               lr=1e-2, strategy="coat", min_8bit_size=0)

    (model, first), (other, second) = make(), make()
    train(first, range(2))
    state = get_optimizer_state_dict(model, first)
    other.load_state_dict(model.state_dict())
    set_optimizer_state_dict(other, second, copy.deepcopy(state))
    for optimizer in (first, second):
        train(optimizer, [2])
    assert_same_bits(first, second)
    assert second.param_groups[1]["betas"] == (0.5, 0.75)
    assert second.param_groups[1]["weight_decay"] == 0.25


# deepspeedai/DeepSpeed#4856
@pytest.mark.parametrize("options", [
    {"strategy": "fp8-lm"}, {"strategy": "flash", "gradient_release": True}, {"strategy": "coat"}])
def test_an_optimizer_that_is_deleted_leaves_no_hooks(options):
    def backward():
        model(torch.ones(1, 64, dtype=torch.bfloat16)).float().square().sum().backward()

    model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    optimizer = tt.AdamW(model.parameters(), lr=1e-2, **options)
    backward()
    optimizer.step()
    optimizer.zero_grad()
    alive = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert alive() is None
    kept = model.weight.detach().clone()
    backward()
    assert model.weight.grad is not None and torch.equal(model.weight, kept)
    second = torch.optim.SGD(model.parameters(), lr=1e-2)
    second.step()
    assert not torch.equal(model.weight, kept)
