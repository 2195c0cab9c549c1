#===- test_distributed_example.py - The example for ranks ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that examples/distributed trains under each wrapper and gets the bits of one
# process.
#
#===----------------------------------------------------------------------===#

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

SCRIPT = Path(__file__).parents[4] / "examples/distributed/train.py"


def run(wrapper, ranks, strategy):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               f"--nproc-per-node={ranks}", SCRIPT, f"--wrapper={wrapper}", "--steps=3",
               f"--strategy={strategy}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300,
                          env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert f"{ranks} ranks: the steps' bits are those of one process" in done.stdout


@pytest.mark.parametrize("wrapper", ("ddp-fp8", "tensor"))
def test_two_ranks(wrapper):
    run(wrapper, 2, "coat")


@pytest.mark.parametrize("wrapper, ranks", (("zero", 3), ("fsdp2", 1), ("fsdp2", 4)))
def test_other_numbers_of_ranks(wrapper, ranks):
    run(wrapper, ranks, "collage-plus")
