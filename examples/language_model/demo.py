# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small language model under several precision strategies.

First every strategy is held against float64 AdamW on a recorded stream of
gradients, then every strategy trains the same model on the same batches. One
table and one plot show the result.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
import warnings
from pathlib import Path

import torch

import report
import stream
from data import Corpus, load_corpus
from model import ModelShape
from optimizers import (
    ALL_STRATEGIES,
    DEFAULT_STRATEGIES,
    Hyperparameters,
    check_strategy,
)
from progress import Progress, put_warnings_on_lines_of_their_own
from train import Config, Record, train

FULL = Config(
    shape=ModelShape(width=96, layers=2, heads=4, context=64),
    batch=16,
    steps=1500,
    validate_every=150,
    validation_batches=32,
    stream_steps=1000,
    hyper=Hyperparameters(lr=2e-3, final_lr=2e-5, warmup=50),
)
QUICK = Config(
    shape=ModelShape(width=64, layers=1, heads=4, context=32),
    batch=16,
    steps=300,
    validate_every=100,
    validation_batches=16,
    stream_steps=300,
    hyper=Hyperparameters(lr=1e-3, final_lr=1e-5, warmup=20),
)


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--strategies",
        metavar="A,B,...",
        help="strategies to compare, STRATEGY+RECIPE for one with compressed "
        f"activations, or `all` (default: {','.join(DEFAULT_STRATEGIES)}; "
        "with --quick all)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a smaller model and fewer steps"
    )
    parser.add_argument("--steps", type=int, help="training steps per strategy")
    parser.add_argument("--seed", type=int, default=0, help="weights and batches")
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads that torch uses (default: the CPUs of this process)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("output"),
        help="folder for the table, the numbers and the plot (default: %(default)s)",
    )
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    return arguments


def check_arguments(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> None:
    """Rejects numbers out of range."""
    if arguments.steps is not None and arguments.steps < 10:
        parser.error(f"--steps {arguments.steps}: give at least 10 steps")
    if arguments.threads < 1:
        parser.error(f"--threads {arguments.threads}: give at least 1 thread")


def chosen_strategies(text: str | None, quick: bool) -> list[str]:
    """Returns the strategies of the command line, each checked by running it once.

    "all" omits strategies that refuse the demo's settings; a strategy that is named
    must work.
    """
    takes_all = text == "all" or (text is None and quick)
    if takes_all:
        names = list(ALL_STRATEGIES)
    elif text is None:
        names = list(DEFAULT_STRATEGIES)
    else:
        names = list(dict.fromkeys(filter(None, text.split(","))))
    if not names:
        raise SystemExit("error: --strategies is empty; name some, or say `all`")
    usable = []
    for name in names:
        try:
            check_strategy(name)
            usable.append(name)
        except (RuntimeError, ValueError) as error:
            if not takes_all:
                raise SystemExit(f"error: strategy '{name}': {error}") from None
            print(f"without {name}: {error}", flush=True)
    return usable


def make_config(arguments: argparse.Namespace) -> Config:
    """Returns the configuration that the command line selects."""
    config = QUICK if arguments.quick else FULL
    steps = arguments.steps or config.steps
    return dataclasses.replace(
        config,
        steps=steps,
        validate_every=min(config.validate_every, steps),
        stream_steps=min(config.stream_steps, steps),
        hyper=dataclasses.replace(
            config.hyper, warmup=min(config.hyper.warmup, steps // 5)
        ),
        seed=arguments.seed,
    )


def measure_stream(
    strategies: list[str], corpus: Corpus, config: Config
) -> dict[str, stream.StreamError]:
    """Records the gradient stream and replays it under every strategy."""
    print("1. Error against float64 AdamW on one recorded gradient stream")
    recording = Progress("recording", config.stream_steps)
    recorded = stream.record(corpus, config, recording)
    exact = stream.reference(recorded)
    errors = {}
    for name in strategies:
        errors[name] = stream.replay(name, recorded, exact)
        print(report.stream_line(name, errors[name]), flush=True)
    return errors


def train_all(strategies: list[str], corpus: Corpus, config: Config) -> list[Record]:
    """Trains under every strategy in turn."""
    print(f"\n2. Training: {config.steps} steps, same seed, same batches")
    return [
        train(name, corpus, config, Progress(name, config.steps)) for name in strategies
    ]


def main() -> None:
    """Runs the demo."""
    arguments = parse_arguments()
    put_warnings_on_lines_of_their_own()
    # The demo clips no gradients.
    warnings.filterwarnings("ignore", ".*stores gradients in codes.*clip nothing")
    start = time.monotonic()
    torch.set_num_threads(arguments.threads)
    strategies = chosen_strategies(arguments.strategies, arguments.quick)
    config = make_config(arguments)
    corpus = load_corpus()
    errors = measure_stream(strategies, corpus, config)
    records = train_all(strategies, corpus, config)
    seconds = time.monotonic() - start
    report.write(arguments.output, config, records, errors, seconds)


if __name__ == "__main__":
    main()
