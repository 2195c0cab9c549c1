#===- emulated.py - Kernels of another architecture ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements kernels whose code is for AArch64, on a machine of any architecture. A program
# of AArch64 (runtime/cts/Launcher.cpp) launches them under qemu-user.
#
#===----------------------------------------------------------------------===#
"""Launches kernels for AArch64 under an emulator."""

import functools
import itertools
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import tandem

ROOT = Path(__file__).resolve().parents[1]
#: The folders that `scripts/build.sh --target aarch64` makes: the runtime with its tests, and
#: libraries of the architecture.
BUILD = ROOT / "build/aarch64"
LAUNCHER = BUILD / "runtime/bin/tandem-launcher"
LIBRARIES = BUILD / "root"


def emulator() -> list[str] | None:
    """Returns the command that runs programs of AArch64; None if there is none."""
    names = ("qemu-aarch64-static", "qemu-aarch64")
    program = next(filter(None, map(shutil.which, names)), None)
    return [program, "-L", str(LIBRARIES)] if program else None


def missing() -> str:
    """Returns what is missing to launch kernels for AArch64; empty if nothing is."""
    if not LAUNCHER.exists():
        return f"there is no {LAUNCHER.relative_to(ROOT)}; run scripts/build.sh --target aarch64"
    return "" if emulator() else "there is no qemu-aarch64; install qemu-user-static"


class Launcher:
    """A process of AArch64 that launches kernels of packages."""

    def __init__(self):
        if problem := missing():
            raise RuntimeError(problem)
        self._process = subprocess.Popen([*emulator(), str(LAUNCHER)], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE)

    def _read(self, size: int) -> bytes:
        data = self._process.stdout.read(size)
        if len(data) != size:
            raise RuntimeError(f"{LAUNCHER.name} ended with status {self._process.wait()}")
        return data

    def launch(self, path: Path, name: str, hypers, integers, planes: list[np.ndarray],
               shape: tuple[int, int], first: int, key: int, threads: int) -> int:
        """Updates the planes, which are dense, in place and returns the flags.

        Raises:
            ValueError: the launch is refused.
        """
        texts = [str(path).encode(), name.encode()]
        numbers = [*map(len, texts), len(hypers), len(integers), len(planes), *shape, first,
                   key, threads]
        request = [struct.pack("<10q", *numbers), *texts,
                   struct.pack(f"<{len(hypers)}d", *hypers),
                   struct.pack(f"<{len(integers)}q", *integers),
                   struct.pack(f"<{len(planes)}q", *(plane.nbytes for plane in planes)),
                   *(plane.tobytes() for plane in planes)]
        self._process.stdin.write(b"".join(request))
        self._process.stdin.flush()
        flags, message = struct.unpack("<2q", self._read(16))
        if message:
            raise ValueError(self._read(message).decode())
        for plane in planes:
            new = np.frombuffer(self._read(plane.nbytes), plane.dtype)
            plane[...] = new.reshape(plane.shape)
        return flags


@functools.cache
def launcher() -> Launcher:
    """Returns this process's launcher."""
    return Launcher()


#: Numbers for the names of files; the process keeps loaded kernels by the file's name.
_numbers = itertools.count()


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="tandem-emulated-")


class EmulatedKernel(tandem.Kernel):
    """A kernel that runs its code for AArch64 on NumPy arrays."""

    def __init__(self, kernel: tandem.Kernel, isa: str = "aarch64"):
        super().__init__(kernel._native, kernel.strategy, kernel.target)
        self._path = Path(_folder().name) / f"{next(_numbers)}-{isa}.tdm"
        kernel.save(self._path, [isa])

    def __call__(self, arrays, *, threads: int = 0, key: int = 0, first: int = 0,
                 **scalars) -> int:
        hypers, integers = self.scalars(scalars)
        shape, _ = self.addresses(arrays)
        planes = [arrays[plane.name] for plane in self.planes]
        return launcher().launch(self._path, self.name, hypers, integers, planes, shape, first,
                                 key, threads)

    def __del__(self):
        self._path.unlink(missing_ok=True)


def compile(*arguments, isa: str = "aarch64", **options) -> EmulatedKernel:
    """Calls tandem.compile, and returns a kernel that runs its code for AArch64."""
    return EmulatedKernel(tandem.compile(*arguments, **options), isa)
