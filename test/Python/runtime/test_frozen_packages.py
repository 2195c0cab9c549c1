#===- test_frozen_packages.py - Packages of earlier versions ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests packages that were written once and never change: those of the current format
# version still run with the same bits, and others are refused by version.
#
#===----------------------------------------------------------------------===#

import json
import re
from pathlib import Path

import pytest

import tandem
from support import frozen
from support.kernels import compiled, require_isa

DATA = Path(__file__).resolve().parents[1] / "data/packages"
#: The format version that is written, and the oldest one that can be read.
VERSION, OLDEST = 5, 4
EXPECTED = {path.parent / file: kernels
            for path in sorted(DATA.glob("*/expected.json"))
            for file, kernels in json.loads(path.read_text()).items()}
OLDER = sorted(path for path in DATA.glob("*/*.tdm") if path not in EXPECTED)
IMAGES = [(path, name, target) for path, kernels in EXPECTED.items()
          for name, targets in kernels.items() for target in targets]


def refusal(path):
    """Returns the message that refuses a package of another version."""
    return (f"package '{re.escape(str(path))}': has format version "
            f"{frozen.format_of(path)}, and this runtime reads versions {OLDEST} to {VERSION}; ")


def ids(values):
    return [f"{path.parent.name}-{path.stem}-{'-'.join(rest)}" for path, *rest in values]


def load(path, name, target):
    """Loads a kernel of a frozen package."""
    if target.startswith("sm_"):
        return tandem.load(path, name, target)
    require_isa(target)
    return tandem.load(path, name, isa=target)


def test_there_are_frozen_packages():
    files = list(DATA.glob("*/*.tdm"))
    assert {frozen.format_of(path) for path in EXPECTED} == {OLDEST, VERSION} and OLDER
    assert sum(path.stat().st_size for path in files) < 700_000


def test_an_older_kernel_takes_no_shards():
    """Its code would take the rows of a shard for those of the whole tensor."""
    kernel = load(DATA / "format-4/phases.tdm", "clipped", "x86-64")
    with pytest.raises(ValueError, match="packages before version 5 do not know"):
        tandem.Plan(kernel).update([(0, 8)], [[0] * len(kernel.planes)],
                                   shardings=[(8, 0, [0, 0, 64])])


def test_the_version_is_the_one_that_is_written(tmp_path):
    path = tmp_path / "kernel.tdm"
    compiled("sgd", "fp32").save(path, ["x86-64"])
    assert frozen.format_of(path) == VERSION


@pytest.mark.parametrize("path", OLDER, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_packages_of_earlier_versions_are_refused(path):
    """Their code expects records that have changed since then."""
    assert path.parent.name == f"format-{frozen.format_of(path)}"
    with pytest.raises(ValueError, match=refusal(path) + "write it again with a newer compiler"):
        tandem.load(path)


@pytest.mark.parametrize("path, name, target", IMAGES, ids=ids(IMAGES))
def test_a_frozen_package_computes_what_it_did(path, name, target):
    kernel = load(path, name, target)
    result = frozen.ptx_hash(kernel) if target.startswith("sm_") else frozen.run(kernel)
    assert result == EXPECTED[path][name][target]


def test_a_field_of_later_is_empty():
    path = DATA / "format-4/phases.tdm"
    assert {plane.doc for plane in load(path, "clipped", "x86-64").planes} == {""}


def test_the_text_of_a_frozen_kernel_is_of_its_compiler(tmp_path):
    """The current compiler has other operations, and the error names the remedy."""
    path = DATA / "format-4/phases.tdm"
    kernel = load(path, "clipped", "x86-64")
    with pytest.raises(ValueError, match="'tandem.raise' is unknown; a package of an earlier "
                       "version spells its kernel otherwise: .* takes the graph, compiled again"):
        kernel.save(tmp_path / "again.tdm", ["x86-64-v2"])
    assert frozen.run(kernel) == EXPECTED[path]["clipped"]["x86-64"]


@pytest.mark.parametrize("other", (1, 999))
def test_another_version_is_refused_by_name(other, tmp_path):
    data = bytearray(next(iter(EXPECTED)).read_bytes())
    data[8:12] = other.to_bytes(4, "little")
    path = tmp_path / "other.tdm"
    path.write_bytes(data)
    advice = "use a newer runtime" if other > VERSION else "write it again with a newer compiler"
    with pytest.raises(ValueError, match=refusal(path) + advice):
        tandem.load(path)
