#===- delayed.py - Strategies with delayed scales of gradients -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements user strategies for tests, in which gradients have scales with a history.
#
#===----------------------------------------------------------------------===#
"""Writes strategies in which the scale of a gradient depends on earlier gradients."""

import re
from pathlib import Path

from support.kernels import STRATEGY_PATH

_BUILT_IN = Path(__file__).resolve().parents[3] / "lib/Strategies"
_GRAD = ("assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, "
         "recipe = pow2, history = 16, margin = 1>")


def has_float_gradients(strategy):
    """Returns whether a built-in strategy stores gradients in floats, which can represent NaN,
    rather than in integer codes."""
    (grad,) = re.findall("assign grad = .*", (_BUILT_IN / f"{strategy}.mlir").read_text())
    return "softsign" not in grad


def takes_scaled_gradients(strategy):
    """Returns whether a built-in strategy computes in f32, as scaled gradients require; those
    with components compute in bf16."""
    return "compute(<f32, f32>)" in (_BUILT_IN / f"{strategy}.mlir").read_text()


def with_delayed_gradients(folder, strategy="fp8-lm-delayed"):
    """Writes a strategy whose gradient scales depend on earlier gradients; returns its name."""
    (path,) = [file for file in (STRATEGY_PATH / f"{strategy}.mlir",
                                 _BUILT_IN / f"{strategy}.mlir") if file.exists()]
    text, count = re.subn("assign grad = .*", _GRAD, path.read_text())
    assert count == 1
    text = re.sub('strategy @"?[^ "]*"?', 'strategy @"delayed"', text)
    (folder / "delayed.mlir").write_text(text)
    return "delayed"
