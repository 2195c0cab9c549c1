#===- test_torch_adam_mini.py - Adam-mini ----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests AdamMini: that it trains under every strategy, heads, and states of the authors'
# Adam-mini. test_torch_numerics.py compares its steps with the authors'.
#
#===----------------------------------------------------------------------===#

import pickle

import pytest

torch = pytest.importorskip("torch")

import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from support.torch_bits import (VISIBLE, assert_same_bits, dtype_of, parameters,  # noqa: E402
                                params_of, reloaded, train)

#: Strategies with moments of four bits store a state that Adam-mini does not have.
STRATEGIES = sorted(name for name in set(VISIBLE) & set(tandem.strategies())
                    if not name.endswith("ratio4"))
NAMES = ("embed.weight", "layers.0.q_proj.weight", "layers.0.k_proj.weight", "layers.0.o_proj.weight",
         "layers.0.norm.weight")
SHAPES = ((40, 24), (32, 24), (16, 24), (24, 33), (24,))


def named(dtype=torch.float32):
    return list(zip(NAMES, parameters(SHAPES, dtype)))


def entries(optimizer):
    """Returns the number of second moments of each parameter."""
    names = [name for group in optimizer.param_groups for name in group["param_names"]]
    states = (optimizer.state[p] for p in params_of(optimizer))
    return {name: state.get("exp_avg_sq_row", state.get("exp_avg_sq")).numel()
            for name, state in zip(names, states)}


@pytest.mark.parametrize("head_dim", (None, 8))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_trains_under_every_strategy(strategy, head_dim):
    """A quadratic loss falls, and parameters with gradients of zero stay finite."""
    pairs = named(dtype_of(strategy))
    idle = torch.nn.Parameter(torch.ones(8, 4, dtype=dtype_of(strategy)))
    optimizer = tt.AdamMini([*pairs, ("query.weight", idle)], lr=0.02, strategy=strategy,
                            min_8bit_size=0, head_dim=head_dim)
    idle.grad = torch.zeros_like(idle)
    params = [p for _, p in pairs]
    first = sum(p.float().square().sum().item() for p in params)
    for _ in range(40):
        for p in params:
            p.grad = p.detach().clone()
        optimizer.step()
    assert sum(p.float().square().sum().item() for p in params) < 0.7 * first
    assert torch.isfinite(idle.float()).all()


#===----------------------------------------------------------------------===#
# Heads
#===----------------------------------------------------------------------===#


def test_second_moments():
    """Rows have one second moment each, and heads of queries and keys one."""
    optimizer = tt.AdamMini(named(), head_dim=8, strategy="fp32")
    train(optimizer, [0])
    assert entries(optimizer) == dict(zip(NAMES, (40, 4, 2, 24, 24)))
    optimizer = tt.AdamMini(named(), strategy="fp32")
    train(optimizer, [0])
    assert entries(optimizer) == dict(zip(NAMES, (40, 32, 16, 24, 24)))


def test_bytes():
    """Under dither-mulaw, states of a large matrix take little more than a byte a parameter."""
    weight = torch.nn.Parameter(torch.zeros(512, 1024, dtype=torch.bfloat16))
    optimizer = tt.AdamMini([weight], strategy="dither-mulaw")
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    planes = [v for v in optimizer.state[weight].values() if isinstance(v, torch.Tensor)]
    assert sum(p.nbytes for p in planes) < 1.14 * weight.numel()


def test_a_group_with_a_dimension_of_its_own():
    """Names decide only in groups that do not say it."""
    pairs = dict(named())
    groups = [{"params": [(NAMES[3], pairs[NAMES[3]])], "head_dim": 12},
              {"params": [(NAMES[1], pairs[NAMES[1]]), (NAMES[0], pairs[NAMES[0]])]}]
    optimizer = tt.AdamMini(groups, head_dim=16, strategy="fp32")
    train(optimizer, [0])
    found = [optimizer.state[p]["exp_avg_sq_row"].numel() for p in params_of(optimizer)]
    assert [group["head_dim"] for group in optimizer.param_groups] == [12, None, 16]
    assert found == [2, 40, 2]


@pytest.mark.parametrize("strategy", ("fp32", "coat", "adam8bit", "collage-plus"))
def test_states_go_on(strategy):
    """Training goes on from a checkpoint, bit for bit, and under another strategy."""
    def make():
        return tt.AdamMini(named(dtype_of(strategy)), lr=0.01, head_dim=8, strategy=strategy,
                           min_8bit_size=0)
    whole, half = make(), make()
    train(whole, range(4))
    train(half, range(2))
    again = reloaded(half, make)
    train(again, range(2, 4))
    assert_same_bits(again, whole)
    tt.change_strategy(again, "dither-mulaw")
    train(again, [5])
    assert entries(again) == dict(zip(NAMES, (40, 4, 2, 24, 24)))


