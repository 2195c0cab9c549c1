# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A corpus that every machine with Python has: the standard library's sources.

There is no tokenizer: each ASCII character that occurs is a symbol, and other
characters are replaced with "?". The text depends only on the Python version.
"""

from __future__ import annotations

import dataclasses
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

# Tests, vendored code and generated tables are not representative prose.
SKIPPED_FOLDERS = {
    "__pycache__",
    "dist-packages",
    "encodings",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
    "turtledemo",
}
VALIDATION_EVERY = 10  # each tenth file is held out
MAXIMUM_BYTES = 8_000_000

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Training and validation text as indices into a vocabulary of characters."""

    train: np.ndarray
    validation: np.ndarray
    vocabulary: bytes


def source_files(root: Path) -> list[Path]:
    """Returns the .py files below root in a fixed order, without SKIPPED_FOLDERS."""
    found = []
    for path in root.rglob("*.py"):
        folders = path.relative_to(root).parts[:-1]
        if not SKIPPED_FOLDERS.intersection(folders):
            found.append(path)
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def read_split(files: list[Path]) -> tuple[bytes, bytes]:
    """Concatenates the files, up to MAXIMUM_BYTES, into two texts."""
    texts = bytearray(), bytearray()
    for index, path in enumerate(files):
        held_out = index % VALIDATION_EVERY == VALIDATION_EVERY - 1
        text = path.read_text("utf-8", "replace") + "\n"
        texts[held_out].extend(text.encode("ascii", "replace"))
        if len(texts[0]) + len(texts[1]) > MAXIMUM_BYTES:
            break
    return bytes(texts[0]), bytes(texts[1])


def load_corpus(root: Path | None = None) -> Corpus:
    """Reads the standard library of the running Python (or another folder)."""
    root = root or Path(sysconfig.get_paths()["stdlib"])
    train, validation = read_split(source_files(root))
    if min(len(train), len(validation)) < 100_000:
        raise SystemExit(
            f"error: {root} holds too few Python sources to train on; "
            "use a Python whose standard library is installed as .py files"
        )
    vocabulary = bytes(sorted(set(train) | set(validation)))
    index = np.zeros(256, dtype=np.uint8)
    index[list(vocabulary)] = np.arange(len(vocabulary))
    encoded = [index[np.frombuffer(text, np.uint8)] for text in (train, validation)]
    return Corpus(*encoded, vocabulary)


def batches(
    text: np.ndarray, count: int, batch: int, context: int, seed: int
) -> Iterator[Batch]:
    """Draws `count` batches of (input, next character); the seed fixes them all."""
    generator = np.random.default_rng(seed)
    window = np.arange(context + 1)
    for _ in range(count):
        starts = generator.integers(0, len(text) - context, size=batch)
        block = torch.from_numpy(text[starts[:, None] + window].astype(np.int64))
        yield block[:, :-1], block[:, 1:]
