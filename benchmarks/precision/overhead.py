#===- overhead.py - The time that masks take -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures the forward and backward pass of a linear layer whose products
# are masked, against the same layer without masks.
#
#===----------------------------------------------------------------------===#
"""Times a masked linear layer and the plain one alternately, and prints the medians of their
times and of the ratio."""

import argparse
import copy
import statistics
import time

import tandem.torch
import torch


def seconds(layer: torch.nn.Linear, x: torch.Tensor) -> float:
    """Returns the time of a forward and a backward pass."""
    x = x.clone().requires_grad_()
    begin = time.perf_counter()
    layer(x).sum().backward()
    return time.perf_counter() - begin


def measure(width: int, tokens: int, format: str, repeats: int) -> tuple[float, float, float]:
    """Returns the medians of plain seconds, masked seconds, and their ratio."""
    torch.manual_seed(0)
    plain = torch.nn.Linear(width, width, bias=False)
    masked = copy.deepcopy(plain)
    tandem.torch.emulate(masked, format)
    x = torch.randn(tokens, width)
    for layer in (plain, masked):
        seconds(layer, x)
    pairs = [(seconds(plain, x), seconds(masked, x)) for _ in range(repeats)]
    return (*map(statistics.median, zip(*pairs)), statistics.median(b / a for a, b in pairs))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--formats", nargs="+", default=["E8M3", "E5M2"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    print(f"{options.tokens} tokens in float32, {options.threads} threads")
    for width in options.widths:
        for format in options.formats:
            plain, masked, ratio = measure(width, options.tokens, format, options.repeats)
            print(f"width {width}, {format}: {1e3 * plain:.1f} ms plain, "
                  f"{1e3 * masked:.1f} ms masked, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
