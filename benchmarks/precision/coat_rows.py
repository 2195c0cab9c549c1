#===- coat_rows.py - Tables and figures of COAT ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the results of COAT, with the numbers as printed there.
#
#===----------------------------------------------------------------------===#
"""The rows of COAT (Xi et al. 2025) in docs/Papers.md."""

import functools
import math
import re
import statistics
from collections.abc import Callable

import tandem.torch
from margins import Cells, NotRun, difference, loss, margin
from paper_rows import (ENDS_NATS, ROOT, Found, Paper, Results, Row, by_margins, exact, of_study,
                        studied)

#: Tables 1 and 8: the mean squared error of m / sqrt(v), by storages of the first and second
#: moment.
MSE = {
    "E4M3": {"E4M3": 20.10, "E4M3+expand": 18.08, "E5M2": 25.65, "E5M2+expand": 18.16},
    "E4M3+expand": {"E4M3": 15.13, "E4M3+expand": 12.31, "E5M2": 21.96, "E5M2+expand": 12.43,
                    "DE8": 14.01, "DE8+expand": 18.84},
    "E5M2": {"E4M3": 37.02, "E4M3+expand": 35.96, "E5M2": 40.30, "E5M2+expand": 36.00},
    "E5M2+expand": {"E4M3": 17.79, "E4M3+expand": 15.48, "E5M2": 23.84, "E5M2+expand": 15.57},
    "DE8": {"E4M3": 12.11, "E4M3+expand": 8.27, "E5M2": 20.02, "E5M2+expand": 8.43, "DE8": 10.54,
            "DE8+expand": 16.25},
    "DE8+expand": {"E4M3": 11.57, "E4M3+expand": 7.47, "E5M2": 19.69, "E5M2+expand": 7.65,
                   "DE8": 9.91, "DE8+expand": 15.81},
}
#: The formats of table 1.
TABLE_1 = ("E4M3", "E4M3+expand", "E5M2", "E5M2+expand")
#: Table 2: U that a layer saves, as printed, by the recipe here. EAGER is the check's name of bf16.
TABLE_2 = {"EAGER": 22.66, "TE": 18.33, "COAT": 13.33}
#: Table 6: how many times fewer bytes COAT and Transformer Engine save than bf16, for all sizes.
TABLE_6 = {"coat": 1.65, "te-current": 1.20}
HIDDEN = (2048, 4096)
#: Table 7: the least ratio of the peaks of bf16 and of COAT.
LEAST_RATIO = 1.52
#: Table 7: the ratio for Llama-2-13B on 4 GPUs, and that model's configuration.
LLAMA_RATIO = 1.55
LLAMA_2_13B = {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40,
               "num_attention_heads": 40, "vocab_size": 32000, "max_position_embeddings": 4096,
               "model_type": "llama"}
#: Figure 2c, as section 4.2 describes it: the range of k by moment.
FIGURE_2C = {"first": (1, 3), "second": (5, 15)}
#: Figures 2a and 2b: the powers of ten that typical groups stay below, by moment.
SPANS = {"first": 4, "second": 1}
#: The remark on the second moment's ranges.
WIDER = " Groups span more here than in the paper, as the row on k says."
#: The test whose expected output has the sums of a layer's saved tensors.
SAVES = ROOT / "test/Dialect/Tandem/print-saves.mlir"


Pair = tuple[str, str]


def errors(results: Results) -> list[dict[str, dict[str, float]]]:
    """Returns the mean squared errors here, of the paper's pairs, by seed."""
    return [{first: {second: each["pairs"][first][second]["mse"] for second in row}
             for first, row in MSE.items()} for each in results["moments"]["seeds"].values()]


def factors(results: Results, one: Pair, other: Pair) -> list[float]:
    """Returns by seed how many times less error the second pair has than the first."""
    return [found[one[0]][one[1]] / found[other[0]][other[1]] for found in errors(results)]


def typical(factors: list[float]) -> float:
    return statistics.geometric_mean(factors)


def gain(one: Pair, other: Pair) -> Callable[[Results], Found]:
    """Returns the margin by which the second pair has less error than the first, or more if it has
    in the paper."""
    def find(results: Results) -> Found:
        found = factors(results, one, other)
        return by_margins([margin("log2", map(math.log2, found), below=paper_gain(one, other) < 1)],
                          f"{typical(found):.2f} times")
    return find


def paper_gain(one: tuple[str, str], other: tuple[str, str]) -> float:
    return MSE[one[0]][one[1]] / MSE[other[0]][other[1]]


