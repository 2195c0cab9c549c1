#===- test_torch_cuda.py - The optimizers on a GPU -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that optimizers of parameters on a GPU have the bits of those on the CPU, with a
# driver without a GPU and the PTX evaluator in its place: steps, graphs, skipped steps, several
# GPUs.
#
#===----------------------------------------------------------------------===#

import contextlib
import copy
import functools
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.thread_ranks import one_rank
from support.torch_bits import (assert_same_bits, bits, dtype_of, parameters, params_of,
                                set_gradients, train)
from support.torch_on_gpu import TorchGPU
from tandem.torch import _executor

SHAPES = [(17,), (3, 5)]
OPTIMIZERS = {
    "AdamW": (tt.AdamW, {}), "before": (tt.AdamW, {"decay": "before"}),
    "after": (tt.AdamW, {"decay": "after"}), "clipped": (tt.AdamW, {"max_norm": 0.5}),
    "eps": (tt.AdamW, {"eps_inside_root": True}), "LAMB": (tt.LAMB, {}),
    "Adam": (tt.Adam, {"weight_decay": 0.1}), "SGD": (tt.SGD, {}),
    "momentum": (tt.SGD, {"momentum": 0.9}),
    "nesterov": (tt.SGD, {"momentum": 0.9, "nesterov": True}), "Lion": (tt.Lion, {}),
    "RMSprop": (tt.RMSprop, {}), "Adagrad": (tt.Adagrad, {}), "MARS": (tt.MARS, {}),
}
STRATEGIES = ("fp32", "bf16-stochastic", "master-weights", "collage-plus", "coat",
              "fp8-lm", "flash")


@pytest.fixture(scope="module")
def gpu():
    return TorchGPU(2)


def make(optimizer, strategy="collage-plus", shapes=SHAPES, **options):
    cls, more = OPTIMIZERS[optimizer]
    dtype = dtype_of(strategy) if strategy != "fp8-lm" else torch.bfloat16
    # Codes are used everywhere, also in the smallest tensors.
    options = {"min_8bit_size": 0} | more | options
    return cls(parameters(shapes, dtype), lr=1e-2, strategy=strategy, **options)


def both(gpu, build, use):
    """Returns the results of `use` for an optimizer on the GPU, and for one on the CPU."""
    want = build()
    use(want)
    with gpu.holds_torch():
        got = build()
        use(got)
    return got, want


def assert_same_steps(got, want):
    """Does the same as assert_same_bits, but step counts may be tensors."""
    for optimizer in (got, want):
        for state in optimizer.state.values():
            if "step" in state:
                state["step"] = int(state["step"])
    assert_same_bits(got, want)


#===----------------------------------------------------------------------===#
# Steps
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(gpu, optimizer):
    gpu.launched.clear()
    got, want = both(gpu, lambda: make(optimizer), lambda o: train(o, range(3)))
    assert_same_bits(got, want)
    assert gpu.launched


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies(gpu, strategy):
    def use(optimizer):
        for seed in range(2):
            params = params_of(optimizer)
            generator = torch.Generator().manual_seed(seed)
            sum((p.float() * torch.randn(p.shape, generator=generator)).sum()
                for p in params).backward()
            optimizer.step()
            optimizer.zero_grad()

    assert_same_bits(*both(gpu, lambda: make("AdamW", strategy), use))


def test_matrices(gpu):
    def build():
        return tt.Adafactor(parameters([(3, 5), (7,)], torch.float32), strategy="fp32")

    assert_same_bits(*both(gpu, build, lambda o: train(o, range(3))))


def test_layouts_types_and_moving_memory(gpu):
    """Parameters have gaps, and gradients have another dtype and new memory each time."""
    def build():
        wide = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
        gaps = torch.nn.Parameter(wide.bfloat16()[:, :3])
        turned = torch.nn.Parameter(wide.bfloat16().t())
        norm = torch.nn.Parameter(torch.ones(6))
        return tt.AdamW([gaps, turned, norm], lr=1e-2)

    def use(optimizer):
        for seed in range(3):
            generator = torch.Generator().manual_seed(seed)
            for p in params_of(optimizer):
                grad = torch.randn(p.shape, generator=generator)
                p.grad = None
                p.grad = grad.to(p.dtype)
            optimizer.step()

    assert_same_bits(*both(gpu, build, use))


