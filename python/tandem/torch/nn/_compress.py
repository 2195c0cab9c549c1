"""Swaps modules of an existing model for compressed ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from tandem import _tandem
from tandem._arguments import directories
from tandem._matrix_codes import check_kind
from tandem.torch.nn import _candidates
from tandem.torch.nn import _modules as compressed
from tandem.torch.nn._candidates import Unfit
from tandem.torch.nn._saved_inputs import MIXED
from tandem.torch.nn.functional import check_hadamard

#: The name of the model itself in a report, as opposed to modules below it.
_MODEL = "(the model)"


@dataclass
class Compression:
    """The changes that :func:`compress_activations` has made to a model."""

    #: The names of modules that were swapped, and descriptions of the new modules.
    swapped: dict[str, str] = field(default_factory=dict)
    #: The modules and activation-saving functions that were not changed, and the reasons.
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{name}: {what}" for name, what in self.swapped.items()]
        lines += [f"{name}: left alone, {why}" for name, why in self.left.items()]
        return "\n".join(lines)


def compress_activations(model: torch.nn.Module, recipe: str = "coat", *,
                         recompute: bool = False, products: str = "bf16",
                         strict: bool = False, hadamard: bool = False,
                         path: Sequence[str | os.PathLike] = ()) -> Compression:
    """Swaps a model's norms, activations, gated feed-forward blocks, linear layers and cross
    entropies, in place, for modules that save their activations under the recipe.

    It recognizes by type :class:`torch.nn.RMSNorm`, :class:`torch.nn.LayerNorm`,
    :class:`torch.nn.Linear`, :class:`torch.nn.SiLU`, :class:`torch.nn.GELU` and
    :class:`torch.nn.CrossEntropyLoss` without weights. Other modules may compute the same: it
    finds norms, SiLU and GELU by their names, and blocks by ``gate_proj``, ``up_proj`` and
    ``down_proj``. It swaps each of these only if it has nothing that the new module lacks, and
    if a probe has shown that both have the same outputs and gradients, in training and in
    evaluation mode. The probe runs copies with random parameters and inputs, and preserves the
    state of random generators. Parameters stay the same objects with the same names, so
    optimizers remain valid and checkpoints load.

    With ``recompute``, gated blocks do not save the input of ``down_proj``. The backward pass
    recomputes it from the saved factors, in one more pass over them, which saves one byte per
    element under ``coat`` (docs/Activations.md).

    With ``products="fp8"``, linear layers multiply 8-bit floats if they can. If they cannot,
    there is a warning, or an error under ``strict``; see :class:`tandem.torch.nn.Linear`. The
    recipe for them is "coat-fp8", under which norms and activations write codes in the form that
    such products take.

    With ``hadamard``, linear layers whose number of inputs is a multiple of 16 save the Hadamard
    transform of their inputs, which is for recipes with 4-bit integers such as "linear4"
    (docs/Layers.md).

    A second call sets the recipe and the other options of existing :mod:`tandem.torch.nn`
    modules; the history of the recipe starts anew.

    Returns:
        A report on what was swapped, and what was not changed and why. Functions that a model
        calls, such as :func:`torch.nn.functional.silu`, are not modules and are not listed,
        except for the loss function of a Hugging Face model.

    Raises:
        ValueError: there is no such recipe or kind of products. The model is then unchanged.
        TypeError: the recipe is not a string.
    """
    check_compression(recipe, recompute=recompute, products=products, hadamard=hadamard, path=path)
    options = {"recipe": recipe, "path": tuple(os.fspath(p) for p in path)}
    swapping = _Swapping(model, options, products, recompute, strict, hadamard)
    swapping.visit_model(model)
    return swapping.done


def check_compression(recipe: str, *, recompute: bool = False, products: str = "bf16",
                      strict: bool = False, hadamard: bool = False,
                      path: Sequence[str | os.PathLike] = ()) -> None:
    """Checks arguments as :func:`compress_activations` does."""
    if not isinstance(recipe, str):
        raise TypeError(f"a recipe is a name such as 'coat', got {recipe!r}; under 'fp32' layers "
                        "keep everything exactly")
    _tandem.check_recipe(recipe, directories(path))
    check_kind(products)
    check_hadamard(hadamard, products, 0)


class _Swapping:
    """One traversal of a model."""

    def __init__(self, model: torch.nn.Module, options: dict, products: str,
                 recompute: bool = False, strict: bool = False, hadamard: bool = False):
        self.options, self.products = options, products
        self.recompute, self.strict, self.hadamard = recompute, strict, hadamard
        self.done = Compression()
        #: The new modules of the modules visited so far.
        self._made: dict[torch.nn.Module, torch.nn.Module] = {}
        self._probes = _candidates.Probes(Counter(
            id(p) for module in model.modules()
            for p in module._parameters.values() if p is not None))

    def visit_model(self, model: torch.nn.Module) -> None:
        """Swaps the modules below the model, which itself cannot be replaced."""
        if self._is_ours(model):
            self._change(_MODEL, model)
        elif _candidates.is_candidate(model):
            self.done.left[_MODEL] = "it has no parent, in which another could take its place"
        elif why := _candidates.not_served(model):
            self.done.left[_MODEL] = why
        self._visit_children(model, "")

    def _visit_children(self, parent: torch.nn.Module, prefix: str) -> None:
        """Swaps the modules below a module, outermost first."""
        if why := _candidates.why_loss_is_left(parent):
            self.done.left[f"{prefix}loss_function"] = why
        for name, module in list(parent._modules.items()):
            if module is not None:
                module = self._visit(parent, name, prefix + name, module)
                self._visit_children(module, f"{prefix}{name}.")

    def _visit(self, parent: torch.nn.Module, name: str, full: str,
               module: torch.nn.Module) -> torch.nn.Module:
        """Returns the module that a name refers to from now on."""
        if self._is_ours(module):
            self._change(full, module)
            return module
        try:
            new = self._made.get(module) or self._new(module)
        except Unfit as reason:
            self.done.left[full] = str(reason)
            return module
        if new is None:
            return module
        self._made[module] = new
        setattr(parent, name, new)
        _name(new, full)
        self.done.swapped[full] = f"{type(module).__name__} -> {self._description(new)}"
        return new

    def _is_ours(self, module: torch.nn.Module) -> bool:
        return isinstance(module, compressed._Compressed | compressed.GatedMLP)

    def _new(self, module: torch.nn.Module) -> torch.nn.Module | None:
        """Returns the replacement of a module, or None if it is not to be swapped.

        Raises:
            Unfit: the module is a candidate that must not be swapped.
        """
        build = self._probes.builder_of(module)
        if build is None:
            if why := _candidates.not_served(module):
                raise Unfit(why)
            return None
        new = build(module, self.options)
        self._set_extras(new)
        return new

    def _set_extras(self, module: torch.nn.Module) -> None:
        """Sets the options of this call, other than the recipe, on a module."""
        if isinstance(module, compressed.Linear):
            module.products, module.strict = self.products, self.strict
            module.hadamard = self.hadamard and not module.in_features % MIXED
        elif isinstance(module, compressed.GatedMLP):
            module.recompute = self.recompute and not _why_kept(module)

    def _change(self, name: str, module: torch.nn.Module) -> None:
        """Sets the options of this call on a module from an earlier call."""
        before = self._state(module)
        if isinstance(module, compressed._Compressed) and (
                (module.recipe, module.path) != (self.options["recipe"], self.options["path"])):
            module._set_recipe(**self.options)
        self._set_extras(module)
        _name(module, name)
        if (after := self._state(module)) != before:
            self.done.swapped[name] = f"{before} -> {after}"

    def _state(self, module: torch.nn.Module) -> str:
        """Returns a description of the properties of a module that a second call may change."""
        if not isinstance(module, compressed._Compressed):
            return self._description(module)
        where = f" of {':'.join(module.path)}" if module.path else ""
        products = _described_products(module) if isinstance(module, compressed.Linear) else ""
        return f"{type(module).__name__} under {module.recipe}{where}{products}"

    def _description(self, module: torch.nn.Module) -> str:
        name = type(module).__name__
        if getattr(module, "hadamard", False):
            return f"{name}, with Hadamard transforms"
        if not isinstance(module, compressed.GatedMLP):
            return f"{name}, whose {module.in_features} inputs Hadamard transforms of {MIXED} do not divide" if (
                self.hadamard and isinstance(module, compressed.Linear)) else name
        if module.recompute:
            return f"{name}, whose product is computed again"
        return f"{name}, which keeps its product for {_why_kept(module)}" if (
            self.recompute and _why_kept(module)) else name


def _name(module: torch.nn.Module, name: str) -> None:
    """Sets the name of a linear layer in warnings to its first name in a model."""
    if isinstance(module, compressed.Linear) and not module._label:
        module._label = name


def _described_products(linear: compressed.Linear) -> str:
    mixing = ", Hadamard transforms" if linear.hadamard else ""
    return f", {linear.products} products{' or an error' if linear.strict else ''}{mixing}"


def _why_kept(block: compressed.GatedMLP) -> str:
    """Returns the reason not to recompute a block's product, if there is one."""
    down = block.down_proj
    if type(down) not in (compressed.Linear, torch.nn.Linear):
        return f"a {type(down).__name__}"
    return "the hooks of down_proj" if _candidates.has_hooks(down) else ""
