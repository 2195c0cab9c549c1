#===- sass_compare.py - SASS against its PTX -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares machine code with the PTX that it was made from. ptxas expands divisions, roots
# and reciprocals into sequences and calls of functions; these are measured in separate kernels and
# subtracted.
#
#===----------------------------------------------------------------------===#
"""Compares SASS with its PTX, entry by entry.

Without optimization (-O0), each entry must have exactly the operations of the PTX, of each kind
and format. With -O3, ptxas duplicates code: it unrolls loops, and it recomputes a value rather
than keep it in a register. So an entry may have operations more often than its PTX, but the
excess must be a sum of whole basic blocks, which may contain fmas, and of single operations
other than fmas. A contraction (one addition and one multiplication less, one fma more) is not
such a sum. Except in the sequences of divisions and roots, no instruction may flush, saturate or
round other than to nearest."""

import functools
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sass_counts import SASSEntry, count_ptx, count_sass, ptx_entries, sass_entries

LEVELS = (0, 3)

#===------------------------------------------------------------------------===#
# Tools
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class Resources:
    """The registers and spilled bytes per thread of an entry, and the shared memory per block in
    bytes."""
    registers: int
    spill_bytes: int
    shared_bytes: int


def read_resources(text: str) -> dict[str, Resources]:
    """Parses the resources of each entry from the output of `ptxas -v`."""
    found = {}
    for part in text.split("Compiling entry function ")[1:]:
        def number(pattern, part=part):
            match = re.search(pattern, part)
            return int(match[1]) if match else 0

        found[part.split("'")[1]] = Resources(
            number(r"Used (\d+) registers"),
            number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
            number(r"(\d+) bytes smem"))
    return found


@dataclass(frozen=True)
class Tools:
    ptxas: str
    nvdisasm: str

    def version(self, tool: str) -> str:
        text = subprocess.check_output([getattr(self, tool), "--version"], text=True)
        return re.search(r", V([\d.]+)", text)[1]

    def disassemble(self, ptx: str, chip: str, level: int) -> dict[str, SASSEntry]:
        return self.assemble(ptx, chip, level)[0]

    def assemble(self, ptx: str, chip: str, level: int, only: Sequence[str] = (),
                 ) -> tuple[dict[str, SASSEntry], dict[str, Resources]]:
        """Returns the machine code and the resources of the entries, or of some of them."""
        chosen = [argument for name in only for argument in ("-e", name)]
        with tempfile.TemporaryDirectory() as folder:
            source, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
            source.write_text(ptx)
            made = subprocess.run(
                [self.ptxas, "-v", f"-O{level}", f"-arch={chip}", *chosen, source, "-o", cubin],
                check=True, capture_output=True, text=True)
            done = subprocess.run([self.nvdisasm, "-c", cubin], check=True,
                                  capture_output=True, text=True)
        return sass_entries(done.stdout), read_resources(made.stderr)


#===------------------------------------------------------------------------===#
# Sequences
#===------------------------------------------------------------------------===#

_VERSIONS = {"sm_80": "8.0", "sm_90": "8.0", "sm_100": "8.6"}

_KERNEL = """.version {version}
.target {chip}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
  .reg .b{bits} %v<8>;
  .reg .b64 %a<4>;
  ld.param.u64 %a0, [in];
  ld.param.u64 %a1, [out];
  cvta.to.global.u64 %a2, %a0;
  cvta.to.global.u64 %a3, %a1;
  ld.global.b{bits} %v0, [%a2];
  ld.global.b{bits} %v1, [%a2+8];
  ld.global.b{bits} %v2, [%a2+16];
{body}
  st.global.b{bits} [%a3], %v3;
  ret;
}}
"""

#: Forms of each operation in PTX, each with the number of operations in the text. With
#: optimization, quotients by the same divisor share its reciprocal, and constants are folded.
_ONE, _THREE = {"f32": "0f3F800000", "f64": "0d3FF0000000000000"}, "0f40400000"
_FORMS = {
    ("div", "f32"): [(1, "div.rn.f32 %v3, %v0, %v1;"),
                     (2, "div.rn.f32 %v4, %v0, %v1;\ndiv.rn.f32 %v5, %v2, %v1;\n"
                         "xor.b32 %v3, %v4, %v5;"),
                     (1, f"div.rn.f32 %v3, {_ONE['f32']}, %v1;"),
                     (1, f"div.rn.f32 %v3, %v0, {_THREE};")],
    ("sqrt", "f32"): [(1, "sqrt.rn.f32 %v3, %v0;")],
    ("rcp", "f32"): [(1, "rcp.rn.f32 %v3, %v0;")],
    ("div", "f64"): [(1, "div.rn.f64 %v3, %v0, %v1;"),
                     (1, f"div.rn.f64 %v3, {_ONE['f64']}, %v1;")],
    ("sqrt", "f64"): [(1, "sqrt.rn.f64 %v3, %v0;")],
    ("rcp", "f64"): [(1, "rcp.rn.f64 %v3, %v0;")],
}


