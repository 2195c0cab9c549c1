#===- test_torch_muon.py - Muon in tandem.torch ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.Muon: against torch.optim.Muon and float64, under all strategies, with
# parameters that are divided in other ways than matrices, and with steps of one's own.
#
#===----------------------------------------------------------------------===#

import copy
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from tandem.torch.optim._newton_schulz import newton_schulz  # noqa: E402

SHAPES = ((64, 96), (96, 64), (48, 48))
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
needs_muon = pytest.mark.skipif(not hasattr(torch.optim, "Muon"),
                                reason="this PyTorch has no Muon")


def parameters(dtype=torch.float32, shapes=SHAPES, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
            for shape in shapes]


def give_gradients(params, seed, others=()):
    generator = torch.Generator().manual_seed(seed)
    for index, param in enumerate(params):
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
        for other in others:
            other[index].grad = param.grad.clone()


def muon(params, strategy="fp32", **options):
    return tt.Muon([{"params": list(params), "use_muon": True}], strategy=strategy,
                   min_8bit_size=0, **options)


@needs_muon
@pytest.mark.parametrize("options", (
    {}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}, {"momentum": 0.9, "ns_steps": 3},
    {"weight_decay": 0.0, "ns_coefficients": (2.0, -1.5, 0.5)}))
def test_torch(options):
    """Momentum has the bits of torch.optim.Muon, and weights, which torch adds by an fma, differ
    in few of their last bits. Each step begins with the same weights."""
    ours, theirs = parameters(), parameters()
    optimizer, reference = muon(ours, lr=0.02, **options), torch.optim.Muon(
        theirs, lr=0.02, **options)
    for step in range(4):
        give_gradients(ours, step, [theirs])
        optimizer.step()
        reference.step()
        for mine, param in zip(ours, theirs):
            assert torch.equal(optimizer.state[mine]["momentum_buffer"],
                               reference.state[param]["momentum_buffer"])
            assert (mine != param).float().mean() < 0.02
            torch.testing.assert_close(mine, param, rtol=2.0**-22, atol=2.0**-24)
            with torch.no_grad():
                mine.copy_(param)


def test_momentum_survives_without_nesterov():
    """PyTorch 2.13 divides the momentum of bf16 parameters by its norm."""
    (param,) = parameters(torch.bfloat16, shapes=((8, 16),))
    optimizer = muon([param], "bf16-dither", lr=0.0, momentum=0.5, nesterov=False)
    param.grad = torch.ones_like(param)
    optimizer.step()
    assert torch.equal(optimizer.state[param]["momentum_buffer"], 0.5 * torch.ones_like(param))


@needs_muon
def test_loads_states_of_torch():
    ours, theirs = parameters(), parameters()
    reference = torch.optim.Muon(theirs, lr=0.02)
    give_gradients(theirs, 0)
    reference.step()
    optimizer = muon(ours, lr=0.02)
    optimizer.load_state_dict(reference.state_dict())
    for mine, param in zip(ours, theirs):
        assert torch.equal(optimizer.state[mine]["momentum_buffer"],
                           reference.state[param]["momentum_buffer"])
    group = optimizer.param_groups[0]
    assert (group["ns_steps"], group["adjust_lr_fn"], group["use_muon"]) == (5, "original", True)
    with torch.no_grad():
        for mine, param in zip(ours, theirs):
            mine.copy_(param)
    give_gradients(ours, 1, [theirs])
    optimizer.step()
    reference.step()
    torch.testing.assert_close(ours, theirs, rtol=2.0**-22, atol=2.0**-24)


def exact(params, gradients, lr, momentum=0.95):
    """Returns the weights after steps in float64, with the same polynomial."""
    found = []
    for param, own in zip(params, gradients):
        weight, average = param.detach().double(), torch.zeros(param.shape, dtype=torch.float64)
        for gradient in own:
            gradient = gradient.double()
            average = average + (1 - momentum) * (gradient - average)
            ahead = gradient + momentum * (average - gradient)
            weight = weight - lr * iterated(ahead) * max(1, len(weight) / weight.size(1))**0.5
        found.append(weight)
    return found


def iterated(x):
    y = x.T if x.size(0) > x.size(1) else x
    y = y / y.norm()
    a, b, c = COEFFICIENTS
    for _ in range(5):
        gram = y @ y.T
        y = a * y + (b * gram + c * gram @ gram) @ y
    return y.T if x.size(0) > x.size(1) else y


