#===- conftest.py - Choices of the benchmarks' tests -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lets these tests run under --quick and --whole, as those of test/Python do.
#
#===----------------------------------------------------------------------===#

pytest_plugins = ["support.selection", "support.shared"]
