"""The losses of shadows as numbers with margins, and the verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from tandem.torch.optim.diagnosis._samples import Layout

#: The bound of the distance from 1 of the share of the intended change that takes place.
KEPT = 0.1
#: The bound of moments' distance from the reference's, as a ratio, as in docs/Following.md.
MOMENT = 0.15
#: The same bound for the decay of states without gradients.
REST = 0.15
#: The least decay of the reference that is compared.
LEAST_DECAY = 0.02
#: A code saturates if it is its group's largest and the exact value is larger by this factor.
SATURATED = 1.1
#: The formats whose range is compared with gradients, and the largest magnitude that rounds to
#: zero in them; that of "e4m3" is in units of the largest of 128 elements.
BELOW = {"f16": 2.0**-25, "e5m2": 2.0**-17, "e4m3": 2.0**-10 / 448}
_GROUP = 128


@dataclass(frozen=True)
class Ratio:
    """A ratio with the margin of its error: two standard errors over the blocks of a sample."""

    value: float
    margin: float

    def judge(self, bound: float) -> str:
        """Returns "enough", "too little" or "unclear", for a ratio that should be within a bound
        of 1."""
        if not math.isfinite(self.value):
            return "too little"
        off = abs(self.value - 1)
        if off - self.margin > bound:
            return "too little"
        return "enough" if off + self.margin <= bound else "unclear"

    def __str__(self) -> str:
        margin = "" if self.margin < 0.005 else f"±{self.margin:.2f}"
        return f"{self.value:.2f}{margin}"


def ratio(above: torch.Tensor, below: torch.Tensor) -> Ratio | None:
    """Returns the ratio of two sums over blocks, with the margin that follows from the blocks'
    differences (the linearized variance of a ratio of sums); None if the second sum is 0."""
    total = float(below.sum())
    if total == 0:
        return None
    value, count = float(above.sum()) / total, len(below)
    if count < 4:
        return Ratio(value, math.inf)
    squares = float((above - value * below).square().sum()) * count / (count - 1)
    return Ratio(value, 2 * math.sqrt(squares) / abs(total))


@dataclass
class Measured:
    """The losses of a shadow, as sums over the blocks of all samples.

    Attributes:
        steps: the lost and the intended updates, and the sums of <D, E> and <D, D> for the
            intended change D and the effective one E of single steps.
        whole: <D, E>, <D, D> and |E - D|^2 of the changes in all steps together.
        moments: for each state, its sum and the reference's: of square roots if it is a second
            moment, and otherwise its product with the reference's and that one's square.
        codes: for each state, the zeros whose exact value is another, the saturated, and all
            elements.
        rest: for each state, the sums of magnitudes before steps without gradients and after
            them, of this shadow and of the reference.
    """

    steps: torch.Tensor
    whole: torch.Tensor
    moments: dict[str, torch.Tensor] = field(default_factory=dict)
    codes: dict[str, torch.Tensor] = field(default_factory=dict)
    rest: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)


def measured_shadow(shadow, layout: Layout, steps: torch.Tensor, change: torch.Tensor,
                    reference: torch.Tensor, exact: Mapping[str, torch.Tensor],
                    second: frozenset[str]) -> Measured:
    """Compares a shadow's change of weights and its states with the reference's.

    Args:
        shadow: the shadow.
        layout: the places of the samples.
        steps: the sums over single steps.
        change: how far its weights have moved.
        reference: how far the reference's weights have moved.
        exact: the reference's states.
        second: the states that are second moments.
    """
    found = Measured(steps, torch.stack([layout.sums(value) for value in (
        reference * change, reference * reference, (change - reference).square())]))
    for role in shadow.roles:
        value, wanted = shadow.state(role), exact[role]
        pair = ((value.clamp_min(0).sqrt(), wanted.clamp_min(0).sqrt()) if role in second
                else (value * wanted, wanted * wanted))
        found.moments[role] = torch.stack([layout.sums(part.double()) for part in pair])
        zeros = (value == 0) & (wanted != 0)
        found.codes[role] = torch.stack([
            layout.sums(part) for part in (zeros, _saturated(shadow, layout, value, wanted),
                                           torch.ones_like(value))])
    return found


def _saturated(shadow, layout: Layout, value: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Returns which elements have the largest magnitude of their group although the exact value
    is larger still."""
    found = torch.zeros_like(value, dtype=torch.bool)
    for at, (own, exact, out) in enumerate(zip(*map(layout.views, (value, wanted, found)))):
        group = shadow.group_of_scales(at)
        if group > 1 and own.numel() % group == 0:
            largest = own.reshape(-1, group).abs().amax(1, keepdim=True).expand(-1, group)
            out |= ((own.abs() == largest.reshape(own.shape))
                    & (exact.abs() > SATURATED * own.abs()))
    return found


