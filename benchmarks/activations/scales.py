#===- scales.py - Shapes of groups, and when scales are found --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares groups of a token with square blocks of as many elements, and the ways to find
# the scale of a tensor that a layer produces.
#
#===----------------------------------------------------------------------===#
"""Repeats COAT's figure 4.

4a: the error of E4M3 activations whose scale belongs to a block of B x B elements, or to B * B
elements of one token. The activations are the inputs of the norms of a model 1,024 wide, as trained
and with outliers.

4b: the time of a layer whose result is stored in E4M3 with a scale for the tensor, by the way in
which the largest magnitude is found.
"""

import argparse
import pathlib
import re
import statistics
import sys

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/activations"), str(ROOT / "benchmarks"),
                str(ROOT / "benchmarks/quality"), str(ROOT / "examples")]
import common  # noqa: E402
import granularity  # noqa: E402
import tandem  # noqa: E402
from granularity import BF16, CODE, Kernel, source  # noqa: E402
from language_model import data  # noqa: E402
from language_model import model as demo  # noqa: E402
from round_trip import round_trip, scaled  # noqa: E402

WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 1024, 2, 8, 128, 4
#: The sides B of blocks.
SIDES = (4, 8, 32)
#: The number of channels, and the share of tokens (one in TOKENS), that are FACTOR times as large.
CHANNELS, TOKENS, FACTOR = 6, 64, 1000.0
ISAS = ("native", "x86-64-v3")
PRODUCERS = ("swiglu", "rms_norm")
SIZE = (2048, 4096)

#===------------------------------------------------------------------------===#
# Figure 4a
#===------------------------------------------------------------------------===#


