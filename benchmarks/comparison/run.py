#===- run.py - Run and score one framework -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs all programs in one framework, each of its variants in a separate process, and
# writes the file of results.
#
#===----------------------------------------------------------------------===#
"""run.py FRAMEWORK [--results FOLDER] [--absent WHY] writes FRAMEWORK.json."""

import argparse
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import common
import inputs
import score
from programs import CASES

RESULTS = common.RESULTS / "comparison"


def run_variant(module, variant, folder):
    """Runs every case in this process and writes bits, versions and evidence to `folder`."""
    for case in CASES.values():
        print(f"  {case.name}", flush=True)
        result = module.run(case, inputs.planes(case), variant)
        np.savez(folder / case.name, *[np.asarray(plane, np.uint16) for plane in result])
    (folder / "about.json").write_text(json.dumps(
        {"versions": module.versions(), "evidence": module.evidence(variant)}))


def scores(folder):
    found = {}
    for case in CASES.values():
        with np.load(folder / f"{case.name}.npz") as result:
            found[case.name] = score.score(case, [result["arr_0"], result["arr_1"]])
    return found


def slug(*names):
    return re.sub(r"[^\w]+", "-", "-".join(filter(None, names)))


def measure(framework, variant, environment, results):
    """Runs one variant in a separate process, since some frameworks read flags only once."""
    print(f"{framework} {variant}".strip(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.executable, __file__, framework, "--variant", variant,
                        "--out", name], check=True, env=os.environ | environment)
        about = json.loads((folder / "about.json").read_text())
        files = {}
        for case, text in about["evidence"].items():
            files[case] = slug(framework, variant, case) + ".txt"
            (results / files[case]).write_text(text)
        return about["versions"], {"environment": environment, "evidence": files,
                                   "cases": scores(folder)}


def measure_all(framework, results):
    results.mkdir(parents=True, exist_ok=True)
    versions, variants = {}, {}
    for variant, environment in importlib.import_module(
            f"with_{framework}").VARIANTS.items():
        versions, variants[variant] = measure(framework, variant, environment, results)
    version = ".".join(map(str, sys.version_info[:3]))
    common.save(framework, {"versions": {"python": version} | versions,
                            "variants": variants}, results)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--absent", help="why the framework does not run here")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.absent:
        common.save(options.framework, {"absent": options.absent}, options.results)
    elif options.out:
        run_variant(importlib.import_module(f"with_{options.framework}"),
                    options.variant, options.out)
    else:
        measure_all(options.framework, options.results)


if __name__ == "__main__":
    main()
