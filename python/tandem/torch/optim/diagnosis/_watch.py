"""Watches an optimizer: takes samples of its gradients, and the steps of shadows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tandem.torch._shards import is_dtensor, local_of
from tandem.torch.optim.diagnosis._findings import GradientRange, Measured, measured_shadow
from tandem.torch.optim.diagnosis._origins import Origin, TandemOrigin
from tandem.torch.optim.diagnosis._samples import Layout, sample_of
from tandem.torch.optim.diagnosis._shadows import (Gradients, Shadow, Start, StrategyShadow,
                                                   TorchShadow, is_small)

#: The most steps without gradients that follow the run, in which states should decay.
REST = 400
#: The share by which the slowest state of the reference decays in these steps.
DECAY = 0.1


class Watch:
    """The samples and the shadows of a run.

    Args:
        origin: the optimizer.
        strategies: the strategies to compare with.
        is_given: whether the user has named the strategies. Others that do not support a
            parameter's type are left out.
        sample: the number of sampled elements of each parameter; None for all.
        every: the number of steps of which weights are compared in one.

    Attributes:
        steps: the number of steps that the shadows have taken.
        measured: the number of those whose changes were compared.
        agreement: the run's change of weights in the direction of the reference's, divided by that
            of its shadow; far from 1 if something other than the optimizer writes weights.
        started: the samples that the shadows have started from.
        gradients: the sampled gradients of the current step.
    """

    def __init__(self, origin: Origin, strategies: Sequence[str], is_given: bool,
                 sample: int | None, every: int):
        self.origin, self.every = origin, every
        self.params = origin.params
        _check_params(self.params)
        self.device = local_of(self.params[0]).device
        generator = torch.Generator().manual_seed(0)
        self.layout = Layout([sample_of(local_of(param), sample, generator)
                              for param in self.params], self.device)
        self.steps, self.measured, self.agreement = 0, 0, 1.0
        #: The options of the run's param groups when the watch began.
        self.options = [{key: value for key, value in group.items() if key != "params"}
                        for group in origin.optimizer.param_groups]
        #: Whether each parameter has had a gradient.
        self._seen = [False] * len(self.params)
        self.gradients = Gradients(self.layout, self.device)
        self.started = self._start()
        self._make(strategies, is_given)
        self._first = {shadow: shadow.weights() for shadow in self.shadows}
        self._sums = {shadow: torch.zeros(4, self.layout.block_count, dtype=torch.float64,
                                          device=self.device) for shadow in self.shadows}
        self.ranges = GradientRange(self.layout)

    #===--------------------------------------------------------------------===#
    # The beginning
    #===--------------------------------------------------------------------===#

    def _start(self) -> Start:
        """Reads the weights and the states of the run."""
        numbers = {id(param): number for number, group in
                   enumerate(self.origin.optimizer.param_groups) for param in group["params"]}
        groups = [numbers[id(param)] for param in self.params]
        options = [self.origin.options(self.origin.optimizer.param_groups[n]) for n in groups]
        weights, states = [], []
        for param, sample in zip(self.params, self.layout.samples):
            found = self.origin.state(param)  # refuses what cannot be read
            weights.append(sample.take(self.origin.weight(param)))
            states.append(found and (found[0], {role: sample.take(value).float()
                                                for role, value in found[1].items()}))
        return Start(self.layout, [local_of(param).dtype for param in self.params], groups,
                     [is_small(param.shape, own) for param, own in zip(self.params, options)],
                     weights, states)

    def _make(self, strategies: Sequence[str], is_given: bool) -> None:
        """Creates the reference, the shadow of what the run has, and the others."""
        groups = self.origin.optimizer.param_groups
        self.reference = self._shadow("float32", ["fp32"] * len(groups), wide=True)
        self.own = self._own(groups)
        self.others: list[Shadow] = []
        has = {group.get("strategy") for group in groups}
        for name in dict.fromkeys(name for name in strategies if has != {name}):
            try:
                shadow = self._shadow(name, [name] * len(groups))
            except TypeError:
                if is_given:
                    raise
                continue  # the strategy does not support the type of a parameter
            _check_scales(shadow, self.layout)
            self.others.append(shadow)

    def _own(self, groups: Sequence[Mapping]) -> Shadow:
        """Returns the shadow under what the run has."""
        if not isinstance(self.origin, TandemOrigin):
            name = f"torch.optim.{type(self.origin.optimizer).__name__}"
            return TorchShadow(name, self.origin.optimizer, self.params, self.started,
                               self.gradients)
        names = [group["strategy"] for group in groups]
        shadow = self._shadow("what it has", names)
        _check_scales(shadow, self.layout)
        return shadow

    def _shadow(self, name: str, strategies: Sequence[str], wide: bool = False) -> Shadow:
        return StrategyShadow(name, strategies, self.origin.graph, self.origin.path,
                              self.started, self.gradients, self.origin.optimizer.param_groups,
                              wide)

    @property
    def shadows(self) -> list[Shadow]:
        """All shadows, the reference first and what the run has second."""
        return [self.reference, self.own, *self.others]

    #===--------------------------------------------------------------------===#
    # Steps
    #===--------------------------------------------------------------------===#

    def read(self, gradients: Sequence[torch.Tensor | None], factor: float = 1.0) -> None:
        """Takes the samples of a step's gradients.

        Args:
            gradients: the gradient of each parameter, whole or its sample; None for none.
            factor: what gradients are multiplied with, as for clipping.
        """
        views = self.layout.views(self.gradients.values)
        for at, (grad, sample, view) in enumerate(zip(gradients, self.layout.samples, views)):
            self.gradients.present[at] = grad is not None
            self._seen[at] |= grad is not None
            grad = None if grad is None else local_of(grad)
            if grad is None:
                view.zero_()
            elif grad.numel() == view.numel() and grad.dim() == 1:
                view.view(-1).copy_(grad)
            else:
                sample.take(grad, view.view(-1))
        if factor != 1.0:
            self.gradients.values.mul_(factor)
        self.gradients.publish()

    def step(self) -> None:
        """Takes the step of all shadows with the gradients that were read."""
        groups = self.origin.optimizer.param_groups
        if self.steps % self.every:
            for shadow in self.shadows:
                shadow.step(groups)
        else:
            self._measure(groups)
        self.steps += 1

    def _measure(self, groups: Sequence[Mapping]) -> None:
        """Takes a step of all shadows, and compares what it changes with what the reference
        changes."""
        self.ranges.add(self.gradients.values)
        intended = None
        for shadow in self.shadows:
            before = shadow.weights()
            shadow.step(groups)
            change = shadow.weights() - before
            intended = change if intended is None else intended
            asked = intended != 0
            for row, values in zip(self._sums[shadow], (
                    asked & (change == 0), asked, intended * change, intended * intended)):
                row += self.layout.sums(values)
        self.measured += 1

    #===--------------------------------------------------------------------===#
    # The end
    #===--------------------------------------------------------------------===#

    def finish(self) -> dict[Shadow, Measured]:
        """Compares weights and states with the reference's, and lets all states decay without
        gradients."""
        reference = self.reference.weights() - self._first[self.reference]
        self.agreement = self._agreement(reference)
        exact = {role: self.reference.state(role) for role in self.reference.roles}
        second = self.reference.optimizer.kernel.second_moments
        found = {shadow: measured_shadow(shadow, self.layout, self._sums[shadow],
                                         shadow.weights() - self._first[shadow], reference, exact,
                                         second)
                 for shadow in self.shadows[1:]}
        self._rest(found, exact)
        return found

    def _agreement(self, reference: torch.Tensor) -> float:
        """Returns how far the run's weights have moved in the direction of the reference's, as a
        part of how far the shadow's under what the run has did."""
        own, run = self.own.weights() - self._first[self.own], torch.zeros_like(reference)
        for param, sample, start, (first, end) in zip(
                self.params, self.layout.samples, self.started.weights, self.layout.spans):
            if self.origin.is_gathered(param):
                own[first:end] = 0
            else:
                run[first:end] = sample.take(self.origin.weight(param)) - start
        total = float((own * reference).sum())
        return float((run * reference).sum()) / total if total else 1.0

    def _rest(self, found: Mapping[Shadow, Measured], exact: Mapping[str, torch.Tensor]) -> None:
        """Measures how far the states decay in steps whose gradients are zeros."""
        groups = self.origin.optimizer.param_groups
        before = {shadow: {role: shadow.state(role) for role in shadow.roles}
                  for shadow in self.shadows}
        self.gradients.values.zero_()
        self.gradients.publish()
        self.gradients.present = list(self._seen)
        steps = self._decay(groups, exact)
        for shadow in self.shadows[1:]:
            for _ in range(steps):
                shadow.step(groups)
        for role in exact:
            wanted = self._decayed(self.reference, role, before)
            for shadow, of in found.items():
                if role in before[shadow]:
                    of.rest[role] = (self._decayed(shadow, role, before), wanted)

    def _decay(self, groups: Sequence[Mapping], exact: Mapping[str, torch.Tensor]) -> int:
        """Takes steps of the reference until all of its states have decayed, and returns their
        number."""
        for number in range(1, REST + 1):
            self.reference.step(groups)
            if number % 8 == 0 and all(
                    float(self.reference.state(role).abs().sum())
                    <= (1 - DECAY) * float(value.abs().sum()) for role, value in exact.items()):
                return number
        return REST

    def _decayed(self, shadow: Shadow, role: str, before: Mapping) -> torch.Tensor:
        """Returns, for each block, the sum of a state's magnitudes before steps without gradients
        and after them."""
        return torch.stack([self.layout.sums(before[shadow][role].abs()),
                            self.layout.sums(shadow.state(role).abs())])


