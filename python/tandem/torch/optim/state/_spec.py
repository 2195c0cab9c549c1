"""The description of a parameter's state: its planes, with names, types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from tandem._convert import CPU, Executor
from tandem._kernel import Kernel
from tandem._param_planes import ParamPlanes
from tandem._plane import Plane, RoleKind
from tandem.torch._executor import torch_device
from tandem.torch._layout import DTYPES, empty_plane, rows_and_columns, rows_in_memory


#: Returns the shapes of the tensors that external steps keep for a parameter of a shape, by name.
ExternalStates = Callable[[torch.Size], Mapping[str, Sequence[int]]]


class StateSpec(ParamPlanes):
    """A description of how a kernel stores a parameter: the planes of its weight, its gradient and
    its states.

    It knows neither steps nor other parameters.

    Args:
        kernel: the kernel.
        count: the state's key for its count of steps, if the kernel needs none.
        executor: the executor that runs the kernel.
        on_cpu: the same spec on the CPU, if that is a different one.
        of_states: the spec that handles states, if this one's kernel writes more than these: a
            copy of weights in codes, or an operand.
        has_copy: whether the kernel writes a decoded copy of weights in codes.
        joined_rows: the number of rows that a graph of matrices sees as one, with one entry in
            states of rows.
        external_states: the float32 tensors that the kernel's external steps keep.
    """

    def __init__(self, kernel: Kernel, count: str | None = None, executor: Executor = CPU,
                 on_cpu: StateSpec | None = None, of_states: StateSpec | None = None,
                 has_copy: bool = False, joined_rows: int = 1,
                 external_states: ExternalStates | None = None):
        super().__init__(kernel, count)
        self._external_states = external_states
        #: The shapes that it has returned, by the shape of the parameter.
        self._external_shapes: dict[torch.Size, dict[str, torch.Size]] = {}
        self.joined_rows = joined_rows
        self.executor, self.on_cpu, self._of_states = executor, on_cpu, of_states
        self.has_copy = has_copy
        self.device = torch_device(executor)
        #: The shapes of planes, by name and the layout of their tensor.
        self._shapes: dict[tuple, torch.Size] = {}
        #: The planes of states, by the shapes of parameters in C order.
        self._dense: dict[torch.Size, list[tuple]] = {}
        #: The types that parameters can have.
        self.dtypes = [DTYPES[type] for type in self.types]
        self.grad_dtype = None if self.encodes else DTYPES[self.grad_planes[0].type]
        #: The names of all entries in a parameter's state.
        self.state_names = [*filter(None, [self.step]), *self.state_planes]

    def size_of(self, tensor: torch.Tensor) -> tuple[int, int]:
        """Returns the kernel's rows and columns for a tensor."""
        if self.kernel.is_matrix:
            return rows_and_columns(tensor, self.joined_rows)
        return (self.size_of_shape(tensor.shape) if self.packs
                else rows_in_memory(tensor, self.group))

    @property
    def of_states(self) -> StateSpec:
        """The spec that creates, checks and converts states."""
        return self._of_states or self

    def bytes_per_parameter(self, releases: bool = False) -> float:
        """Returns the number of bytes per parameter for weight, gradient and states, from their
        storages, without the gradient if it is released."""
        return sum(plane.bytes_per_element for plane in self.kernel.planes
                   if not plane.is_exchanged
                   and (plane.persistent or not (releases and plane.kind is RoleKind.GRAD)))

    def is_weight(self, name: str) -> bool:
        """Returns whether a plane belongs to the weight."""
        return any(plane.name == name for plane in self.weight_planes)

    def shape(self, plane: Plane, like: torch.Tensor) -> torch.Size:
        """Returns the shape of a plane for a tensor with the layout of its parameter's
        planes."""
        key = plane.name, like.shape, like.stride()
        if key not in self._shapes:
            self._shapes[key] = torch.Size(self.shape_of(plane, like.shape, self.size_of(like)))
        return self._shapes[key]

    def bytes_of(self, plane: Plane, like: torch.Tensor) -> int:
        """Returns the size of one plane of a parameter in bytes."""
        return self.shape(plane, like).numel() * DTYPES[plane.type].itemsize

    @property
    def keeps_external(self) -> bool:
        """Whether external steps keep tensors for parameters."""
        return self._external_states is not None

    def external_shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        """Returns the shapes of the tensors that external steps keep for a parameter of a shape, by
        name.

        Raises:
            ValueError: one has the name of a plane or of the count of steps.
        """
        if self._external_states is None:
            return {}
        if shape not in self._external_shapes:
            self._external_shapes[shape] = self._checked_shapes(shape)
        return self._external_shapes[shape]

    def _checked_shapes(self, shape: torch.Size) -> dict[str, torch.Size]:
        found = {name: torch.Size(own)
                 for name, own in self._external_states(torch.Size(shape)).items()}
        if taken := sorted({"step", *self.state_names} & set(found)):
            raise ValueError(f"external_states has {taken[0]!r}, which {self.kernel.name} keeps itself; "
                             "give it another name")
        return found

    def external_names(self, state: Mapping) -> list[str]:
        """Returns the names of the tensors in a state that external steps keep."""
        known = self.state_names if self.kernel.externals else state
        return [name for name in state if name not in known]

    def empty(self, plane: Plane, like: torch.Tensor) -> torch.Tensor:
        """Allocates one plane of a parameter."""
        dtype = DTYPES[plane.type]
        if plane.sets_size:
            return empty_plane(like, dtype, self.device)
        return torch.empty(self.shape(plane, like), dtype=dtype, device=self.device)

    def dense_planes(self, param: torch.Tensor) -> list[tuple]:
        """Returns the name, the shape, the type to fill and the type of each plane in the state
        of a parameter in C order."""
        found = self._dense.get(param.shape)
        if found is None:
            found = self._dense[param.shape] = []
            for name, plane in self.state_planes.items():
                dtype = DTYPES[plane.type]
                words = torch.uint8 if dtype.itemsize == 1 else dtype
                found.append((name, self.shape(plane, param), words, dtype))
        return found

    def ordered(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor in the layout of planes: in C order if the kernel takes matrices or
        several elements share a byte."""
        if not self.kernel.is_matrix and not self.packs:
            return tensor
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    def like(self, param: torch.Tensor, state: Mapping | None) -> torch.Tensor:
        """Returns a tensor with the layout of the parameter's planes: the parameter itself, its
        codes, or a matrix in C order."""
        if self.has_copy:
            return self.ordered(self._of_states.like(param, state))
        has_codes = self.hidden and state
        return self.ordered(state[self.weight_planes[0].name] if has_codes else param)
