"""SOAP and Shampoo, whose external steps multiply tensors by matrices of a parameter's dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import torch

from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._library import _given, _Library
from tandem.torch.optim._wrappers import is_flattened
from tandem.torch.optim.state._matching import IncompatibleKeys

#: The names of a dimension's statistics, basis and inverse root in a state, before the dimension.
STATISTICS, BASIS, ROOT = "GG", "Q", "inverse_root"

#===------------------------------------------------------------------------===#
# External steps
#===------------------------------------------------------------------------===#


def kept_tensors(kind: str, most: int, shape: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Returns the shapes of what external steps keep for a parameter: statistics and a matrix of
    this kind for each of its dimensions of at most this size."""
    return {f"{name}.{dim}": (size, size) for dim, size in enumerate(shape) if size <= most
            for name in (STATISTICS, kind)}


def rotate(tensors: list[torch.Tensor], group: Mapping, states: Mapping) -> torch.Tensor:
    """Computes the external step "rotate" of the graph "soap" for one parameter: returns the
    gradient in the bases, and adds it to the statistics. The first step finds the bases, and
    nothing else of it counts."""
    (gradient,) = tensors
    is_first = states["step"] == 1
    found = gradient if is_first else rotated(gradient, states)
    add_to_statistics(gradient, group, states)
    for dim in _dims(states) if is_first else ():
        states[f"{BASIS}.{dim}"].copy_(eigenbasis(states[f"{STATISTICS}.{dim}"]))
    return found


def rotate_back(tensors: list[torch.Tensor], group: Mapping,
                states: Mapping) -> Sequence[torch.Tensor]:
    """Computes the external step "rotate_back" of the graph "soap" for one parameter: returns the
    direction in the parameter's coordinates and the momentum in the bases, which are corrected at
    times."""
    direction, momentum = tensors
    update, count = rotated(direction, states, back=True), states["step"] - 1
    if count and not count % group["precondition_frequency"]:
        momentum = rotated(momentum, states, back=True)
        for dim in _dims(states):
            basis = states[f"{BASIS}.{dim}"]
            basis.copy_(corrected_basis(states[f"{STATISTICS}.{dim}"], basis))
        momentum = rotated(momentum, states)
    return update, momentum


def precondition(tensors: list[torch.Tensor], group: Mapping, states: Mapping) -> torch.Tensor:
    """Computes the external step "precondition" of the graph "shampoo" for one parameter: returns
    the first moment times the inverse roots, with the norm of Adam's update; Adam's update itself
    in the first steps, and for parameters without statistics."""
    gradient, momentum, grafted = tensors
    add_to_statistics(gradient, group, states)
    dims, step = _dims(states), states["step"]
    since = step - start_of(group)
    if since < 0 or not dims:
        return grafted
    if not since % group["precondition_frequency"]:
        weight = 1 - shampoo_beta(group)**step
        for dim in dims:
            states[f"{ROOT}.{dim}"].copy_(inverse_root(
                states[f"{STATISTICS}.{dim}"], weight, 2 * len(dims), group["precond_eps"]))
    found = rotated(momentum, states, kind=ROOT)
    return found * (grafted.norm() / found.norm().clamp(min=1e-16))


def add_to_statistics(gradient: torch.Tensor, group: Mapping, states: Mapping) -> None:
    """Adds the products of a gradient with itself to the statistics of each dimension."""
    for dim in _dims(states):
        others = [other for other in range(gradient.dim()) if other != dim]
        product = torch.tensordot(gradient, gradient, dims=[others, others])
        states[f"{STATISTICS}.{dim}"].lerp_(product, 1 - shampoo_beta(group))


def _dims(states: Mapping) -> list[int]:
    """Returns the dimensions that have statistics."""
    return [int(name.partition(".")[2]) for name in states if name.startswith(f"{STATISTICS}.")]


def rotated(tensor: torch.Tensor, states: Mapping, back: bool = False,
            kind: str = BASIS) -> torch.Tensor:
    """Returns a tensor in the bases of its dimensions, or out of these back in its own
    coordinates; or its product with other matrices of its dimensions."""
    for dim in range(tensor.dim()):
        basis = states.get(f"{kind}.{dim}")
        tensor = (tensor.movedim(0, -1) if basis is None
                  else torch.tensordot(tensor, basis, dims=[[0], [int(back)]]))
    return tensor


def eigenbasis(statistics: torch.Tensor) -> torch.Tensor:
    """Returns the eigenvectors of a dimension's statistics, by descending eigenvalues."""
    raised = 1e-30 * torch.eye(len(statistics), device=statistics.device)
    return _eigen(statistics + raised)[1].flip(1)


