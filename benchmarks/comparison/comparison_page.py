#===- comparison_page.py - docs/Comparison.md from results -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the page of the comparison: tables, and a paragraph per framework whose claims
# are checked against the results.
#
#===----------------------------------------------------------------------===#
"""Writes docs/Comparison.md from benchmarks/results/comparison/*.json."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from common import RESULTS, load, machine_text, table

from prose import CLAIMS, INTRODUCTION, METHOD, PARAGRAPHS, SNIPPETS, TITLES
from programs import CASES

FOLDER = RESULTS / "comparison"
FRAMEWORKS = {"tandem": "Tandem", "numpy": "NumPy", "jax": "JAX", "torch": "PyTorch",
              "triton": "Triton"}

#===----------------------------------------------------------------------===#
# Cells
#===----------------------------------------------------------------------===#


def kind(score):
    """Returns which results are as defined: "all", "normal" (except for subnormals), "some"."""
    wrong = {name for name, count in score["equal"].items()
             if count != score["of"][name]}
    return "some" if wrong - {"subnormal"} else "normal" if wrong else "all"


def equal_cell(score):
    found = kind(score)
    if found == "all":
        return "all"
    share = 100 * sum(score["equal"].values()) / score["size"]
    return ("all but subnormals" if found == "normal"
            else f"**{share:.1f} %**" if share else "**none**")


def terms_cell(score):
    lost, terms = score["lost_error_terms"], score["error_terms"]
    if kind(score) != "some":
        return "kept" if kind(score) == "all" else "kept but in subnormals"
    if lost == terms:
        return "**zero in all**"
    return f"zero in {100 * lost / terms:.1f} %" if lost else "not zero, but other"


def error_cell(score):
    error = score["largest_error"]
    return "infinite" if error is None else f"{error:.2g}"


#===----------------------------------------------------------------------===#
# Tables
#===----------------------------------------------------------------------===#


def rows_of(results):
    """Yields (title, cases) for each variant of each framework that ran."""
    for framework, title in FRAMEWORKS.items():
        for variant, found in results[framework].get("variants", {}).items():
            yield f"{title}, {variant}" if variant else title, found["cases"]


def cells(results, format, cell):
    cases = [case for case in CASES.values() if case.format == format]
    header = [format, *(TITLES[case.program] for case in cases)]
    rows = [[title, *(cell(scores[case.name]) for case in cases)]
            for title, scores in rows_of(results)]
    return table(header, rows)


def both(results, cell):
    return "\n\n".join(cells(results, format, cell) for format in ("bf16", "f16"))


def errors(results):
    cases = list(CASES.values())
    defined = next(rows_of(results))[1]
    row = ["the definition", *(f"{defined[c.name]['definition_error']:.2g}" for c in cases)]
    header = ["", *(f"{TITLES[c.program]} {c.format}" for c in cases)]
    return table(header, [row, *([title, *(error_cell(scores[c.name]) for c in cases)]
                                 for title, scores in rows_of(results))])


#===----------------------------------------------------------------------===#
# Paragraphs
#===----------------------------------------------------------------------===#


def check_claims(results):
    """Checks that the paragraphs' statements about the results still hold."""
    for framework, variant, expected in CLAIMS:
        found = results[framework]
        if "absent" in found:
            continue
        for case, want in expected.items():
            got = kind(found["variants"][variant]["cases"][case])
            if got != want:
                raise SystemExit(
                    f"comparison_page.py: {framework} {variant} gives {got} of {case} as "
                    f"defined, but benchmarks/comparison/prose.py says {want}; describe "
                    "what is now so there")


def excerpt(framework, variant, case, folder, results):
    """Returns the code that a framework generates for a program, from the file that a run saved."""
    name = results[framework]["variants"][variant]["evidence"][case]
    text = (folder / name).read_text()
    of = f"{framework}, {variant}: `{case}`" if variant else f"{framework}: `{case}`"
    return f"{of}, [{name}](../benchmarks/results/comparison/{name})\n\n```\n{text}```\n"


def versions(found):
    return ", ".join(f"{name} {version}" for name, version in found["versions"].items())


def section(framework, folder, results):
    found = results[framework]
    head = f"## {FRAMEWORKS[framework]}\n"
    if "absent" in found:
        return f"{head}\nIt did not run: {found['absent']}. {machine_text(found)}\n"
    flags = "".join(
        f"\n`{' '.join(f'{k}={v}' for k, v in other['environment'].items())}` makes "
        f"\"{variant}\".\n" for variant, other in found["variants"].items()
        if other["environment"])
    excerpts = "\n".join(excerpt(framework, *snippet, folder, results)
                         for snippet in SNIPPETS.get(framework, ()))
    return (f"{head}\n{versions(found)}; {machine_text(found)} Again: "
            f"`scripts/compare.sh {framework}`.\n\n{PARAGRAPHS[framework]}{flags}\n"
            f"{excerpts}")


def page(folder):
    results = {name: load(name, folder) for name in FRAMEWORKS}
    check_claims(results)
    parts = [INTRODUCTION, both(results, equal_cell), "\n## Error terms\n",
             both(results, terms_cell), "\n## Largest errors\n", METHOD, errors(results),
             ""]
    parts += [section(name, folder, results) for name in FRAMEWORKS]
    return "\n".join(parts).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--output", type=pathlib.Path,
                        default=RESULTS.parents[1] / "docs/Comparison.md")
    options = parser.parse_args()
    options.output.write_text(page(options.results))


if __name__ == "__main__":
    main()
