"""Codes of matrices for products of 8-bit floats: the part that does not depend on a
framework."""

from __future__ import annotations

import atexit
import functools

from tandem._kernel import Kernel, Rules, compile_rules
from tandem._layers import Layer
from tandem._plane import RoleKind
from tandem._storages import floats
from tandem._tandem import Storage

#: The types of a linear layer's products.
KINDS = ("bf16", "fp8")


def check_kind(products: str) -> None:
    """Refuses an unknown kind of products."""
    if products not in KINDS:
        raise ValueError(f"products is 'bf16' or 'fp8', got {products!r}")


def check_recipe(layer: Layer) -> None:
    """Refuses a recipe that does not save a product's input in the form that products take."""
    planes = layer.saved
    has_codes = any(p.sets_size and p.type == "f8E4M3FN" for p in planes)
    has_scale = any(p.is_whole_tensor and p.type == "f32" for p in planes)
    if not has_codes or not has_scale:
        raise ValueError(
            f"products='fp8' takes a recipe that keeps inputs of linear layers in E4M3 with "
            f"an f32 scale for the tensor, such as 'coat-fp8'; that of {layer.name} does not")


@functools.lru_cache(maxsize=None)
def storage_of(code: str, copy: bool = False) -> str:
    """Returns the storage of a matrix for products: 8-bit codes, with or without a transposed
    copy."""
    return Storage.matrix_codes(code, copy).text


@functools.lru_cache(maxsize=None)
def quantizer(code: str, copy: bool, dtype: str, target: str) -> Kernel:
    """Returns the kernel that writes the codes, the scale and the optional transposed copy of a
    matrix "x" to the planes of "kept"."""
    edge = floats(dtype)
    rules = Rules("f32 f32", ((RoleKind.INPUT, None, edge), (RoleKind.OUTPUT, None, edge),
                              (RoleKind.SAVED, None, storage_of(code, copy))))
    return compile_rules("keep", "quantize", rules, target, function="keep")


# The extension reports kernels that outlive the interpreter.
atexit.register(quantizer.cache_clear)
