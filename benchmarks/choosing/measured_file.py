#===- measured_file.py - Measured data in the package ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file derives the data that tandem.torch.recommend reads from the committed results.
#
#===----------------------------------------------------------------------===#
"""Writes python/tandem/torch/optim/advice/measured.json from benchmarks/results."""

import argparse
import json
import math
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/accuracy")]
from accuracy_page import BETA2, F32, RECORDED, Results  # noqa: E402
from common import RESULTS, graph_of, load  # noqa: E402
from streams import STREAMS  # noqa: E402

TARGET = ROOT / "python/tandem/torch/optim/advice/measured.json"
#: The streams that represent gradients of matrices, and of rows that rarely get one.
KINDS = {"dense": RECORDED, "rare": ("sparse",)}
#: Names in accuracy.json of strategies whose own weights are f32.
OWN_F32 = ("fp32", "coat-fp32")


def rounded(value: float) -> float:
    """Rounds to four digits, more than the measurements have."""
    return float(f"{value:.4g}")


def at_least(count: float) -> float:
    """Returns bytes per parameter without those of a per-tensor scale."""
    return math.floor(1e4 * count) / 1e4


def errors_of(accuracy: Results, name: str) -> dict[str, dict[str, float]] | None:
    """Returns the errors of a name in accuracy.json by kind and beta2; None if one is not
    finite."""
    if name not in accuracy.names:
        return None
    found = {kind: {beta2: accuracy.mean(name, [(s, STREAMS[s].steps) for s in streams], (beta2,))
                    for beta2 in BETA2} for kind, streams in KINDS.items()}
    if any(value is None for of in found.values() for value in of.values()):
        return None
    return {kind: {beta2: rounded(value) for beta2, value in of.items()}
            for kind, of in found.items()}


def errors(accuracy: Results, name: str, states: float) -> dict[str, dict]:
    """Returns the errors by parameter dtype. With f32 weights, moments that take eight bytes are
    also f32, so the errors are those of fp32."""
    names = {"float32": name if name in OWN_F32 else name + F32}
    if name not in OWN_F32:
        names["bfloat16"] = name
    if states == 8 and name in accuracy.names:
        names["float32"] = "fp32"
    found = {dtype: errors_of(accuracy, of) for dtype, of in sorted(names.items())}
    return {dtype: of for dtype, of in found.items() if of}


def losses(choosing: dict | None, name: str) -> dict[str, float | None]:
    """Returns how much of the updates the demo's model loses and keeps, as means over the seeds."""
    cells = list(((choosing or {}).get("strategies", {}).get(name) or {}).values())
    means = {new: [cell[old] for cell in cells] for new, old in (("lost", "lost_share"),
                                                                ("kept", "edq_ratio"))}
    return {key: rounded(statistics.fmean(found)) if found and None not in found else None
            for key, found in means.items()}


def content(following: dict, accuracy: Results, live: dict, choosing: dict | None) -> dict:
    """Returns the data of all strategies that appear in all results."""
    strategies = {}
    for name, kept in sorted(live["strategies"].items()):
        of = kept["kept"]
        found = errors(accuracy, name, of["states"])
        if not found or name not in following["strategies"]:
            continue
        strategies[name] = {
            **{part: at_least(of[part]) for part in ("weights", "gradients", "states")},
            "hidden": of["working"] > 0, "stores_ratio": graph_of(name) == "adamw_ratio",
            "follows": {f"{row['beta2']:g}": row["follows"]
                        for row in following["strategies"][name]},
            "others": {graph: of[name]["follows"] for graph, of in following["graphs"].items()},
            "errors": found, **losses(choosing, name)}
    return {"source": "written by benchmarks/choosing/measured_file.py of following.json, "
                      "accuracy.json, live_bytes.json and choosing.json in benchmarks/results",
            "strategies": strategies}


def text(folder: pathlib.Path = RESULTS) -> str:
    """Returns the content of the file."""
    following, accuracy, live, choosing = (load(name, folder) for name in (
        "following", "accuracy", "live_bytes", "choosing"))
    found = content(following, Results(accuracy), live, choosing)
    return json.dumps(found, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--target", type=pathlib.Path, default=TARGET)
    options = parser.parse_args()
    options.target.write_text(text(options.results))


if __name__ == "__main__":
    main()
