"""Shadows: optimizers of samples that take the steps of the run under other strategies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from tandem._companions import keeps_f32_states
from tandem._convert import WIDE_PLANE
from tandem._storages import floats
from tandem.torch._shards import local_of
from tandem.torch.optim._groups import OPTIONS
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim.diagnosis._origins import WideState, state_roles, wide_state
from tandem.torch.optim.diagnosis._samples import Layout, Sample
from tandem.torch.optim.state._checksum import completes_weight
from tandem.torch.optim.state._convert import carried
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert, dense, initial_state

#: The bound under which every sample has float32 states.
_ALL_SMALL = 1 << 62
#: Keys of param groups that are not hyperparameters.
_NOT_HYPERS = frozenset(("params", "param_names", *OPTIONS[:3]))


@dataclass(frozen=True)
class Start:
    """The values that shadows start from: samples of weights and states in float32.

    Attributes:
        layout: the places of the samples.
        dtypes: the type of each parameter.
        groups: the param group of each parameter, by number.
        small: whether each parameter has float32 states under strategies with codes.
        weights: the sampled weights.
        states: the sampled states; None for a parameter without one.
    """

    layout: Layout
    dtypes: Sequence[torch.dtype]
    groups: Sequence[int]
    small: Sequence[bool]
    weights: Sequence[torch.Tensor]
    states: Sequence[WideState | None]


class Gradients:
    """The sampled gradients of a step, which all shadows read.

    Attributes:
        values: the gradients in float32, in one buffer.
    """

    def __init__(self, layout: Layout, device: torch.device):
        self.layout = layout
        self.values = torch.zeros(layout.size, dtype=torch.float32, device=device)
        self._buffers = {torch.float32: self.values}
        self.present = [False] * len(layout.samples)

    def views(self, dtype: torch.dtype) -> list[torch.Tensor]:
        """Returns the gradients of each sample in a type, which :meth:`publish` updates."""
        if dtype not in self._buffers:
            self._buffers[dtype] = self.values.to(dtype)
        return self.layout.views(self._buffers[dtype])

    def publish(self) -> None:
        """Rounds the values to the types of all buffers, to nearest."""
        for dtype, buffer in self._buffers.items():
            if dtype is not torch.float32:
                buffer.copy_(self.values)


class Shadow:
    """An optimizer of samples.

    Attributes:
        name: the name of its strategy.
        params: its parameters, one for each sample.
        optimizer: the optimizer.
    """

    optimizer: torch.optim.Optimizer

    def __init__(self, name: str, start: Start, gradients: Gradients,
                 dtypes: Sequence[torch.dtype]):
        self.name, self.start, self._gradients = name, start, gradients
        buffers = {dtype: torch.zeros(start.layout.size, dtype=dtype,
                                      device=gradients.values.device)
                   for dtype in dict.fromkeys(dtypes)}
        views = {dtype: start.layout.views(buffer) for dtype, buffer in buffers.items()}
        self.params = [torch.nn.Parameter(views[dtype][at]) for at, dtype in enumerate(dtypes)]
        self._grads = [gradients.views(dtype)[at] for at, dtype in enumerate(dtypes)]
        self._present: list[bool] = []
        for param, weight in zip(self.params, start.weights):
            param.detach().view(-1).copy_(weight)

    def step(self, groups: Sequence[Mapping]) -> None:
        """Takes a step with the published gradients and the settings of the run's groups."""
        present = self._gradients.present
        if present != self._present:
            self._present = list(present)
            for param, grad, has in zip(self.params, self._grads, present):
                param.grad = grad if has else None
        for own, number in zip(self.optimizer.param_groups, self._numbers):
            for key in self._keys:
                if key in groups[number]:
                    own[key] = groups[number][key]
        self.optimizer.step()

    def _groups(self, apart: bool) -> list[dict]:
        """Returns param groups of the samples, one for each of the run's groups, or two with
        small parameters `apart`."""
        members: dict[tuple, list[torch.Tensor]] = defaultdict(list)
        for param, number, small in zip(self.params, self.start.groups, self.start.small):
            members[number, apart and small].append(param)
        self._numbers = [number for number, _ in members]
        return [{"params": params, **({"min_8bit_size": _ALL_SMALL if small else 0,
                                       "min_8bit_vector_size": _ALL_SMALL} if apart else {})}
                for (_, small), params in members.items()]


