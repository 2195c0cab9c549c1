#===- test_reports_state.py - Reports about states -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tries what users of other optimizers reported about states, their types and loading
# them. docs/Reports.md lists the reports.
#
#===----------------------------------------------------------------------===#

import collections
import copy
import gc
import io
import weakref

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.report_steps import LIBRARY, error, pair, run_alike, values
from support.torch_bits import assert_same_bits, dtype_of, parameters, params_of, train

SHAPES = [(64, 80), (33,)]
#: One strategy for each way in which weights are stored.
WEIGHTS = ["bf16-kahan", "collage-plus", "master-weights", "remainder", "coat", "flash", "adam8bit"]


def make(strategy, params=None, **options):
    params = parameters(SHAPES, dtype_of(strategy)) if params is None else params
    return tt.AdamW(params, strategy=strategy, **{"lr": 1e-2, "min_8bit_size": 0} | options)


def continued(optimizer, strategy):
    """Returns an optimizer of copied parameters that has loaded the state."""
    other = make(strategy, [torch.nn.Parameter(p.detach().clone()) for p in params_of(optimizer)])
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return other


# pytorch/pytorch#43706
def test_loading_keeps_float32_states_of_bf16_parameters():
    first = make("fp32-optim")
    train(first, range(3))
    second = continued(first, "fp32-optim")
    for p in params_of(second):
        assert p.dtype == torch.bfloat16
        state = second.state[p]
        assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == torch.float32
    assert_same_bits(second, first)
    for optimizer in (first, second):
        train(optimizer, range(3, 6))
    assert_same_bits(second, first)


# pytorch/torchtitan#4615
def test_loading_keeps_narrow_states_of_float32_parameters():
    first = make("bf16-stochastic", parameters(SHAPES, torch.float32))
    train(first, range(3))
    second = continued(first, "bf16-stochastic")
    for p in params_of(second):
        assert p.dtype == torch.float32
        assert second.state[p]["exp_avg"].dtype == torch.bfloat16
    for optimizer in (first, second):
        train(optimizer, range(3, 6))
    assert_same_bits(second, first)


# TensorAuto/OpenTau#184
def test_bf16_states_of_torch_are_widened_with_a_word():
    theirs = torch.optim.AdamW(parameters(SHAPES), lr=1e-2)
    train(theirs, range(3))
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params_of(theirs)]
    with pytest.raises(ValueError, match="is not stored as this optimizer does; leave"):
        make("fp32-optim", copies).load_state_dict(theirs.state_dict(), convert=False)
    ours = make("fp32-optim", copies)
    with pytest.warns(UserWarning, match="of an optimizer of torch.optim; its values were conv"):
        ours.load_state_dict(theirs.state_dict())
    for p, q in zip(copies, params_of(theirs)):
        for name in ("exp_avg", "exp_avg_sq"):
            assert ours.state[p][name].dtype == torch.float32
            assert torch.equal(ours.state[p][name], theirs.state[q][name].float())
    # The next step is that of float64, except for the rounding of weights.
    wide = torch.optim.AdamW([torch.nn.Parameter(p.detach().double()) for p in copies], lr=1e-2)
    wide.load_state_dict(theirs.state_dict())
    run_alike(ours, wide, [3])
    for p, q in zip(copies, params_of(wide)):
        assert torch.equal(p.detach(), q.detach().to(torch.bfloat16))


# NVIDIA/Megatron-LM#174, NovaSky-AI/SkyRL#2149
@pytest.mark.parametrize("strategy", LIBRARY)
def test_weights_that_are_loaded_after_steps_are_not_reverted(strategy):
    model = torch.nn.Linear(80, 64).to(dtype_of(strategy))
    optimizer = make(strategy, model.parameters(), lr=1e-4, eps=1e-4)
    train(optimizer, range(2))
    loaded = {name: torch.full_like(p, 5) for name, p in model.state_dict().items()}
    model.load_state_dict(loaded)
    train(optimizer, [2])
    for p in model.parameters():  # one step of about the learning rate, and one unit of the type
        assert (p.detach().float() - 5).abs().max() <= 0.04


# huggingface/diffusers#7549, harubaru/waifu-diffusion#31
@pytest.mark.parametrize("strategy", LIBRARY)
def test_swapping_averages_in_and_out_changes_no_bit(strategy):
    swapped, other = (make(strategy, eps=1e-4) for _ in range(2))
    averages = [p.detach().clone() for p in params_of(swapped)]
    for seed in range(4):
        for optimizer in (swapped, other):
            train(optimizer, [seed])
        for average, p in zip(averages, params_of(swapped)):
            average.lerp_(p.detach(), 0.1)
        kept = [p.detach().clone() for p in params_of(swapped)]
        with torch.no_grad():
            for p, average in zip(params_of(swapped), averages):
                p.copy_(average)
            assert any(not torch.equal(p, k) for p, k in zip(params_of(swapped), kept))
            for p, k in zip(params_of(swapped), kept):
                p.copy_(k)
    assert_same_bits(swapped, other)


