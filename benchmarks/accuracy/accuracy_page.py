#===- accuracy_page.py - Write docs/Accuracy.md ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the page on accuracy from the committed results.
#
#===----------------------------------------------------------------------===#
"""Writes docs/Accuracy.md and its figure from benchmarks/results/accuracy.json."""

import argparse
import json
import pathlib
import statistics
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parent)]
from common import HERE, RESULTS, save_figure, table  # noqa: E402
from projects import PEERS  # noqa: E402
from streams import STREAMS  # noqa: E402

PICTURE = "images/accuracy.png"
BETA2 = ("0.95", "0.999")
#: The largest ratio of a strategy's error to its peer's, by the kind of case.
GOALS = {"short": 1.1, "long": 1.0, "changes": 0.5}
#: The suffix of a name whose weights and gradients are f32.
F32 = ", f32 weights"
RECORDED = ("perceptron", "convolutions", "recurrence")
BUDGETS = (5, 6, 7, 8)

#===------------------------------------------------------------------------===#
# Numbers
#===------------------------------------------------------------------------===#


class Results:
    """The measured errors, as means over the seeds."""

    def __init__(self, content: dict):
        self.content, self.bytes = content, content["bytes"]
        self.names = list(next(iter(next(iter(content["cells"].values())).values())))

    @property
    def strategies(self) -> list[str]:
        """Returns the library's strategies, ordered by bytes per parameter."""
        names = [n for n in self.names if n not in PEERS and "," not in n]
        return sorted(names, key=lambda name: (self.bytes[name], name))

    def error(self, name: str, case: tuple[str, int], beta2: str) -> float | None:
        """Returns the mean error; None if a weight was not finite for one of the seeds."""
        stream, mark = case
        found = [of[name][beta2][str(mark)] for of in self.content["cells"][stream].values()]
        return None if None in found else statistics.fmean(found)

    def ratio(self, name: str, other: str, case: tuple[str, int], beta2: str) -> float | None:
        """Returns the ratio of two errors; None if the other's weights were not finite."""
        theirs = self.error(other, case, beta2)
        return theirs and self.error(name, case, beta2) / theirs

    def mean(self, name: str, cases: list | None = None, betas: tuple = BETA2) -> float | None:
        """Returns the geometric mean over cases, by default the last step of every stream."""
        found = [self.error(name, case, beta2) for case in cases or ends() for beta2 in betas]
        return None if None in found else statistics.geometric_mean(found)


def cases() -> list[tuple[str, int]]:
    return [(name, mark) for name, stream in STREAMS.items() for mark in stream.marks]


def ends() -> list[tuple[str, int]]:
    return [(name, stream.steps) for name, stream in STREAMS.items()]


def kind(case: tuple[str, int]) -> str:
    """Returns the kind of goal that applies to a case."""
    name, mark = case
    if name in ("amplitude", "sparse"):
        return "changes"
    return "short" if mark == 300 else "long"


def case_text(case: tuple[str, int]) -> str:
    name, mark = case
    title = STREAMS[name].title
    return f"{title}, {mark}" if len(STREAMS[name].marks) > 1 else title


def number(value: float | None, digits: int = 2) -> str:
    return "NaN" if value is None else f"{value:.{digits}g}" if value < 1 else f"{value:.2f}"


#===------------------------------------------------------------------------===#
# Comparison with peers
#===------------------------------------------------------------------------===#


def is_met(ratio: float | None, case: tuple[str, int]) -> bool:
    # Compare rounded to two places, as on the page.
    return ratio is None or round(ratio, 2) <= GOALS[kind(case)]


def ratio_text(ratio: float | None, case: tuple[str, int]) -> str:
    if ratio is None:
        return "(NaN)"
    text = f"{ratio:.2f}" if ratio >= 0.005 else f"{ratio:.0e}"
    return text if is_met(ratio, case) else f"**{text}**"


def measured_peers(results: Results) -> list[str]:
    return [name for name in PEERS if name in results.names]


def peer_text(name: str) -> str:
    return name if PEERS[name].package else f"{name} (model)"


def pairs(results: Results) -> list[tuple[str, str]]:
    """Returns each peer with each of its rivals."""
    return [(name, rival) for name in measured_peers(results) for rival in PEERS[name].rivals]


