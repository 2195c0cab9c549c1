#===- test_torch_loading.py - States that meet other optimizers -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests which parameter of an optimizer gets a state: by name, by position, or none, and
# that a state joins only the weight that it completes.
#
#===----------------------------------------------------------------------===#

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.torch_bits import assert_same_bits, bits
from tandem.torch.optim.advice._auto import TAKES_NAMES

#: Strategies whose states complete a visible weight, and one that keeps it in codes.
COMPLETING = ("remainder", "flash-f16", "collage-plus", "dither-softsign-root")

needs_names = pytest.mark.skipif(not TAKES_NAMES, reason="torch.optim has no names before 2.6")


def make_model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64, dtype=torch.bfloat16) for _ in range(3)]
    return torch.nn.Sequential(*layers)


def train(model, optimizer, steps):
    for step in steps:
        torch.manual_seed(step)
        x = torch.randn(8, 64).bfloat16()
        optimizer.zero_grad()
        model(x).float().square().mean().backward()
        optimizer.step()


def trained(strategy, steps=3, **options):
    model = make_model()
    optimizer = tt.AdamW(model.named_parameters(), lr=1e-3, strategy=strategy, **options)
    train(model, optimizer, range(steps))
    return model, optimizer


def weights_of(model):
    return {name: bits(p) for name, p in model.named_parameters()}


def same(one, other):
    return all((weights_of(one)[name] == weights_of(other)[name]).all() for name in weights_of(one))


#===----------------------------------------------------------------------===#
# By name
#===----------------------------------------------------------------------===#


@needs_names
@pytest.mark.parametrize("strategy", COMPLETING)
def test_states_go_by_name_in_another_order(strategy):
    model, optimizer = trained(strategy)
    twin = copy.deepcopy(model)
    other = tt.AdamW(list(twin.named_parameters())[::-1], lr=1e-3, strategy=strategy)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for p, q in zip(model.parameters(), twin.parameters()):
        for name, plane in optimizer.state[p].items():
            assert name == "step" or (bits(plane) == bits(other.state[q][name])).all()
    if "seed" in optimizer.param_groups[0]:
        return  # random bits depend on the index of a parameter
    train(model, optimizer, range(3, 6))
    train(twin, other, range(3, 6))
    assert same(model, twin)


@needs_names
@pytest.mark.parametrize("prefix", ["module.", "_orig_mod."])
def test_names_of_wrappers_are_those_of_the_model(prefix):
    model, optimizer = trained("remainder")
    twin = copy.deepcopy(model)
    named = [(prefix + name, p) for name, p in list(twin.named_parameters())[::-1]]
    other = tt.AdamW(named, lr=1e-3, strategy="remainder")
    other.load_state_dict(optimizer.state_dict())
    train(model, optimizer, [3])
    train(twin, other, [3])
    assert same(model, twin)
    assert other.param_groups[0]["param_names"][0] == prefix + "2.bias"


@needs_names
def test_parameters_may_move_between_groups():
    model, optimizer = trained("remainder")
    twin = copy.deepcopy(model)
    named = list(twin.named_parameters())
    other = tt.AdamW([{"params": named[3:]}, {"params": named[:3]}], strategy="remainder")
    other.load_state_dict(optimizer.state_dict())
    assert [group["lr"] for group in other.param_groups] == [1e-3, 1e-3]
    train(model, optimizer, [3])
    train(twin, other, [3])
    assert same(model, twin)


@needs_names
def test_one_group_does_not_get_the_options_of_two():
    model = make_model()
    named = list(model.named_parameters())
    optimizer = tt.AdamW([{"params": named[:2], "lr": 0.5}, {"params": named[2:]}],
                         strategy="remainder")
    train(model, optimizer, [0])
    other = tt.AdamW(named, strategy="remainder")
    with pytest.raises(ValueError, match="saved in groups with lr=0.5 and lr=0.001; group them"):
        other.load_state_dict(optimizer.state_dict())
    other.load_state_dict(optimizer.state_dict(), strict=False)
    assert other.param_groups[0]["lr"] == 0.5


