#===- test_torch_ranks.py - Wrappers of several ranks ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers under PyTorch's distributed wrappers: each cell of the table has the
# bits of one process, or raises an error that names the remedy.
#
#===----------------------------------------------------------------------===#

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.gloo import start_ranks
from support.torch_bits import bits, parameters
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

PLAIN, CODES = "collage-plus", "fp8-lm"
#: All strategies that store gradients in codes.
CODED = ("dither-softsign-root", "fp8-collage-light", "fp8-collage-plus", "fp8-lm",
         "residual-softsign-f16", "residual-softsign-root")
MODES = ("clip", "accumulate", "no_sync", "find_unused", "static_graph", "bucket_view")
RIGHT = "right"


@dataclass(frozen=True)
class Cell:
    """A model, a way to train it, and the outcome: the reference's bits, or an error with this
    text."""

    wrapper: str
    strategy: str = PLAIN
    mode: str = "plain"
    optimizer: str = "AdamW"
    options: dict = field(default_factory=dict)
    expected: str = RIGHT

    @property
    def title(self):
        extra = [*self.options, *([self.optimizer] if self.optimizer != "AdamW" else [])]
        return "-".join([self.wrapper, self.strategy, self.mode, *extra])


def cells_of(wrapper, strategies, modes, **more):
    return [Cell(wrapper, s, m, **more) for s in strategies for m in modes]


RELEASE, MAX_NORM = {"gradient_release": True}, {"max_norm": 1.0}
NO_GRADIENT = r"step\(\) finds no gradient in any of the optimizer's 4 parameters.*{}.*" \
    r"create the optimizer after that, from model.parameters\(\)"
SHARDED = "ValueError: parameter 0 is sharded by FSDP1, and each rank would compute {} " \
    "from its own shard.*'collage-plus'.*whole parameters, with DistributedDataParallel"
CELLS = [
    *cells_of("DDP", CODED, ["plain"]),
    *cells_of("DDP", [PLAIN], ["plain"]),
    *cells_of("DDP", [PLAIN, CODES, "dither-softsign-root"], MODES),
    *cells_of("DDP", [PLAIN, CODES], ["plain", "no_sync"], options=MAX_NORM),
    *cells_of("DDP", [PLAIN], ["plain"], optimizer="LAMB"),
    *cells_of("DDP", [PLAIN], ["plain"], optimizer="Adafactor"),
    *cells_of("DDP after the optimizer", [PLAIN, CODES], ["plain"]),
    *cells_of("DDP, decode_weights", ["fp8-collage-plus"], ["plain", "no_sync"]),
    *cells_of("DDP", [PLAIN, CODES], ["plain", "find_unused", "static_graph"],
              options=RELEASE, expected="RuntimeError: gradient_release=True takes the step "
              ".* before DistributedDataParallel averages.*leave gradient_release out"),
    *cells_of("DDP, GradientAllReduce", [CODES], ["never averaged"]),
    *cells_of("DDP, GradientAllReduce", [CODES], ["plain", "no_sync", "bucket_view"],
              expected=r"RuntimeError: DistributedDataParallel has averaged gradients that "
              r"GradientAllReduce sends in codes.*inside of the model's no_sync\(\)"),
    *cells_of("ZeRO", [PLAIN, CODES, "fp8-collage-plus"],
              ["plain", "clip", "accumulate", "no_sync", "bucket_view"]),
    *cells_of("ZeRO", [PLAIN], ["plain"], optimizer="LAMB"),
    *cells_of("ZeRO", [PLAIN], ["plain"], optimizer="Adafactor"),
    *cells_of("ZeRO", [PLAIN, CODES], ["plain"], options=MAX_NORM, expected="ValueError: "
              "adamw_clip sums over all parameters, and ZeroRedundancyOptimizer gives each "
              "rank some of them; leave max_norm out, and clip with .*clip_grad_norm_"),
    *cells_of("ZeRO", [PLAIN], ["plain"], options=RELEASE,
              expected="RuntimeError: gradient_release=True .* leave gradient_release out"),
    *cells_of("FSDP1", [PLAIN, "fp8-collage-plus"], ["plain", "accumulate", "no_sync"]),
    *cells_of("FSDP1, flat", [PLAIN, "fp8-collage-plus"],
              ["plain", "accumulate", "no_sync"]),
    *[Cell(wrapper, strategy, optimizer=optimizer, options=options,
           expected=SHARDED.format(what))
      for wrapper in ("FSDP1", "FSDP1, flat")
      for strategy, optimizer, options, what in (
          (CODES, "AdamW", {}, "the scales that strategy 'fp8-lm' has for each tensor"),
          (PLAIN, "AdamW", MAX_NORM, r"adamw_clip's sum over all parameters \(max_norm\)"),
          (PLAIN, "LAMB", {}, "lamb's sums over each tensor"),
          (PLAIN, "Adafactor", {}, "adafactor_vector's sums over each tensor"))],
    *[Cell(wrapper, options=RELEASE, expected="ValueError: parameter 0 is sharded by FSDP1, "
           "which averages its gradient after gradient_release=True would have taken the "
           "step; leave it out")
      for wrapper in ("FSDP1", "FSDP1, flat")],
    Cell("FSDP1, decode_weights", "fp8-collage-plus", expected=r"ValueError: parameter \d "
         "is sharded by FSDP1, .*; leave decode_weights out"),
    Cell("FSDP2", CODES, options=MAX_NORM),
    Cell("FSDP2", optimizer="LAMB"), Cell("FSDP2", optimizer="Adafactor"),
    Cell("FSDP2", options=RELEASE, expected="ValueError: parameter 0 is a DTensor, whose gradient "
         "ranks reduce after gradient_release=True would have taken the step; leave it out"),
    Cell("FSDP2, decode_weights", "fp8-collage-plus", expected=r"ValueError: parameter \d is a "
         "DTensor, whose weights fully_shard gathers and frees itself; leave decode_weights out"),
    *[Cell(wrapper, strategy, expected=expected)
      for strategy in (PLAIN, CODES, "fp8-collage-plus")
      for wrapper, expected in (
          ("FSDP2", RIGHT),
          ("FSDP2 after the optimizer",
           NO_GRADIENT.format("no backward pass has reached them")),
          ("DTensor, local", NO_GRADIENT.format("none of them requires one")))],
]


