"""The planes of a parameter in an optimizer's kernel: its weight, gradient and state."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tandem._convert import planes_of
from tandem._kernel import Kernel
from tandem._plane import Granularity, Plane, RoleKind

#: The types that models compute in.
WORKING_TYPES = ("bf16", "f16", "f32")


class ParamPlanes:
    """The planes of a kernel, divided into those of the framework and those of the optimizer.

    Args:
        kernel: the kernel of an optimizer graph with one parameter.
        count: the state's key for its count of steps, if the kernel needs none.
    """

    #: The number of rows of a matrix that the kernel sees as one.
    joined_rows = 1

    def __init__(self, kernel: Kernel, count: str | None = None):
        self.kernel = kernel
        weight, grad = _only(kernel, RoleKind.PARAM), _only(kernel, RoleKind.GRAD)
        #: The planes of the weight.
        self.weight_planes = planes_of(kernel, weight)
        visible = [p for p in self.weight_planes if p.visible and p.type in WORKING_TYPES]
        #: Whether the weight is in the state, and parameters hold its decoded values.
        self.hidden = not visible
        self.weight_storage = kernel.storages[weight]
        #: The plane that frameworks read as the weight, if there is one.
        self.visible = None if self.hidden else visible[0]
        #: The index of that plane in the kernel.
        self.param_at = None if self.hidden else kernel.planes.index(visible[0])
        #: The types that parameters can have.
        self.types = ["bf16", "f16"] if self.hidden else [visible[0].type]
        #: The planes and the storage of the gradient.
        self.grad_planes, self.grad_storage = planes_of(kernel, grad), kernel.storages[grad]
        #: Whether a kernel encodes the gradient, because frameworks have no type for it.
        self.encodes = len(self.grad_planes) > 1 or self.grad_planes[0].type not in WORKING_TYPES
        #: The planes that a step exchanges with the host.
        self.exchanged = [plane for plane in kernel.planes if plane.is_exchanged]
        #: The planes of the operand that a step writes, if it does.
        self.operand_planes = [p for p in kernel.planes if p.kind is RoleKind.OUTPUT]
        #: The planes that the optimizer keeps, by name.
        self.state_planes: dict[str, Plane] = {
            plane.name: plane for plane in kernel.planes
            if plane is not self.visible
            and plane not in (*self.exchanged, *self.operand_planes)
            and (plane.persistent or plane not in self.grad_planes)
        }
        steps = [n for n, k in kernel.integers.items() if k is RoleKind.STEP]
        #: The state's key for its count of steps, if it needs one.
        self.step = steps[0] if steps else count
        #: The number of elements of the longest group that shares a scale; 1 without groups.
        self.group = max((p.group for p in kernel.planes if p.is_grouped), default=1)
        #: Whether bytes hold the codes of several elements, whose order no plane shows.
        self.packs = any(plane.is_packed for plane in kernel.planes)
        self._refuse_packed(kernel)

    def _refuse_packed(self, kernel: Kernel) -> None:
        """Refuses weights and gradients whose planes have fewer entries than elements."""
        for plane in (*self.weight_planes, *self.grad_planes):
            if plane.is_packed:
                raise ValueError(
                    f"strategy {kernel.strategy!r} stores {plane.role!r} as "
                    f"{kernel.storages[plane.role]}, with several codes in a byte, which "
                    "optimizers support only for states; give it a code of 8 bits")

    def size_of_shape(self, shape: Sequence[int]) -> tuple[int, int]:
        """Returns the kernel's rows and columns for a dense tensor in C order."""
        return size_of_shape(shape, self.kernel.is_matrix, self.group)

    def uncut_elements(self, size: tuple[int, int]) -> int:
        """Returns the number of elements that shards must not split: those of the rows that
        share entries or, in a vector, of a group. The size of each shard is a multiple of it.

        Args:
            size: the kernel's rows and columns for the tensor.
        """
        rows, columns = size
        grouped = [plane for plane in self.kernel.planes
                   if plane.is_grouped and plane.per != Granularity.COLUMN]
        if rows == 1 and self.joined_rows == 1:  # a vector
            return max((plane.group for plane in grouped), default=1)
        return columns * max((plane.rows_per_entry for plane in grouped), default=1)

    def shape_of(self, plane: Plane, shape: Sequence[int],
                 size: tuple[int, int]) -> tuple[int, ...]:
        """Returns the shape of a plane's array: the parameter's shape, or one entry for each row
        or column, or for each group in each row of groups, which shards do not split. Groups of
        a vector have one dimension.

        Args:
            plane: a plane of the kernel.
            shape: the shape of the parameter.
            size: the kernel's rows and columns for it.
        """
        if plane.sets_size:
            return tuple(shape)
        rows, columns = size
        if plane.elements_per_entry and len(shape) > 1:
            return plane.groups(columns, rows)
        return (plane.entries(columns, rows),)


