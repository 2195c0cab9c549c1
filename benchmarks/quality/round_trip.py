#===- round_trip.py - Values through a storage ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file stores an array and reads it back with compiled kernels only.
#
#===----------------------------------------------------------------------===#
"""Stores arrays in a storage of Tandem and reads them back."""

import functools
import pathlib
import tempfile

import numpy as np
import tandem

_COPY = """
func.func @copy(%x: tensor<?xf32> {tandem.role = #tandem.role<param "x">},
                %y: tensor<?xf32> {tandem.role = #tandem.role<grad "y">})
    -> tensor<?xf32> {
  return %y : tensor<?xf32>
}"""
_WIDE = "#tandem.float<f32>"

_folder = tempfile.TemporaryDirectory()


def scaled(code: str, group: int = 128, scale: str = "bf16") -> str:
    """Returns the storage of a code in groups, by default with COAT's groups and scales."""
    return f"#tandem.scaled<{code}, group = {group}, scale = {scale}>"


def expanded(code: str, ratio: float) -> str:
    """Returns a code with dynamic range expansion."""
    return f"#scaled.expanded<{code}, range = {float(ratio)!r}>"


@functools.lru_cache(maxsize=None)
def _strategy(storage: str) -> str:
    """Writes a strategy file for the storage, if there is none, and returns its name."""
    name = f"storage_{_strategy.cache_info().misses}"
    pathlib.Path(_folder.name, f"{name}.mlir").write_text(f"""
tandem.strategy @{name} compute(<f32, f32>) {{
  tandem.assign param = {storage}
  tandem.assign grad = {_WIDE}
}}""")
    return name


def _convert(planes: dict, source: str, target: str) -> dict:
    return tandem.convert_state(_COPY, planes, _strategy(source), _strategy(target),
                                path=[_folder.name])


def encode(storage: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the planes of an f32 array: "x", "x.scale" and so on."""
    return _convert({"x": np.ascontiguousarray(values, np.float32)}, _WIDE, storage)


def decode(storage: str, planes: dict[str, np.ndarray]) -> np.ndarray:
    """Decodes planes to f32."""
    return _convert(planes, storage, _WIDE)["x"]


def round_trip(storage: str, values: np.ndarray) -> np.ndarray:
    """Returns the values of an f32 array after it is stored and read back."""
    return decode(storage, encode(storage, values))
