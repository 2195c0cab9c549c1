#===- __init__.py - Support for tests of kernels --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the package of test support modules.
#
#===----------------------------------------------------------------------===#
"""Compiles and launches kernels, compares bits, and generates graphs."""
