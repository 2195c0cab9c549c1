#===- sass_pipes.py - Pipes that instructions take -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the model of a multiprocessor: the pipe that executes a SASS instruction, the
# lanes that a pipe starts per cycle, and the number of resident blocks.
#
#===----------------------------------------------------------------------===#
"""Pipes and multiprocessors, as data.

Sources: lanes per cycle are the throughputs of arithmetic instructions in NVIDIA's CUDA C++
Programming Guide. The pipe of an instruction comes from Nsight Compute's Kernel Profiling Guide
and, for FP16, FMA heavy and FMA light, from posts of NVIDIA's engineers in its forum (GA100 has
a separate pipe for pairs of f16; GH100 executes them in both FMA pipes at once). Otherwise the
encoding decides: instructions that set a scoreboard, such as FCHK and F2F, do not use the ALU or
FMA pipes, while F2FP and I2FP set none. Two facts are assumed: IMAD.WIDE and IMAD.HI, which have
64-bit products, take two slots, and B200's multiprocessor has GH100's pipes."""

import functools
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sass_loop import Instruction

WARP = 32

#===------------------------------------------------------------------------===#
# Multiprocessors
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class Multiprocessor:
    """The lanes that each pipe starts per cycle, and the resources that blocks share."""
    lanes: dict[str, int]
    shared_bytes: int
    registers: int = 65536
    threads: int = 2048
    blocks: int = 32
    #: The number of FP16-pipe slots for a pair of bf16.
    bf16_slots: int = 1
    has_fp16_pipe: bool = False

    def resident(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Returns the number of blocks that are resident at the same time."""
        # Registers are allocated per warp, in one of four partitions, in units of 256.
        per_warp = -(-registers * WARP // 256) * 256
        warps = 4 * (self.registers // 4 // per_warp)
        fits = [self.blocks, self.threads // threads, warps * WARP // threads]
        if shared_bytes:
            fits.append(self.shared_bytes // (shared_bytes + 1024))
        return min(fits)


_COMMON = {"issue": 128, "alu": 64, "imad": 64, "xu": 16, "lsu": 32}

MULTIPROCESSORS = {
    "sm_80": Multiprocessor(_COMMON | {"fma": 64, "fp16": 128, "fp64": 32}, 164 << 10,
                            bf16_slots=2, has_fp16_pipe=True),
    "sm_90": Multiprocessor(_COMMON | {"fma": 128, "fp64": 64}, 228 << 10),
    "sm_100": Multiprocessor(_COMMON | {"fma": 128, "fp64": 64}, 228 << 10),
}

#===------------------------------------------------------------------------===#
# Instructions
#===------------------------------------------------------------------------===#

_ALU = """BMSK CS2R F2FP FMNMX FMNMX3 FSEL FSET FSETP HMNMX2 HSET2 HSETP2 I2FP IABS
    IADD3 IMNMX ISETP LEA LOP3 LOP P2R PLOP3 PRMT R2P R2UR SEL SGXT SHF SHL SHR VABSDIFF
    VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 VOTE VOTEU MOV IADD IADD32I"""
_FMA = "FADD FMUL FFMA FADD32I FMUL32I FADD2 FMUL2 FFMA2 FHADD FHFMA FSWZADD"
_XU = "MUFU F2F F2I I2F FRND FCHK POPC FLO BREV"
#: Uniform instructions, jumps and barriers, which take only a slot of the scheduler.
_ISSUE = """BAR BPT BRA BREAK BSSY BSYNC CALL DEPBAR ELECT EXIT JMP LEPC MEMBAR NANOSLEEP NOP
    RET S2R S2UR WARPSYNC YIELD LDCU ULDC ERRBAR CCTL BMOV"""
_PIPES = {name: pipe for pipe, names in (("alu", _ALU), ("fma", _FMA), ("xu", _XU),
                                         ("issue", _ISSUE)) for name in names.split()}


class UnknownInstruction(ValueError):
    """Raised for an instruction whose pipe is unknown."""


def _fp16_slots(parts: Sequence[str], chip: Multiprocessor) -> dict[str, float]:
    if not chip.has_fp16_pipe:
        return {"fma": 1, "imad": 0.5}  # half of the lanes in each of the FMA pipes
    is_bf16 = any(part.startswith("BF16") for part in parts)
    return {"fp16": chip.bf16_slots if is_bf16 else 1}


def _memory_slots(instruction: Instruction, lookups: frozenset[str],
                  table_words: int) -> dict[str, float]:
    """Returns slots of the memory pipe, which moves 128 bytes or 32 lanes of a warp per cycle,
    but reads only one address of constant memory per cycle."""
    head, *parts = instruction.text.split(None, 1)[0].split(".")
    if head in ("LDG", "STG", "LD", "ST", "LDL", "STL"):
        return {"lsu": max(1, instruction.bits / 32)}
    wide = max([int(part) for part in parts if part in ("64", "128")], default=32) / 32
    registers = set(re.findall(r"\bR\d+", instruction.text.partition("[")[2]))
    if registers & lookups:
        if head == "LDS":
            wide *= bank_conflicts(table_words)
        elif head == "LDC":
            wide *= different_words(table_words)
    return {"lsu": wide}


def slots(instruction: Instruction, chip: Multiprocessor,
          lookups: frozenset[str] = frozenset(), table_words: int = 256) -> dict[str, float]:
    """Returns the slots of each pipe that an instruction takes, besides one of the scheduler.

    ``lookups`` are registers whose addresses differ among lanes; ``table_words`` is the size of the
    table in shared memory that they point to.
    """
    head, *parts = instruction.text.split(None, 1)[0].split(".")
    if head == "IMAD":
        count = 2 if {"WIDE", "HI"} & set(parts) else 1
        return {"fma": count, "imad": count}
    if head == "IDP":
        return {"fma": 1, "imad": 1}
    if head in ("HADD2", "HMUL2", "HFMA2"):
        return _fp16_slots(parts, chip)
    if head in ("LDG", "STG", "LD", "ST", "LDL", "STL", "LDS", "STS", "LDC", "ATOMS", "SHFL", "RED",
                "ATOMG", "REDUX", "MATCH"):
        return _memory_slots(instruction, lookups, table_words)
    if head in ("DADD", "DMUL", "DFMA", "DSETP"):
        return {"fp64": 1}
    pipe = _PIPES.get(head) or ("issue" if head.startswith("U") else None)
    if not pipe:
        raise UnknownInstruction(f"no pipe is known for {instruction.text!r}; add it to "
                                 "benchmarks/gpu/sass_pipes.py")
    return {} if pipe == "issue" else {pipe: 1}


@functools.cache
def bank_conflicts(words: int, trials: int = 4000) -> float:
    """Returns the average cycles for a warp's loads of random words from a table in shared
    memory: the largest number of distinct words in one of 32 banks."""
    numbers = random.Random(words)

    def cycles() -> int:
        chosen = {numbers.randrange(words) for _ in range(WARP)}
        return max(Counter(word % WARP for word in chosen).values())

    return sum(cycles() for _ in range(trials)) / trials


def different_words(words: int) -> float:
    """Returns the expected number of distinct words if each lane of a warp picks one at random."""
    return words * (1 - (1 - 1 / words) ** WARP)

#===------------------------------------------------------------------------===#
# Loops
#===------------------------------------------------------------------------===#


def _written(instructions: Sequence[Instruction]) -> frozenset[str]:
    """Returns the registers that instructions write; only the first of a vector."""
    found = (re.match(r"\S+ (?:PT, |P\d, )?(R\d+)\b", each.text) for each in instructions)
    return frozenset(match[1] for match in found if match)


def _half_sectors(instructions: Sequence[Instruction]) -> int:
    """Counts the vector accesses that come in adjacent pairs per lane: each touches every other
    half of twice as many sectors as it moves."""
    places: dict[tuple[str, str], set[int]] = {}
    for each in instructions:
        match = re.search(r"\[(R\d+)(?:\.64)?\+?(-?0x[0-9a-f]+)?\]", each.text)
        if each.bits == 128 and match:
            key = (each.text.split(None, 1)[0], match[1])
            places.setdefault(key, set()).add(int(match[2] or "0", 16))
    return sum({offset - 16, offset + 16} & offsets != set()
               for offsets in places.values() for offset in offsets)


def count(instructions: Sequence[Instruction], chip: str, shared_bytes: int) -> Counter:
    """Returns the slots of each pipe for a warp's instructions; "issue" is the scheduler."""
    lookups = _written(instructions)
    words = max(1, min(256, shared_bytes // 4))
    total = Counter(issue=len(instructions), lsu=4 * _half_sectors(instructions))
    for each in instructions:
        total.update(slots(each, MULTIPROCESSORS[chip], lookups, words))
    return total