class GradientRange:
    """The shares of gradients that formats round to zero."""

    def __init__(self, layout: Layout):
        self.layout = layout
        device = layout.blocks.device
        self.sums = {name: torch.zeros(2, layout.block_count, dtype=torch.float64, device=device)
                     for name in BELOW}

    def add(self, values: torch.Tensor) -> None:
        """Counts the gradients of a step."""
        sizes, some = values.abs(), values != 0
        padded = torch.nn.functional.pad(sizes, (0, -len(sizes) % _GROUP)).view(-1, _GROUP)
        largest = padded.amax(1, keepdim=True).expand(-1, _GROUP).reshape(-1)[:len(sizes)]
        for name, bound in BELOW.items():
            limit = bound * largest if name == "e4m3" else bound
            self.sums[name] += torch.stack([self.layout.sums(some & (sizes <= limit)),
                                            self.layout.sums(some)])

    def shares(self, span: tuple[int, int]) -> dict[str, float]:
        """Returns the share of a parameter's nonzero gradients that each format rounds to
        zero."""
        found = {}
        for name, (below, all) in self.sums.items():
            total = float(all[span[0]:span[1]].sum())
            found[name] = float(below[span[0]:span[1]].sum()) / total if total else 0.0
        return found


#===------------------------------------------------------------------------===#
# Verdicts
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class Finding:
    """The losses of some parameters under a strategy.

    Attributes:
        lost: the share of intended updates without any effect on the stored weight, from 0 to 1.
        edq: the mean effective descent quality of single steps, <D, E> / <D, D>.
        kept: the share of the intended change in all steps that took place; None if none was
            intended.
        error: the distance of the weights from the reference's, divided by the distance that
            those moved.
        moments: the ratio of each state to the reference's.
        rest: the ratio of each state's decay without gradients to the reference's.
        zeros, saturated: the shares of each state's codes.
    """

    lost: float
    edq: float
    kept: Ratio | None
    error: float
    moments: Mapping[str, Ratio]
    rest: Mapping[str, Ratio]
    zeros: Mapping[str, float]
    saturated: Mapping[str, float]

    @property
    def judged(self) -> dict[str, str]:
        """The verdict on each measurement that has a bound."""
        found = {} if self.kept is None else {"kept": self.kept.judge(KEPT)}
        found |= {role: of.judge(MOMENT) for role, of in self.moments.items()}
        return found | {f"{role} at rest": of.judge(REST) for role, of in self.rest.items()}

    @property
    def verdict(self) -> str:
        """"too little" if a measurement is beyond its bound, "unclear" if one may be, and
        otherwise "enough"; "no gradient" if no change was intended."""
        if self.kept is None:
            return "no gradient"
        verdicts = set(self.judged.values())
        return next((one for one in ("too little", "unclear") if one in verdicts), "enough")

    @property
    def reasons(self) -> list[str]:
        """The reasons why the verdict is not "enough", as phrases."""
        values = {"kept": self.kept, **self.moments,
                  **{f"{role} at rest": of for role, of in self.rest.items()}}
        return [f"{name} {values[name]}" for name, verdict in self.judged.items()
                if verdict == self.verdict and verdict != "enough"]


def finding(measured: Measured, spans: list[tuple[int, int]],
            weights: list[float] | None = None) -> Finding:
    """Returns what parameters lose together.

    Args:
        measured: the sums over blocks.
        spans: the blocks of each parameter.
        weights: how many elements each sampled element of a parameter stands for.
    """
    factors = weights or [1.0] * len(spans)

    def of(sums: torch.Tensor) -> torch.Tensor:
        return torch.cat([sums[:, start:end] * factor
                          for (start, end), factor in zip(spans, factors)], 1).cpu()

    lost, asked, effect, intended = of(measured.steps)
    product, square, error = of(measured.whole)
    moved, all_asked = float(square.sum()), float(asked.sum())
    total = float(intended.sum())
    codes = {role: of(sums).sum(1) for role, sums in measured.codes.items()}
    moments = {role: ratio(*of(sums)) for role, sums in measured.moments.items()}
    rest = {role: _rest(of(own), of(wanted)) for role, (own, wanted) in measured.rest.items()}
    return Finding(
        float(lost.sum()) / all_asked if all_asked else 0.0,
        float(effect.sum()) / total if total else 0.0,
        ratio(product, square), math.sqrt(float(error.sum()) / moved) if moved else 0.0,
        {role: found for role, found in moments.items() if found},
        {role: found for role, found in rest.items() if found},
        {role: float(zeros / all) for role, (zeros, _, all) in codes.items()},
        {role: float(most / all) for role, (_, most, all) in codes.items()})


def _rest(own: torch.Tensor, wanted: torch.Tensor) -> Ratio | None:
    """Returns the decay of a state, divided by the reference's; None if that hardly decays."""
    before, after = wanted
    total = float(before.sum())
    decay = 1 - float(after.sum()) / total if total else 0.0
    if decay < LEAST_DECAY:
        return None
    found = ratio(own[0] - own[1], own[0])
    return found and Ratio(found.value / decay, found.margin / decay)
