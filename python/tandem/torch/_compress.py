"""Swapping modules of an existing model for compressed ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from tandem.torch import nn


@dataclass
class Compression:
    """What :func:`compress_activations` did to a model."""

    #: Modules that were swapped: their names, and what they are now.
    swapped: dict[str, str] = field(default_factory=dict)
    #: Modules that were left alone, and why.
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{name}: {what}" for name, what in self.swapped.items()]
        lines += [f"{name}: left alone, {why}" for name, why in self.left.items()]
        return "\n".join(lines)


class _Unfit(Exception):
    """Why a module stays as it is."""


def _like(new: torch.nn.Module, old: torch.nn.Module) -> torch.nn.Module:
    """The new module with the parameters and the mode of the old one."""
    for name, parameter in old._parameters.items():
        new._parameters[name] = parameter
    return new.train(old.training)


def _rms_norm(old: torch.nn.Module, options: dict) -> torch.nn.Module:
    if old.weight is None:
        raise _Unfit("it has no weight")
    if old.weight.dim() != 1:
        raise _Unfit("it normalizes more than the last dimension")
    eps = getattr(old, "variance_epsilon", getattr(old, "eps", None))
    return _like(nn.RMSNorm(old.weight.shape[0], eps, device="meta", **options), old)


def _layer_norm(old: torch.nn.LayerNorm, options: dict) -> torch.nn.Module:
    if old.weight is None or old.bias is None:
        raise _Unfit("it has no weight or no bias")
    if old.weight.dim() != 1:
        raise _Unfit("it normalizes more than the last dimension")
    new = nn.LayerNorm(old.weight.shape[0], old.eps, device="meta", **options)
    return _like(new, old)


def _linear(old: torch.nn.Linear, options: dict) -> torch.nn.Module:
    new = nn.Linear(old.in_features, old.out_features, old.bias is not None,
                    device="meta", **options)
    return _like(new, old)


def _activation(old: torch.nn.Module, options: dict) -> torch.nn.Module:
    approximate = _gelu_of(old)
    new = nn.GELU(approximate, **options) if approximate else nn.SiLU(**options)
    return new.train(old.training)


def _is_silu(module: torch.nn.Module) -> bool:
    return type(module).__name__ in ("SiLU", "SiLUActivation")


def _gelu_of(module: torch.nn.Module) -> str | None:
    """How GELU is approximated: "none", by erf, or "tanh"; None is what is no GELU."""
    name = type(module).__name__
    if name == "GELUActivation":
        return "none"
    if name in ("GELUTanh", "PytorchGELUTanh", "NewGELUActivation", "FastGELUActivation"):
        return "tanh"
    return getattr(module, "approximate", None) if name == "GELU" else None


def _gated_mlp(old: torch.nn.Module, options: dict) -> torch.nn.Module:
    if _is_silu(old.act_fn):
        gated = nn.SwiGLU(**options)
    elif approximate := _gelu_of(old.act_fn):
        gated = nn.GeGLU(approximate, **options)
    else:
        raise _Unfit(f"its activation {type(old.act_fn).__name__} is neither SiLU nor GELU")
    parts = (old.gate_proj, old.up_proj, old.down_proj)
    return nn.GatedMLP(*parts, gated).train(old.training)


def _cross_entropy(old: torch.nn.CrossEntropyLoss, options: dict) -> torch.nn.Module:
    if old.weight is not None or old.label_smoothing:
        raise _Unfit("it weighs classes or smooths labels")
    return nn.CrossEntropyLoss(old.ignore_index, old.reduction, **options)


#: Modules of PyTorch's, of which a subclass may compute something else.
_KNOWN = (torch.nn.RMSNorm, torch.nn.LayerNorm, torch.nn.Linear, torch.nn.CrossEntropyLoss)

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _check_plain(old: torch.nn.Module) -> None:
    """Refuses a module that computes more than its class does, or another class's."""
    for known in _KNOWN:
        if isinstance(old, known) and type(old) is not known:
            raise _Unfit(f"{type(old).__name__} may compute more than torch.nn."
                         f"{known.__name__}")
    if "forward" in vars(old):
        raise _Unfit("it has a forward of its own")
    if isinstance(old, _KNOWN[:3]) and (
            old._buffers or not old._parameters.keys() <= {"weight", "bias"}):
        raise _Unfit("its weight is computed of other tensors, as when it is pruned")
    if any(getattr(old, hooks, None) for hooks in _HOOKS):
        raise _Unfit("it has hooks, which the new module would not have")


