"""Averages of weights that steps keep in the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch

from tandem._companions import AVERAGE
from tandem.torch._layout import is_placeholder
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim.state._check import check_state
from tandem.torch.optim.state._weights import each_value, own_optimizer, whole_value


@torch.no_grad()
def averages(optimizer: torch.optim.Optimizer,
             model: torch.nn.Module | None = None) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the name and the average weight of each parameter, in float32, one at a time.

    Args:
        optimizer: an optimizer of :mod:`tandem.torch` with ``ema_decay``, or an
            :class:`AdamWScheduleFree`. Accelerate or Lightning may wrap it.
        model: a model whose parameters are yielded under its names. Those that the optimizer does
            not have, or has never updated, are converted to float32. Without it, the optimizer's
            parameters are yielded under their names, or under their indices if they have none.

    Yields:
        The name, and a new float32 tensor in the parameter's shape, on its device; a DTensor for
        a DTensor, for which all ranks must proceed together. Names of tied parameters get the
        same tensor.

    Raises:
        TypeError: the optimizer is not one of ``tandem.torch``.
        ValueError: the optimizer has no ``ema_decay``.

    >>> import torch, tandem.torch
    >>> model = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
    >>> opt = tandem.torch.AdamW(model.parameters(), strategy="dither-mulaw", ema_decay=0.999)
    >>> model(torch.ones(8, dtype=torch.bfloat16)).sum().backward()
    >>> opt.step()
    >>> [(name, w.dtype) for name, w in tandem.torch.averages(opt, model)]
    [('weight', torch.float32), ('bias', torch.float32)]
    """
    optimizer = _averaging(optimizer)
    yield from each_value(optimizer, model, getattr(optimizer, "_average_of", _average_of))


@contextmanager
def averaged_weights(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Returns a context in which the optimizer's parameters hold their averages, rounded to
    nearest, for an evaluation or to save the model. Afterwards they hold the weights again, bit
    for bit. Steps and state dicts of the optimizer are errors inside of the context.

    Args:
        optimizer: as for :func:`averages`.

    Raises:
        TypeError: the optimizer is not one of ``tandem.torch``.
        ValueError: the optimizer has no ``ema_decay``.
        RuntimeError: weights are decoded only while modules run (:func:`decode_weights`), or the
            context is entered twice.
    """
    optimizer = _averaging(optimizer)
    if optimizer._store.shows_averages:
        raise RuntimeError("the parameters hold their averages already; leave the inner "
                           "averaged_weights out")
    saved = swapped_weights(optimizer)
    try:
        yield
    finally:
        write_weights(optimizer._groups.params, saved)
        optimizer._store.shows_averages = False


def swapped_weights(optimizer: Optimizer) -> list[torch.Tensor]:
    """Gives parameters their averages, rounded to nearest, and returns copies of their weights. An
    error leaves the weights in place."""
    params = optimizer._groups.params
    if any(map(is_placeholder, params)):
        raise RuntimeError("weights are decoded only while modules run, which need memory of "
                           "their own to hold averages; remove() what decode_weights returned")
    saved = [param.detach().clone() for param in params]
    try:
        # One at a time, since averages in float32 are larger than the parameters.
        write_weights(params, (value for _, value in averages(optimizer)))
    except BaseException:
        write_weights(params, saved)
        raise
    optimizer._store.shows_averages = True
    return saved


@torch.no_grad()
def write_weights(params: Iterable[torch.Tensor], values: Iterable[torch.Tensor]) -> None:
    """Writes values to parameters."""
    for param, value in zip(params, values):
        param.copy_(value)


def _averaging(optimizer: torch.optim.Optimizer) -> Optimizer:
    """Returns the optimizer of Tandem, or refuses one without averages."""
    optimizer = own_optimizer(optimizer)
    if not hasattr(optimizer, "_average_of") and AVERAGE not in optimizer.kernel.storages:
        raise ValueError(f"this {type(optimizer).__name__} averages no weights; create it with "
                         "ema_decay=0.999, or take a tandem.torch.WeightAverage")
    return optimizer


def _average_of(groups: ParamGroups, param: torch.Tensor,
                state: Mapping | None) -> torch.Tensor:
    """Returns the average of a parameter, which the optimizer may not have or not have
    updated."""
    spec = groups.spec_of(param)
    if spec is None or not state:
        return param.detach().to(torch.float32, copy=True)
    spec = spec.of_states
    check_state(spec, state, param, groups.label(param))
    return whole_value(spec, AVERAGE, param, state)
