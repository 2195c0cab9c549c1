"""Matrix products of 8-bit floats on GPUs, which the runtime computes by cuBLASLt."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from tandem import _tandem
from tandem._kernel import RoleKind, Rules, compile_rules
from tandem._storages import described, floats
from tandem._tandem import Storage
from tandem.torch.nn._autograd import first_derivative
from tandem.torch.nn._layer import EDGES, Layer, Pass
from tandem.torch.nn._stored import StoredTensor, decoded, executor_of, rows_of

#: The types of a linear layer's products.
KINDS = ("bf16", "fp8")

#: The runtime's numbers of factors.
_FACTORS = {"f8E4M3FN": 0, "f8E5M2": 1}

_WORKSPACE, _ALIGNED, _MULTIPLE = 32 << 20, 256, 16


def check_recipe(layer: Layer) -> None:
    """Refuses a recipe that does not keep a product's input as products take it."""
    planes = layer.saved
    has_codes = any(p.sets_size and p.type == "f8E4M3FN" for p in planes)
    has_scale = any(p.is_whole_tensor and p.type == "f32" for p in planes)
    if not has_codes or not has_scale:
        raise ValueError(
            f"products='fp8' takes a recipe that keeps inputs of linear layers in E4M3 with "
            f"an f32 scale for the tensor, such as 'coat-fp8'; that of {layer.name} does not")


