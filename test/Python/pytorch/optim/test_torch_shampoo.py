#===- test_torch_shampoo.py - SOAP, and external steps that keep tensors -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests SOAP and Shampoo: their matrices, states in checkpoints, conversions and other
# libraries, and the tensors that external steps of any graph keep. test_torch_numerics.py compares
# SOAP's steps with those of pytorch_optimizer, test_torch_fsdp2.py those of ranks with those of one
# process.
#
#===----------------------------------------------------------------------===#

import copy
import pickle
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.append(str(Path(__file__).resolve().parents[4] / "benchmarks"))
import peer_optimizers as peers  # noqa: E402
import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from support.torch_bits import (VISIBLE, assert_same_bits, dtype_of, parameters,  # noqa: E402
                                params_of, set_gradients, train)
from tandem.torch.optim import _shampoo  # noqa: E402

STRATEGIES = sorted(name for name in set(VISIBLE) & set(tandem.strategies())
                    if not name.endswith("ratio4"))
SHAPES = [(24, 17), (11,), (5, 3, 4)]


def soap(strategy="fp32", shapes=SHAPES, **options):
    params = parameters(shapes, dtype_of(strategy))
    return tt.SOAP(params, strategy=strategy, **{"lr": 1e-2, "precondition_frequency": 2,
                                                 "min_8bit_size": 0} | options)


def descend(optimizer):
    """Takes 40 steps of a matrix along an ill-conditioned quadratic loss, whose axes are no
    coordinates, and of a vector; returns the matrix's first loss and its last one."""
    generator = torch.Generator().manual_seed(0)
    turn, _ = torch.linalg.qr(torch.randn(24, 24, generator=generator))
    bend = turn @ torch.diag(torch.logspace(0, -2, 24)) @ turn.T
    matrix, vector = params_of(optimizer)

    def loss():
        w = matrix.detach().float()
        return (w * (bend @ w)).sum().item()

    first = loss()
    for _ in range(40):
        matrix.grad = (bend @ matrix.detach().float()).to(matrix.dtype)
        vector.grad = vector.detach().clone()
        optimizer.step()
    return first, loss()


#===----------------------------------------------------------------------===#
# Steps
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_trains_under_every_strategy(strategy):
    """The loss falls as under fp32, where it ends at 3.5. Its first gradients are diagonal in the
    bases, so that most second moments are tiny."""
    first, last = descend(soap(strategy, [(24, 16), (40,)], lr=0.1))
    assert first > 80 and last < 1.2 * 3.53


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16", "dither-mulaw"))
def test_the_first_step_only_finds_the_bases(strategy):
    optimizer = soap(strategy)
    before = [p.detach().clone() for p in params_of(optimizer)]
    train(optimizer, [0])
    for p, q in zip(params_of(optimizer), before):
        assert torch.equal(p, q)
        state = optimizer.state[p]
        assert state["step"] == 1 and not state["exp_avg"].any()
        for dim, size in enumerate(p.shape if p.dim() > 1 else ()):
            basis, statistics = state[f"Q.{dim}"], state[f"GG.{dim}"]
            torch.testing.assert_close(basis.T @ basis, torch.eye(size), atol=1e-5, rtol=0)
            turned = basis.T @ statistics @ basis
            assert (turned - turned.diag().diag()).abs().max() < 1e-5 * turned.abs().max()
            assert (turned.diag().diff() < 1e-6 * turned.abs().max()).all()
    train(optimizer, [1])
    assert not any(torch.equal(p, q) for p, q in zip(params_of(optimizer), before))


def test_corrected_bases_stay_in_place():
    """A correction turns each vector by little, whatever its eigenvalue's rank is, and brings the
    basis nearer to the eigenvectors."""
    generator = torch.Generator().manual_seed(0)
    turn, _ = torch.linalg.qr(torch.randn(12, 12, generator=generator))
    values = torch.rand(12, generator=generator) + 0.1
    statistics = turn @ values.diag() @ turn.T
    basis, _ = torch.linalg.qr(turn + 0.02 * torch.randn(12, 12, generator=generator))
    found = basis
    for _ in range(60):
        found = _shampoo.corrected_basis(statistics, found)

    def off(basis):
        turned = basis.T @ statistics @ basis
        return (turned - turned.diag().diag()).norm()

    assert off(_shampoo.corrected_basis(statistics, basis)) < off(basis)
    assert off(found) < 1e-2 * off(basis)
    assert ((found.T @ turn).abs().argmax(dim=1) == torch.arange(12)).all()


