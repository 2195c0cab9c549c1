"""Matrix products of 8-bit floats, which the runtime computes with cuBLASLt on GPUs, and PyTorch
computes in f32 from the decoded codes on CPUs."""

from __future__ import annotations

import atexit
import functools
import warnings

import torch
from torch.nn import functional

from tandem import _tandem
from tandem._convert import CPU
from tandem._matrix_codes import quantizer, storage_of
from tandem._plane import RoleKind
from tandem._storages import described
from tandem.torch._weight_codes import Codes, attach, attached
from tandem.torch.nn._autograd import first_derivative
from tandem.torch.nn._layer import EDGES, Pass
from tandem.torch.nn._stored import StoredTensor, decoded, executor_of, rows_of

#: The runtime's numbers for types of factors, and PyTorch's types for them.
_FACTORS = {"f8E4M3FN": 0, "f8E5M2": 1}
_TYPES = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}

_WORKSPACE, _ALIGNED, _MULTIPLE = 32 << 20, 256, 16


def is_served(x: torch.Tensor, weight: torch.Tensor, label: str, strict: bool) -> bool:
    """Returns whether the input's device supports these products of 8-bit floats. If a GPU does
    not, there is one warning for each layer and kind of reason, or an error if the layer is
    ``strict``.

    Products of empty matrices are left to PyTorch, since they are the same in all types.
    """
    if not x.numel() or not weight.numel():
        return False
    if executor_of(x) is CPU:
        return True
    if not (found := _why_not(x, weight)):
        return True
    kind, reason = found
    text = (f"{label or _unnamed(weight)} was given products='fp8', but multiplies in "
            f"{str(x.dtype).removeprefix('torch.')}: {reason}")
    if strict:
        raise ValueError(f"{text}; change that, or leave strict=True out")
    if (label or weight.shape, kind) not in _warned:
        _warned.add((label or weight.shape, kind))
        warnings.warn(text, UserWarning, stacklevel=4)
    return False


#: The layers and kinds of reasons that have been warned about.
_warned: set[tuple] = set()


def _unnamed(weight: torch.Tensor) -> str:
    outputs, inputs = weight.shape
    return f"a linear layer of {inputs} inputs and {outputs} outputs"


def _why_not(x: torch.Tensor, weight: torch.Tensor) -> tuple[str, str] | None:
    """Returns the kind of the reason why a GPU does not support the product, and the reason."""
    target = executor_of(x).target
    if int(target.removeprefix("sm_")) < 89:
        return "chip", (f"its tensors are on a GPU of {target}, and GPUs have products of 8-bit "
                        "floats from sm_89 on")
    if x.dtype is not torch.bfloat16:
        return "type", ("on a GPU products of 8-bit floats take tensors of bfloat16, or "
                        "autocast to it")
    sizes = rows_of(x)[0], *weight.shape[::-1]
    if any(size % _MULTIPLE for size in sizes):
        rows, inputs, outputs = sizes
        return "sizes", (f"it has {rows} rows, {inputs} inputs and {outputs} outputs, and on a "
                         f"GPU each of these has to be a multiple of {_MULTIPLE}")
    return None


#===------------------------------------------------------------------------===#
# Codes
#===------------------------------------------------------------------------===#


def in_rows(codes: torch.Tensor) -> torch.Tensor:
    """Returns codes in the form that products take: row-major for cuBLASLt, which sums along the
    rows of both factors, or any view on a CPU."""
    return codes if executor_of(codes) is CPU else codes.contiguous()


def transposed(codes: Codes) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the codes of the transpose in the form that products take, and the scale."""
    return in_rows(codes.transpose), codes.scale


@functools.lru_cache(maxsize=None)
def _quantizer(code: str, copy: bool, dtype: torch.dtype, target: str) -> Pass:
    """Returns the pass that writes the codes and the scale of a matrix, and a transposed
    copy."""
    return Pass(quantizer(code, copy, EDGES[dtype], target))


def quantize(x: torch.Tensor, code: str, copy: bool = False) -> Codes:
    """Returns the codes of a matrix and their scale, with a transposed ``copy`` if requested on
    a GPU. A layer may already have stored the matrix in this form."""
    shape, copy = rows_of(x), copy and executor_of(x) is not CPU
    if (isinstance(x, StoredTensor)
            and described(x.storage).without_transpose == storage_of(code)):
        return Codes.of(x.planes, shape)
    x = decoded(x).contiguous()
    if x.dtype not in EDGES:
        raise TypeError(f"products of 8-bit floats are of tensors and weights of float32, "
                        f"bfloat16 or float16, got {x.dtype}")
    step = _quantizer(code, copy, x.dtype, executor_of(x).target)
    planes = step.allocate(shape, x, (RoleKind.SAVED,))
    step.run(shape, {"x": x} | planes)
    return Codes.of({name.removeprefix("kept"): p for name, p in planes.items()}, shape)


def _has_ranks() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def quantized_weight(weight: torch.Tensor, copy: bool = False) -> Codes:
    """Returns the codes of a weight: those that an optimizer's step has written, or new ones, which
    are kept until the weight changes.

    A CUDA graph computes those that no step writes whenever it runs. With several ranks, so does
    each call, because FSDP gathers new weights into the memory of old ones without incrementing
    their version. Inference tensors have no version.
    """
    executor = executor_of(weight)
    copy = copy and executor is not CPU
    if weight.is_inference():
        return quantize(weight, "f8E4M3FN", copy)
    is_changing = executor.is_capturing or _has_ranks()
    codes = attached(weight, of_step=is_changing)
    if codes is not None and (codes.turned is not None or not copy):
        return codes
    if is_changing:
        return quantize(weight, "f8E4M3FN", copy)
    # Later passes may need gradients, which take no tensors of inference mode.
    with torch.inference_mode(False), torch.no_grad():
        codes = quantize(weight, "f8E4M3FN", copy)
    attach(weight, codes)
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
             fast: bool = False, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Returns x @ w.T + bias in a type, which is bf16 on a GPU. x and w are pairs of codes and
    scales; the codes of x have the type ``of``, and those of w are E4M3."""
    if bias is not None:
        # The copy has the alignment that cuBLASLt needs.
        bias = bias.detach().to(dtype, copy=True).contiguous()
    if executor_of(x[0]) is CPU:
        return _multiply_in_f32(x, w, bias, of).to(dtype)
    return _multiply_by_cublaslt(x, w, bias, of, fast)