def _only(kernel: Kernel, kind: RoleKind) -> str:
    """Returns the name of the graph's only parameter, or of its gradient."""
    roles = list(dict.fromkeys(p.role for p in kernel.planes if p.kind is kind))
    if len(roles) != 1:
        what = kind.name.lower()
        raise ValueError(
            f"graph {kernel.name!r} has {len(roles)} {what} arguments; an optimizer of "
            f"tandem.torch or tandem.jax needs one {what}"
        )
    return roles[0]


#===------------------------------------------------------------------------===#
# Rows
#===------------------------------------------------------------------------===#


def size_of_shape(shape: Sequence[int], is_matrix: bool, group: int) -> tuple[int, int]:
    """Returns a kernel's rows and columns for a dense tensor in C order.

    Args:
        shape: the shape of the tensor.
        is_matrix: whether the kernel is a matrix kernel.
        group: the length up to which rows are joined in other kernels.
    """
    if is_matrix and len(shape) > 1:
        return shape[0], math.prod(shape[1:])
    return rows_of_shape(shape, 1 if is_matrix else group)


def rows_of_shape(shape: Sequence[int], group: int) -> tuple[int, int]:
    """Returns the number and the length of the rows in which groups of scales start anew, for a
    dense tensor in C order in the kernel of a flat graph. Rows are along the first dimension; a
    vector is one row."""
    count = math.prod(shape)
    if len(shape) < 2 or not count:
        return 1, count
    return joined_rows(shape[0], count // shape[0], group)


@functools.lru_cache(maxsize=4096)
def joined_rows(rows: int, columns: int, group: int) -> tuple[int, int]:
    """Returns the number and the length of rows after joining rows shorter than `group`: as many
    as fit into it and divide their number."""
    count = next((n for n in range(group // columns, 1, -1) if rows % n == 0), 1)
    return rows // count, columns * count


#===------------------------------------------------------------------------===#
# Properties of kernels
#===------------------------------------------------------------------------===#


def has_rows(kernel: Kernel) -> bool:
    """Returns whether the graph itself uses rows, rather than only its scales."""
    return kernel.is_matrix and not kernel.is_flat_graph


def is_of_matrices(kernel: Kernel) -> bool:
    """Returns whether the graph updates only matrices: it uses their rows, or lets the host
    compute a step with them."""
    return has_rows(kernel) or bool(kernel.externals)


def can_join_rows(kernel: Kernel) -> bool:
    """Returns whether the graph can see several rows of a matrix as one: it has states of rows, and
    none of columns."""
    granularities = {plane.per for plane in kernel.planes}
    return (has_rows(kernel) and Granularity.ROW in granularities
            and Granularity.COLUMN not in granularities)


def sums_over_model(kernel: Kernel) -> bool:
    """Returns whether a step needs all parameters in one launch."""
    return any(scope == "model" for _, scope, _ in kernel.reductions)