def _eigen(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the eigenvalues, ascending, and the eigenvectors of a symmetric matrix."""
    try:
        return tuple(torch.linalg.eigh(matrix))
    except torch.linalg.LinAlgError:
        values, vectors = torch.linalg.eigh(matrix.double())
        return values.to(matrix.dtype), vectors.to(matrix.dtype)


def inverse_root(statistics: torch.Tensor, weight: float, root: int,
                 eps: float) -> torch.Tensor:
    """Returns the inverse of a root of a dimension's statistics, as Shi et al. 2023 compute it.

    Args:
        statistics: an average that has begun as zero.
        weight: the sum of the weights in the average.
        root: the root, 4 for a matrix.
        eps: the number that is added to eigenvalues after negative ones are raised to 0.
    """
    values, vectors = _eigen(statistics / weight)
    values = values - values[:1].clamp(max=0) + eps
    return (vectors * values.pow(-1 / root)) @ vectors.T


def corrected_basis(statistics: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Returns a basis after a step of power iteration and a QR decomposition, which begins with the
    vectors of the largest eigenvalues.

    Vectors keep their places, since the second moment has an entry for each. The authors' code
    orders both anew.
    """
    product = statistics @ basis
    order = torch.argsort((basis * product).sum(dim=0), descending=True)
    found, _ = torch.linalg.qr(product[:, order])
    return torch.empty_like(found).index_copy_(1, order, found)


def shampoo_beta(group: Mapping) -> float:
    """Returns the decay of a param group's statistics."""
    beta = group["shampoo_beta"]
    return float(group["betas"][1] if beta is None or beta == -1 else beta)


#===------------------------------------------------------------------------===#
# The optimizers
#===------------------------------------------------------------------------===#


class _SOAPHypers(Hypers):
    """SOAP's hyperparameters."""

    count = "step"
    peers_options = dict.fromkeys(
        ("merge_dims", "precondition_1d", "normalize_grads", "normalize_gradient"), (False,))

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name == "moves":
            return float(step > 1)
        if name == "rate":
            return self._rate(group, index, max(step - 1, 1))
        return super().value_at(name, group, index, step, dtype, shape)

    def _rate(self, group: Mapping, index: int, count: int) -> float:
        """Returns the learning rate after the correction of both moments, which have moved `count`
        times."""
        lr, beta1, beta2 = (self.number(name, group, index) for name in ("lr", "beta1", "beta2"))
        if not (group["correct_bias"] and max(beta1, beta2) < 1):  # kernels refuse others
            return lr
        return lr * (math.sqrt(1 - beta2**count) / (1 - beta1**count))

    def check(self, group: Mapping, index: int) -> None:
        _check_statistics(group, index)


def _check_statistics(group: Mapping, index: int) -> None:
    """Refuses options of statistics, and parameters that have none."""
    beta, every = group["shampoo_beta"], group["precondition_frequency"]
    if not (beta in (None, -1) or isinstance(beta, (int, float)) and 0 <= beta < 1):
        raise ValueError(f"shampoo_beta of param group {index} is {beta!r}; it must be from 0 to below 1, "
                         "or None for the second of betas")
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"precondition_frequency of param group {index} is {every!r}; it must be a "
                         "number of steps, at least 1")
    for param in filter(is_flattened, group["params"]):
        raise ValueError(
            f"a parameter of param group {index} is sharded by FSDP1, which flattens matrices, so "
            "that they have no statistics; shard the model with fully_shard (FSDP2)")


def _kept(kind: str, most: int) -> functools.partial:
    """Returns the function for ``external_states``."""
    if not isinstance(most, int) or most < 0:
        raise ValueError(f"max_precond_dim is {most!r}; it must be a number of elements")
    return functools.partial(kept_tensors, kind, most)


