#===- test_reports_groups.py - Reports about param groups ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tries what users of other optimizers reported about param groups, schedulers and
# parameters that come, go or have no gradient. docs/Reports.md lists the reports.
#
#===----------------------------------------------------------------------===#

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.report_steps import error, pair, run_alike, set_alike, values
from support.torch_bits import (assert_same_bits, dtype_of, parameters, params_of, set_gradients,
                                train)
from torch.optim import lr_scheduler

SHAPES = [(64, 80), (33,)]


def of(optimizer, *, wide=False, **options):
    """Returns an optimizer of two groups of float32 parameters, or of copies in float64."""
    groups = [{"params": pair(SHAPES, seed=seed)[wide], **extra}
              for seed, extra in ((0, {}), (9, {"betas": (0.8, 0.95)}))]
    return optimizer(groups, lr=1e-2, **options)


def start_of(optimizer):
    return values(params_of(optimizer))


# pytorch/pytorch#51794
def test_two_optimizers_from_the_same_list_of_groups():
    groups = [{"params": parameters(SHAPES)}, {"params": parameters([(16, 16)]), "lr": 1e-3}]
    first = tt.AdamW(groups, lr=1e-2, strategy="coat")
    second = tt.AdamW(groups, lr=1e-1, strategy="remainder")
    rates = [[group["lr"] for group in each.param_groups] for each in (first, second)]
    assert rates == [[1e-2, 1e-3], [1e-1, 1e-3]]
    assert [group["strategy"] for group in second.param_groups] == ["remainder"] * 2
    assert sorted(groups[0]) == ["params"] and sorted(groups[1]) == ["lr", "params"]


# pytorch/ao#1209
@pytest.mark.parametrize("release", [False, True])
def test_a_model_with_frozen_parameters_is_taken_as_it_is(release):
    model = torch.nn.Sequential(torch.nn.Linear(80, 64), torch.nn.Linear(64, 8))
    model[0].requires_grad_(False)
    frozen = copy.deepcopy(model[0])
    wide = copy.deepcopy(model).double()
    ours = tt.AdamW(model.parameters(), lr=1e-2, strategy="fp32", gradient_release=release)
    theirs, start = torch.optim.AdamW(wide.parameters(), lr=1e-2), values(wide[1].parameters())
    for step in range(3):
        x = torch.randn(4, 80, generator=torch.Generator().manual_seed(step))
        model(x).square().mean().backward()
        wide(x.double()).square().mean().backward()
        for optimizer in (ours, theirs):
            optimizer.step()
            optimizer.zero_grad()
    assert error(model[1].parameters(), wide[1].parameters(), start) < 1e-4
    assert torch.equal(model[0].weight, frozen.weight) and model[0].weight not in ours.state


# pytorch/ao#959
@pytest.mark.parametrize("options", [
    {"strategy": "coat"}, {"strategy": "flash", "gradient_release": True},
    {"strategy": "remainder", "max_norm": 1.0}, {"strategy": "fp8-lm"}])
def test_schedulers_take_every_optimizer(options):
    optimizer = tt.AdamW(parameters(SHAPES), lr=1e-2, **options)
    assert isinstance(optimizer, torch.optim.Optimizer) and optimizer.defaults["lr"] == 1e-2
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    for step in range(3):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 / (1 + step))
        before = start_of(optimizer)
        sum(p.float().square().sum() for p in params_of(optimizer)).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        moved = max(float((p.detach().double() - b).abs().max())
                    for p, b in zip(params_of(optimizer), before))
        assert 0 < moved < 0.05


# huggingface/transformers#3532, helpmefindaname/transformer-smaller-training-vocab#3
@pytest.mark.parametrize("strategy", ["fp32", "coat", "remainder"])
def test_a_resized_embedding_takes_the_place_of_the_old_one(strategy):
    dtype = dtype_of(strategy)
    optimizer = tt.AdamW(parameters([(64, 80), (100, 64)], dtype), lr=1e-2, strategy=strategy)
    train(optimizer, range(2))
    old = optimizer.param_groups[0]["params"][1]
    grown = torch.nn.Parameter(torch.cat([old.detach(), old.detach()[:28]]))
    optimizer.param_groups[0]["params"][1] = grown
    del optimizer.state[old]
    before, kept = grown.detach().double().clone(), old.detach().clone()
    wide = [torch.nn.Parameter(grown.detach().double())]
    theirs = torch.optim.AdamW(wide, lr=1e-2)
    set_gradients(params_of(optimizer), 5)
    wide[0].grad = grown.grad.double()
    for each in (optimizer, theirs):
        each.step()
    assert torch.equal(old, kept) and old not in optimizer.state
    assert optimizer.state[grown]["step"] == 1
    assert error([grown], wide, [before]) < (1e-4 if strategy == "fp32" else 0.2)


