"""The sharpness of a language model's loss around the logits of its last token."""

from __future__ import annotations

import torch

from tandem._sharpness import last_tokens
from tandem._sharpness_options import FTOL, GTOL, MAXITER, Options

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
             torch.uint16, torch.uint32, torch.uint64)


def sharpness(
    logits: torch.Tensor, target: torch.Tensor | int, epsilon: float = 5e-4, *,
    method: str = "l-bfgs-b", scale: bool = True, ftol: float = FTOL, gtol: float = GTOL,
    maxiter: int = MAXITER, strict: bool = False, reduction: str = "none",
) -> torch.Tensor:
    """Measures by how many percent the loss can rise if each logit of the last token changes
    slightly.

    This is :func:`tandem.sharpness`, which describes all arguments, for tensors on any device.

    Args:
        logits: (v,), (b, v) or (b, s, v) in float16, bfloat16, float32 or float64, on any
            device. Only those of each sequence's last token are used; they are copied to the CPU
            and converted to float64.
        target: the correct tokens, an integer or integers of shape (), (b,) or (b, s). With
            logits of shape (b, s, v), shape (b,) means the targets of the last tokens.
        epsilon, method, scale, ftol, gtol, maxiter, strict, reduction: see
            :func:`tandem.sharpness`.

    Returns:
        A float64 tensor on the CPU without gradient, with a number for each sequence, of shape
        () for logits of shape (v,) and for the mean.

    Raises:
        TypeError, ValueError, ImportError, RuntimeError: as in :func:`tandem.sharpness`, and for
            tensors that are sparse, distributed or on the meta device.

    >>> import torch, tandem.torch
    >>> tandem.torch.sharpness(torch.zeros(2), 1, 0.5, method="exact")
    tensor(36.6250, dtype=torch.float64)
    """
    options = Options(epsilon, method, scale, ftol, gtol, maxiter, strict, reduction)
    from tandem import _loss_peak
    rows, targets, shape = last_tokens(_checked_logits(logits), _checked_target(target))
    wide = torch.promote_types(rows.dtype, torch.float32)  # NumPy has no bfloat16
    values = _loss_peak.measure(_to_numpy(rows.to(wide)), _to_numpy(targets), shape, options,
                                stacklevel=3)
    return torch.from_numpy(values)


def _checked_logits(logits: object) -> torch.Tensor:
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"logits are a {type(logits).__name__}; pass a tensor, or arrays to "
                        "tandem.sharpness")
    if logits.dtype not in _FLOATS:
        raise TypeError(f"logits have the type {logits.dtype}; pass one of "
                        f"{', '.join(map(str, _FLOATS))}, as the model computes them")
    return _checked_storage("logits", logits)


def _checked_target(target: object) -> torch.Tensor:
    if isinstance(target, int) and not isinstance(target, bool):
        target = torch.tensor(target)
    if not isinstance(target, torch.Tensor):
        raise TypeError(f"target is a {type(target).__name__}; pass a tensor of integers")
    if target.dtype not in _INTEGERS:
        raise TypeError(f"target has the type {target.dtype}; pass numbers of tokens, as "
                        "integers such as torch.int64")
    return _checked_storage("target", target)


def _checked_storage(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Refuses tensors whose elements are not all in local memory."""
    if hasattr(tensor, "full_tensor"):
        raise TypeError(f"{name}: a distributed tensor; pass {name}.full_tensor()")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name}: a tensor of layout {tensor.layout}; pass {name}.to_dense()")
    if tensor.is_meta:
        raise ValueError(f"{name}: a tensor on the meta device, which has no values; pass one "
                         "that the model has computed")
    return tensor.detach()


def _to_numpy(tensor: torch.Tensor):
    return tensor.resolve_neg().cpu().numpy()
