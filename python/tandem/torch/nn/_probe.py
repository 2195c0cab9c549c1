"""Probes, which test whether two modules compute the same by running both on random inputs.

A probe runs copies with random parameters. It thus does not depend on a module's current values,
which may be zeros or on the meta device, and does not change the module.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

#: The attributes with a module's hooks.
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
         "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
         "_load_state_dict_post_hooks")

#: The allowed relative error, by the norm, of an output or gradient in float32 on a CPU. Other
#: implementations of exp and erf stay below it; GELU by tanh instead of erf exceeds it
#: tenfold.
_CLOSE = 3e-5

#: The leading shapes of further inputs. A module must also accept a batch of sequences: a group
#: norm accepts (3, columns) too, for which it computes the same as a layer norm.
_OTHER_ROWS = ((3,), (2, 2, 3))


@dataclass(frozen=True)
class Inputs:
    """The random inputs of a probe: their columns and their magnitudes."""

    columns: int
    magnitudes: tuple[float, ...]


class CannotProve(Exception):
    """Raised with the reason why comparing a module's results would not be sufficient."""


class NotAlike(Exception):
    """Raised with the name and the error of the result that differs the most."""

    def __init__(self, name: str, error: float):
        what = (f"the relative error of its {name} is {error:.2g}" if error < math.inf
                else f"its {name} has another type or shape")
        super().__init__(what)
        self.error = error


def check_alike(old: torch.nn.Module, build: Callable[[torch.nn.Module], torch.nn.Module],
                inputs: Inputs) -> None:
    """Compares a module with the one that ``build`` creates from it.

    Both have the same random parameters and run in training and in evaluation mode, first in
    float32 on the CPU, then in the module's own type on its own device. Linear layers inside the
    module are replaced by small ones, so that the time does not depend on their size.

    Raises:
        NotAlike: outputs or gradients differ.
        CannotProve: the module draws random numbers, changes its attributes, or does not run on
            such inputs.
    """
    generator = torch.Generator().manual_seed(2024)
    with _apart():
        for device, dtype, magnitudes in _devices_to_try(old, inputs.magnitudes):
            copied = _copy_of(old, lambda shape: _parameter(shape, generator).to(device, dtype))
            rows = [((2, 5), size) for size in magnitudes] + [(each, 1.0) for each in _OTHER_ROWS]
            draws = [(_draw((*each, inputs.columns), generator) * size).to(device, dtype)
                     for each, size in rows]
            _compare(copied, build(copied), draws, _allowed(device, dtype))


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Returns a context that preserves the state of random generators and sets the modes for
    probes."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with (torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad(),
          torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False),
          _no_global_hooks()):
        yield


@contextlib.contextmanager
def _no_global_hooks() -> Iterator[None]:
    """Returns a context without global module hooks."""
    hooks = [getattr(torch.nn.modules.module, f"_global{kind}") for kind in HOOKS[:4]]
    kept = [dict(each) for each in hooks]
    try:
        for each in hooks:
            each.clear()
        yield
    finally:
        for each, entries in zip(hooks, kept, strict=True):
            each.update(entries)


def _devices_to_try(module: torch.nn.Module, magnitudes: Sequence[float]
            ) -> list[tuple[torch.device, torch.dtype, Sequence[float]]]:
    """Returns the devices and types in which a probe runs, and the magnitudes of its inputs."""
    cpu = torch.device("cpu")
    devices = [(cpu, torch.float32, magnitudes)]
    for parameter in module.parameters():
        device = parameter.device if parameter.device.type == "cuda" else cpu
        if (device, parameter.dtype) != (cpu, torch.float32):
            devices.append((device, parameter.dtype, (1.0,)))
        break
    return devices


def _allowed(device: torch.device, dtype: torch.dtype) -> float:
    """Returns the allowed error. Results in other types are rounded more than once, and a GPU
    may use TF32."""
    if (device.type, dtype) == ("cpu", torch.float32):
        return _CLOSE
    return max(2 * torch.finfo(dtype).eps, 2e-3)


def _draw(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32, device="cpu")


