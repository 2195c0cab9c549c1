# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's table, its numbers as JSON, and its plot."""

from __future__ import annotations

import dataclasses
import json
import platform
import statistics
from pathlib import Path

import torch

from plot import draw
from stream import StreamError
from train import Config, Record

COLUMNS = (
    "strategy",
    "bytes/param",
    "saved KiB",
    "optimizer ms",
    "train loss",
    "val. loss",
    "EDQ ratio",
    "lost updates",
    "stream error",
)
LEGEND = """\
saved KiB: the activations of a batch that autograd keeps for the backward pass.
optimizer ms: median time of only the optimizer's step, without metrics.
train loss: mean over the last twentieth of the run; losses in nats/character.
EDQ ratio, lost updates: mean over all steps of the training.
stream error: distance of the weights, with all that a strategy keeps of them,
from float64 AdamW on the recorded gradients, over the distance it moved."""


def stream_line(strategy: str, error: StreamError) -> str:
    """Formats one strategy's errors on the gradient stream."""
    return (
        f"  {strategy:<27} stored weight {error.stored:9.2e}"
        f"   visible weight {error.visible:9.2e}"
    )


def row(record: Record, error: StreamError) -> list[str]:
    """Returns a strategy's cells in the order of COLUMNS."""
    return [
        record.strategy,
        f"{record.bytes_per_parameter:g}",
        f"{record.saved_bytes / 1024:.0f}",
        f"{record.optimizer_ms:.2f}",
        f"{record.final_train_loss():.4f}",
        f"{record.validation_loss[-1]:.4f}",
        f"{statistics.fmean(record.edq_ratio):.4f}",
        f"{100 * statistics.fmean(record.lost_share):.1f} %",
        f"{error.stored:.1e}",
    ]


def plain_table(rows: list[list[str]]) -> str:
    """Formats a plain table: the first column is left-aligned, numbers are
    right-aligned."""
    table = [list(COLUMNS), *rows]
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = []
    for cells in table:
        first = cells[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])]
        lines.append("  ".join([first, *rest]))
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def markdown_table(rows: list[list[str]]) -> str:
    """Formats the table in Markdown."""
    rule = [":---"] + ["---:"] * (len(COLUMNS) - 1)
    lines = [list(COLUMNS), rule, *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def headline(config: Config, records: list[Record], seconds: float) -> str:
    """Describes the run in two lines."""
    shape, hyper = config.shape, config.hyper
    return (
        f"{records[0].parameters} parameters (width {shape.width}, "
        f"{shape.layers} layers, context {shape.context}), "
        f"{config.steps} steps of {config.batch * shape.context} characters;\n"
        f"AdamW, lr {hyper.lr:g} to {hyper.final_lr:g}, betas {hyper.betas}, "
        f"weight decay {hyper.weight_decay:g}, seed {config.seed}; "
        f"{torch.get_num_threads()} threads, {seconds:.0f} s."
    )


def as_json(
    config: Config,
    records: list[Record],
    errors: dict[str, StreamError],
    seconds: float,
) -> str:
    """Returns every number that the table and the plot show, as JSON."""
    results = [
        dataclasses.asdict(record)
        | {
            "final_train_loss": record.final_train_loss(),
            "stream_error": dataclasses.asdict(errors[record.strategy]),
        }
        for record in records
    ]
    document = {
        "config": dataclasses.asdict(config),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "seconds": seconds,
        "results": results,
    }
    return json.dumps(document) + "\n"


def write(
    folder: Path,
    config: Config,
    records: list[Record],
    errors: dict[str, StreamError],
    seconds: float,
) -> None:
    """Prints the table and writes demo.md, demo.json and demo.png."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row(record, errors[record.strategy]) for record in records]
    about = headline(config, records, seconds)
    print(f"\n{about}\n\n{plain_table(rows)}\n\n{LEGEND}")
    markdown = f"{about}\n\n{markdown_table(rows)}\n\n{LEGEND}\n"
    (folder / "demo.md").write_text(markdown)
    (folder / "demo.json").write_text(as_json(config, records, errors, seconds))
    draw(folder / "demo.png", records, errors)
    names = ", ".join(str(folder / f"demo.{kind}") for kind in ("md", "json", "png"))
    print(f"\nwritten: {names}")
