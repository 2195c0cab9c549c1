#===- test_frozen_packages.py - Packages of earlier versions ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests of packages that were written once and stay as they
# are: this version runs them with the bits of then, or refuses them and names their
# version.
#
#===----------------------------------------------------------------------===#

import json
import re
from pathlib import Path

import pytest

import tandem
from support import frozen
from support.kernels import compiled, require_isa

DATA = Path(__file__).resolve().parent / "data/packages"
EXPECTED = {path.parent / file: kernels for path in sorted(DATA.glob("*/expected.json"))
            for file, kernels in json.loads(path.read_text()).items()}
IMAGES = [(path, name, target) for path, kernels in EXPECTED.items()
          for name, targets in kernels.items() for target in targets]


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    """The version that this runtime reads, which is the one that it writes."""
    path = tmp_path_factory.mktemp("package") / "kernel.tdm"
    compiled("sgd", "fp32").save(path, ["x86-64"])
    return frozen.format_of(path)


def refusal(path, version):
    """What is said of a package of another version."""
    return (f"package '{re.escape(str(path))}': has format version "
            f"{frozen.format_of(path)}, and this runtime reads version {version}; ")


def ids(values):
    return [f"{path.parent.name}-{path.stem}-{'-'.join(rest)}" for path, *rest in values]


def load(path, name, target, version):
    """A kernel of a frozen package; ends the test where it is refused as it should be."""
    options = {"target": target} if target.startswith("sm_") else {"isa": target}
    try:
        return tandem.load(path, name, **options)
    except ValueError as error:
        assert frozen.format_of(path) != version, error
        assert re.match(refusal(path, version), str(error))
        pytest.skip(f"refused, as it should be: {error}")


def test_there_are_frozen_packages():
    files = {path for path in DATA.glob("*/*.tdm")}
    assert files == set(EXPECTED) and len(files) >= 3
    assert sum(path.stat().st_size for path in files) < 300_000


@pytest.mark.parametrize("path, name, target", IMAGES, ids=ids(IMAGES))
def test_a_frozen_package_computes_what_it_did(path, name, target, version):
    if not target.startswith("sm_"):
        require_isa(target)
    kernel = load(path, name, target, version)
    result = frozen.ptx_hash(kernel) if target.startswith("sm_") else frozen.run(kernel)
    assert result == EXPECTED[path][name][target]


def test_a_frozen_kernel_is_compiled_again_from_its_text(tmp_path, version):
    """For another target, by the compiler of today."""
    path = next(path for path in EXPECTED if path.name == "phases.tdm")
    kernel = load(path, "clipped", "x86-64", version)
    kernel.save(tmp_path / "again.tdm", ["x86-64-v2", "sm_80"])
    again = tandem.load(tmp_path / "again.tdm", isa="x86-64-v2")
    assert frozen.run(again) == EXPECTED[path]["clipped"]["x86-64"]
    assert tandem.load(tmp_path / "again.tdm", target="sm_80").signature == kernel.signature


@pytest.mark.parametrize("other", (1, 999))
def test_another_version_is_refused_by_name(other, tmp_path, version):
    assert other != version
    data = bytearray(next(iter(EXPECTED)).read_bytes())
    data[8:12] = other.to_bytes(4, "little")
    path = tmp_path / "other.tdm"
    path.write_bytes(data)
    advice = "use a newer runtime" if other > version else "write it again with a newer compiler"
    with pytest.raises(ValueError, match=refusal(path, version) + advice):
        tandem.load(path)