def _unknown_norm(old: torch.nn.Module, options: dict) -> torch.nn.Module:
    raise _Unfit(f"{type(old).__name__} is no norm that is known here")


def _swap_for(module: torch.nn.Module) -> Callable | None:
    """What makes a compressed module of this one, if anything."""
    if isinstance(module, nn._Compressed | nn.GatedMLP):
        return None
    if all(hasattr(module, name) for name in ("gate_proj", "up_proj", "down_proj",
                                              "act_fn")):
        return _gated_mlp
    is_huggingface = (type(module).__name__.endswith("RMSNorm")
                      and hasattr(module, "variance_epsilon"))
    if isinstance(module, torch.nn.RMSNorm) or is_huggingface:
        return _rms_norm
    if isinstance(module, torch.nn.LayerNorm):
        return _layer_norm
    if isinstance(module, torch.nn.Linear):
        return _linear
    if isinstance(module, torch.nn.CrossEntropyLoss):
        return _cross_entropy
    if _is_silu(module) or _gelu_of(module):
        return _activation
    return _unknown_norm if type(module).__name__.endswith("Norm") else None


def _recompute(block: nn.GatedMLP) -> str:
    """Has the block not keep its product, if its matrix product is an ordinary one; what
    it does then."""
    block.recompute = isinstance(block.down_proj, nn.Linear) or (
        type(block.down_proj) is torch.nn.Linear)
    return ("GatedMLP, whose product is computed again" if block.recompute else
            f"GatedMLP, which keeps its product for a {type(block.down_proj).__name__}")


def compress_activations(model: torch.nn.Module, recipe: str = "coat", *,
                         recompute: bool = False, products: str = "bf16",
                         path: Sequence[str | os.PathLike] = ()) -> Compression:
    """Swaps a model's norms, activations, gated feed-forward blocks, linear layers and
    cross entropies, in place, for modules that keep their activations as the recipe says.

    It knows :class:`torch.nn.RMSNorm`, :class:`torch.nn.LayerNorm`,
    :class:`torch.nn.Linear`, :class:`torch.nn.SiLU`, :class:`torch.nn.GELU`,
    :class:`torch.nn.CrossEntropyLoss` without weights, and, of Hugging Face's models, the
    RMSNorms with a ``variance_epsilon``, SiLU and GELU, and the blocks with ``gate_proj``,
    ``up_proj``, ``down_proj`` and ``act_fn``. Parameters stay the same objects under the
    same names, so that optimizers go on and checkpoints load.

    With ``recompute`` gated blocks do not keep the product that goes into ``down_proj``.
    The backward pass computes it again of what is kept of its two factors: one more pass
    over them, a byte for each element less under ``coat`` (docs/Activations.md).

    With ``products="fp8"`` linear layers multiply 8-bit floats where they can, see
    :class:`tandem.torch.nn.Linear`. The recipe for them is "coat-fp8", under which norms and
    activations write their codes as such products take them.

    Returns:
        what was swapped, and what was left alone and why.
    """
    done = Compression()
    if _swap_for(model):
        done.left["(the model)"] = "it has no parent, in which another could take its place"
    _swap_children(model, "", {"recipe": recipe, "path": path}, recompute, done, {})
    for name in done.swapped:
        if isinstance(module := model.get_submodule(name), nn.Linear):
            module.products = products
    return done


def _swap_children(parent: torch.nn.Module, prefix: str, options: dict, recompute: bool,
                   done: Compression, made: dict[torch.nn.Module, torch.nn.Module]) -> None:
    """Swaps what is below a module, the outermost modules first; ``made`` has the new
    modules of those that have come before."""
    for name, module in list(parent._modules.items()):
        full, swap = prefix + name, module and _swap_for(module)
        if module in made:
            setattr(parent, name, made[module])
            done.swapped[full] = f"{type(module).__name__} -> {type(made[module]).__name__}"
            continue
        try:
            if swap:
                _check_plain(module)
                new = made[module] = swap(module, options)
                setattr(parent, name, new)
                what = (_recompute(new) if recompute and isinstance(new, nn.GatedMLP)
                        else type(new).__name__)
                done.swapped[full] = f"{type(module).__name__} -> {what}"
                module = new
        except _Unfit as reason:
            done.left[full] = str(reason)
        if module:
            _swap_children(module, f"{full}.", options, recompute, done, made)
