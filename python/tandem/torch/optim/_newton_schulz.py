"""Orthogonalization of matrices by Newton-Schulz iterations, in PyTorch's products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

#: The types that an iteration computes in, by name.
_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
#: The coefficients of Amsel et al. 2025 (The Polar Express, algorithm 1) for a least singular
#: value of 1e-3. All steps except the last allow for errors of rounding by a factor of 1.01.
_POLAR_EXPRESS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)
_MARGIN = 1.01


def coefficients_of(given: object, steps: int) -> list[tuple[float, float, float]]:
    """Returns the coefficients of each step of an iteration.

    Args:
        given: three coefficients, a sequence of three for each step, whose last ones are
            repeated, or "polar_express".
        steps: the number of steps.
    """
    if isinstance(given, str):
        safe = [(a / _MARGIN, b / _MARGIN**3, c / _MARGIN**5) for a, b, c in _POLAR_EXPRESS[:-1]]
        given = [*safe, _POLAR_EXPRESS[-1]]
    elif not isinstance(given[0], Sequence):
        given = [given]
    return [tuple(given[min(step, len(given) - 1)]) for step in range(steps)]


def check_coefficients(group: Mapping, index: int) -> None:
    """Refuses invalid options of the iteration of a param group.

    Raises:
        ValueError: coefficients, steps or the type are none that :func:`newton_schulz` takes.
    """
    given, steps = group["ns_coefficients"], group["ns_steps"]
    rows = given if not isinstance(given, str) and given and isinstance(given[0], Sequence) else [given]
    if given != "polar_express" and not all(
            not isinstance(row, str) and len(row) == 3 for row in rows):
        raise ValueError(
            f"ns_coefficients of param group {index} is {given!r}; it is three numbers, a list of "
            "three numbers for each step, or 'polar_express'")
    if not isinstance(steps, int) or not 0 < steps < 100:
        raise ValueError(f"ns_steps of param group {index} is {steps!r}; it must be from 1 to 99")
    if group["precision"] not in _TYPES:
        raise ValueError(f"precision of param group {index} is {group['precision']!r}; it must be "
                         + ", ".join(map(repr, _TYPES)))


def newton_schulz(x: torch.Tensor, coefficients: object, steps: int, eps: float,
                  precision: str = "bf16") -> torch.Tensor:
    """Returns about the nearest matrix whose singular values are 1, U V^T of the singular value
    decomposition U S V^T.

    In bf16 it has the operations of torch.optim.Muon, and its bits where products have them.

    Args:
        x: a matrix, or a stack of matrices, which are computed one by one or in products of
            stacks, as PyTorch does.
        coefficients: those of :func:`coefficients_of`.
        steps: the number of steps.
        eps: the least norm by which the matrix is divided.
        precision: the type of the products: "bf16", "f16" or "f32".
    """
    y = x.to(_TYPES[precision]) if precision == "bf16" else x.float()
    is_tall = x.size(-2) > x.size(-1)
    y = y.mT if is_tall else y
    y = y / _norm(y).clamp(min=eps)
    if coefficients == "polar_express":
        y = y / _MARGIN
    y = y.to(_TYPES[precision])
    add = torch.addmm if y.dim() == 2 else _add_stacked
    for a, b, c in coefficients_of(coefficients, steps):
        gram = y @ y.mT
        update = add(gram, gram, gram, beta=b, alpha=c)
        y = add(y, update, y, beta=a)
    return y.mT if is_tall else y


def _norm(y: torch.Tensor) -> torch.Tensor:
    """Returns the norm of each matrix."""
    return y.norm() if y.dim() == 2 else y.flatten(-2).norm(dim=-1)[..., None, None]


def _add_stacked(added: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float,
                 alpha: float = 1.0) -> torch.Tensor:
    """Returns what torch.addmm does for each matrix of a stack."""
    folded = [tensor.reshape(-1, *tensor.shape[-2:]) for tensor in (added, left, right)]
    return torch.baddbmm(*folded, beta=beta, alpha=alpha).reshape(added.shape)
