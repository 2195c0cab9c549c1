"""SOAP, whose external steps turn tensors into the eigenbases of Shampoo's statistics."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import torch

from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._library import _given, _Library
from tandem.torch.optim._wrappers import is_flattened
from tandem.torch.optim.state._matching import IncompatibleKeys

#: The names of a dimension's statistics and basis in a state, before the dimension.
STATISTICS, BASIS = "GG", "Q"
#: Options of other libraries' SOAP, and the values that they share with this one.
_PEERS_OPTIONS = {"merge_dims": False, "precondition_1d": False, "normalize_grads": False,
                  "normalize_gradient": False}

#===------------------------------------------------------------------------===#
# External steps
#===------------------------------------------------------------------------===#


def kept_tensors(most: int, shape: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Returns the shapes of what external steps keep for a parameter: statistics and a basis for
    each of its dimensions of at most this size."""
    return {f"{kind}.{dim}": (size, size) for dim, size in enumerate(shape) if size <= most
            for kind in (STATISTICS, BASIS)}


def rotate(tensors: list[torch.Tensor], group: Mapping, states: Mapping) -> torch.Tensor:
    """Computes the external step "rotate" of the graph "soap" for one parameter: returns the
    gradient in the bases, and adds it to the statistics. The first step finds the bases, and
    nothing else of it counts."""
    (gradient,) = tensors
    is_first = states["step"] == 1
    found = gradient if is_first else rotated(gradient, states)
    beta = shampoo_beta(group)
    for dim in _dims(states):
        others = [other for other in range(gradient.dim()) if other != dim]
        product = torch.tensordot(gradient, gradient, dims=[others, others])
        states[f"{STATISTICS}.{dim}"].lerp_(product, 1 - beta)
        if is_first:
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


def _dims(states: Mapping) -> list[int]:
    """Returns the dimensions that have a basis."""
    return [int(name.partition(".")[2]) for name in states if name.startswith(f"{BASIS}.")]


def rotated(tensor: torch.Tensor, states: Mapping, back: bool = False) -> torch.Tensor:
    """Returns a tensor in the bases of its dimensions, or out of these back in its own
    coordinates."""
    for dim in range(tensor.dim()):
        basis = states.get(f"{BASIS}.{dim}")
        tensor = (tensor.movedim(0, -1) if basis is None
                  else torch.tensordot(tensor, basis, dims=[[0], [int(back)]]))
    return tensor


def eigenbasis(statistics: torch.Tensor) -> torch.Tensor:
    """Returns the eigenvectors of a dimension's statistics, by descending eigenvalues."""
    raised = 1e-30 * torch.eye(len(statistics), device=statistics.device)
    try:
        _, basis = torch.linalg.eigh(statistics + raised)
    except torch.linalg.LinAlgError:
        _, basis = torch.linalg.eigh(statistics.double() + raised)
    return basis.flip(1).to(statistics.dtype)


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
# The optimizer
#===------------------------------------------------------------------------===#


class _SOAPHypers(Hypers):
    """SOAP's hyperparameters."""

    count = "step"

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
        beta, every = group["shampoo_beta"], group["precondition_frequency"]
        if not (beta in (None, -1) or isinstance(beta, (int, float)) and 0 <= beta <= 1):
            raise ValueError(f"shampoo_beta of param group {index} is {beta!r}; it must be from 0 to 1, or "
                             "None for the second of betas")
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"precondition_frequency of param group {index} is {every!r}; it must be a "
                             "number of steps, at least 1")
        for param in filter(is_flattened, group["params"]):
            raise ValueError(
                f"a parameter of param group {index} is sharded by FSDP1, which flattens matrices, so "
                "that they have no bases; shard the model with fully_shard (FSDP2)")

    @property
    def flags(self) -> list[str]:
        return [*super().flags, *_PEERS_OPTIONS]

    def check_flags(self, group: Mapping, index: int) -> None:
        for name, ours in _PEERS_OPTIONS.items():
            if group.get(name, ours) != ours:
                raise ValueError(f"param group {index} has {name}={group[name]!r}, which SOAP here does "
                                 f"not compute; it takes only {name}={ours}")
        super().check_flags({k: v for k, v in group.items() if k not in _PEERS_OPTIONS}, index)


class SOAP(_Library):
    """SOAP (Vyas et al. 2024): AdamW in the eigenbases of Shampoo's statistics, as in the authors'
    code.

    Each dimension of a parameter with two and more has statistics ``GG.<dim>``, an average of the
    gradient's products with itself, and their eigenvectors ``Q.<dim>``, both float32 and square.
    PyTorch computes them and the products that turn gradient and update; everything else is three
    kernels. Moments are in the bases' coordinates. Vectors have AdamW's step. The first step only finds the bases and changes no
    weight, as in the authors' code.

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
        if not isinstance(max_precond_dim, int) or max_precond_dim < 0:
            raise ValueError(f"max_precond_dim is {max_precond_dim!r}; it must be a number of elements")
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "soap", vectors="soap_vector",
                         external={"rotate": rotate, "rotate_back": rotate_back},
                         external_states=functools.partial(kept_tensors, max_precond_dim),
                         **hypers, **options)

    def _defaults(self) -> dict:
        """Returns the defaults of a param group. The kernels know only some of them."""
        defaults = super()._defaults()
        return {name: value for name, value in defaults.items() if name not in ("rate", "moves")} | self._own

    def load_state_dict(self, state_dict: dict, strict: bool = True,
                        convert: bool = True) -> IncompatibleKeys | None:
        """Loads a state, which may be one of the authors' SOAP or of pytorch_optimizer.SOAP."""
        states = {key: _counted(state) for key, state in state_dict["state"].items()}
        return super().load_state_dict({**state_dict, "state": states}, strict, convert)


def _counted(state: dict) -> dict:
    """Returns a parameter's state whose count includes the first step. The authors' does not."""
    return state | {"step": state["step"] + 1} if {"GG", "step"} <= set(state) else state