def run_cells(folder, numbers):
    """Writes the outcomes of these cells on each rank."""
    cells = {number: asdict(CELLS[number]) for number in numbers}
    (folder / "cells.json").write_text(json.dumps(cells))
    script = Path(__file__).parents[2] / "support" / "rank_cells.py"
    start_ranks(script, 2, folder, timeout=400)


@pytest.fixture(scope="module")
def results(request, made_once):
    """Returns the outcome of each cell that this session runs, on both ranks."""
    numbers = [item.callspec.params["number"] for item in request.session.items
               if item.path == request.path and item.originalname == "test_cell"]
    folder = made_once("ranks", lambda folder: run_cells(folder, numbers))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("number", range(len(CELLS)),
                         ids=[cell.title for cell in CELLS])
def test_cell(number, results):
    expected = CELLS[number].expected
    for rank in results:
        if expected == RIGHT:
            assert rank[str(number)] == RIGHT
        else:
            assert re.search(expected, rank[str(number)]), rank[str(number)]


#===----------------------------------------------------------------------===#
# Gradients that stay in p.grad
#===----------------------------------------------------------------------===#


@pytest.fixture
def one_rank():
    """Makes this process the only rank."""
    def begin():
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

    yield begin
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def backward(params):
    for i, p in enumerate(params):
        (p * torch.arange(p.numel()).view(p.shape).bfloat16() * 0.37 * (i + 1)).sum().backward()


def test_a_step_releases_what_it_has_encoded(one_rank):
    """With ranks, bits do not change, and a step still needs no zero_grad after it."""
    def train():
        params = parameters([(9, 31), (40,)], torch.bfloat16)
        optimizer = tt.AdamW(params, strategy=CODES, min_8bit_size=0)
        for _ in range(2):
            backward(params)
            left = [p.grad is not None for p in params]
            optimizer.step()
            assert all(p.grad is None for p in params)
        return left, [bits(p) for p in params]

    alone, want = train()
    one_rank()
    ranked, got = train()
    assert alone == [False] * 2 and ranked == [True] * 2
    assert all(map(np.array_equal, want, got))


