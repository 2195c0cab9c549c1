"""Tensor and sequence parallelism with 8-bit codes in collectives.

FP8-LM (Peng et al. 2023), section 2.3 and figure 2: E4M3 in the forward pass, E5M2 in the
backward pass.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle
from torch.nn import functional

from tandem.torch._dynamo import uncompiled
from tandem.torch.distributed import _collectives
from tandem.torch.distributed._codec import codec
from tandem.torch.nn import _modules, functional as F
from tandem.torch.nn._autograd import first_derivative
from tandem.torch.nn._stored import StoredTensor, decoded

#: The codes of the forward pass and of the backward pass.
_FORWARD, _BACKWARD = "f8E4M3FN", "f8E5M2"
#: The recipe that saves an input in its gathered form, for layers without a recipe.
_RECIPE = "te-current"
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class GatheredTensor(StoredTensor):
    """Gathered activations of all ranks: E4M3 codes and one scale.

    Layers of :mod:`tandem.torch.nn` whose recipe has the same storage save it unchanged; other
    operations use the decoded values. The gather's backward pass sums the ranks' gradients, so
    each rank must compute a different part of the features from it, as column-wise layers do.
    """

    def _shared(self, shape: torch.Size) -> GatheredTensor:
        return GatheredTensor(shape, self.dtype, self.storage, self.planes)


def _stored(kind: type[StoredTensor], codes: torch.Tensor, scale: torch.Tensor, code: str,
            dtype: torch.dtype) -> StoredTensor:
    return kind(codes.shape, dtype, codec(code).storage, {"": codes, ".scale": scale})


#===------------------------------------------------------------------------===#
# Collectives and their duals
#===------------------------------------------------------------------------===#


class _Gather(torch.autograd.Function):
    """All-gather in the forward pass, reduce-scatter in the backward pass."""

    @staticmethod
    def forward(ctx, x, dim, group, label):
        ctx.dim, ctx.group, ctx.label = dim, group, label
        codes, scale = _collectives.all_gather(x, dim, codec(_FORWARD), group, label)
        return _stored(GatheredTensor, codes, scale, _FORWARD, x.dtype)

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        dx = _collectives.reduce_scatter(decoded(dy), ctx.dim, codec(_BACKWARD), ctx.group,
                                         f"the gradient of {ctx.label}")
        return dx, None, None, None


class _Scatter(torch.autograd.Function):
    """Reduce-scatter in the forward pass, all-gather in the backward pass."""

    @staticmethod
    def forward(ctx, x, dim, group, label):
        ctx.dim, ctx.group, ctx.label, ctx.dtype = dim, group, label, x.dtype
        return _collectives.reduce_scatter(x, dim, codec(_FORWARD), group, label)

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        codes, scale = _collectives.all_gather(decoded(dy), ctx.dim, codec(_BACKWARD), ctx.group,
                                               f"the gradient of {ctx.label}")
        return codec(_BACKWARD).decode(codes, scale, ctx.dtype), None, None, None


class _Sum(torch.autograd.Function):
    """All-reduce in the forward pass, identity in the backward pass, because ranks have equal
    gradients."""

    @staticmethod
    def forward(ctx, x, group, label):
        return _collectives.all_reduce(x, codec(_FORWARD), group, label)

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        return dy, None, None


class _Copy(torch.autograd.Function):
    """Identity in the forward pass, all-reduce in the backward pass."""

    @staticmethod
    def forward(ctx, x, group, label):
        ctx.group, ctx.label = group, label
        return x.view_as(x)

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        return _collectives.all_reduce(decoded(dy), codec(_BACKWARD), ctx.group,
                                       f"the gradient of {ctx.label}"), None, None


class _SumGradient(torch.autograd.Function):
    """Identity in the forward pass, and a sum of gradients in the backward pass, for a vector
    that each rank applies to its part of the sequence."""

    @staticmethod
    def forward(ctx, vector, group):
        ctx.group = group
        return vector.view_as(vector)

    @staticmethod
    @first_derivative
    def backward(ctx, gradient):
        return _collectives.sum_in_order(gradient, ctx.group), None


#===------------------------------------------------------------------------===#
# Styles
#===------------------------------------------------------------------------===#


class _Style(ParallelStyle):
    """Shards a module's parameters, and makes its forward pass use this rank's shards."""

    def _apply(self, module: torch.nn.Module, device_mesh: DeviceMesh) -> torch.nn.Module:
        name = type(self).__name__
        if device_mesh.ndim != 1:
            raise ValueError(f"{name} takes a mesh of one dimension, got one of {device_mesh.ndim}; "
                             "pass the tensor-parallel one, such as mesh['tp']")
        if device_mesh.device_type not in ("cpu", "cuda"):
            raise ValueError(f"{name} encodes on CPUs and CUDA devices, got a mesh of "
                             f"{device_mesh.device_type!r}; take torch.distributed.tensor.parallel's "
                             "style there")
        self._check(module, device_mesh.size())
        for key, param in list(module.named_parameters(recurse=False)):
            shared = distribute_tensor(param, device_mesh, [self._placement(key)])
            module.register_parameter(
                key, torch.nn.Parameter(shared, requires_grad=param.requires_grad))
        module.forward = partial(_run, self, module, device_mesh)
        return module

    def _check(self, module: torch.nn.Module, ranks: int) -> None:
        """Refuses a module that this style does not support."""
        raise NotImplementedError

    def _placement(self, key: str) -> Placement:
        """Returns the placement of a parameter by its name."""
        raise NotImplementedError

    def _forward(self, module: torch.nn.Module, mesh: DeviceMesh,
                 x: torch.Tensor) -> torch.Tensor:
        """Returns this rank's output."""
        raise NotImplementedError

    def _check_linear(self, module: torch.nn.Module, size: str, ranks: int) -> None:
        """Refuses modules other than linear layers, and sizes that are not divisible by the
        number of ranks."""
        name = type(self).__name__
        if not isinstance(module, torch.nn.Linear):
            raise NotImplementedError(
                f"{name} is for torch.nn.Linear and tandem.torch.nn.Linear, got "
                f"{type(module).__name__}; take torch.distributed.tensor.parallel's "
                f"{name.removeprefix('FP8')} for it")
        if type(module).forward not in (torch.nn.Linear.forward, _modules.Linear.forward):
            raise NotImplementedError(f"{type(module).__name__} has a forward pass of its own, which "
                                      f"{name} would replace; take PyTorch's style for it")
        if module.weight.dtype not in _DTYPES:
            raise TypeError(f"{name} takes weights in bfloat16, float16 or float32, got "
                            f"{module.weight.dtype}; convert the module with .to()")
        if getattr(module, size) % ranks:
            raise ValueError(f"{name} divides {size}={getattr(module, size)} among {ranks} ranks, "
                             f"which does not come out even; make it a multiple of {ranks}")

    def _output(self, y: torch.Tensor, mesh: DeviceMesh, placement: Placement) -> torch.Tensor:
        return y if self.use_local_output else DTensor.from_local(y, mesh, [placement],
                                                                  run_check=False)


