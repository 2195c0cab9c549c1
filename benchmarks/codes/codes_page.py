#===- codes_page.py - Write docs/Codes.md ----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the page on moments in a few bits from the committed results.
#
#===----------------------------------------------------------------------===#
"""Writes docs/Codes.md and its figure from benchmarks/results/codes.json."""

import argparse
import json
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(pathlib.Path(__file__).resolve().parent)]
from candidates import CHOSEN, PYTORCH_BF16  # noqa: E402
from common import RESULTS, graph_of, load, origin, save_figure, table  # noqa: E402
from gradients import CHOOSING, HELD_OUT  # noqa: E402

PICTURE = "images/codes.png"
CLOSEST = "4 + 4, K57, groups of 32"
ITSELF = "m itself, 4 + 4, K57, groups of 32"
TORCHAO = "4-bit dynamic and linear, groups of 128"
EIGHT = "8-bit softsign and root, dithered"


def _errors(streams: dict, names) -> list[float]:
    return [error for name in names for cell in streams[name].values()
            for error in cell["errors"].values()]


class Results:
    """The measured finalists."""

    def __init__(self, content: dict):
        self.content, self.seeds = content, list(content["final"])
        self.names = list(content["final"]["0"])

    def bits(self, name: str) -> float:
        return self.content["bits"][name]

    def by_seed(self, name: str, streams=CHOOSING) -> list[float]:
        """Returns the geometric mean of the errors on these streams, for each seed."""
        cells = [self.content["final"][seed][name] for seed in self.seeds]
        return [float(np.exp(np.mean(np.log(_errors(cell, streams))))) for cell in cells]

    def error(self, name: str, streams=CHOOSING) -> float:
        return float(np.exp(np.mean(np.log(self.by_seed(name, streams)))))

    def largest(self, name: str, key: str = "largest") -> float:
        """Returns the largest step of any weight, in learning rates."""
        return max(cell[key] for seed in self.seeds
                   for by_beta in self.content["final"][seed][name].values()
                   for cell in by_beta.values())

    def follows(self, name: str) -> str:
        verdicts = self.content["following"].get(name)
        if verdicts is None:
            return ""
        return "yes" if all(one["follows"] for one in verdicts.values()) else "no"


#===------------------------------------------------------------------------===#
# The figure
#===------------------------------------------------------------------------===#

LABELS = {
    CHOSEN: "m / sqrt(v) and v, 4 bits each", "3 + 3, K57, groups of 32": "3 bits each",
    "2 + 2, K57, groups of 16": "2 bits each", "5 + 5, K33, groups of 32": "5 bits each",
    "6 + 6, K33, groups of 32": "6 bits each", "8 + 8, K45, groups of 128": "8 bits each",
    ITSELF: "m and v, 4 bits each", EIGHT: "8-bit softsign and root",
    TORCHAO: "dynamic and linear (torchao)", PYTORCH_BF16: "PyTorch, bf16"}
STYLES = {"ratio": {"color": "#0072B2", "marker": "o"}, "m": {"color": "#009E73", "marker": "^"},
          "published": {"color": "#D55E00", "marker": "s", "fillstyle": "none"}}


def kind(name: str) -> str:
    if name.startswith("m itself"):
        return "m"
    return "ratio" if name[0].isdigit() and name[1:4] == " + " else "published"


def draw(results: Results, path: pathlib.Path) -> None:
    """Draws errors over bits of state."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5))
    for name in results.names:
        point = results.bits(name), results.error(name)
        axes.plot(*([x] for x in point), linestyle="none", markersize=6, **STYLES[kind(name)])
        if name in LABELS:
            axes.annotate(LABELS[name], point, (6, 4), textcoords="offset points", fontsize=8,
                          color=STYLES[kind(name)]["color"])
    for key, label in (("ratio", "m / sqrt(v) and v"), ("m", "m and v"),
                       ("published", "published codes")):
        axes.plot([], [], linestyle="none", markersize=6, label=label, **STYLES[key])
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    axes.set_xscale("log", base=2)
    ticks = (6, 8, 10, 12, 16, 24, 32)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlim(4.8, 46)
    axes.set_yscale("log")
    axes.set_xlabel("bits of both moments for each weight")
    axes.set_ylabel("error, geometric mean of all cases")
    save_figure(figure, path)


#===------------------------------------------------------------------------===#
# The page
#===------------------------------------------------------------------------===#

HEAD = f"""\
# Moments in a few bits

Generated by `benchmarks/codes/codes_page.py` from `benchmarks/results/codes.json`, which `scripts/codes.sh` measures.

![Errors of AdamW over bits of its moments]({PICTURE})