#: Bounds of the distance of weights from float64's, relative to how far they have moved. Weights
#: in bf16 to nearest lose half of it.
BOUNDS = {"bf16": 0.7, "fp32-optim": 0.7, "bf16-stochastic": 0.16, "bf16-kahan": 0.02,
          "coded-ratio4": 0.3, "dither-ratio4": 0.3, "residual-ratio4": 0.3, "fp32": 0.005}


@pytest.mark.parametrize("strategy", tandem.strategies())
def test_follows(strategy):
    """Weights follow Muon in float64 under each strategy, as far as it follows at all."""
    steps, lr = 60, 1e-3
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        params = [torch.nn.Parameter((0.05 * p).to(dtype))
                  for p in parameters(shapes=((24, 40), (40, 24)))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                optimizer = muon(params, strategy, lr=lr, weight_decay=0.0)
                break
            except TypeError:
                continue  # the strategy's weights have another type
    before = [p.detach().double() for p in params]
    generator, signal = torch.Generator().manual_seed(1), [torch.randn(p.shape) for p in params]
    gradients = [[(0.3 * of + torch.randn(of.shape, generator=generator)).to(dtype)
                  for _ in range(steps)] for of in signal]
    wanted = exact(params, gradients, lr)
    for step in range(steps):
        for param, own in zip(params, gradients):
            param.grad = own[step].clone()
        optimizer.step()
        optimizer.zero_grad()
    for param, want, start in zip(params, wanted, before):
        error = (param.double() - want).norm() / (want - start).norm()
        assert error < BOUNDS.get(strategy, 0.13), float(error)


def test_types_of_iterations():
    """Polar Express ends nearer to the orthogonal factor, and nearer the wider the type is."""
    x = parameters(shapes=((40, 70),))[0].detach()
    left, _, right = torch.linalg.svd(x.double(), full_matrices=False)

    def error(coefficients, precision, steps=8):
        found = newton_schulz(x, coefficients, steps, 1e-7, precision).double()
        return float((found - left @ right).norm() / (left @ right).norm())

    assert error(COEFFICIENTS, "bf16") > 0.1
    wide, half, narrow = (error("polar_express", type) for type in ("f32", "f16", "bf16"))
    assert wide < 1e-5 < half < 2e-3 < narrow < 2e-2
    # The numbers of docs/Muon.md.
    assert error(COEFFICIENTS, "bf16", 5) == pytest.approx(0.2, abs=0.02)
    assert error("polar_express", "bf16", 5) == pytest.approx(0.09, abs=0.01)
    assert narrow == pytest.approx(0.007, abs=0.002)
    # The norm of a gradient whose squares underflow in f16.
    tiny = newton_schulz(1e-6 * x, "polar_express", 8, 1e-12, "f16").double()
    assert (tiny - left @ right).norm() / (left @ right).norm() < 2e-3


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16", "dither-softsign-root"))
@pytest.mark.parametrize("precision, bound", (("bf16", 2e-2), ("f16", 2e-3), ("f32", 1e-5)))
def test_directions_have_the_precision_of_products(precision, bound, strategy):
    """With wider products directions and results are float32, under every strategy."""
    dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
    sent = []
    options = {"precision": precision, "ns_coefficients": "polar_express", "ns_steps": 8}
    params = parameters(dtype, SHAPES[:1])
    optimizer = muon(params, strategy, lr=0.02, **options)
    plain = muon(parameters(dtype, SHAPES[:1]), strategy, lr=0.02, **options)
    function = optimizer._arguments["external"]["orthogonalize"]

    def noted(given, group):
        sent.append((given[0].clone(), function(given, group).clone()))
        return sent[-1][1]

    optimizer._arguments["external"]["orthogonalize"] = noted
    optimizer._runner._launches._functions = {"orthogonalize": noted}
    for seed in range(2):
        give_gradients(params, seed, [plain.param_groups[0]["params"]])
        optimizer.step()
        plain.step()
    wanted = torch.bfloat16 if precision == "bf16" else torch.float32
    assert torch.equal(params[0], plain.param_groups[0]["params"][0])
    for direction, result in sent:
        assert direction.dtype == wanted
        left, _, right = torch.linalg.svd(direction.double(), full_matrices=False)
        error = (result.double() - left @ right).norm() / (left @ right).norm()
        assert bound / 100 < error < bound


def test_groups_of_several_precisions():
    """Each group has its own type; wide products with f32 weights are those of float32."""
    params = parameters()
    optimizer = tt.Muon([{"params": params[:1], "use_muon": True, "precision": "f32"},
                         {"params": params[1:], "use_muon": True}], lr=0.02, strategy="fp32")
    weight = params[0].detach().clone()
    give_gradients(params, 0)
    momentum = 0.05 * params[0].grad
    direction = params[0].grad.lerp(momentum, 0.95)
    optimizer.step()
    result = newton_schulz(direction, COEFFICIENTS, 5, 1e-7, "f32")
    weight.mul_(1 - 0.02 * 0.1).sub_(0.02 * result)
    assert torch.allclose(params[0], weight, rtol=0, atol=3e-8)
    other = muon(parameters()[1:], lr=0.02)
    give_gradients(parameters(), 0)
    other_params = other.param_groups[0]["params"]
    for param, given in zip(other_params, params[1:]):
        param.grad = given.grad.clone()
    other.step()
    assert all(torch.equal(a, b) for a, b in zip(other_params, params[1:]))


#===------------------------------------------------------------------------===#
# Parameters that are divided in other ways
#===------------------------------------------------------------------------===#


def moved(shape, **options):
    """Returns how far the first step moves a parameter, and its direction before that is made
    orthogonal."""
    (param,) = parameters(shapes=(shape,))
    before = param.detach().clone()
    optimizer = muon([param], lr=1.0, weight_decay=0.0, **options)
    give_gradients([param], 1)
    average = torch.zeros(shape).lerp_(param.grad, 1 - 0.95)
    direction = param.grad.lerp(average, 0.95)
    optimizer.step()
    return before - param.detach(), direction


def orthogonal(x):
    rows, columns = x.shape
    scale = max(1, rows / columns)**0.5
    return scale * newton_schulz(x, COEFFICIENTS, 5, 1e-7).float()


def test_convolutions_are_matrices():
    change, direction = moved((32, 3, 5, 5))
    torch.testing.assert_close(change, orthogonal(direction.flatten(1)).view(change.shape),
                               rtol=1e-5, atol=1e-6)
    change, direction = moved((32, 3, 5), stacked=False)
    torch.testing.assert_close(change, orthogonal(direction.flatten(1)).view(change.shape),
                               rtol=1e-5, atol=1e-6)


def test_stacks_of_experts():
    change, direction = moved((4, 24, 16), stacked=True)
    for own, of in zip(change, direction):
        torch.testing.assert_close(own, orthogonal(of), rtol=2e-2, atol=5e-3)


@pytest.mark.parametrize("split", (3, (32, 16, 16)))
def test_queries_keys_and_values(split):
    rows = [96 // 3] * 3 if split == 3 else list(split)
    change, direction = moved((sum(rows), 48), split=split)
    for own, of in zip(change.split(rows), direction.split(rows)):
        torch.testing.assert_close(own, orthogonal(of), rtol=1e-2, atol=1e-5)


def test_channels_last():
    """A parameter in another order of memory has the step of its matrix."""
    (param,) = parameters(shapes=((32, 8, 3, 3),))
    other = torch.nn.Parameter(param.detach().clone().to(memory_format=torch.channels_last))
    one, two = muon([param], lr=0.1), muon([other], lr=0.1)
    give_gradients([param], 1)
    other.grad = param.grad.clone().to(memory_format=torch.channels_last)
    one.step()
    two.step()
    torch.testing.assert_close(other, param, rtol=1e-5, atol=1e-4)


#===------------------------------------------------------------------------===#
# Groups
#===------------------------------------------------------------------------===#


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(100, 32)
        self.layer = torch.nn.Linear(32, 64)
        self.lm_head = torch.nn.Linear(64, 100, bias=False)
        self.to(torch.bfloat16)


def test_named_parameters_are_divided():
    """Embeddings, heads and vectors have AdamW's states and rate, as torch.optim.AdamW."""
    model = Model()
    optimizer = tt.Muon(model.named_parameters(), lr=0.02, adamw_lr=1e-3, weight_decay=0.05,
                        strategy="flash-f16", min_8bit_size=0)
    groups = {group["use_muon"]: group for group in optimizer.param_groups}
    assert groups[True]["param_names"] == ["layer.weight"]
    assert groups[False]["param_names"] == ["embed.weight", "layer.bias", "lm_head.weight"]
    assert (groups[True]["lr"], groups[False]["lr"]) == (0.02, 1e-3)
    give_gradients(list(model.parameters()), 0)
    optimizer.step()
    states = {name: set(optimizer.state[p]) for name, p in model.named_parameters()}
    assert "momentum_buffer" in states["layer.weight"]
    assert "exp_avg_sq" in states["embed.weight"] & states["lm_head.weight"] & states["layer.bias"]


def test_adamw_is_torchs():
    ours, theirs = parameters(shapes=((10,),)), parameters(shapes=((10,),))
    optimizer = tt.Muon(ours, lr=0.02, adamw_lr=1e-2, weight_decay=0.1, strategy="fp32")
    reference = torch.optim.AdamW(theirs, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(5):
        give_gradients(ours, step, [theirs])
        optimizer.step()
        reference.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_states_travel(tmp_path):
    """State dicts, pickles and copies continue with the same bits, also under other strategies."""
    params, again = parameters(torch.bfloat16), parameters(torch.bfloat16)
    optimizer, other = (muon(of, "dither-mulaw", lr=0.01) for of in (params, again))
    give_gradients(params, 0)
    optimizer.step()
    for mine, param in zip(again, params):
        with torch.no_grad():
            mine.copy_(param)
    other.load_state_dict(optimizer.state_dict())
    clone = pickle.loads(pickle.dumps(optimizer))
    copied = copy.deepcopy(optimizer)
    everyone = [params, again, *([*of.param_groups[0]["params"]] for of in (clone, copied))]
    give_gradients(params, 1, everyone[1:])
    for each in (optimizer, other, clone, copied):
        each.step()
    for others in everyone[1:]:
        assert all(map(torch.equal, others, params))
    wide, _ = tt.convert_state(optimizer.state_dict(), params, "residual-mulaw")
    assert "momentum_buffer" in next(iter(wide["state"].values()))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))],
                         ids=["deepcopy", "pickle"])