def can_multiply(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether there are products of 8-bit floats of this input, where it is."""
    executor = executor_of(x)
    if executor.device is None or int(executor.target.removeprefix("sm_")) < 89:
        return False
    sizes = x.numel() // max(1, x.shape[-1]), *weight.shape
    return x.dtype is torch.bfloat16 and all(
        size and size % _MULTIPLE == 0 for size in sizes)


#===------------------------------------------------------------------------===#
# Codes
#===------------------------------------------------------------------------===#


@functools.lru_cache(maxsize=None)
def _storage(code: str, copy: bool = False) -> str:
    """Returns the storage of a matrix for products: codes of 8 bits, with or without a
    transposed copy."""
    return Storage.matrix_codes(code, copy).text


class Codes(NamedTuple):
    """A matrix in 8 bits."""

    rows: torch.Tensor
    scale: torch.Tensor
    #: The codes of the transpose, in rows, where the kernel has written them too.
    turned: torch.Tensor | None

    @staticmethod
    def of(planes: Mapping[str, torch.Tensor], shape: tuple[int, int]) -> Codes:
        """Planes by what follows the tensor's name in theirs."""
        turned = planes.get(".transposed")
        return Codes(planes[""].view(shape), planes[".scale"],
                     None if turned is None else turned.view(shape[::-1]))

    @property
    def transposed(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Codes of the transpose and the scale: cuBLASLt's products sum along the rows of
        both factors."""
        turned = self.rows.t().contiguous() if self.turned is None else self.turned
        return turned, self.scale


@functools.lru_cache(maxsize=None)
def _quantizer(code: str, copy: bool, dtype: torch.dtype, target: str) -> Pass:
    """Returns the kernel that writes the codes and scale of a matrix, and a transposed copy."""
    edge = floats(EDGES[dtype])
    rules = Rules("f32 f32", ((RoleKind.INPUT, None, edge), (RoleKind.OUTPUT, None, edge),
                              (RoleKind.SAVED, None, _storage(code, copy))))
    return Pass(compile_rules("keep", "quantize", rules, target, function="keep"))


def quantize(x: torch.Tensor, code: str, copy: bool = False) -> Codes:
    """The codes of a matrix, and the scale that they share, with a transposed ``copy`` if
    one is wanted; a layer may have stored it so."""
    shape = rows_of(x)
    if (isinstance(x, StoredTensor)
            and described(x.storage).without_transpose == _storage(code)):
        return Codes.of(x.planes, shape)
    x = decoded(x).contiguous()
    step = _quantizer(code, copy, x.dtype, executor_of(x).target)
    planes = step.allocate(shape, x, (RoleKind.SAVED,))
    step.run(shape, {"x": x} | planes)
    return Codes.of({name.removeprefix("kept"): p for name, p in planes.items()}, shape)


#: The codes of each weight, and what they were computed from.
_weights = WeakTensorKeyDictionary()


def quantized_weight(weight: torch.Tensor, copy: bool = False) -> Codes:
    """Returns the codes of a weight, which are kept until the weight changes. A CUDA graph
    makes them anew whenever it runs."""
    executor = executor_of(weight)
    if executor.is_capturing:
        return quantize(weight, "f8E4M3FN", copy)
    key = weight._version, weight.data_ptr(), executor, executor.stream
    known, codes = _weights.get(weight, (None, None))
    if known != key or (copy and codes.turned is None):
        codes = quantize(weight, "f8E4M3FN", copy)
        _weights[weight] = key, codes
    return codes


#===------------------------------------------------------------------------===#
# Products
#===------------------------------------------------------------------------===#


@functools.lru_cache(maxsize=256)
def _product(device, *sizes_and_kinds) -> _tandem.Product:
    return _tandem.Product(device._native, *sizes_and_kinds)


# The extension reports products and plans that outlive the interpreter.
atexit.register(_product.cache_clear)
atexit.register(_quantizer.cache_clear)


def multiply(x: tuple, w: tuple, bias: torch.Tensor | None = None, *, of: str = "f8E4M3FN",
             fast: bool = False) -> torch.Tensor:
    """x @ w.T + bias in bf16: x and w are codes in rows, and scales; x's codes are ``of``
    some type and w's E4M3."""
    (x, x_scale), (w, w_scale), executor = x, w, executor_of(x[0])
    y = torch.empty(x.shape[0], w.shape[0], dtype=torch.bfloat16, device=x.device)
    workspace = torch.empty(_WORKSPACE + _ALIGNED, dtype=torch.uint8, device=x.device)
    product = _product(executor.device, *y.shape, x.shape[1], _FACTORS[of],
                       _FACTORS["f8E4M3FN"], bias is not None, fast)
    product.launch(executor.stream, x.data_ptr(), w.data_ptr(), x_scale.data_ptr(),
                   w_scale.data_ptr(), 0 if bias is None else bias.data_ptr(), y.data_ptr(),
                   -(-workspace.data_ptr() // _ALIGNED) * _ALIGNED, _WORKSPACE)
    return y


class FP8Linear(torch.autograd.Function):
    """A linear layer: ``apply(kept, x, weight, bias)``, where ``kept`` has the codes of x.
    Gradients go into products in E5M2."""

    @staticmethod
    def forward(ctx, kept: Codes, x, weight, bias):
        needs_x, needs_weight = ctx.needs_input_grad[1:3]
        codes = quantized_weight(weight, copy=needs_x)
        # Save only the part of each factor that the backward pass multiplies.
        saved = kept if needs_weight else Codes(None, None, None)
        if saved.turned is not None:
            saved = saved._replace(rows=None)
        ctx.save_for_backward(*saved, *(codes.transposed if needs_x else (None, None)))
        ctx.types = weight.dtype, None if bias is None else bias.dtype
        if bias is not None:
            # The copy has an address that is aligned as cuBLASLt requires.
            bias = bias.detach().to(torch.bfloat16, copy=True).contiguous()
        y = multiply(kept[:2], codes[:2], bias, fast=True)
        return y.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        *kept, weight, weight_scale = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[1:]
        grad = quantize(dy, "f8E5M2", copy=needs_weight)
        dx = dweight = dbias = None
        if needs_x:
            dx = multiply(grad[:2], (weight, weight_scale), of="f8E5M2")
            dx = dx.view(*dy.shape[:-1], -1)
        if needs_weight:
            dweight = multiply(grad.transposed, Codes(*kept).transposed, of="f8E5M2")
            dweight = dweight.to(ctx.types[0])
        if needs_bias:
            dbias = decoded(dy).reshape(-1, dy.shape[-1]).sum(0).to(ctx.types[1])
        return None, dx, dweight, dbias
