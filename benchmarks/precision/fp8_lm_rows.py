#===- fp8_lm_rows.py - Tables and figures of FP8-LM ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the results of FP8-LM, with the numbers as printed there.
#
#===----------------------------------------------------------------------===#
"""The rows of FP8-LM (Peng et al. 2023) in docs/Papers.md."""

import functools
import math
import statistics
from collections.abc import Callable

import tandem.torch
import torch
from margins import Cells, difference, loss, margin
from paper_rows import (ENDS_NATS, RATES, Found, Paper, Results, Row, by_margins, exact, of_study,
                        quality, share_of_worst, studied, validation)

#: Tables 1 and 5: width, layers, and the sizes of tensor, pipeline and data parallelism, with
#: the sequences of a micro batch. The sequence length is that of section 3.1.
MODELS = {"GPT-7B": (4096, 32, 1, 1, 32, 2), "GPT-13B": (5120, 40, 2, 1, 16, 2),
          "GPT-175B": (12288, 96, 8, 4, 4, 1)}
LENGTH = 2048
#: Table 5: GB of weights and their gradients that a GPU sends, in bf16 and in FP8.
TABLE_5 = {"GPT-7B": (37.2, 13.9), "GPT-13B": (34.3, 12.4), "GPT-175B": (23.4, 8.2)}
#: Table 7: GB of activations that a GPU sends, in bf16 and in FP8.
TABLE_7 = {"GPT-13B": (4.7, 3.1), "GPT-175B": (5.9, 3.9)}
#: Table 9: the largest, the smallest normal and the smallest subnormal number, as printed.
TABLE_9 = {"float32": (3.40e38, 1.18e-38, 1.40e-45), "float16": (65504, 6.10e-5, 5.96e-8),
           "bfloat16": (3.39e38, 1.18e-38, 9.18e-41), "float8_e4m3fn": (448, 1.56e-2, 1.95e-3),
           "float8_e5m2": (57344, 6.10e-5, 1.53e-5)}
#: The names of table 6's rows in the study.
ROW_0, ROW_1, ROW_2, ROW_3, ROW_4 = (
    "f32 (#0)", "bf16 (#1)", "FP8 (#2)", "FP8 weight (#3)", "FP8 moments (#4)")
LEVELS = ("O1", "O2", "O3, two ranks")
#: Figure 1: the bytes of a GPU, numbers of GPUs, a decoder without its number of layers, and the
#: strategy, the recipe and the products of a precision.
GPU_BYTES, GPUS = 80e9, (8, 32, 128)
DECODER = {"hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 22016,
           "max_position_embeddings": 2048, "vocab_size": 51200, "model_type": "llama"}
PRECISIONS = {"bf16": ("master-weights", None, "bf16"), "FP8": ("fp8-lm", "te-current", "fp8"),
              "FP8, bf16 products": ("fp8-lm", "te-current", "bf16")}
#: A saving agrees with the paper's if it is at most this far from it.
SAVING = 0.05
#: A run counts as diverged if it ends this many nats above that of row #2.
LOST = 1.0
GIB = 2.0**30


def weight_traffic(results: Results) -> Found:
    """Compares the share of weight-related communication that 8 bits save with table 5."""
    counted, formulas = (results["distributed/bytes"][key] for key in ("counted", "formulas"))
    ours, theirs = [], []
    for name, (plain, coded) in TABLE_5.items():
        ranks = MODELS[name][4]
        sent = sum(max(each["sent"]) for kind in ("fp8_all_gather", "FP8ReduceScatter")
                   for each in counted[kind] if each["ranks"] == ranks)
        formula = formulas[str(ranks)]
        ours.append(1 - sent / (formula["bf16 all-gather"] + formula["f32 ring"] / 2))
        theirs.append(1 - coded / plain)
    return exact(all(abs(a - b) <= SAVING for a, b in zip(ours, theirs)),
                 ", ".join(f"{share:.0%}" for share in ours))


def gradient_traffic(results: Results) -> Found:
    """Compares the bytes of a sum of gradients in codes with those in f32."""
    result = results["distributed/bytes"]
    shares = {each["ranks"]: 1 - max(each["sent"])
              / result["formulas"][str(each["ranks"])]["f32 ring"]
              for each in result["counted"]["GradientAllReduce, fp8-lm"]}
    return exact(all(abs(share - 0.75) <= SAVING for share in shares.values()),
                 f"{min(shares.values()):.1%} to {max(shares.values()):.1%}")


