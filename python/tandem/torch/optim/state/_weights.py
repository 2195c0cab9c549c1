"""Whole weights: what parameters show, with what only their states have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch

from tandem._storages import floats
from tandem._convert import WIDE_PLANE, planes_of
from tandem.torch._layout import empty_plane, is_placeholder, laid_out
from tandem.torch._shards import local_of, local_state, shard_of
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim._wrappers import unwrapped
from tandem.torch.optim.state._check import check_state
from tandem.torch.optim.state._checksum import completes_weight
from tandem.torch.optim.state._sharding import gathers
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert, decode_weights, dense


@torch.no_grad()
def whole_weight(spec: StateSpec, param: torch.Tensor, state: Mapping | None) -> torch.Tensor:
    """Returns a weight in float32: the exact value of all of its planes, in new memory. For a
    DTensor this is a DTensor of the same placements."""
    if not state or not completes_weight(spec) or _is_written(spec, param, state):
        return param.detach().to(torch.float32, copy=True)
    return whole_value(spec, spec.weight_planes[0].role, param, state)


def whole_value(spec: StateSpec, role: str, param: torch.Tensor,
                state: Mapping) -> torch.Tensor:
    """Returns the value of a tensor of a parameter's shape, its weight or a state, in float32, in
    new memory. For a DTensor this is a DTensor of the same placements."""
    own, shard, found = local_state(state), shard_of(param), planes_of(spec.kernel, role)
    is_gathered = shard is not None and gathers(spec, shard)
    local = shard.gather(param.detach()) if is_gathered else local_of(param).detach()
    like = spec.like(local, own)
    planes = [own[plane.name] if plane.name in own else laid_out(local, like, local.dtype)
              for plane in found]
    wide = empty_plane(like, torch.float32, spec.device)
    convert(spec, [dense(found, planes, like)], spec.kernel.storages[role], [wide],
            floats("f32"), [WIDE_PLANE])
    if shard is None:
        return wide
    return shard.like(shard.piece_of(wide).contiguous() if is_gathered else wide)


def _is_written(spec: StateSpec, param: torch.Tensor, state: Mapping) -> bool:
    """Returns whether a parameter no longer has the value that its codes decode to, because it
    was written. The next step then starts from the parameter's value."""
    if not spec.hidden or is_placeholder(param):
        return False
    decoded, = decode_weights(spec, [state], param.dtype)
    shard = shard_of(param)
    if shard is not None and gathers(spec, shard):
        decoded = shard.piece_of(decoded)
    return not torch.equal(decoded, local_of(param))


def weights(optimizer: torch.optim.Optimizer,
            model: torch.nn.Module | None = None) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the name and the whole weight of each parameter, in float32, one at a time.

    Under a strategy such as "remainder" a bfloat16 parameter shows only a part of its weight, and
    the optimizer's state has the rest. Averages and exports need both.

    Args:
        optimizer: an optimizer of :mod:`tandem.torch`, which may be wrapped by Accelerate or
            Lightning.
        model: a model whose parameters are yielded under its names. Those that the optimizer
            does not have are converted to float32. Without it, the optimizer's parameters are
            yielded under their names, or under their indices if they have none.

    Yields:
        The name, and a new float32 tensor in the parameter's shape, on its device; a DTensor for
        a DTensor, for which all ranks must proceed together. Names of tied parameters get the
        same tensor.

    Raises:
        TypeError: the optimizer is not one of ``tandem.torch``.
        RuntimeError: a loaded state does not complete the parameter's weight.
        ValueError: a parameter has another type or layout now than its state needs.

    >>> import torch, tandem.torch
    >>> model = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
    >>> opt = tandem.torch.AdamW(model.parameters(), strategy="remainder")
    >>> [(name, w.dtype) for name, w in tandem.torch.weights(opt, model)]
    [('weight', torch.float32), ('bias', torch.float32)]
    """
    yield from each_value(own_optimizer(optimizer), model, weight_of)


def own_optimizer(optimizer: torch.optim.Optimizer) -> Optimizer:
    """Returns the optimizer of Tandem that wrappers hold, or refuses another."""
    optimizer = unwrapped(optimizer)
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} keeps no part of weights in its state; take "
                        "an optimizer of tandem.torch, such as tandem.torch.AdamW")
    return optimizer


def each_value(optimizer: Optimizer, model: torch.nn.Module | None,
               value_of: Callable[[ParamGroups, torch.Tensor, Mapping | None], torch.Tensor],
               ) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the name of each parameter of a model, or of the optimizer, and a value that is made
    of the parameter and its state, once for all names of a parameter."""
    store, groups = optimizer._store, optimizer._groups
    store.check_expected()
    named = list(_named(optimizer) if model is None else
                 model.named_parameters(remove_duplicate=False))
    names = Counter(id(param) for _, param in named)
    tied: dict[int, torch.Tensor] = {}
    for name, param in named:
        value = tied.get(id(param))
        if value is None:
            value = value_of(groups, param, store.get(param))
        if names[id(param)] > 1:
            tied[id(param)] = value
        yield name, value


