#===- unpack.py - Decompress files of the check ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the first step of the check on a GPU machine; scripts/stage-gpu-check.sh
# copies it into the folder that it fills.
#
#===----------------------------------------------------------------------===#
"""unpack.py: decompresses each NAME.xz in this file's folder to NAME, unless NAME exists."""

import lzma
import pathlib
import shutil

for packed in sorted(pathlib.Path(__file__).resolve().parent.rglob("*.xz")):
    target = packed.with_suffix("")
    if target.exists():
        continue
    unfinished = target.with_name(target.name + ".new")
    with lzma.open(packed) as source, open(unfinished, "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    unfinished.chmod(0o755)
    unfinished.replace(target)
    print(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB")
