#===- accumulated.py - Errors that add up over a run ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares storages and strategies with AdamW in f64 on recorded gradients.
#
#===----------------------------------------------------------------------===#
"""Compares the weights after a recorded stream of gradients with those of AdamW in f64.

The demo's model trains in f32, and the gradients of the token table and of the attention's matrices
are recorded in bf16. Every strategy gets the same gradients, so only its own errors and their
accumulation over the run make a difference. The storages of one tensor are compared with all others
in f32. Second moments have a long memory in the demo, and a shorter one for comparison.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tandem  # noqa: E402
from common import RESULTS, save  # noqa: E402
from demo_model import (  # noqa: E402
    Progress, check_strategy, config, load_corpus, stream)
from moments import NORMAL, SIGNED, UNSIGNED, WHOLE  # noqa: E402
from round_trip import expanded, scaled  # noqa: E402
from runs import FOLDER, strategies  # noqa: E402

F32 = "#tandem.float<f32>"
BF16 = {"bf16": "#tandem.float<bf16>"}
E4M3 = "#scaled.float<f8E4M3FN>"
SOFTSIGN, ROOT = "#scaled.softsign", "#scaled.root"


def minifloat(exponent: int, mantissa: int, rounding: str = "stochastic") -> str:
    return (f"#scaled.minifloat<exponent = {exponent}, mantissa = {mantissa}, "
            f"rounding = {rounding}>")


def stretched(code: str, ratio: float, group: int, scale: str = "bf16") -> str:
    return scaled(expanded(code, ratio), group, scale)


WEIGHTS = BF16 | {
    "bf16, stochastic": "#tandem.float<bf16, stochastic>",
    "f16, stochastic": "#tandem.float<f16, stochastic>",
    "E5M10, stochastic, scaled": scaled(minifloat(5, 10), 128, "f32"),
    "E4M3 x 2, scaled": scaled("#scaled.pair<f8E4M3FN>", 128, "f32"),
    "bf16 + f8E5M2": "#tandem.expansion<bf16, f8E5M2>",
    "bf16 + f8E4M3": "#tandem.expansion<bf16, f8E4M3FN>",
    "bf16 + i8 residual": "#tandem.residual<bf16, i8>",
    "bf16 x 2": "#tandem.expansion<bf16 x 2>",
    "bf16 + i16 residual": "#tandem.residual<bf16, i16>",
}
GRADIENTS = {
    "E4M3, the tensor's scale": ("#tandem.scaled<#scaled.float<f8E4M3FN>, "
                                 "group = tensor, scale = f32, recipe = pow2>"),
    "E4M3, 128": scaled(E4M3),
    "E4M3+expand, 32": stretched("f8E4M3FN", WHOLE["f8E4M3FN"], 32),
    "DE8, 32": scaled(SIGNED, 32, "f32"),
    "E2M5, 32": scaled(minifloat(2, 5, "nearest"), 32),
    "E2M5, stochastic, 32": scaled(minifloat(2, 5), 32),
    "softsign, 128": scaled(SOFTSIGN, 128),
    "softsign, 64": scaled(SOFTSIGN, 64),
    "softsign, 32": scaled(SOFTSIGN, 32),
}
FIRST = BF16 | {
    "E4M3, 128": scaled(E4M3),
    "E4M3+expand R = 14680064, 128": stretched("f8E4M3FN", 14680064, 128),
    "E4M3+expand, 128": stretched("f8E4M3FN", WHOLE["f8E4M3FN"], 128),
    "E4M3+expand, 32": stretched("f8E4M3FN", WHOLE["f8E4M3FN"], 32),
    "DE8, 128": scaled(SIGNED, 128, "f32"),
    "DE8, 32": scaled(SIGNED, 32, "f32"),
    "DE8+expand R = 100, 32": stretched(SIGNED, 100, 32, "f32"),
    "E2M5, 32": scaled(minifloat(2, 5, "nearest"), 32, "f32"),
    "E2M5, stochastic, 32": scaled(minifloat(2, 5), 32, "f32"),
    "softsign, 128": scaled(SOFTSIGN, 128, "f32"),
    "softsign, 64": scaled(SOFTSIGN, 64, "f32"),
    "softsign, 32, bf16 scale": scaled(SOFTSIGN, 32, "bf16"),
    "softsign, 32, f16 scale": scaled(SOFTSIGN, 32, "f16"),
    "softsign, 32": scaled(SOFTSIGN, 32, "f32"),
    "f16, 128": scaled("#scaled.float<f16>", 128, "f32"),
}
SECOND = BF16 | {
    "bf16, stochastic": "#tandem.float<bf16, stochastic>",
    "E4M3+expand, 128": stretched("f8E4M3FN", NORMAL["f8E4M3FN"], 128),
    "E4M3+expand, 32": stretched("f8E4M3FN", NORMAL["f8E4M3FN"], 32),
    "E4M3+expand R = 229376, 32": stretched("f8E4M3FN", WHOLE["f8E4M3FN"], 32),
    "E5M2+expand, 128": stretched("f8E5M2", NORMAL["f8E5M2"], 128),
    "E5M2+expand, 64": stretched("f8E5M2", NORMAL["f8E5M2"], 64),
    "E5M2+expand, 32": stretched("f8E5M2", NORMAL["f8E5M2"], 32),
    "E5M2+expand, 32, f32 scale": stretched("f8E5M2", NORMAL["f8E5M2"], 32, "f32"),
    "E5M2, stochastic, 32": scaled(minifloat(5, 2), 32, "f32"),
    "E3M4, stochastic, 32": scaled(minifloat(3, 4), 32, "f32"),
    "DE8, 128": scaled(UNSIGNED, 128, "f32"),
    "DE8, 32": scaled(UNSIGNED, 32, "f32"),
    "root, 128": scaled(ROOT, 128, "f32"),
    "root, 64": scaled(ROOT, 64, "f32"),
    "root, 32": scaled(ROOT, 32, "f32"),
    "root, 32, f16 scale": scaled(ROOT, 32, "f16"),
    "root, 16": scaled(ROOT, 16, "f32"),
    "E4M3 x 2, 128": scaled("#scaled.pair<f8E4M3FN>", 128, "f32"),
    "E5M10, stochastic, 128": scaled(minifloat(5, 10), 128, "f32"),
    "f16, the tensor's scale": ("#tandem.scaled<#scaled.float<f16>, group = tensor, "
                                "scale = f32>"),
    "f16, 128": scaled("#scaled.float<f16>", 128, "f32"),
}
BETA2 = (0.999, 0.95)
TENSORS = {"weight": WEIGHTS, "gradient": GRADIENTS, "first": FIRST, "second": SECOND}


def write_strategy(folder: pathlib.Path, name: str, storages: dict[str, str]) -> None:
    """Writes a strategy with these storages, and f32 for tensors without one."""
    of = {tensor: storages.get(tensor, F32) for tensor in TENSORS}
    (folder / f"{name}.mlir").write_text(f"""