def test_metrics(gpu):
    got, want = both(gpu, lambda: make("AdamW", "bf16", metrics=True),
                     lambda o: train(o, range(2)))
    assert got.metrics() == want.metrics()


def test_decoded_weights(gpu):
    def use_model():
        torch.manual_seed(0)
        model = torch.nn.Linear(32, 16).bfloat16()
        optimizer = tt.AdamW(model.parameters(), lr=1e-2, strategy="fp8-collage-plus")
        tt.decode_weights(model, optimizer)
        for _ in range(2):
            model(torch.ones(2, 32, dtype=torch.bfloat16)).float().square().mean().backward()
            optimizer.step()
        return model.state_dict()

    want = use_model()
    with gpu.holds_torch():
        got = use_model()
    assert all(np.array_equal(bits(got[name]), bits(want[name])) for name in want)


@pytest.mark.parametrize("strategy", ("collage-plus", "bf16-stochastic", "flash", "fp8-lm"))
def test_steps_inside_of_backward_passes(gpu, strategy):
    """Each parameter takes its step, on one GPU and on two, also among parameters on the CPU."""
    def use(optimizer):
        for seed in range(3):
            generator = torch.Generator().manual_seed(seed)
            sum((p.float() * torch.randn(p.shape, generator=generator)).sum()
                for p in params_of(optimizer)).backward()
            released = optimizer.live_bytes()["gradients"] == 0
            assert released == optimizer.gradient_release
            optimizer.step()
            optimizer.zero_grad()

    want = make("AdamW", strategy)
    use(want)
    for ordinal_of in (lambda t: 0, halves, lambda t: None if t.dim() == 1 else 0):
        gpu.launched.clear()
        with gpu.holds_torch(ordinal_of):
            got = make("AdamW", strategy, gradient_release=True)
            use(got)
        assert gpu.launched
        assert_same_bits(got, want)


def test_sums_over_ranks(gpu):
    def use(optimizer):
        reduce = tt.GradientAllReduce(optimizer, ranks=one_rank(), scaling=tt.AutomaticScaling())
        for seed in range(2):
            generator = torch.Generator().manual_seed(seed)
            sum((p.float() * torch.randn(p.shape, generator=generator)).sum()
                for p in params_of(optimizer)).backward()
            reduce()
            optimizer.step()
        return reduce

    assert_same_bits(*both(gpu, lambda: make("AdamW", "fp8-lm"), use))


def test_checkpoints_go_from_device_to_device(gpu):
    want = make("AdamW", "bf16-stochastic")
    train(want, range(4))
    first = make("AdamW", "bf16-stochastic")
    train(first, range(2))
    weights = [p.detach().clone() for p in params_of(first)]
    saved = copy.deepcopy(first.state_dict())
    for capturable in (False, True):
        with gpu.holds_torch():
            second = make("AdamW", "bf16-stochastic", capturable=capturable)
            for p, weight in zip(params_of(second), weights):
                p.data.copy_(weight)
            second.load_state_dict(saved)
            train(second, [2])
            back = copy.deepcopy(second.state_dict())
            weights_then = [p.detach().clone() for p in params_of(second)]
        third = make("AdamW", "bf16-stochastic")
        for p, weight in zip(params_of(third), weights_then):
            p.data.copy_(weight)
        third.load_state_dict(back)
        train(third, [3])
        assert_same_bits(third, want)


def test_conversions_of_states(gpu):
    def convert():
        optimizer = make("AdamW", "collage-plus")
        train(optimizer, range(2))
        return tt.convert_state(optimizer.state_dict(), params_of(optimizer), "fp32")

    want_state, want = convert()
    with gpu.holds_torch():
        got_state, got = convert()
    assert all(np.array_equal(bits(a), bits(b)) for a, b in zip(got, want))
    for index, state in want_state["state"].items():
        for name, plane in state.items():
            other = got_state["state"][index][name]
            assert torch.equal(torch.as_tensor(plane), torch.as_tensor(other)), name


class OfCUDA:
    """The attributes by which a parameter reports that it is on a GPU."""

    is_cpu, is_cuda = False, True

    def __init__(self, ordinal):
        self.device = torch.device("cuda", ordinal)