@uncompiled
def _run(style: _Style, module: torch.nn.Module, mesh: DeviceMesh,
         x: torch.Tensor) -> torch.Tensor:
    return style._forward(module, mesh, x)


def _label(module: torch.nn.Module) -> str:
    return f"{type(module).__name__}({module.extra_repr()})"


def _local(x: torch.Tensor, placement: Placement, module: torch.nn.Module) -> torch.Tensor:
    """Returns this rank's part of an input; a plain tensor is already local."""
    if isinstance(x, DTensor):
        wanted = _normal(placement, x.dim())
        found = tuple(_normal(p, x.dim()) for p in x.placements)
        if found != (wanted,):
            raise ValueError(
                f"the input of {_label(module)} is a DTensor with placements {x.placements}, and "
                f"input_layouts says {placement!r}; redistribute it, or pass input_layouts="
                f"{found[0] if len(found) == 1 else found!r}")
        x = x.to_local()
    if x.dtype not in _DTYPES:
        raise TypeError(f"the input of {_label(module)} is {x.dtype}; codes are made from "
                        "bfloat16, float16 and float32: convert it with .to()")
    return x


def _normal(placement: Placement, dims: int) -> Placement:
    """Returns a placement with a non-negative dimension."""
    return Shard(placement.dim % dims) if isinstance(placement, Shard) else placement