def ratio_table(results: Results) -> str:
    rows = []
    for name, rival in pairs(results):
        for beta2 in BETA2:
            rows.append([peer_text(name), f"`{rival.split(',')[0]}`", beta2, *(
                ratio_text(results.ratio(rival, name, case, beta2), case) for case in cases())])
    return table(["peer", "strategy", "`beta2`", *map(case_text, cases())], rows)


def missed(results: Results, name: str, rival: str, goal: str) -> list[float]:
    """Returns the ratios to a peer that miss one goal."""
    found = [(results.ratio(rival, name, case, beta2), case)
             for case in cases() for beta2 in BETA2 if kind(case) == goal]
    return [ratio for ratio, case in found if not is_met(ratio, case)]


GOAL_TEXT = {"short": "300 steps", "long": "1000 and 3000 steps",
             "changes": "amplitudes and sparse rows"}


def missed_table(results: Results) -> str:
    rows = []
    for name, rival in pairs(results):
        for goal, bound in GOALS.items():
            if found := missed(results, name, rival, goal):
                total = 2 * sum(kind(case) == goal for case in cases())
                rows.append([peer_text(name), f"`{rival.split(',')[0]}`", GOAL_TEXT[goal],
                             f"{bound:g}", f"{len(found)} of {total}", f"{max(found):.2f}"])
    return table(["peer", "strategy", "cases", "goal", "missed", "worst"], rows)


#===------------------------------------------------------------------------===#
# Rounding
#===------------------------------------------------------------------------===#

GROUPS = {"stationary, 3000": [("stationary", 3000)], "amplitudes": [("amplitude", 3000)],
          "sparse": [("sparse", 3000)], "recorded": [(n, STREAMS[n].steps) for n in RECORDED]}


def columns(results: Results, name: str) -> list[str]:
    return [number(results.mean(name, group, (beta2,)))
            for group in GROUPS.values() for beta2 in BETA2]


HEADER = [f"{title}, {beta2}" for title in GROUPS for beta2 in BETA2]


def rounding_table(results: Results, own: str, other: str) -> str:
    """Returns a table of errors by rounding. A strategy's name followed by `own` is its dithered
    variant, followed by `other` and a rounding one that is rounded otherwise."""
    suffix = f"{other} nearest"
    rows = []
    for name in [n[:-len(suffix)] for n in results.names if n.endswith(suffix)]:
        for rounding in ("nearest", "stochastic", "dither"):
            full = name + (own if rounding == "dither" else f"{other} {rounding}")
            rows.append([f"`{name}`", rounding, *columns(results, full)])
    return table(["strategy", "rounding", *HEADER], rows)


def gains(results: Results) -> str:
    """Describes by how much dithering reduces the errors of stochastic and nearest rounding."""
    text = []
    for name in ("bf16-dither", "adam8bit", "dither-softsign-root", "fp8-lm", "flash"):
        own = results.mean(name)
        others = [results.mean(f"{name}, weights {r}") / own for r in ("nearest", "stochastic")]
        text.append(f"`{name}` {others[0]:.2f} and {others[1]:.2f}")
    return ";\n".join(text)


#===------------------------------------------------------------------------===#
# Bytes
#===------------------------------------------------------------------------===#


def in_budget(results: Results, budget: int) -> list[str]:
    return [n for n in results.strategies if budget <= results.bytes[n] < budget + 1
            and results.mean(n) is not None]


def best(results: Results, budget: int) -> str:
    return min(in_budget(results, budget), key=results.mean)


def best_table(results: Results) -> str:
    rows = []
    for budget in BUDGETS:
        first, *others = sorted(in_budget(results, budget), key=results.mean)
        text = ", ".join(f"`{n}` {number(results.mean(n))}" for n in others[:2])
        rows.append([str(budget), f"`{first}`", f"{results.bytes[first]:.3f}",
                     number(results.mean(first)), text])
    return table(["bytes", "best", "exactly", "error", "next"], rows)


def byte_table(results: Results) -> str:
    names = [*results.strategies, *(n for n in measured_peers(results)
                                    if PEERS[n].weights != "f32" or "torch" in n[:6])]
    rows = [[f"`{n}`" if n not in PEERS else peer_text(n), f"{results.bytes[n]:.2f}",
             *columns(results, n), number(results.mean(n))]
            for n in sorted(names, key=lambda n: results.bytes[n])]
    return table(["", "bytes", *HEADER, "all"], rows)