def _callee(text: str) -> str | None:
    """Returns the function that an instruction calls, without the number of its copy."""
    match = re.match(r"CALL\.\S+\s+.*\$(__cuda\w+)", text)
    return match[1] if match else None


def _inline(entry: SASSEntry) -> Counter:
    found = count_sass(entry.main)
    return found.kinds + found.special + found.modified


@dataclass
class Sequence:
    """The code that ptxas generates for an operation: inline code, and the function it calls."""
    least: Counter
    most: Counter
    callee: str
    slow: Counter


def _measure_one(tools: Tools, chip: str, level: int, operation) -> Sequence:
    kind, format = operation
    least = most = None
    for times, body in _FORMS[operation][:1 if level == 0 else None]:
        ptx = _KERNEL.format(version=_VERSIONS[chip], chip=chip, bits=format[1:], body=body)
        entry = tools.disassemble(ptx, chip, level)["k"]
        found = Counter({key: -(-n // times) for key, n in _inline(entry).items()})
        low = Counter({key: n // times for key, n in _inline(entry).items()})
        if most is None:
            callee = next(filter(None, map(_callee, entry.main.instructions)))
            slow = sum((_inline(SASSEntry(other)) for other in entry.others), Counter())
            least, most = low, found
        keys = set(least) | set(low)
        least = Counter({key: min(least[key], low[key]) for key in keys})
        most |= found
    return Sequence(least, most, callee, slow)


@functools.cache
def measure(tools: Tools, chip: str, level: int) -> dict[tuple[str, str], Sequence]:
    """Returns the sequences of a chip's divisions, roots and reciprocals."""
    return {operation: _measure_one(tools, chip, level, operation) for operation in _FORMS}

#===------------------------------------------------------------------------===#
# Comparison
#===------------------------------------------------------------------------===#

#: Kinds that are not compared: 16- and 64-bit integer extremes, for which some chips have no
#: instruction, and widening of bf16, which is a shift.
_IGNORED = {("extreme", t) for t in ("s16", "u16", "s16x2", "u16x2", "s64", "u64")}
_IGNORED |= {("widen", "bf16")}
#: With optimization, neg and abs become operand modifiers, and ptxas chooses between extremes and
#: selections.
_FREE = ("sign", "extreme", "extreme NaN")
#: Operations whose instructions are duplicated only with a whole block.
_WHOLE = ("fma", "div", "sqrt", "rcp")


def _blocks(instructions: list[str]) -> list[list[str]]:
    """Splits instructions into basic blocks after branches. Labels are ignored, so a block may
    consist of several."""
    blocks = [[]]
    for text in instructions:
        blocks[-1].append(text)
        if re.match(r"bra\b|ret\b|bar\b", text):
            blocks.append([])
    return blocks


def _is_sum(low: Counter, high: Counter, vectors: list[Counter]) -> bool:
    """Returns whether a sum of vectors with nonnegative multiplicities is within the bounds."""
    if any(n < 0 for n in high.values()):
        return False
    if all(n <= 0 for n in low.values()):
        return True
    if not vectors:
        return False
    first, rest = vectors[0], vectors[1:]
    times = min(high[key] // n for key, n in first.items())
    for m in range(times, -1, -1):
        less = Counter({key: low[key] - m * first[key] for key in low})
        more = Counter({key: high[key] - m * first[key] for key in high})
        if _is_sum(less, more, rest):
            return True
    return False


def _text(counts) -> str:
    return ", ".join(f"{' '.join(key) if isinstance(key, tuple) else key} {n}"
                     for key, n in counts)


class EntryComparison:
    """Compares one entry. `problems` describes the differences, `copies` is whether code is
    duplicated."""

    def __init__(self, ptx: list[str], sass: SASSEntry, chip: str, level: int, sequences):
        self.chip, self.level, self.sequences = chip, level, sequences
        self.problems: list[str] = []
        self.copies = False
        self.required = self._clean(count_ptx(ptx))
        self.found = count_sass(sass.main)
        self._compare_functions(sass)
        self._compare_kinds(ptx, sass)
        self.problems += self.found.faults

    def _clean(self, counts: Counter) -> Counter:
        free = _FREE if self.level else ()
        cleaned = Counter()
        for (kind, format), n in counts.items():
            if (kind, format) in _IGNORED or kind in free:
                continue
            # Before sm_90, bf16 additions and multiplications are fmas with a constant in a
            # register.
            is_fused = self.chip == "sm_80" and format == "bf16"
            kind = "fma" if is_fused and kind in ("add", "mul") else kind
            cleaned[kind, format] += n
        return cleaned

    def _count_calls(self, sass: SASSEntry) -> Counter:
        names = {sequence.callee: operation for operation, sequence in self.sequences.items()}
        # Without optimization ptxas calls functions for shuffles, too, which
        # `_compare_functions` finds without any arithmetic.
        known = {re.sub(r".*\$(__cuda)", r"\1", other.name) for other in sass.others}
        calls = Counter()
        for text in sass.main.instructions:
            # For sm_80, ptxas also writes CALL for a jump inside the function.
            if text.startswith("CALL") and "(.L_x_" not in text:
                callee = _callee(text)
                if callee in names:
                    calls[names[callee]] += 1
                elif callee not in known:
                    self.problems.append(f"'{text}' calls what is not there")
        return calls

    def _compare_functions(self, sass: SASSEntry) -> None:
        slow = {sequence.callee: sequence.slow for sequence in self.sequences.values()}
        for function in sass.others:
            name = re.sub(r".*\$(__cuda)", r"\1", function.name)
            excess = _inline(SASSEntry(function)) - slow.get(name, Counter())
            if excess := [item for item in excess.items() if "SETP" not in item[0]]:
                self.problems.append(f"'{name}' has more than the function of one "
                                     f"division or root: {_text(excess)}")

    def _compare_kinds(self, ptx: list[str], sass: SASSEntry) -> None:
        calls = self._count_calls(sass)
        least, most = Counter(), Counter()
        for operation, n in calls.items():
            sequence = self.sequences[operation]
            least.update({key: n * c for key, c in sequence.least.items()})
            most.update({key: n * c for key, c in sequence.most.items()})
        self._compare_others(least, most)
        least, most = (self._clean(Counter({k: n for k, n in counts.items()
                                            if isinstance(k, tuple)}))
                       for counts in (least, most))
        found = self._clean(self.found.kinds) + calls
        keys = set(found) | set(self.required) | set(most)
        low = Counter({key: found[key] - most[key] - self.required[key] for key in keys})
        high = Counter({key: found[key] - least[key] - self.required[key] for key in keys})
        if all(low[key] <= 0 <= high[key] for key in keys):
            return
        self.copies = self.level > 0 and self._is_copied(low, high, ptx)
        if not self.copies:
            self._report(low, high, found)

    def _is_copied(self, low: Counter, high: Counter, ptx: list[str]) -> bool:
        singles = [Counter({key: 1}) for key in self.required if key[0] not in _WHOLE]
        blocks = [self._clean(count_ptx(block)) for block in _blocks(ptx)]
        vectors = {tuple(sorted(v.items())): v for v in [*blocks, *singles] if v}
        return _is_sum(low, high, list(vectors.values()))

    def _compare_others(self, least: Counter, most: Counter) -> None:
        """Reports instructions that only sequences may have, and those that do not round to
        nearest."""
        for counts in (self.found.special, self.found.modified):
            for mnemonic, n in counts.items():
                if n > most[mnemonic]:
                    self.problems.append(f"{mnemonic}: {n}, but divisions and roots "
                                         f"have {most[mnemonic]}")

    def _report(self, low: Counter, high: Counter, found: Counter) -> None:
        for key in sorted(low):
            if not low[key] <= 0 <= high[key]:
                spare = low[key] if low[key] > 0 else high[key]
                self.problems.append(f"{' '.join(key)}: the PTX has {self.required[key]}, "
                                     f"the SASS {self.required[key] + spare}")


def compare(tools: Tools, ptx: str, chip: str, level: int) -> dict[str, EntryComparison]:
    """Assembles PTX and compares each entry."""
    sources, entries = ptx_entries(ptx), tools.disassemble(ptx, chip, level)
    if set(sources) != set(entries):
        raise ValueError(f"the SASS has the entries {sorted(entries)}, the PTX "
                         f"{sorted(sources)}")
    sequences = measure(tools, chip, level)
    return {name: EntryComparison(sources[name], entries[name], chip, level, sequences)
            for name in sources}