def in_blocks(x: np.ndarray, side: int) -> np.ndarray:
    """Returns a matrix with the elements of each block next to each other, a block in each row."""
    rows, columns = x.shape
    parts = x.reshape(rows // side, side, columns // side, side)
    return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(-1, side * side)


def from_blocks(blocks: np.ndarray, side: int, shape: tuple[int, int]) -> np.ndarray:
    """Undoes :func:`in_blocks`."""
    rows, columns = shape
    parts = blocks.reshape(rows // side, columns // side, side, side)
    return parts.swapaxes(1, 2).reshape(shape)


def stored(groups: np.ndarray) -> np.ndarray:
    """Returns a matrix, whose rows have a scale each, after it is stored in E4M3."""
    return round_trip(scaled(CODE, "row", "f32"), groups).reshape(groups.shape)


def errors(x: np.ndarray, factors: np.ndarray) -> dict[str, float]:
    """Returns the errors of a tensor by the shape of its groups, relative to its root mean square.
    The tensor is multiplied by factors before it is stored, and divided by them afterwards, as the
    weights of the next layer would do."""
    wide = x * factors
    found = {}
    for side in SIDES:
        block = from_blocks(stored(in_blocks(wide, side)), side, x.shape)
        group = stored(wide.reshape(-1, side * side)).reshape(x.shape)
        found |= {f"{side}x{side}": lost(block / factors, x),
                  f"1x{side * side}": lost(group / factors, x)}
    return found


def lost(found: np.ndarray, x: np.ndarray) -> float:
    error = np.square(found.astype(np.float64) - x).mean()
    return float((error / np.square(x.astype(np.float64)).mean()) ** 0.5)


def outliers(shape: tuple[int, int], seed: int) -> dict[str, np.ndarray]:
    """Returns the factors of each kind of outlier."""
    rng = np.random.default_rng(seed)
    channels, tokens = (np.ones((1, shape[1]), np.float32), np.ones((shape[0], 1), np.float32))
    channels[0, rng.choice(shape[1], CHANNELS, replace=False)] = FACTOR
    tokens[rng.choice(shape[0], max(1, shape[0] // TOKENS), replace=False)] = FACTOR
    return {"as trained": np.ones((1, 1), np.float32), "outlier channels": channels,
            "outlier tokens": tokens}


def train(seed: int, steps: int, width: int) -> tuple[demo.Transformer, data.Corpus]:
    """Trains the demo's model at a width."""
    corpus = data.load_corpus()
    model = demo.make_model(len(corpus.vocabulary),
                            demo.ModelShape(width, LAYERS, HEADS, CONTEXT), seed, torch.float32)
    optimizer = tandem.torch.AdamW(model.parameters(), lr=3e-4, strategy="fp32")
    for step, batch in enumerate(data.batches(corpus.train, steps, BATCH, CONTEXT, seed)):
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        optimizer.step()
        if step % 20 == 19 or step + 1 == steps:
            print(f"seed {seed}, step {step + 1} of {steps}: loss {loss.item():.3f}", flush=True)
    return model, corpus


def by_shape(seed: int, steps: int, width: int = WIDTH) -> dict[str, dict[str, float]]:
    """Trains a model; returns the errors of its norms' inputs, by kind of outlier."""
    model, corpus = train(seed, steps, width)
    batch = next(data.batches(corpus.validation, 1, BATCH, CONTEXT, seed))
    kept = granularity.activations(model, batch)["norms"]
    found = {}
    for x in kept:
        for kind, factors in outliers(x.shape, seed).items():
            for shape, error in errors(x, factors).items():
                found.setdefault(kind, {}).setdefault(shape, []).append(error)
    return {kind: {shape: statistics.fmean(each) for shape, each in row.items()}
            for kind, row in found.items()}


#===------------------------------------------------------------------------===#
# Figure 4b
#===------------------------------------------------------------------------===#


def forward(layer: str) -> str:
    """Returns the forward pass of a layer of the library, without what it saves."""
    text = source(layer)
    end = text.index("\n}\n") + 3
    return re.sub(r"  tandem\.save .*\n", "", text[:end])


_MAXIMA = """\
  %largest_rows = arith.constant 0 : index
  %largest_count = tensor.dim %new_y, %largest_rows : tensor<?x?xf32>
  %lowest = arith.constant 0xFF800000 : f32
  %largest_empty = tensor.empty(%largest_count) : tensor<?xf32>
  %least = linalg.fill ins(%lowest : f32) outs(%largest_empty : tensor<?xf32>) -> tensor<?xf32>
  %size = math.absf %new_y : tensor<?x?xf32>
  %new_largest = linalg.reduce { arith.maximumf } ins(%size : tensor<?x?xf32>) outs(%least : tensor<?xf32>) dimensions = [1]
  return %new_y, %new_largest : tensor<?x?xf32>, tensor<?xf32>
"""


def with_maxima(graph: str) -> str:
    """Adds the largest magnitude of each row to the results of a layer."""
    role = '%largest: tensor<?xf32> {tandem.role = #tandem.role<output "largest", per = row>}'
    graph = re.sub(r"(%y: [^}]*\})", rf"\1, {role}", graph, count=1)
    graph = re.sub(r"-> tensor<\?x\?xf32> \{", "-> (tensor<?x?xf32>, tensor<?xf32>) {", graph,
                   count=1)
    return graph.replace("  return %new_y : tensor<?x?xf32>\n", _MAXIMA)


_SCALE_BY = """
#m = affine_map<(i, j) -> (i, j)>
func.func @scale_by(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y">},
    %by: f64 {tandem.role = #tandem.role<hyper "by">}) -> tensor<?x?xf32> {
  %factor = arith.truncf %by : f64 to f32
  %new_y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%y : tensor<?x?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %scaled = arith.mulf %a, %factor : f32
    linalg.yield %scaled : f32
  } -> tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}"""


def methods(layer: str, isa: str, shape: tuple[int, int]) -> dict:
    """Returns a function for each way to compute a layer and to store its result in E4M3 with a
    scale for the tensor."""
    plain = forward(layer)
    tensor = scaled(CODE, "tensor", "f32")
    wide = Kernel(plain, layer, isa, BF16, shape)
    keep = Kernel(source("keep"), "keep", isa, tensor, shape)
    maxima = Kernel(with_maxima(plain), layer, isa, BF16, shape)
    codes = Kernel(_SCALE_BY, "scale_by", isa, f"#tandem.coded<{CODE}>", shape)
    fused = Kernel(plain, layer, isa, tensor, shape)
    delayed = Kernel(plain, layer, isa, tensor[:-1] + ", history = 16>", shape)
    keep.planes["x"], codes.planes["x"] = wide.planes["y"], maxima.planes["y"]

    def just_in_time() -> None:
        wide()
        keep()

    def group_scaling() -> None:
        maxima()
        largest = float(maxima.planes["largest"].max())
        codes(by=448.0 / largest)

    return {"just in time": just_in_time, "Group Scaling": group_scaling,
            "one kernel": fused, "delayed": delayed}


def times(layer: str, isa: str, shape: tuple[int, int], rounds: int) -> dict[str, list[float]]:
    """Returns nanoseconds an element on one thread, round by round."""
    todo, found = methods(layer, isa, shape), {}
    for turn in range(rounds + 1):
        for name, run in todo.items():
            seconds = granularity.seconds(run)
            if turn:  # The first round warms up.
                found.setdefault(name, []).append(1e9 * seconds / (shape[0] * shape[1]))
    print(f"{layer}, {isa}: " + ", ".join(
        f"{name} {statistics.median(each):.3f} ns" for name, each in found.items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="training steps (default: 200)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings (default: 3)")
    parser.add_argument("--rounds", type=int, default=15, help="of timings (default: 15)")
    parser.add_argument("--quick", action="store_true", help="a narrow model and small tensors")
    parser.add_argument("--results", type=pathlib.Path, default=common.RESULTS,
                        help="the folder of the result (default: %(default)s)")
    options = parser.parse_args()
    width, shape = (128, (64, 1024)) if options.quick else (WIDTH, SIZE)
    common.save("activations_scales", {
        "steps": options.steps, "width": width, "batch": BATCH, "context": CONTEXT,
        "channels": CHANNELS, "tokens": TOKENS, "factor": FACTOR, "shape": list(shape),
        "errors": {str(seed): by_shape(seed, options.steps, width)
                   for seed in range(options.seeds)},
        "times": {layer: {isa: times(layer, isa, shape, options.rounds) for isa in ISAS}
                  for layer in PRODUCERS}}, options.results)


if __name__ == "__main__":
    main()
