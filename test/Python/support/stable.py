#===- stable.py - Stable names --------------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file collects the names that programs, packages and checkpoints rely on. Run as a program, it
# adds new ones to test/Python/data/stable.json and removes none.
#
#===----------------------------------------------------------------------===#
"""`found` returns functions of the C libraries, names of the library, and arrays of kernels."""

import ctypes
import json
import re
from pathlib import Path

import tandem

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "test/Python/data/stable.json"
BUILD = Path(tandem.__file__).parents[2]
LIBRARIES = {"tandem-runtime": BUILD / "runtime/libtandem_runtime.so",
             "tandem-c": BUILD / "lib/libTandem.so"}
HEADERS = {"tandem-runtime": ROOT / "runtime/include/tandem-runtime",
           "tandem-c": ROOT / "include/tandem-c"}
FUNCTION = re.compile(r"\b(tdm_\w+|tandem[A-Z]\w*)\(")
#: The strategies whose arrays are recorded: the recommended ones, and a paper's.
STRATEGIES = ("remainder", "flash-f16", "dither-softsign-root", "adam8bit", "collage-plus")


def functions(library):
    """Returns the functions that headers declare and the library exports."""
    text = "".join(path.read_text() for path in sorted(HEADERS[library].glob("*.h")))
    exported = ctypes.CDLL(str(LIBRARIES[library]))
    return sorted(name for name in set(FUNCTION.findall(text)) if hasattr(exported, name))


def statuses():
    """Returns the text of each status by its number."""
    text = ctypes.CDLL(str(LIBRARIES["tandem-runtime"])).tdm_status_string
    text.restype, names = ctypes.c_char_p, {}
    while (name := text(len(names))) != text(1 << 20):
        names[str(len(names))] = name.decode()
    return names


def arrays(strategy):
    """Returns the name and type of each array of AdamW."""
    return {plane.name: plane.type for plane in tandem.compile("adamw", strategy).planes}


def found():
    """Returns all current names."""
    lists = {"graphs": tandem.graphs(), "strategies": tandem.strategies(),
             "layers": tandem.layers(), "recipes": tandem.recipes()}
    return {"functions": {library: functions(library) for library in LIBRARIES},
            "statuses": statuses(), "library": {kind: sorted(of) for kind, of in lists.items()},
            "arrays": {strategy: arrays(strategy) for strategy in STRATEGIES}}


def lost(before, now, where=""):
    """Returns recorded entries that no longer exist or have changed."""
    if isinstance(before, dict):
        return [fault for key, value in before.items()
                for fault in lost(value, (now or {}).get(key), f"{where} {key}".strip())]
    if isinstance(before, list):
        return [f"{where} {name}" for name in before if name not in (now or ())]
    return [] if before == now else [f"{where}: {before}, now {now}"]


if __name__ == "__main__":
    content = found()
    if FILE.exists() and (faults := lost(json.loads(FILE.read_text()), content)):
        raise SystemExit("error: these are gone: " + "; ".join(faults))
    FILE.write_text(json.dumps(content, indent=1) + "\n")
