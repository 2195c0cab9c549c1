"""Finds the modules of a model that can be swapped for compressed ones.

A module is recognized by its type or tested by a probe (:mod:`tandem.torch.nn._probe`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping

import torch

from tandem.torch.nn import _modules as compressed
from tandem.torch.nn._probe import (HOOKS, CannotProve, Inputs, NotAlike, check_alike,
                                    small_sizes)

#: A function from an old module and options to a new module.
Builder = Callable[[torch.nn.Module, dict], torch.nn.Module]

#: The recipe of probes, which is lossless.
_LOSSLESS = {"recipe": "fp32", "path": ()}

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


#: The methods of a module other than its forward pass.
_OWN = ("state_dict", "load_state_dict", "_save_to_state_dict", "_load_from_state_dict",
        "get_extra_state", "set_extra_state", "_apply", "train", "__call__")


class Unfit(Exception):
    """Raised with the reason why a module is not swapped."""


#===----------------------------------------------------------------------===#
# Builders
#===----------------------------------------------------------------------===#


def _like(new: torch.nn.Module, old: torch.nn.Module) -> torch.nn.Module:
    """Returns the new module with the parameters and the mode of the old one."""
    for name, parameter in old._parameters.items():
        new._parameters[name] = parameter
    return new.train(old.training)


def _width(old: torch.nn.Module) -> int:
    return old.normalized_shape[0] if old.weight is None else old.weight.shape[0]


def _rms_norm(old: torch.nn.Module, options: dict) -> torch.nn.Module:
    return _like(compressed.RMSNorm(_width(old), _epsilon(old), old.weight is not None,
                                    device="meta", **options), old)


def _layer_norm(old: torch.nn.Module, options: dict) -> torch.nn.Module:
    return _like(compressed.LayerNorm(_width(old), _epsilon(old), old.weight is not None,
                                      old.bias is not None, device="meta", **options), old)


def _linear(old: torch.nn.Linear, options: dict) -> torch.nn.Module:
    new = compressed.Linear(old.in_features, old.out_features, old.bias is not None,
                            device="meta", **options)
    return _like(new, old)


def _silu(old: torch.nn.Module, options: dict) -> torch.nn.Module:
    return compressed.SiLU(**options).train(old.training)


def _gelu(approximate: str) -> Builder:
    return lambda old, options: compressed.GELU(approximate, **options).train(old.training)


def _cross_entropy(old: torch.nn.CrossEntropyLoss, options: dict) -> torch.nn.Module:
    new = compressed.CrossEntropyLoss(
        ignore_index=old.ignore_index, reduction=old.reduction, **options)
    return new.train(old.training)


def _gated(act: Callable[..., torch.nn.Module]) -> Builder:
    def build(old: torch.nn.Module, options: dict) -> torch.nn.Module:
        parts = (old.gate_proj, old.up_proj, old.down_proj)
        return compressed.GatedMLP(*parts, act(**options)).train(old.training)

    return build


_ACTIVATIONS = {"SiLU": _silu, "GELU by erf": _gelu("none"), "GELU by tanh": _gelu("tanh")}

_GATED = {"SwiGLU": _gated(compressed.SwiGLU), "GeGLU by erf": _gated(compressed.GeGLU),
          "GeGLU by tanh": _gated(lambda **options: compressed.GeGLU("tanh", **options))}


def _epsilon(norm: torch.nn.Module) -> float | None:
    """Returns the epsilon that a norm adds to the variance, under any of the names that
    libraries use."""
    for name in ("variance_epsilon", "eps", "epsilon", "norm_eps", "layer_norm_eps"):
        if hasattr(norm, name):
            return getattr(norm, name)
    raise Unfit(f"{type(norm).__name__} has no attribute eps or variance_epsilon")


#===----------------------------------------------------------------------===#
# Modules that are recognized by their type
#===----------------------------------------------------------------------===#


def _known_norm(build: Builder) -> Callable[[torch.nn.Module], Builder]:
    def fit(old: torch.nn.Module) -> Builder:
        if len(old.normalized_shape) != 1:
            raise Unfit("it normalizes more than the last dimension")
        _check_shapes(old, dict.fromkeys(old._parameters, tuple(old.normalized_shape)))
        return build

    return fit


def _known_linear(old: torch.nn.Linear) -> Builder:
    _check_shapes(old, {"weight": (old.out_features, old.in_features),
                        "bias": (old.out_features,)})
    return _linear


def _known_silu(old: torch.nn.SiLU) -> Builder:
    if old.inplace:
        raise Unfit("it writes its output over its input")
    return _silu


def _known_loss(old: torch.nn.CrossEntropyLoss) -> Builder:
    if old.weight is not None or old.label_smoothing:
        raise Unfit("it weighs classes or smooths labels")
    return _cross_entropy


#: Functions that check one of PyTorch's modules and return its builder. Subclasses are excluded,
#: since they may compute something else.
_KNOWN: dict[type, Callable[[torch.nn.Module], Builder]] = {
    torch.nn.RMSNorm: _known_norm(_rms_norm),
    torch.nn.LayerNorm: _known_norm(_layer_norm),
    torch.nn.Linear: _known_linear,
    torch.nn.SiLU: _known_silu,
    torch.nn.GELU: lambda old: _gelu(old.approximate),
    torch.nn.CrossEntropyLoss: _known_loss,
}


#: Modules with parameters of fixed names.
_WEIGHTED = (torch.nn.RMSNorm, torch.nn.LayerNorm, torch.nn.Linear)


def _known_builder(module: torch.nn.Module, base: type) -> Builder:
    if type(module) is not base:
        raise Unfit(f"{type(module).__name__} may compute more than torch.nn.{base.__name__}")
    if base in _WEIGHTED:
        _check_names(module)
    _check_plain(module)
    return _KNOWN[base](module)


def _known_base(module: torch.nn.Module) -> type | None:
    return next((base for base in _KNOWN if isinstance(module, base)), None)


def _check_shapes(old: torch.nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        p = old._parameters.get(name)
        if p is not None and tuple(p.shape) != shape:
            raise Unfit(f"its {name} is {tuple(p.shape)} instead of {shape}, as when it is "
                        "sharded or quantized")


def has_hooks(module: torch.nn.Module) -> bool:
    return any(getattr(module, hooks, None) for hooks in HOOKS)


def _check_unsharded(old: torch.nn.Module) -> None:
    """Refuses a module whose parameters FSDP replaces, since it would continue to do so in the
    old module."""
    if getattr(old, "_is_fsdp_managed_module", False) and (
            old._modules or getattr(old, "weight", None) is not None):
        raise Unfit("FSDP shards it; compress activations before")


def _check_plain(old: torch.nn.Module) -> None:
    """Refuses a module that does more than its class, and parameters that are not plain
    tensors."""
    if "forward" in vars(old):
        raise Unfit("it has a forward of its own")
    if vars(old).get("_compiled_call_impl"):
        raise Unfit("it is compiled; compress activations before")
    if has_hooks(old):
        raise Unfit("it has hooks, which the new module would not have")
    for name, p in old._parameters.items():
        if p is not None:
            _check_parameter(name, p)


def _check_parameter(name: str, p: torch.nn.Parameter) -> None:
    if type(p) is not torch.nn.Parameter:
        raise Unfit(f"its {name} is a {type(p).__name__}, and no plain parameter")
    if p.dtype not in _FLOATS:
        raise Unfit(f"its {name} is of {p.dtype}; layers take float32, bfloat16 and float16")


def _check_names(old: torch.nn.Module) -> None:
    """Refuses a norm or linear layer whose weight comes from other tensors."""
    if old._buffers or not {"weight"} <= old._parameters.keys() <= {"weight", "bias"}:
        raise Unfit("its weight is computed from other tensors, as when it is pruned")


#===----------------------------------------------------------------------===#
# Modules that need a probe
#===----------------------------------------------------------------------===#


def _is_gated(module: torch.nn.Module) -> bool:
    return all(isinstance(getattr(module, name, None), torch.nn.Module)
               for name in ("gate_proj", "up_proj", "down_proj"))


def _is_norm(module: torch.nn.Module) -> bool:
    return bool(re.search(r"Norm(\dd)?$", type(module).__name__))


def _is_activation(module: torch.nn.Module) -> bool:
    is_alone = not (module._parameters or module._modules or module._buffers)
    return is_alone and bool(re.search("gelu|silu|swish", type(module).__name__, re.IGNORECASE))


def is_candidate(module: torch.nn.Module) -> bool:
    """Returns whether a module looks like one that can be swapped."""
    return bool(_known_base(module) or _is_gated(module) or _is_norm(module)
                or _is_activation(module))


def _only(kind: str, names, allowed) -> None:
    if more := sorted(set(names) - set(allowed)):
        raise Unfit(f"it has {kind} that the new module would lack: {', '.join(more)}")


def _gated_ways(old: torch.nn.Module) -> tuple[Mapping[str, Builder], Inputs]:
    """Returns the ways to swap a gated block, and the inputs for its probe."""
    _only("parameters", old._parameters, ())
    _only("buffers", old._buffers, ())
    parts = [old.gate_proj, old.up_proj, old.down_proj]
    act = [name for name, child in old._modules.items() if child not in parts][:1]
    _only("modules", old._modules, ("gate_proj", "up_proj", "down_proj", *act))
    for name in act:
        _check_act(name, old._modules[name])
    for name in ("gate_proj", "up_proj", "down_proj"):
        _check_part(name, getattr(old, name))
    columns = small_sizes(old)[old.gate_proj.in_features]
    return _GATED, Inputs(columns, (1 / 32, 1.0, 32.0, 1024.0))


def _check_act(name: str, act: torch.nn.Module) -> None:
    """Refuses a gated block's activation module if it is more than a plain activation."""
    if act._parameters or act._buffers or act._modules:
        raise Unfit(f"its {name}, a {type(act).__name__}, is more than an activation")
    try:
        _check_plain(act)
    except Unfit as reason:
        raise Unfit(f"its {name} stays: {reason}") from None