def test_a_copy_takes_groups_like_the_original(copied):
    """A copy gives added parameters that are not matrices the settings of AdamW's."""
    params = parameters(torch.bfloat16)
    optimizer = copied(tt.Muon(params, lr=0.01, adamw_lr=3e-4, adamw_weight_decay=0.25))
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(4).bfloat16())]})
    added = optimizer.param_groups[-1]
    assert not added["use_muon"] and added["lr"] == 3e-4 and added["weight_decay"] == 0.25


def test_accumulation_and_average():
    """Options of all optimizers hold for matrices."""
    params = parameters(torch.bfloat16)
    optimizer = muon(params, "flash-f16", lr=0.01, grad_accumulation="bf16+i8", ema_decay=0.9)
    for part in range(3):
        sum((p * torch.full_like(p, part + 1)).sum() for p in params).backward()
    optimizer.step()
    assert all(p.grad is None for p in params)
    assert len(list(tt.averages(optimizer))) == 3
    assert optimizer.bytes_per_parameter < 11


def test_one_parameter_at_a_time():
    ours, theirs = parameters(torch.bfloat16), parameters(torch.bfloat16)
    optimizers = (muon(ours, "dither-mulaw", lr=0.01, gradient_release=True),
                  muon(theirs, "dither-mulaw", lr=0.01))
    for of in (ours, theirs):
        sum((p * p).sum() for p in of).backward()
    optimizers[1].step()
    assert all(map(torch.equal, ours, theirs))


