#===- test_torch_checkpoints.py - Histories under checkpoints --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that a recipe's history advances once for each forward pass, although activation
# checkpoints run the pass again, so that all bits are those without checkpoints.
#
#===----------------------------------------------------------------------===#

import gc
import itertools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import tandem.torch
from support.torch_needs import needs_hooks_around
from tandem.torch import nn
from tandem.torch.nn import _history

SIZE = 32

#: Ways to run a block in a checkpoint.
FORMS = {"reentrant": lambda block, *x: checkpoint(block, *x, use_reentrant=True),
         "not reentrant": lambda block, *x: checkpoint(block, *x, use_reentrant=False)}
forms = pytest.mark.parametrize("form", [
    "reentrant", pytest.param("not reentrant", marks=needs_hooks_around)])
products = pytest.mark.parametrize("products", ("bf16", "fp8"))


def plain(block, *x):
    return block(*x)


class Attention(torch.nn.Module):
    """Three linear layers with one input, and one without a norm before it."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(SIZE, SIZE) for _ in range(4))

    def forward(self, x):
        return self.o(torch.tanh(self.q(x)) * self.k(x) + self.v(x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = torch.nn.RMSNorm(SIZE), Attention()
        self.up, self.act, self.down = (torch.nn.Linear(SIZE, SIZE), torch.nn.SiLU(),
                                        torch.nn.Linear(SIZE, SIZE))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(self.act(self.up(x)))


def blocks(count=2, products="bf16", recipe="te-delayed", **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(count)))
    tandem.torch.compress_activations(model, recipe, products=products, **options)
    return model


def share_states(model):
    """Makes the same layers of all blocks have the same states, so that these advance several
    times in a step. Blocks do not share weights, whose gradients PyTorch would sum in other
    orders."""
    for block in model[1:]:
        for ours, first in zip(block.modules(), model[0].modules()):
            if hasattr(ours, "_kept"):
                ours._kept = first._kept
    return model


def draw(seed):
    """Returns an input whose magnitude depends on the seed."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, SIZE, generator=generator) * (1 + seed % 5) ** 2
    return x.requires_grad_()


def histories(model):
    return [plane.clone() for module in model.modules() if hasattr(module, "_kept")
            for plane in module._kept.values()]


def results(model, x):
    """Returns what a step has left in a model, and removes the gradients."""
    found = [x.grad, *(p.grad for p in model.parameters()), *histories(model)]
    model.zero_grad()
    return found


def train(model, forward, steps=4, between=None):
    """Returns outputs, gradients and histories of some steps."""
    found = []
    for seed in range(steps):
        x = draw(seed)
        y = forward(x)
        y.square().sum().backward()
        found += [y.detach(), *results(model, x)]
        if between is not None:
            between(model)
    return found


def each_block(model, form):
    """Returns a forward pass in which each block has its own checkpoint."""
    def forward(x):
        for block in model:
            x = form(block, x)
        return x

    return forward


def assert_same(got, want):
    assert len(got) == len(want)
    assert all(torch.equal(g, w) for g, w in zip(got, want))


def expected(products, **options):
    model = blocks(products=products)
    return train(model, model, **options)


@forms
@products
def test_a_step_advances_the_history_once(products, form):
    model = blocks(products=products)
    assert_same(train(model, each_block(model, FORMS[form])), expected(products))


@forms
@products
def test_a_checkpoint_around_a_model(products, form):
    model = blocks(products=products)
    assert_same(train(model, lambda x: FORMS[form](model, x)), expected(products))


@pytest.mark.parametrize("inner", ("reentrant", "not reentrant"))
@pytest.mark.parametrize("outer", ("reentrant", "not reentrant"))
@products
@needs_hooks_around
def test_nested_checkpoints(products, outer, inner):
    def run(outer, inner):
        model = share_states(blocks(6, products))
        parts = model[:3], model[3:]

        def forward(x):
            for part in parts:
                x = outer(each_block(part, inner), x)
            return x

        return train(model, forward)

    assert_same(run(FORMS[outer], FORMS[inner]), run(plain, plain))


@pytest.mark.parametrize("names", list(itertools.product(FORMS, repeat=3)), ids="-".join)
@needs_hooks_around
def test_three_nested_checkpoints(names):
    def run(a, b, c):
        model = share_states(blocks(4, "fp8"))

        def inner(x):
            return c(model[1], c(model[0], x))

        return train(model, lambda x: a(lambda x: c(model[3], b(
            lambda x: c(model[2], inner(x)), x)), x))

    assert_same(run(*map(FORMS.get, names)), run(plain, plain, plain))


@forms
@products
def test_evaluation_leaves_the_history(products, form):
    def evaluate(model):
        model.eval()
        before = histories(model)
        for disable in (torch.no_grad, torch.inference_mode):
            with disable():
                y = model(100 * draw(9))
                assert torch.equal(model(100 * draw(9)), y)
        assert_same(histories(model), before)
        model.train()

    model = blocks(products=products)
    got = train(model, each_block(model, FORMS[form]), between=evaluate)
    assert_same(got, expected(products))


def test_evaluation_takes_the_scales_of_training():
    """Layers that share their codes with others have scales of their own in evaluation."""
    model = blocks(1, "fp8")
    for _ in range(2):
        (model(draw(3)) * 1e-3).sum().backward()
    want = model(draw(3)).detach()
    with torch.no_grad():
        assert (model(draw(3)) - want).norm() < 0.01 * want.norm()