class StrategyShadow(Shadow):
    """A shadow under a strategy.

    Args:
        name: the strategy's name for reports.
        strategies: the strategy of each of the run's param groups.
        graph: the graph.
        path: directories that are searched for strategies.
        start: the samples to start from.
        gradients: the gradients.
        groups: the run's param groups.
        wide: whether all weights are float32, as in the reference.
    """

    def __init__(self, name: str, strategies: Sequence[str], graph: str, path: Sequence[str],
                 start: Start, gradients: Gradients, groups: Sequence[Mapping],
                 wide: bool = False):
        dtypes = [torch.float32] * len(start.dtypes) if wide else start.dtypes
        super().__init__(name, start, gradients, dtypes)
        made = self._groups(apart=True)
        for group, number in zip(made, self._numbers):
            group["strategy"] = strategies[number]
        probe = Optimizer([torch.nn.Parameter(torch.zeros(1))], graph, "fp32", path=path)
        self._keys = [key for key in probe.defaults if key not in (*OPTIONS[:3], "seed")]
        for group, number in zip(made, self._numbers):
            group |= {key: groups[number][key] for key in self._keys if key in groups[number]}
        self.optimizer = Optimizer(made, graph, strategies[0], path=path)
        self._begin(StrategyShadow._source(graph))

    @staticmethod
    def _source(graph: str) -> StateSpec:
        """Returns the spec of float32 weights and states, from which states are converted."""
        return Optimizer([torch.nn.Parameter(torch.zeros(1))], graph, "fp32")._groups.specs.main

    def _begin(self, source: StateSpec) -> None:
        """Converts the run's weights and states to this strategy."""
        samples = self.start.layout.samples
        for param, weight, state, sample in zip(self.params, self.start.weights,
                                                self.start.states, samples):
            spec = self.optimizer._groups.spec_of(param)
            wide = weight.view(sample.shape)
            planes = initial_state(source, wide)
            if state is not None:
                planes |= {role: value.view(sample.shape) for role, value in state[1].items()}
                if source.step:
                    planes[source.step] = state[0]
            own, value = carried(source, wide, planes, spec, param.dtype)
            if state is None and not completes_weight(spec):
                continue
            self.optimizer.state[param].update(own)
            param.detach().copy_(value)

    @property
    def bytes_of(self) -> list[float]:
        """The bytes per element of each parameter: weight, gradient and states."""
        return [self.optimizer._groups.spec_of(param).bytes_per_parameter()
                for param in self.params]

    def weights(self) -> torch.Tensor:
        """Returns the whole weights of all samples in float32, in new memory."""
        out = torch.empty_like(self._gradients.values)
        views, kinds = self.start.layout.views(out), defaultdict(list)
        for at, param in enumerate(self.params):
            spec, state = self.optimizer._groups.spec_of(param), self.optimizer.state.get(param)
            if state and completes_weight(spec):
                kinds[spec].append(at)
            else:
                views[at].copy_(param.detach())
        for spec, members in kinds.items():
            self._decode(spec, members, [views[at] for at in members])
        return out

    def _decode(self, spec: StateSpec, members: Sequence[int],
                out: Sequence[torch.Tensor]) -> None:
        """Writes the whole weights of parameters of one spec."""
        sources = []
        for at in members:
            param = self.params[at].detach()
            state = self.optimizer.state[self.params[at]]
            like = spec.like(param, state)
            planes = [state[plane.name] if plane.name in state else param
                      for plane in spec.weight_planes]
            sources.append(dense(spec.weight_planes, planes, like))
        convert(spec, sources, spec.weight_storage, out, floats("f32"), [WIDE_PLANE])

    @property
    def roles(self) -> list[str]:
        """The states of the graph."""
        return state_roles(self.optimizer.kernel)

    def state(self, role: str) -> torch.Tensor:
        """Returns a state of all samples in float32; zeros for parameters without a state."""
        out = torch.zeros_like(self._gradients.values)
        views, kinds = self.start.layout.views(out), defaultdict(list)
        for at, param in enumerate(self.params):
            if self.optimizer.state.get(param):
                kinds[self.optimizer._groups.spec_of(param)].append(at)
        for spec, members in kinds.items():
            wide_state(spec, role, [(self.params[at].detach(),
                                     self.optimizer.state[self.params[at]]) for at in members],
                       [views[at] for at in members])
        return out

    def group_of_scales(self, at: int) -> int:
        """Returns how many elements of a parameter share a scale at most; 1 without scales."""
        return self.optimizer._groups.spec_of(self.params[at]).group