def test_a_step_of_ones_own():
    """A graph outside of the library calls a function of the host's."""
    given = []

    def invert(tensors, group):
        given.append((tuple(tensors[0].shape), group["lr"]))
        return -tensors[0].float()

    params = parameters()
    before = [p.detach().clone() for p in params]
    optimizer = tt.Optimizer(params, "muon", strategy="fp32", vectors="sgd", lr=0.5,
                             external={"orthogonalize": invert}, weight_decay=0.0)
    give_gradients(params, 0)
    optimizer.step()
    assert given == [(shape, 0.5) for shape in SHAPES]
    assert all((p - old).abs().max() > 0 for p, old in zip(params, before))


def test_results_may_be_views_of_operands():
    """A transpose of the operand, whose memory the result replaces, is read before."""
    (param,) = parameters(shapes=((40, 40),))
    before = param.detach().clone()
    optimizer = tt.Optimizer(
        [param], "muon", strategy="fp32", vectors="sgd", lr=1.0, weight_decay=0.0, momentum=0.0,
        nesterov=0.0, external={"orthogonalize": lambda tensors, group: tensors[0].T})
    give_gradients([param], 0)
    gradient = param.grad.clone()
    optimizer.step()
    assert torch.equal(param, before - gradient.bfloat16().T.float())


