"""The levels of FP8-LM (Peng et al. 2023), each in one call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from tandem import _tandem
from tandem._arguments import directories
from tandem._matrix_codes import check_recipe
from tandem.torch.distributed import AutomaticScaling, GradientAllReduce
from tandem.torch.nn import _candidates
from tandem.torch.nn._compress import _MODEL, Compression, _Swapping
from tandem.torch.nn._layer import compiled
from tandem.torch.nn._patterns import check_patterns, is_named
from tandem.torch.optim import AdamW

if TYPE_CHECKING:
    from tandem.torch.distributed import ShardedFP8LM

#: The directory of strategies that only a level uses, and that are not in the library.
_STRATEGIES = os.path.join(os.path.dirname(__file__), "strategies")

#: The strategy of converted weights, by level.
_LEVELS = {"O1": "fp8-lm-o1", "O2": "fp8-lm", "O3": "fp8-lm"}

#: The strategy of the other parameters, by their type.
_OTHERS = {torch.bfloat16: "master-weights", torch.float16: "f16-master-weights",
           torch.float32: "fp32"}


class FP8LM(AdamW):
    """The optimizer that :func:`fp8_lm` returns.

    Its first param group has the weights of the converted layers, and the others have all other
    parameters, by type.
    """

    #: The all-reduce of gradients at the start of each step; None for one process.
    all_reduce: GradientAllReduce | None = None

    #: The report on the conversion, in the process that created this.
    converted: Compression | None = None

    def _update(self) -> None:
        if self.all_reduce is not None:  # optimizers that release gradients have none
            self.all_reduce()
        super()._update()


def fp8_lm(model: torch.nn.Module, level: str = "O2", lr: float | None = None,
           exclude: Sequence[str] = (), *, recipe: str = "te-current",
           path: Sequence[str | os.PathLike] = (), strict: bool = False, ranks=None,
           **options) -> FP8LM | ShardedFP8LM:
    """Converts a model's linear layers in place, and returns the AdamW for a level of FP8-LM.

    ======  ========  ================  ==================  ======  ===========================
    level   products  weight gradients  their sum of ranks  weight  moments
    ======  ========  ================  ==================  ======  ===========================
    O1      FP8       E4M3              E4M3                f16     f32, f32
    O2      FP8       E4M3              E4M3                f16     E4M3, f16
    O3      FP8       E4M3              E4M3                f16     E4M3, f16 (of own tensors)
    ======  ========  ================  ==================  ======  ===========================

    Each 8-bit or f16 tensor has a scale. The table applies to the weights of linear layers.
    Biases, norms, embeddings and layers in ``exclude`` have f32 moments, and f32 master weights
    if they are bfloat16 or float16; excluded layers are not converted. With ``max_norm``, all
    parameters have the level's types, because the norm is a sum over all parameters under one
    strategy.

    If torch.distributed is initialized when this is called, each step starts with a
    :class:`GradientAllReduce` with :class:`AutomaticScaling`, ``optimizer.all_reduce``, whose
    ``state_dict()`` belongs in checkpoints too.

    Level O3 is for several ranks (the paper's section 2.3). Each rank has the f16 weights and
    the moments of whole tensors, which :class:`tandem.torch.distributed.ZeroRedundancyOptimizer`
    partitions, and sends the weights of converted layers to the others in E4M3. Models compute
    with these codes and hold the decoded weights in the parameters' type, 2 bytes per element.

    Args:
        model: the model, whose linear layers have bfloat16 or float16 weights.
        level: "O1", "O2" or "O3".
        lr: AdamW's learning rate. ``options`` are its other arguments: ``betas``, ``eps``,
            ``weight_decay``, ``max_norm`` and those of :class:`tandem.torch.AdamW`, except
            ``strategy``.
        exclude: names of modules, or :mod:`fnmatch` patterns, such as "lm_head" or "layers.0.*".
            All layers inside a matching module are excluded.
        recipe: the recipe by which converted layers save their inputs; see
            :class:`tandem.torch.nn.Linear`.
        path: directories that are searched for recipes first.
        strict: whether it is an error if a layer cannot multiply 8-bit floats on its GPU.
        ranks: the ranks over which gradients are reduced, as for :class:`GradientAllReduce`. For
            O3, a process group, or None for all processes.

    Raises:
        ValueError: there is no such level or recipe, a pattern excludes no layer, a layer cannot
            be converted, or O3 has ``max_norm``. The model is then unchanged.
        RuntimeError: O3 is used without torch.distributed.
    """
    _check_level(level)
    _check_options(options)
    _tandem.check_recipe(recipe, directories(path))
    layers = _layers(model, exclude)
    settings = {"recipe": recipe, "path": tuple(os.fspath(p) for p in path)}
    check_recipe(compiled("keep", recipe, torch.bfloat16, torch.bfloat16,
                                    settings["path"]))
    swapping = _Converting(model, layers, settings, strict)
    swapping.check()
    options = options | ({} if lr is None else {"lr": lr})
    groups = _groups(model, layers, level)
    if options.get("max_norm") is not None:
        groups = _as_one(groups)
    optimizer = _optimizer(groups, level, ranks, path=[*path, _STRATEGIES], **options)
    swapping.visit_model(model)
    optimizer.converted = swapping.done
    return optimizer


def _optimizer(groups: Sequence[dict], level: str, ranks, **options) -> FP8LM | ShardedFP8LM:
    """Creates the optimizer of a level, with an all-reduce if there are several ranks."""
    if level == "O3":
        from tandem.torch.distributed import ShardedFP8LM
        return ShardedFP8LM(groups, ranks, strategy=_LEVELS[level], **options)
    optimizer = FP8LM(groups, strategy=_LEVELS[level], **options)
    if ranks is not None or _has_ranks():
        optimizer.all_reduce = GradientAllReduce(optimizer, ranks, AutomaticScaling())
    return optimizer


def _has_ranks() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


#===------------------------------------------------------------------------===#
# Checks
#===------------------------------------------------------------------------===#


def _check_level(level: str) -> None:
    if level not in _LEVELS:
        raise ValueError(f"level is 'O1', 'O2' or 'O3', got {level!r}")
    if level == "O3" and not _has_ranks():
        raise RuntimeError("level 'O3' divides tensors among ranks, and torch.distributed has none "
                           "here; call torch.distributed.init_process_group first, or take "
                           "level='O2'")


def _check_options(options: Mapping) -> None:
    if "strategy" in options:
        raise ValueError(
            f"fp8_lm takes no strategy, since a level is one; to train with strategy="
            f"{options['strategy']!r}, call tandem.torch.compress_activations(model, "
            "products='fp8') and create tandem.torch.AdamW")


def _layers(model: torch.nn.Module, exclude: Sequence[str]) -> dict[str, torch.nn.Module]:
    """Returns the linear layers to convert, by name."""
    layers = {name: module for name, module in model.named_modules(remove_duplicate=False)
              if isinstance(module, torch.nn.Linear)}
    if not layers:
        raise ValueError(f"{type(model).__name__} has no linear layer, whose products could be "
                         "FP8")
    check_patterns(exclude, layers, model, "exclude")
    excluded = {layer for name, layer in layers.items()
                if any(is_named(name, pattern) for pattern in exclude)}
    left = {name: layer for name, layer in layers.items() if layer not in excluded}
    if not left:
        raise ValueError("exclude leaves no linear layer whose products could be FP8; its "
                         f"patterns are {list(exclude)!r}")
    return left


class _Converting(_Swapping):
    """Converts linear layers of a model to products of 8-bit floats and changes nothing else."""

    def __init__(self, model: torch.nn.Module, layers: Mapping[str, torch.nn.Module],
                 settings: dict, strict: bool):
        super().__init__(model, settings, "fp8", strict=strict)
        self._model, self._layers = model, layers
        self._wanted = set(layers.values())

    def check(self) -> None:
        """Refuses a model if one of its layers cannot be converted."""
        for name, layer in self._layers.items():
            if why := self._why_not(layer):
                fix = f", or add {name!r} to exclude" if name else ""
                raise ValueError(f"{name or 'the model'} cannot be converted: {why}; change "
                                 f"that{fix}")

    def _why_not(self, layer: torch.nn.Module) -> str | None:
        if layer.weight.dtype not in (torch.bfloat16, torch.float16):
            return (f"its weight is {layer.weight.dtype}, and FP8-LM's are half precision, as "
                    "model.to(torch.bfloat16) makes them")
        if self._is_ours(layer):
            return None
        if layer is self._model:
            return ("it is a linear layer itself, without a module around it in which another "
                    "could take its place")
        try:
            if self._probes.builder_of(layer) is None:
                return f"it is a {type(layer).__name__}, which may compute something else"
        except _candidates.Unfit as reason:
            return str(reason)
        return None

    def visit_model(self, model: torch.nn.Module) -> None:
        """Converts the layers."""
        if model in self._wanted:
            self._change(_MODEL, model)
        self._visit_children(model, "")

    def _visit_children(self, parent: torch.nn.Module, prefix: str) -> None:
        for name, module in list(parent._modules.items()):
            if module is None:
                continue
            if module in self._wanted:
                self._visit(parent, name, prefix + name, module)
            else:
                self._visit_children(module, f"{prefix}{name}.")


#===------------------------------------------------------------------------===#
# Param groups
#===------------------------------------------------------------------------===#


def _groups(model: torch.nn.Module, layers: Mapping[str, torch.nn.Module],
            level: str) -> list[dict]:
    """Returns the param groups: the weights of layers, then the other trained parameters, by
    type."""
    weights = _trained(layer.weight for layer in layers.values())
    if not weights:
        raise ValueError("no weight of the layers to be converted requires a gradient")
    known = set(map(id, weights))
    groups: dict[str, list[torch.Tensor]] = {}
    for name, param in model.named_parameters():
        if param.requires_grad and id(param) not in known:
            if param.dtype not in _OTHERS:
                raise TypeError(f"{name} is {param.dtype}, and parameters that stay as they are "
                                "are bfloat16, float16 or float32")
            groups.setdefault(_OTHERS[param.dtype], []).append(param)
    return [{"params": weights, "strategy": _LEVELS[level]},
            *({"params": params, "strategy": name} for name, params in groups.items())]


def _as_one(groups: Sequence[dict]) -> list[dict]:
    """Joins the groups under the first group's strategy, which must support all parameters."""
    params = [param for group in groups for param in group["params"]]
    if len(types := {param.dtype for param in params}) > 1:
        raise ValueError(
            "max_norm takes parameters of one type, whose gradients have one storage; the "
            f"model has {', '.join(sorted(map(str, types)))}: convert it to one with "
            "model.to(), or leave max_norm out")
    return [{"params": params, "strategy": groups[0]["strategy"]}]


def _trained(params: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the parameters that require gradients, each once."""
    return list({id(p): p for p in params if p.requires_grad}.values())
