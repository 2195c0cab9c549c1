#===- run.py - Measure saved activations -----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures, for every recipe, what one layer keeps for its backward pass, how long its
# passes take, and how accurate its gradients are.
#
#===----------------------------------------------------------------------===#
"""Usage: run.py [--hidden N ...] [--tokens N] [--rounds N] [--passes N] [--results FOLDER]"""

import argparse
import pathlib
import statistics
import sys
import time

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import activations_page  # noqa: E402
import common  # noqa: E402
import few_bits  # noqa: E402
import granularity  # noqa: E402
from layer import BATCH, compare, kept_bytes, make  # noqa: E402

import tandem  # noqa: E402
import tandem.torch  # noqa: E402



class Case:
    """One way to run the layer."""

    def __init__(self, name: str, hidden: int, tokens: int):
        self.name = name
        dtype = torch.float64 if name == "f64" else torch.bfloat16
        self.layer, cos, sin = make(hidden, tokens // BATCH, torch.bfloat16)
        recipe, _, more = name.partition(" + ")
        if recipe in tandem.recipes():
            tandem.torch.compress_activations(self.layer, recipe=recipe,
                                              recompute=more == "recompute")
        self.layer, self.cos, self.sin = self.layer.to(dtype), cos.to(dtype), sin.to(dtype)
        shape = BATCH, tokens // BATCH, hidden
        generator = torch.Generator().manual_seed(1)
        draw = lambda: torch.randn(shape, generator=generator).bfloat16().to(dtype)  # noqa: E731
        self.x, self.dy = draw().requires_grad_(), draw()
        self.call = (torch.compile(self.layer) if "torch.compile" in (recipe, more)
                     else self.layer)

    def forward(self):
        return self.call(self.x, self.cos, self.sin)

    def step(self) -> float:
        """Runs both passes and returns the seconds that they take."""
        for p in [self.x, *self.layer.parameters()]:
            p.grad = None
        begin = time.perf_counter()
        self.forward().backward(self.dy)
        return time.perf_counter() - begin

    def gradients(self) -> dict[str, torch.Tensor]:
        self.step()
        named = {name: p.grad for name, p in self.layer.named_parameters()}
        return {name: grad.double() for name, grad in (named | {"x": self.x.grad}).items()}


def ratio(times: list[float], base: list[float]) -> float:
    """Returns the median of ratios per round, since a disturbance affects all runs of a round."""
    return statistics.median(t / b for t, b in zip(times, base, strict=True))


def measure(hidden: int, tokens: int, rounds: int) -> dict:
    names = ["bf16 eager", "torch.compile", *sorted(set(tandem.recipes()) - {"fp32"}),
             "coat + recompute", "bf16 + torch.compile", "coat + torch.compile"]
    # torch.compile gives up on a function that it has recompiled too often.
    torch._dynamo.reset()
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    exact = Case("f64", hidden, tokens).gradients()
    cases, rows = [], {}
    for name in names:
        case = Case(name, hidden, tokens)
        rows[name] = compare(case.gradients(), exact)
        unit = tokens * hidden * 2
        rows[name]["kept"] = kept_bytes(case.layer, case.forward) / unit
        cases.append(case)
        print(f"hidden {hidden}: {name} keeps {rows[name]['kept']:.3f} U", flush=True)
    times = {name: [] for name in names}
    for number in range(rounds):
        for case in cases:
            times[case.name].append(case.step())
        print(f"hidden {hidden}: round {number + 1} of {rounds}", flush=True)
    for name in names:
        rows[name]["ms"] = 1e3 * statistics.median(times[name])
        rows[name]["of"] = {base: ratio(times[name], times[base]) for base in names[:2]}
    return {"hidden": hidden, "tokens": tokens, "rounds": rounds, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--passes", type=int, default=64,
                        help="whose mean gradient is compared, in the smallest layer")
    parser.add_argument("--steps", type=int, default=300,
                        help="of the model whose activations are stored")
    parser.add_argument("--results", type=pathlib.Path, default=common.RESULTS)
    options = parser.parse_args()
    few_bits.save(min(options.hidden), options.tokens, options.passes, options.results)
    layers = [measure(hidden, options.tokens, options.rounds)
              for hidden in options.hidden]
    common.save("activations", {
        "machine": common.machine(), "torch": torch.__version__,
        "threads": torch.get_num_threads(), "layers": layers,
        "granularity": granularity.measure(options.steps, options.rounds)},
        options.results)
    is_ours = options.results == common.RESULTS
    activations_page.write(options.results, activations_page.PAGE if is_ours
                           else options.results / "Activations.md")


if __name__ == "__main__":
    main()