#===------------------------------------------------------------------------===#
# Losses
#===------------------------------------------------------------------------===#


def diverges(results: Results) -> Found:
    """Returns the margin of the share of runs of row #4 that end far above those of row #2."""
    pairs = studied(results, "fp8-lm").pairs(ROW_4, ROW_2)
    far = [float(loss(one) > loss(other) + LOST) for one, other in pairs]
    return by_margins([margin("share of runs", far)], f"{sum(far):g} of {len(far)} runs, "
                      f"{excesses(studied(results, 'fp8-lm'), (ROW_4,), ROW_2)}; at a beta2 of "
                      f"0.999 {in_quality(results)}")


def in_quality(results: Results) -> str:
    """States how many of the runs of docs/Quality.md diverge."""
    cells = quality(results)
    far = [validation(one) > validation(other) + LOST for lr in RATES
           for one, other in cells.pairs("fp8-lm-published-fp8-moments", "fp8-lm-published", lr)]
    return f"{sum(far)} of {len(far)} runs of [Quality](Quality.md#training) diverge"


def end_where(names: tuple[str, ...], reference: str) -> Callable[[Results], Found]:
    """Returns the margins by which variants lose less than a tenth of what an FP8 weight loses,
    both above a reference."""
    def find(results: Results) -> Found:
        cells = studied(results, "fp8-lm")
        return by_margins((share_of_worst(cells, name, reference, ROW_3) for name in names),
                          excesses(cells, names, reference))
    return find


def coincide(results: Results) -> Found:
    """Returns the margins by which the levels end less than ENDS_NATS above bf16."""
    cells = studied(results, "fp8-lm-long")
    return by_margins((difference(cells, name, ROW_1, loss, bound=ENDS_NATS, below=True)
                       for name in LEVELS), excesses(cells, LEVELS, ROW_1))


def excesses(cells: Cells, names: tuple[str, ...], reference: str) -> str:
    """States the mean excess of variants in nats."""
    means = {name: statistics.fmean(loss(one) - loss(other)
                                    for one, other in cells.pairs(name, reference))
             for name in names}
    return ", ".join(f"{name} {mean:+.4f}" for name, mean in means.items()) + (
        f" nats above {reference}")


def fewer_zeros(results: Results) -> Found:
    """Returns the margin by which a larger share of gradients becomes zero without a scale."""
    cells = studied(results, "published").of("fp32").values()
    means = [statistics.fmean(cell[name] for cell in cells) for name in ("zeros", "zeros_scaled")]
    return by_margins([margin("share without - with", [
        cell["zeros"] - cell["zeros_scaled"] for cell in cells])],
        f"{means[0]:.1%} without, {means[1]:.1%} with a scale")


def weight_costs(results: Results) -> Found:
    """Returns the margin by which an FP8 weight ends above an f16 weight."""
    return by_margins([difference(studied(results, "fp8-lm"), ROW_3, ROW_2, loss)])


#===------------------------------------------------------------------------===#
# Figure 1
#===------------------------------------------------------------------------===#


def billions(ranks: int, *settings: str | None) -> float:
    """Returns the largest number of parameters that GPUs of 80 GB train under fully_shard, from
    the bytes of models with one and with two layers."""
    strategy, recipe, products = settings
    one, two = (tandem.torch.memory(
        DECODER | {"num_hidden_layers": layers}, strategy, recipe, ranks=ranks, length=LENGTH,
        products=products) for layers in (1, 2))
    layers = (GPU_BYTES - one.total) / (two.total - one.total)
    return (one.parameters + layers * (two.parameters - one.parameters)) / 1e9


@functools.cache
def largest_models() -> dict[str, list[float]]:
    """Returns the billions of parameters of the largest models by precision, for each number of
    GPUs."""
    return {name: [billions(gpus, *settings) for gpus in GPUS]
            for name, settings in PRECISIONS.items()}


def larger_models(results: Results) -> Found:
    """Returns whether FP8 trains larger models than bf16 for each number of GPUs."""
    found = largest_models()
    rows = zip(GPUS, found["FP8"], found["bf16"])
    return exact(all(a > b for a, b in zip(found["FP8"], found["bf16"])), "; ".join(
        f"{gpus} GPUs: {ours:.0f} and {plain:.0f} billion" for gpus, ours, plain in rows)
        + "; with products in bf16 "
        + ", ".join(f"{each:.0f}" for each in found["FP8, bf16 products"]))


#===------------------------------------------------------------------------===#
# Table 7
#===------------------------------------------------------------------------===#