def _check_part(name: str, part: torch.nn.Module) -> None:
    """Refuses a linear layer of a gated block if a probe cannot replace it."""
    if type(part) not in (torch.nn.Linear, compressed.Linear):
        raise Unfit(f"its {name} is a {type(part).__name__}, and no torch.nn.Linear")
    try:
        _check_names(part)
        for of, p in part._parameters.items():
            if p is not None:
                _check_parameter(of, p)
    except Unfit as reason:
        raise Unfit(f"its {name} stays: {reason}") from None


def _norm_ways(old: torch.nn.Module) -> tuple[Mapping[str, Builder], Inputs]:
    if type(old).__module__.startswith("torch.nn."):
        raise Unfit(f"{type(old).__name__} is not a norm that is known here")
    _only("modules", old._modules, ())
    _only("buffers", old._buffers, ())
    _only("parameters", old._parameters, ("weight", "bias"))
    given = [p for p in old._parameters.values() if p is not None]
    if not given or old._parameters.get("weight") is None:
        raise Unfit("it has no weight")
    if any(p.dim() != 1 or p.shape != given[0].shape for p in given):
        raise Unfit("it normalizes more than the last dimension")
    epsilon = _epsilon(old)
    if not isinstance(epsilon, float) or epsilon <= 0:
        raise Unfit(f"its eps is {epsilon!r}")
    ways = {"LayerNorm": _layer_norm} if len(given) == 2 else {"RMSNorm": _rms_norm}
    return ways, Inputs(given[0].shape[0], (epsilon ** 0.5, 1.0, 1024.0))


