#===- trained.py - Runs of whole systems of papers -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the runs of the studies of Collage, FP8-LM and COAT.
#
#===----------------------------------------------------------------------===#
"""Trains a model as Collage, FP8-LM or COAT says, and measures it. The functions that studies name
get a cell's setting, corpus, variant options and label, and the store of checkpoints."""

import dataclasses
import json
import math
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Mapping

import tandem.torch
import torch
from fp8_arithmetic import CollageAdamW
from llama import Llama, make_model
from training import ROOT, Run, curve, figures, parameter_dtype

#: The folder of strategies that the library lacks, among them the published forms.
PATH = (str(ROOT / "benchmarks/quality/strategies"),)
E4M3 = torch.finfo(torch.float8_e4m3fn)
#: The elements that share a scale in COAT's moments.
GROUP = 128
#: The number of steps of a run at which norms are noted.
NOTED = 120


def adamw(model: Llama, setting, strategy: str) -> tandem.torch.AdamW:
    """Returns the optimizer of a run, whose states are all in the strategy's types."""
    return tandem.torch.AdamW(
        model.parameters(), lr=setting.lr, betas=setting.betas, max_norm=setting.clip,
        weight_decay=setting.weight_decay, strategy=strategy, min_8bit_size=0, path=PATH)


def convert(model: Llama, options: Mapping) -> None:
    """Makes a model compute in the type of a strategy's weights, and store activations as a recipe
    says if the options have one."""
    model.to(parameter_dtype(options["strategy"], PATH))
    if "recipe" in options:
        tandem.torch.compress_activations(model, options["recipe"], products=options["products"])


def in_own_type(setting, options: Mapping) -> Callable[[Llama], object]:
    """Returns a function that converts a model and returns its optimizer."""
    def prepare(model: Llama) -> tandem.torch.AdamW:
        convert(model, options)
        return adamw(model, setting, options["strategy"])
    return prepare


#===------------------------------------------------------------------------===#
# Strategies as published
#===------------------------------------------------------------------------===#


def published(setting, corpus, options, label, store) -> dict:
    """Trains a model that computes in f32, under a strategy from the library or from PATH. If its
    states are f32, it also measures the ranges of moments and gradients."""
    run = Run(setting, corpus, options["strategy"], path=PATH)
    run.train(label)
    found = figures(run) | {"bytes_per_parameter": run.optimizer.bytes_per_parameter}
    return found | (ranges(run) if options["strategy"] == "fp32" else {})


def ranges(run: Run) -> dict[str, float]:
    """Returns log10 of the range of a typical group of both moments, and the share of gradients
    that become zero in E4M3, with and without a scale for the tensor."""
    states = [run.optimizer.state[p] for p in run.model.parameters()]
    run.optimizer.zero_grad()
    run.loss(*next(run.setting.draw(run.corpus))).backward()
    gradients = [p.grad for p in run.model.parameters()]
    return {"span_first": span([state["exp_avg"] for state in states]),
            "span_second": span([state["exp_avg_sq"] for state in states]),
            "zeros": zeros(gradients, lambda gradient: 1.0),
            "zeros_scaled": zeros(gradients, largest_scale)}


def span(tensors: list[torch.Tensor]) -> float:
    """Returns the median over whole groups of log10 of the largest over the smallest magnitude
    that is not zero."""
    found = []
    for tensor in tensors:
        whole = tensor.numel() // GROUP * GROUP
        for group in tensor.flatten()[:whole].abs().view(-1, GROUP):
            if (nonzero := group[group > 0]).numel():
                found.append(torch.log10(nonzero.max() / nonzero.min()).item())
    return statistics.median(found)


def largest_scale(gradient: torch.Tensor) -> float:
    """Returns the largest power of two by which a gradient stays within E4M3's range."""
    largest = gradient.abs().max().item()
    return 2.0 ** math.floor(math.log2(E4M3.max / largest)) if largest else 1.0


def zeros(gradients: list[torch.Tensor], scale: Callable[[torch.Tensor], float]) -> float:
    """Returns the share of elements, among those that are not zero, that become zero in E4M3: half
    of its smallest number and less."""
    half = E4M3.smallest_normal * E4M3.eps / 2
    lost = sum(int(((g != 0) & (g.abs() * scale(g) <= half)).sum()) for g in gradients)
    return lost / sum(int((g != 0).sum()) for g in gradients)


#===------------------------------------------------------------------------===#
# Collage
#===------------------------------------------------------------------------===#