def _dim(placement: Shard, x: torch.Tensor, module: torch.nn.Module) -> int:
    """Returns the sequence dimension, which must not be the last."""
    dim = placement.dim + x.dim() * (placement.dim < 0)
    if not 0 <= dim < x.dim() - 1:
        raise ValueError(f"{placement!r} is not a dimension of the rows of {_label(module)}'s "
                         f"tensor of {x.dim()} dimensions; a sequence is sharded in one before the last")
    return dim


def _local_parameter(param: torch.Tensor) -> torch.Tensor:
    return param.to_local() if isinstance(param, DTensor) else param


def _product(module: torch.nn.Linear, x: torch.Tensor, has_bias: bool) -> torch.Tensor:
    """Returns the product with this rank's part of the weight."""
    weight = _local_parameter(module.weight)
    bias = _local_parameter(module.bias) if has_bias and module.bias is not None else None
    if isinstance(module, _modules.Linear):
        return F.linear(x, weight, bias, **module._options, **_modules._products_of(module))
    if isinstance(x, StoredTensor):
        return F.linear(x, weight, bias, recipe=_RECIPE)
    return functional.linear(x, weight, bias)


class FP8ColwiseParallel(_Style):
    """:class:`torch.distributed.tensor.parallel.ColwiseParallel` for linear layers, with the
    input gathered as E4M3 codes and the input's gradient reduced as E5M2 codes.

    Codes have one scale per tensor, the maximum over the ranks, so the gathered codes are those
    that one process would compute. A layer saves these codes for its weight's gradient: a layer
    of ``tandem.torch.nn`` if its recipe has the same storage, such as "te-current", and a layer
    of torch.nn always.

    Args:
        input_layouts: ``Shard(d)`` of a sequence dimension, which is gathered; or
            ``Replicate()``, the default, for a whole input or a :class:`GatheredTensor` from
            :class:`FP8SequenceParallel`.
        output_layouts: ``Shard(-1)``, the default.
        use_local_output: whether the output is a local tensor instead of a DTensor.
    """

    def __init__(self, *, input_layouts: Placement | None = None,
                 output_layouts: Placement | None = None, use_local_output: bool = True):
        super().__init__()
        self.input_layouts = _one_of(self, "input_layouts", input_layouts or Replicate(),
                                     (Replicate, Shard))
        self.output_layouts = output_layouts or Shard(-1)
        if self.output_layouts != Shard(-1):
            raise ValueError(f"output_layouts of FP8ColwiseParallel is Shard(-1), got "
                             f"{self.output_layouts!r}; follow it by FP8RowwiseParallel")
        self.use_local_output = use_local_output

    def _check(self, module: torch.nn.Module, ranks: int) -> None:
        self._check_linear(module, "out_features", ranks)

    def _placement(self, key: str) -> Placement:
        return Shard(0)

    def _forward(self, module, mesh, x):
        group, label = mesh.get_group(), _label(module)
        if not isinstance(x, GatheredTensor):
            x = _local(x, self.input_layouts, module)
            if isinstance(self.input_layouts, Shard):
                x = _Gather.apply(decoded(x), _dim(self.input_layouts, x, module), group, label)
            else:
                x = _Copy.apply(decoded(x), group, label)
        return self._output(_product(module, x, True), mesh, Shard(-1))