# Lightning-AI/pytorch-lightning#4044
@pytest.mark.parametrize("strategy", ["fp32", "adam8bit"])
def test_a_new_learning_rate_after_loading_is_used(strategy):
    params, wide = pair(SHAPES)
    ours, theirs = make(strategy, params), torch.optim.AdamW(wide, lr=1e-2)
    run_alike(ours, theirs, range(3))
    ours = continued(ours, strategy)
    start = values(wide)
    for optimizer in (ours, theirs):
        assert optimizer.param_groups[0]["lr"] == 1e-2
        optimizer.param_groups[0]["lr"] = 1e-1
    begun = values(params_of(ours))
    run_alike(ours, theirs, [3])
    moved = [p.detach().double() - b for p, b in zip(params_of(ours), begun)]
    want = [q.detach() - s for q, s in zip(wide, start)]
    assert error(moved, want, [torch.zeros_like(w) for w in want]) < (0.1 if strategy == "adam8bit"
                                                                      else 1e-5)


# NVIDIA/apex#766
def test_a_scheduler_reaches_the_optimizer_after_loading():
    optimizer = make("coat")
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    train(optimizer, [0])
    scheduler.step()
    state, schedule = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(scheduler.state_dict())
    optimizer.load_state_dict(state)
    scheduler.load_state_dict(schedule)
    scheduler.step()
    assert scheduler.optimizer.param_groups is optimizer.param_groups
    assert optimizer.param_groups[0]["lr"] == 1e-2 / 4
    # A step of the rate 0 decays and moves nothing, so the step has the scheduler's rate.
    optimizer.param_groups[0]["lr"] = 0.0
    kept = values(params_of(optimizer))
    train(optimizer, [1])
    assert all(torch.equal(p.detach().double(), k) for p, k in zip(params_of(optimizer), kept))


# Lightning-AI/pytorch-lightning#19955, pytorch/pytorch#128208
@pytest.mark.parametrize("strategy", WEIGHTS)
def test_a_trainer_may_replace_every_tensor_of_a_state(strategy):
    moved, other = make(strategy), make(strategy)
    for seed in range(4):
        for optimizer in (moved, other):
            train(optimizer, [seed])
        for p, state in moved.state.items():  # as Lightning moves a state to another device
            moved.state[p] = {name: value.clone() if isinstance(value, torch.Tensor) else value
                              for name, value in state.items()}
    assert_same_bits(moved, other)


# verl-project/verl#299
@pytest.mark.parametrize("strategy", WEIGHTS)
def test_looking_at_states_before_the_first_step_does_no_harm(strategy):
    looked, other = make(strategy), make(strategy)
    for p in params_of(looked):
        for name, value in looked.state[p].items():
            looked.state[p][name] = value.to("cpu")
    for optimizer in (looked, other):
        train(optimizer, range(2))
    assert_same_bits(looked, other)


# pytorch/pytorch#7844
def test_a_model_that_changes_its_type_before_the_first_step():
    model = torch.nn.Linear(80, 64)
    optimizer = make("coat", model.parameters())
    model.to(torch.bfloat16)
    fresh = copy.deepcopy(model)
    other = make("coat", fresh.parameters())
    for each in (optimizer, other):
        train(each, range(2))
    assert_same_bits(optimizer, other)


# pytorch/pytorch#100701
@pytest.mark.parametrize("strategy", ["fp32", "adam8bit", "coat", "flash"])
def test_an_empty_parameter_does_not_stop_the_others(strategy):
    params, wide = pair([(64, 80), (0,), (33,), (0, 5)])
    ours, theirs, start = make(strategy, params), torch.optim.AdamW(wide, lr=1e-2), values(wide)
    run_alike(ours, theirs, range(3))
    assert error(params, wide, start) < (1e-5 if strategy == "fp32" else 0.1)


# ultralytics/ultralytics#24085
def test_a_state_that_was_halved_is_refused():
    first = make("fp32", parameters(SHAPES, torch.float32))
    train(first, range(3))
    state = copy.deepcopy(first.state_dict())
    for planes in state["state"].values():
        for name, plane in planes.items():
            if isinstance(plane, torch.Tensor) and plane.dtype == torch.float32 and plane.ndim:
                planes[name] = plane.half()
    second = make("fp32", [torch.nn.Parameter(p.detach().clone()) for p in params_of(first)])
    with pytest.raises(ValueError, match="exp_avg"):
        second.load_state_dict(state)
    assert not second.state


