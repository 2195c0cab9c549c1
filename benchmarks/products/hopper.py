#===- hopper.py - FP8 products compared with Hopper's ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares products of 8-bit floats on a CPU with those of Hopper's tensor cores, as the
# package mmaemu models them, and with float64.
#
#===----------------------------------------------------------------------===#
"""Compares products of the same codes: Tandem's on this CPU, those of a bit-exact model of
cuBLASLt's on an H100, and float64.

Inputs are encoded as in a linear layer with products="fp8". Differences are relative: the norm of a
difference over the norm of the float64 product. The results become the table in docs/Layers.md,
except with --quick, which only writes results to a given folder.
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from common import RESULTS, load, save, table  # noqa: E402
from tandem.torch.nn import _products  # noqa: E402

PAGE = ROOT / "docs/Layers.md"
BEGIN, END = "<!-- benchmarks/products/hopper.py writes this table. -->", "<!-- Its end. -->"

E4M3, E5M2 = "f8E4M3FN", "f8E5M2"
DEPTHS = (128, 256, 512, 1024, 2048, 4096)
SIZES = ((64, 64), (32, 128))

#: The codes of the first factor, and whether cuBLASLt accumulates fast, for each pass.
PASSES = {"forward": (E4M3, True), "backward": (E5M2, False)}

#: A function that draws a matrix with the given numbers of rows and columns.
Draw = Callable[[int, int, torch.Generator], torch.Tensor]


def _normal(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(rows, columns, generator=generator)


def _with_outliers(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Draws normal numbers whose columns differ in size, a few by much, as in activations."""
    sizes = torch.randn(columns, generator=generator).exp()
    return _normal(rows, columns, generator) * sizes


INPUTS: dict[str, Draw] = {"normal": _normal, "outliers": _with_outliers}


@dataclass(frozen=True)
class Case:
    """A product of random matrices."""

    direction: str
    inputs: str
    rows: int
    columns: int
    depth: int

    def factors(self) -> tuple[_products.Codes, _products.Codes]:
        """Returns both factors' codes in rows, and their scales."""
        generator = torch.Generator().manual_seed(self.depth)
        draw = INPUTS[self.inputs]
        x, w = (draw(count, self.depth, generator).bfloat16()
                for count in (self.rows, self.columns))
        return _products.quantize(x, PASSES[self.direction][0]), _products.quantize(w, E4M3)


class Hopper:
    """mmaemu's model of an H100, without split-K."""

    OPTIONS = {"profile": "hopper", "splitk": 1}

    def __init__(self):
        try:
            import mmaemu
        except ImportError:
            raise SystemExit("mmaemu is not installed; scripts/hopper.sh installs it in "
                             "build/hopper") from None
        self._package, self.version = mmaemu, mmaemu.__version__

    def sums(self, x: torch.Tensor, w: torch.Tensor, fast: bool) -> torch.Tensor:
        """Computes x @ w.T of codes with the accumulation of the hardware."""
        return self._package.accumulate(x, w, use_fast_accum=fast, **self.OPTIONS)

    def scaled(self, sums: torch.Tensor, scales: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Multiplies sums by both scales and rounds to bf16."""
        from mmaemu.model import epilogue
        return epilogue.apply(sums, *scales, out_dtype=torch.bfloat16)


def apart(x: torch.Tensor, y: torch.Tensor, exact: torch.Tensor) -> float:
    """Returns the norm of a difference over that of the exact values."""
    return ((x.double() - y.double()).norm() / exact.norm()).item()


def compare(case: Case, hopper) -> dict:
    """Returns the differences of a case."""
    code, fast = PASSES[case.direction]
    (x, x_scale, _), (w, w_scale, _) = case.factors()
    exact = _products.values_of(x, code).double() @ _products.values_of(w, E4M3).double().t()
    scale = x_scale * w_scale
    one = torch.ones(1)
    ours = _products.multiply((x, one), (w, one), of=code, dtype=torch.float32)
    narrow = _products.multiply((x, x_scale), (w, w_scale), of=code)
    x, w = x.view(_products._TYPES[code]), w.view(_products._TYPES[E4M3])
    theirs = hopper.sums(x, w, fast)
    theirs_narrow = hopper.scaled(theirs, (x_scale, w_scale))
    scaled = exact * scale.double()
    return {
        "sums": {"ours": apart(ours, exact, exact), "hopper": apart(theirs, exact, exact),
                 "apart": apart(ours, theirs, exact)},
        "bf16": {"ours": apart(narrow, scaled, scaled),
                 "hopper": apart(theirs_narrow, scaled, scaled),
                 "apart": apart(narrow, theirs_narrow, scaled),
                 "different": (narrow != theirs_narrow).double().mean().item()},
    }


def cases(quick: bool) -> Iterator[Case]:
    """Yields all products."""
    sizes, depths = (((16, 32),), (128, 512)) if quick else (SIZES, DEPTHS)
    for direction in PASSES:
        for inputs in INPUTS:
            for depth in depths:
                for rows, columns in sizes:
                    yield Case(direction, inputs, rows, columns, depth)


def measure(hopper, quick: bool) -> list[dict]:
    """Returns a row for each product and reports progress on stderr."""
    rows, all_cases = [], list(cases(quick))
    for number, case in enumerate(all_cases, 1):
        begun = time.perf_counter()
        rows.append(vars(case) | compare(case, hopper))
        print(f"[{number}/{len(all_cases)}] {case.direction}, {case.inputs}, {case.rows} x "
              f"{case.columns} x {case.depth}: {time.perf_counter() - begun:.1f} s",
              file=sys.stderr)
    return rows


#===------------------------------------------------------------------------===#
# The page
#===------------------------------------------------------------------------===#


def _worst(rows: list[dict], kind: str, key: str) -> float:
    return max(row[kind][key] for row in rows)


def table_of(result: dict) -> str:
    """Formats the largest differences for each pass and depth."""
    lines = []
    for direction in PASSES:
        for depth in sorted({row["depth"] for row in result["rows"]}):
            rows = [row for row in result["rows"]
                    if (row["direction"], row["depth"]) == (direction, depth)]
            lines.append([f"{direction}, {depth}", *(
                f"{_worst(rows, kind, key):.1e}" for kind, key in (
                    ("sums", "ours"), ("sums", "hopper"), ("bf16", "ours"), ("bf16", "hopper"),
                    ("bf16", "apart"))), f"{100 * _worst(rows, 'bf16', 'different'):.1f} %"])
    return table(["pass, depth", "CPU, sums", "H100, sums", "CPU, bf16", "H100, bf16",
                  "apart", "other bits"], lines)


def page_with(text: str, result: dict) -> str:
    """Returns the page with the table in its place."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table_of(result)}\n\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="a few small products, and no page; results go to --results only")
    parser.add_argument("--results", type=pathlib.Path,
                        help=f"the folder of the result (default: {RESULTS})")
    options = parser.parse_args()
    hopper = Hopper()
    # The model consists of many small operations, for which threads cost more than they gain.
    torch.set_num_threads(1)
    rows = measure(hopper, options.quick)
    result = {"mmaemu": hopper.version, "torch": torch.__version__, "rows": rows}
    if options.quick and not options.results:
        print(table_of(result))
        return
    save("hopper", result, options.results)
    if not options.quick:
        PAGE.write_text(page_with(PAGE.read_text(), load("hopper", options.results)))


if __name__ == "__main__":
    main()
