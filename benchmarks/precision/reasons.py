#===- reasons.py - Why orderings of the paper fail here --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the reasons why orderings of the paper fail at toy size.
#
#===----------------------------------------------------------------------===#
"""Reasons by the names of the checks in checks.py; papers.sh --check asks for them."""

REASONS: dict[str, str] = {
    "exponents-fail":
        "E7M7 gives the same losses as E8M7 here, bit for bit: the magnitudes of all factors, results "
        "and gradients of linear layers lie far within what E7 holds (the last two columns of the "
        "table), so that the masks clamp none. A failure needs magnitudes beyond 2^64 or so, which "
        "the paper does not report. With E5M7 and fewer exponent bits runs do fail here.",
    "exponents-outside":
        "No magnitude reaches E7's largest number. With fewer bits it is the other end that matters: "
        "E4M7 fails clamped inside and trains clamped outside, since it raises every gradient "
        "below 2^-6 to 2^-6, and nothing exceeds its largest number, 255.",
}
