#===- test_torch_gpu_ranks.py - Sums over ranks on GPUs --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers over DTensors on GPUs whose steps reduce over ranks: weights and states
# have the bits of one process on the CPU.
#
#===----------------------------------------------------------------------===#

import re

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from support.gloo import run_ranks
from support.gpu_ranks import CASES


def test_has_the_bits_of_one_process(tmp_path):
    found = run_ranks("support.gpu_ranks", ["on_gpus", "captured", "not_finite"], 2, tmp_path)
    assert found["on_gpus"] == [{name: [] for name in CASES}] * 2
    for error, untouched in found["captured"]:
        assert untouched and re.match(
            "RuntimeError: adamw_clip reduces parameters over ranks, which the host exchanges .*"
            "; take it outside of the graph", error), error
    assert found["not_finite"] == [[[True, True], [False, False]]] * 2
