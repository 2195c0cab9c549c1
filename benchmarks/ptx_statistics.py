#===- ptx_statistics.py - Registers and instructions of the PTX -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements statistics of emitted PTX: what ptxas allocates, the
# instructions of the vector loop per element, its memory accesses and shuffles.
#
#===----------------------------------------------------------------------===#
"""ptxas -v per strategy and chip; PTX instructions per element."""

import argparse
import heapq
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter

import tandem
from common import save

CHIPS = ("sm_80", "sm_90", "sm_100")
#: The chip for which 16 elements a thread are tried as well.
WIDE_CHIP = "sm_90"
_TYPE = re.compile(r"^\w+(?:\.\w+)*\.v(\d)\.[a-z](\d+)")
_ACCESS = re.compile(r"(?:@\S+ )?(ld|st)\.global(?:\.\w+)*?(?:\.v(\d))?\.[a-z](\d+)\b")


def basic_blocks(ptx: str, entry: str) -> tuple[list[list[str]], dict[str, int]]:
    """Instructions of an entry by block, and the block at each label."""
    body = ptx[re.search(rf"\.entry {entry}\(", ptx).end():]
    body = body[:body.index("\n}")]
    blocks, labels = [[]], {}
    for line in map(str.strip, body[body.index("{"):].splitlines()):
        if match := re.match(r"(\$\w+):", line):
            blocks.append([])
            labels[match[1]] = len(blocks) - 1
        elif line.endswith(";") and not line.startswith("."):
            blocks[-1].append(line)
            if re.search(r"\bbra(\.uni)?\b|^ret;", line):
                blocks.append([])
    return blocks, labels


def successors(blocks, labels) -> list[list[int]]:
    result = []
    for index, block in enumerate(blocks):
        last = block[-1] if block else ""
        after = [labels[m[1]]] if (m := re.search(r"bra\S*\s+(\$\w+);", last)) else []
        falls = not (last.startswith("ret") or (after and not last.startswith("@")))
        if falls and index + 1 < len(blocks):
            after.append(index + 1)
        result.append(after)
    return result


def shortest(blocks, after, source: int, target: int) -> list[int] | None:
    """Blocks on the path with the fewest instructions, the source left out."""
    queue, seen = [(0, source, [])], set()
    while queue:
        cost, block, path = heapq.heappop(queue)
        if path and block == target:
            return path
        if block in seen and path:
            continue
        seen.add(block)
        for following in after[block]:
            heapq.heappush(queue, (cost + len(blocks[following]), following,
                                   path + [following]))
    return None


def vector_bits(block: list[str], operation: str) -> int:
    """Bits that 128-bit and other vector accesses of a block move."""
    return sum(int(m[1]) * int(m[2]) for line in block
               if line.startswith(f"{operation}.global")
               and (m := _TYPE.match(line.split()[0])))


def accesses(lines: list[str], operation: str) -> dict[str, int]:
    """Counts the loads or stores of each width, in bits, wide ones first."""
    found = [m for line in lines if (m := _ACCESS.match(line)) and m[1] == operation]
    widths = Counter(int(m[2] or 1) * int(m[3]) for m in found)
    return {str(bits): widths[bits] for bits in sorted(widths, reverse=True)}


def vector_loop(kernel) -> dict:
    """The shortest cycle through the block of vector loads and that of stores: what
    it takes per element, how it reaches memory, its shuffles.

    Paths that only guards take (tails, non-finite values) are not on it.
    """
    blocks, labels = basic_blocks(kernel.ptx, f"tandem_{kernel.name}")
    after = successors(blocks, labels)
    load = max(range(len(blocks)), key=lambda b: vector_bits(blocks[b], "ld"))
    store = max(range(len(blocks)), key=lambda b: vector_bits(blocks[b], "st"))
    if not vector_bits(blocks[load], "ld"):
        return {"elements": 0, "instructions": None, "loads": {}, "stores": {},
                "shuffles": 0, "group_reductions": 0}
    cycle = (shortest(blocks, after, load, store)
             + shortest(blocks, after, store, load))
    lines = [line for b in cycle for line in blocks[b]]
    elements = (sum(vector_bits(blocks[b], "ld") for b in set(cycle))
                // sum(p.bits for p in kernel.planes if p.read and p.group == 1))
    return {"elements": elements, "instructions": len(lines) / elements,
            "loads": accesses(lines, "ld"), "stores": accesses(lines, "st"),
            "shuffles": sum("shfl.sync" in line for line in lines),
            "group_reductions": len(re.findall(r"\btandem\.reduce\b.* group\(", kernel.ir))}


def assemble(ptx: str, chip: str, entry: str) -> dict:
    """Registers, stack and spills of an entry, or ptxas's message."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w") as file:
            file.write(ptx)
        done = subprocess.run(["ptxas", "-v", f"-arch={chip}", path, "-o",
                               os.path.join(folder, "kernel.cubin")],
                              capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[0]}
    part = done.stderr[done.stderr.index(f"entry function '{entry}'"):]
    number = lambda pattern: int(re.search(pattern, part)[1])
    return {"registers": number(r"Used (\d+) registers"),
            "stack": number(r"(\d+) bytes stack frame"),
            "spill_stores": number(r"(\d+) bytes spill stores"),
            "spill_loads": number(r"(\d+) bytes spill loads")}


def of_16_elements(strategy: str, chip: str, assembler: str | None) -> dict:
    """Statistics for twice as many elements per thread, where codes fill 128 bits."""
    kernel = tandem.compile("adamw", strategy, chip, width=16)
    one = {"instructions": vector_loop(kernel)["instructions"]}
    if assembler:
        one |= assemble(kernel.ptx, chip, f"tandem_{kernel.name}")
    return one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", nargs="+", default=CHIPS)
    options = parser.parse_args()
    assembler = shutil.which("ptxas")
    result = {}
    for strategy in sorted(tandem.strategies()):
        result[strategy] = {}
        for chip in options.chips:
            kernel = tandem.compile("adamw", strategy, chip)
            one = vector_loop(kernel)
            if assembler:
                one |= assemble(kernel.ptx, chip, f"tandem_{kernel.name}")
            if chip == WIDE_CHIP:
                one["of_16"] = of_16_elements(strategy, chip, assembler)
            result[strategy][chip] = one
            print(f"{strategy:20}{chip:8}", one, flush=True)
    version = "not installed"
    if assembler:
        text = subprocess.run([assembler, "--version"], capture_output=True,
                              text=True).stdout
        version = re.search(r"V[\d.]+", text)[0]
    save("ptx_statistics", {"ptxas": version, "strategies": result})


if __name__ == "__main__":
    main()
