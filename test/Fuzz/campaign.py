#===- campaign.py - Options and seeds of random tests ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements what the random tests share.
#
#===----------------------------------------------------------------------===#
"""Implements the options of a random test, and its seeds."""

import argparse
import time
from pathlib import Path


def parser(description):
    """Returns a parser for the options that :func:`seeds` reads and the folder of findings."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--seconds", type=float, default=60)
    made.add_argument("--count", type=int, help="how many seeds at most")
    made.add_argument("--first", type=int, default=1000, help="the first seed")
    made.add_argument("--findings", type=Path, default=Path("."))
    return made


def seeds(options):
    """Yields seeds from the first one on, until the time or their number is used up."""
    end, seed = time.monotonic() + options.seconds, options.first
    while time.monotonic() < end and (
            options.count is None or seed < options.first + options.count):
        yield seed
        seed += 1