def test_evaluation_in_inference_mode_before_training():
    layer = nn.Linear(SIZE, SIZE, recipe="te-delayed", products="fp8")
    with torch.inference_mode():
        layer(draw(1))
    assert not layer._kept
    layer(draw(1)).sum().backward()
    assert layer.weight.grad.any()


@forms
@products
def test_microbatches_in_a_pipeline(products, form):
    """Forward passes of later microbatches run before backward passes of earlier ones."""
    def run(form):
        model, found, waiting = blocks(products=products), [], []
        forward = each_block(model, form)
        for seed in range(8):
            x = draw(seed)
            waiting.append((x, forward(x)))
            if len(waiting) > 2:
                x, y = waiting.pop(0)
                y.square().sum().backward()
                found += [y.detach(), *results(model, x)]
        return found

    assert_same(run(FORMS[form]), run(plain))


@needs_hooks_around
def test_two_backward_passes_of_one_graph():
    def run(form):
        model = blocks(products="fp8")
        forward, found = each_block(model, form), []
        for seed in range(3):
            x = draw(seed)
            y = forward(x)
            y.sum().backward(retain_graph=True)
            y.square().sum().backward()
            found += [y.detach(), *results(model, x)]
        return found

    assert_same(run(FORMS["not reentrant"]), run(plain))
    assert_same(run(FORMS["reentrant"]), run(plain))


@forms
def test_a_step_without_a_backward_pass(form):
    """Passes that wait for a backward pass which never comes do not confuse later ones."""
    def run(form):
        model = blocks(products="fp8")
        forward = each_block(model, form)
        return [tensor for _ in range(3) for tensor in
                [forward(draw(7)).detach(), *train(model, forward, 2)]]

    assert_same(run(FORMS[form]), run(plain))


@forms
def test_functions_with_a_state_of_the_user(form):
    torch.manual_seed(1)
    weight = torch.randn(SIZE, SIZE, requires_grad=True)

    def run(form):
        state, found = {}, []
        for seed in range(4):
            x, weight.grad = draw(seed), None
            y = form(lambda x: nn.linear(x * 1, weight, recipe="te-delayed", state=state,
                                         products="fp8"), x)
            y.square().sum().backward()
            found += [y.detach(), x.grad, weight.grad, *(p.clone() for p in state.values())]
        return found

    assert_same(run(FORMS[form]), run(plain))


@forms
@pytest.mark.parametrize("recompute", (False, True))
def test_histories_of_every_layer(tmp_path, form, recompute):
    """With a history for each saved tensor, all layers have states, also gated blocks."""
    scales = "group = tensor, scale = f32, history = 3"
    (tmp_path / "all.mlir").write_text(f"""
    tandem.strategy @all compute(<f32, f32>) {{
      tandem.assign saved per(row) = #tandem.float<f32>
      tandem.assign saved = #tandem.scaled<#scaled.float<f8E4M3FN>, {scales}>
    }}""")

    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(SIZE)
            self.gate_proj, self.up_proj, self.down_proj = (
                torch.nn.Linear(SIZE, SIZE) for _ in range(3))
            self.act_fn = torch.nn.SiLU()

        def forward(self, x):
            x = self.norm(x)
            return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

    def run(form):
        torch.manual_seed(2)
        model = torch.nn.Sequential(Gated(), torch.nn.GELU(), Gated())
        tandem.torch.compress_activations(model, "all", path=[tmp_path], recompute=recompute)
        return train(model, each_block(model, form))

    assert_same(run(FORMS[form]), run(plain))


@pytest.mark.parametrize("recipe", ("coat", "coat-fp8", "coat-flow", "te-current"))
def test_reentrant_checkpoints_take_the_codes_of_a_norm(recipe):
    """The first run of a checkpoint computes with the codes that the recomputation has."""
    def run(form):
        model = blocks(products="fp8", recipe=recipe).bfloat16()
        forward = each_block(model, form)
        return train(model, lambda x: forward(x.bfloat16()))

    assert_same(run(FORMS["reentrant"]), run(plain))


@needs_hooks_around
def test_what_a_checkpoint_remembers_is_freed():
    model = blocks()
    gc.collect()
    frames = len(_history._in_frames)
    y = each_block(model, FORMS["not reentrant"])(draw(1))
    assert len(_history._in_frames) == frames + 2
    y.sum().backward()
    del y
    gc.collect()
    assert len(_history._in_frames) == frames
    kept = len(_history._functions)
    for seed in range(3):
        each_block(model, FORMS["reentrant"])(draw(seed)).sum().backward()
    assert all(len(calls._first) <= 2 and not calls._nested
               for calls in _history._functions.values())
    del model
    gc.collect()
    assert len(_history._functions) <= kept


def blocks_for_graphs(count):
    """Returns blocks whose layers offer no codes to linear layers, as in graphs."""
    model = blocks(count)
    for module in model.modules():
        if hasattr(module, "_kept"):
            module._kept._unused = set(_history.Mode)
    return model


@forms
def test_under_torch_compile(form):
    """Layers with a history stay out of graphs, and checkpoints around them run them again."""
    def run(form):
        torch._dynamo.reset()
        model = blocks_for_graphs(1)
        call = torch.compile(lambda x: form(model[0], x * 1) * 2, backend="eager")
        return train(model, call)

    assert_same(run(FORMS[form]), run(plain))
    torch._dynamo.reset()


@forms
def test_compiled_blocks_in_checkpoints(form):
    def run(form):
        torch._dynamo.reset()
        model = blocks_for_graphs(2)
        for block in model:
            block.compile(backend="eager")
        return train(model, each_block(model, form))

    assert_same(run(FORMS[form]), run(plain))
    torch._dynamo.reset()
