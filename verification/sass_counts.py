#===- sass_counts.py - Float operations of PTX and SASS --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file parses PTX and the machine code that ptxas generates from it (SASS, as nvdisasm prints
# it), and counts what each entry computes, by kind and format.
#
#===----------------------------------------------------------------------===#
"""Counts of float operations in PTX and SASS, entry by entry."""

import re
from collections import Counter
from dataclasses import dataclass, field

#: Kinds are pairs such as ("add", "f32"), counted by computed values. A difference is a sum with a
#: negated operand. "sign" is neg and abs, which SASS writes as an operand modifier or as an
#: addition of -0.

#===------------------------------------------------------------------------===#
# PTX
#===------------------------------------------------------------------------===#

_FORMATS = {"f16": ("f16", 1), "f16x2": ("f16", 2), "bf16": ("bf16", 1),
            "bf16x2": ("bf16", 2), "f32": ("f32", 1), "f32x2": ("f32", 2),
            "f64": ("f64", 1)}
_CODES = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}
_INTEGERS = ("s16", "u16", "s32", "u32", "s64", "u64", "s16x2", "u16x2")
_PTX_OPS = {"add": "add", "sub": "add", "mul": "mul", "fma": "fma", "mad": "fma",
            "div": "div", "sqrt": "sqrt", "rcp": "rcp", "neg": "sign", "abs": "sign"}