def pairs_of(table: dict[str, dict[str, float]], formats: tuple[str, ...]) -> list[Pair]:
    return [(first, second) for first in formats for second in formats if second in table[first]]


def best(table: dict[str, dict[str, float]], formats: tuple[str, ...]) -> Pair:
    """Returns the pair of formats with the least error."""
    return min(pairs_of(table, formats), key=lambda pair: table[pair[0]][pair[1]])


def best_pair(formats: tuple[str, ...]) -> Callable[[Results], Found]:
    """Returns the margin by which the paper's best pair has less error than all others."""
    def find(results: Results) -> Found:
        papers = best(MSE, formats)
        others = [pair for pair in pairs_of(MSE, formats) if pair != papers]
        least = min(others, key=lambda pair: typical(factors(results, pair, papers)))
        found = factors(results, least, papers)
        ours = papers if typical(found) > 1 else least
        return by_margins([margin(f"log2 against {' and '.join(least)}", map(math.log2, found))],
                          " and ".join(ours))
    return find


def formats_alike(results: Results) -> Found:
    """Returns the margins by which the errors of expanded E4M3 and E5M2 in the second moment are
    within a tenth of each other."""
    ratios = factors(results, ("E4M3+expand", "E5M2+expand"), ("E4M3+expand",) * 2)
    return by_margins([margin("ratio", ratios, bound=1.1, below=True),
                       margin("ratio", ratios, bound=1 / 1.1)], f"{typical(ratios):.2f}")


def values_of_k(results: Results) -> list[dict[str, list[float]]]:
    """Returns the percentiles of k by moment, for each seed."""
    return [each["k"]["k"] for each in results["moments"]["seeds"].values()]


def larger_k(results: Results) -> Found:
    """Returns the margins by which k is larger in the second moment, at each percentile."""
    found = values_of_k(results)
    return by_margins((margin("second - first", [k["second"][at] - k["first"][at] for k in found])
                       for at in range(3)), shown(found[0]))


def range_of_k(results: Results) -> Found:
    """Returns the margins by which medians of k lie within the paper's ranges."""
    found = values_of_k(results)
    return by_margins((
        margin(f"{moment}: median", [k[moment][1] for k in found], bound=bound, below=below)
        for moment, bounds in FIGURE_2C.items() for bound, below in zip(bounds, (False, True))),
        shown(found[0]))


def groups_or_blocks(results: Results) -> Found:
    """Returns the margins by which blocks have more error than groups of as many elements."""
    found = [each["as trained"] for each in results["activations_scales"]["errors"].values()]
    shapes = list(found[0])
    pairs = list(zip(shapes[::2], shapes[1::2]))
    return by_margins(
        (margin(f"log2 of {block} / {group}", [math.log2(each[block] / each[group])
                                               for each in found]) for block, group in pairs),
        ", ".join(f"{block} {100 * statistics.fmean(each[block] for each in found):.2f} %, "
                  f"{group} {100 * statistics.fmean(each[group] for each in found):.2f} %"
                  for block, group in pairs))


def scaling_times(results: Results) -> Found:
    """Returns the margins by which just-in-time scaling takes longer than Group Scaling."""
    found = {(layer, isa): row for layer, isas in results["activations_scales"]["times"].items()
             for isa, row in isas.items()}
    ratios = {key: [slow / fast for slow, fast in zip(row["just in time"], row["Group Scaling"])]
              for key, row in found.items()}
    return by_margins(
        (margin(f"{layer}, {isa}: log2 of the ratio", map(math.log2, ratio))
         for (layer, isa), ratio in ratios.items()),
        ", ".join(f"{layer}, {isa} {statistics.median(ratio):.2f}" for (layer, isa), ratio
                  in ratios.items()) + " times as long")


def narrow(moment: str, most: int) -> Callable[[Results], Found]:
    """Returns the margin by which a moment's typical group spans less than a power of ten."""
    def find(results: Results) -> Found:
        cells = studied(results, "published").of("fp32")
        return by_margins([margin("log10", [cell[f"span_{moment}"] for cell in cells.values()],
                                  bound=most, below=True)])
    return find


def shown(k: dict[str, list[float]]) -> str:
    return "; ".join(f"{moment} {', '.join(f'{each:.2f}' for each in k[moment])}"
                     for moment in FIGURE_2C)


def saved_sums(text: str) -> dict[str, float]:
    """Returns the U of a layer's saved tensors that a test expects, by its checks' names."""
    return {name: float(total) for name, total in re.findall(
        r"^// (\w+): +total (\S+) \S+$", text, re.MULTILINE)}


