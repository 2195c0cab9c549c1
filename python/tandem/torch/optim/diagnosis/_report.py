"""The context manager of a doctor, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import torch

import tandem
from tandem.torch._shards import local_of
from tandem.torch.optim import _wrappers
from tandem.torch.optim.advice._roles import describe, describe_parameter
from tandem.torch.optim.diagnosis._advice import Advice, advise
from tandem.torch.optim.diagnosis._doctor import STRATEGIES
from tandem.torch.optim.diagnosis._edges import Edges
from tandem.torch.optim.diagnosis._findings import Finding, Measured, Ratio, finding
from tandem.torch.optim.diagnosis._origins import Origin, origin_of
from tandem.torch.optim.diagnosis._samples import Sample
from tandem.torch.optim.diagnosis._shadows import Shadow
from tandem.torch.optim.diagnosis._taps import Taps
from tandem.torch.optim.diagnosis._tables import tables
from tandem.torch.optim.diagnosis._watch import Watch, total_norm


class Doctor:
    """Watches an optimizer while the context is open; see :func:`tandem.torch.doctor`.

    Attributes:
        steps: the number of steps that were watched.
        measured: the number of those whose single updates were compared.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, model: torch.nn.Module | None,
                 strategies: Sequence[str] | None, recipes: Sequence[str], sample: int | None,
                 every: int):
        _check_numbers(sample, every)
        optimizer = _wrappers.unwrapped(optimizer)
        self._origin: Origin = origin_of(optimizer)
        self._strategies = STRATEGIES if strategies is None else _names(strategies)
        self._is_given, self._sample, self._every = strategies is not None, sample, every
        self._check_strategies()
        self._model, self._edges = model, Edges(model, _names(recipes, "recipes"), every)
        self._watch: Watch | None = None
        self._taps: Taps | None = None
        self._handles: list = []
        self._found: dict[Shadow, Measured] | None = None
        #: The findings by shadow and parameters, which reports ask for several times.
        self._findings: dict[tuple, Finding] = {}
        #: Whether the context is open; None before it is entered.
        self._is_open: bool | None = None

    def _check_strategies(self) -> None:
        for name in self._strategies:
            tandem.compile(self._origin.graph, name, path=self._origin.path)

    #===--------------------------------------------------------------------===#
    # Watching
    #===--------------------------------------------------------------------===#

    def __enter__(self) -> Doctor:
        if self._is_open is not None:
            raise RuntimeError("this doctor has been used; call tandem.torch.doctor again for "
                               "another look")
        optimizer, self._is_open = self._origin.optimizer, True
        self._handles = [optimizer.register_step_pre_hook(self._before),
                         optimizer.register_step_post_hook(self._after),
                         *self._edges.watch()]
        self._taps = Taps(self._origin)
        return self

    def __exit__(self, kind, error, trace) -> None:
        for handle in self._handles:
            handle.remove()
        self._taps.remove()
        self._edges.finish()
        self._is_open = False
        # A block that ends early, as by an interrupt, has a report too.
        if self.steps:
            with torch.no_grad():
                self._found = self._watch.finish()

    @torch.no_grad()
    def _before(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        """Reads the gradients of a step, unless a closure will compute them."""
        if self._watch is None:
            self._watch = Watch(self._origin, self._strategies, self._is_given, self._sample,
                                self._every)
            self._taps.samples = self._watch.layout.samples
        # The first argument is the optimizer itself.
        self._has_read = all(value is None for value in (*args[1:2], kwargs.get("closure")))
        if self._has_read:
            self._read()

    @torch.no_grad()
    def _after(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        """Takes the step of the shadows."""
        if self._origin.skipped:
            return
        if not self._has_read:
            self._read()
        if any(self._watch.gradients.present):
            self._watch.step()
            self._edges.next_step()

    def _read(self) -> None:
        gradients = [self._taps.gradient(at, param) for at, param in enumerate(self._watch.params)]
        self._watch.read(gradients, self._factor(gradients))

    def _factor(self, gradients: Sequence[torch.Tensor | None]) -> float:
        """Returns what gradients are multiplied with in the step: the scale of a GradScaler that
        leaves this to the optimizer, and clipping."""
        optimizer, factor = self._origin.optimizer, 1.0
        if (scale := getattr(optimizer, "grad_scale", None)) is not None:
            factor = 1.0 / float(scale)
        if self._origin.max_norm:
            whole = [self._origin.gradient(param) for param in self._watch.params]
            limit = float(optimizer.param_groups[0]["max_norm"])
            factor *= min(1.0, limit / max(factor * total_norm(whole), 1e-30))
        return factor

    #===--------------------------------------------------------------------===#
    # The report
    #===--------------------------------------------------------------------===#

    @property
    def steps(self) -> int:
        """The number of steps that were watched."""
        return self._watch.steps if self._watch else 0

    @property
    def measured(self) -> int:
        """The number of steps whose single updates were compared."""
        return self._watch.measured if self._watch else 0

    def _finished(self) -> dict[Shadow, Measured]:
        """Returns what was measured.

        Raises:
            RuntimeError: the context is open, or no step was taken in it.
        """
        if self._found is None and self._is_open and self.steps:
            raise RuntimeError("the doctor still watches; read its report after the with block")
        if self._found is None:
            raise RuntimeError(
                "no step has been watched; call backward() and optimizer.step(), some hundred "
                "times, inside of `with tandem.torch.doctor(optimizer) as doctor:`, with the "
                "optimizer that the doctor was given")
        return self._found

    @property
    def params(self) -> list[torch.Tensor]:
        """The parameters that were watched."""
        self._finished()
        return self._watch.params

    @property
    def samples(self) -> list[Sample]:
        """The sample of each parameter."""
        return self._watch.layout.samples

    @property
    def options(self) -> list[dict]:
        """The options of the optimizer's param groups when the watch began."""
        return self._watch.options

    @property
    def class_name(self) -> str:
        """The name of the optimizer's class in :mod:`tandem.torch`."""
        return type(self._origin.optimizer).__name__

    @property
    def decays_before(self) -> bool:
        """Whether weights decay before the update, which AdamW of :mod:`tandem.torch` must be
        told."""
        return self._origin.graph == "adamw_decay_before"

    @property
    def agreement(self) -> float:
        """The distance that the run's weights have moved towards float32's, divided by that of the
        shadow of what it has: near 1 unless something else writes weights."""
        self._finished()
        return self._watch.agreement

    @property
    def gradients_below(self) -> list[dict[str, float]]:
        """For each parameter, the shares of gradients that formats round to zero."""
        return [self._watch.ranges.shares(span) for span in self._watch.layout.block_spans]

    @property
    def names(self) -> list[str]:
        """The name of each parameter: the model's, the optimizer's, or its number and shape."""
        named = {id(param): name for name, param in
                 (self._model.named_parameters() if self._model is not None else ())}
        known = {}
        for group in self._origin.optimizer.param_groups:
            for param, name in zip(group["params"], group.get("param_names", ())):
                known[id(param)] = name
        return [named.get(id(param)) or known.get(id(param))
                or f"{at}: {'x'.join(map(str, param.shape)) or 'scalar'}"
                for at, param in enumerate(self.params)]

    @property
    def roles(self) -> list[str]:
        """The role of each parameter, as in :func:`tandem.torch.param_groups`."""
        if self._model is not None:
            found = {id(param): described.role for described, (_, param) in zip(
                describe(self._model), self._model.named_parameters())}
            return [found.get(id(param)) or describe_parameter(param).role
                    for param in self.params]
        return [describe_parameter(param, name if ": " not in name else None).role
                for param, name in zip(self.params, self.names)]

    def label(self, shadow: Shadow, at: int) -> str:
        """Returns the name of a shadow's strategy for a parameter."""
        if shadow is not self._watch.own:
            return shadow.name
        param, group = self._watch.params[at], self._watch.started.groups[at]
        return self._origin.label(param, self._origin.optimizer.param_groups[group])

    def title(self, number: int) -> str:
        """Returns the name of a shadow's strategy, or of several that the run has."""
        shadow = self.shadows[number]
        if number:
            return shadow.name
        labels = dict.fromkeys(self.label(shadow, at) for at in range(len(self.params)))
        return " and ".join(labels) + " (has)"

    def finding(self, shadow: Shadow, members: Sequence[int] | None = None) -> Finding:
        """Returns what some parameters, or all, lose together under a shadow's strategy."""
        found, layout = self._finished(), self._watch.layout
        members = tuple(range(len(self._watch.params)) if members is None else members)
        if (shadow, members) in self._findings:
            return self._findings[shadow, members]
        weights = [local_of(self._watch.params[at]).numel()
                   / max(1, layout.samples[at].shape.numel()) for at in members]
        result = finding(found[shadow], [layout.block_spans[at] for at in members], weights)
        return self._findings.setdefault((shadow, members), result)

    @property
    def rows(self) -> list[dict]:
        """A dict for each parameter and strategy, the parameter's own first, for JSON.

        ``lost`` is the share of intended updates without any effect; ``edq`` is the mean effective
        descent quality of single steps, and ``kept`` that of all steps together, in parts of the
        intended change; ``error`` is the distance from float32's weights, divided by the distance
        moved. ``moments`` has, for each state, its ``ratio`` to float32's, the ratio of its decay
        ``at_rest``, and the shares of ``zeros`` and ``saturated`` elements. ``gradients_below``
        has the shares of gradients that formats would round to zero.
        """
        found, rows = self._finished(), []
        names, roles, layout = self.names, self.roles, self._watch.layout
        bytes = {shadow: shadow.bytes_of for shadow in found}
        for at, (param, name) in enumerate(zip(self._watch.params, names)):
            below = self._watch.ranges.shares(layout.block_spans[at])
            for shadow in found:
                rows.append({
                    "parameter": name, "role": roles[at], "elements": local_of(param).numel(),
                    "sampled": layout.samples[at].shape.numel(),
                    "strategy": self.label(shadow, at), "is_own": shadow is self._watch.own,
                    "bytes_per_parameter": bytes[shadow][at],
                    **_values(self.finding(shadow, [at])), "gradients_below": below})
        return rows

    @property
    def edges(self) -> list[dict]:
        """A dict for each tensor that the model's layers save, or would save under one of the
        recipes: ``layer``, ``tensor``, ``recipe``, whether it ``is_own``, and the ``error``, which
        is relative to the root mean square of the tensor."""
        return self._edges.rows

    @property
    def advice(self) -> Advice:
        """The strategies to use."""
        return advise(self)

    @property
    def code(self) -> str:
        """Python code that creates the optimizer with the strategies to use."""
        return self.advice.code

    def plot(self, path: str) -> None:
        """Writes a picture of the report, as PNG, PDF or SVG by the name's end.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from tandem.torch.optim.diagnosis._picture import draw

        draw(self, path)

    def __repr__(self) -> str:
        if self._found is None:
            state = "watching" if self._is_open else "not watching"
            return f"<tandem.torch.doctor, {state}, {self.steps} steps>"
        return tables(self)

    @property
    def shadows(self) -> list[Shadow]:
        """The shadows that were compared, that of what the run has first."""
        return list(self._finished())


def _values(found: Finding) -> dict:
    """Returns a finding as numbers for JSON."""
    return {
        "lost": found.lost, "edq": found.edq, "kept": found.kept and found.kept.value,
        "kept_margin": found.kept and found.kept.margin, "error": found.error,
        "moments": {role: {
            "ratio": asdict(of), "at_rest": _number(found.rest.get(role)),
            "zeros": found.zeros[role], "saturated": found.saturated[role]}
            for role, of in found.moments.items()},
        "verdict": found.verdict, "reasons": found.reasons}


def _number(of: Ratio | None) -> dict | None:
    return of and asdict(of)


def _names(given: Sequence[str], what: str = "strategies") -> tuple[str, ...]:
    """Returns names, of which there may be one."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"{what} are names such as 'coat', got {wrong[0]!r}")
    return names


def _check_numbers(sample: object, every: object) -> None:
    for name, value, least in (("sample", sample, 256), ("every", every, 1)):
        if value is None and name == "sample":
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