def weight_of(groups: ParamGroups, param: torch.Tensor, state: Mapping | None) -> torch.Tensor:
    """Returns the whole weight of a parameter, which the optimizer may not have."""
    spec = groups.spec_of(param)
    if spec is None:
        return param.detach().to(torch.float32, copy=True)
    if state:
        check_state(spec.of_states, state, param, groups.label(param))
    return whole_weight(spec, param, state)


def _named(optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the name or the index of each parameter, and the parameter."""
    for index, param, group in optimizer._groups:
        names: Iterable[str] = group.get("param_names", ())
        at = optimizer._groups.place_in_group(param)
        yield (names[at] if names else str(index)), param


class WeightAverage:
    """An exponential moving average of whole weights, in float32 and outside of steps.

    An optimizer with ``ema_decay`` keeps an average in its state, in the step's own launch; this
    one may lie on another device and has a model's other parameters, too.
    ``torch.optim.swa_utils.AveragedModel`` averages what parameters show, which for bfloat16
    parameters are rounded weights; this averages :func:`weights`.

    Args:
        optimizer: an optimizer of :mod:`tandem.torch`.
        model: the model, or None for the optimizer's parameters.
        decay: the fraction of the average that an update keeps, from 0 to 1.
        device: the device of the averages; None for those of the parameters.

    Raises:
        ValueError: the decay is not between 0 and 1.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, model: torch.nn.Module | None = None,
                 decay: float = 0.999, *, device: torch.device | str | None = None):
        if not 0 <= decay <= 1:
            raise ValueError(f"decay is {decay}; it must be from 0 to 1")
        self._optimizer, self._model, self.decay = optimizer, model, decay
        #: The averages, by name.
        self.averages = {name: weight.to(device) for name, weight in weights(optimizer, model)}
        #: The number of updates.
        self.updates = 0

    @torch.no_grad()
    def update(self) -> None:
        """Adds the current weights to the averages. Call it after a step."""
        for name, weight in weights(self._optimizer, self._model):
            average = self.averages[name]
            average.lerp_(weight.to(average.device), 1 - self.decay)
        self.updates += 1

    def state_dict(self) -> dict:
        """Returns the averages, the decay and the number of updates."""
        return {"averages": self.averages, "decay": self.decay, "updates": self.updates}

    def load_state_dict(self, state_dict: Mapping) -> None:
        """Restores a state from :meth:`state_dict`.

        Raises:
            ValueError: it has the averages of other parameters.
        """
        theirs = state_dict["averages"]
        if theirs.keys() != self.averages.keys():
            differing = sorted(theirs.keys() ^ self.averages.keys())
            raise ValueError(f"the state dict has averages of other parameters; "
                             f"{differing[0]!r} is only on one side")
        for name, average in self.averages.items():
            average.copy_(theirs[name])
        self.decay, self.updates = state_dict["decay"], state_dict["updates"]

    @torch.no_grad()
    def copy_to(self, model: torch.nn.Module) -> None:
        """Writes the averages to the parameters of a model, rounded to their types. A model that
        is trained further must not get them; take a copy of it."""
        for name, param in model.named_parameters():
            if name not in self.averages:
                raise ValueError(f"there is no average of {name!r}; create the WeightAverage with "
                                 "model=, whose names it then has")
            param.copy_(self.averages[name])