_BITS = {"e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def _body(text: str, start: int) -> str:
    """Returns the text within the braces after a function's arguments."""
    begin = text.index("{", start)
    depth = 0
    for match in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return text[begin + 1:begin + match.start()]
    raise ValueError("a function's body does not end")


def ptx_entries(ptx: str) -> dict[str, list[str]]:
    """Returns the instructions of each entry, without predicates."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.S)
    entries = {}
    for match in re.finditer(r"\.entry\s+([\w$]+)", text):
        lines = (re.sub(r"^(?:\s|[\w$%]+:)*(?:@!?%\w+\s+)?", "", line).strip()
                 for line in _body(text, match.end()).split(";"))
        entries[match[1]] = [line for line in lines if line and line[0] != "."]
    return entries


def _constants(instructions: list[str]) -> dict[str, int]:
    """Returns registers that always hold the same literal; others map to None."""
    values = {}
    for text in instructions:
        match = re.match(r"mov\.b(?:16|32)\s+(%\w+),\s*(0x[0-9A-Fa-f]+|-?\d+)$", text)
        target = match or re.match(r"\S+\s+(%\w+)", text)
        if target:
            value = int(match[2], 0) & 0xFFFFFFFF if match else None
            known = values.setdefault(target[1], value)
            values[target[1]] = value if known == value else None
    return values


#: The bits of 1, -1 and -0 in bf16: factors and addends with which an fma stands for an addition or
#: a multiplication, for lack of these in PTX.
_ONES, _MINUS_ZERO = (0x3F80, 0xBF80), 0x8000


def _as_bf16(fma: str, constants: dict[str, int]) -> str:
    def is_one_of(operand, *bits):
        value = constants.get(operand)
        return value is not None and value & 0xFFFF in bits

    operands = [operand.strip() for operand in fma.split(None, 1)[1].split(",")]
    if is_one_of(operands[1], *_ONES) or is_one_of(operands[2], *_ONES):
        return "add"
    return "mul" if is_one_of(operands[3], _MINUS_ZERO) else "fma"


def _count_cvt(parts: list[str], counts: Counter) -> None:
    target, source = parts[-2:]
    floats = [_FORMATS.get(part) or (_CODES.get(part), 2) for part in (target, source)]
    (to, lanes), (from_, _) = floats
    if to and from_:
        if from_ in ("e4m3", "e5m2"):
            counts["read", from_] += lanes
        elif _BITS[to] < _BITS[from_]:
            counts["round", to] += lanes
        elif to == from_:
            counts["integral", to] += lanes
        elif from_ != "bf16":
            counts["widen", from_] += lanes
    elif to:
        counts["from integer", to] += 1
    elif from_:
        counts["to integer", from_] += 1


def count_ptx(instructions: list[str]) -> Counter:
    """Counts the operations of an entry, by kind."""
    counts, constants = Counter(), _constants(instructions)
    for text in instructions:
        mnemonic = text.split(None, 1)[0]
        parts = mnemonic.split(".")
        if parts[0] == "cvt":
            _count_cvt(parts, counts)
        elif parts[0] in ("min", "max"):
            format, lanes = _FORMATS.get(parts[-1], (None, 0))
            if format:
                nan = " NaN" if "NaN" in parts else ""
                counts["extreme" + nan, format] += lanes
            elif parts[-1] in _INTEGERS:
                counts["extreme", parts[-1]] += 1
        elif parts[0] in _PTX_OPS and parts[-1] in _FORMATS:
            # An instruction that reads 16-bit floats computes the type before theirs.
            computed = parts[-2] if parts[-2] in _FORMATS else parts[-1]
            format, lanes = _FORMATS[computed]
            kind = _PTX_OPS[parts[0]]
            if kind == "fma" and format == "bf16":
                kind = _as_bf16(text, constants)
            counts[kind, format] += lanes
    return counts

#===------------------------------------------------------------------------===#
# SASS
#===------------------------------------------------------------------------===#


@dataclass
class SASSFunction:
    """A function of machine code."""
    name: str
    instructions: list[str] = field(default_factory=list)
    #: The predicate of each instruction, such as "!P0", or None.
    guards: list[str | None] = field(default_factory=list)
    #: The index of the instruction at each label.
    labels: dict[str, int] = field(default_factory=dict)


@dataclass
class SASSEntry:
    """An entry and the functions that only it calls."""
    main: SASSFunction
    others: list[SASSFunction] = field(default_factory=list)


_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?(.*?)\s*;")


def sass_entries(text: str) -> dict[str, SASSEntry]:
    """Parses the entries in the output of `nvdisasm -c`."""
    entries, entry, functions = {}, None, set()
    for line in text.splitlines():
        if match := re.match(r"\s*\.section\s+\.text\.([\w$.]+),", line):
            entry = entries[match[1]] = SASSEntry(SASSFunction(match[1]))
            current = entry.main
        elif match := re.match(r"\s*\.type\s+([\w$.]+),@function", line):
            functions.add(match[1])
        elif match := re.match(r"([\w$.]+):$", line):
            if entry and match[1] in functions and match[1] != entry.main.name:
                current = SASSFunction(match[1])
                entry.others.append(current)
            elif entry:
                current.labels[match[1]] = len(current.instructions)
        elif entry and (match := _INSTRUCTION.match(line)):
            current.guards.append(match[1])
            current.instructions.append(match[2].replace(".reuse", ""))
    return entries


@dataclass
class SASSCounts:
    """The operations that a function computes, and its other float instructions."""
    kinds: Counter = field(default_factory=Counter)
    #: Instructions that only result from division and square root in PTX.
    special: Counter = field(default_factory=Counter)
    #: Instructions that flush subnormals, saturate or round other than to nearest, by their full
    #: mnemonic.
    modified: Counter = field(default_factory=Counter)
    #: Instructions that are always wrong.
    faults: list[str] = field(default_factory=list)


_CHANGING = {"FTZ", "RZ", "RM", "RP", "SAT", "RELU", "FMZ", "DIV"}
_SPECIAL = ("MUFU", "FCHK")
_HALF = {"HADD2": "add", "HMUL2": "mul", "HFMA2": "fma"}
_SCALAR = {"FADD": ("add", "f32", 1), "FMUL": ("mul", "f32", 1), "FFMA": ("fma", "f32", 1),
           "FADD32I": ("add", "f32", 1), "FMUL32I": ("mul", "f32", 1),
           "FADD2": ("add", "f32", 2), "FMUL2": ("mul", "f32", 2), "FFMA2": ("fma", "f32", 2),
           "FHADD": ("add", "f32", 1), "FHFMA": ("fma", "f32", 1),
           "DADD": ("add", "f64", 1), "DMUL": ("mul", "f64", 1), "DFMA": ("fma", "f64", 1)}


def _is_zero(operand: str, sign: str) -> bool:
    return re.fullmatch(re.escape(sign) + r"U?RZ(\.H\d_H\d|\.F32x2\.HI_LO)?", operand) is not None


def _scalar_kind(kind: str, operands: list[str]) -> str:
    """Returns the kind of an instruction that may encode a sign, an addition or a
    multiplication."""
    sources = operands[1:]
    if kind == "add" and any(_is_zero(operand, "-") for operand in sources):
        return "sign"
    if kind == "fma":
        if any(operand in ("1", "-1") for operand in sources[:2]):
            return "sign" if _is_zero(sources[2], "-") else "add"
        if _is_zero(sources[2], "-"):
            return "mul"
    return kind


def _half_sources(sources: list[str]) -> list[list[str]]:
    """Groups the sources of a packed instruction, whose immediates are written as two numbers."""
    grouped, rest = [], list(sources)
    while rest:
        first = rest.pop(0)
        is_number = re.match(r"[-+]?(\d|INF|QNAN|SNAN)", first) is not None
        grouped.append([first, rest.pop(0)] if is_number and rest else [first])
    return grouped


def _half_kind(kind: str, groups: list[list[str]]) -> str | None:
    """Does the same for packed instructions; returns None for a move."""
    def is_all(group, *texts):
        return all(text in texts for text in group)

    zeros = [any(_is_zero(group[0], sign) for sign in ("", "-")) for group in groups]
    if kind == "add" and any(_is_zero(group[0], "-") for group in groups):
        return "sign"
    if kind != "fma":
        return kind
    if zeros[0] and zeros[1]:
        return None if len(groups[2]) == 2 or zeros[2] else "sign"
    if is_all(groups[0], "1", "-1") or is_all(groups[1], "1", "-1"):
        return "add"
    return "mul" if _is_zero(groups[2][0], "-") else "fma"


def _half_lanes(groups: list[list[str]]) -> int:
    """Returns 1 if every register selects a half, or 2 if registers are used as pairs."""
    registers = [group[0] for group in groups if len(group) == 1 and "RZ" not in group[0]]
    chosen = [re.search(r"\.H([01])_H\1$", text) is not None for text in registers]
    return 1 if chosen and all(chosen) else 2


def _count_half(parts: list[str], operands: list[str], counts: Counter) -> None:
    groups = _half_sources(operands[1:])
    if "F32" in parts and parts[0] == "HADD2":
        counts["widen", "f16"] += 1
        return
    kind = _half_kind(_HALF[parts[0]], groups)
    format = "bf16" if any(part.startswith("BF16") for part in parts) else "f16"
    if kind:
        counts[kind, format] += _half_lanes(groups)


def _count_extreme(parts: list[str], operands: list[str], counts: Counter) -> None:
    times = 2 if parts[0].endswith("3") else 1
    nan = " NaN" if "NAN" in parts else ""
    if parts[0].startswith("F"):
        counts["extreme" + nan, "f32"] += times
    else:
        format = "bf16" if any(part.startswith("BF16") for part in parts) else "f16"
        groups = _half_sources([o for o in operands[1:] if "PT" not in o])
        counts["extreme" + nan, format] += times * _half_lanes(groups)


_F2FP_FORMATS = {"BF16": "bf16", "F16": "f16", "E4M3": "e4m3", "E5M2": "e5m2"}


def _count_packing(parts: list[str], operands: list[str], counts: Counter) -> None:
    formats = [_F2FP_FORMATS[part] for part in parts if part in _F2FP_FORMATS]
    if any(part.startswith("UNPACK") for part in parts):
        counts["read", formats[-1]] += 2
    else:
        lanes = sum(not _is_zero(operand, "") for operand in operands[1:3])
        counts["round", formats[0] if formats else "f16"] += lanes


def _count_conversion(parts: list[str], counts: Counter) -> None:
    floats = [part.lower() for part in parts[1:] if part.lower() in _BITS]
    if parts[0] == "F2F":
        to, from_ = floats
        kind = "round" if _BITS[to] < _BITS[from_] else "widen"
        counts[kind, to if kind == "round" else from_] += 1
    elif parts[0] == "FRND":
        counts["integral", floats[0] if floats else "f32"] += 1
    else:
        kind = "to integer" if parts[0].startswith("F2I") else "from integer"
        counts[kind, floats[0] if floats else "f32"] += 1


def _count_integer_extreme(parts: list[str], operands: list[str], result: SASSCounts) -> None:
    """Counts integer extremes. Reports the extreme of a value and itself, to which ptxas reduced
    the maximum of a value and its negation (pytorch/pytorch#190973)."""
    sources = [o for o in operands[1:] if not re.fullmatch(r"!?U?P(T|\d)", o)]
    types = [part.lower() for part in parts[1:] if part.lower() in _INTEGERS]
    times = 2 if parts[0].endswith("3") else 1
    result.kinds["extreme", types[0] if types else "s32"] += times
    if len(set(sources)) < len(sources):
        result.faults.append("takes the extreme of a value and itself")


def _count_one(text: str, result: SASSCounts) -> None:
    mnemonic, _, rest = text.partition(" ")
    parts, operands = mnemonic.split("."), [o.strip() for o in rest.split(",")]
    head = parts[0]
    is_float = head[0] in "FDH" and head not in ("DEPBAR", "FLO", "FENCE")
    if (is_float or head in ("MUFU", "I2F", "I2FP", "F2F")) and _CHANGING & set(parts):
        result.modified[mnemonic] += 1
    if head in _SPECIAL:
        result.special[mnemonic] += 1
    elif head in _SCALAR:
        kind, format, lanes = _SCALAR[head]
        result.kinds[_scalar_kind(kind, operands), format] += lanes
    elif head in _HALF:
        _count_half(parts, operands, result.kinds)
    elif head in ("FMNMX", "FMNMX3", "HMNMX2", "HMNMX3"):
        _count_extreme(parts, operands, result.kinds)
    elif head == "DSETP" and {"MAX", "MIN"} & set(parts):
        result.kinds["extreme", "f64"] += 1
    elif head == "F2FP":
        _count_packing(parts, operands, result.kinds)
    elif head in ("F2F", "F2I", "I2F", "I2FP", "FRND", "F2IP"):
        _count_conversion(parts, result.kinds)
    elif re.match(r"U?V?I(ADD)?MNMX3?$", head):
        _count_integer_extreme(parts, operands, result)
    elif is_float and not re.match(r"[FDH]SETP?|FSEL|FSWZADD|DSETP|HSET", head):
        result.faults.append("is not an instruction that kernels become")


def count_sass(function: SASSFunction) -> SASSCounts:
    result = SASSCounts()
    for text in function.instructions:
        found = len(result.faults)
        _count_one(text, result)
        result.faults[found:] = [f"'{text}' {fault}" for fault in result.faults[found:]]
    return result
