"""Handling of arguments of torch.optim's optimizers that are not hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping

#: Options for how a step of torch.optim runs, which change none of its values. Tandem's steps
#: are one compiled kernel in any case.
_HOW = ("foreach", "fused")
#: Options that Tandem's optimizers do not support, and what to do instead.
_REASONS = {
    "differentiable": "no gradient flows through a compiled step; use torch.optim's",
    "amsgrad": "the graph keeps no largest second moment; write one and pass it to "
               "tandem.torch.Optimizer",
    "decoupled_weight_decay": "take tandem.torch.AdamW with decay='before'",
    "dampening": "the graph adds the whole gradient to the momentum; write one and pass it "
                 "to tandem.torch.Optimizer",
    "centered": "the graph keeps no average of gradients; write one and pass it to "
                "tandem.torch.Optimizer",
    "momentum": "the graph has none; write one and pass it to tandem.torch.Optimizer",
    "initial_accumulator_value": "the sum begins as zeros; take a small eps, or write the "
                                 "state after the first step",
}


def without_torch_options(name: str, options: Mapping) -> dict:
    """Returns the options of an optimizer without those of torch.optim that have no effect here.

    Args:
        name: the name of the optimizer, for messages.
        options: the keyword arguments. ``foreach`` and ``fused`` may have any of their values;
            unsupported options may be None, False or 0.

    Raises:
        ValueError: an option requests something that is not supported.
    """
    kept: dict = {}
    for option, value in options.items():
        if option == "momentum":
            kept[option] = value  # SGD's
        elif option in _HOW:
            if value not in (None, True, False):
                raise TypeError(f"{option} must be True, False or None, got {value!r}")
        elif option in _REASONS:
            refuse(name, option, value)
        else:
            kept[option] = value
    return kept


def refuse(name: str, option: str, value: object) -> None:
    """Refuses an unsupported option unless it is None, False or 0."""
    if value:
        raise ValueError(f"{name} does not compute {option}={value!r}: {_REASONS[option]}")