#===------------------------------------------------------------------------===#
# Errors
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("shapes,options,message", (
    ([(8,)], {}, r"parameter 0 has the shape \(8,\), and its param group use_muon=True, but only"),
    ([(8, 0)], {}, r"a parameter of the shape \(8, 0\), which cannot be orthogonalized"),
    ([(4, 8, 8)], {}, r"shape \(4, 8, 8\): give stacked=True to the group if it is a stack"),
    ([(8, 8)], {"split": 3}, "split says into how many equal parts its 8 rows are divided"),
    ([(8, 8)], {"split": (4, 5)}, r"split=\(4, 5\) and a parameter of the shape \(8, 8\)"),
    ([(8, 8)], {"ns_steps": 0}, "ns_steps of param group 0 is 0; it must be from 1 to 99"),
    ([(8, 8)], {"ns_coefficients": (1.0, 2.0)}, "it is three numbers, a list of three numbers"),
    ([(8, 8)], {"ns_coefficients": "newton"}, "'polar_express'"),
    ([(8, 8)], {"precision": "f64"}, "precision of param group 0 is 'f64'; it must be 'bf16'"),
    ([(8, 8)], {"adjust_lr_fn": "rms"}, "is 'rms'; take 'original' or 'match_rms_adamw'"),
))
def test_errors(shapes, options, message):
    with pytest.raises(ValueError, match=message):
        muon(parameters(shapes=shapes), **options)


def test_adamw_needs_a_rate():
    with pytest.raises(ValueError, match="no learning rate of its own, and Muon's is too high"):
        tt.Muon(Model().named_parameters(), lr=0.02, strategy="flash-f16")
    tt.Muon(Model().named_parameters(), lr=1e-3, strategy="flash-f16",
            adjust_lr_fn="match_rms_adamw")


def test_zero_keeps_groups(tmp_path):
    """ZeroRedundancyOptimizer takes groups that are divided already."""
    zero = pytest.importorskip("torch.distributed.optim").ZeroRedundancyOptimizer
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0,
                                         world_size=1)
    try:
        model, options = Model(), {"lr": 0.02, "strategy": "flash-f16"}
        with pytest.raises(ValueError, match="keeps the param groups that it was given, .* give it "
                                             "groups with use_muon=True and use_muon=False"):
            zero(model.parameters(), tt.Muon, adamw_lr=1e-3, **options)
        optimizer = zero([
            {"params": [model.layer.weight], "use_muon": True},
            {"params": [model.embed.weight, model.layer.bias, model.lm_head.weight],
             "use_muon": False, "lr": 1e-3}], tt.Muon, **options)
        give_gradients(list(model.parameters()), 0)
        optimizer.step()
        assert [group["lr"] for group in optimizer.optim.param_groups] == [0.02, 1e-3]
        assert "momentum_buffer" in optimizer.optim.state[model.layer.weight]
    finally:
        torch.distributed.destroy_process_group()


def test_functions_are_checked():
    params = parameters()
    with pytest.raises(ValueError, match="muon has the external step 'orthogonalize'"):
        tt.Optimizer(params, "muon", strategy="fp32", vectors="sgd")
    optimizer = tt.Optimizer(params, "muon", strategy="fp32", vectors="sgd", external={
        "orthogonalize": lambda tensors, group: tensors[0][:1]})
    give_gradients(params, 0)
    before = [p.detach().clone() for p in params]
    with pytest.raises(ValueError, match=r"'orthogonalize' returned tensors of the shapes "
                                         r"\[\(1, 96\)\] for parameter 0; return 1 of the shape"):
        optimizer.step()
    assert all(map(torch.equal, params, before)) and not optimizer.state