@needs_names
def test_missing_and_unexpected_names_are_listed():
    _, optimizer = trained("remainder")
    torch.manual_seed(0)
    larger = torch.nn.Sequential(*make_model(), torch.nn.Linear(64, 64, dtype=torch.bfloat16))
    other = tt.AdamW(larger.named_parameters(), strategy="remainder")
    with pytest.raises(ValueError, match=r"lacks 2 parameters \('3.weight', '3.bias'\)"):
        other.load_state_dict(optimizer.state_dict())
    assert not other.state
    keys = other.load_state_dict(optimizer.state_dict(), strict=False)
    assert keys == (["3.weight", "3.bias"], []) and keys.missing_keys == ["3.weight", "3.bias"]
    assert len(other.state) == 6
    small = tt.AdamW(list(make_model().named_parameters())[:4], strategy="remainder")
    with pytest.raises(ValueError, match=r"has 2 parameters \('2.weight', '2.bias'\), other"):
        small.load_state_dict(optimizer.state_dict())
    assert small.load_state_dict(optimizer.state_dict(), strict=False) == (
        [], ["2.weight", "2.bias"])


@needs_names
def test_a_new_parameter_starts_anew_and_says_so():
    model, optimizer = trained("remainder")
    larger = torch.nn.Sequential(*copy.deepcopy(model),
                                 torch.nn.Linear(64, 64, dtype=torch.bfloat16))
    other = tt.AdamW(larger.named_parameters(), strategy="remainder")
    other.load_state_dict(optimizer.state_dict(), strict=False)
    with pytest.warns(UserWarning, match=r"parameter 6 \('3.weight'\) starts anew, as after no "
                                         "step, while others have taken 3"):
        train(larger, other, [3])
    assert [other.state[p]["step"] for p in larger.parameters()] == [4] * 6 + [1] * 2


#===----------------------------------------------------------------------===#
# By position
#===----------------------------------------------------------------------===#


def by_position(model, strategy, order=slice(None)):
    return tt.AdamW(list(model.parameters())[order], lr=1e-3, strategy=strategy)


@pytest.mark.parametrize("strategy", COMPLETING)
def test_another_order_without_names_is_refused(strategy):
    model = make_model()
    optimizer = by_position(model, strategy)
    train(model, optimizer, range(3))
    layers = slice(4, None, -2)  # the weights, which have the same shape
    some = tt.AdamW([p for p in model.parameters() if p.dim() == 2], strategy=strategy)
    some.load_state_dict({**(state := optimizer.state_dict()), **only(state, [0, 2, 4])})
    saved = some.state_dict()
    other = by_position(copy.deepcopy(model), strategy, layers)
    with pytest.raises(ValueError, match="that parameter 0 would get completes the weight of "
                                         "parameter 2"):
        other.load_state_dict(saved)
    assert not other.state


def only(state, indices):
    """Returns the parts of a state dict for some parameters of its only group."""
    sums = state["tandem"]["checksums"]
    tandem = state["tandem"] | {"checksums": {str(n): sums[str(i)] for n, i in enumerate(indices)
                                              if str(i) in sums}}
    return {"param_groups": [{**state["param_groups"][0], "params": list(range(len(indices)))}],
            "state": {n: state["state"][i] for n, i in enumerate(indices)}, "tandem": tandem}


def test_the_model_may_be_loaded_after_its_optimizer():
    model, optimizer = trained("remainder")
    torch.manual_seed(1)
    twin = torch.nn.Sequential(*(torch.nn.Linear(64, 64, dtype=torch.bfloat16) for _ in range(3)))
    other = by_position(twin, "remainder")
    other.load_state_dict(optimizer.state_dict())
    twin.load_state_dict(model.state_dict())
    train(model, optimizer, [3])
    train(twin, other, [3])
    assert same(model, twin)


def test_a_state_does_not_join_another_weight():
    model, optimizer = trained("remainder")
    twin = make_model()
    other = by_position(twin, "remainder")
    other.load_state_dict(optimizer.state_dict())
    before = weights_of(twin)
    with pytest.raises(RuntimeError, match="the weight of parameter 0 .*is not the one that its "
                                           "loaded state completes; load the model's"):
        train(twin, other, [3])
    assert all((weights_of(twin)[name] == before[name]).all() for name in before)
    other.load_state_dict(optimizer.state_dict(), strict=False)
    train(twin, other, [3])


def test_states_without_parts_of_weights_go_with_any():
    """Moments alone mean something beside another weight, as in torch.optim."""
    model, optimizer = trained("adam8bit")
    assert "checksums" not in optimizer.state_dict()["tandem"]
    twin = make_model()
    other = by_position(twin, "adam8bit")
    other.load_state_dict(optimizer.state_dict())
    train(twin, other, [3])


def test_counts_of_parameters_are_named():
    _, optimizer = trained("remainder")
    other = by_position(make_model(), "remainder", slice(2))
    with pytest.raises(ValueError, match="param groups of 6 parameters, and this optimizer of 2; "
                                         "create both from named parameters"):
        other.load_state_dict(optimizer.state_dict())
    keys = other.load_state_dict(optimizer.state_dict(), strict=False)
    assert keys.missing_keys == [] and keys.unexpected_keys == ["2", "3", "4", "5"]


