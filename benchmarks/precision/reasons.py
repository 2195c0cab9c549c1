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
        "E7M7 gives the same losses as E8M7 here, digit for digit: after training, the magnitudes of "
        "all factors, results and gradients of linear layers lie far within what E7 holds (the last two "
        "columns of the table), so that the masks have nothing to clamp. A failure needs magnitudes "
        "beyond 2^64 or so, which the paper does not report. Clamped at both ends, E5M7, E4M7 and "
        "E3M7 do fail here.",
    "exponents-outside":
        "No magnitude reaches E7's largest number. With fewer bits it is the other end that matters: "
        "E4M7 fails clamped inside and trains clamped outside. Clamped inside, it raises all "
        "magnitudes below 2^-6 to 2^-6, and the gradient of each logit is at most 1/256, since the "
        "loss is a mean over 256 characters; its largest number, 255, is above all magnitudes "
        "of a run that trains.",
}