# speediedan/finetuning-scheduler#30
def test_a_group_that_is_added_again_after_loading_is_refused():
    params, later = parameters(SHAPES), parameters([(16, 300)], seed=3)
    optimizer = tt.AdamW(params, lr=1e-2, strategy="coat", min_8bit_size=0)
    train(optimizer, [0])
    optimizer.add_param_group({"params": later})
    train(optimizer, [1])
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    groups = len(optimizer.param_groups)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": later})
    assert len(optimizer.param_groups) == groups == 2
    other = copy.deepcopy(optimizer)
    train(optimizer, [2])
    train(other, [2])
    assert_same_bits(optimizer, other)
    assert optimizer.state[later[0]]["step"] == 2 and optimizer.state[params[0]]["step"] == 3


# pytorch/pytorch#73910, warner-benjamin/optimi#14, deepspeedai/DeepSpeed#8495
@pytest.mark.parametrize("cycle", [
    lambda each: lr_scheduler.OneCycleLR(each, [1e-2, 5e-3], total_steps=8),
    lambda each: lr_scheduler.CyclicLR(each, 1e-3, 1e-2, step_size_up=3)], ids=["one", "cyclic"])
def test_schedulers_that_cycle_beta1_keep_each_groups_beta2(cycle):
    ours, theirs = of(tt.AdamW, strategy="fp32"), of(torch.optim.AdamW, wide=True)
    start = start_of(theirs)
    schedulers = [cycle(ours), cycle(theirs)]
    seen = set()

    def after():
        for scheduler in schedulers:
            scheduler.step()
        seen.add(ours.param_groups[0]["betas"][0])
        for mine, want in zip(ours.param_groups, theirs.param_groups):
            assert mine["betas"] == want["betas"] and mine["lr"] == want["lr"]

    run_alike(ours, theirs, range(6), after)
    assert len(seen) > 2 and [group["betas"][1] for group in ours.param_groups] == [0.999, 0.95]
    assert error(params_of(ours), params_of(theirs), start) < 1e-5


# warner-benjamin/optimi#14, pytorch/pytorch#19003
@pytest.mark.parametrize("cycle", [
    lambda each: lr_scheduler.OneCycleLR(each, 1e-1, total_steps=8),
    lambda each: lr_scheduler.CyclicLR(each, 1e-2, 1e-1, step_size_up=3)], ids=["one", "cyclic"])
def test_schedulers_that_cycle_momentum_take_sgd_with_one(cycle):
    params, wide = pair(SHAPES)
    with pytest.raises(ValueError, match="must support momentum"):
        cycle(tt.SGD(params, lr=1e-1, strategy="fp32"))
    ours = tt.SGD(params, lr=1e-1, strategy="fp32", momentum=0.9)
    theirs, start = torch.optim.SGD(wide, lr=1e-1, momentum=0.9), values(wide)
    schedulers = [cycle(theirs), cycle(ours)]
    run_alike(ours, theirs, range(6), lambda: [scheduler.step() for scheduler in schedulers])
    assert error(params, wide, start) < 1e-3


# open-mmlab/mmcv#1626
def test_a_momentum_that_is_set_later_is_used_or_refused():
    params, wide = pair(SHAPES)
    ours = tt.SGD(params, lr=1e-1, strategy="fp32")
    theirs, start = torch.optim.SGD(wide, lr=1e-1), values(wide)
    run_alike(ours, theirs, [0])
    for optimizer in (ours, theirs):
        optimizer.param_groups[0]["momentum"] = 0.9
    try:
        run_alike(ours, theirs, range(1, 5))
    except ValueError as refused:
        assert "momentum" in str(refused)
    else:
        assert error(params, wide, start) < 1e-3


# deepspeedai/DeepSpeed#8589
@pytest.mark.parametrize("betas", [(1.045, 0.999), (0.9, 1.0), (-0.1, 0.999), (float("nan"), 0.9)])
def test_a_beta_that_a_schedule_drives_out_of_its_domain_is_refused(betas):
    optimizer = tt.AdamW(parameters(SHAPES), lr=1e-2, strategy="coat", min_8bit_size=0)
    train(optimizer, range(2))
    kept = copy.deepcopy(optimizer)
    optimizer.param_groups[0]["betas"] = betas
    with pytest.raises(ValueError, match="beta"):
        train(optimizer, [2])
    optimizer.param_groups[0]["betas"] = (0.9, 0.999)
    assert_same_bits(optimizer, kept)


