#===- build_example.py - Programs that tests run ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file builds the C and C++ examples as their users do, with CMake.
#
#===----------------------------------------------------------------------===#
"""Builds C and C++ examples with CMake."""

import subprocess
from collections.abc import Sequence
from pathlib import Path


def build_example(source: Path, build: Path, headers: Sequence[Path],
                  libraries: Sequence[Path]) -> Path:
    """Builds an example without warnings and returns the folder that contains its program."""
    paths = {"INCLUDE": headers, "LIBRARY": libraries}
    subprocess.run(["cmake", "-S", source, "-B", build,
                    *(f"-DCMAKE_{kind}_PATH={';'.join(map(str, found))}"
                      for kind, found in paths.items()),
                    *(f"-DCMAKE_{language}_FLAGS=-Wall -Wextra -Werror -pedantic"
                      for language in ("C", "CXX")), "--no-warn-unused-cli"],
                   check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    return build
