"""The errors of activations that layers save, by layer and tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

import tandem
from tandem._plane import RoleKind
from tandem.torch._shards import local_of
from tandem.torch.nn import _layer
from tandem.torch.nn._layer import EDGES, Layer, compiled, decoder
from tandem.torch.nn._stored import StoredTensor, executor_of, rows_of

#: The number of forward passes whose activations are compared, and the most rows of each tensor.
PASSES, ROWS = 4, 256
#: The layers of PyTorch's modules.
_LAYERS = {torch.nn.Linear: "keep", torch.nn.RMSNorm: "rms_norm",
           torch.nn.LayerNorm: "layer_norm", torch.nn.SiLU: "silu", torch.nn.GELU: "gelu"}
#: The name under which an input is saved, if it is not its own.
_SAVED = {"kept": "x"}


class Edges:
    """Compares saved activations with the tensors that they stand for.

    Layers of :mod:`tandem.torch.nn` say what they save. For PyTorch's own linear layers, norms
    and activations in a model, the inputs are stored under each recipe.

    Args:
        model: the model, for names; None for layers without names.
        recipes: the recipes to compare with.
        every: the number of steps of which one is compared.
    """

    def __init__(self, model: torch.nn.Module | None, recipes: Sequence[str], every: int):
        for name in recipes:
            if name not in tandem.recipes():
                raise ValueError(f"unknown recipe {name!r}; there are "
                                 + ", ".join(tandem.recipes()))
        self._model, self._recipes, self._every = model, recipes, every
        #: The squares of errors and of values, by layer, tensor, recipe and whether it is the
        #: layer's own.
        self._sums: dict[tuple, list[float]] = {}
        self._names: list[str] = []
        self._steps = self._passes = self._count = 0

    def watch(self) -> Iterator:
        """Begins to watch, and yields handles that end it."""
        _layer.OBSERVERS.append(self._see)
        for name, module in (self._model.named_modules() if self._model is not None else ()):
            yield module.register_forward_pre_hook(self._enter(name, module))
            yield module.register_forward_hook(self._leave, always_call=True)

    def finish(self) -> None:
        """Ends watching layers."""
        if self._see in _layer.OBSERVERS:
            _layer.OBSERVERS.remove(self._see)

    def next_step(self) -> None:
        """Is called after each step."""
        self._passes += self._is_due
        self._steps, self._count = self._steps + 1, 0

    @property
    def _is_due(self) -> bool:
        """Whether activations of the current step are compared."""
        return self._steps % self._every == 0 and self._passes < PASSES

    def _enter(self, name: str, module: torch.nn.Module):
        layer = _LAYERS.get(type(module))
        if isinstance(module, torch.nn.GELU) and module.approximate != "none":
            layer = "gelu_tanh"

        def enter(_, inputs: tuple) -> None:
            self._names.append(name)
            if (layer and inputs and self._is_due and module.training
                    and torch.is_grad_enabled()):
                with torch.no_grad():
                    self._compare(name, layer, {"x": inputs[0]})

        return enter

    def _leave(self, *_) -> None:
        if self._names:
            self._names.pop()

    @torch.no_grad()
    def _see(self, layer: Layer, planes: Mapping[str, torch.Tensor], is_recorded: bool) -> None:
        """Compares what a layer of :mod:`tandem.torch.nn` has saved."""
        if not (self._is_due and is_recorded):
            return
        label = self._names[-1] if self._names else f"{layer.name} {self._count}"
        self._count += 1
        inputs, given = {}, {plane.role for plane in layer.forward.planes(RoleKind.INPUT)}
        for role in dict.fromkeys(plane.role for plane in layer.saved):
            source = _input_of(role)
            x = planes.get(source) if source in given else None
            if x is not None and x.dtype in EDGES:
                inputs[source] = x
                self._add(label, source, layer._recipe, True, _saved(layer, role, planes, x), x)
        self._compare(label, layer.name, inputs)

    def _compare(self, label: str, name: str, inputs: Mapping[str, torch.Tensor]) -> None:
        """Stores some rows of inputs under each recipe."""
        rows = {role: x for role, x in ((role, _rows(x)) for role, x in inputs.items())
                if x is not None}
        if not rows:
            return
        for recipe in self._recipes:
            x = next(iter(rows.values()))
            layer = compiled(name, recipe, x.dtype, x.dtype, (), (), executor_of(x).target)
            if _has_history(layer) or not {"gate", "up"} & set(layer.forward.storages) <= set(rows):
                continue
            planes = _stored(layer, rows)
            for role in dict.fromkeys(plane.role for plane in layer.saved):
                if (source := _input_of(role)) in rows:
                    self._add(label, source, recipe, False,
                              _saved(layer, role, planes, rows[source]), rows[source])

    def _add(self, label: str, tensor: str, recipe: str, is_own: bool, got: torch.Tensor,
             x: torch.Tensor) -> None:
        exact = x.reshape(got.shape).double()
        sums = self._sums.setdefault((label, tensor, recipe, is_own), [0.0, 0.0])
        sums[0] += float((got.double() - exact).square().sum())
        sums[1] += float(exact.square().sum())

    @property
    def rows(self) -> list[dict]:
        """The errors, as :attr:`Doctor.edges` returns them. A recipe that a layer has is listed
        once, as what it has saved."""
        return [{"layer": label, "tensor": tensor, "recipe": recipe, "is_own": is_own,
                 "error": (error / square) ** 0.5 if square else 0.0}
                for (label, tensor, recipe, is_own), (error, square) in self._sums.items()
                if is_own or (label, tensor, recipe, True) not in self._sums]


def _has_history(layer: Layer) -> bool:
    """Returns whether a layer's scales depend on earlier steps, which are not known here, or
    whether it draws random bits, which belong to the run."""
    return bool(layer.remembered) or RoleKind.SEED in layer.forward.kernel.integers.values()


def _input_of(role: str) -> str:
    """Returns the input that a layer saves under a name."""
    return _SAVED.get(role, role.removesuffix(".saved"))


def _rows(x: object) -> torch.Tensor | None:
    """Returns some rows of a tensor, evenly spaced, or None for what no layer takes."""
    if not isinstance(x, torch.Tensor) or isinstance(x, StoredTensor):
        return None
    x = local_of(x).detach()
    if x.dtype not in EDGES or x.dim() < 1 or not x.numel() or executor_of(x) is None:
        return None
    rows = x.reshape(-1, x.shape[-1])
    return rows[::max(1, -(-len(rows) // ROWS))].contiguous()


def _stored(layer: Layer, rows: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Runs a layer's forward pass on rows of its inputs, with vectors of ones, and returns all
    planes."""
    x = next(iter(rows.values()))
    given = {plane.name: rows.get(plane.name, torch.ones(x.shape[-1], dtype=x.dtype,
                                                         device=x.device))
             for plane in layer.forward.planes(RoleKind.INPUT)}
    shape = rows_of(x)
    planes = given | layer.forward.allocate(shape, x, (RoleKind.OUTPUT, RoleKind.SAVED))
    layer.forward.run(shape, planes, [1e-6] * len(layer.forward.kernel.hypers))
    return planes


def _saved(layer: Layer, role: str, planes: Mapping[str, torch.Tensor],
           x: torch.Tensor) -> torch.Tensor:
    """Returns a saved tensor, decoded."""
    if layer.forward.is_plain(role):
        return planes[role].reshape(x.shape)
    step = decoder(layer.forward.storages[role], torch.float32, executor_of(x).target)
    shape = rows_of(x)
    own = {f"kept{plane.name.removeprefix(role)}": planes[plane.name] for plane in layer.saved
           if plane.role == role}
    own |= step.allocate(shape, x, (RoleKind.OUTPUT,))
    step.run(shape, own)
    return own["value"].view(x.shape)