class TorchShadow(Shadow):
    """A shadow of an optimizer of torch.optim, of its own class.

    Args:
        name: its name for reports.
        optimizer: the optimizer.
        params: its parameters that are sampled.
        start: the samples to start from.
        gradients: the gradients.
    """

    def __init__(self, name: str, optimizer: torch.optim.Optimizer,
                 params: Sequence[torch.Tensor], start: Start, gradients: Gradients):
        super().__init__(name, start, gradients, start.dtypes)
        made = self._groups(apart=False)
        groups = optimizer.param_groups
        self._keys = [key for key in groups[0] if key not in _NOT_HYPERS]
        for group, number in zip(made, self._numbers):
            group |= {key: groups[number][key] for key in self._keys}
        self.optimizer = type(optimizer)(made)
        for param, own, sample in zip(params, self.params, start.layout.samples):
            self._copy(optimizer.state.get(param) or {}, param, own, sample)

    def _copy(self, state: Mapping, param: torch.Tensor, own: torch.Tensor,
              sample: Sample) -> None:
        """Gives a sample the state of the whole."""
        for key, value in state.items():
            if not isinstance(value, torch.Tensor):
                self.optimizer.state[own][key] = value
                continue
            value = local_of(value)
            is_element = value.shape == local_of(param).shape and value.dim() > 0
            self.optimizer.state[own][key] = (
                sample.take(value).view(sample.shape).clone() if is_element else value.clone())

    @property
    def bytes_of(self) -> list[float]:
        """The bytes per element of each parameter: weight, gradient and states."""
        return [2 * param.element_size() + sum(
            value.element_size() for value in self.optimizer.state.get(param, {}).values()
            if isinstance(value, torch.Tensor) and value.shape == param.shape)
            for param in self.params]

    def weights(self) -> torch.Tensor:
        """Returns the weights of all samples in float32, in new memory."""
        return torch.cat([param.detach().reshape(-1).float() for param in self.params])

    @property
    def roles(self) -> list[str]:
        """The states with an entry for each element."""
        return list(dict.fromkeys(
            key for param in self.params for key, value in self.optimizer.state[param].items()
            if isinstance(value, torch.Tensor) and value.shape == param.shape
            and value.is_floating_point() and key != "step"))

    def state(self, role: str) -> torch.Tensor:
        """Returns a state of all samples in float32; zeros for parameters without a state."""
        return torch.cat([self.optimizer.state[param].get(role, torch.zeros_like(param)).detach()
                          .reshape(-1).float() for param in self.params])

    def group_of_scales(self, at: int) -> int:
        return 1


def is_small(shape: torch.Size, options: Mapping) -> bool:
    """Returns whether a parameter has float32 states under strategies with codes."""
    return keeps_f32_states(shape, options["min_8bit_size"], options["min_8bit_vector_size"])
