#===- studies.py - The studies of "To FP8 and Back Again" ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the studies, with the cells of each and the figures that a cell measures.
#
#===----------------------------------------------------------------------===#
"""Studies at toy size, one for each figure or pair of tables of the paper."""

import dataclasses
from collections.abc import Callable, Mapping

import tandem.torch
import torch
from landscape import grid
from llama import Llama, Shape
from training import Run, Setting, figures

#: The epsilons of table 2, and the one used in the other tables and figures.
EPSILONS = (5e-5, 1e-4, 5e-4, 1e-3, 5e-3)
EPSILON = 5e-4
#: The number of checkpoints at which sharpness is measured.
CHECKPOINTS = 10
#: The fraction of a recovery's steps that use E8M3, and the landscapes' checkpoints as fractions.
SWITCHED = 0.15
LANDSCAPES = (0.5, 1.0)

TOY = Shape(width=32, layers=2, heads=4, context=32)
SMALL = Shape(width=32, layers=1, heads=2, context=32)


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size and the number of a study's cells."""

    steps: int
    seeds: int
    lrs: tuple[float, ...] = (4e-3,)
    shape: Shape = TOY
    batch: int = 8

    def setting(self, lr: float, seed: int, **changes) -> Setting:
        """Returns the setting of a cell."""
        return Setting(self.shape, self.batch, self.steps, lr, seed,
                       warmup=min(50, self.steps // 5), **changes)


@dataclasses.dataclass(frozen=True)
class Study:
    """Variants of a run to compare, and the function that measures each."""

    place: str  # the place in the paper
    title: str
    #: Returns the figures of a cell, given its setting, corpus, variant options and label.
    measure: Callable
    #: The options of each variant, by label.
    variants: Mapping[str, Mapping]
    full: Scale
    quick: Scale
    #: Changes to the setting that apply to all cells.
    changes: Mapping = dataclasses.field(default_factory=dict)

    def scale(self, quick: bool) -> Scale:
        return self.quick if quick else self.full


#===------------------------------------------------------------------------===#
# Masked runs
#===------------------------------------------------------------------------===#


def masks(options: Mapping) -> Callable[[Llama], object]:
    """Returns a function that masks a model's products, unless the format is None."""
    return lambda model: tandem.torch.emulate(model, **options)


def masked(setting, corpus, options, label) -> dict:
    """Trains with masks."""
    run = Run(setting, corpus, prepare=masks(options))
    run.train(label)
    return figures(run)


def magnitudes(run: Run) -> dict[str, float]:
    """Returns the largest and the smallest nonzero magnitude of the inputs, weights, outputs and
    gradients of linear layers, for one more batch."""
    found: list[tuple[float, float]] = []

    def note(tensors) -> None:
        for x in tensors:
            nonzero = x.detach().abs()[x != 0]
            if nonzero.numel():
                found.append((nonzero.min().item(), nonzero.max().item()))

    layers = [m for m in run.model.modules() if isinstance(m, torch.nn.Linear)]
    handles = [layer.register_forward_hook(
        lambda m, inputs, output: note((*inputs, m.weight, output))) for layer in layers]
    handles += [layer.register_full_backward_hook(
        lambda m, inputs, outputs: note((*filter(_is_tensor, inputs), *outputs)))
        for layer in layers]
    run.optimizer.zero_grad()
    run.loss(*next(run.setting.draw(run.corpus))).backward()
    note(layer.weight.grad for layer in layers)
    for handle in handles:
        handle.remove()
    return {"smallest": min(low for low, _ in found), "largest": max(high for _, high in found)}


def _is_tensor(x: object) -> bool:
    return isinstance(x, torch.Tensor)


def exponents(setting, corpus, options, label) -> dict:
    """Trains with masks and also records the magnitudes at the end."""
    run = Run(setting, corpus, prepare=masks(options))
    run.train(label)
    found = figures(run)
    return found | ({} if found["train_loss"] is None else magnitudes(run))


class Checkpoints:
    """Measures sharpness at checkpoints during a run."""

    def __init__(self, run: Run, epsilons: tuple[float, ...]):
        self.run, self.epsilons = run, epsilons
        total = run.setting.steps
        self.steps = [total * k // CHECKPOINTS for k in range(1, CHECKPOINTS + 1)]
        self.found: list[dict] = []

    def visit(self, step: int) -> None:
        if step in self.steps:
            self.found.append({"step": step, "sharpness": self.run.sharpness(self.epsilons)})


def sharpness(setting, corpus, options, label) -> dict:
    """Trains with masks and measures sharpness at checkpoints."""
    run = Run(setting, corpus, prepare=masks(options))
    checkpoints = Checkpoints(run, EPSILONS)
    run.train(label, checkpoints.visit)
    return figures(run) | {"checkpoints": checkpoints.found}


def recovery(setting, corpus, options, label) -> dict:
    """Trains with one mask and then with another, and measures sharpness at checkpoints."""
    switch = max(1, round(SWITCHED * setting.steps))
    formats = {0: options["first"], switch: options["then"]}
    run = Run(setting, corpus, prepare=lambda model: tandem.torch.PrecisionSchedule(
        tandem.torch.MaskSetting(model), formats))
    checkpoints = Checkpoints(run, (EPSILON,))
    checkpoints.steps = sorted({switch, *checkpoints.steps})

    def visit(step: int) -> None:
        checkpoints.visit(step)  # still with the format of this step
        run.prepared.step()

    run.train(label, visit)
    return figures(run) | {"switch": switch, "checkpoints": checkpoints.found}


def landscape(setting, corpus, options, label) -> dict:
    """Trains with masks and computes the loss on a plane around the weights of two checkpoints,
    with the same masks or others."""
    set_masks = masks({"format": options["format"]})
    run = Run(setting, corpus, prepare=set_masks)
    set_plane_masks = masks({"format": options.get("plane", options["format"])})
    steps = [round(share * setting.steps) for share in LANDSCAPES]
    planes = []

    def visit(step: int) -> None:
        if step in steps:
            found = {"step": step, "sharpness": run.sharpness((EPSILON,))}
            set_plane_masks(run.model)
            planes.append(found | {"losses": grid(run, options["points"])})
            set_masks(run.model)

    run.train(label, visit)
    return figures(run) | {"planes": planes}


#===------------------------------------------------------------------------===#
# FP8 products and strategies
#===------------------------------------------------------------------------===#


def fp8_lm_head(setting, corpus, options, label) -> dict:
    """Trains with bf16's masks, or at an FP8-LM level with some layers excluded."""
    if "format" in options:
        return masked(setting, corpus, options, label)

    def prepare(model: Llama):
        return tandem.torch.fp8_lm(
            model.to(torch.bfloat16), options["level"], lr=setting.lr,
            exclude=options["exclude"], betas=setting.betas,
            weight_decay=setting.weight_decay)

    run = Run(setting, corpus, prepare=prepare)
    run.train(label)
    return figures(run)


def long(setting, corpus, options, label) -> dict:
    """Trains with a strategy, and with a recipe for stored activations if there is one."""
    recipe = options.get("recipe")
    run = Run(setting, corpus, options["strategy"], prepare=lambda model: (
        recipe and tandem.torch.compress_activations(model, recipe)))
    run.train(label)
    return figures(run) | {"bytes_per_parameter": run.optimizer.bytes_per_parameter}


#===------------------------------------------------------------------------===#
# The list
#===------------------------------------------------------------------------===#


def formats(*names: str) -> dict[str, dict]:
    return {name: {"format": name} for name in names}


EXPONENTS = {
    "E8M7": {"format": "E8M7"},
    "E7M7": {"format": "E7M7"},
    "E7M7, inside": {"format": "E7M7", "clamp": "inside"},
    "E7M7, outside": {"format": "E7M7", "clamp": "outside"},
    "E7M7, LM head unmasked": {"format": "E7M7", "exclude": ["lm_head"]},
    "E5M7": {"format": "E5M7"},
    "E4M7": {"format": "E4M7"},
    "E4M7, inside": {"format": "E4M7", "clamp": "inside"},
    "E4M7, outside": {"format": "E4M7", "clamp": "outside"},
    "E4M7, LM head unmasked": {"format": "E4M7", "exclude": ["lm_head"]},
    "E3M7": {"format": "E3M7"},
}
FP8 = {
    "bf16": {"format": "E8M7"},
    "FP8, LM head in bf16": {"level": "O1", "exclude": ["lm_head"]},
    "FP8, LM head too": {"level": "O1", "exclude": []},
}
LONG = {
    "fp32": {"strategy": "fp32"},
    "bf16": {"strategy": "bf16"},
    "bf16-dither": {"strategy": "bf16-dither"},
    "remainder": {"strategy": "remainder"},
    "collage-plus": {"strategy": "collage-plus"},
    "flash-f16": {"strategy": "flash-f16"},
    "dither-softsign-root": {"strategy": "dither-softsign-root"},
    "fp32, coat": {"strategy": "fp32", "recipe": "coat"},
    "flash-f16, coat": {"strategy": "flash-f16", "recipe": "coat"},
}

STUDIES = {
    "exponents": Study(
        "figure 10, section 4.2", "Exponents of seven bits", exponents, EXPONENTS,
        Scale(500, 1), Scale(40, 1, shape=SMALL)),
    "sharpness": Study(
        "figure 7, tables 1 and 2", "Sharpness under fewer mantissa bits", sharpness,
        formats("E8M3", "E8M4", "E8M5", "E8M6", "E8M7", "E8M2", "E8M1", "E8M0"),
        Scale(2000, 1), Scale(60, 1, shape=SMALL)),
    "recovery": Study(
        "table 3", "Recovery in bf16", recovery,
        {"E8M3, then bf16": {"first": "E8M3", "then": "E8M7"},
         "E8M3": {"first": "E8M3", "then": "E8M3"},
         "bf16": {"first": "E8M7", "then": "E8M7"},
         "E8M0, then bf16": {"first": "E8M0", "then": "E8M7"}},
        Scale(2000, 1), Scale(60, 1, shape=SMALL)),
    "spikes": Study(
        "figure 9", "Loss spikes over seeds and learning rates", masked,
        {"E8M5": {"format": "E8M5"}, "bf16": {"format": "E8M7"}, "E8M1": {"format": "E8M1"}},
        Scale(400, 18, (4e-3, 4e-2)), Scale(80, 2, (4e-3, 4e-2), SMALL)),
    "seeds": Study(
        "figure 1", "Divergence over seeds", masked,
        {"bf16": {"format": "E8M7"}, "TF32": {"format": "E8M10"}, "f32": {"format": None}},
        Scale(400, 18, (4e-2,)), Scale(60, 2, (4e-2,), SMALL)),
    "landscape": Study(
        "figure 2", "Loss landscapes", landscape,
        {"E8M3": {"format": "E8M3", "points": 11}, "E8M0": {"format": "E8M0", "points": 11},
         "E8M0, plane in f32": {"format": "E8M0", "plane": None, "points": 11}},
        Scale(1000, 1), Scale(40, 1, shape=SMALL)),
    "fp8-lm-head": Study(
        "figure 6", "FP8-LM's level O1 with and without the LM head", fp8_lm_head, FP8,
        Scale(500, 3), Scale(30, 1, shape=SMALL), {"clip": None}),
    "long": Study(
        "none; reports of users", "20,000 steps with changing data", long, LONG,
        Scale(20_000, 1, (2e-3,), SMALL), Scale(100, 1, (2e-3,), SMALL),
        {"drifts": True, "betas": (0.9, 0.999), "clip": None, "final_share": 0.01}),
}
