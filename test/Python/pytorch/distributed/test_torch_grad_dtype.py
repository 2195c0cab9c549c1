#===- test_torch_grad_dtype.py - Gradients of another type -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests parameters whose gradients have another type (p.grad_dtype): a step computes with
# the gradients rounded once to the type in which the strategy stores them, also of DTensors.
#
#===----------------------------------------------------------------------===#

import re

import pytest

torch = pytest.importorskip("torch")

from support.gloo import run_ranks
from support.torch_needs import needs_grad_dtype

import tandem.torch as tt

pytestmark = needs_grad_dtype
needs_gloo = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="torch has no gloo here")


def model(dtype):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(),
                               torch.nn.Linear(96, 32)).to(dtype)


def loss(of, seed, dtype):
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(seed))
    return of(x.to(dtype)).float().square().mean()


@pytest.mark.parametrize("options", ({}, {"max_norm": 0.1}, {"maximize": True}))
@pytest.mark.parametrize("strategy", ("collage-plus", "coat", "bf16-stochastic", "remainder"))
@pytest.mark.parametrize("dtype,grad_dtype", [(torch.bfloat16, torch.float32),
                                              (torch.float32, torch.bfloat16)])
def test_backward_passes_add_up_in_the_gradients_type(dtype, grad_dtype, strategy, options):
    """Sums over three backward passes are rounded once, in the step."""
    ours, whole = model(dtype), model(dtype)
    optimizer, reference = (tt.AdamW(of.parameters(), lr=1e-2, strategy=strategy, **options)
                            for of in (ours, whole))
    for param in ours.parameters():
        param.grad_dtype = grad_dtype
    for step in range(3):
        total = [torch.zeros(p.shape, dtype=grad_dtype) for p in whole.parameters()]
        for part in range(3):
            loss(ours, 10 * step + part, dtype).backward()
            for sum, grad in zip(total, torch.autograd.grad(
                    loss(whole, 10 * step + part, dtype), list(whole.parameters()))):
                sum += grad.to(grad_dtype)
        assert all(p.grad.dtype is grad_dtype for p in ours.parameters())
        for param, sum in zip(whole.parameters(), total):
            param.grad = sum.to(dtype)
        for each in (optimizer, reference):
            each.step()
            each.zero_grad()
    for param, want in zip(ours.parameters(), whole.parameters()):
        assert torch.equal(param, want)
        for name, plane in reference.state[want].items():
            got = optimizer.state[param][name]
            assert torch.equal(got, plane) if isinstance(plane, torch.Tensor) else got == plane


@pytest.mark.parametrize("strategy", ("fp8-lm", "dither-softsign-root"))
def test_gradients_in_codes_are_taken_in_either_type(strategy):
    """Each backward pass of bf16 layers adds the same numbers to codes in either type."""
    found = []
    for grad_dtype in (torch.bfloat16, torch.float32):
        ours = model(torch.bfloat16)
        optimizer = tt.AdamW(ours.parameters(), lr=1e-2, strategy=strategy)
        for param in ours.parameters():
            param.grad_dtype = grad_dtype
        for step in range(3):
            loss(ours, step, torch.bfloat16).backward()
            assert all(p.grad is None for p in ours.parameters() if p.dim() > 1)
            optimizer.step()
            optimizer.zero_grad()
        found.append([p.detach().clone() for p in ours.parameters()])
    assert all(map(torch.equal, *found))


@pytest.fixture(scope="module")
def two(made_once):
    import json

    def run(folder):
        (folder / "results").write_text(json.dumps(
            run_ranks("support.grad_dtype_ranks", ("assigned", "reduced"), 2, folder)))
    return json.loads((made_once("grad_dtype", run) / "results").read_text())


@needs_gloo
def test_assigned_gradients_of_dtensors_have_the_bits_of_one_process(two):
    for rank in two["assigned"]:
        assert len(rank) == 6 and not any(rank.values()), rank


@needs_gloo
def test_fsdp2_reduces_gradients_to_the_parameters_type(two):
    """This is what docs/Distributed.md says about PyTorch. If it fails, PyTorch has changed."""
    for rank in two["reduced"]:
        for name, found in rank.items():
            if name.startswith("before"):
                assert found == ["torch.bfloat16"], name
            else:
                assert re.search("assign a gradient with dtype 'c10::BFloat16' to a tensor with "
                                 "grad_dtype 'Float'", found), name
