#===- test_error_fields.py - Attributes of errors -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the attributes of errors: the kind, the parts of the message, the location and the
# operation.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem


def error_of(call, *arguments, **options):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **options)
    error = caught.value
    assert "".join(text for *_, text in error.parts) == str(error)
    return error


def test_kinds():
    def kind(**options):
        return error_of(tandem.compile, **({"graph": "adamw", "strategy": "fp32"} | options)).kind

    assert kind(graph="adamx") == "graph"
    assert kind(graph="absent.mlir") == "io"
    assert kind(strategy="fp33") == "strategy"
    assert kind(target="sm_none") == "target"
    assert kind(isa="x86-64-v9") == "target"
    assert error_of(tandem.load, "absent.tdm").kind == "io"


def test_parts_of_a_strategy(tmp_path):
    (tmp_path / "mine.mlir").write_text(
        "tandem.strategy @mine compute(<component, bf16>) {\n"
        "  tandem.assign grad = #tandem.remainder\n"
        "  tandem.assign param = #tandem.float<bf16>\n"
        "  tandem.assign state = #tandem.float<bf16>\n}\n")
    error = error_of(tandem.compile, "adamw", "mine", path=[tmp_path])
    assert error.kind == "strategy"
    named = [(kind, text) for kind, _, text in error.parts if kind != "text"]
    assert named == [("strategy", "mine"), ("role", "grad"),
                     ("storage", "#tandem.remainder")]


def test_place_in_a_strategy(tmp_path):
    path = tmp_path / "mine.mlir"
    path.write_text("tandem.strategy @mine compute(<f32, f32>) {\n  none.such\n}\n")
    error = error_of(tandem.compile, "adamw", "mine", path=[tmp_path])
    assert (error.kind, error.file, error.line, error.column) == (
        "strategy", str(path), 2, 3)


def test_operation_of_an_error():
    error = error_of(tandem.compile, "func.func @f(%x: i32) {\n"
                     "  \"func.return\"(%x) : (i32) -> ()\n}\n", "fp32")
    assert (error.file, error.line, error.operation) == ("graph", 2, "func.return")


def test_parts_of_a_launch():
    """Errors of the runtime have the same parts, without those that only a compiler knows."""
    kernel = tandem.compile("sgd", "fp32")
    arrays = {plane.name: np.ones(8, np.float32) for plane in kernel.planes}
    error = error_of(kernel, arrays, lr=-1.0)
    assert ("hyper", 0, "lr") in error.parts and ("row", 0, "row 0") in error.parts
    assert not hasattr(error, "kind")