def test_planes_that_do_not_fit_are_left_out():
    model = make_model()
    optimizer = by_position(model, "remainder")
    train(model, optimizer, [0])
    other = by_position(make_model(), "remainder", slice(None, None, -1))
    keys = other.load_state_dict(optimizer.state_dict(), strict=False)
    assert keys.missing_keys == [f"parameter {i}" for i in range(6)] and not other.state


#===----------------------------------------------------------------------===#
# Other strategies
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("theirs, ours", [
    ("remainder", "flash-f16"), ("flash-f16", "remainder"), ("collage-plus", "adam8bit"),
    ("dither-softsign-root", "remainder"), ("remainder", "dither-softsign-root")])
def test_a_state_of_another_strategy_is_converted(theirs, ours):
    """The result is that of convert_state, weights included."""
    model, optimizer = trained(theirs, min_8bit_size=0)
    twin = copy.deepcopy(model)
    other = tt.AdamW(twin.parameters(), strategy=ours, min_8bit_size=0)
    with pytest.raises(ValueError, match="leave convert=False out"):
        other.load_state_dict(optimizer.state_dict(), convert=False)
    with pytest.warns(UserWarning, match=f"is under strategy '{theirs}'; it was converted to "
                                         f"'{ours}', exactly where"):
        other.load_state_dict(optimizer.state_dict())
    wanted, weights = tt.convert_state(optimizer.state_dict(), model.parameters(), ours)
    third = tt.AdamW([torch.nn.Parameter(w) for w in weights], strategy=ours, min_8bit_size=0)
    third.load_state_dict(wanted)
    assert_same_bits(other, third)


def test_a_conversion_needs_the_weights():
    _, optimizer = trained("remainder")
    other = by_position(make_model(), "flash-f16")
    with pytest.raises(ValueError, match="load the model's weights before the optimizer's"):
        other.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize("strategy", ["fp32", "remainder", "flash-f16", "adam8bit", "coat"])
def test_a_state_of_torch_is_converted_in_mid_run(strategy):
    """After loading, steps follow those of torch.optim in float64."""
    torch.manual_seed(0)
    dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
    theirs = torch.nn.Linear(64, 64, dtype=torch.float32)
    with torch.no_grad():
        theirs.weight.copy_(theirs.weight.bfloat16())
        theirs.bias.copy_(theirs.bias.bfloat16())
    reference = torch.optim.AdamW(theirs.parameters(), lr=1e-3)
    for step in range(5):
        torch.manual_seed(step)
        for p in theirs.parameters():
            p.grad = torch.randn(p.shape).bfloat16().float()
        reference.step()
    ours = copy.deepcopy(theirs).to(dtype)
    optimizer = tt.AdamW(ours.parameters(), lr=1e-3, decay="before", strategy=strategy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
    said = [str(w.message) for w in caught if "torch.optim" in str(w.message)]
    assert len(said) == (strategy != "fp32"), said
    before = [p.detach().double().clone() for p in ours.parameters()]
    wanted = [p.detach().clone() for p in theirs.parameters()]
    for step in range(5, 25):
        torch.manual_seed(step)
        for p, q in zip(ours.parameters(), theirs.parameters()):
            q.grad = torch.randn(p.shape).bfloat16().float()
            p.grad = q.grad.to(p.dtype)
        reference.step()
        optimizer.step()
    for p, start, q, q_start in zip(ours.parameters(), before, theirs.parameters(), wanted):
        moved = (q.detach() - q_start).double().norm()
        off = ((p.detach().double() - start) - (q.detach() - q_start).double()).norm()
        assert off < 0.3 * moved
    assert all(optimizer.state[p]["step"] == 25 for p in ours.parameters())


#===----------------------------------------------------------------------===#
# Types of planes
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", ["remainder", "flash-f16", "dither-softsign-root", "coat",
                                      "fp8-lm"])
def test_every_collective_carries_state_dicts(strategy):
    _, optimizer = trained(strategy, min_8bit_size=0)
    carried = {torch.float32, torch.bfloat16, torch.float16, torch.uint8, torch.int8}
    state_dict = optimizer.state_dict()
    found = {value.dtype for state in state_dict["state"].values() for value in state.values()
             if isinstance(value, torch.Tensor)}
    assert found and found <= carried
    with optimizer.early_state_dicts():
        early = copy.deepcopy(optimizer.state_dict())
    assert early["tandem"]["version"] == 3
    for saved in (early, copy.deepcopy(state_dict)):
        other = tt.AdamW(copy.deepcopy([*optimizer.param_groups[0]["params"]]), strategy=strategy,
                         min_8bit_size=0)
        other.load_state_dict(saved)
        assert_same_bits(other, optimizer)