def _check_params(params: Sequence[torch.Tensor]) -> None:
    """Refuses parameters that no sample represents."""
    if not params:
        raise ValueError("the optimizer has no parameters that need a gradient, so there is "
                         "nothing to watch")
    if len({local_of(param).device for param in params}) > 1:
        raise ValueError("the optimizer has parameters on several devices, and a doctor's samples "
                         "are on one; keep all of them on one device, or create an optimizer for "
                         "each")
    for param in params:
        if param.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise TypeError(f"a parameter is {param.dtype}; a doctor watches float32, bfloat16 "
                            "and float16")
        if local_of(param).is_meta:
            raise ValueError("a parameter is on the meta device, which has no values")


def _check_scales(shadow: Shadow, layout: Layout) -> None:
    """Refuses samples under a strategy whose scales are for the whole tensor."""
    specs = {shadow.optimizer._groups.spec_of(param): sample
             for param, sample in zip(shadow.params, layout.samples) if sample.index is not None}
    for spec in specs:
        wide = [plane for plane in spec.kernel.planes if plane.is_whole_tensor]
        if wide or spec.kernel.is_matrix:
            of = wide[0].shared_by if wide else "rows or blocks"
            raise ValueError(
                f"strategy {spec.kernel.strategy!r} has scales for {of}, which a sample does not "
                "determine; pass sample=None to watch all elements")


def total_norm(gradients: Sequence[torch.Tensor | None]) -> float:
    """Returns the norm of all gradients together."""
    found = [grad for grad in gradients if grad is not None]
    if any(map(is_dtensor, found)):
        raise ValueError("the optimizer clips by the norm of gradients on several ranks, for which "
                         "a doctor would have to communicate; leave max_norm out while it watches, "
                         "and clip with torch.nn.utils.clip_grad_norm_")
    return float(torch.stack([torch.linalg.vector_norm(grad, dtype=torch.float32)
                              for grad in found]).norm())
