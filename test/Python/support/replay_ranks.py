#===- replay_ranks.py - Replayed steps of DTensors ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_replay_ranks.py: replayed steps over DTensors, and
# changes between two steps.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import (DTensor, Partial, Replicate, Shard, distribute_tensor,
                                      init_device_mesh)

import tandem.torch as tt
from support.gloo import error_text
from tandem.torch._exchange import Exchange
from tandem.torch.optim.launch._runner import StepRunner

SHAPES = [(17,), (30, 5), (8, 4), (1, 3)]

#: Steps of several kinds: (optimizer, options).
OPTIMIZERS = {
    "elements": ("AdamW", {}),
    "a sum of all": ("AdamW", {"max_norm": 0.5}),
    "metrics": ("AdamW", {"metrics": True, "skip_nonfinite": True}),
    "tensors": ("LAMB", {}),
    "rows and columns": ("Adafactor", {}),
    "random bits": ("AdamW", {"strategy": "bf16-stochastic"}),
}


def mesh():
    return init_device_mesh("cpu", (dist.get_world_size(),))


def values(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).bfloat16() for shape in SHAPES]


def make(on, optimizer="AdamW", **options):
    """Returns an optimizer of parameters sharded by rows, a replicated one, and a plain one."""
    placements = [[Shard(0)]] * 3 + [[Replicate()]]
    params = [torch.nn.Parameter(distribute_tensor(value, on, where))
              for value, where in zip(values(0), placements)]
    params.append(torch.nn.Parameter(values(1)[1]))
    options = {"lr": 1e-2, "strategy": "collage-plus"} | options
    return getattr(tt, optimizer)([{"params": params[:2]}, {"params": params[2:], "lr": 0.1}],
                                  **options)


def params_of(optimizer):
    return [param for group in optimizer.param_groups for param in group["params"]]


def set_gradients(optimizer, seed):
    for param, value in zip(params_of(optimizer), [*values(seed), values(seed + 100)[1]]):
        param.grad = (distribute_tensor(value, param.device_mesh, param.placements)
                      if isinstance(param, DTensor) else value)


def bits(optimizer):
    """Returns all bits of weights and states on this rank."""
    found = []
    for param in params_of(optimizer):
        for value in (param.detach(), *optimizer.state[param].values()):
            local = value.to_local() if isinstance(value, DTensor) else value
            found.append(local.contiguous().reshape(-1).view(torch.uint8).tolist()
                         if isinstance(local, torch.Tensor) else local)
    return found


class Runs:
    """Counts the steps that check everything."""

    def __enter__(self):
        self.count, self._run = 0, StepRunner._run

        def run(steps, *arguments):
            self.count += 1
            return self._run(steps, *arguments)

        StepRunner._run = run
        return self

    def __exit__(self, *_):
        StepRunner._run = self._run


class Unwatched:
    """Makes each step check everything."""

    def __enter__(self):
        self._watched, StepRunner._watched = StepRunner._watched, lambda *_: None

    def __exit__(self, *_):
        StepRunner._watched = self._watched


#===----------------------------------------------------------------------===#
# Replayed steps
#===----------------------------------------------------------------------===#


def _train(name, steps=5):
    kind, options = OPTIMIZERS[name]
    optimizer = make(mesh(), kind, **options)
    for seed in range(steps):
        set_gradients(optimizer, seed)
        optimizer.step()
    return bits(optimizer)


def repeats():
    """Returns, for each optimizer, the number of steps that checked everything, and whether bits
    match steps that all do."""
    found = {}
    for name in OPTIMIZERS:
        with Runs() as runs:
            got = _train(name)
        with Unwatched():
            found[name] = [runs.count, got == _train(name)]
    return found


#===----------------------------------------------------------------------===#
# Changes
#===----------------------------------------------------------------------===#


def _late(tensor):
    """Returns a DTensor whose shard a collective may still write."""
    waiting = AsyncCollectiveTensor(tensor._local_tensor.clone())
    return DTensor(waiting, tensor._spec, requires_grad=False)


def _set_local(tensor, local):
    tensor._local_tensor = local


def _partial(optimizer):
    param = params_of(optimizer)[3]
    param.grad = DTensor.from_local(param.grad._local_tensor, param.device_mesh, [Partial()],
                                    run_check=False)


