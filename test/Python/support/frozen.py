#===- frozen.py - Packages of earlier versions ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file makes packages that later versions must still read, and runs their kernels on fixed
# inputs. As a program, it writes the packages of this version: frozen.py FOLDER.
#
#===----------------------------------------------------------------------===#
"""Makes packages of a version, and hashes of what their kernels compute."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "verification"))

import tandem  # noqa: E402
from bits_code import ptx_hash  # noqa: E402
from bits_inputs import Digest, planes_for  # noqa: E402
from bits_kernels import shapes_of, train  # noqa: E402

STRATEGIES = Path(__file__).resolve().parents[1] / "Inputs/strategies"
#: The kernels of each package, by graph, strategy and options, and its targets.
PACKAGES = {
    "targets.tdm": (("x86-64", "x86-64-v3", "sm_90"), {
        "adamw": ("adamw", "collage-plus", {})}),
    "phases.tdm": (("x86-64",), {
        "delayed": ("lamb", "fp8-lm-delayed", {}),
        "clipped": ("adamw_clip", "flash-f16", {"metrics": True, "flags": True})}),
    "matrices.tdm": (("x86-64",), {
        "adafactor": ("adafactor", "remainder", {}),
        "forward": ("rms_norm", "mxfp8", {"function": "rms_norm"}),
        "backward": ("rms_norm", "mxfp8", {"function": "rms_norm_backward"})}),
}


def run(kernel) -> str:
    """Hashes a kernel's results; backward passes get artificial saved tensors."""
    if "GRAD" in {plane.kind.name for plane in kernel.planes}:
        return train(kernel, shapes_of(kernel))
    digest = Digest()
    for seed, shape in enumerate(shapes_of(kernel)):
        arrays = planes_for(kernel, shape, {"INPUT": "wide", "RESTORED": "ordinary"}, seed)
        kernel(arrays, threads=1)
        digest.add(arrays)
    return digest.text


def results(path: Path) -> dict:
    """Returns hashes of the results of a package's kernels, by kernel and target."""
    targets, kernels = PACKAGES[path.name]
    chips = [target for target in targets if target.startswith("sm_")]
    return {name: {isa: run(tandem.load(path, name, isa=isa))
                   for isa in targets if isa not in chips}
            | {chip: ptx_hash(tandem.load(path, name, chip)) for chip in chips}
            for name in kernels}


def format_of(path: Path) -> int:
    """Returns the version in a package's header."""
    return int.from_bytes(path.read_bytes()[8:12], "little")


def main(folder: str) -> None:
    expected = {}
    Path(folder).mkdir(parents=True, exist_ok=True)
    for file, (targets, kernels) in PACKAGES.items():
        path = Path(folder, file)
        if path.exists():
            raise SystemExit(f"{path} is there already, and packages are kept as they were; "
                             "name another folder")
        tandem.save(path, {name: tandem.compile(graph, strategy, path=[STRATEGIES], **options)
                           for name, (graph, strategy, options) in kernels.items()}, targets)
        expected[file] = results(path)
    text = json.dumps(expected, indent=1, sort_keys=True)
    Path(folder, "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