def test_codes_go_on_as_codes(one_rank):
    """Starting ranks between two passes does not lose the first one."""
    sums = []
    for begins in (False, True):
        params = parameters([(9, 31)], torch.bfloat16)
        optimizer = tt.AdamW(params, strategy=CODES, min_8bit_size=0)
        backward(params)
        if begins:
            one_rank()
        backward(params)
        assert params[0].grad is None
        sums.append(bits(optimizer.gradient(params[0])))
    assert np.array_equal(*sums)


def test_all_reduce_takes_codes(one_rank):
    one_rank()
    params = parameters([(9, 31)], torch.bfloat16)
    optimizer = tt.AdamW(params, strategy=CODES, min_8bit_size=0)
    tt.GradientAllReduce(optimizer)
    backward(params)
    assert params[0].grad is None and optimizer.gradient(params[0]) is not None


def test_parameters_that_ddp_ignores(one_rank):
    """DDP does not average them, so backward passes may take their steps."""
    one_rank()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).bfloat16()
    DDP = torch.nn.parallel.DistributedDataParallel
    DDP._set_params_and_buffers_to_ignore_for_model(model, ["0.weight", "0.bias"])
    wrapped = DDP(model)
    for layer, allowed in ((model[0], True), (model[1], False)):
        optimizer = tt.AdamW(layer.parameters(), gradient_release=True)
        loss = wrapped(torch.ones(2, 8, dtype=torch.bfloat16)).sum()
        if allowed:
            loss.backward()
            optimizer.step()
            continue
        with pytest.raises(RuntimeError, match="before DistributedDataParallel averages"):
            loss.backward()


#===----------------------------------------------------------------------===#
# The table in docs/Torch.md
#===----------------------------------------------------------------------===#

#: The wrappers of each row of the table.
ROWS = {
    "`DistributedDataParallel`": ("DDP", "DDP after the optimizer", "DDP, decode_weights"),
    "`ZeroRedundancyOptimizer`": ("ZeRO",),
    "`FullyShardedDataParallel` (FSDP1)": (
        "FSDP1", "FSDP1, flat", "FSDP1, decode_weights"),
    "`fully_shard` (FSDP2)": ("FSDP2", "FSDP2, decode_weights"),
    "an optimizer created before `fully_shard`, or of a DTensor's local tensors": (
        "FSDP2 after the optimizer", "DTensor, local"),
}
PER_TENSOR = ("fp8-lm",)


def column_of(cell):
    """Returns the column of the table that a cell belongs to."""
    if cell.wrapper.endswith("decode_weights"):
        return "`decode_weights`"
    if cell.options:
        return f"`{next(iter(cell.options))}`"
    if cell.optimizer != "AdamW":
        return f"`{cell.optimizer}`"
    return ("plain gradients" if cell.strategy not in CODED else
            "in codes, a scale for each tensor" if cell.strategy in PER_TENSOR else
            "in codes")


def outcome(wrappers, column):
    """Returns the table's text for some wrappers; cells of one column must agree."""
    found = {"right" if cell.expected == RIGHT else
             "error" if "Error" in cell.expected else "warning"
             for cell in CELLS if cell.wrapper in wrappers and column_of(cell) == column}
    assert len(found) <= 1, f"{wrappers}, {column}"
    return found.pop() if found else ""


def test_table():
    text = (Path(__file__).parents[4] / "docs" / "Torch.md").read_text(encoding="utf-8")
    lines = text[text.index("## Wrappers of several ranks"):].split("\n")
    head, _, *rows = [[part.strip() for part in line.strip("|").split("|")]
                      for line in lines if line.startswith("|")][:2 + len(ROWS)]
    assert {column_of(cell) for cell in CELLS} == set(head[1:])
    assert [row[0] for row in rows] == list(ROWS)
    for name, *given in rows:
        assert given == [outcome(ROWS[name], column) for column in head[1:]], name
