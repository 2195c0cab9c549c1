#===- test_torch_weights.py - Whole weights and their averages -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests `weights`, which joins what parameters show with what only states have, and
# `WeightAverage`.
#
#===----------------------------------------------------------------------===#

import copy

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt


def make(strategy, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.Linear(48, 64)).bfloat16()
    return model, tt.AdamW(model.parameters(), lr=1e-3, strategy=strategy, **options)


def train(model, optimizer, seeds):
    for seed in seeds:
        torch.manual_seed(seed)
        for p in model.parameters():
            p.grad = torch.randn(p.shape).bfloat16()
        optimizer.step()


def test_the_weights_of_remainder_are_those_of_f32():
    """A bf16 weight and its remainder are the f32 weight of mixed precision, bit for bit."""
    model, optimizer = make("remainder")
    wide = copy.deepcopy(model).float()
    master = tt.AdamW(wide.parameters(), lr=1e-3, strategy="fp32")
    for seed in range(10):
        train(model, optimizer, [seed])
        for p, q in zip(wide.parameters(), model.parameters()):
            p.grad = q.grad.float()
        master.step()
    found = dict(tt.weights(optimizer, model))
    assert list(found) == [name for name, _ in model.named_parameters()]
    for name, p in wide.named_parameters():
        assert torch.equal(found[name], p), name
    assert any(not torch.equal(found[name], p.float()) for name, p in model.named_parameters())


@pytest.mark.parametrize("strategy", ["flash-f16", "collage-plus", "dither-softsign-root",
                                      "fp8-collage-plus", "bf16-kahan", "adam8bit", "bf16"])
@pytest.mark.parametrize("layout", ["rows", "transposed"])
def test_whole_weights_round_to_what_parameters_show(strategy, layout):
    torch.manual_seed(0)
    weight = torch.randn(64, 96).bfloat16()
    param = torch.nn.Parameter(weight if layout == "rows" else weight.t().contiguous().t())
    optimizer = tt.AdamW([param], lr=1e-2, strategy=strategy, min_8bit_size=0)
    for seed in range(4):
        torch.manual_seed(seed)
        param.grad = torch.randn(64, 96).bfloat16()
        optimizer.step()
    (name, whole), = tt.weights(optimizer)
    assert name == "0" and whole.dtype == torch.float32 and whole.shape == (64, 96)
    assert ((whole - param.float()).abs() <= param.float().abs() * 2**-8 + 1e-30).all()
    has_more = strategy not in ("adam8bit", "bf16", "bf16-kahan")
    if has_more:
        assert not torch.equal(whole, param.float())


def test_parameters_that_the_optimizer_lacks():
    model, _ = make("remainder")
    optimizer = tt.AdamW(model[0].parameters(), strategy="remainder")
    found = dict(tt.weights(optimizer, model))
    for name, p in model.named_parameters():
        assert torch.equal(found[name], p.float()) and found[name].data_ptr() != p.data_ptr()
    with pytest.raises(TypeError, match="SGD keeps no part of weights in its state"):
        list(tt.weights(torch.optim.SGD(model.parameters(), lr=1)))


def test_written_weights_are_what_is_shown():
    model, optimizer = make("fp8-collage-plus", min_8bit_size=0)
    train(model, optimizer, [0])
    with torch.no_grad():
        model[0].weight.fill_(3)
    assert (dict(tt.weights(optimizer, model))["0.weight"] == 3).all()


def test_averages_of_whole_weights_move_where_those_of_bf16_do_not():
    """torch's AveragedModel averages rounded weights, in bf16."""
    model, optimizer = make("remainder")
    average = tt.WeightAverage(optimizer, model, decay=0.99)
    shown = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    wanted = {name: weight.double() for name, weight in tt.weights(optimizer, model)}
    for seed in range(50):
        train(model, optimizer, [seed])
        average.update()
        shown.update_parameters(model)
        for name, weight in tt.weights(optimizer, model):
            wanted[name].lerp_(weight.double(), 0.01)
    off = ours = 0
    for name, p in shown.module.named_parameters():
        moved = (wanted[name] - dict(make("remainder")[0].named_parameters())[name]).norm()
        ours = max(ours, float((average.averages[name] - wanted[name]).norm() / moved))
        off = max(off, float((p.double() - wanted[name]).norm() / moved))
    assert ours < 1e-4 and off > 0.05, (ours, off)
    assert average.updates == 50