# KellerJordan/Muon#54, pytorch/pytorch#83769
@pytest.mark.parametrize("strategy", ["fp32", "remainder", "coat"])
def test_no_gradient_leaves_a_parameter_and_a_zero_gradient_decays_it(strategy):
    ours, wide = pair([(64, 80), (64, 80), (64, 80)], dtype_of(strategy))
    optimizer = tt.AdamW(ours, lr=0.1, weight_decay=0.5, strategy=strategy)
    theirs, start = torch.optim.AdamW(wide, lr=0.1, weight_decay=0.5), values(wide)
    set_alike(ours, wide, 0)
    for params in (ours, wide):
        params[0].grad = None
        params[1].grad.zero_()
    optimizer.step()
    theirs.step()
    assert torch.equal(ours[0].detach().double(), start[0]) and ours[0] not in optimizer.state
    assert optimizer.state[ours[1]]["step"] == 1
    rounding = 2e-7 if strategy == "fp32" else 2 ** -7
    assert torch.allclose(ours[1].detach().double(), start[1] * (1 - 0.1 * 0.5), rtol=rounding,
                          atol=0)
    assert error(ours[2:], wide[2:], start[2:]) < (0.05 if strategy != "fp32" else 1e-5)


# huggingface/transformers#11106
@pytest.mark.parametrize("options", [
    {"strategy": "coat"}, {"strategy": "flash", "gradient_release": True}])
def test_a_scheduler_that_follows_the_step_does_not_warn(options):
    optimizer = tt.AdamW(parameters(SHAPES), lr=1e-2, **options)
    scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for step in range(3):
            sum(p.float().square().sum() for p in params_of(optimizer)).backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    assert not [w for w in seen if "scheduler" in str(w.message)]
    assert optimizer.param_groups[0]["lr"] == 1e-2 / 8
    late = tt.AdamW(parameters(SHAPES), lr=1e-2, **options)
    scheduler = lr_scheduler.StepLR(late, 1, 0.5)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


# huggingface/transformers#18946
@pytest.mark.parametrize("strategy", ["fp32", "adam8bit"])
def test_adam_and_adamw_obey_weight_decay_each_in_its_way(strategy):
    for name in ("Adam", "AdamW"):
        ours, wide = pair([(64, 80)])
        optimizer = getattr(tt, name)(ours, lr=1e-2, weight_decay=0.3, strategy=strategy)
        theirs = getattr(torch.optim, name)(wide, lr=1e-2, weight_decay=0.3)
        start = values(wide)
        run_alike(optimizer, theirs, range(5))
        assert error(ours, wide, start) < (1e-5 if strategy == "fp32" else 0.15), name


# Lightning-AI/pytorch-lightning#591
@pytest.mark.parametrize("strategy", ["fp32-optim", "fp8-lm", "dither-softsign-root"])
def test_zero_grad_of_one_optimizer_leaves_the_gradients_of_another(strategy):
    """A generator's backward pass also computes the discriminator's gradients."""
    def run(clears):
        generator, critic = (torch.nn.Linear(64, 64, bias=False).bfloat16() for _ in range(2))
        with torch.no_grad():
            for model, seed in ((generator, 0), (critic, 1)):
                model.weight.copy_(parameters([(64, 64)], seed=seed)[0])
        own, other = (tt.SGD(model.parameters(), lr=1.0, strategy=strategy)
                      for model in (generator, critic))
        x = torch.ones(2, 64, dtype=torch.bfloat16)
        (critic(generator(x)).float() * 1e-3).sum().backward()
        own.step()
        own.zero_grad()
        if clears:
            other.zero_grad()
        before = critic.weight.detach().clone()
        (critic(x).float() * 1e-3).sum().backward()
        other.step()
        return critic.weight.detach().float() - before.float()

    left, cleared = run(False), run(True)
    assert (left - cleared).abs().max() > 1e-3  # what the first pass left is part of the step
    assert (cleared + 2e-3).abs().mean() < 5e-3  # the second pass's gradient: 2 rows of 1e-3


# pytorch/pytorch#133898
@pytest.mark.parametrize("strategy", ["fp32", "coat"])
def test_a_scheduler_of_betas_and_of_a_tensor_as_learning_rate_changes_nothing_else(strategy):
    numbers, tensors = (
        tt.AdamW(parameters(SHAPES, dtype_of(strategy)), lr=rate, min_8bit_size=0,
                 strategy=strategy) for rate in (0.0078125, torch.tensor(0.0078125)))
    schedulers = [lr_scheduler.OneCycleLR(each, 0.0078125, total_steps=8)
                  for each in (numbers, tensors)]
    for step in range(6):
        for optimizer, scheduler in zip((numbers, tensors), schedulers):
            # Both get the number that f32 has for the rate.
            rate = optimizer.param_groups[0]["lr"]
            if isinstance(rate, float):
                optimizer.param_groups[0]["lr"] = float(torch.tensor(rate))
            train(optimizer, [step])
            scheduler.step()
    assert isinstance(tensors.param_groups[0]["lr"], torch.Tensor)
    assert_same_bits(numbers, tensors)
