#===- refusals.py - Random kernels that must compile -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compiles random optimizer graphs, and their kernels with random changes that invite LLVM
# to simplify, for several chips, and counts the programs that the PTX check refuses although they
# are correct.
#
#===----------------------------------------------------------------------===#
"""Compiles random graphs and changed kernels, which the PTX check must accept."""

import datetime
import json
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/Python"))
sys.path.append(str(ROOT / "benchmarks"))

import campaign  # noqa: E402
import tandem  # noqa: E402
from common import machine  # noqa: E402
from support.random_examples import Example  # noqa: E402

CHIPS = ("sm_80", "sm_90", "sm_100")
REFUSED = "is not the kernel's arithmetic"
CONSTANTS = ("0.0", "-0.0", "1.0", "-1.0", "2.0", "0.5", "-4.0", "3.0")
BINARY = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf")
#: Matches an operation on floats of one type: its result, name, operands and type.
OPERATION = re.compile(
    r"( *)(%\w+) = (arith\.(?:addf|subf|mulf|divf|negf|maximumf|minimumf|select)"
    r"|math\.(?:fma|sqrt|absf|copysign)) (.*) : (f32|bf16|f16)$")


#===----------------------------------------------------------------------===#
# Changes
#===----------------------------------------------------------------------===#


class Changes:
    """Makes random changes to the operations in a kernel's text."""

    def __init__(self, text, rng):
        self.lines, self.rng, self.made = text.splitlines(), rng, 0

    def text(self):
        return "\n".join(self.lines) + "\n"

    def operations(self):
        """Returns the lines of operations in the body, with their parts."""
        body = next(i for i, line in enumerate(self.lines) if "} body {" in line)
        return [(i, match) for i, line in enumerate(self.lines)
                if i > body and (match := OPERATION.match(line))]

    def change(self):
        """Makes one change, if the kernel has an operation to change."""
        operations = self.operations()
        if not operations:
            return
        place, match = self.rng.choice(operations)
        make = self.rng.choice((self.use_constant, self.use_opposite, self.use_choice,
                                self.use_earlier, self.be_another))
        earlier = [m[2] for i, m in operations if i < place and m[5] == match[5]]
        make(place, match, earlier)

    def insert(self, place, text, form):
        """Inserts a new operation before a line and returns its result."""
        self.made += 1
        self.lines.insert(place, f"    %new{self.made} = {text} : {form}")
        return f"%new{self.made}"

    def set_operand(self, place, make):
        """Replaces an operand of an operation by one that `make` creates from it before the
        line."""
        indent, result, name, operands, form = OPERATION.match(self.lines[place]).groups()
        values = operands.split(", ")
        at = self.rng.randrange(name == "arith.select", len(values))
        before = len(self.lines)
        values[at] = make(values[at])
        place += len(self.lines) - before
        self.lines[place] = f"{indent}{result} = {name} {', '.join(values)} : {form}"

    def use_constant(self, place, match, _):
        value = self.rng.choice(CONSTANTS)
        self.set_operand(place, lambda _: self.insert(
            place, f"arith.constant {value}", match[5]))

    def use_opposite(self, place, match, _):
        self.set_operand(place, lambda value: self.insert(
            place, f"arith.negf {value}", match[5]))

    def use_earlier(self, place, _, earlier):
        if earlier:
            self.set_operand(place, lambda _: self.rng.choice(earlier))

    def use_choice(self, place, match, earlier):
        """Selects between the operand and another operation on it."""
        if not earlier:
            return
        other, form = self.rng.choice(earlier), match[5]

        def choose(value):
            order = self.rng.choice(("olt", "uge", "oeq", "ogt"))
            chosen = self.insert(
                place, f"arith.{self.rng.choice(BINARY)} {value}, {other}", form)
            condition = self.insert(
                place + 1, f"arith.cmpf {order}, {value}, {other}", form)
            pair = self.rng.sample((value, chosen), 2)
            return self.insert(
                place + 2, f"arith.select {condition}, {', '.join(pair)}", form)
        self.set_operand(place, choose)

    def be_another(self, place, match, _):
        """Replaces the operation by another one on the same operands."""
        name = match[3].split(".")[1]
        if name in BINARY:
            self.lines[place] = self.lines[place].replace(
                match[3], f"arith.{self.rng.choice(BINARY)}")


def changed(text, seed):
    """Returns a kernel's text with some changes."""
    rng = random.Random(seed)
    changes = Changes(text, rng)
    for _ in range(rng.randint(1, 8)):
        changes.change()
    return changes.text()


#===----------------------------------------------------------------------===#
# Compilations
#===----------------------------------------------------------------------===#


def outcome(compile_for, chip):
    """Returns whether a chip's PTX is emitted at the first or second attempt, the message of a
    refusal, or that the kernel is invalid in some other way."""
    try:
        kernel = compile_for(chip)
    except ValueError as error:
        return str(error) if REFUSED in str(error) else "not taken"
    return "compiled twice" if "inline asm" in kernel.ptx else "compiled once"


def programs(seed, directory):
    """Yields a graph and changed kernels: a name, the text, and a function that compiles it."""
    example = Example(seed, directory)
    yield "graph", example.text, example.compile
    try:
        ir = example.compile().ir
    except ValueError:
        return
    for number in range(2):
        text = changed(ir, f"{seed} {number}")
        yield f"kernel{number}", text, lambda chip, text=text: tandem.compile(text, None, chip)


class Record:
    """The counts of this run and of earlier ones. With a name, they are kept in a file, and a
    run continues after the last seed of the previous one."""

    def __init__(self, path):
        self.path, self.programs, self.graphs, self.next = path, 0, 0, None
        self.count = Counter()
        if path and path.exists():
            known = json.loads(path.read_text())
            self.programs, self.graphs = known["programs"], known["graphs"]
            self.next, self.count = known["next"], Counter(known["outcomes"])

    def save(self, seed):
        """Saves the counts after a seed."""
        self.graphs += 1
        if not self.path:
            return
        here = {key: value for key, value in machine().items()
                if key in ("cpu", "cpuid", "cores", "memory_gib")}
        content = {"machine": here, "date": datetime.date.today().isoformat(),
                   "chips": CHIPS, "graphs": self.graphs, "programs": self.programs,
                   "next": seed + 1, "outcomes": dict(sorted(self.count.items()))}
        unfinished = self.path.with_suffix(".new")
        unfinished.write_text(json.dumps(content, indent=1) + "\n")
        unfinished.replace(self.path)

    def __str__(self):
        return (f"ptx: {self.graphs} graphs, {self.programs} programs; "
                + ", ".join(f"{number} {result}"
                            for result, number in sorted(self.count.items())))


def fuzz(options):
    record = Record(options.record)
    if record.next is not None:
        options.first = record.next
    for seed in campaign.seeds(options):
        with tempfile.TemporaryDirectory() as directory:
            for name, text, compile_for in programs(seed, Path(directory)):
                record.programs += 1
                for chip in CHIPS:
                    result = outcome(compile_for, chip)
                    if REFUSED in result:
                        file = options.findings / f"ptx-{seed}-{name}.mlir"
                        file.write_text(text)
                        print(f"{file}: {chip}: {result}", flush=True)
                        result = "refused"
                    record.count[result] += 1
        record.save(seed)
    print(record)
    return 1 if record.count["refused"] else 0


def main():
    parser = campaign.parser(__doc__)
    parser.add_argument("--record", type=Path,
                        help="the file of earlier counts, which this run continues")
    return fuzz(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