# bitsandbytes-foundation/bitsandbytes#1647, unslothai/unsloth#1080
def test_a_state_of_an_older_bitsandbytes_with_longer_blocks_is_read():
    weight = torch.nn.Parameter(torch.zeros(64, 128))
    codes = torch.arange(256, dtype=torch.uint8).repeat(32).view(64, 128)
    scales = torch.tensor([1.0, 2.0, 4.0, 0.5])  # for 2048 elements each
    ours = tt.AdamW([weight], strategy="adam8bit")
    train(ours, [0])
    theirs = tt.to_bitsandbytes(ours.state_dict(), [weight])
    planes = theirs["state"][0]
    planes["state1"], planes["absmax1"] = codes, scales
    planes["state2"], planes["absmax2"] = codes, scales
    mine = tt.from_bitsandbytes(theirs, [weight])
    loaded = tt.AdamW([weight], strategy="adam8bit")
    loaded.load_state_dict(mine)
    wide = tt.AdamW([weight], strategy="fp32-optim")
    wide.load_state_dict(tt.from_bitsandbytes(theirs, [weight], "fp32-optim"))
    for state, qmap in (("exp_avg", "qmap1"), ("exp_avg_sq", "qmap2")):
        want = planes[qmap].double()[codes.long()] * scales.repeat_interleave(2048).view(64, 128)
        off = (wide.state[weight][state].double() - want).abs() / want.abs().clamp_min(1e-30)
        assert torch.all((off < 1e-6) | (off < 0.0145) & (codes.long() == 0) |
                         (off < 0.0037) & (codes.long() >= 254)), state
        stretched = loaded.state[weight][state + ".scale"].flatten()
        assert torch.equal(stretched, scales.repeat_interleave(8))


def planes_of(optimizer):
    """Returns weak references to all tensors of states."""
    return [weakref.ref(plane) for state in optimizer.state.values() for plane in state.values()
            if isinstance(plane, torch.Tensor) and plane.ndim]


def load(optimizer):
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def clear(optimizer):
    optimizer.state.clear()


def replace(optimizer):
    for p, state in list(optimizer.state.items()):
        optimizer.state[p] = {name: value.clone() if isinstance(value, torch.Tensor) else value
                              for name, value in state.items()}


# facebookresearch/fairseq#51, NVIDIA/Megatron-LM#7288 (load), pytorch/xla#9599 (clear),
# PrimeIntellect-ai/prime-rl#2154 (replace)
@pytest.mark.parametrize("change", [load, clear, replace])
@pytest.mark.parametrize("strategy", ["fp32", "coat", "remainder"])
def test_states_that_are_replaced_are_freed(strategy, change):
    optimizer = make(strategy)
    torch_optimizer = torch.optim.AdamW(parameters(SHAPES))
    for each in (torch_optimizer, optimizer):
        train(each, range(2))
        planes = planes_of(each)
        change(each)
        gc.collect()
        assert planes and not any(plane() is not None for plane in planes), type(each)


# pytorch/xla#9599
@pytest.mark.parametrize("strategy", ["fp32", "bf16", "bf16-stochastic", "adam8bit"])
def test_a_new_dictionary_of_states_begins_anew(strategy):
    optimizer = make(strategy)
    train(optimizer, range(2))
    optimizer.state = collections.defaultdict(dict)
    other = make(strategy, [torch.nn.Parameter(p.detach().clone()) for p in params_of(optimizer)])
    for each in (optimizer, other):
        train(each, range(2, 4))
    assert_same_bits(optimizer, other)
    assert optimizer.state[params_of(optimizer)[0]]["step"] == 2


# pytorch/ignite#1954, pytorch/pytorch#1995
@pytest.mark.parametrize("strategy", [*LIBRARY, "fp8-lm", "fp8-collage-plus",
                                      "dither-softsign-root"])
def test_a_checkpoint_is_not_larger_than_the_states(strategy):
    dtype = dtype_of(strategy) if strategy in LIBRARY else torch.bfloat16
    optimizer = make(strategy, parameters([(256, 300), (33,), (1, 7)], dtype), eps=1e-4)
    train(optimizer, [0])
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    size = sum(plane.nbytes for state in optimizer.state.values() for plane in state.values()
               if isinstance(plane, torch.Tensor))
    assert size <= len(file.getvalue()) < size + 15000


# Lightning-AI/pytorch-lightning#19067
@pytest.mark.parametrize("strategy", ["fp32", "coat"])
def test_parameters_on_the_meta_device_are_refused(strategy):
    """torch.optim takes them, and trains tensors that the model no longer has."""
    with torch.device("meta"):
        model = torch.nn.Linear(80, 64)
    with pytest.raises(ValueError, match="is on meta"):
        make(strategy, model.parameters())
    model.to_empty(device="cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1)
    optimizer = make(strategy, model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert torch.allclose(model.weight, torch.full((64, 80), 0.899), atol=1e-5)