class Norms:
    """Notes what an optimizer measures during a run, and the norm of all weights."""

    def __init__(self, run: Run):
        self.run, self.every = run, max(1, run.setting.steps // NOTED)
        self.found: dict[str, list[float]] = {}

    def visit(self, step: int) -> None:
        if step % self.every == 0:
            for name, value in self.run.optimizer.metrics().items():
                self.found.setdefault(name, []).append(value)
            self.found.setdefault("weight_norm", []).append(self.weight_norm())

    @torch.no_grad()
    def weight_norm(self) -> float:
        return sum(p.float().square().sum().item() for p in self.run.model.parameters()) ** 0.5

    def curves(self) -> dict[str, list]:
        """Returns the means of equal parts of the run, by name."""
        return {name: curve(values) for name, values in self.found.items()}


def collage(setting, corpus, options, label, store) -> dict:
    """Trains with a beta2 and a batch of its own, and notes norms and the EDQ."""
    setting = dataclasses.replace(setting, betas=(setting.betas[0], options["beta2"]),
                                  batch=options["batch"])
    run = Run(setting, corpus, options["strategy"], metrics=True)
    norms = Norms(run)
    run.train(label, norms.visit)
    return figures(run) | norms.curves()


def fp8_collage(setting, corpus, options, label, store) -> dict:
    """Trains with Collage in FP8, which is computed in f32 by a strategy, or in FP8."""
    if "strategy" in options:
        run = Run(setting, corpus, options["strategy"])
    else:
        run = Run(setting, corpus, prepare=lambda model: CollageAdamW(
            model.parameters(), setting.lr, setting.betas, setting.weight_decay,
            options["rounding"], options["plus"]))
    run.train(label)
    return figures(run)


#===------------------------------------------------------------------------===#
# FP8-LM
#===------------------------------------------------------------------------===#


def fp8_lm(setting, corpus, options, label, store) -> dict:
    """Trains at a level of FP8-LM, on several ranks if the options say so, or in the types of a
    row of its table 6."""
    if "ranks" in options:
        return on_ranks(setting, options, label)
    prepare = at_level(setting, options) if "level" in options else in_own_type(setting, options)
    run = Run(setting, corpus, prepare=prepare)
    run.train(label)
    return figures(run)


def at_level(setting, options: Mapping) -> Callable[[Llama], object]:
    """Returns a function that converts a model to a level and returns its optimizer."""
    return lambda model: tandem.torch.fp8_lm(
        model.to(torch.bfloat16), options["level"], lr=setting.lr, betas=setting.betas,
        weight_decay=setting.weight_decay, min_8bit_size=0)


class RankRun(Run):
    """The part of a run that is one rank's, with an equal share of each batch."""

    def __init__(self, setting, corpus, prepare, rank: int, ranks: int):
        super().__init__(setting, corpus, prepare=prepare)
        self.ranks = ranks
        self._batches = ((inputs[rank::ranks], targets[rank::ranks])
                         for inputs, targets in setting.draw(corpus))

    def step(self) -> float:
        """Takes one step and returns the mean loss of all ranks before it."""
        loss = torch.tensor(super().step())
        torch.distributed.all_reduce(loss)
        self.losses[-1] = loss.item() / self.ranks
        return self.losses[-1]


def on_ranks(setting, options: Mapping, label: str) -> dict:
    """Trains on several processes of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (setting, dict(options), label, folder),
                                    nprocs=options["ranks"])
        return json.loads(pathlib.Path(folder, "figures.json").read_text())


def run_rank(rank: int, setting, options: dict, label: str, folder: str) -> None:
    """Trains as one rank; the first writes the figures to a file in the folder."""
    from training import load_corpus

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                                         world_size=options["ranks"])
    run = RankRun(setting, load_corpus(), at_level(setting, options), rank, options["ranks"])
    run.train(f"{label}, rank {rank}")
    found = figures(run)
    if rank == 0:
        pathlib.Path(folder, "figures.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


#===------------------------------------------------------------------------===#
# COAT
#===------------------------------------------------------------------------===#


def coat(setting, corpus, options, label, store) -> dict:
    """Trains a model that computes in its own types."""
    run = Run(setting, corpus, prepare=in_own_type(setting, options))
    run.train(label)
    return figures(run) | {"bytes_per_parameter": run.optimizer.bytes_per_parameter}


def memory(setting, corpus, options, label, store) -> dict:
    """Trains with the optimizer's defaults, and then measures the bytes that a step takes, by part,
    beside those that tandem.torch.memory predicts."""
    def prepare(model: Llama) -> tandem.torch.AdamW:
        convert(model, options)
        return tandem.torch.AdamW(model.parameters(), strategy=options["strategy"])

    run = Run(setting, corpus, prepare=prepare)
    run.train(label)
    batch = next(setting.draw(corpus))
    plain = make_model(len(corpus.vocabulary), setting.shape, setting.seed).to(
        parameter_dtype(options["strategy"]))
    return figures(run) | {"predicted": predicted(plain, options, batch[0]),
                           "measured": measured(run, batch)}


def predicted(model: Llama, options: Mapping, inputs: torch.Tensor) -> dict[str, int]:
    """Returns the bytes by part that tandem.torch.memory predicts for a model."""
    found = tandem.torch.memory(model, options["strategy"], options.get("recipe"), inputs=inputs,
                                products=options.get("products", "bf16"))
    return {part: getattr(found, part) for part in (
        "weights", "gradients", "states", "activations", "total")}


def measured(run: Run, batch: tuple) -> dict[str, int]:
    """Returns the bytes by part, each at its largest, and the most that all take at a time."""
    def step() -> None:
        run.optimizer.zero_grad()
        run.loss(*batch).backward()
        run.optimizer.step()

    run.loss(*batch).backward()
    live = run.optimizer.live_bytes()
    run.optimizer.zero_grad()
    return {part: live[part] for part in ("weights", "gradients", "states")} | {
        "activations": saved_bytes(run.model, batch[0]),
        "total": live["weights"] + live["states"] + allocated(step)}


def saved_bytes(model: Llama, inputs: torch.Tensor) -> int:
    """Returns the bytes of the tensors that autograd holds after a forward pass, except
    parameters and buffers."""
    own = {tensor.untyped_storage().data_ptr()
           for tensor in (*model.parameters(), *model.buffers())}
    found = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        logits = model(inputs)
    del logits
    return sum(storage.nbytes() for storage in found.values())


def allocated(run: Callable[[], None]) -> int:
    """Returns the most bytes that PyTorch's allocator holds at a time during a call, above what it
    held before."""
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        run()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
