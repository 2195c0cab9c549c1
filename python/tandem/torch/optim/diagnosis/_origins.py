"""The optimizers that a doctor can watch: what graph they follow, and their weights and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tandem import _graphs
from tandem._companions import MIN_8BIT_VECTOR_SIZE
from tandem._convert import WIDE_PLANE, Stored, kept_roles
from tandem._kernel import Kernel
from tandem._param_planes import has_rows, sums_over_model
from tandem._storages import floats
from tandem.torch._layout import empty_plane, is_placeholder
from tandem.torch._shards import local_of, local_state, shard_of
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim.peers._foreign import read_foreign
from tandem.torch.optim.state._sharding import gathers
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert, dense
from tandem.torch.optim.state._weights import whole_weight

#: Options of torch.optim's param groups that change the update, and that no graph has.
_FLAGS = ("amsgrad", "centered", "dampening", "differentiable", "initial_accumulator_value")
#: The optimizers of torch.optim whose graphs the library has.
_TORCH = ("AdamW", "Adam", "SGD", "RMSprop", "Adagrad")
#: The graph that clips by the norm of all gradients, and the same graph without clipping.
_CLIPPING, _UNCLIPPED = "adamw_clip", "adamw"

#: A state in float32: the count of steps, and a tensor for each role.
WideState = tuple[int, dict[str, torch.Tensor]]


class Origin:
    """An optimizer that is watched.

    Attributes:
        optimizer: the optimizer.
        graph: the graph that its steps compute, as :class:`Optimizer` takes it.
        path: the directories that are searched for strategies.
        max_norm: whether steps clip by the norm of all gradients.
    """

    path: Sequence[str] = ()
    max_norm = False

    def __init__(self, optimizer: torch.optim.Optimizer, graph: str):
        self.optimizer, self.graph = optimizer, graph

    @property
    def params(self) -> list[torch.Tensor]:
        """The parameters that are trained, in the optimizer's order."""
        return [param for group in self.optimizer.param_groups for param in group["params"]
                if param.requires_grad and local_of(param).numel()]

    def gradient(self, param: torch.Tensor) -> torch.Tensor | None:
        """Returns the gradient that the next step uses."""
        return param.grad

    def has_gradient(self, param: torch.Tensor) -> bool:
        """Returns whether there is a gradient for the next step."""
        return param.grad is not None

    def encodes(self, param: torch.Tensor) -> bool:
        """Returns whether backward passes leave the gradient of a parameter only in codes."""
        return False

    def is_gathered(self, param: torch.Tensor) -> bool:
        """Returns whether ranks would have to communicate to read a parameter's weight or
        state."""
        return False

    @property
    def skipped(self) -> bool:
        """Whether the last step was skipped, by what a GradScaler has found if it leaves this to
        the optimizer."""
        found = getattr(self.optimizer, "found_inf", None)
        return found is not None and bool(found)

    def options(self, group: Mapping) -> dict:
        """Returns the bounds of a param group below which states are float32."""
        return {name: group.get(name, usual) for name, usual in
                (("min_8bit_size", 4096), ("min_8bit_vector_size", MIN_8BIT_VECTOR_SIZE))}


class TandemOrigin(Origin):
    """An optimizer of :mod:`tandem.torch`."""

    def __init__(self, optimizer: Optimizer):
        kernel = optimizer.kernel
        self.max_norm = kernel.name == _CLIPPING
        _check_kernel(kernel)
        arguments = optimizer._arguments
        super().__init__(optimizer, _UNCLIPPED if self.max_norm else arguments["graph"])
        self.path = arguments["path"]
        if optimizer.gradient_release:
            raise ValueError("the optimizer has gradient_release=True, whose steps are inside of "
                             "backward passes, where a doctor sees no gradients; leave it out "
                             "while the doctor watches")
        if optimizer.capturable:
            raise ValueError("the optimizer has capturable=True, and a CUDA graph would not run "
                             "the doctor's steps; leave it out while the doctor watches")

    def label(self, param: torch.Tensor, group: Mapping) -> str:
        """Returns the name of a parameter's strategy."""
        return group["strategy"]

    def gradient(self, param: torch.Tensor) -> torch.Tensor | None:
        return self.optimizer.gradient(param)

    def has_gradient(self, param: torch.Tensor) -> bool:
        return self.optimizer._gradients.has(param)

    def encodes(self, param: torch.Tensor) -> bool:
        spec = self.optimizer._groups.spec_of(param)
        return spec is not None and spec.encodes

    @property
    def skipped(self) -> bool:
        """Whether ``skip_nonfinite`` has skipped the last step."""
        return self.optimizer._arguments["skip_nonfinite"] and self.optimizer.skipped

    def is_gathered(self, param: torch.Tensor) -> bool:
        shard = shard_of(param)
        return (shard is not None and bool(self.optimizer.state.get(param))
                and gathers(self.optimizer._groups.spec_of(param), shard))

    def weight(self, param: torch.Tensor) -> torch.Tensor:
        """Returns the whole weight on this rank in float32, in new memory."""
        if is_placeholder(param):
            raise ValueError(f"{self.optimizer._groups.name(param)} is decoded on demand, and a "
                             "doctor reads weights; remove() what decode_weights returned while "
                             "it watches")
        spec = self.optimizer._groups.spec_of(param)
        return local_of(whole_weight(spec, param, self.optimizer.state.get(param)))

    def state(self, param: torch.Tensor) -> WideState | None:
        """Returns the state of a parameter on this rank in float32; None before its first
        step."""
        state = self.optimizer.state.get(param)
        if not state:
            return None
        spec = self.optimizer._groups.spec_of(param)
        if self.is_gathered(param):
            raise ValueError(
                f"{self.optimizer._groups.name(param)} is a DTensor whose state is on all ranks, "
                "which a doctor does not divide; let it watch from the first step on, or under "
                "a strategy without codes, such as 'remainder'")
        own = local_state(state)
        values = {role: wide_state(spec, role, [(local_of(param).detach(), own)])[0]
                  for role in state_roles(spec.kernel)}
        return int(own.get(spec.step, 0)) if spec.step else 0, values