#===----------------------------------------------------------------------===#
# States of the authors' Adam-mini
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16"))
def test_states_of_the_authors(strategy):
    """Steps go on: those under fp32 are as close as last bits."""
    adam_mini = pytest.importorskip("adam_mini")
    theirs = named()
    # Heads of 8 rows of 24 elements.
    peer = adam_mini.Adam_mini(theirs, 1e-3, dim=24, n_heads=3, verbose=False)
    train(peer, range(3))
    groups = [{"params": [(name, p.detach().clone().requires_grad_())],
               "head_dim": 8 if name in NAMES[1:3] else None} for name, p in theirs]
    ours = tt.AdamMini(groups, lr=1e-3, strategy=strategy)
    ours.load_state_dict(peer.state_dict())
    train(peer, range(3, 6))
    train(ours, range(3, 6))
    tolerance = {"fp32": 2e-5, "flash-f16": 2e-3}[strategy]
    for p, (name, q) in zip(params_of(ours), theirs):
        if name != NAMES[4]:  # theirs has one second moment for a norm
            torch.testing.assert_close(p, q, rtol=tolerance, atol=1e-6)


def test_states_of_other_heads_are_refused():
    adam_mini = pytest.importorskip("adam_mini")
    pair = named()[1]
    peer = adam_mini.Adam_mini([pair], 1e-3, dim=24, n_heads=3, verbose=False)
    train(peer, [0])
    ours = tt.AdamMini([pair], strategy="fp32")
    with pytest.raises(ValueError, match="'exp_avg_sq_row' for 4 parts of 32 rows, and this optimizer "
                                         "keeps 32; give its param group head_dim=8"):
        ours.load_state_dict(peer.state_dict())


#===----------------------------------------------------------------------===#
# Errors
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("make, message", (
    (lambda: tt.AdamMini(parameters([(8, 4)]), head_dim=4),
     r"head_dim=4 is for queries and keys, but no parameter has a name of these .*q_proj"),
    (lambda: tt.AdamMini([("query.weight", p) for p in parameters([(9, 4)])], head_dim=4),
     r"head_dim=4 and a parameter of the shape \(9, 4\), whose 9 rows are not a multiple"),
    (lambda: tt.AdamMini([{"params": parameters([(8, 4)]), "head_dim": 0}]),
     "head_dim of param group 0 is 0; it must be the number of rows"),
    (lambda: tt.AdamMini([{"params": parameters([(8, 4)]), "head_dim": 2.0}]),
     "head_dim of param group 0 is 2.0"),
    (lambda: tt.AdamMini(parameters([(3, 4)]), metrics=True), "AdamMini has no metrics"),
    (lambda: tt.AdamMini(parameters([(2, 3, 4)])), "updates matrices"),
))
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        train(make(), [0])


def test_groups_that_are_added_later():
    """They have heads as the first ones, also after pickling, and are left out as a whole if one of
    their parameters is refused."""
    pairs = dict(named())
    optimizer = tt.AdamMini([(NAMES[1], pairs[NAMES[1]])], head_dim=8, strategy="fp32")
    for one in (optimizer, pickle.loads(pickle.dumps(optimizer))):
        one.add_param_group({"params": [(name, pairs[name]) for name in (NAMES[0], NAMES[2])]})
        assert [group["head_dim"] for group in one.param_groups] == [8, None, 8]
        wrong = torch.nn.Parameter(torch.zeros(9, 4))
        with pytest.raises(ValueError, match="whose 9 rows are not a multiple"):
            one.add_param_group({"params": [(NAMES[3], pairs[NAMES[3]]), ("b.wk", wrong)]})
        assert len(one.param_groups) == 3


def test_operands_need_rows_of_their_own():
    model = torch.nn.Sequential(torch.nn.Linear(96, 128, bias=False)).bfloat16()
    tt.compress_activations(model, products="fp8")
    optimizer = tt.AdamMini([{"params": model.parameters(), "head_dim": 32}], strategy="flash-f16",
                            min_8bit_size=0)
    with pytest.raises(ValueError, match="0.weight has head_dim=32, which joins its rows in a step; give"):
        tt.write_operands(model, optimizer)


def test_other_optimizers_do_not_read_head_dim():
    """Param groups may have options of the user's own."""
    for make in (tt.AdamW, tt.CAME):
        (weight,) = parameters([(9, 64)])
        optimizer = make([{"params": [weight], "head_dim": "none"}], lr=0.01, min_8bit_size=0,
                         strategy="coat")
        train(optimizer, [0])
        assert torch.isfinite(weight).all()


def test_heads_cannot_change_under_states():
    optimizer = tt.AdamMini(named(), head_dim=8, strategy="fp32")
    train(optimizer, [0])
    optimizer.param_groups[1]["head_dim"] = 16
    before = [p.detach().clone() for p in params_of(optimizer)]
    with pytest.raises(ValueError, match="param group 1 now has head_dim=16, but its states are stored "
                                         "as by head_dim=8; set that again"):
        train(optimizer, [1])
    assert all(map(torch.equal, before, params_of(optimizer)))