class SOAP(_Library):
    """SOAP (Vyas et al. 2024): AdamW in the eigenbases of Shampoo's statistics, as in the authors'
    code.

    Each dimension of a parameter with two and more has statistics ``GG.<dim>``, an average of the
    gradient's products with itself, and their eigenvectors ``Q.<dim>``, both float32 and square.
    PyTorch computes them and the products that turn gradient and update; everything else is three
    kernels. Moments are in the bases' coordinates. Vectors have AdamW's step. The first step only
    finds the bases and changes no weight, as in the authors' code.

    Args:
        lr: the learning rate (3e-3).
        betas: the decays of both moments (0.95, 0.95).
        shampoo_beta: the decay of the statistics; None for the second of ``betas``.
        eps: the number that is added to the root of the second moment (1e-8).
        weight_decay: the decay, which is applied after the update (0.01).
        precondition_frequency: the number of steps between corrections of the bases.
        max_precond_dim: the largest dimension that has a basis; the others keep their coordinates.
        correct_bias: whether the rate has AdamW's correction of the first steps.
    """

    _HYPERS = _SOAPHypers

    def __init__(self, params: Iterable, lr=None, betas=None, shampoo_beta: float | None = None,
                 eps=None, weight_decay=None, precondition_frequency: int = 10,
                 max_precond_dim: int = 10000, *, correct_bias: bool = True, **options):
        self._own = {"shampoo_beta": shampoo_beta, "precondition_frequency": precondition_frequency,
                     "correct_bias": bool(correct_bias)}
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "soap", vectors="soap_vector",
                         external={"rotate": rotate, "rotate_back": rotate_back},
                         external_states=_kept(BASIS, max_precond_dim), **hypers, **options)

    def _defaults(self) -> dict:
        """Returns the defaults of a param group. The kernels know only some of them."""
        defaults = super()._defaults()
        return {name: value for name, value in defaults.items() if name not in ("rate", "moves")} | self._own

    def load_state_dict(self, state_dict: dict, strict: bool = True,
                        convert: bool = True) -> IncompatibleKeys | None:
        """Loads a state, which may be one of the authors' SOAP or of pytorch_optimizer.SOAP."""
        states = {key: _as_here(state) for key, state in state_dict["state"].items()}
        return super().load_state_dict({**state_dict, "state": states}, strict, convert)


def _as_here(state: dict) -> dict:
    """Returns a parameter's state of another library with this one's count and coordinates. The
    authors' count does not include the first step; pytorch_optimizer counts for a group, and keeps
    the first moment in the parameter's own coordinates."""
    if "GG" not in state:
        return state
    if "step" in state:
        return state | {"step": state["step"] + 1}
    bases = {f"{BASIS}.{dim}": basis.float() for dim, basis in enumerate(state["Q"]) if len(basis)}
    return state | {"exp_avg": rotated(state["exp_avg"].float(), bases)}


class _ShampooHypers(Hypers):
    """Shampoo's hyperparameters."""

    def check(self, group: Mapping, index: int) -> None:
        _check_statistics(group, index)
        start, eps = group["start_preconditioning_step"], group["precond_eps"]
        if not (start is None or isinstance(start, int) and start >= 1):
            raise ValueError(f"start_preconditioning_step of param group {index} is {start!r}; it must be "
                             "the number of a step, or None for precondition_frequency")
        if not (isinstance(eps, (int, float)) and eps > 0):
            raise ValueError(f"precond_eps of param group {index} is {eps!r}; it must be above 0")


def start_of(group: Mapping) -> int:
    """Returns the first step with inverse roots."""
    start = group["start_preconditioning_step"]
    return group["precondition_frequency"] if start is None else start


class Shampoo(_Library):
    """Shampoo (Gupta et al. 2018) with the step sizes of Adam, as Shi et al. 2023 have it.

    Each dimension of a parameter with two and more has statistics ``GG.<dim>``, an average of the
    gradient's products with itself, and their ``inverse_root.<dim>``, both float32 and square. An
    update is the first moment times the inverse fourth roots of both dimensions of a matrix, or the
    inverse square root of one if only one has statistics, and has the norm of Adam's update
    ("grafting"). PyTorch computes these products; everything else is two kernels. Vectors have
    AdamW's step, with decay inside the update, as for matrices.

    Args:
        lr: the learning rate (1e-3).
        betas: the decays of Adam's moments (0.9, 0.999).
        shampoo_beta: the decay of the statistics; None for the second of ``betas``.
        eps: Adam's epsilon (1e-8).
        weight_decay: the decay, which is added to the update (0.01).
        precondition_frequency: the number of steps between computations of the inverse roots.
        max_precond_dim: the largest dimension that has statistics.
        start_preconditioning_step: the step from which inverse roots are used; before, updates are
            Adam's. None for ``precondition_frequency``.
        precond_eps: the number that is added to the eigenvalues of the statistics.
    """

    _HYPERS = _ShampooHypers

    def __init__(self, params: Iterable, lr=None, betas=None, shampoo_beta: float | None = None,
                 eps=None, weight_decay=None, precondition_frequency: int = 10,
                 max_precond_dim: int = 10000, *, start_preconditioning_step: int | None = None,
                 precond_eps: float = 1e-12, **options):
        self._own = {"shampoo_beta": shampoo_beta, "precondition_frequency": precondition_frequency,
                     "start_preconditioning_step": start_preconditioning_step,
                     "precond_eps": precond_eps}
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "shampoo", vectors="adamw", external={"precondition": precondition},
                         external_states=_kept(ROOT, max_precond_dim), **hypers, **options)

    def _defaults(self) -> dict:
        """Returns the defaults of a param group. The kernels know only some of them."""
        return super()._defaults() | self._own