def test_averages_are_saved_and_copied():
    model, optimizer = make("remainder")
    average = tt.WeightAverage(optimizer, model, decay=0.5)
    train(model, optimizer, [0, 1])
    average.update()
    other = tt.WeightAverage(optimizer, model)
    other.load_state_dict(copy.deepcopy(average.state_dict()))
    assert other.decay == 0.5 and other.updates == 1
    twin = copy.deepcopy(model)
    other.copy_to(twin)
    for name, p in twin.named_parameters():
        assert torch.equal(p, average.averages[name].bfloat16())
    with pytest.raises(ValueError, match="averages of other parameters; '0' is only on one side"):
        tt.WeightAverage(optimizer).load_state_dict(average.state_dict())
    with pytest.raises(ValueError, match="decay is 2; it must be from 0 to 1"):
        tt.WeightAverage(optimizer, decay=2)


def test_an_export_has_the_whole_weights():
    """An export to float32 has every bit, as a master weight has."""
    model, optimizer = make("remainder")
    train(model, optimizer, range(3))
    exported = {**model.state_dict(), **dict(tt.weights(optimizer, model))}
    wide = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.Linear(48, 64))
    wide.load_state_dict(exported)
    for p, (_, weight) in zip(wide.parameters(), tt.weights(optimizer, model)):
        assert torch.equal(p, weight)


#===----------------------------------------------------------------------===#
# Vectors
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", ["adam8bit", "coat", "flash-f16"])
def test_flat_parameters_are_stored_as_matrices(strategy):
    """A flat parameter of whole rows has the states and the weights of the matrix."""
    torch.manual_seed(0)
    weight = torch.randn(128, 1024).bfloat16()
    flat, matrix = (torch.nn.Parameter(w.clone()) for w in (weight.flatten(), weight))
    optimizers = [tt.AdamW([p], lr=1e-2, strategy=strategy) for p in (flat, matrix)]
    for seed in range(3):
        torch.manual_seed(seed)
        matrix.grad = torch.randn(128, 1024).bfloat16()
        flat.grad = matrix.grad.flatten()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(flat, matrix.flatten())
    one, other = (sum(t.nbytes for t in optimizer.state[p].values() if torch.is_tensor(t))
                  for optimizer, p in zip(optimizers, (flat, matrix)))
    assert one == other < 7 * flat.numel()


@pytest.mark.parametrize("size, option, coded", [
    (65535, {}, False), (65536, {}, True), (4096, {"min_8bit_vector_size": 4096}, True),
    (1 << 20, {"min_8bit_vector_size": None}, False), (64, {"min_8bit_size": 0}, True)])
def test_which_vectors_have_codes(size, option, coded):
    param = torch.nn.Parameter(torch.ones(size, dtype=torch.bfloat16))
    optimizer = tt.AdamW([param], strategy="adam8bit", **option)
    param.grad = torch.ones_like(param)
    optimizer.step()
    assert (optimizer.state[param]["exp_avg"].dtype != torch.float32) == coded


def test_early_states_of_vectors_stay_as_they_are():
    param = torch.nn.Parameter(torch.ones(1 << 17, dtype=torch.bfloat16))
    early = tt.AdamW([param], strategy="adam8bit", min_8bit_vector_size=None)
    param.grad = torch.ones_like(param)
    early.step()
    state = copy.deepcopy(early.state_dict())
    del state["param_groups"][0]["min_8bit_vector_size"]
    for group in state["param_groups"]:
        group.pop("tandem", None)
    other = tt.AdamW([torch.nn.Parameter(param.detach().clone())], strategy="adam8bit")
    other.load_state_dict(state)
    assert other.param_groups[0]["min_8bit_vector_size"] is None
    assert next(iter(other.state.values()))["exp_avg"].dtype == torch.float32


def test_the_size_of_a_vector_is_checked():
    param = torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="min_8bit_vector_size of param group 0 is -1"):
        tt.AdamW([param], strategy="adam8bit", min_8bit_vector_size=-1)


#===----------------------------------------------------------------------===#
# Models that have changed
#===----------------------------------------------------------------------===#


def test_weights_of_another_type_are_refused():
    model, optimizer = make("remainder")
    train(model, optimizer, [0])
    model.float()
    with pytest.raises(ValueError, match="has 'param.remainder', not the weight by itself"):
        list(tt.weights(optimizer, model))


def test_tied_weights_have_all_of_their_names():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8, False), torch.nn.Linear(8, 8, False))
    model.bfloat16()[1].weight = model[0].weight
    optimizer = tt.AdamW(model.parameters(), strategy="remainder", lr=1e-3)
    model[0].weight.grad = torch.ones(8, 8).bfloat16()
    optimizer.step()
    found = dict(tt.weights(optimizer, model))
    assert list(found) == ["0.weight", "1.weight"] and found["0.weight"] is found["1.weight"]