def layer_sums(results: Results) -> Found:
    """Compares the sums of a layer's saved tensors with table 2, to its digits."""
    if not SAVES.exists():
        raise NotRun(SAVES.name)
    found = saved_sums(SAVES.read_text())
    same = all(abs(found[name] - total) < 0.01 for name, total in TABLE_2.items() if name in found)
    return exact(same and {"EAGER", "COAT"} <= set(found),
                 ", ".join(f"{found[name]:.2f}" for name in TABLE_2 if name in found))


def wide_layers(results: Results) -> dict[int, dict]:
    """Returns the measured layers of the paper's hidden sizes."""
    return {each["hidden"]: each for each in results["activations"]["layers"]
            if each["hidden"] in HIDDEN}


def saved_bytes(recipe: str) -> Callable[[Results], Found]:
    """Returns whether a recipe saves as many times fewer bytes than bf16 as in table 6."""
    def find(results: Results) -> Found:
        layers = {hidden: each["rows"] for hidden, each in wide_layers(results).items()}
        of = {base: [rows[base]["kept"] / rows[recipe]["kept"] for rows in layers.values()]
              for base in ("bf16 eager", "torch.compile")}
        units = "; ".join(f"{rows['bf16 eager']['kept']:.2f} U and {rows[recipe]['kept']:.2f} U"
                          for rows in layers.values())
        return exact(min(of["bf16 eager"]) >= TABLE_6[recipe],
                     "; ".join(f"{', '.join(f'{each:.2f}' for each in found)} times against {base}"
                               for base, found in of.items()) + f" ({units})")
    return find


def speed(results: Results) -> Found:
    """States the time of a layer on a CPU, which is not what table 6 has."""
    of = [1 / each["rows"]["coat"]["of"]["bf16 eager"] for each in wide_layers(results).values()]
    return Found("gpu", f"on a CPU, {', '.join(f'{each:.2f}' for each in of)} times")


#===------------------------------------------------------------------------===#
# The whole of COAT
#===------------------------------------------------------------------------===#


def as_good(variant: str) -> Callable[[Results], Found]:
    """Returns the margin by which the whole of COAT ends less than ENDS_NATS above bf16. The result
    is trivial if COAT does so without expansion too."""
    def find(results: Results) -> Found:
        cells = studied(results, "coat")
        found, without = (above_bf16(cells, name) for name in (variant, "COAT, not expanded"))
        outcome = by_margins([found], f"{without.mean:+.3f} without expansion")
        is_trivial = outcome.outcome == "holds" and without.slack > 0
        return Found("trivial", outcome.here, outcome.margins) if is_trivial else outcome
    return find


def above_bf16(cells: Cells, variant: str):
    return difference(cells, variant, "bf16", loss, bound=ENDS_NATS, below=True)


def less_memory(results: Results) -> Found:
    """Returns whether the bytes of a step are as many times fewer under COAT as in the paper."""
    cells = studied(results, "memory")
    [bf16], [coat] = (cells.of(name).values() for name in ("bf16", "COAT"))
    ratios = {kind: bf16[kind]["total"] / coat[kind]["total"] for kind in ("measured", "predicted")}
    return exact(ratios["measured"] >= LEAST_RATIO, f"{ratios['measured']:.2f} times; "
                 f"{ratios['predicted']:.2f} predicted, without what kernels take for a time")


@functools.cache
def predicted_gb() -> dict[str, float]:
    """Returns the GB that tandem.torch.memory predicts for a GPU of table 7's training, and for one
    under COAT whose products are in bf16."""
    return {name: tandem.torch.memory(LLAMA_2_13B, strategy, recipe, ranks=4, batch=1, length=2048,
                                      products=products).total / 1e9
            for name, strategy, recipe, products in (
                ("bf16", "master-weights", None, "bf16"), ("COAT", "coat", "coat-fp8", "fp8"),
                ("bf16 products", "coat", "coat", "bf16"))}


def llama(results: Results) -> Found:
    """Compares the predicted bytes of Llama-2-13B with the ratio of table 7."""
    found = predicted_gb()
    ratio, without = (found["bf16"] / found[name] for name in ("COAT", "bf16 products"))
    return exact(ratio >= LLAMA_RATIO, f"{found['bf16']:.1f} and {found['COAT']:.1f} GB, "
                 f"{ratio:.2f} times; {without:.2f} times with products in bf16")


#===------------------------------------------------------------------------===#
# Sizes and rows
#===------------------------------------------------------------------------===#


