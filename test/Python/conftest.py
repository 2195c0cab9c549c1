#===- conftest.py - Fixtures of the Python tests ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements fixtures for several test files.
#
#===----------------------------------------------------------------------===#

import pytest

import model
from support import kernels

pytest_plugins = ["support.selection", "support.shared"]


@pytest.fixture(scope="session")
def scaled_path(tmp_path_factory):
    """Returns a folder with strategy files that have scales and are not in the library."""
    directory = tmp_path_factory.mktemp("scaled")
    kernels.write_strategies(directory, {
        name: strategy for name, strategy in model.SCALED_STRATEGIES.items()
        if name not in model.SCALED_LIBRARY})
    return str(directory)
