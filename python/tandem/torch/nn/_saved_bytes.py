"""The bytes that a model saves for its backward pass, from a forward pass without memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from tandem.torch.nn._layer import shapes_only


class _FusedAttention(torch.autograd.Function):
    """Saves what fused attention kernels save: queries, keys, values, the output, and the
    logarithm of the softmax's sum for each row. The mask is saved too, if there is one."""

    @staticmethod
    def forward(ctx, query, key, value, mask):
        *outer, heads, length, _ = query.shape
        # Kernels write the heads of a token side by side, as the next layer reads them.
        out = query.new_empty((*outer, length, heads, value.shape[-1])).transpose(-3, -2)
        rows = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
        given = () if mask is None else (mask,)
        ctx.save_for_backward(query, key, value, out, rows, *given)
        return out

    @staticmethod
    def backward(ctx, dy):
        raise NotImplementedError("tandem.torch.memory counts what a forward pass saves, and runs "
                                  "no backward pass")


class _Fused(TorchFunctionMode):
    """Attention is that of a fused kernel, which PyTorch does not have for the meta device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is functional.scaled_dot_product_attention:
            given = dict(zip(("query", "key", "value", "attn_mask"), args)) | kwargs
            return _FusedAttention.apply(given["query"], given["key"], given["value"],
                                         given.get("attn_mask"))
        return function(*args, **kwargs)


def on_meta(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy of a model on the meta device, which takes no memory, in training mode."""
    memo = {}
    for tensors, make in ((model.parameters(), torch.nn.Parameter), (model.buffers(), None)):
        for tensor in tensors:
            own = tensor.detach().to("meta")
            memo[id(tensor)] = make(own, tensor.requires_grad) if make else own
    return copy.deepcopy(model, memo).train()


def saved_bytes(run: Callable[[], object], model: torch.nn.Module) -> int:
    """Returns the bytes of all tensors that autograd holds after a call, except the model's
    parameters and buffers. Tensors that share memory count once.

    Args:
        run: runs the forward pass on the meta device, and returns its result.
        model: the model.
    """
    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    found: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            found[storage._cdata] = storage  # keeps its address from being used again
        return tensor

    with (shapes_only(), _Fused(), torch.enable_grad(),
          torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)):
        result = run()
    del result
    return sum(storage.nbytes() for storage in found.values())


def arguments_on_meta(inputs: object) -> tuple[tuple, Mapping]:
    """Returns positional and named arguments of a model on the meta device.

    Args:
        inputs: a tensor, a sequence of positional arguments, or a mapping of named ones.
    """
    def moved(value: object) -> object:
        return value.detach().to("meta") if isinstance(value, torch.Tensor) else value

    if isinstance(inputs, Mapping):
        return (), {name: moved(value) for name, value in inputs.items()}
    given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    return tuple(map(moved, given)), {}