def test_long_dimensions_have_no_basis():
    optimizer = soap(max_precond_dim=17)
    train(optimizer, range(4))
    kept = [sorted(set(optimizer.state[p]) - {"step", "exp_avg", "exp_avg_sq"})
            for p in params_of(optimizer)]
    assert kept == [["GG.1", "Q.1"], [], [f"{k}.{d}" for k in ("GG", "Q") for d in range(3)]]
    assert optimizer.live_bytes()["states"] == 4 * (
        2 * (24 * 17 + 11 + 60) + 2 * (17 * 17 + 25 + 9 + 16))


def test_a_step_that_raises_changes_no_count():
    """A param group that is changed to something invalid is refused before anything runs."""
    optimizer = soap()
    train(optimizer, range(2))
    before = copy.deepcopy(optimizer.state_dict()["state"])
    optimizer.param_groups[0]["precondition_frequency"] = 0
    with pytest.raises(ValueError, match="precondition_frequency of param group 0 is 0"):
        train(optimizer, [2])
    for key, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(v, before[key][n]) if isinstance(v, torch.Tensor)
                   else v == before[key][n] for n, v in state.items())


#===----------------------------------------------------------------------===#
# States
#===----------------------------------------------------------------------===#


def continued(optimizer, other, seeds=range(5, 9)):
    """Takes steps of both optimizers, and compares all bits."""
    for each in (optimizer, other):
        train(each, seeds)
    assert_same_bits(optimizer, other)


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16", "dither-softsign-root"))
def test_goes_on_after_loading(strategy):
    dtype = torch.bfloat16 if strategy == "dither-softsign-root" else dtype_of(strategy)

    def make():
        return tt.SOAP(parameters(SHAPES, dtype), lr=1e-2, precondition_frequency=2,
                       strategy=strategy, min_8bit_size=0)

    optimizer, other = make(), make()
    train(optimizer, range(5))
    for p, q in zip(params_of(optimizer), params_of(other)):
        q.data.copy_(p)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    continued(optimizer, other)


@pytest.mark.parametrize("copied", (copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))))
def test_copies_keep_bases(copied):
    optimizer = soap("flash-f16")
    train(optimizer, range(3))
    continued(optimizer, copied(optimizer))


def test_conversions_keep_bases():
    """A change of the strategy converts moments and weights, and nothing of the bases."""
    optimizer = soap("fp32")
    train(optimizer, range(3))
    kept = {(i, n): t.clone() for i, p in enumerate(params_of(optimizer))
            for n, t in optimizer.state[p].items() if n.startswith(("GG", "Q"))}
    assert len(kept) == 10
    tt.change_strategy(optimizer, "coat-fp32")
    for (i, name), value in kept.items():
        assert torch.equal(optimizer.state[params_of(optimizer)[i]][name], value)
    train(optimizer, [3])


@pytest.mark.parametrize("change, message", (
    (lambda state: state.pop("Q.1"), "lacks the tensor 'Q.1' of an external step"),
    (lambda state: state.update({"GG.0": torch.zeros(3, 3)}), r"has 'GG.0' of shape \(3, 3\)"),
    (lambda state: state.update({"GG.0": state["GG.0"].double()}), "type torch.float64"),
))
def test_states_without_bases_are_refused(change, message):
    optimizer, other = soap(), soap()
    train(optimizer, range(2))
    given = copy.deepcopy(optimizer.state_dict())
    change(given["state"][0])
    with pytest.raises(ValueError, match=message):
        other.load_state_dict(given)
    assert not other.state


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16"))
def test_loads_states_of_pytorch_optimizer(strategy):
    """A run goes on with its next steps, including a correction of the bases."""
    theirs = pytest.importorskip("pytorch_optimizer").SOAP(
        parameters(SHAPES, torch.float32), 1e-2, precondition_frequency=2)
    train(theirs, range(4))
    ours = tt.SOAP([torch.nn.Parameter(p.detach().clone()) for p in params_of(theirs)], lr=1e-2,
                   precondition_frequency=2, strategy=strategy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.load_state_dict(theirs.state_dict())
    for seed in range(4, 8):
        train(theirs, [seed])
        train(ours, [seed])
    for p, q in zip(params_of(ours), params_of(theirs)):
        assert ours.state[p]["step"] == 8
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5 if strategy == "fp32" else 2e-3)


