#===- studies.py - The studies of docs/Papers.md ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the studies, with the cells of each.
#
#===----------------------------------------------------------------------===#
"""Studies at toy size: one for each figure or pair of tables of "To FP8 and Back Again", and one for
each whole system of another paper."""

import dataclasses
from collections.abc import Callable, Mapping

import measures
import trained
from llama import Shape
from training import Setting

#: The short name of "To FP8 and Back Again".
TO_FP8 = "To FP8"

TOY = Shape(width=32, layers=2, heads=4, context=32)
SMALL = Shape(width=32, layers=1, heads=2, context=32)
#: 0.2 and 0.8 million parameters.
DEEP = Shape(width=64, layers=4, heads=4, context=32)
WIDE = Shape(width=128, layers=4, heads=4, context=32)
#: A model whose matrices have states in codes by default. Those of the others are too small.
CODED = Shape(width=128, layers=2, heads=4, context=64)
#: A constant rate, without clipping or decay, under which formats part in long runs.
CONSTANT = {"final_share": 1.0, "clip": None, "weight_decay": 0.0}
#: The six rates between which a run's loss is most sensitive, a factor of about 3 apart.
RATES = (3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size and the number of a study's cells."""

    steps: int
    seeds: int
    lrs: tuple[float, ...] = (4e-3,)
    shape: Shape = TOY
    batch: int = 8
    before: int = 0  # the steps of another study's run that each cell goes on from

    def setting(self, lr: float, seed: int, **changes) -> Setting:
        """Returns the setting of a cell."""
        return Setting(self.shape, self.batch, self.before + self.steps, lr, seed,
                       warmup=min(50, self.steps // 5), before=self.before, **changes)


@dataclasses.dataclass(frozen=True)
class Study:
    """Variants of a run to compare, and the function that measures each."""

    place: str  # the place in the paper
    title: str
    #: Returns the figures of a cell, given its setting, corpus, variant options, label and store.
    measure: Callable
    #: The options of each variant, by label.
    variants: Mapping[str, Mapping]
    full: Scale
    quick: Scale
    #: Changes to the setting that apply to all cells.
    changes: Mapping = dataclasses.field(default_factory=dict)
    #: Variants that run after all seeds of the others.
    later: tuple[str, ...] = ()
    paper: str = TO_FP8

    def scale(self, quick: bool) -> Scale:
        return self.quick if quick else self.full

    def rank(self, variant: str) -> int:
        """Returns the turn of a variant."""
        return self.later.index(variant) + 1 if variant in self.later else 0


def formats(*names: str) -> dict[str, dict]:
    return {name: {"format": name} for name in names}


CLAMPS = {"": {}, ", inside": {"clamp": "inside"}, ", outside": {"clamp": "outside"},
          ", LM head unmasked": {"exclude": ["lm_head"]}}
EXPONENTS = {
    "E8M7": {"format": "E8M7"},
    **{f"E7M7, f32's bias{name}": {"format": "E7M7", "bias": "kept"} | options
       for name, options in CLAMPS.items()},
    **{f"E7M7{name}": {"format": "E7M7"} | options for name, options in CLAMPS.items()},
    "E5M7": {"format": "E5M7"},
    **{f"E4M7{name}": {"format": "E4M7"} | options for name, options in CLAMPS.items()},
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
#: The variants of the long study that a larger model repeats.
LONG_WIDE = {name: LONG[name] for name in (
    "fp32", "bf16", "bf16-dither", "flash-f16", "dither-softsign-root")}
DRIFTING = {"drifts": True, "betas": (0.9, 0.999), "clip": None, "final_share": 0.01}

FEW_BITS = {
    **formats("E8M7", "E8M1", "E8M0"),
    "E8M0, then bf16": {"format": "E8M0", "then": "E8M7", "share": 0.15},
}
RECOVERY = {
    "E8M3, then bf16": {"first": "E8M3", "then": "E8M7"},
    "E8M3": {"first": "E8M3", "then": "E8M3"},
    "bf16": {"first": "E8M7", "then": "E8M7"},
}
REMEDIES = {
    **formats("E8M3", "E8M7"),
    "E8M3, first block in E8M7": {"format": {"layers.0": "E8M7", "*": "E8M3"}},
    "E8M3, first two blocks in E8M7": {
        "format": {"layers.0": "E8M7", "layers.1": "E8M7", "*": "E8M3"}},
    "E8M3, raised by sharpness": {"levels": ("E8M3", "E8M7"), "bound": 0.08, "patience": 2},
}

#: Collage's options, and its table 6: beta2 and the number of sequences in a batch.
OPTIONS = {"A": "bf16", "B": "collage-light", "C": "collage-plus", "D": "master-weights",
           "D-MW": "fp32-optim"}
BETAS, BATCHES = (0.95, 0.99, 0.999), (8, 32)


def betas_label(option: str, beta2: float, batch: int) -> str:
    """Returns the name of a variant of the study of Collage."""
    return f"{option}, beta2 {beta2:g}, batch {batch}"


COLLAGE = {betas_label(option, beta2, batch): {
    "strategy": strategy, "beta2": beta2, "batch": batch}
    for beta2, batch in (*((beta2, batch) for beta2 in BETAS[::-1] for batch in BATCHES),
                         (0.98, BATCHES[0]))
    for option, strategy in OPTIONS.items()}
#: Collage in FP8, computed in f32 as Tandem's strategies are, and in FP8.
FP8_COLLAGE = {
    "D": {"strategy": "master-weights"},
    "light, in f32": {"strategy": "fp8-collage-light"},
    "plus, in f32": {"strategy": "fp8-collage-plus"},
    "light, in E4M3": {"rounding": "scaled", "plus": False},
    "plus, in E4M3": {"rounding": "scaled", "plus": True},
    "light, in E4M3 without limits": {"rounding": "unlimited", "plus": False},
    "plus, in E4M3 without limits": {"rounding": "unlimited", "plus": True},
}
#: Levels of FP8-LM, and rows of its table 6 in their published forms.
FP8_PRODUCTS = {"recipe": "te-current", "products": "fp8"}
LEVELS = {
    "f32 (#0)": {"strategy": "fp32"},
    "bf16 (#1)": {"strategy": "master-weights"},
    "FP8 (#2)": {"strategy": "fp8-lm-published"} | FP8_PRODUCTS,
    "FP8 weight (#3)": {"strategy": "fp8-lm-published-fp8-weight"} | FP8_PRODUCTS,
    "FP8 moments (#4)": {"strategy": "fp8-lm-published-fp8-moments"} | FP8_PRODUCTS,
    "O1": {"level": "O1"},
    "O2": {"level": "O2"},
    "O3, two ranks": {"level": "O3", "ranks": 2},
}
LEVELS_LONG = {name: LEVELS[name] for name in ("bf16 (#1)", "O1", "O2", "O3, two ranks")}
#: The whole of COAT: optimizer, stored activations, FP8 products, and codes between layers.
FLOW = {"recipe": "coat-fp8", "products": "fp8"}
COAT = {
    "bf16": {"strategy": "master-weights"},
    "COAT": {"strategy": "coat"} | FLOW,
    "COAT, as published": {"strategy": "coat-published"} | FLOW,
    "COAT, not expanded": {"strategy": "coat-unexpanded"} | FLOW,
}
MEMORY = {"bf16": COAT["bf16"], "COAT": COAT["COAT"],
          "COAT, bf16 products": {"strategy": "coat", "recipe": "coat", "products": "bf16"}}
#: Strategies as the library has them, with single departures taken back, and as published.
PUBLISHED = {name: {"strategy": name} for name in (
    "fp32", "coat", "coat-published", "coat-nearest", "coat-bf16-scales", "coat-one-range",
    "fp8-lm", "fp8-lm-published", "fp8-lm-nearest-moments", "adam8bit", "adam8bit-published",
    "adam8bit-nearest-moments")}

STUDIES = {
    "exponents": Study(
        "figure 10, section 4.2", "Exponents of seven bits", measures.exponents, EXPONENTS,
        Scale(500, 3), Scale(20, 1, shape=SMALL)),
    "sharpness": Study(
        "figures 7 and 8, tables 1 and 2", "Sharpness under fewer mantissa bits",
        measures.sharpness, formats("E8M3", "E8M4", "E8M5", "E8M6", "E8M7"),
        Scale(20_000, 3, (1e-2,)), Scale(60, 1, (1e-2,), SMALL), CONSTANT,
        later=("E8M5", "E8M4", "E8M6")),
    "divergence": Study(
        "figures 7 and 8", "Longer runs", measures.sharpness, formats("E8M3", "E8M7"),
        Scale(60_000, 3, (1e-2,)), Scale(80, 1, (1e-2,), SMALL), CONSTANT),
    "recovery": Study(
        "table 3", "Recovery in bf16", measures.recovery, RECOVERY,
        Scale(8_000, 3, (1e-2,), before=20_000),
        Scale(60, 1, (1e-2,), SMALL, before=60), CONSTANT, later=("bf16",)),
    "remedies": Study(
        "none; named as future work", "Precision raised where it matters", measures.raised,
        REMEDIES, Scale(20_000, 3, (1e-2,)), Scale(60, 1, (1e-2,), TOY), CONSTANT,
        later=("E8M3, first block in E8M7",)),
    "few-bits": Study(
        "none; formats below the paper's", "Fewer bits than the paper's", measures.switched,
        FEW_BITS, Scale(2000, 3), Scale(60, 1, shape=SMALL)),
    "rates": Study(
        "none; Wortsman et al. (2023)", "Sensitivity to the learning rate", measures.rates,
        formats("E8M3", "E8M7", "E8M5") | {"f32": {"format": None}},
        Scale(1000, 3, RATES, DEEP), Scale(20, 1, (1e-2, 1.0), SMALL), {"weight_decay": 0.0},
        later=("f32", "E8M5")),
    "size": Study(
        "none; its smallest model has 120 million", "A model of 0.8 million parameters",
        measures.sharpness, formats("E8M3", "E8M7"),
        Scale(12_000, 3, (1e-2,), WIDE), Scale(20, 1, (1e-2,), TOY), CONSTANT),
    "spikes": Study(
        "figure 9", "Loss spikes over seeds and learning rates", measures.masked,
        {"E8M5": {"format": "E8M5"}, "bf16": {"format": "E8M7"}, "E8M1": {"format": "E8M1"}},
        Scale(400, 18, (4e-3, 4e-2)), Scale(80, 2, (4e-3, 4e-2), SMALL)),
    "seeds": Study(
        "figure 1", "Divergence over seeds", measures.masked,
        {"bf16": {"format": "E8M7"}, "TF32": {"format": "E8M10"}, "f32": {"format": None}},
        Scale(400, 18, (4e-2,)), Scale(60, 2, (4e-2,), SMALL)),
    "landscape": Study(
        "figure 2", "Loss landscapes", measures.landscape,
        {"E8M3": {"format": "E8M3", "points": 11}, "E8M0": {"format": "E8M0", "points": 11},
         "E8M0, plane in f32": {"format": "E8M0", "plane": None, "points": 11}},
        Scale(1000, 3), Scale(40, 1, shape=SMALL)),
    "fp8-lm-head": Study(
        "figure 6", "FP8-LM's level O1 with and without the LM head", measures.fp8_lm_head, FP8,
        Scale(500, 6), Scale(30, 1, shape=SMALL), {"clip": None}),
    "long": Study(
        "none; reports of users", "20,000 steps with changing data", measures.long, LONG,
        Scale(20_000, 3, (2e-3,), SMALL), Scale(100, 1, (2e-3,), SMALL), DRIFTING),
    "long-wide": Study(
        "none; reports of users", "10,000 steps with 0.8 million parameters", measures.long,
        LONG_WIDE, Scale(10_000, 3, (2e-3,), WIDE), Scale(20, 1, (2e-3,), TOY), DRIFTING,
        later=("dither-softsign-root", "bf16-dither")),
    "coat": Study(
        "figure 5", "The whole of COAT", trained.coat, COAT, Scale(20_000, 3),
        Scale(30, 1, shape=SMALL), later=("COAT, not expanded",),
        paper="COAT"),
    "memory": Study(
        "table 7", "Bytes of a step under COAT", trained.memory, MEMORY,
        Scale(20, 1, shape=CODED), Scale(10, 1, shape=CODED), paper="COAT"),
    "collage": Study(
        "table 6, figures 2 and 3", "Collage's options by beta2 and batch", trained.collage,
        COLLAGE, Scale(1500, 3), Scale(20, 1, shape=SMALL), {"clip": None}, paper="Collage"),
    "fp8-collage": Study(
        "appendix D", "Collage computed in FP8", trained.fp8_collage, FP8_COLLAGE,
        Scale(1500, 3), Scale(20, 1, shape=SMALL), {"clip": None}, paper="Collage"),
    "fp8-lm": Study(
        "table 6, figures 4 and 8", "FP8-LM's levels, and its table 6 as published",
        trained.fp8_lm, LEVELS, Scale(1500, 3), Scale(20, 1, shape=SMALL), {"clip": None},
        later=("O3, two ranks",), paper="FP8-LM"),
    "fp8-lm-long": Study(
        "figure 4", "FP8-LM's levels after 20,000 steps", trained.fp8_lm, LEVELS_LONG,
        Scale(20_000, 3), Scale(20, 1, shape=SMALL), {"clip": None},
        later=("O3, two ranks",), paper="FP8-LM"),
    "published": Study(
        "none; the library's departures from papers", "Strategies as published",
        trained.published, PUBLISHED, Scale(3000, 3, (2e-3,)), Scale(20, 1, (2e-3,), SMALL),
        DRIFTING, paper=""),
}