def _multiply_in_f32(x: tuple, w: tuple, bias: torch.Tensor | None, of: str) -> torch.Tensor:
    """Computes the product in f32 on a CPU. Products of two codes are exact. After their sums,
    the product of the scales is rounded, then the product with it, then the sum with the
    bias."""
    (x, x_scale), (w, w_scale) = x, w
    with torch.autocast("cpu", enabled=False):
        y = values_of(x, of) @ values_of(w, "f8E4M3FN").t()
        y.mul_(x_scale * w_scale)
        return y if bias is None else y.add_(bias.float())


def values_of(codes: torch.Tensor, code: str) -> torch.Tensor:
    """Returns the values of codes with scale 1, which are exact in f32."""
    return codes.view(_TYPES[code]).to(torch.float32)


def _multiply_by_cublaslt(x: tuple, w: tuple, bias: torch.Tensor | None, of: str,
                          fast: bool) -> torch.Tensor:
    """Computes the product in bf16 on a GPU."""
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
    Gradients are factors of products in E5M2."""

    @staticmethod
    def forward(ctx, kept: Codes, x, weight, bias):
        needs_x, needs_weight = ctx.needs_input_grad[1:3]
        codes = quantized_weight(weight, copy=needs_x)
        # Save only the part of each factor that the backward pass multiplies.
        saved = kept if needs_weight else Codes(None, None, None)
        if saved.turned is not None:
            saved = saved._replace(rows=None)
        # Save a view, since FSDP2 frees gathered codes and gathers them again.
        ctx.save_for_backward(*saved, *((codes.transpose, codes.scale) if needs_x
                                        else (None, None)))
        ctx.types = weight.dtype, None if bias is None else bias.dtype
        ctx.dtype, ctx.shape = x.dtype, x.shape
        y = multiply(kept[:2], codes[:2], bias, fast=True, dtype=x.dtype)
        # Do not return a view, since FSDP2 warns about one if it hooks a module's output.
        return y.resize_(*x.shape[:-1], weight.shape[0])

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        *kept, weight, weight_scale = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[1:]
        options = {"of": "f8E5M2", "dtype": ctx.dtype}
        grad = quantize(dy, "f8E5M2", copy=needs_weight)
        dx = dweight = dbias = None
        if needs_x:
            dx = multiply(grad[:2], (in_rows(weight), weight_scale), **options).view(ctx.shape)
        if needs_weight:
            dweight = multiply(transposed(grad), transposed(Codes(*kept)), **options)
            dweight = dweight.to(ctx.types[0])
        if needs_bias:
            dbias = decoded(dy).reshape(-1, dy.shape[-1]).sum(0).to(ctx.types[1])
        return None, dx, dweight, dbias


#===------------------------------------------------------------------------===#
# Products with recomputed factors
#===------------------------------------------------------------------------===#


class PlainProducts:
    """A linear layer's three products by PyTorch, for a layer whose input is not saved."""

    @staticmethod
    def output(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None):
        """Returns x @ weight.T + bias."""
        return functional.linear(decoded(x), weight, bias)

    @staticmethod
    def factor(dy: torch.Tensor, copy: bool) -> torch.Tensor:
        """Returns the output's gradient in the form that :meth:`to_input` and, with ``copy``,
        :meth:`to_weight` take."""
        return decoded(dy).reshape(-1, dy.shape[-1])

    @staticmethod
    def to_input(dy: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns the input's gradient, in row-major order."""
        return (dy @ weight).contiguous()

    @staticmethod
    def to_weight(dy: torch.Tensor, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns the weight's gradient."""
        return dy.T @ decoded(x)


class FP8Products:
    """The three products of 8-bit floats, with the types of :class:`FP8Linear`."""

    @staticmethod
    def output(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None):
        """Returns x @ weight.T + bias."""
        codes, of_weight = quantize(x, "f8E4M3FN"), quantized_weight(weight)
        y = multiply(codes[:2], of_weight[:2], bias, fast=True, dtype=x.dtype)
        return y.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def factor(dy: torch.Tensor, copy: bool) -> Codes:
        """Returns the output's gradient in codes."""
        return quantize(dy, "f8E5M2", copy)

    @staticmethod
    def to_input(dy: Codes, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns the input's gradient, in row-major order."""
        turned = transposed(quantized_weight(weight, copy=True))
        return multiply(dy[:2], turned, of="f8E5M2", dtype=dtype)

    @staticmethod
    def to_weight(dy: Codes, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns the weight's gradient."""
        turned = transposed(quantize(x, "f8E4M3FN", copy=True))
        return multiply(transposed(dy), turned, of="f8E5M2", dtype=dtype)