def moments_size(results: Results) -> str:
    """Describes the training whose moments are stored."""
    result = results["moments"]
    return (f"{result['parameters']:,} parameters, {result['steps']} steps, "
            f"{len(result['seeds'])} seeds")


def wide_size(results: Results) -> str:
    """Describes the models whose activations are stored in groups and blocks."""
    result = results["activations_scales"]
    return f"{result['width']:,} wide, {result['steps']} steps, {len(result['errors'])} seeds"


def scaled_size(results: Results) -> str:
    """Describes the tensors that scales are found for."""
    rows, columns = results["activations_scales"]["shape"]
    return f"{rows:,} x {columns:,}, one thread"


def layer_size(results: Results) -> str:
    """Describes the layers that were measured."""
    layers = wide_layers(results)
    return (f"one layer {' and '.join(f'{hidden:,}' for hidden in layers)} wide, "
            f"{' and '.join(sorted({str(each['tokens']) for each in layers.values()}))} tokens")


def measured_size(results: Results) -> str:
    """Describes the model whose bytes are measured."""
    setting = results["precision/memory"]["setting"]
    shape = setting["shape"]
    return (f"{shape['width']} wide, {shape['layers']} layers, {setting['batch']} sequences of "
            f"{shape['context']} characters")


MOMENTS = {"command": "`scripts/quality.sh`", "size": moments_size}
LAYER = {"command": "`scripts/activations.sh`", "size": layer_size}
BOTH, NONE = ("E4M3+expand",) * 2, ("E4M3",) * 2