def _other_mesh(optimizer):
    grad = params_of(optimizer)[1].grad
    other = init_device_mesh("cpu", (1, dist.get_world_size()))
    params_of(optimizer)[1].grad = DTensor.from_local(
        grad._local_tensor, other, [Replicate(), Shard(0)], run_check=False, shape=grad.shape,
        stride=grad.stride())


def _equal_mesh(optimizer):
    grad = params_of(optimizer)[1].grad
    params_of(optimizer)[1].grad = DTensor.from_local(
        grad._local_tensor, mesh(), grad.placements, run_check=False, shape=grad.shape,
        stride=grad.stride())


def _swap_planes(optimizer):
    state = optimizer.state[params_of(optimizer)[1]]
    _set_local(state["exp_avg"], state["exp_avg"]._local_tensor * 2)


def _swap_weight(optimizer):
    param = params_of(optimizer)[1]
    _set_local(param, param._local_tensor * 2)


def _wide(optimizer):
    param = params_of(optimizer)[4]
    param.register_hook(lambda grad: grad)
    param.grad = param.grad[:, [0, 1, 2, 3, 4]].t().contiguous().t()


#: Changes between two steps whose gradients are set.
CHANGES = {
    "nothing": lambda o: None,
    "a rate": lambda o: o.param_groups[1].update(lr=0.5),
    "no gradient": lambda o: setattr(params_of(o)[1], "grad", None),
    "a gradient that is on its way": lambda o: setattr(
        params_of(o)[1], "grad", _late(params_of(o)[1].grad)),
    "a weight that is on its way": lambda o: _set_local(
        params_of(o)[1], AsyncCollectiveTensor(params_of(o)[1]._local_tensor)),
    "a gradient on an equal mesh": _equal_mesh,
    "a gradient with gaps": _wide,
    "a piece of the weight elsewhere": _swap_weight,
    "a piece of a plane elsewhere": _swap_planes,
    "a count": lambda o: o.state[params_of(o)[0]].update(step=100),
    "a sum": _partial,
    "another mesh": _other_mesh,
    "a whole gradient": lambda o: setattr(params_of(o)[1], "grad",
                                          params_of(o)[1].grad.full_tensor()),
}


def _change(name, at=3):
    """Takes steps with a change before one of them; returns the error of that one."""
    optimizer, error = make(mesh(), max_norm=0.5), "no error"
    for seed in range(5):
        set_gradients(optimizer, seed)
        if seed == at:
            CHANGES[name](optimizer)
            error = error_text(optimizer.step)
        else:
            optimizer.step()
    return [error, bits(optimizer)]


def changes():
    """Returns, for each change, the number of steps that checked everything, the error, and
    whether both ways to step agree."""
    found = {}
    for name in CHANGES:
        with Runs() as runs:
            got = _change(name)
        with Unwatched():
            found[name] = [runs.count, got[0], got == _change(name)]
    return found


def one_rank_looks():
    """Moves a shard in memory on the last rank, where only that step checks everything."""
    def run():
        optimizer = make(mesh(), max_norm=0.5)
        for seed in range(5):
            set_gradients(optimizer, seed)
            if seed == 3 and dist.get_rank() == dist.get_world_size() - 1:
                param = params_of(optimizer)[1]
                _set_local(param, param._local_tensor.clone())
            optimizer.step()
        return bits(optimizer)

    with Runs() as runs:
        got = run()
    with Unwatched():
        return [runs.count, got == run()]


def disagree():
    """Changes the learning rate on the last rank only, after replayed steps."""
    optimizer = make(mesh(), max_norm=0.5)
    for seed in range(3):
        set_gradients(optimizer, seed)
        optimizer.step()
    before = bits(optimizer)
    set_gradients(optimizer, 3)
    if dist.get_rank() == dist.get_world_size() - 1:
        optimizer.param_groups[0]["lr"] = 0.5
    with Runs() as runs:
        return [error_text(optimizer.step), runs.count, before == bits(optimizer)]


def gathered():
    """Ranks exchange which gradients they have of a parameter that all gather, in every step, so
    no step is replayed, even while no rank has a gradient."""
    checks = []
    check = Exchange.check
    Exchange.check = lambda self, *given: (checks.append(1), check(self, *given))
    try:
        optimizer = make(mesh(), strategy="coat", min_8bit_size=0)
        with Runs() as runs:
            for seed in range(3):
                set_gradients(optimizer, seed)
                params_of(optimizer)[0].grad = None
                optimizer.step()
    finally:
        Exchange.check = check
    return [runs.count, len(checks)]