class TorchOrigin(Origin):
    """An optimizer of torch.optim, whose graph the library has."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        for index, group in enumerate(optimizer.param_groups):
            _check_flags(optimizer, group, index)
        super().__init__(optimizer, _graph_of(optimizer))

    def label(self, param: torch.Tensor, group: Mapping) -> str:
        """Returns the name of the optimizer's class, with which it stores as the parameter."""
        return f"torch.optim.{type(self.optimizer).__name__}"

    def weight(self, param: torch.Tensor) -> torch.Tensor:
        """Returns the weight on this rank in float32, in new memory."""
        return local_of(param).detach().to(torch.float32, copy=True)

    def state(self, param: torch.Tensor) -> WideState | None:
        """Returns the state of a parameter on this rank in float32; None before its first
        step."""
        state = self.optimizer.state.get(param)
        if not state:
            return None
        own = local_state(state)
        if self.graph == "sgd_momentum" and own.get("momentum_buffer") is None:
            return None
        found = read_foreign(own, local_of(param).detach(), self.graph, "a parameter")
        return found.step, found.values


def origin_of(optimizer: torch.optim.Optimizer) -> TandemOrigin | TorchOrigin:
    """Returns what a doctor knows of an optimizer.

    Raises:
        TypeError: the library has no graph of this optimizer.
        ValueError: its steps depend on more than each element, or an option has no graph.
    """
    if isinstance(optimizer, Optimizer):
        return TandemOrigin(optimizer)
    kind = type(optimizer)
    if kind.__module__.startswith("torch.optim") and kind.__name__ in _TORCH:
        return TorchOrigin(optimizer)
    raise TypeError(
        f"a doctor watches optimizers of tandem.torch and torch.optim's {', '.join(_TORCH)}, got "
        f"{kind.__module__}.{kind.__name__}; take one of those for the steps that it watches")


def _check_kernel(kernel: Kernel) -> None:
    """Refuses graphs whose steps of a sample differ from those of the whole."""
    if kernel.name == _CLIPPING:
        return
    if has_rows(kernel) or kernel.reductions or sums_over_model(kernel):
        raise ValueError(
            f"{kernel.name} computes values from several elements of a tensor, which a sample "
            "does not have; a doctor watches AdamW, Adam, SGD, Lion, RMSprop and Adagrad")


def _check_flags(optimizer: torch.optim.Optimizer, group: Mapping, index: int) -> None:
    name = type(optimizer).__name__
    flags = [*_FLAGS, *(["momentum"] if name == "RMSprop" else [])]
    for flag in flags:
        if group.get(flag):
            raise ValueError(f"param group {index} of {name} has {flag}={group[flag]!r}, which "
                             "no graph of the library computes; leave it out while the doctor "
                             "watches")


def _graph_of(optimizer: torch.optim.Optimizer) -> str:
    """Returns the library's graph for an optimizer of torch.optim."""
    kind, group = type(optimizer).__name__, optimizer.param_groups[0]
    if kind == "SGD":
        return _graphs.sgd(group["momentum"], group["nesterov"])
    if kind in ("AdamW", "Adam"):
        is_decoupled = group.get("decoupled_weight_decay", kind == "AdamW")
        return "adamw_decay_before" if is_decoupled else "adam"
    return kind.lower()


#===------------------------------------------------------------------------===#
# States in float32
#===------------------------------------------------------------------------===#


def state_roles(kernel: Kernel) -> list[str]:
    """Returns the states of a graph, without the weight."""
    weight = next(plane.role for plane in kernel.planes if plane.kind.name == "PARAM")
    return [role for role in kept_roles(kernel) if role != weight]


def wide_state(spec: StateSpec, role: str, members: Sequence[tuple[torch.Tensor, Mapping]],
               out: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
    """Returns one of the states of several parameters in float32.

    Args:
        spec: the spec of the parameters.
        role: the state, as "exp_avg".
        members: the parameters on this rank and their states.
        out: where to write the values; new memory by default.
    """
    stored = Stored.of(spec.kernel, role)
    likes = [spec.like(param, state) for param, state in members]
    found = out or [empty_plane(like, torch.float32, spec.device) for like in likes]
    sources = [dense(stored.planes, [state[plane.name] for plane in stored.planes], like)
               for (_, state), like in zip(members, likes)]
    convert(spec, sources, stored.storage, found, floats("f32"), [WIDE_PLANE],
            matrix=stored.matrix)
    return found