def test_pytorch_says_where_and_in_which_stream(gpu, monkeypatch):
    monkeypatch.setattr(_executor, "_gpu", functools.lru_cache(_executor.GPU))
    first, second = (_executor.executor_of(OfCUDA(i)) for i in (0, 1))
    assert first is _executor.executor_of(OfCUDA(0)) is not second
    assert (first.target, second.device.ordinal) == ("sm_90", 1)
    assert _executor.torch_device(second) == torch.device("cuda:1")
    assert _executor.executor_of(torch.empty(3, device="meta")) is None
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: types.SimpleNamespace(
        cuda_stream=100 + device.index))
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert (first.stream, second.stream) == (100, 101) and first.is_capturing
    launched = []
    plan = types.SimpleNamespace(launch_async=lambda *given, **options: launched.append(
        (given, options)))
    assert second.launch(plan, [[1.0]], [[2]]) == 0
    assert launched == [(([[1.0]], [[2]]), {"stream": 101})]


#===----------------------------------------------------------------------===#
# Several GPUs
#===----------------------------------------------------------------------===#


def halves(tensor):
    """Puts vectors on the second GPU."""
    return int(tensor.dim() == 1)


def test_parameters_on_several_gpus(gpu):
    want = make("AdamW")
    train(want, range(2))
    for options in ({}, {"capturable": True}, {"capturable": True, "skip_nonfinite": True}):
        with gpu.holds_torch(halves):
            got = make("AdamW", **options)
            train(got, range(2))
            assert len({launch.executor for launch in got._runner._running}) == 2
        assert_same_steps(got, want)


def test_a_gpu_skips_for_another(gpu):
    with gpu.holds_torch(halves):
        optimizer = make("AdamW", capturable=True, skip_nonfinite=True)
        train(optimizer, [0])
        before = [bits(p) for p in params_of(optimizer)]
        for bad in params_of(optimizer):
            set_gradients(params_of(optimizer), 1)
            bad.grad.view(-1)[2] = torch.inf
            optimizer.step()
            assert optimizer.skipped
            assert all(np.array_equal(bits(p), b)
                       for p, b in zip(params_of(optimizer), before))
        assert {int(s["step"]) for s in optimizer.state.values()} == {1}


class OtherRank:
    """Represents ranks that update other parameters, as in ZeroRedundancyOptimizer."""

    def __init__(self):
        self.is_bad, self.asked = False, []

    def any(self, flag):
        self.asked.append(flag)
        return flag or self.is_bad


def test_a_gpu_skips_for_another_rank(gpu):
    with gpu.holds_torch():
        optimizer, other = make("AdamW", capturable=True, skip_nonfinite=True), OtherRank()
        optimizer._runner.skip_exchange = other
        train(optimizer, [0])
        before = [bits(p) for p in params_of(optimizer)]
        other.is_bad = True
        train(optimizer, [1])
        assert optimizer.skipped and other.asked == [False, False]
        assert all(np.array_equal(bits(p), b) for p, b in zip(params_of(optimizer), before))
        set_gradients(params_of(optimizer), 1)
        with gpu.captures():
            with pytest.raises(RuntimeError, match="asks other ranks .* leave skip_nonfinite out"):
                optimizer.step()


def test_sums_over_the_model_take_one_gpu(gpu):
    with gpu.holds_torch(halves):
        optimizer = make("clipped")
        set_gradients(params_of(optimizer), 0)
        with pytest.raises(ValueError, match="sums over all parameters, but parameter . is on"):
            optimizer.step()


#===----------------------------------------------------------------------===#
# Graphs
#===----------------------------------------------------------------------===#


def fixed_gradients(optimizer):
    """Sets and returns gradients whose addresses do not change."""
    set_gradients(params_of(optimizer), 0)
    return [p.grad for p in params_of(optimizer)]


def fill(grads, seed):
    generator = torch.Generator().manual_seed(seed)
    for grad in grads:
        grad.copy_(torch.randn(grad.shape, generator=generator) * 1e-2)


def test_rates_of_vectors_and_a_rate_on_the_gpu(gpu):
    """A kernel reads one learning rate on the GPU, which cannot be multiplied for vectors."""
    with gpu.holds_torch():
        optimizer = make("MARS", "fp32", lr_1d=1e-3, capturable=True)
        fill(fixed_gradients(optimizer), 0)
        optimizer.param_groups[0]["lr"] = torch.tensor(1e-2, dtype=torch.float64)
        with pytest.raises(ValueError, match="give vectors a param group of their own"):
            optimizer.step()


@pytest.mark.parametrize("optimizer, strategy", [
    ("AdamW", "collage-plus"), ("AdamW", "bf16-stochastic"), ("LAMB", "fp32"),
    ("SGD", "bf16"), ("Lion", "master-weights"), ("clipped", "coat"),
    ("MARS", "flash-f16")])
