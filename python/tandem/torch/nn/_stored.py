"""Tensors that are passed between layers in a recipe's storage."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.utils._pytree import tree_map_only

from tandem._convert import Executor
from tandem._plane import Granularity, RoleKind
from tandem._storages import described
from tandem.torch.nn import _layer
from tandem.torch.nn._layer import Pass, decoder

_SHARING = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
_VIEWING = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
_STRIDED = torch.ops.aten.as_strided.default


class StoredTensor(torch.Tensor):
    """A tensor in the form in which a layer's kernel has stored it: codes and their scales.

    Layers of :mod:`tandem.torch.nn` read it directly, and save it unchanged if their recipe has
    this storage. To PyTorch it has the shape and the type of the values; other operations use
    :meth:`decode`. It cannot be written.
    """

    @staticmethod
    def __new__(cls, shape: torch.Size, dtype: torch.dtype, storage: str,
                planes: Mapping[str, torch.Tensor]):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype,
                                                   device=planes[""].device)

    def __init__(self, shape: torch.Size, dtype: torch.dtype, storage: str,
                 planes: Mapping[str, torch.Tensor]):
        #: The storage in MLIR's notation.
        self.storage = storage
        #: The planes by the suffixes of their names: "" for codes, ".scale".
        self.planes = dict(planes)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        if operation in _SHARING:
            return args[0]._shared(args[0].shape)
        if operation in _VIEWING and (shape := _rows_regrouped(*args)) is not None:
            return args[0]._shared(shape)
        kwargs = kwargs or {}
        if operation is _STRIDED and _is_itself(*args, **kwargs):
            return args[0]._shared(args[0].shape)
        _refuse_writing(operation, args, kwargs)
        args, kwargs = tree_map_only(cls, cls.decode, (args, kwargs))
        return operation(*args, **kwargs)

    def _shared(self, shape: torch.Size) -> StoredTensor:
        return StoredTensor(shape, self.dtype, self.storage, self.planes)

    def decode(self) -> torch.Tensor:
        """Returns the values in this tensor's type."""
        shape, step = rows_of(self), decoder(
            self.storage, self.dtype, executor_of(self).target)
        planes = {f"kept{suffix}": plane for suffix, plane in self.planes.items()}
        planes |= step.allocate(shape, self.planes[""], (RoleKind.OUTPUT,))
        step.run(shape, planes)
        return planes["value"].view(self.shape)

    def _copy(self) -> torch.Tensor:
        """Returns the values for operations that access memory, which are an error if gradients
        are needed."""
        return self.decode().requires_grad_(self.requires_grad)

    def __dlpack__(self, **options):
        return self._copy().__dlpack__(**options)

    def __array__(self, *args, **options):
        return self._copy().__array__(*args, **options)

    def numpy(self, *, force: bool = False):
        return self._copy().numpy(force=force)

    def tolist(self) -> list:
        return self.decode().tolist()

    def __repr__(self, *, tensor_contents=None) -> str:
        return f"StoredTensor({self.decode()!r}, storage={self.storage!r})"


def _rows_regrouped(x: StoredTensor, shape: list[int]) -> torch.Size | None:
    """Returns the shape of a view with the same rows, or None."""
    wanted = torch.empty(x.shape, device="meta").view(shape).shape
    return wanted if wanted[-1:] == x.shape[-1:] else None


def _is_itself(x: StoredTensor, size: list[int], stride: list[int],
               storage_offset: int | None = None) -> bool:
    """Returns whether these are a tensor's own shape and strides, which FSDP2 passes for a
    gathered tensor."""
    return tuple(size) == x.shape and tuple(stride) == x.stride() and not storage_offset


def _refuse_writing(operation, args: tuple, kwargs: dict) -> None:
    arguments = operation._schema.arguments
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | kwargs
    for argument in arguments:
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(
                given.get(argument.name), StoredTensor):
            raise RuntimeError(f"{operation} would write a StoredTensor, whose codes a backward "
                               "pass may need; write into x.decode()")


def rows_of(x: torch.Tensor) -> tuple[int, int]:
    """Returns the rows and columns; columns are along the last dimension."""
    columns = x.shape[-1] if x.dim() else 1
    return x.numel() // max(1, columns), columns


def executor_of(x: torch.Tensor) -> Executor | None:
    """Returns the executor for a tensor or its planes; None if kernels cannot run there."""
    return _layer.executor_of(x.planes[""] if isinstance(x, StoredTensor) else x)


def decoded(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor, decoded if it is stored."""
    return x.decode() if isinstance(x, StoredTensor) else x


def storages_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Returns the storages of those tensors that are stored."""
    return {name: x.storage for name, x in tensors.items() if isinstance(x, StoredTensor)}


def planes_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns the tensors that a kernel reads, by plane."""
    planes = {}
    for name, x in tensors.items():
        planes |= ({f"{name}{suffix}": plane for suffix, plane in x.planes.items()}
                   if isinstance(x, StoredTensor) else {name: x.contiguous()})
    return planes


def tensor_of(step: Pass, role: str, planes: Mapping[str, torch.Tensor],
              shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Returns the result of a pass as a tensor, which is stored unless its storage is plain.

    A result with an entry for each element has the type `dtype`.
    """
    if step.is_plain(role):
        value = planes[role] if planes[role].shape == shape else planes[role].view(shape)
        return value.to(dtype) if step.per[role] is Granularity.ELEMENT else value
    # The history that a kernel keeps for its next launch is not part of the value.
    storage = described(step.storages[role]).without_history
    mine = {plane.name.removeprefix(role): planes[plane.name]
            for plane in step.kernel.planes if plane.role == role and not plane.persistent}
    return StoredTensor(shape, dtype, storage, mine)