#===------------------------------------------------------------------------===#
# The figure
#===------------------------------------------------------------------------===#

#: Labels in the figure: strategies that lie apart from the others, and peers.
LABELS = {
    "fp8-collage-light": (6, 4), "dither-softsign-root": (-24, 8), "fp8-lm": (-14, -14),
    "adam8bit": (8, -2), "residual-softsign-root": (6, -10), "residual-softsign-f16": (6, -10),
    "flash": (6, 4), "collage-light-f32": (6, -4), "flash-32": (6, -4), "MS-AMP": (6, 4),
    "bf16-dither": (6, 4), "bf16": (6, 4), "coat": (6, -4), "coat-remainder": (6, 4),
    "collage-light": (6, 4), "collage-plus": (6, 6), "bitsandbytes AdamW8bit, bf16": (6, 4),
    "torchao AdamW8bit, bf16, stochastic": (6, 4), "FlashOptim, 24 bits": (-40, -14),
    "Collage light": (-70, -4), "Collage plus": (6, 4)}

STRATEGY = {"marker": "o", "color": "#0072B2"}
PEER = {"marker": "s", "color": "#D55E00", "fillstyle": "none"}


def points(results: Results) -> dict[str, tuple[float, float]]:
    """Returns bytes and errors. Strategies with f32 weights and states are outside the figure."""
    names = [*results.strategies, *(n for n in measured_peers(results)
                                    if PEERS[n].weights != "f32")]
    found = {name: (results.bytes[name], results.mean(name)) for name in names}
    return {name: point for name, point in found.items() if point[1] and point[1] > 1e-5}


def draw(results: Results, path: pathlib.Path) -> None:
    """Draws errors over bytes per parameter."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5))
    for name, (size, error) in points(results).items():
        style = PEER if name in PEERS else STRATEGY
        axes.plot([size], [error], linestyle="none", markersize=6, **style)
        if name in LABELS:
            axes.annotate(name, (size, error), LABELS[name], textcoords="offset points",
                          fontsize=8, color=style["color"])
    for style, label in ((STRATEGY, "Tandem's strategies"), (PEER, "other projects")):
        axes.plot([], [], linestyle="none", markersize=6, label=label, **style)
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    axes.set_yscale("log")
    axes.set_xlabel("bytes per parameter: weight, gradient and states")
    axes.set_ylabel("error, geometric mean of all cases")
    save_figure(figure, path)


#===------------------------------------------------------------------------===#
# The page
#===------------------------------------------------------------------------===#

HEAD = f"""\
# Accuracy

![Errors of AdamW over bytes per parameter]({PICTURE})