def test_a_graph_has_the_bits_of_steps(gpu, optimizer, strategy):
    """Learning rate and step are read when the graph runs."""
    want = make(optimizer, strategy)
    grads = fixed_gradients(want)
    for seed in range(4):
        want.param_groups[0]["lr"] = 1e-2 / (1 + max(0, seed - 1))
        fill(grads, seed)
        want.step()
    with gpu.holds_torch():
        lr = torch.tensor(1e-2, dtype=torch.float64)
        got = make(optimizer, strategy, capturable=True)
        got.param_groups[0]["lr"] = lr
        grads = fixed_gradients(got)
        fill(grads, 0)
        got.step()
        with gpu.captures() as graph:
            got.step()
        for seed in range(1, 4):
            lr.fill_(1e-2 / (1 + max(0, seed - 1)))
            fill(grads, seed)
            graph.replay()
        if got.state[params_of(got)[0]].get("step") is not None:
            assert int(got.state[params_of(got)[0]]["step"]) == 4
    assert_same_steps(got, want)


@pytest.mark.parametrize("options", ({}, {"capturable": True},
                                     {"capturable": True, "skip_nonfinite": True}))
def test_muon(gpu, options):
    """The host orthogonalizes on the GPU's stream. The factors of learning rates follow from shapes
    where the GPU counts steps, too."""
    def trained(**more):
        named = [(f"layer{i}.weight", p) for i, p in enumerate(
            parameters([(12, 20), (20, 12), (17,)], torch.bfloat16))]
        optimizer = tt.Muon(named, lr=0.02, adamw_lr=1e-3, strategy="flash-f16",
                            min_8bit_size=0, **more)
        train(optimizer, range(3))
        return optimizer

    want = trained()
    gpu.launched.clear()
    with gpu.holds_torch():
        got = trained(**options)
    assert gpu.launched
    assert_same_steps(got, want)


@pytest.mark.parametrize("cls", (tt.SOAP, tt.Shampoo))
def test_tensors_that_external_steps_keep(gpu, cls):
    """The matrices of SOAP and Shampoo are where the parameters are."""
    def trained():
        optimizer = cls(parameters([(12, 20), (20, 12), (17,)], torch.bfloat16), lr=0.02,
                        strategy="flash-f16", precondition_frequency=2, min_8bit_size=0)
        train(optimizer, range(5))
        return optimizer

    want = trained()
    gpu.launched.clear()
    with gpu.holds_torch():
        got = trained()
    assert gpu.launched
    assert_same_steps(got, want)


def test_numbers_of_a_graph_are_those_of_its_capture(gpu):
    """Later steps with other values do not change them."""
    want = make("AdamW", "bf16")
    fixed_gradients(want)
    for lr in (1e-2, 1e-2, 0.5, 1e-2, 0.5):
        want.param_groups[0]["lr"] = lr
        want.step()
    with gpu.holds_torch():
        got = make("AdamW", "bf16", capturable=True)
        fixed_gradients(got)
        got.step()
        with gpu.captures() as graph:
            got.step()
        graph.replay()
        got.param_groups[0]["lr"] = 0.5
        got.step()
        graph.replay()
        got.step()
    assert_same_steps(got, want)


def test_a_graph_skips_by_itself(gpu):
    with gpu.holds_torch():
        optimizer = make("AdamW", capturable=True, skip_nonfinite=True)
        grads = fixed_gradients(optimizer)
        optimizer.step()
        with gpu.captures() as graph:
            optimizer.step()
        for bad in (True, False, True):
            fill(grads, 1)
            if bad:
                grads[1].view(-1)[-1] = torch.nan
            before = [bits(p) for p in params_of(optimizer)]
            steps = int(optimizer.state[params_of(optimizer)[0]]["step"])
            graph.replay()
            assert optimizer.skipped == bad
            same = all(np.array_equal(bits(p), b)
                       for p, b in zip(params_of(optimizer), before))
            assert same == bad
            assert int(optimizer.state[params_of(optimizer)[0]]["step"]) == steps + (not bad)