def _ways(module: torch.nn.Module) -> tuple[Mapping[str, Builder], Inputs] | None:
    """Returns the ways to swap a module, and the inputs for its probe."""
    if _is_gated(module):
        return _gated_ways(module)
    if _is_norm(module):
        return _norm_ways(module)
    if _is_activation(module):
        return _ACTIVATIONS, Inputs(64, (1 / 32, 1.0, 32.0))
    return None


def _check_class(old: torch.nn.Module) -> None:
    """Refuses a module whose forward pass may take more arguments than the new one, or that
    stores its state in another way."""
    for name in _OWN:
        if getattr(type(old), name) is not getattr(torch.nn.Module, name):
            raise Unfit(f"{type(old).__name__} has a method {name} of its own")
    taken = list(inspect.signature(type(old).forward).parameters.values())[1:]
    if len(taken) != 1 or taken[0].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
        raise Unfit("its forward takes more than one tensor")


class Probes:
    """Finds builders for modules, and caches the results of probes for modules that differ only
    in the values of their parameters. ``owners`` is the number of modules with a parameter, by
    its id."""

    def __init__(self, owners: Mapping[int, int]):
        self._owners = owners
        self._known: dict[tuple, Builder | Unfit] = {}

    def builder_of(self, module: torch.nn.Module) -> Builder | None:
        """Returns the builder of a compressed module for this one, or None if it is not a
        candidate.

        Raises:
            Unfit: the module is a candidate that must not be swapped.
        """
        if not is_candidate(module):
            return None
        _check_unsharded(module)
        if base := _known_base(module):
            return _known_builder(module, base)
        return self._proved(module)

    def _proved(self, module: torch.nn.Module) -> Builder:
        _check_plain(module)
        ways, inputs = _ways(module)
        _check_class(module)
        self._check_untied(module)
        key = _signature(module)
        if key not in self._known:
            self._known[key] = _first_alike(module, ways, inputs)
        if isinstance(known := self._known[key], Unfit):
            raise known
        return known

    def _check_untied(self, module: torch.nn.Module) -> None:
        for name, p in module.named_parameters(remove_duplicate=False):
            if self._owners[id(p)] > 1:
                raise Unfit(f"its {name} is tied to another parameter")