class FP8RowwiseParallel(_Style):
    """:class:`torch.distributed.tensor.parallel.RowwiseParallel` for linear layers, with partial
    products exchanged as E4M3 codes and the output's gradient gathered as E5M2 codes.

    Each rank encodes its partial product with its own scale. The codes are decoded and added in
    f32 in the order of the ranks; for ``Replicate()`` the sums are encoded again. The bias is
    added to the sum.

    Args:
        input_layouts: ``Shard(-1)``, the default.
        output_layouts: ``Shard(d)`` of a sequence dimension, or ``Replicate()``, the default.
        use_local_output: whether the output is a local tensor instead of a DTensor.
    """

    def __init__(self, *, input_layouts: Placement | None = None,
                 output_layouts: Placement | None = None, use_local_output: bool = True):
        super().__init__()
        self.input_layouts = input_layouts or Shard(-1)
        if self.input_layouts != Shard(-1):
            raise ValueError(f"input_layouts of FP8RowwiseParallel is Shard(-1), got "
                             f"{self.input_layouts!r}; precede it by FP8ColwiseParallel")
        self.output_layouts = _one_of(self, "output_layouts", output_layouts or Replicate(),
                                      (Replicate, Shard))
        self.use_local_output = use_local_output

    def _check(self, module: torch.nn.Module, ranks: int) -> None:
        self._check_linear(module, "in_features", ranks)

    def _placement(self, key: str) -> Placement:
        return Shard(1) if key == "weight" else Replicate()

    def _forward(self, module, mesh, x):
        group, label = mesh.get_group(), _label(module)
        y = _product(module, _local(x, Shard(-1), module), False)
        sharded = isinstance(self.output_layouts, Shard)
        if sharded:
            y = _Scatter.apply(y, _dim(self.output_layouts, y, module), group, label)
        else:
            y = _Sum.apply(y, group, label)
        if module.bias is not None:
            bias = _local_parameter(module.bias)
            y = y + (_SumGradient.apply(bias, group) if sharded else bias).to(y.dtype)
        return self._output(y, mesh, self.output_layouts)


class FP8SequenceParallel(_Style):
    """:class:`torch.distributed.tensor.parallel.SequenceParallel` for a norm, followed by an
    all-gather of its output as E4M3 codes.

    The layers that take the output, such as the query, key and value projections, share one
    gather and one saved copy of the codes; their gradients are added before the reduce-scatter.
    The gradients of the norm's parameters are added in f32 in the order of the ranks.

    Args:
        sequence_dim: the dimension of the input that is sharded over the ranks.
        gather: whether the output is gathered as a :class:`GatheredTensor`; otherwise it is this
            rank's slice.
        use_local_output: whether a slice is a local tensor instead of a DTensor.
    """

    def __init__(self, *, sequence_dim: int = 1, gather: bool = True,
                 use_local_output: bool = True):
        super().__init__()
        if gather and not use_local_output:
            raise ValueError("FP8SequenceParallel gathers codes, which no DTensor holds; leave "
                             "use_local_output=False out, or pass gather=False as well")
        self.sequence_dim, self.gather = sequence_dim, gather
        self.use_local_output = use_local_output

    def _check(self, module: torch.nn.Module, ranks: int) -> None:
        if list(module.children()):
            raise NotImplementedError(
                f"FP8SequenceParallel is for norms and other modules without modules in them, got "
                f"{type(module).__name__}; name its parts in parallelize_module's plan")

    def _placement(self, key: str) -> Placement:
        return Replicate()

    def _forward(self, module, mesh, x):
        group, placement = mesh.get_group(), Shard(self.sequence_dim)
        x = _local(x, placement, module)
        dim = _dim(placement, x, module)
        with _parameters(module, lambda p: _SumGradient.apply(_local_parameter(p), group)):
            y = type(module).forward(module, x)
        if self.gather:
            return _Gather.apply(decoded(y), dim, group, _label(module))
        return self._output(y, mesh, placement)


def _one_of(style: _Style, name: str, layout: Placement, kinds: tuple[type, ...]) -> Placement:
    """Returns a layout after checking that it has one of these kinds."""
    if not isinstance(layout, kinds):
        raise ValueError(f"{name} of {type(style).__name__} is Replicate() or Shard(d), got "
                         f"{layout!r}")
    if layout == Shard(-1):
        raise ValueError(f"{name} of {type(style).__name__} shards a sequence, and Shard(-1) is the "
                         "dimension of features; pass Shard(1), or whichever is the sequence")
    return layout


@contextmanager
def _parameters(module: torch.nn.Module, change):
    """Returns a context in which the module's forward pass uses other tensors as its
    parameters."""
    kept = dict(module._parameters)
    try:
        module._parameters.update({name: change(param) for name, param in kept.items()
                                   if param is not None})
        yield
    finally:
        module._parameters.update(kept)
