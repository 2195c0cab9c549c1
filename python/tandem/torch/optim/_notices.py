"""Warnings about training that continues without an error but has no effect."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

#: The kinds of warnings that this process has issued.
_given: set[str] = set()


def has_warned(kind: str) -> bool:
    """Returns whether a kind of warning, "codes" or "release", has been issued. Backward passes
    call this for each gradient."""
    return kind in _given


def _once(kind: str, text: str) -> None:
    """Issues a kind of warning once per process."""
    if not has_warned(kind):
        _given.add(kind)
        warnings.warn(text, UserWarning, stacklevel=2)


def warn_of_clipping(strategy: str, releases: bool, accumulation: str | None = None) -> None:
    """Warns that code outside of the optimizer does not see the gradients that the optimizer
    takes.

    Args:
        strategy: the strategy of a parameter whose gradient has been taken.
        releases: whether backward passes take the steps.
        accumulation: the optimizer's grad_accumulation.
    """
    if has_warned("release" if releases else "codes"):
        return
    if releases:
        _once("release", (
            "with gradient_release=True backward passes take the steps, and p.grad is None "
            "after them: torch.nn.utils.clip_grad_norm_ and the clipping of trainers find "
            "no gradients and clip nothing. Clip each gradient in p.register_hook, or "
            "leave gradient_release out and pass max_norm= to the optimizer"))
    else:
        reason = (f"grad_accumulation={accumulation!r} adds up gradients outside of p.grad"
                  if accumulation else f"strategy {strategy!r} stores gradients in codes")
        _once("codes", (
            f"{reason}, and p.grad is None after a "
            "backward pass: torch.nn.utils.clip_grad_norm_ and the clipping of trainers "
            "find no gradients and clip nothing. To clip by the norm, pass max_norm= to "
            "the optimizer (tandem.torch.AdamW has it)"))


def warn_of_taken_gradients(names: Sequence[str], owner: str, strategy: str,
                            pending: int) -> None:
    """Warns that an optimizer takes over parameters whose gradients another one encodes.

    Args:
        names: the names of the parameters.
        owner: the name of the other optimizer's class.
        strategy: its strategy.
        pending: the number of parameters with gradients that only the other one has.
    """
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    lost = (f" It still has the gradients of {pending} parameters in codes, which only its "
            "own step reads." if pending else "")
    warnings.warn(
        f"this optimizer takes over {names[0]}{more} from an {owner} under {strategy!r} that still "
        f"exists and took the gradients of these parameters after backward passes.{lost} "
        "close() the other one, or delete it, before you create the next", UserWarning,
        stacklevel=2)


def warn_of_start(name: str, steps: int) -> None:
    """Warns that a parameter starts anew after a state was loaded.

    Args:
        name: the name of the parameter.
        steps: the number of steps that others have taken.
    """
    warnings.warn(
        f"{name} starts anew, as after no step, while others have taken {steps}: the loaded state "
        "dict has no state for it. torch.distributed.checkpoint loads none for parameters that are "
        "frozen; set requires_grad before you load", UserWarning, stacklevel=2)


def warn_of_frozen(names: Sequence[str]) -> None:
    """Warns that a checkpoint may lose the states of frozen parameters."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    _once("frozen", (
        f"{names[0]}{more} are frozen (requires_grad=False) and have states that complete their "
        "weights. torch.distributed.checkpoint loads no states of frozen parameters, so that "
        "these lose the bits that are only in their states; set requires_grad before you load "
        "such a checkpoint, or save optimizer.state_dict() with torch.save"))


def warn_of_no_gradient(params: Sequence[torch.Tensor]) -> None:
    """Warns that an optimizer has never had a gradient.

    Parameters without elements, which a rank may have, need none.
    """
    filled = [param for param in params if param.numel()]
    if not filled:
        return
    reason = ("no backward pass has reached them" if any(p.requires_grad for p in filled)
              else "none of them requires one")
    warnings.warn(
        f"step() finds no gradient in any of the optimizer's {len(filled)} parameters, and "
        f"trains nothing: {reason}. If they are not the tensors that the model uses, as "
        "where a wrapper has replaced these (FSDP, parallelize_module, .to) or a DTensor's "
        "local tensor was passed, create the optimizer after that, from "
        "model.parameters()", UserWarning, stacklevel=2)