def _first_alike(module: torch.nn.Module, ways: Mapping[str, Builder],
                 inputs: Inputs) -> Builder | Unfit:
    """Returns the first builder that passes a probe, or the reasons why there is none."""
    reasons = []
    for build in ways.values():
        try:
            check_alike(module, lambda old, build=build: build(old, _LOSSLESS), inputs)
            return build
        except NotAlike as reason:
            reasons.append(reason)
        except CannotProve as reason:
            return Unfit(str(reason))
        except Exception as error:  # A user's module may raise anything when it is copied.
            return Unfit(f"it cannot be probed: {type(error).__name__}: {error}")
    nearest = min(reasons, key=lambda reason: reason.error)
    return Unfit(f"it does not compute {', or '.join(ways)}: {nearest}")


def _signature(module: torch.nn.Module) -> tuple:
    """Returns a key that is equal for modules that compute the same function of their
    parameters."""
    own = tuple((name, value if isinstance(value, bool | int | float | str) else id(value))
                for name, value in sorted(vars(module).items())
                if name not in ("training", "_parameters", "_buffers", "_modules", *HOOKS)
                and not (isinstance(value, dict | set) and not value))
    return (type(module), own,
            tuple((name, p if p is None else (p.shape, p.dtype, p.device))
                  for name, p in module._parameters.items()),
            tuple((name, child and _signature(child)) for name, child in module._modules.items()))


#===----------------------------------------------------------------------===#
# Unsupported modules
#===----------------------------------------------------------------------===#


def not_served(module: torch.nn.Module) -> str | None:
    """Returns why a module that saves activations as PyTorch does has no compressed
    counterpart."""
    if type(module).__name__ == "Conv1D" and getattr(module, "nf", None):
        return "a Conv1D, whose weight is that of a Linear transposed, has no compressed module"
    if _has_expert_weights(module):
        return "experts with weights of three dimensions have no compressed module"
    return None


def _has_expert_weights(module: torch.nn.Module) -> bool:
    if type(module).__module__.startswith("torch."):
        return False
    counts = [p.shape[0] for p in module._parameters.values() if p is not None and p.dim() == 3]
    return bool(counts) and ("expert" in type(module).__name__.lower()
                             or len(counts) > 1 and min(counts) == max(counts) > 1)


def why_loss_is_left(model: torch.nn.Module) -> str | None:
    """Returns why a Hugging Face model's loss, which is a function, is not swapped."""
    if not hasattr(type(model), "loss_function"):
        return None
    logits = getattr(model, "get_output_embeddings", lambda: None)()
    if logits is None and not getattr(model, "loss_type", None):
        return None
    return ("it is a function and not a module; take the loss of the logits by "
            "tandem.torch.nn.cross_entropy")
