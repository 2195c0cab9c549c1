#===- measures.py - What the cells of the studies measure -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the runs of the studies: how each is trained, and which figures are kept.
#
#===----------------------------------------------------------------------===#
"""Trains a cell of a study and measures it. Each function gets a cell's setting, corpus, variant
options and label, and the store of checkpoints."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import tandem.torch
import torch
from checkpoints import Store, key_of
from landscape import grid
from llama import Attention, Llama, rotate
from training import Run, figures, number

#: The epsilons of table 2, and the one used in the other tables and figures.
EPSILONS = (5e-5, 1e-4, 5e-4, 1e-3, 5e-3)
EPSILON = 5e-4
#: The number of checkpoints at which sharpness is measured.
CHECKPOINTS = 20
#: The landscapes' checkpoints as fractions of the steps.
LANDSCAPES = (0.5, 1.0)


#===------------------------------------------------------------------------===#
# Masked runs
#===------------------------------------------------------------------------===#


def masks(options: Mapping) -> Callable[[Llama], object]:
    """Returns a function that masks a model's products, unless the format is None."""
    return lambda model: tandem.torch.emulate(model, **options)


def masked(setting, corpus, options, label, store) -> dict:
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


def exponents(setting, corpus, options, label, store) -> dict:
    """Trains with masks and also records the magnitudes at the end."""
    run = Run(setting, corpus, prepare=masks(options))
    run.train(label)
    found = figures(run)
    return found | ({} if found["train_loss"] is None else magnitudes(run))


class Watch:
    """Measures sharpness at checkpoints during a run, and saves the run there."""

    def __init__(self, run: Run, epsilons: tuple[float, ...], store: Store, options: Mapping,
                 steps: list[int] | None = None):
        self.run, self.epsilons, self.store = run, epsilons, store
        self.key = key_of(run.setting, dict(options))
        total, before = run.setting.steps, run.setting.before
        self.steps = steps or [before + (total - before) * k // CHECKPOINTS
                               for k in range(1, CHECKPOINTS + 1)]
        self.found: list[dict] = []

    def restore(self, at_most: int) -> None:
        """Goes on from the last checkpoint of at most this many steps."""
        self.found = self.store.restore(self.key, self.run, at_most)

    def visit(self, step: int) -> None:
        if step in self.steps:
            self.note(step)
            self.store.save(self.key, self.run, self.found)

    def note(self, step: int) -> None:
        """Measures sharpness after a step."""
        self.found.append({"step": step, "sharpness": self.run.sharpness(self.epsilons)})


def sharpness(setting, corpus, options, label, store) -> dict:
    """Trains with masks and measures sharpness at checkpoints."""
    run = Run(setting, corpus, prepare=masks(options))
    watch = Watch(run, EPSILONS, store, options)
    watch.restore(setting.steps)
    run.train(label, watch.visit)
    return figures(run) | {"checkpoints": watch.found}


def recovery(setting, corpus, options, label, store) -> dict:
    """Trains with one mask up to a switch and then with another, and measures sharpness from the
    switch on. The first part is a run of another study if the store has it."""
    switch, low = setting.before, {"format": options["first"]}
    run = Run(setting, corpus, prepare=masks(low))
    watch = Watch(run, (EPSILON,), store, options)
    watch.restore(setting.steps)
    if not watch.found:
        first = Watch(run, (EPSILON,), store, low, [switch])
        first.key = key_of(dataclasses.replace(setting, before=0), low)
        first.restore(switch)
        run.train(label, first.visit, until=switch)
        watch.note(switch)
    tandem.torch.emulate(run.model, options["then"])
    run.train(label, watch.visit)
    return figures(run) | {"switch": switch, "checkpoints": watch.found}


def switched(setting, corpus, options, label, store) -> dict:
    """Trains with a schedule of masks, and measures sharpness at checkpoints and at the switch."""
    total = setting.steps
    switch = max(1, round(options.get("share", 1.0) * total))
    formats = {0: options["format"], switch: options.get("then", options["format"])}
    run = Run(setting, corpus, prepare=lambda model: tandem.torch.PrecisionSchedule(
        tandem.torch.MaskSetting(model), formats))
    watch = Watch(run, (EPSILON,), store, options)
    watch.steps = sorted({switch, *watch.steps})

    def visit(step: int) -> None:
        if step in watch.steps:
            watch.note(step)  # still with the format of this step
        run.prepared.step()

    run.train(label, visit)
    return figures(run) | {"switch": switch, "checkpoints": watch.found}


