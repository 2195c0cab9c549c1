#===- test_torch_replay.py - Replayed steps -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that a replayed step, which checks parameters and states in C++, notices all
# changes since the previous one.
#
#===----------------------------------------------------------------------===#

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.torch_bits import assert_same_bits, parameters, params_of, set_gradients
from tandem.torch.optim.launch._runner import StepRunner

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
    reason="this PyTorch has no exchange interface")
SHAPES = [(17,), (3, 5), (), (0, 2)]


def make(**options):
    options = {"lr": 1e-2, "strategy": "collage-plus"} | options
    params = parameters(SHAPES) + parameters([(4, 4)], torch.float32)
    return tt.AdamW([{"params": params[:2]}, {"params": params[2:], "lr": 0.1}], **options)


def state_of(optimizer, at):
    return optimizer.state[params_of(optimizer)[at]]


def put(optimizer, at, name, tensor):
    state_of(optimizer, at)[name] = tensor


def turn_group(optimizer):
    optimizer.param_groups[0]["params"].reverse()


def move_to_first_group(optimizer):
    first, second = optimizer.param_groups[:2]
    first["params"].append(second["params"].pop(0))
    first["lr"] = 0.5


def to_channels_last(optimizer):
    params_of(optimizer)[4].data = params_of(optimizer)[4].data.t().contiguous().t()


#: Changes between two steps whose gradients are set.
CHANGES = {
    "nothing": lambda o: None,
    "a rate": lambda o: o.param_groups[1].update(lr=0.5),
    "no gradient": lambda o: setattr(params_of(o)[1], "grad", None),
    "no gradients": lambda o: o.zero_grad(),
    "a gradient in f32": lambda o: (
        o.zero_grad(), params_of(o)[0].register_hook(lambda g: g),
        setattr(params_of(o)[4], "grad", torch.ones(4, 4))),
    "a gradient with gaps": lambda o: setattr(
        params_of(o)[1], "grad", torch.ones(3, 10, dtype=torch.bfloat16)[:, ::2]),
    "a negated gradient": lambda o: setattr(
        params_of(o)[2], "grad", torch._neg_view(torch.ones((), dtype=torch.bfloat16))),
    "a weight elsewhere": lambda o: setattr(
        params_of(o)[0], "data", params_of(o)[0].data.clone()),
    "another layout": to_channels_last,
    "a plane elsewhere": lambda o: setattr(
        state_of(o, 0)["exp_avg"], "data", state_of(o, 0)["exp_avg"].data * 2),
    "another plane": lambda o: put(o, 1, "param.lo",
                                   torch.ones(3, 5, dtype=torch.bfloat16) * 2**-10),
    "another state": lambda o: o.state.update(
        {params_of(o)[0]: {k: v.clone() if torch.is_tensor(v) else v
                           for k, v in state_of(o, 0).items()}}),
    "no state": lambda o: o.state.pop(params_of(o)[1]),
    "a count": lambda o: put(o, 0, "step", 100),
    "all counts": lambda o: [s.update(step=7) for s in o.state.values()],
    "an order": turn_group,
    "another group": move_to_first_group,
    "a new group": lambda o: o.add_param_group({"params": parameters([(5,)], seed=3)}),
    "a loaded state": lambda o: o.load_state_dict(o.state_dict()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(change, monkeypatch):
    """Results match steps that check everything each time."""
    def run():
        optimizer = make()
        for seed in range(5):
            set_gradients(params_of(optimizer), seed)
            if seed == 3:
                CHANGES[change](optimizer)
            optimizer.step()
        return optimizer

    got = run()
    # Gradients whose layout differs from their parameter's are copied each time.
    assert (got._runner._replay is None) == (change == "another layout")
    monkeypatch.setattr(StepRunner, "_watched", lambda self, bindings: None)
    want = run()
    assert_same_bits(got, want)


def test_most_steps_look_little(monkeypatch):
    optimizer, runs = make(), []
    run = StepRunner._run
    monkeypatch.setattr(StepRunner, "_run", lambda self, *a: (runs.append(1), run(self, *a)))
    for seed in range(6):
        optimizer.param_groups[0]["lr"] = 1e-2 / (1 + seed)
        for param in params_of(optimizer):
            param.grad = None
        set_gradients(params_of(optimizer), seed)
        optimizer.step()
    assert len(runs) == 1
    assert {state["step"] for state in optimizer.state.values()} == {6}


def test_autograd_sees_such_steps():
    optimizer = make()
    for seed in range(2):
        set_gradients(params_of(optimizer), seed)
        optimizer.step()
    p = params_of(optimizer)[0]
    loss = (p * p).sum()
    set_gradients(params_of(optimizer), 5)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_refusals_change_nothing():
    optimizer = make()
    for seed in range(2):
        set_gradients(params_of(optimizer), seed)
        optimizer.step()
    before = [p.detach().clone() for p in params_of(optimizer)]
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="'lr' of param group 0 is -1"):
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 1e-2
    grad = params_of(optimizer)[0].detach()
    params_of(optimizer)[0].grad = grad
    with pytest.raises(ValueError, match="parameter 0: plane 'param'.*shares"):
        optimizer.step()
    assert all(torch.equal(p, b) for p, b in zip(params_of(optimizer), before))
    assert {state["step"] for state in optimizer.state.values()} == {2}