def sent_gib(name: str, widths: tuple[int, ...]) -> float:
    """Returns the GiB of a micro batch's activations that a GPU sends, by the bytes per element of
    each collective in a layer. A ring sends (N - 1) / N of a tensor."""
    width, layers, tensor, pipeline, _, sequences = MODELS[name]
    elements = sequences * LENGTH * width * (tensor - 1) / tensor
    return elements * layers / pipeline * sum(widths) / GIB


#: The collectives of a layer: two all-gathers of activations in the forward pass, the same again in
#: the backward pass, and two reduce-scatters of gradients.
PLAIN, GATHERED_IN_8_BITS = (2,) * 6, (1,) * 4 + (2,) * 2


def by_shapes(results: Results) -> Found:
    """Returns whether six collectives, four of them in 8 bits, give table 7 to its digits."""
    found = {name: tuple(sent_gib(name, widths) for widths in (PLAIN, GATHERED_IN_8_BITS))
             for name in TABLE_7}
    same = all(math.isclose(ours, theirs, abs_tol=0.05)
               for name in TABLE_7 for ours, theirs in zip(found[name], TABLE_7[name]))
    return exact(same, "; ".join(f"{name} {a:.2f}, {b:.2f} GiB" for name, (a, b) in found.items()))


def activation_ratio(results: Results) -> Found:
    """Compares the ratio of bytes in codes to those in bf16 with table 7."""
    ranks = results["distributed/parallel_bytes"]["ranks"]
    ratios = {n: gathered(each["codes"]) / gathered(each["bf16"]) for n, each in ranks.items()}
    paper = [coded / plain for plain, coded in TABLE_7.values()]
    return exact(all(abs(ratio - share) <= SAVING for ratio in ratios.values() for share in paper),
                 ", ".join(f"{ratio:.2f} on {n} ranks" for n, ratio in ratios.items()))


def gathered(counts: dict) -> float:
    """Returns the bytes of all-gathers of activations and of reduce-scatters of their gradients."""
    backward = counts["backward"]
    return (counts["forward"]["all-gather"]
            + backward.get("reduce-scatter", backward.get("all-to-all", 0.0)))


#===------------------------------------------------------------------------===#
# Sums of gradients, balance and formats
#===------------------------------------------------------------------------===#


SCALINGS = ("pre-scaling", "post-scaling", "automatic")


def scheme(results: Results, name: str, figure: str) -> list[float]:
    """Returns a figure of a scheme for the most simulated ranks, by seed."""
    found = [each[name] for each in results["gradient_sum"]["seeds"].values()]
    return [by_ranks[max(by_ranks, key=int)][figure] for by_ranks in found]


def rates_of(figure: str, largest: str) -> Callable[[Results], Found]:
    """Returns the margins by which a scheme has the largest rate of the three."""
    def find(results: Results) -> Found:
        found = {name: scheme(results, name, figure) for name in SCALINGS}
        return by_margins(
            (margin(f"{largest} - {name}", [100 * (a - b) for a, b in zip(found[largest], rates)])
             for name, rates in found.items() if name != largest),
            ", ".join(f"{name} {statistics.fmean(rates):.3%}" for name, rates in found.items()))
    return find


def automatic_gain(results: Results) -> Found:
    """Returns the margin by which automatic scaling has more signal to noise than pre-scaling."""
    gain = [a - b for a, b in zip(scheme(results, "automatic", "snr"),
                                  scheme(results, "pre-scaling", "snr"))]
    noise = results["distributed/noise"]["rows"]
    gains = [a["snr_db"] - b["snr_db"] for rows in noise.values() for a in rows for b in rows
             if a["scaling"] == "automatic" and b["scaling"] == "pre-scaling"
             and (a["ranks"], a["order"]) == (b["ranks"], b["order"])]
    return by_margins([margin("dB", gain, bound=1.0)],
                      f"in the smaller model {min(gains):+.1f} to {max(gains):+.1f} dB")


def balance(results: Results) -> Found:
    """Returns whether ranks' states differ by no more than the GPUs' memory in table 8."""
    result = results["distributed/zero_balance"]
    ours = {name: (each["fp8-lm"]["greedy"]["max"] - each["fp8-lm"]["greedy"]["min"]) / 1e9
            for name, each in result["models"].items()}
    theirs = {name: most - least for name, (least, most) in result["paper_gb"].items()}
    return exact(all(ours[name] <= theirs[name] for name in ours),
                 ", ".join(f"{name} {gap:.2f}" for name, gap in ours.items()))