def raised(setting, corpus, options, label, store) -> dict:
    """Trains with masks of a low precision that sharpness raises to a higher one, if the options
    have levels and a bound, and else as :func:`sharpness` does. Until then the run is the low
    precision's, which it takes from the store if that has it."""
    if "levels" not in options:
        return sharpness(setting, corpus, options, label, store)
    run = Run(setting, corpus, prepare=lambda model: tandem.torch.PrecisionRaise(
        tandem.torch.MaskSetting(model), options["levels"], options["bound"],
        patience=options["patience"]))
    watch, raises = Watch(run, EPSILONS, store, options), []

    def is_raised(point: dict) -> bool:
        measured = point["sharpness"][f"{EPSILON:g}"]
        if run.prepared.step(math.nan if measured is None else measured):
            raises.append(point["step"])
        return bool(raises)

    def visit(step: int) -> None:
        if step in watch.steps:
            watch.note(step)
            is_raised(watch.found[-1])

    low = key_of(setting, {"format": options["levels"][0]})
    for point in store.restore(low, run, setting.steps):
        watch.found.append(point)
        if is_raised(point):
            store.restore(low, run, point["step"])
            break
    run.train(label, visit)
    return figures(run) | {"raised": raises, "checkpoints": watch.found}


#===------------------------------------------------------------------------===#
# Rates
#===------------------------------------------------------------------------===#


@torch.no_grad()
def attention_logits(run: Run) -> float:
    """Returns the largest magnitude of an attention logit, q . k / sqrt(size of a head), before
    the causal mask, over one batch of held-out text."""
    model, found = run.model, []

    def note(module: Attention, packed: torch.Tensor) -> None:
        split = packed.unflatten(-1, (3, module.heads, -1)).permute(2, 0, 3, 1, 4)
        places = slice(split.shape[-2])
        query, key = (rotate(x, model.cosines[places], model.sines[places]) for x in split[:2])
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        found.append(logits.abs().max().item())

    handles = [module.qkv_proj.register_forward_hook(
        lambda _, inputs, output, module=module: note(module, output))
        for module in model.modules() if isinstance(module, Attention)]
    run.validation_loss(count=1)
    for handle in handles:
        handle.remove()
    return max(found)


def rates(setting, corpus, options, label, store) -> dict:
    """Trains with masks, and records the first loss and the largest attention logits."""
    run = Run(setting, corpus, prepare=masks(options))
    steps = {setting.steps * k // CHECKPOINTS for k in range(1, CHECKPOINTS + 1)}
    logits = []
    run.train(label, lambda step: logits.append(attention_logits(run)) if step in steps else None)
    largest = max(logits, key=lambda value: math.inf if math.isnan(value) else value,
                  default=math.nan)
    return figures(run) | {"first_loss": number(run.losses[0]),
                           "attention_logits": number(largest)}


def landscape(setting, corpus, options, label, store) -> dict:
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


def fp8_lm_head(setting, corpus, options, label, store) -> dict:
    """Trains with bf16's masks, or at an FP8-LM level with some layers excluded."""
    if "format" in options:
        return masked(setting, corpus, options, label, store)

    def prepare(model: Llama):
        return tandem.torch.fp8_lm(
            model.to(torch.bfloat16), options["level"], lr=setting.lr,
            exclude=options["exclude"], betas=setting.betas,
            weight_decay=setting.weight_decay)

    run = Run(setting, corpus, prepare=prepare)
    run.train(label)
    return figures(run)


def long(setting, corpus, options, label, store) -> dict:
    """Trains with a strategy, and with a recipe for stored activations if there is one."""
    recipe = options.get("recipe")
    run = Run(setting, corpus, options["strategy"], prepare=lambda model: (
        recipe and tandem.torch.compress_activations(model, recipe)))
    run.train(label)
    return figures(run) | {"bytes_per_parameter": run.optimizer.bytes_per_parameter}
