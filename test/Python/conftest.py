#===- conftest.py - Fixtures of the Python tests ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the fixtures that several test files use.
#
#===----------------------------------------------------------------------===#

import pytest

import model
from support import kernels

pytest_plugins = ["support.selection", "support.shared"]


@pytest.fixture(scope="session")
def scaled_path(tmp_path_factory):
    """A directory of strategy files: those with scales that the library lacks."""
    directory = tmp_path_factory.mktemp("scaled")
    kernels.write_strategies(directory, {
        name: strategy for name, strategy in model.SCALED_STRATEGIES.items()
        if name not in model.SCALED_LIBRARY})
    return str(directory)