def subnormal(info: torch.finfo) -> float:
    """Returns the smallest positive number of a format."""
    return info.smallest_normal * info.eps


def ranges(results: Results) -> Found:
    """Compares the ranges of formats with table 9, to its three digits."""
    infos = {name: torch.finfo(getattr(torch, name)) for name in TABLE_9}
    wrong = [name for name, printed in TABLE_9.items()
             if not all(math.isclose(ours, theirs, rel_tol=5e-3) for ours, theirs in zip(
                 (infos[name].max, infos[name].smallest_normal, subnormal(infos[name])), printed))]
    return exact(not wrong, "differ: " + ", ".join(wrong) if wrong else "the same", trivial=True)


def sum_size(results: Results) -> str:
    """Describes the simulated sums of gradients."""
    result = results["gradient_sum"]
    return (f"{result['parameters']:,} gradients, {max(map(int, result['schemes']['automatic']))} "
            f"simulated ranks, {len(result['seeds'])} seeds")


def both_sums(results: Results) -> str:
    """Describes the sums of both studies."""
    noise = results["distributed/noise"]
    ranks = sorted({row["ranks"] for rows in noise["rows"].values() for row in rows})
    return (f"{sum_size(results)}; {noise['parameters']:,} gradients, {ranks[0]} to {ranks[-1]} "
            "ranks, 1 run")


def bytes_size(results: Results) -> str:
    """Describes the model whose bytes are counted."""
    result = results["distributed/bytes"]
    ranks = [each["ranks"] for each in result["counted"]["GradientAllReduce, fp8-lm"]]
    return f"{result['parameters']:,} parameters, {min(ranks)} to {max(ranks)} ranks"


def parallel_size(results: Results) -> str:
    """Describes the layer whose bytes are counted."""
    result = results["distributed/parallel_bytes"]
    return f"one layer {result['layer']['width']} wide, {' and '.join(result['ranks'])} ranks"


NOISE = {"command": "`scripts/quality.sh`", "size": sum_size}
COUNT = {"command": "`benchmarks/distributed/bytes.py`", "size": bytes_size}

