"""Matrix products of 8-bit floats on GPUs, which cuBLASLt computes behind the runtime."""

from __future__ import annotations

import atexit
import functools

import torch
from torch.utils.weak import WeakTensorKeyDictionary

import tandem
from tandem import _tandem
from tandem._kernel import Plane, RoleKind
from tandem.torch._layer import EDGES, Layer, Pass
from tandem.torch._stored import StoredTensor, decoded, place_of

#: What a linear layer's products can be of.
KINDS = ("bf16", "fp8")

#: The runtime's numbers of factors.
_FACTORS = {"f8E4M3FN": 0, "f8E5M2": 1}

_WORKSPACE, _ALIGNED, _MULTIPLE = 32 << 20, 256, 16


def kept_planes(layer: Layer) -> tuple[Plane, Plane]:
    """The codes and the scale by which a layer's recipe keeps a product's input."""
    planes = layer.saved
    codes = [p for p in planes if p.sets_size and p.type == "f8E4M3FN"]
    scales = [p for p in planes if p.is_whole_tensor and p.type == "f32"]
    if not codes or not scales:
        raise ValueError(
            f"products='fp8' takes a recipe that keeps inputs of linear layers in E4M3 with "
            f"an f32 scale for the tensor, such as 'coat'; that of {layer.name} does not")
    return codes[0], scales[0]


def can_multiply(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether there are products of 8-bit floats of this input, where it is."""
    place = place_of(x)
    if place.device is None or int(place.target.removeprefix("sm_")) < 89:
        return False
    sizes = x.numel() // max(1, x.shape[-1]), *weight.shape
    return x.dtype is torch.bfloat16 and all(
        size and size % _MULTIPLE == 0 for size in sizes)


#===------------------------------------------------------------------------===#
# Codes
#===------------------------------------------------------------------------===#

_STORAGE = "#tandem.scaled<#scaled.float<{code}>, group = tensor, scale = f32>"

_RECIPE = """
tandem.strategy @quantize compute(<f32, f32>) {{
  tandem.assign input = #tandem.float<{input}>
  tandem.assign output = #tandem.float<{input}>
  tandem.assign saved = """ + _STORAGE + """
}}
"""


@functools.lru_cache(maxsize=None)
def _quantizer(code: str, dtype: torch.dtype, target: str) -> Pass:
    """What writes codes and a scale of a matrix."""
    text = _tandem.layers()["keep"] + _RECIPE.format(input=EDGES[dtype], code=code)
    return Pass(tandem.compile(text, "quantize", target, function="keep"))


def quantize(x: torch.Tensor, code: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The codes of a matrix, and the scale that they share; a layer may have stored it so."""
    if isinstance(x, StoredTensor) and x.storage == _STORAGE.format(code=code):
        return x.planes[""].view(x.shape), x.planes[".scale"]
    x = decoded(x)
    step, x = _quantizer(code, x.dtype, place_of(x).target), x.contiguous()
    planes = step.allocate(tuple(x.shape), x, (RoleKind.SAVED,))
    step.run(tuple(x.shape), {"x": x} | planes)
    return planes["kept"].view(x.shape), planes["kept.scale"]


#: Of each weight, what its codes were made of, and they.
_weights = WeakTensorKeyDictionary()


def quantized_weight(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of a weight, once as long as it does not change; a graph makes them
    whenever it runs."""
    place = place_of(weight)
    if place.is_capturing:
        return quantize(weight, "f8E4M3FN")
    key = weight._version, weight.data_ptr(), place, place.stream
    known, codes = _weights.get(weight, (None, None))
    if known != key:
        codes = quantize(weight, "f8E4M3FN")
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
    (x, x_scale), (w, w_scale), place = x, w, place_of(x[0])
    y = torch.empty(x.shape[0], w.shape[0], dtype=torch.bfloat16, device=x.device)
    workspace = torch.empty(_WORKSPACE + _ALIGNED, dtype=torch.uint8, device=x.device)
    product = _product(place.device, *y.shape, x.shape[1], _FACTORS[of],
                       _FACTORS["f8E4M3FN"], bias is not None, fast)
    product.launch(place.stream, x.data_ptr(), w.data_ptr(), x_scale.data_ptr(),
                   w_scale.data_ptr(), 0 if bias is None else bias.data_ptr(), y.data_ptr(),
                   -(-workspace.data_ptr() // _ALIGNED) * _ALIGNED, _WORKSPACE)
    return y


def _turned(codes: torch.Tensor) -> torch.Tensor:
    """The transpose, in rows: cuBLASLt's products sum along the rows of both factors."""
    return codes.t().contiguous()


class FP8Linear(torch.autograd.Function):
    """A linear layer: ``apply(codes, scale, x, weight, bias)``, where codes and scale are
    what is kept of x. Gradients go into products in E5M2."""

    @staticmethod
    def forward(ctx, codes, scale, x, weight, bias):
        codes_of_weight = quantized_weight(weight)
        ctx.save_for_backward(codes, scale, *codes_of_weight)
        ctx.types = weight.dtype, None if bias is None else bias.dtype
        if bias is not None:
            # At an address that cuBLASLt takes.
            bias = bias.detach().to(torch.bfloat16, copy=True).contiguous()
        y = multiply((codes.view(-1, x.shape[-1]), scale), codes_of_weight, bias, fast=True)
        return y.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        codes, scale, weight, weight_scale = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[2:]
        rows = dy.reshape(-1, dy.shape[-1])
        grad, grad_scale = quantize(rows, "f8E5M2")
        dx = dweight = dbias = None
        if needs_x:
            dx = multiply((grad, grad_scale), (_turned(weight), weight_scale), of="f8E5M2")
            dx = dx.view(*dy.shape[:-1], -1)
        if needs_weight:
            x = _turned(codes.view(rows.shape[0], -1)), scale
            dweight = multiply((_turned(grad), grad_scale), x, of="f8E5M2").to(ctx.types[0])
        if needs_bias:
            dbias = rows.sum(0).to(ctx.types[1])
        return None, None, dx, dweight, dbias
