#===- test_torch_schedule.py - Precisions that change ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests schedules of masks, recipes and strategies.
#
#===----------------------------------------------------------------------===#

import pytest
import torch

import tandem.torch
from tandem.torch import (MaskSetting, PrecisionRaise, PrecisionSchedule, RecipeSetting,
                          StrategySetting)


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.RMSNorm(32), torch.nn.Linear(32, 64), torch.nn.SiLU(),
                               torch.nn.Linear(64, 8))


def formats(model):
    return [str(m.emulation) if hasattr(m, "emulation") else None
            for m in model if isinstance(m, torch.nn.Linear)]


def test_masks():
    model = net()
    schedule = PrecisionSchedule(MaskSetting(model, exclude=["3"]), {0: "E8M3", 3: "E8M5", 5: None})
    found, changed = [], []
    for _ in range(6):
        found.append(formats(model))
        changed.append(schedule.step())
    assert found == 3 * [["E8M3", None]] + 2 * [["E8M5", None]] + [[None, None]]
    assert changed == [False, False, True, False, True, False]


def test_masks_by_layer():
    model = net()
    PrecisionSchedule(MaskSetting(model), {0: {"1": "E8M7", "*": "E8M3"}})
    assert formats(model) == ["E8M7", "E8M3"]


def test_recipes():
    model = net()
    schedule = PrecisionSchedule(RecipeSetting(model), {0: "coat", 2: "bf16"})
    assert model[0].recipe == "coat"
    assert [schedule.step() for _ in range(3)] == [False, True, False]
    assert model[0].recipe == "bf16" and model[3].recipe == "bf16"


def train(model, optimizer, schedule, steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 32, generator=generator)).square().mean().backward()
        optimizer.step()
        schedule.step()


def test_strategies_convert_states():
    model, other = net(), net()
    optimizer = tandem.torch.AdamW(model.parameters(), strategy="fp32", min_8bit_size=0)
    schedule = PrecisionSchedule(StrategySetting(optimizer), {0: "fp32", 4: "coat"})
    train(model, optimizer, schedule, 8)
    assert optimizer.state[model[1].weight]["exp_avg.scale"].numel()

    plain = tandem.torch.AdamW(other.parameters(), strategy="fp32", min_8bit_size=0)
    nothing = PrecisionSchedule(StrategySetting(plain), {0: "fp32"})
    train(other, plain, nothing, 8)
    difference = (model[1].weight - other[1].weight).abs().max()
    assert 0 < difference < 1e-3  # one step with the default learning rate


def test_resumes():
    model = net()
    values = {0: "E8M3", 2: None}
    schedule = PrecisionSchedule(MaskSetting(model), values)
    schedule.step(), schedule.step()
    again = net()
    resumed = PrecisionSchedule(MaskSetting(again), values)
    assert formats(again) == ["E8M3", "E8M3"]
    resumed.load_state_dict(schedule.state_dict())
    assert formats(again) == [None, None] and resumed.last_step == 2


def test_raises_the_precision():
    model = net()
    guard = PrecisionRaise(MaskSetting(model), ["E8M3", "E8M5", None], bound=0.5, patience=2)
    found = []
    for sharpness in (0.6, 0.4, 0.6, 0.7, 0.1, float("nan"), torch.tensor(2.0), 9.0, 9.0):
        found.append((guard.step(sharpness), formats(model)[0]))
    assert found == [(False, "E8M3"), (False, "E8M3"), (False, "E8M3"), (True, "E8M5"),
                     (False, "E8M5"), (False, "E8M5"), (True, None), (False, None),
                     (False, None)]
    again = net()
    other = PrecisionRaise(MaskSetting(again), ["E8M3", "E8M5", None], bound=0.5)
    other.load_state_dict(guard.state_dict())
    assert formats(again) == [None, None]


@pytest.mark.parametrize("values, message", [
    ({1: "E8M3"}, "a schedule needs a value for step 0"),
    ({0: "E8M3", -1: None}, "steps of a schedule are integers from 0 on, got -1"),
    ({0: "E8M3", 2.5: None}, "steps of a schedule are integers from 0 on, got 2.5"),
    ({0: "E8M3", 6000: "E9M3"}, "there is no float 'E9M3'"),
    ({0: {"nothing": "E8M3"}}, "format has 'nothing', which is not a linear layer")])
def test_refuses_before_anything_runs(values, message):
    model = net()
    with pytest.raises(ValueError, match=message):
        PrecisionSchedule(MaskSetting(model), values)
    assert formats(model) == [None, None]


def test_refuses_states_that_cannot_convert():
    model = net().half()
    optimizer = tandem.torch.AdamW(model.parameters(), strategy="f16-fp32-optim")
    with pytest.raises(TypeError, match="but strategy 'collage-plus' keeps"):
        PrecisionSchedule(StrategySetting(optimizer), {0: "f16-fp32-optim", 100: "collage-plus"})
    with pytest.raises(ValueError, match="no-such"):
        PrecisionSchedule(RecipeSetting(model), {0: "coat", 5: "no-such"})
    assert isinstance(model[0], torch.nn.RMSNorm) and not hasattr(model[0], "recipe")


def test_refuses_other_kinds_of_values():
    model = net()
    with pytest.raises(TypeError, match="a recipe is a name such as 'coat', got None"):
        PrecisionSchedule(RecipeSetting(model), {0: "coat", 5: None})
    optimizer = tandem.torch.AdamW(model.parameters())
    with pytest.raises(TypeError, match="a strategy is a name such as 'fp32', got None"):
        PrecisionSchedule(StrategySetting(optimizer), {0: "fp32", 5: None})
    foreign = StrategySetting(torch.optim.AdamW(model.parameters()))
    with pytest.raises(TypeError, match="AdamW has no strategy; take an optimizer of tandem"):
        PrecisionSchedule(foreign, {0: "fp32"})
    assert isinstance(model[0], torch.nn.RMSNorm) and not hasattr(model[0], "recipe")


def test_refuses_states_of_others():
    model = net()
    schedule = PrecisionSchedule(MaskSetting(model), {0: "E8M3", 2: None})
    for state in ({}, {"last_step": -1}, {"last_step": "2"}):
        with pytest.raises(ValueError, match="the state has last_step="):
            schedule.load_state_dict(state)
    guard = PrecisionRaise(MaskSetting(model), ["E8M3", "E8M5"], bound=0.5)
    with pytest.raises(ValueError, match="the state has level=2, which this object cannot have"):
        guard.load_state_dict({"level": 2, "num_exceeded": 0})
    assert schedule.last_step == guard.level == 0 and formats(model) == ["E8M3", "E8M3"]


@pytest.mark.parametrize("levels, options, message", [
    ([], {"bound": 1.0}, "levels is a list of values, lowest first"),
    ("E8M3", {"bound": 1.0}, "levels is a list of values, lowest first, got 'E8M3'"),
    (["E8M3"], {"bound": float("nan")}, "bound must be a finite number, got nan"),
    (["E8M3"], {"bound": 1.0, "patience": 0}, "patience is a positive number"),
    (["E8M3", "x"], {"bound": 1.0}, "there is no float 'x'")])
def test_raise_refuses(levels, options, message):
    with pytest.raises(ValueError, match=message):
        PrecisionRaise(MaskSetting(net()), levels, **options)