ROWS = (
    Row(("table 5",), "8 bits save most of the communication of weights and their gradients.",
        "63 %, 64 %, 65 %", weight_traffic, **COUNT,
        remark="A saving within five points of the paper's reproduces it. The baseline here has "
        "bf16 weights and f32 gradients, as the paper says."),
    Row(("table 5",), "A sum of gradients in 8 bits saves 75 % of the bytes of one in f32.",
        "75 % in theory (section 3.2.2)", gradient_traffic, **COUNT),
    Row(("table 5",), "FP8 saves memory and time.", "GPT-175B: 42 % less memory, 64 % faster",
        missing="gpu"),
    Row(("table 6", "figure 8"), "An f16 master weight with a scale, an FP8 first and an f16 "
        "second moment (#2) lose less than a tenth of what an FP8 master weight (#3) loses, above "
        "f32 (#0).",
        "a plot, in which #0, #1 and #2 coincide", end_where((ROW_2,), ROW_0),
        **of_study("fp8-lm")),
    Row(("table 6", "figure 8"), "An FP8 master weight (#3) ends above #2.",
        "a plot, without numbers", weight_costs, **of_study("fp8-lm"),
        remark="Most updates are lost."),
    Row(("table 6", "figure 8"), "An FP8 second moment (#4) diverges.", "one run, which diverges",
        diverges, **of_study("fp8-lm"), remark=f"A run counts if it ends more than {LOST:g} nat "
        "above that of #2, or without a finite loss. It ends above #2, but learns. beta2 is "
        "0.95 here, as in the paper; the runs of Quality also have products in f32 and other "
        "rates, and which of these matters was not examined."),
    Row(("table 6", "figure 8"), "bf16 products with f32 states (#1) end where f32 (#0) does.",
        "a plot, in which they coincide", end_where((ROW_1,), ROW_0), **of_study("fp8-lm"),
        remark="The criterion is that of #2."),
    Row(("table 7",), "8 bits save a third of the communication of activations.",
        "ratios 0.66, 0.66", activation_ratio,
        command="`benchmarks/distributed/parallel_bytes.py`",
        size=parallel_size,
        remark="All our collectives send codes, so that they save half; the next row shows how a "
        "third comes about."),
    Row(("table 7",), "The volumes follow from shapes, if four all-gathers of six collectives in "
        "a layer are in 8 bits.",
        "; ".join(f"{name} {a}, {b} GB" for name, (a, b) in TABLE_7.items()), by_shapes,
        command="`papers_page.py`", size="the paper's shapes",
        remark="The six are two all-gathers, which the backward pass repeats, and two "
        "reduce-scatters of gradients, which would stay in 16 bits. The paper does not state "
        "this: we chose it because it gives all four volumes."),
    Row(("table 8",), "ZeRO with whole tensors leaves ranks balanced: their states differ by no "
        "more than the paper's GPUs.", "difference in GB: GPT-7B 1.46, GPT-13B 0.88, GPT-175B 0.42",
        balance, command="`benchmarks/distributed/zero_balance.py`", size="the paper's shapes",
        remark="The paper has the memory of whole GPUs, with activations; we count only states."),
    Row(("table 8",), "FP8 takes less memory than bf16 on all GPUs.",
        "GPT-7B: 50.77 and 69.59 GB at most", missing="gpu"),
    Row(("figure 7",), "Pre-scaling has the most underflow.", "a plot, without numbers",
        rates_of("underflow", "pre-scaling"), **NOISE),
    Row(("figure 7",), "Post-scaling has the most overflow.", "a plot, without numbers",
        rates_of("overflow", "post-scaling"), **NOISE),
    Row(("figure 7",), "Automatic scaling has much more signal to noise than pre-scaling (here: "
        "more than 1 dB).",
        "a plot, without numbers", automatic_gain, command="`scripts/quality.sh`, "
        "`benchmarks/distributed/noise.py`",
        size=both_sums,
        remark="Codes are floats, so that few values underflow with any factor, and the noise is "
        "that of rounding."),
    Row(("figure 1",), "FP8 trains larger models on the same GPUs than bf16.",
        "a plot for clusters of 80 GB GPUs", larger_models, command="`papers_page.py`",
        size="a decoder 8,192 wide, one sequence of 2,048 tokens on a GPU, `fully_shard`",
        remark="`tandem.torch.memory` predicts these. A parameter takes 6 bytes instead of 16, but our "
        "FP8 products save the codes of whole weights for the backward pass, which `fully_shard` "
        "does not divide."),
    Row(("figure 4",), "The losses of FP8 and bf16 almost coincide (here: they are less than "
        f"{ENDS_NATS:g} nats apart).", "plots of 7B to 175B parameters", coincide,
        **of_study("fp8-lm-long"),
        remark="These are the levels O1 to O3 of `tandem.torch.fp8_lm`, O3 on two ranks. O2 and O3 "
        "end within the bound; O1 differs too much between three seeds to show it. In the "
        "study of 1,500 steps an FP8 weight (#3) ends far above bf16."),
    Row(("figure 9",), "A scale moves gradients into the range of FP8: fewer become zero.",
        "a drawing", fewer_zeros, **of_study("published"),
        remark="These are shares of the gradients at the end of a run in f32, with a power of two "
        "as each tensor's scale."),
    Row(("table 2",), "Zero-shot results of FP8 are close to bf16's.", "GPT-7B: 58.0 and 58.4 on "
        "average",
        missing="large"),
    Row(("table 3", "figure 5"), "Fine-tuned in FP8, LLaMA-7B is as good as in bf16.",
        "AlpacaEval 67.20 and 66.15", missing="large"),
    Row(("table 4", "figure 6"), "Aligned by reinforcement learning in FP8, a model is as good "
        "as in bf16.", "AlpacaEval 72.42 and 72.05; 62.5 % less memory of states", missing="large"),
    Row(("table 9",), "Formats have these ranges.", "E4M3: 448, 1.56e-2, 1.95e-3; and others",
        ranges, command="`papers_page.py`", size="5 formats", remark="The formats' definitions say so."),
)

FP8_LM = Paper(
    "FP8-LM",
    "*FP8-LM* (Peng et al. 2023) has gradients, optimizer states and communication in 8 bits, "
    "and claims that models train as in bf16, with less memory and traffic. The measurements "
    "are those of [a study](#fp8-lms-levels-and-its-table-6-as-published), of [sums of gradients](Quality.md#sums-of-gradients-in-e4m3) and of "
    "[Distributed](Distributed.md#sums-of-gradients-in-8-bits).",
    ROWS, "The rows of table 6 are in their published forms, with nearest rounding, where the "
    "library's `fp8-lm` is dithered. Tables 1 and 10 "
    "list settings, and figures 2 and 3 show how tensors are divided.")