With {{bits:.3g}} bits of state for each weight, AdamW ends {{chosen:.2f}} of the distance moved away from float64; torchao's 4-bit
codes end {{torchao:.2f}} away, PyTorch's AdamW on bf16 weights {{bf16:.2f}}, and 8-bit codes {{eight:.3f}}.
What helps most is to store m / sqrt(v) in the place of m: the weights of a group have quotients of about one size, so that the integers
from -7 to 7 are enough, and the error is {{closest:.2f}} where a code of m itself leaves {{itself:.2f}}.
The second moment is stored as the exponent of 2 + y less that of 4, y being 131070 times v by the group's largest; the mantissa f of 2 + y
decides by [dither](Numerics.md#dither) whether the next exponent is stored, after f (1 - f) / 4 has been added to it, since a
probability that is linear in the fourth root of v makes 1 / sqrt(v) right on average.
Scales of second moments are f32: if they are rounded to bf16, the largest element of a group is not stored exactly, the scale moves
with it, and all others are rounded anew, so that 8-bit codes do not [follow](Following.md) at a `beta2` of 0.999, and these not
at 0.9999; the scales of quotients may be bf16, rounded up.
A code of nine octaves (K57) is nearer to float64 than the sixteen exponents, but does not follow where gradients of a group differ by
more than a factor of about 30, since the updates of its smallest weights are too small.

In PyTorch these are the strategies [`dither-ratio4` and `residual-ratio4`](Strategies.md#8-bits-and-4), with bf16 scales of
quotients, by `tandem.torch.AdamW(params, strategy="residual-ratio4", stores_ratio=True)`.

"""

HOW = """
Names such as 4 + 4 have the bits of m / sqrt(v), in integers, and of v. K57 is a code of v in which two numbers are
floor(2^(32 - b) / 57) units of the last place of 2 + y apart, and which rounds linearly in them; fourth and sixth powers are ((c +
1) / 16)^4 and ((c + 2.5) / 17.5)^6 of a code c, linear in the fourth root of v. *Error* is the [distance from float64](Accuracy.md) divided by the distance moved: the geometric mean over six streams
(random ones at 3000 steps, models at 300 and 1000), `beta2` of 0.95, 0.99 and 0.999, and {seeds} seeds, with the
smallest and the largest seed's. *Held out* is that of a model with attention, which was not used to choose. *Step* is the largest update of a
weight in learning rates; float64's is {exact:.2g}. *Follows* says whether the states pass the tests of
[States that follow](Following.md) from 0.9 to 0.999, for exponents in groups of 32 also at 0.9999. *4-bit dynamic and linear* are torchao's, and those of *Memory Efficient Optimizers with 4-bit
States*; all are computed in NumPy. The file has some two hundred codes that lost. Measured on {date} at commit
{commit}.
"""


TIME = """
## The cost of a step

A step under four bits takes {least:.2f} to {most:.2f} times as long as one of 8 bits whose weight is stored alike, on a CPU: both moments are
decoded and encoded from halves of bytes, and the first one is divided by the root of the second and multiplied by it again. The table has nanoseconds a
parameter of a matrix of 4000 x 4000 on one thread, compiled for this machine and for `x86-64-v3`, and the [issue slots](Instructions.md) of an
element on sm_90, by bytes of weight, gradient and moments.

{rows}

{machine}. Command: `benchmarks/cpu_step.py --quick --name cpu_step_few_bits --rounds 3 --cases {cases}`.
"""

#: The strategies of four bits, and those of 8 bits with the same storage of the weight.
ALIKE = {"dither-ratio4": "dither-mulaw", "residual-ratio4": "residual-mulaw",
         "coded-ratio4": "dither-softsign-root"}


def slots(strategy: str, kernels: dict) -> str:
    """Returns the issue slots of an element on sm_90."""
    launches = kernels[f"{graph_of(strategy)}/{strategy}"]["sm_90"]["launches"]
    return f"{sum(launch['slots']['issue'] for launch in launches):.0f}"


def times(found: dict, kernels: dict) -> str:
    """Returns the section on the time of a step."""
    cases = found["sizes"]["16M"]
    ratios = [cases[four]["threads_1"]["step"] / cases[eight]["threads_1"]["step"]
              for four, eight in ALIKE.items()]
    shown = [[f"`{name}`", f"{case['bytes_per_parameter']:.3g}",
              f"{case['threads_1']['ns_per_parameter']:.2f}",
              f"{1e9 * case['threads_1']['x86-64-v3'] / case['parameters']:.2f}",
              slots(name, kernels)]
             for name, case in sorted(cases.items(), key=lambda c: c[1]["bytes_per_parameter"])]
    return TIME.format(
        least=min(ratios), most=max(ratios), cases=" ".join(cases),
        machine=f"Measured {origin(found)}, on {found['machine']['cpu']}",
        rows=table(["strategy", "bytes", "native", "x86-64-v3", "slots"], shown))


def rows(results: Results) -> list[list[str]]:
    """Returns a row for each finalist, by bits and then by error."""
    found = []
    for name in sorted(results.names, key=lambda n: (results.bits(n), results.error(n))):
        seeds = results.by_seed(name)
        step = f"{results.largest(name):.2g}" if name != PYTORCH_BF16 else ""
        found.append([name, f"{results.bits(name):.4g}", f"{results.error(name):.3f}",
                      f"{min(seeds):.3f}-{max(seeds):.3f}",
                      f"{results.error(name, [HELD_OUT]):.3f}", step, results.follows(name)])
    return found


def page(content: dict, measured: dict, kernels: dict) -> str:
    """Returns the text of docs/Codes.md."""
    results = Results(content)
    numbers = {"chosen": CHOSEN, "torchao": TORCHAO, "bf16": PYTORCH_BF16, "eight": EIGHT,
               "itself": ITSELF, "closest": CLOSEST}
    head = HEAD.format(bits=results.bits(CHOSEN),
                       **{key: results.error(name) for key, name in numbers.items()})
    how = HOW.format(seeds=len(results.seeds), exact=results.largest(CHOSEN, "exact"),
                     date=content["machine"]["date"], commit=content["machine"]["commit"][:12])
    header = ["moments", "bits", "error", "seeds", "held out", "step", "follows"]
    return (head + how.lstrip("\n") + "\n" + table(header, rows(results)) + "\n"
            + times(measured, kernels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    options = parser.parse_args()
    content = json.loads((options.results / "codes.json").read_text())
    (options.docs / "Codes.md").write_text(page(content, load("cpu_step_few_bits"),
                                                load("instructions")["kernels"]))
    draw(Results(content), options.docs / PICTURE)


if __name__ == "__main__":
    main()