This page says how far the weights of AdamW end from where float64 takes them, divided by the distance that float64 moves
them (0.01 is 1 %). With a smaller error, a training run is closer to one in float32. Choose the best
strategy for your bytes from the first table, and look up in [all strategies](#all-strategies) how it does with gradients
like yours. A small error does not imply a low loss; [Quality](Quality.md) measures losses. Do not compare errors of different columns,
since they are relative to different distances. `scripts/accuracy.sh` measures all of this in twenty minutes on one core, and
`benchmarks/accuracy/accuracy_page.py` writes the page.

## The best strategy for each number of bytes

"""

PEERS_TEXT = """
## Beside the projects that strategies are named after

The table has the error of a strategy divided by that of a peer, another project's optimizer: below 1 Tandem is more accurate. Each
error is the mean of three seeds. If the peer's weights are f32, the strategy's are too, so that only the states differ. Numbers in
bold miss the goal, which is at most 1.1 after 300 steps, 1.0 after 1000 and 3000, and 0.5 where amplitudes change or rows are
sparse. Ratios far below 0.5 often come from one or two seeds: if a second moment of the peer rounds to zero, the update of a few weights
explodes, and these dominate the mean. A *model* is the project's published arithmetic, operation by operation, since its own code
needs a GPU. The other peers are {versions}.

"""

MISSED_TEXT = """
### Goals that are missed

"""

REASONS = """
The reasons:

- **Steady gradients at `beta2` = 0.95.** Dithered rounding has twice the variance of rounding to nearest. It wins if states
  that are rounded to nearest get stuck, or if the errors of many steps cancel. At 0.95 a step moves second
  moments by several codes, so few of them get stuck and little cancels. The moments of `flash` rounded to nearest, in the
  table below, have the error of FlashOptim.
- **Half of the error where amplitudes change.** The goal was set for states that get stuck, as those of the peers do at
  0.999. At 0.95 the peers' states follow too, and both sides have only the resolution of the same 8 bits. At 0.999
  `adam8bit` and `coat` are near the goal, and are again limited by their codes' resolution: with second moments of 16
  bits, as in `residual-softsign-f16` and `fp8-lm`, the error is several times smaller.
- **COAT on recorded gradients.** If a group spans more than E4M3 does, COAT's power is less than 1 and the group
  becomes coarser. Tandem's power is at least 1, and the smallest second moments are raised to the code's smallest number.
- **Collage.** `collage-light` and `collage-plus` round every operation to bf16, as in the paper. NeMo's code
  fuses the multiplications and additions of the averages and rounds once. `collage-light-f32` and `collage-plus-f32`, which
  compute in f32 and store the same bytes, are about as accurate as NeMo's, or more. At 0.999 second moments in a single bf16 get stuck in
  both projects; `collage-plus` avoids that.
- **bf16 and f32.** `bf16`, `bf16-stochastic` and `fp32` round where PyTorch and torchao round, so their errors are
  alike; those of `fp32` are a few millionths. `bf16-dither` is more accurate with the same bytes.
"""

DITHER_TEXT = """
## What dithering gains

If weights are rounded to nearest, or stochastically, instead of [dithered](Numerics.md#dither), errors are larger by
these two factors (geometric means over all cases):
{gains}.

Weights and moments as the strategy stores them, with the weights rounded in three ways:

"""

MOMENTS_TEXT = """
Moments rounded in three ways, with f32 weights:

"""

BYTES_TEXT = """
## All strategies

The table has the errors with weights, gradients and states as the strategy stores them. *Recorded* is the geometric mean of the three
models after 1000 steps, and *all* that of all cases. Strategies in f16 are missing, since without a scaled loss gradients of this size
are below f16's numbers.

"""

HOW_TEXT = """
## How it is measured

AdamW runs with lr = {lr:g}, `beta1` = {beta1}, eps = {eps:g} and without decay over {size} elements. All optimizers take the
same gradients and start from the same weights, all of which are bf16 numbers. Weights are decoded with
everything that a strategy stores of them, such as residuals and second components. There are six streams of gradients:

- **Stationary**: normal numbers, whose size and mean differ by element, over 3000 steps and over the first 300.
- **Changing amplitudes**: the same, but every other element's gradients change their size every 500 steps, by factors
  of 1, 0.3, 3, 1, 0.1 and 1.
- **Sparse rows**: each row of 64 elements has gradients in 1 % to 50 % of the steps, depending on the row; one element in 32 has
  them in all steps.
- **Recorded** (three streams): gradients of the matrices of three models along a run of AdamW in f32: a perceptron with two hidden
  layers, three convolutions, and an embedding with a GRU, each trained on data that is drawn for it.

Measured on {date} at commit {commit}, PyTorch {torch}.
"""


def page(content: dict) -> str:
    """Returns the text of docs/Accuracy.md."""
    results = Results(content)
    versions, setting = content["versions"], content["setting"]
    packages = " and ".join(f"{p} {versions[p]}" for p in ("bitsandbytes", "torchao", "torch")
                            if p in versions).replace(" and ", ", ", 1)
    how = HOW_TEXT.format(**setting, date=content["machine"]["date"],
                          commit=content["machine"]["commit"][:12], torch=versions["torch"])
    parts = [HEAD, best_table(results), "\n", PEERS_TEXT.format(versions=packages),
             ratio_table(results), "\n", MISSED_TEXT, missed_table(results), "\n", REASONS,
             DITHER_TEXT.format(gains=gains(results)), rounding_table(results, "", ", weights"), "\n",
             MOMENTS_TEXT, rounding_table(results, F32, f"{F32},"), "\n", BYTES_TEXT,
             byte_table(results), "\n", how]
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--docs", type=pathlib.Path, default=HERE.parent / "docs")
    options = parser.parse_args()
    content = json.loads((options.results / "accuracy.json").read_text())
    (options.docs / "Accuracy.md").write_text(page(content))
    draw(Results(content), options.docs / PICTURE)


if __name__ == "__main__":
    main()
