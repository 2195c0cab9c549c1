#===- packages.py - Packages for the check of GPUs -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compiles the packages that scripts/gpu-check.sh runs on a GPU.
#
#===----------------------------------------------------------------------===#
"""packages.py FOLDER [--chip=sm_90] [--host=x86_64]: writes FOLDER/packages/*.tdm, and to FOLDER/prepared.json
what they were made from."""

import argparse
import json
import pathlib
import platform
import shutil
import sys

import tandem

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "verification"), str(HERE.parent), str(HERE)]
import common  # noqa: E402
from sass_figures import cycles  # noqa: E402

#: The instruction sets of CPUs that packages have images for, by what `uname -m` prints.
HOSTS = {"x86_64": ["x86-64", "x86-64-v3"], "aarch64": ["aarch64"]}
LAYERS = ("rms_norm", "layer_norm", "gelu", "swiglu", "cross_entropy", "keep")


def cases() -> list[tuple[str, str]]:
    """Returns graphs with their strategies, and layers with their recipes."""
    optimizers = [("adamw", strategy) for strategy in tandem.strategies()]
    optimizers += [(graph, "bf16") for graph in tandem.graphs() if graph != "adamw"]
    optimizers += [("lamb", "collage-plus"), ("adafactor", "fp32"), ("adamw_clip", "coat"),
                   ("adamw", "e4m3-groups")]
    layers = [(layer, recipe) for layer in LAYERS for recipe in ("bf16", "coat")]
    return optimizers + layers + [(layer, "coat-fp8") for layer in ("rms_norm", "swiglu", "keep")]


def kernels_of(graph: str, strategy: str) -> list[tandem.Kernel]:
    """Returns an optimizer's step, or the two passes of a layer."""
    is_layer = graph in LAYERS
    functions = [graph, f"{graph}_backward"] if is_layer else [""]
    return [tandem.compile(graph, strategy, path=[HERE], flags=not is_layer, function=function)
            for function in functions]


def write_packages(folder: pathlib.Path, targets: list[str]) -> None:
    """Writes the packages. Combinations that a strategy does not support are skipped with a
    message."""
    folder.mkdir(parents=True, exist_ok=True)
    for graph, strategy in cases():
        try:
            tandem.save(folder / f"{graph}-{strategy}.tdm", kernels_of(graph, strategy), targets)
        except ValueError as error:
            print(f"{graph} under {strategy} is left out: {error}", file=sys.stderr)


def describe(chip: str) -> dict:
    """Returns the commit, and for each counted kernel the cycles per element of one of the
    chip's multiprocessors."""
    counted = common.load("instructions")["kernels"]
    return {"made": {key: common.machine()[key] for key in ("commit", "changed_files")},
            "cycles": {name.replace("/", " under "): cycles(chip, chips[chip]["launches"])
                       for name, chips in counted.items() if chip in chips}}


def main() -> None:
    """Parses the command line and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--chip", default="sm_90")
    parser.add_argument("--host", choices=HOSTS, default=platform.machine(),
                        help="the architecture of the GPU's host (default: this machine's)")
    options = parser.parse_args()
    targets = [*HOSTS[options.host], options.chip]
    if shutil.which("ptxas"):
        targets.append(f"cubin:{options.chip}")
    else:
        print("there is no ptxas: the packages have PTX, but no machine code of "
              f"{options.chip}", file=sys.stderr)
    write_packages(options.folder / "packages", targets)
    (options.folder / "prepared.json").write_text(json.dumps(describe(options.chip)))


if __name__ == "__main__":
    main()