def _parameter(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Returns a random matrix whose products preserve magnitudes, or another random
    parameter."""
    values = _draw(shape, generator)
    return values / math.sqrt(shape[-1]) if len(shape) == 2 else values + 0.25


def _copy_of(module: torch.nn.Module,
             draw: Callable[[Sequence[int]], torch.Tensor]) -> torch.nn.Module:
    """Returns a copy of a module and its submodules with random parameters, linear layers
    without hooks, and copied containers, so that its forward pass does not write to the
    original."""
    sizes = small_sizes(module)

    def copied(old: torch.nn.Module) -> torch.nn.Module:
        new = _small(old, sizes) if isinstance(old, torch.nn.Linear) else copy.copy(old)
        own = vars(new)
        own.update({name: copy.copy(value) for name, value in own.items()
                    if isinstance(value, list | dict | set)})
        own["_parameters"] = {name: p if p is None else torch.nn.Parameter(draw(p.shape))
                              for name, p in new._parameters.items()}
        own["_modules"] = {name: child and copied(child) for name, child in old._modules.items()}
        return new

    return copied(module)


def small_sizes(module: torch.nn.Module) -> dict[int, int]:
    """Returns the sizes of a module's linear layers in its probe, which are small, and different
    if the original sizes are."""
    sizes = sorted({size for layer in module.modules() if isinstance(layer, torch.nn.Linear)
                    for size in (layer.in_features, layer.out_features)})
    return {size: min(size, 32 + 16 * at) for at, size in enumerate(sizes)}


def _small(layer: torch.nn.Linear, sizes: dict[int, int]) -> torch.nn.Linear:
    return torch.nn.Linear(sizes[layer.in_features], sizes[layer.out_features],
                           layer.bias is not None, device="meta")


def _compare(old: torch.nn.Module, new: torch.nn.Module, draws: Sequence[torch.Tensor],
             allowed: float) -> None:
    """Compares both modules on all inputs that the old one accepts."""
    before, worst = _attributes(old), (0.0, "")
    for training in (True, False):
        old.train(training)
        new.train(training)
        for x in draws:
            worst = max(worst, _difference(old, new, x, allowed))
    if _attributes(old) != before:
        raise CannotProve("its forward pass changes its attributes")
    if worst[0] > allowed:
        raise NotAlike(worst[1], worst[0])


def _difference(old: torch.nn.Module, new: torch.nn.Module, x: torch.Tensor,
                allowed: float) -> tuple[float, str]:
    """Returns the error and the name of the first result that differs."""
    parameters = dict(old.named_parameters())
    try:
        want = _results(old, x, parameters)
    except CannotProve:
        if x.dim() == 3:
            raise
        return 0.0, ""
    names = ["output", "input's gradient", *(f"gradient of {name}" for name in parameters)]
    errors = map(_error, _results(new, x, parameters), want)
    return next((pair for pair in zip(errors, names) if not pair[0] <= allowed), (0.0, ""))


def _attributes(module: torch.nn.Module) -> dict[tuple, tuple]:
    """Returns everything that a forward pass might change: attributes, and the lengths of
    containers."""
    return {(at, name): (id(value), len(value) if isinstance(value, list | dict | set) else 0)
            for at, part in enumerate(module.modules())
            for name, value in vars(part).items() if name != "training"}


def _results(module: torch.nn.Module, x: torch.Tensor,
             parameters: Mapping[str, torch.nn.Parameter]) -> list[torch.Tensor | None]:
    """Returns a module's output, and the gradients of its input and parameters."""
    generator = torch.Generator().manual_seed(7)
    before = torch.get_rng_state()
    x = x.clone().requires_grad_()
    try:
        y = module(x)
        dy = _draw(y.shape, generator).to(y.device, y.dtype)
        leaves = [x, *parameters.values()]
        results = [y, *torch.autograd.grad(y, leaves, dy, allow_unused=True)]
    except Exception as error:  # A user's module may raise anything.
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise CannotProve(f"it does not run on drawn inputs: {what}") from error
    if not torch.equal(before, torch.get_rng_state()):
        raise CannotProve("it draws random numbers, as dropout does")
    return results


def _error(got: torch.Tensor | None, want: torch.Tensor | None) -> float:
    """Returns the error relative to the norm. It is infinite if only one tensor exists, the
    types differ, or a number is not finite."""
    if got is None or want is None:
        return 0.0 if got is want else math.inf
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return math.inf
    got, want = got.detach().double(), want.detach().double()
    error = float((got - want).norm() / want.norm().clamp_min(torch.finfo(torch.float32).tiny))
    return error if math.isfinite(error) else math.inf