#===----------------------------------------------------------------------===#
# Weights that are loaded later, and copies of optimizers that wait for them
#===----------------------------------------------------------------------===#


def test_equal_weights_tell_nothing_of_an_order():
    """Biases of zeros and norms of ones are equal, moved or not."""
    def make():
        torch.manual_seed(0)
        model = torch.nn.ModuleList([torch.nn.Linear(64, 64), torch.nn.LayerNorm(64),
                                     torch.nn.LayerNorm(64)]).bfloat16()
        torch.nn.init.zeros_(model[0].bias)
        return model, tt.AdamW(model.parameters(), strategy="remainder", weight_decay=0.0)

    model, optimizer = make()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    model[0].bias.grad = torch.ones_like(model[0].bias)
    for _ in range(5):
        optimizer.step()
    twin, other = make()
    with torch.no_grad():
        twin[0].weight.normal_()
    other.load_state_dict(optimizer.state_dict())
    twin.load_state_dict(model.state_dict())
    for p in twin.parameters():
        p.grad = torch.zeros_like(p)
    other.step()


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "reload", "change", "convert"])
def test_no_copy_loses_the_check_of_weights(way):
    import pickle

    _, optimizer = trained("remainder")
    model = make_model()
    waiting = by_position(model, "remainder")
    waiting.load_state_dict(optimizer.state_dict())
    if way == "deepcopy":
        model, waiting = copy.deepcopy((model, waiting))
    elif way == "pickle":
        model, waiting = pickle.loads(pickle.dumps((model, waiting)))
    elif way == "reload":
        waiting.load_state_dict(copy.deepcopy(waiting.state_dict()))
    with pytest.raises((RuntimeError, ValueError), match="is not the one that its"):
        if way == "change":
            tt.change_strategy(waiting, "flash")
        elif way == "convert":
            tt.convert_state(optimizer.state_dict(), model.parameters(), "flash")
        train(model, waiting, [3])


@needs_names
@pytest.mark.parametrize("strategy", ["remainder", "flash"])
def test_what_fits_is_loaded_under_any_strategy(strategy):
    model, optimizer = trained("remainder")
    torch.manual_seed(1)
    other = torch.nn.Sequential(copy.deepcopy(model[0]), copy.deepcopy(model[1]),
                                torch.nn.Linear(64, 32, dtype=torch.bfloat16))
    resized = tt.AdamW(other.named_parameters(), strategy=strategy)
    keys = resized.load_state_dict(optimizer.state_dict(), strict=False)
    assert keys.missing_keys == ["2.weight", "2.bias"]
    assert [resized.state[p]["step"] for p in other.parameters() if p in resized.state] == [3] * 4


def test_parameters_without_a_state_get_none():
    """A conversion does not begin the states of frozen parameters."""
    model = make_model()
    model[1].requires_grad_(False)
    optimizer = by_position(model, "remainder")
    train(model, optimizer, range(2))
    other = by_position(model, "flash")
    other.load_state_dict(optimizer.state_dict())
    assert len(optimizer.state) == len(other.state) == 4
    tt.change_strategy(other, "collage-plus")
    assert len(other.state) == 4


def test_saved_groups_may_be_taken_apart():
    model = make_model()
    optimizer = tt.AdamW([{"params": list(layer.parameters())} for layer in model],
                         strategy="remainder")
    train(model, optimizer, range(2))
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"] = state["param_groups"][1:]
    other = tt.AdamW([{"params": list(layer.parameters())} for layer in model[1:]],
                     strategy="remainder")
    other.load_state_dict(state)
    train(model, other, [2])
    assert other.state[model[2].weight]["step"] == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 1000, 4099])
def test_checksums_are_of_all_bits_in_order(dtype, size):
    from tandem.torch.optim.state._checksum import checksum

    torch.manual_seed(size)
    memory = torch.randn(size + 1).to(dtype)
    weight = memory[1:]  # it is not aligned to words of 64 bits
    number = checksum(weight)
    assert number == checksum(weight.clone()) and number[0] == str(dtype)
    if size == 1000:
        assert checksum(weight.view(40, 25).t().contiguous().t()) == checksum(
            weight.view(40, 25))
    for at in {0, size // 2, size - 1} if size else ():
        other = weight.clone()
        other[at] = -other[at]
        assert checksum(other) != number
    if size > 1:
        assert checksum(weight.flip(0)) != number
        assert checksum(weight.view(1, -1)) != number
