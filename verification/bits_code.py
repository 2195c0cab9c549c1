#===- bits_code.py - Hashes of compiled code -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the entries of the records of code: the PTX and the CPU machine code to which
# each graph and layer of the library compiles. They depend on the version of LLVM, which is
# recorded with them.
#
#===----------------------------------------------------------------------===#
"""Cases whose result is a hash of code."""

import functools
import hashlib
import re
import struct
import tempfile
from pathlib import Path

import tandem
from bits_kernels import Case, compiled, functions_of

CHIP = "sm_90"
#: The minimum instruction set of a processor, and the largest that code is generated for.
ISAS = ("x86-64", "x86-64-v4")


def package_of(kernel: tandem.Kernel, targets) -> bytes:
    """Returns the bytes of the file that Kernel.save writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.tdm"
        kernel.save(path, list(targets))
        return path.read_bytes()


@functools.cache
def llvm_version() -> str:
    """Returns the version of LLVM that the compiler is built with, as packages name it."""
    data = package_of(tandem.compile("sgd", "fp32"), [CHIP])
    return re.search(rb"tandem [^,\0]*, LLVM ([^\0]+)\0", data)[1].decode()

#===------------------------------------------------------------------------===#
# Texts and images
#===------------------------------------------------------------------------===#


def ptx_hash(kernel: tandem.Kernel) -> str:
    """Hashes the PTX without comments and empty lines."""
    lines = (line.split("//")[0].rstrip() for line in kernel.ptx.splitlines())
    text = "\n".join(line for line in lines if line)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sections(image: bytes) -> dict[str, bytes]:
    """Returns the contents of a 64-bit ELF file's nonempty sections, by name."""
    at, = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    # The fields are name, type, flags, address, offset and size.
    rows = [struct.unpack_from("<IIQQQQ", image, at + i * size) for i in range(count)]
    strings = image[rows[names][4]:][:rows[names][5]]
    return {strings[name:strings.index(b"\0", name)].decode(): image[offset:offset + length]
            for name, kind, _, _, offset, length in rows if kind == 1}  # SHT_PROGBITS


def object_hash(kernel: tandem.Kernel, isa: str) -> str:
    """Hashes the instructions and constants of a package's code."""
    data = package_of(kernel, [isa])
    found = sections(data[data.index(b"\x7fELF"):])
    code = [found[name] for name in sorted(found) if name.startswith((".text", ".rodata"))]
    return hashlib.sha256(b"".join(code)).hexdigest()[:16]

#===------------------------------------------------------------------------===#
# Cases
#===------------------------------------------------------------------------===#


def _kernels() -> list[tuple[str, dict, frozenset[str]]]:
    """Returns names of the library's kernels, the arguments of tandem.compile, and the features
    that they cover."""
    graphs = [(f"graph {g} {s}", {"graph": g, "strategy": s},
               frozenset((f"graph {g}", f"strategy {s}")))
              for g in tandem.graphs() for s in tandem.strategies()]
    layers = [(f"layer {f} {r}", {"graph": layer, "strategy": r, "function": f},
               frozenset((f"layer {f}", f"recipe {r}")))
              for layer in tandem.layers() for f in functions_of(layer)
              for r in tandem.recipes()]
    return graphs + layers


def ptx_cases() -> list[Case]:
    """Returns cases for the PTX of all kernels."""
    return [Case(f"{name} {CHIP}", features,
                 lambda o=options: ptx_hash(tandem.compile(**o, target=CHIP)))
            for name, options, features in _kernels()]


def object_cases() -> list[Case]:
    """Returns cases for the machine code of all kernels, for each of ISAS."""
    return [Case(f"{name} {isa}", features | {isa},
                 lambda o=options, i=isa: object_hash(compiled(**o, target=CHIP), i))
            for name, options, features in _kernels() for isa in ISAS]
