#===- reasons.py - Why orderings of the paper fail here --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the reasons why orderings of the paper fail at toy size.
#
#===----------------------------------------------------------------------===#
"""Reasons by the names of the checks in checks.py; papers.sh --check asks for them."""

REASONS: dict[str, str] = {}