def test_loads_states_of_the_authors():
    """Their counts do not include the first step."""
    optimizer = soap()
    train(optimizer, range(5))
    given, states = optimizer.state_dict(), {}
    del given["tandem"]
    for key, (p, state) in enumerate(zip(params_of(optimizer), given["state"].values())):
        states[key] = {
            "step": state["step"] - 1, "exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"],
            "precondition_frequency": 2, "shampoo_beta": 0.95,
            **{kind: [state.get(f"{kind}.{dim}", []) for dim in range(p.dim())]
               for kind in ("GG", "Q")}}
    groups = [{name: value for name, value in group.items() if name in ("lr", "betas", "params")}
              for group in given["param_groups"]]
    other = soap()
    for p, q in zip(params_of(optimizer), params_of(other)):
        q.data.copy_(p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.load_state_dict({"state": states, "param_groups": groups})
    for p, q in zip(params_of(optimizer), params_of(other)):
        for name, value in optimizer.state[p].items():
            own = other.state[q][name]
            assert own == value if name == "step" else torch.allclose(own, value, atol=1e-6), name


#===----------------------------------------------------------------------===#
# Shampoo
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("options", (
    {}, {"start_preconditioning_step": 1}, {"precondition_frequency": 1, "max_precond_dim": 20}))
def test_shampoo_has_the_steps_of_the_reference(options):
    """Statistics of few gradients are singular, so that eps decides; it is large here."""
    ours, theirs = (parameters(SHAPES, torch.float32) for _ in range(2))
    optimizer = tt.Shampoo(ours, 1e-2, (0.8, 0.95), eps=1e-6, weight_decay=0.1, strategy="fp32",
                           precond_eps=1e-2, **{"precondition_frequency": 3} | options)
    every = options.get("precondition_frequency", 3)
    reference = peers.ShampooReference(
        theirs, 1e-2, (0.8, 0.95), 1e-6, 0.1, every,
        options.get("start_preconditioning_step", every), 1e-2,
        options.get("max_precond_dim", 10000))
    for seed in range(10):
        train(optimizer, [seed])
        train(reference, [seed])
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_shampoo_trains_under_every_strategy(strategy):
    first, last = descend(tt.Shampoo(
        parameters([(24, 16), (40,)], dtype_of(strategy)), lr=0.1, strategy=strategy,
        precondition_frequency=2, precond_eps=1e-6, min_8bit_size=0))
    assert first > 80 and last < 8


def test_shampoo_goes_on_after_loading():
    def make():
        return tt.Shampoo(parameters(SHAPES), lr=1e-2, precondition_frequency=2,
                          strategy="dither-mulaw", min_8bit_size=0)

    optimizer, other = make(), make()
    train(optimizer, range(5))
    for p, q in zip(params_of(optimizer), params_of(other)):
        q.data.copy_(p)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    continued(optimizer, other)
    continued(optimizer, pickle.loads(pickle.dumps(optimizer)))
    assert {"GG.0", "inverse_root.1"} <= set(optimizer.state[params_of(optimizer)[0]])


@pytest.mark.parametrize("options, message", (
    ({"start_preconditioning_step": 0}, "start_preconditioning_step of param group 0 is 0"),
    ({"precond_eps": 0}, "precond_eps of param group 0 is 0; it must be above 0"),
    ({"shampoo_beta": 1.0}, "shampoo_beta of param group 0 is 1.0; it must be from 0 to below 1"),
    ({"precondition_frequency": 0}, "precondition_frequency of param group 0 is 0"),
    ({"max_precond_dim": 2.5}, "max_precond_dim is 2.5"),
    ({"capturable": True}, "cannot be captured"),
))
def test_shampoo_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        tt.Shampoo(parameters([(3, 4)]), **options)


#===----------------------------------------------------------------------===#
# External steps of any graph
#===----------------------------------------------------------------------===#


def averaged(given, group, states):
    """Computes the external step of the graph "muon", and keeps an average of directions."""
    assert states["step"] == int(states["count"]) + 1
    states["count"] = states["count"] + 1
    states["mean"].lerp_(given[0].float(), 0.5)
    return states["mean"]


def shapes_of_averages(shape):
    return {"mean": shape, "count": ()}


def test_external_steps_of_a_users_own_keep_tensors():
    """A function may write its tensors in place, or put others in the dict."""
    params = parameters([(6, 4), (3, 5)])
    optimizer = tt.Optimizer(params, "muon", "flash-f16", external={"orthogonalize": averaged},
                             external_states=shapes_of_averages)
    train(optimizer, range(3))
    other = pickle.loads(pickle.dumps(optimizer))
    continued(optimizer, other)
    for p in params:
        state = optimizer.state[p]
        assert state["count"] == state["step"] == 7 and state["mean"].shape == p.shape


def forgetful(given, group, states):
    del states["mean"]
    return given[0]


def reshaped(given, group, states):
    states["mean"] = states["mean"][:1]
    return given[0]


@pytest.mark.parametrize("options, error, message", (
    ({"external_states": shapes_of_averages}, TypeError, "but there are none; pass external="),
    ({"external": {"orthogonalize": averaged}, "external_states": shapes_of_averages,
      "capturable": True}, ValueError, "cannot be captured; leave capturable out"),
    ({"external": {"orthogonalize": averaged},
      "external_states": lambda shape: {"momentum_buffer": shape}}, ValueError,
     "external_states has 'momentum_buffer', which muon keeps itself"),
    ({"external": {"orthogonalize": forgetful}, "external_states": shapes_of_averages},
     ValueError, "'orthogonalize' has left 'mean' of parameter 0 as NoneType"),
    ({"external": {"orthogonalize": reshaped}, "external_states": shapes_of_averages},
     ValueError, r"has left 'mean' of parameter 0 as \(1, 4\); it keeps a tensor of the shape "
     r"\(6, 4\)"),
))
def test_refusals_of_kept_tensors(options, error, message):
    with pytest.raises(error, match=message):
        train(tt.Optimizer(parameters([(6, 4)]), "muon", "flash-f16", **options), [0])


@pytest.mark.parametrize("options, error, message", (
    ({"shampoo_beta": 1.5}, ValueError, "shampoo_beta of param group 0 is 1.5; it must be from 0"),
    ({"precondition_frequency": 2.5}, ValueError, "precondition_frequency of param group 0 is 2.5"),
    ({"max_precond_dim": -1}, ValueError, "max_precond_dim is -1; it must be a number of"),
    ({"lr": -1.0}, ValueError, "hyper 'lr' of param group 0 is -1"),
    ({"betas": (0.9, 1.0)}, ValueError, "hyper 'beta2' of param group 0 is 1"),
    ({"capturable": True}, ValueError, "SOAP computes hyperparameters from the count of steps"),
    ({"strategy": "auto", "memory": "1GiB"}, ValueError, "auto"),
    ({"normalize_grads": True}, TypeError, "no hyperparameter 'normalize_grads'"),
))
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        set_gradients(parameters([(3, 4)]), 0)
        tt.SOAP(parameters([(3, 4)]), **options)


@pytest.mark.parametrize("cls", (tt.SOAP, tt.Shampoo))
def test_flattened_parameters_are_refused(cls):
    """Vectors of FSDP1 would silently get AdamW's step."""
    (param,) = parameters([(12,)])
    param._fsdp_flattened = True
    with pytest.raises(ValueError, match="sharded by FSDP1, which flattens matrices, so that they "
                                         "have no statistics; shard the model with fully_shard"):
        cls([param])


def test_options_of_others_are_refused():
    optimizer = soap(shapes=[(3, 4)])
    train(optimizer, range(2))
    for name in ("merge_dims", "precondition_1d", "normalize_grads", "normalize_gradient"):
        given = copy.deepcopy(optimizer.state_dict())
        given["param_groups"][0][name] = True
        with pytest.raises(ValueError, match=f"{name}=True, which the kernel of SOAP does not compute"):
            optimizer.load_state_dict(given)
