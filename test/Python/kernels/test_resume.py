#===- test_resume.py - Resumed runs ---------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that steps, a checkpoint and more steps give the same bytes as all steps in one
# run, and that a skipped step changes no byte, for every strategy of the library and those in f16,
# by SHA-256 over all planes.
#
#===----------------------------------------------------------------------===#

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tandem
from model import OUTSIDE_STRATEGIES, SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases
from support.fake_gpu import FakeGPU
from support.kernels import (STRATEGY_PATH, assert_same, compiled, integers_of, run,
                             seed_of)

LIBRARY = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
TANDEM_RUN = Path(tandem._tandem.__file__).parents[2] / "bin/tandem-run"
HALF, SIZE = 3, 300

every_strategy = pytest.mark.parametrize(
    "strategy", [*tandem.strategies(), *OUTSIDE_STRATEGIES])


def digest(planes):
    """Hashes names, types and bytes, sorted by name."""
    total = hashlib.sha256()
    for name in sorted(planes):
        array = np.ascontiguousarray(planes[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()


#===----------------------------------------------------------------------===#
# tandem-run
#===----------------------------------------------------------------------===#


def write_arrays(directory, planes):
    directory.mkdir(exist_ok=True)
    for name, plane in planes.items():
        np.save(directory / f"{name}.npy", plane)


def read_arrays(directory):
    return {path.stem: np.load(path) for path in directory.glob("*.npy")}


def gradients(kernel, strategy, steps):
    """Returns the gradient's planes for each step, with tandem-run's names."""
    planes = {}
    for number, step in enumerate(steps, 1):
        state = cases.state("adamw", LIBRARY[strategy], "ordinary", SIZE, seed=step)
        planes |= {f"{p.name}.{number}": state[p.name] for p in kernel.planes
                   if p.kind.name == "GRAD" and not p.persistent}
    return planes


def run_tool(kernel, strategy, directory, start, steps):
    """Returns the planes after some steps from `start`."""
    write_arrays(directory / "gradients", gradients(kernel, strategy, steps))
    hypers = cases.hypers("adamw", LIBRARY[strategy])
    subprocess.run(
        [TANDEM_RUN, "adamw", f"--strategy={strategy}",
         f"--strategy-path={STRATEGY_PATH}", f"--steps={len(steps)}", f"--step={steps[0]}",
         "--seed=11", "--key=3",
         f"--input={start},{directory / 'gradients'}", f"--output={directory / 'end'}",
         *(f"--set={name}={value!r}" for name, value in hypers.items())],
        check=True, capture_output=True)
    return directory / "end"


@every_strategy
def test_tandem_run_resumes(strategy, tmp_path):
    kernel = compiled("adamw", strategy)
    state = cases.state("adamw", LIBRARY[strategy], "ordinary", SIZE, seed=0)
    write_arrays(tmp_path / "start", {
        p.name: state[p.name] for p in kernel.planes if p.persistent or p.kind.name != "GRAD"})
    steps = range(1, 2 * HALF + 1)
    ends = []
    for name, start, part in [("whole", "start", steps), ("first", "start", steps[:HALF]),
                              ("second", "first/end", steps[HALF:])]:
        (tmp_path / name).mkdir()
        ends.append(read_arrays(run_tool(kernel, strategy, tmp_path / name,
                                         tmp_path / start, part)))
    whole, first, second = ends
    assert digest(second) == digest(whole) != digest(first)


#===----------------------------------------------------------------------===#
# tandem.torch
#===----------------------------------------------------------------------===#


def torch_planes(optimizer):
    from support.torch_bits import bits, params_of
    planes = {}
    for i, param in enumerate(params_of(optimizer)):
        planes[f"{i}"] = bits(param)
        for name, value in optimizer.state.get(param, {}).items():
            planes[f"{i}.{name}"] = (np.array(value) if isinstance(value, int)
                                     else bits(value))
    return planes


def make_torch(strategy, weights=None):
    """Returns an optimizer with two parameters in the strategy's dtype and one in float32."""
    torch = pytest.importorskip("torch")
    import tandem.torch as tt
    from support.torch_bits import VISIBLE, dtype_of, parameters
    dtype = dtype_of(strategy) if strategy in VISIBLE else torch.bfloat16
    if "fp8-lm" in strategy and not strategy.endswith("fp8-weight"):
        dtype = torch.float16
    params = weights or [*parameters([(17,), (3, 50)], dtype),
                         *parameters([(4,)], torch.float32)]
    eps = cases.hypers("adamw", LIBRARY[strategy])["eps"]
    return tt.AdamW(params, lr=1e-2, eps=eps, strategy=strategy, path=[STRATEGY_PATH],
                    seed=3, min_8bit_size=0)


@every_strategy
def test_torch_resumes(strategy, tmp_path):
    torch = pytest.importorskip("torch")
    from support.torch_bits import params_of, train
    optimizer = make_torch(strategy)
    train(optimizer, range(HALF))
    torch.save({"weights": params_of(optimizer), "state": optimizer.state_dict()},
               tmp_path / "checkpoint.pt")
    middle = digest(torch_planes(optimizer))
    train(optimizer, range(HALF, 2 * HALF))
    saved = torch.load(tmp_path / "checkpoint.pt")
    resumed = make_torch(strategy, saved["weights"])
    resumed.load_state_dict(saved["state"])
    assert digest(torch_planes(resumed)) == middle
    train(resumed, range(HALF, 2 * HALF))
    assert digest(torch_planes(resumed)) == digest(torch_planes(optimizer)) != middle
    assert resumed.param_groups[0].keys() == optimizer.param_groups[0].keys()


#===----------------------------------------------------------------------===#
# Skipped steps
#===----------------------------------------------------------------------===#


@every_strategy
@pytest.mark.parametrize("special", [float("inf"), -float("inf"), float("nan")])
def test_a_scaler_skips_what_is_not_finite(strategy, special):
    """PyTorch's GradScaler refuses float16 gradients, and it does not see coded gradients, which
    are not in p.grad."""
    torch = pytest.importorskip("torch")
    from support.torch_bits import VISIBLE, dtype_of, params_of, set_gradients, train
    if strategy not in VISIBLE or dtype_of(strategy) == torch.float16:
        pytest.skip("PyTorch's GradScaler refuses such gradients")
    optimizer, scaler = make_torch(strategy), torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.zeros(()))  # initializes the scaler
    train(optimizer, range(2))
    before = digest(torch_planes(optimizer))
    set_gradients(params_of(optimizer), 5)
    params_of(optimizer)[1].grad[1, 33] = special
    scaler.step(optimizer)
    assert digest(torch_planes(optimizer)) == before
    scaler.update()
    assert scaler.get_scale() == 2.0
    set_gradients(params_of(optimizer), 5)
    scaler.step(optimizer)
    assert digest(torch_planes(optimizer)) != before


@pytest.fixture(scope="module")
def gpu():
    return FakeGPU()


@every_strategy
def test_a_plan_skips_on_a_gpu(gpu, strategy):
    """A skipped step leaves everything that its launches would write, also scales and histories."""
    kernel = compiled("adamw", strategy, "sm_90")
    planes = cases.state("adamw", LIBRARY[strategy], "ordinary", SIZE,
                         seed_of("skip", strategy))
    hypers = cases.hypers("adamw", LIBRARY[strategy])
    plan, on_gpu = tandem.Plan(kernel, gpu.device), gpu.arrays(planes)
    plan.update([SIZE], [[on_gpu[p.name].address for p in kernel.planes]])
    found_inf = gpu.arrays({"": np.ones(1, np.float32)})[""]
    scalars = kernel.scalars(hypers | integers_of(kernel))
    for skips in (True, False):
        found_inf.write(np.full(1, skips, np.float32))
        plan.launch_async([scalars[0]], [scalars[1]], skip=found_inf.address)
        gpu.device.synchronize()
        gpu.check()
        got = {name: array.read() for name, array in on_gpu.items()}
        assert (digest(got) == digest(planes)) == skips
    assert_same(got, run(compiled("adamw", strategy), planes, hypers), strategy)