tandem.strategy @{name} compute(<f32, f32>) {{
  tandem.assign param = {of["weight"]}
  tandem.assign grad = {of["gradient"]}
  tandem.assign state moment(second) = {of["second"]}
  tandem.assign state = {of["first"]}
}}""")


def along(ends: list, exact: list, start: list) -> float:
    """Returns the projection of the path to `ends` onto that to `exact`, relative to the latter."""
    pairs = [(b - c, a - c) for a, b, c in zip(ends, exact, start)]
    went = sum(float((wanted * found).sum()) for wanted, found in pairs)
    return went / sum(float(wanted.square().sum()) for wanted, _ in pairs)


class Recorded:
    """Streams of the same gradients by beta2, and the weights that AdamW in f64 reaches."""

    PARTS = {"table": slice(0, 1), "matrices": slice(1, None)}

    def __init__(self, corpus, setting):
        progress = Progress(f"seed {setting.seed}", setting.stream_steps)
        recorded = stream.record(corpus, setting, progress)
        self.streams = {}
        for beta2 in BETA2:
            hyper = dataclasses.replace(recorded.hyper,
                                        betas=(recorded.hyper.betas[0], beta2))
            one = dataclasses.replace(recorded, hyper=hyper)
            self.streams[f"{beta2:g}"] = one, stream.reference(one)

    def errors(self, strategy: str, path: list[str]) -> dict[str, dict[str, float]]:
        """Returns a strategy's final distance from f64's weights, relative to how far those moved.

        `along` is the projection of the strategy's path onto that of f64; 1 is perfect.
        """
        found = {}
        for beta2, (one, exact) in self.streams.items():
            ends = stream.replay_weights(strategy, one, path)[0]
            found[beta2] = {part: stream.relative_error(ends[of], exact[of],
                                                        one.weights[of])
                            for part, of in self.PARTS.items()}
            found[beta2]["along"] = along(ends, exact, one.weights)
        return found


def compare(recorded: list[Recorded], strategy: str, path: list[str]) -> dict:
    """Returns a strategy's errors: beta2 -> kind of tensor -> list over the seeds."""
    kernel = tandem.compile("adamw", strategy, path=path)
    found = [one.errors(strategy, path) for one in recorded]
    errors = {beta2: {part: [one[beta2][part] for one in found] for part in parts}
              for beta2, parts in found[0].items()}
    print(f"{strategy}: {errors}", flush=True)
    return {"bytes_per_parameter": kernel.bytes_per_parameter, "errors": errors}


def compare_storages(recorded: list[Recorded], tensors: dict = TENSORS) -> dict:
    """Compares each storage of each tensor, with all other tensors in f32."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for tensor, storages in tensors.items():
            found[tensor] = {}
            for index, (name, storage) in enumerate(storages.items()):
                strategy = f"{tensor}_{index}"
                write_strategy(pathlib.Path(folder), strategy, {tensor: storage})
                found[tensor][name] = compare(recorded, strategy, [folder])
        return found


def compare_strategies(recorded: list[Recorded], names: list[str], path) -> dict:
    """Compares the strategies that work with the demo's settings."""
    found = {}
    for name in names:
        try:
            check_strategy(name, path)
        except (RuntimeError, ValueError) as error:
            print(f"without {name}: {error}", flush=True)
            continue
        found[name] = compare(recorded, name, path)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the demo's small model")
    parser.add_argument("--steps", type=int, default=1000, help="of a stream")
    parser.add_argument("--seeds", type=int, default=3, help="streams")
    parser.add_argument("--path", action="append", metavar="FOLDER",
                        help="with strategies beside the library's")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of the result (default: %(default)s)")
    options = parser.parse_args()
    path, corpus = options.path or [str(FOLDER)], load_corpus()
    recorded = []
    for seed in range(options.seeds):
        setting = dataclasses.replace(config(options.quick, options.steps, seed),
                                      stream_steps=options.steps)
        recorded.append(Recorded(corpus, setting))
    one, _ = recorded[0].streams[f"{BETA2[0]:g}"]
    save("accumulated", {
        "steps": options.steps, "seeds": options.seeds, "lr": one.hyper.lr,
        "weights": one.numel(),
        "storages": compare_storages(recorded),
        "strategies": compare_strategies(recorded, strategies(path), path),
    }, options.results)


if __name__ == "__main__":
    main()
