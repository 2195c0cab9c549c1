"""Element types and memory layouts of tensors as flat planes."""

from __future__ import annotations

import math
import weakref

import torch

from tandem._param_planes import WORKING_TYPES, joined_rows

#: The dtypes for the element types of planes.
DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "i8": torch.int8,
    "i4x2": torch.uint8,
    "i16": torch.int16,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    # PyTorch has this type from 2.7 on.
    "f8E8M0FNU": getattr(torch, "float8_e8m0fnu", torch.uint8),
}

#: The names of the types that modules compute in, by dtype.
WORKING = {DTYPES[name]: name for name in WORKING_TYPES}


def layout(tensor: torch.Tensor) -> tuple[int, ...]:
    """Returns the strides, with 0 for dimensions of size 1, whose strides do not matter."""
    return tuple(
        stride if size != 1 else 0
        for size, stride in zip(tensor.shape, tensor.stride())
    )


def _extents(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Returns (stride, size) of the dimensions larger than 1, innermost first."""
    pairs = zip(tensor.stride(), tensor.shape)
    return sorted((stride, size) for stride, size in pairs if size != 1)


def may_overlap(tensor: torch.Tensor) -> bool:
    """Returns whether two elements may share memory, as in an expanded tensor."""
    if tensor.numel() == 0:
        return False
    last = 0
    for stride, size in _extents(tensor):
        if stride <= last:
            return True
        last += stride * (size - 1)
    return False


def empty_plane(param: torch.Tensor, dtype: torch.dtype, device):
    """Returns an empty plane with the parameter's order of elements, but dense."""
    return torch.empty_like(
        param, dtype=dtype, device=device, requires_grad=False,
        memory_format=torch.preserve_format,
    )


def is_plane(tensor: torch.Tensor, plane: torch.Tensor) -> bool:
    """Returns whether a kernel can use the tensor's memory instead of the plane's."""
    return (
        tensor.layout is torch.strided
        and tensor.dtype == plane.dtype
        and layout(tensor) == layout(plane)
        and not tensor.is_neg()
    )


def laid_out(tensor: torch.Tensor, param: torch.Tensor, dtype: torch.dtype):
    """Returns the tensor as a plane of the parameter: the tensor itself, or a converted copy.

    Floats are rounded to nearest, ties to even; equal types keep their bits.
    """
    if (tensor.dtype is dtype and tensor.is_contiguous() and param.is_contiguous()
            and tensor.layout is torch.strided and not tensor.is_neg()):
        return tensor  # the usual case, without a tensor on the meta device
    if is_plane(tensor, empty_plane(param, dtype, "meta")):
        return tensor
    return empty_plane(param, dtype, tensor.device).copy_(tensor)


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a 16-bit tensor as integers."""
    return tensor.detach().contiguous().view(torch.int16)


def rows_and_columns(tensor: torch.Tensor, joined: int = 1) -> tuple[int, int]:
    """Returns the size of a tensor as a matrix. Rows are along the first dimension, `joined` of them
    as one; a vector is one row."""
    if tensor.dim() < 2:
        return 1, tensor.numel()
    return -(-len(tensor) // joined), math.prod(tensor.shape[1:]) * joined


def rows_in_memory(tensor: torch.Tensor, group: int) -> tuple[int, int]:
    """Returns the number and length of the rows in which groups of scales start anew, in the
    kernel of a flat graph.

    Rows are along the first dimension, or along the outermost one in memory of a transposed
    tensor. Rows shorter than `group` are joined: as many as fit into it and divide their number.
    """
    if tensor.dim() < 2 or tensor.numel() == 0:
        return 1, tensor.numel()
    outer = max(range(tensor.dim()), key=lambda i: (tensor.shape[i] > 1, tensor.stride(i)))
    rows = 1 if len(tensor) == 1 else tensor.shape[outer]
    return joined_rows(rows, tensor.numel() // rows, group)


#: The storages that back placeholders, by address.
_PLACEHOLDERS: weakref.WeakValueDictionary[int, torch.UntypedStorage] = (
    weakref.WeakValueDictionary())


def placeholder(param: torch.Tensor) -> torch.Tensor:
    """Returns a NaN expanded to the parameter's shape, which uses the memory of one element."""
    number = torch.full((), torch.nan, dtype=param.dtype, device=param.device)
    _PLACEHOLDERS[number.data_ptr()] = number.untyped_storage()
    return number.expand(param.shape)


def is_placeholder(param: torch.Tensor) -> bool:
    """Returns whether the parameter's value is only in the optimizer's state."""
    return bool(_PLACEHOLDERS) and param.data_ptr() in _PLACEHOLDERS
