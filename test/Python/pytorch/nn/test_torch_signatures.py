#===- test_torch_signatures.py - Arguments of layers -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that functions and modules that PyTorch has too take its arguments, and that
# other arguments are refused with a message.
#
#===----------------------------------------------------------------------===#

import inspect
import re

import pytest
import torch

import tandem.torch
from tandem.torch import nn

@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("make", (
    lambda of, dtype, **o: of.RMSNorm([48], None, False, None, dtype, **o),
    lambda of, dtype, **o: of.LayerNorm(48, 1e-5, False, False, None, dtype, **o),
    lambda of, dtype, **o: of.LayerNorm(48, 1e-5, True, False, None, dtype, **o)))
def test_norms_without_a_weight_or_bias(make, dtype):
    """They are swapped too, and have the same parameters."""
    theirs, ours = make(torch.nn, dtype), make(nn, dtype, recipe="fp32")
    model = torch.nn.Sequential(make(torch.nn, dtype))
    assert "0" in tandem.torch.compress_activations(model, "fp32").swapped
    x = torch.randn(6, 48, dtype=dtype, requires_grad=True)
    want = [theirs(x), *torch.autograd.grad(theirs(x).sum() * 3, [x, *theirs.parameters()])]
    for module in (ours, model[0]):
        assert [name for name, _ in module.named_parameters()] == list(theirs.state_dict())
        got = [module(x), *torch.autograd.grad(module(x).sum() * 3, [x, *module.parameters()])]
        for g, w in zip(got, want, strict=True):
            assert (g - w).abs().max() < (1e-4 if dtype is torch.float32 else 0.3)


#: Functions and modules that PyTorch has too.
FUNCTIONS = ("rms_norm", "layer_norm", "silu", "gelu", "linear", "cross_entropy")
SAME_MODULES = ("RMSNorm", "LayerNorm", "SiLU", "GELU", "Linear", "CrossEntropyLoss")


def arguments(function):
    """Returns the names and defaults of a function's arguments, without a recipe's."""
    ours = ("recipe", "path", "state", "products", "strict", "label", "hadamard")
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()
            if p.name not in ours]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_the_arguments_of_pytorch(name):
    theirs = getattr(torch.nn.functional, name)
    if name in ("gelu", "linear"):  # which are built in, and only their texts have signatures
        head, text = name + "(", theirs.__doc__.strip().splitlines()[0]
        names = re.findall(r"(\w+)(?: ?= ?\S+?)?[,)]", text.removeprefix(head))
        assert [found for found, _ in arguments(getattr(nn, name))] == names
    else:
        assert arguments(getattr(nn, name)) == arguments(theirs)


@pytest.mark.parametrize("name", SAME_MODULES)
def test_modules_take_the_arguments_of_pytorch(name):
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    assert arguments(ours) == arguments(theirs)
    assert arguments(ours.forward) == arguments(theirs.forward)


def test_calls_of_pytorch_have_its_results():
    torch.manual_seed(3)
    x, weight, bias = torch.randn(4, 32), torch.randn(32), torch.randn(32)
    matrix, target = torch.randn(8, 32), torch.tensor([1, -100, 2, 3])
    for call in (lambda f: f.rms_norm(x, (32,), weight), lambda f: f.rms_norm(x, x.shape[-1:]),
                 lambda f: f.rms_norm(input=x, normalized_shape=[32], weight=weight, eps=1e-3),
                 lambda f: f.layer_norm(x, (32,), weight, bias, 1e-3),
                 lambda f: f.layer_norm(x, (32,), bias=bias), lambda f: f.layer_norm(x, [32]),
                 lambda f: f.silu(input=x), lambda f: f.gelu(x, approximate="tanh"),
                 lambda f: f.linear(input=x, weight=matrix),
                 lambda f: f.cross_entropy(x, target, None, None, -100, None, "sum"),
                 lambda f: f.cross_entropy(input=x, target=target, label_smoothing=0.0)):
        torch.testing.assert_close(call(nn.functional), call(torch.nn.functional))


@pytest.mark.parametrize("call,kind,message", [
    (lambda x, w: nn.rms_norm(x, w), TypeError, "normalized_shape of rms_norm must be a tuple "
     "such as input.shape.-1:., got Tensor; the arguments are those of PyTorch"),
    (lambda x, w: nn.layer_norm(x, 8, w), TypeError, "normalized_shape of layer_norm .* got int"),
    (lambda x, w: nn.rms_norm(x, (2, 8), w), ValueError, "rms_norm normalizes the last dimension "
     r"only, got normalized_shape=\(2, 8\); flatten the dimensions"),
    (lambda x, w: nn.layer_norm(x, (9,)), ValueError, r"normalized_shape of layer_norm is \(9,\), "
     r"but the input is \(2, 8\); it must be input.shape"),
    (lambda x, w: nn.rms_norm(x, (8,), w, w), TypeError, "eps of rms_norm must be a number, got "
     "Tensor; its arguments are input, normalized_shape, weight, eps"),
    (lambda x, w: nn.rms_norm(x, (8,), 1e-6), TypeError, "weight of rms_norm must be a tensor, "
     "got float; its arguments are input, normalized_shape, weight, eps"),
    (lambda x, w: nn.add_rms_norm(x, (8,), w), TypeError, "residual of add_rms_norm must be a "
     "tensor, got tuple; its arguments are input, residual, normalized_shape"),
    (lambda x, w: nn.silu([1.0]), TypeError, "input of silu must be a tensor, got list"),
    (lambda x, w: nn.silu(x, True), ValueError, "inplace=True would write over the input"),
    (lambda x, w: nn.SiLU(True), ValueError, "inplace=True would write over the input"),
    (lambda x, w: nn.swiglu(x, 2), TypeError, "up of swiglu must be a tensor, got int"),
    (lambda x, w: nn.linear(x, (8, 8)), TypeError, "weight of linear must be a tensor, got tuple"),
    (lambda x, w: nn.cross_entropy(x, w, w), ValueError, "neither weighs classes nor smooths"),
    (lambda x, w: nn.CrossEntropyLoss(label_smoothing=0.1), ValueError, "leave weight and label_"),
    (lambda x, w: nn.CrossEntropyLoss(reduce=False), ValueError, "take reduction='mean'"),
    (lambda x, w: nn.CrossEntropyLoss(reduction="max"), ValueError, "reduction is 'mean', 'sum'"),
    (lambda x, w: nn.RMSNorm((4, 8)), ValueError, "RMSNorm normalizes the last dimension only"),
    (lambda x, w: nn.LayerNorm((4, 8)), ValueError, "LayerNorm normalizes the last dimension"),
])
def test_arguments_that_are_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call(torch.ones(2, 8), torch.ones(8))