def test_what_cannot_be_captured(gpu):
    with gpu.holds_torch():
        fresh = make("AdamW", capturable=True)
        set_gradients(params_of(fresh), 0)
        with gpu.captures():
            with pytest.raises(RuntimeError, match="take a step before the capture"):
                fresh.step()
        train(fresh, [0])
        params_of(fresh)[0].grad = None
        with gpu.captures():
            with pytest.raises(RuntimeError, match="take a step with the same gradients"):
                fresh.step()
        host = make("AdamW")
        train(host, [0])
        with gpu.captures():
            with pytest.raises(ValueError, match="pass them in the device's memory"):
                host.step()
        codes = make("AdamW", "fp8-lm", capturable=True)
        loss = sum(p.float().sum() for p in params_of(codes))
        with gpu.captures():
            with pytest.raises(RuntimeError, match="a CUDA graph cannot have conversions"):
                loss.backward()


#===----------------------------------------------------------------------===#
# Counts of steps
#===----------------------------------------------------------------------===#


def test_parameters_that_step_apart_count_apart(gpu):
    """Step counts are correct for any sequence of sets of parameters with gradients."""
    sets = [(0, 1, 2), (0, 1), (2,), (0, 2), (0, 1, 2), (1,)]

    def use(optimizer):
        params = params_of(optimizer)
        for seed, stepping in enumerate(sets):
            set_gradients(params, seed)
            for i, param in enumerate(params):
                if i not in stepping:
                    param.grad = None
            optimizer.step()

    shapes = [(5,), (3, 3), (4,)]
    want = make("AdamW", shapes=shapes)
    use(want)
    with gpu.holds_torch():
        got = make("AdamW", shapes=shapes, capturable=True)
        use(got)
        counts = [got.state[p]["step"] for p in params_of(got)]
        assert [int(c) for c in counts] == [4, 4, 4]
    assert_same_steps(got, want)


def test_loaded_counts_are_shared_again(gpu):
    with gpu.holds_torch():
        optimizer = make("AdamW", capturable=True)
        train(optimizer, range(2))
        counts = [s["step"] for s in optimizer.state.values()]
        assert counts[0] is counts[1] and counts[0].dtype == torch.int64
        assert optimizer.live_bytes() == make("AdamW").live_bytes() | {
            "weights": 4 * 32, "gradients": 2 * 32, "states": 6 * 32}
        other = make("AdamW", capturable=True)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        counts = [s["step"] for s in other.state.values()]
        assert counts[0] is counts[1] and int(counts[0]) == 2
        plain = make("AdamW")
        plain.load_state_dict(optimizer.state_dict())
        assert [s["step"] for s in plain.state.values()] == [2, 2]


#===----------------------------------------------------------------------===#
# Scaled gradients
#===----------------------------------------------------------------------===#


def test_gradient_scalers(gpu):
    """Steps are skipped, and gradients divided, without synchronizing with the host."""
    def use(optimizer, scaler, taken):
        for seed in range(4):
            set_gradients(params_of(optimizer), seed)
            for p in params_of(optimizer):
                p.grad *= scaler.get_scale()
            if seed == 2:
                params_of(optimizer)[0].grad[3] = torch.inf
            scaler.scale(torch.ones(()))
            scaler.step(optimizer)
            scaler.update()

    def scaler():
        return torch.amp.GradScaler("cpu", init_scale=1024.0)

    want = make("AdamW", "fp32")
    use(want, scaler(), [])
    with gpu.holds_torch():
        got = make("AdamW", "fp32", capturable=True)
        assert got._step_supports_amp_scaling
        use(got, scaler(), [])
        assert {int(s["step"]) for s in got.state.values()} == {3}
    assert_same_steps(got, want)
    assert not want._step_supports_amp_scaling


#===----------------------------------------------------------------------===#
# Messages
#===----------------------------------------------------------------------===#


def test_messages(gpu):
    with pytest.raises(ValueError, match="parameter 0 is on the CPU, whose steps no CUDA"):
        make("AdamW", capturable=True)
    with pytest.raises(ValueError, match="Adafactor computes hyperparameters from the co"):
        tt.Adafactor(parameters([(3, 4)]), capturable=True)
    with gpu.holds_torch():
        with pytest.raises(ValueError, match="only the GPU will know whether a step is"):
            make("AdamW", skip_nonfinite=True)
        optimizer = make("AdamW", capturable=True)
        train(optimizer, [0])
        optimizer.param_groups[0]["lr"] = -1.0
        with pytest.raises(ValueError, match="'lr' of param group 0 is -1"):
            train(optimizer, [1])
        with pytest.raises(RuntimeError, match="create it with skip_nonfinite=True"):
            optimizer.skipped