ROWS = (
    Row(("table 1",), "Expansion of both moments lowers the error of E4M3.",
        f"{paper_gain(NONE, BOTH):.2f} times", gain(NONE, BOTH), **MOMENTS,
        remark="The factor is not the paper's. Most of the difference is the first moment's, and "
        "its reason is not known."),
    Row(("table 1",), "For the first moment E4M3 is better than E5M2.",
        f"{paper_gain(('E5M2', 'E4M3'), NONE):.2f} times", gain(("E5M2", "E4M3"), NONE), **MOMENTS),
    Row(("table 1",), "For the second moment, expanded E5M2 is about as good as expanded E4M3.",
        f"ratio {MSE['E4M3+expand']['E5M2+expand'] / MSE['E4M3+expand']['E4M3+expand']:.2f}",
        formats_alike, **MOMENTS),
    Row(("table 1",), "The best pair is expanded E4M3 for both moments.",
        " and ".join(best(MSE, TABLE_1)), best_pair(TABLE_1), **MOMENTS,
        remark="Expanded E5M2 is slightly better for second moments here, whose groups span more "
        "binades than the paper's (figure 2c)."),
    Row(("table 8",), "The best pair of all is expanded DE8 and expanded E4M3.",
        " and ".join(best(MSE, tuple(MSE))), best_pair(tuple(MSE)), **MOMENTS,
        remark="As above, E5M2 takes the place of E4M3."),
    Row(("table 8",), "Expansion lowers the error of DE8 in the first moment.",
        f"{paper_gain(('DE8', 'E4M3+expand'), ('DE8+expand', 'E4M3+expand')):.2f} times",
        gain(("DE8", "E4M3+expand"), ("DE8+expand", "E4M3+expand")), **MOMENTS),
    Row(("table 8",), "Expansion does not help DE8 in the second moment.",
        f"{paper_gain(('E4M3+expand', 'DE8'), ('E4M3+expand', 'DE8+expand')):.2f} times",
        gain(("E4M3+expand", "DE8"), ("E4M3+expand", "DE8+expand")), **MOMENTS),
    Row(("figure 2c",), "The second moment has larger k than the first.", "1 to 3, and 5 to 15",
        larger_k, **MOMENTS, remark="The numbers here are the 5th, 50th and 95th percentile."),
    Row(("figure 2c",), "k is 1 to 3 in the first moment and 5 to 15 in the second.",
        "1 to 3, and 5 to 15", range_of_k, **MOMENTS,
        remark="The medians decide. A smaller k means that a group spans more."),
    *(Row(("figure 2a", "figure 2b", "figure 3", "figure 9"),
          f"A typical group of the {moment} moment spans less than 1e{most}, where E4M3 spans 2e5.",
          "plots, which say below 1e4 and 1e1", narrow(moment, most), **of_study("published"),
          remark="These are medians over groups of 128, at the end of a run in f32."
          + WIDER * (moment == "second"))
      for moment, most in SPANS.items()),
    Row(("table 2",), "A layer saves these units U under bf16, Transformer Engine and COAT.",
        "22.66, 18.33, 13.33", layer_sums,
        command="`tandem-opt -tandem-print-saves`", size="`examples/llama/layer.mlir`",
        remark="Without scales, as in the table."),
    Row(("table 6", "table 2"), "COAT saves 1.65 times fewer bytes than bf16, or more.", "1.65 "
        "times",
        saved_bytes("coat"), **LAYER,
        remark="The tensors that autograd holds are not quite those that table 2 counts, and "
        "torch.compile holds fewer of them."),
    Row(("table 6", "table 2"), "Transformer Engine's storages save 1.20 times fewer bytes than "
        "bf16, or more.", "1.20 times", saved_bytes("te-current"), **LAYER,
        remark="This is Tandem's recipe `te-current`, not Transformer Engine itself."),
    Row(("table 6",), "A layer is up to 1.57 times as fast as in bf16.", "1.57 times", speed,
        **LAYER, remark="A CPU has no FP8 products."),
    Row(("figure 4a",), "With as many elements in a scale, groups along a token have less error "
        "than blocks.", "a plot of BxB against 1xB^2", groups_or_blocks,
        command="`benchmarks/activations/scales.py`", size=wide_size,
        remark="It holds for 16 and for 64 elements, and for 1,024 there is no difference. These are "
        "inputs of norms. [Outliers](Activations.md#groups-blocks-and-outliers) in a few tokens "
        "cost groups less, those in a few channels cost blocks less."),
    Row(("figure 4b",), "Group scaling, a maximum in two stages, takes less time than just-in-time "
        "scaling.", "a plot, without numbers", scaling_times,
        command="`benchmarks/activations/scales.py`", size=scaled_size,
        remark="The first stage is fused into the layer. It holds for RMSNorm, and for SwiGLU only "
        "with AVX-512: a CPU takes long for SwiGLU's exponentials, and as long for magnitudes as for "
        "reading the result again. "
        "[Activations](Activations.md#when-the-largest-magnitude-is-found) has the times of other "
        "ways."),
    Row(("figure 5",), f"OLMo-1B's loss under COAT is bf16's (here: less than {ENDS_NATS:g} nats "
        "above it).", "3.008 and 2.995 (table 3)", as_good("COAT, as published"),
        **of_study("coat"),
        remark="This is all of COAT at once, as published: optimizer, stored activations, FP8 "
        "products, and codes between layers. The result shows little if COAT without expansion "
        "ends within the bound, too."),
    Row(("table 7",), f"A step of a training takes {LEAST_RATIO:g} times fewer bytes at its peak, or "
        "more.", "Llama-2-7B and Llama-2-13B: 1.52 to 1.55 times", less_memory,
        command="`scripts/papers.sh memory`", size=measured_size, study="memory",
        remark="These are bytes of PyTorch's allocator on a CPU. The ratio depends on the number of "
        "tokens."),
    Row(("table 3", "figure 6"), "OLMo-1B and OLMo-7B are as good under COAT as under bf16.",
        "perplexity 25.391 and 25.290 (1B)", missing="large"),
    Row(("table 4",), "Llama-2-7B fine-tuned on mathematics is as good.", "55.5 and 55.7 on "
        "average",
        missing="large"),
    Row(("table 5", "figure 7", "figure 8"), "VILA1.5-7B is as good.", "62.51 and 62.80 on average",
        missing="large"),
    Row(("table 7",), f"By its shapes, Llama-2-13B on 4 GPUs takes {LLAMA_RATIO:g} times fewer "
        "bytes, or more.", "76.1 and 49.1 GB, 1.55 times", llama, command="`papers_page.py`",
        size="one sequence of 2,048 tokens",
        remark="`tandem.torch.memory` predicts these bytes. Our FP8 products save the codes of "
        "weights for the backward pass, one byte for each parameter, and not only for those of "
        "a rank."),
    Row(("table 7", "figure 1c"), "On GPUs, trainings take up to 1.55 times less memory, and are up "
        "to 1.44 times as fast.", "Llama-2-13B on 4 GPUs: 49.1 and 76.1 GB", missing="gpu"),
)

COAT = Paper(
    "COAT",
    "*COAT* (Xi et al. 2025) stores optimizer states and activations in FP8, after it has "
    "expanded the range of the states, and claims the losses of bf16 in less memory. The "
    "measurements are those of [Quality](Quality.md#moments-in-8-bits), [Activations](Activations.md), "
    "[Layers](Layers.md#how-much-is-saved) and [a study](#the-whole-of-coat).",
    ROWS, "Figures 1a and 1b show the flow of a layer.")
