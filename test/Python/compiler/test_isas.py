#===- test_isas.py - Instruction sets of CPUs -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests which instruction sets a kernel may be compiled for, and what "native" means.
#
#===----------------------------------------------------------------------===#
"""Instruction sets of CPUs."""

import platform

import pytest

import tandem
from support.kernels import cpu_flags, require_isa


def refuse(*parts, isa):
    """Asserts that compilation for an instruction set fails with a message that has all parts."""
    with pytest.raises(ValueError) as caught:
        tandem.compile("adamw", "fp32", isa=isa)
    for part in parts:
        assert part in str(caught.value)


def test_unknown_isa():
    refuse("unknown instruction set 'avx9'", "native", "x86-64-v3",
                      isa="avx9")


def test_isa_of_another_machine():
    """Code that this machine cannot run is refused before any of it runs."""
    other = "x86-64" if platform.machine() in ("aarch64", "arm64") else "aarch64"
    refuse(f"this machine cannot run code for '{other}'", "another architecture",
                      "leave isa out", isa=other)


def test_isa_that_the_processor_lacks():
    """Each instruction set is compiled for, or refused by the name of what is missing."""
    for isa in ("x86-64-v3", "x86-64-v4"):
        try:
            require_isa(isa)
        except pytest.skip.Exception:
            refuse(f"this machine cannot run code for '{isa}'", "leave isa out",
                              isa=isa)
        else:
            assert tandem.compile("sgd", "fp32", isa=isa).isa == isa


def test_native_isa():
    """"native" stands for an instruction set that may be asked for, and for features of this
    processor."""
    isa, rest = tandem.compile("sgd", "fp32").isa.split(" ", 1)
    assert tandem.compile("sgd", "fp32", isa=isa).isa == isa
    processor, _, features = rest.strip("()").partition(": ")
    assert processor
    # Linux calls arithmetic in f16 on AArch64 otherwise than LLVM.
    flags = {{"fphp": "fullfp16"}.get(flag, flag.replace("_", "")) for flag in cpu_flags()}
    assert all(feature in flags for feature in features.split(", ") if feature)
    assert tandem.compile("sgd", "fp32", "sm_90").isa == "sm_90"
