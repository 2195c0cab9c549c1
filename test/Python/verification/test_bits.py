#===- test_bits.py - Recorded bits and code --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the library still computes the recorded bits and compiles to the recorded
# code, for a sample with every graph, strategy, layer, recipe and option (scripts/bits.sh covers
# all), and that the check detects a changed bit.
#
#===----------------------------------------------------------------------===#

import json
import sys
from pathlib import Path

import pytest

import tandem

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "verification"), str(ROOT / "benchmarks")]

import bits  # noqa: E402
import emulated  # noqa: E402
from bits_inputs import FORMATS, numbers  # noqa: E402
from bits_kernels import Case, compile_with  # noqa: E402

PARTS = {part: (record, make) for record, parts in bits.RECORDS.items()
         for part, make in parts.items()}
#: One in this many of the sample's cases is compared for code, which is the slowest part.
STRIDES = {"ptx": 2, "objects": 4}

#===------------------------------------------------------------------------===#
# The records
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("part", PARTS)
def test_nothing_has_changed(part):
    record, make = PARTS[part]
    content = bits.read(record)
    if reason := bits.refusal(record, content):
        pytest.skip(reason)
    found, left_out = bits.compute(bits.sample(make())[::STRIDES.get(part, 1)])
    assert bits.differences(content["hashes"], found) == []
    if not found:
        pytest.skip("; ".join(sorted(set(left_out.values()))))


@pytest.fixture
def emulation():
    """Makes the cases run kernels for AArch64 under an emulator."""
    if problem := emulated.missing():
        pytest.skip(problem)
    compile_with(emulated.compile)
    yield
    compile_with(tandem.compile)


def test_aarch64_computes_the_recorded_bits(emulation):
    found, left_out = bits.compute(bits.sample(bits.emulated_cases()))
    assert bits.differences(bits.read("bits")["hashes"], found) == []
    assert found and not left_out


@pytest.mark.parametrize("record", bits.RECORDS)
def test_the_record_has_the_library(record):
    """The record and the library have the same entries; scripts/bits.sh --write updates it."""
    hashes = bits.read(record)["hashes"]
    assert bits.changed_names(hashes, bits.cases_of(record)) == []
    assert list(hashes) == sorted(hashes)


def test_the_sample_has_everything():
    features = set().union(*(case.features for record in bits.RECORDS
                             for case in bits.sample(bits.cases_of(record))))
    for kind, names in {"graph": tandem.graphs(), "strategy": tandem.strategies(),
                        "layer": tandem.layers(), "recipe": tandem.recipes(),
                        "convert to": tandem.strategies()}.items():
        assert {f"{kind} {name}" for name in names} <= features

#===------------------------------------------------------------------------===#
# Differences that the check finds
#===------------------------------------------------------------------------===#

ONLY = "^graph sgd (fp32|bf16|coat)$"


@pytest.fixture
def folder(tmp_path):
    """Makes a record of three graphs."""
    assert bits.main(["--write", "--files", "bits", "--only", ONLY,
                      "--results", str(tmp_path)]) == 0
    return tmp_path


def check(folder, only=ONLY):
    return bits.main(["--files", "bits", "--only", only, "--results", str(folder)])


def change(folder, edit):
    path = folder / "bits.json"
    content = json.loads(path.read_text())
    edit(content["hashes"])
    path.write_text(json.dumps(content))


def test_a_record_is_that_of_the_library(folder):
    assert check(folder) == 0
    hashes = json.loads((folder / "bits.json").read_text())["hashes"]
    assert hashes.items() <= bits.read("bits")["hashes"].items()
    assert len(hashes) == len(set(hashes.values())) == 3


def test_a_changed_entry_is_found(folder, capsys):
    change(folder, lambda hashes: hashes.update({"graph sgd bf16": "0123456789abcdef"}))
    assert check(folder) == 1
    output = capsys.readouterr().out
    assert "graph sgd bf16: was 0123456789abcdef, is " in output
    assert "3 entries, 1 differences" in output and "sgd coat" not in output
    assert check(folder, "^graph sgd coat$") == 0


def test_missing_and_foreign_entries_are_found(folder, capsys):
    change(folder, lambda hashes: hashes.update(
        {"graph sgd fp32 of old": hashes.pop("graph sgd coat")}))
    assert check(folder, "^graph sgd (fp32|bf16|coat)") == 1
    output = capsys.readouterr().out
    assert "graph sgd coat: not on record; scripts/bits.sh --write adds it" in output
    assert "graph sgd fp32 of old: on record, but not in the library" in output


def test_a_flipped_bit_changes_the_hash(monkeypatch):
    """The kernel changes one bit in its last step."""
    case = next(c for c in bits.graph_cases() if c.name == "graph sgd bf16")
    right, steps = case.run(), []
    launch = tandem.Kernel.__call__

    def flip(kernel, arrays, **options):
        launch(kernel, arrays, **options)
        steps.append(kernel.name)
        if len(steps) == 4:
            arrays["param"][999] ^= 1
        return 0

    monkeypatch.setattr(tandem.Kernel, "__call__", flip)
    assert case.run() != right and len(steps) == 4


def test_what_cannot_be_computed_is_a_difference():
    def fail():
        raise ValueError("no such thing\nand more")

    found, _ = bits.compute([Case("broken", frozenset(), fail)])
    assert bits.differences({"broken": "0123456789abcdef"}, found) == [
        "broken: was 0123456789abcdef, is ValueError: no such thing"]


def test_code_of_another_llvm_is_not_compared(tmp_path, capsys):
    (tmp_path / "ptx_hashes.json").write_text(
        json.dumps({"llvm": "1.0", "hashes": {"graph sgd fp32 sm_90": "wrong"}}))
    assert bits.main(["--files", "ptx", "--only", "^graph sgd fp32 ",
                      "--results", str(tmp_path)]) == 0
    assert "SKIPPED: ptx_hashes.json was made with LLVM 1.0" in capsys.readouterr().out

#===------------------------------------------------------------------------===#
# Inputs
#===------------------------------------------------------------------------===#


def test_inputs_never_change():
    assert numbers("f32", "ordinary", 1, 3).tolist() == [0x3DF9861E, 0x3E4E1D99, 0x3F6BB4A2]
    assert numbers("bf16", "wide", 1, 4).tolist() == [0, 0x3F19, 0x3C22, 0x8000]


@pytest.mark.parametrize("type", FORMATS)
def test_inputs_have_what_their_kind_says(type):
    *_, nan, largest = FORMATS[type]
    magnitude = (1 << nan.bit_length()) - 1
    for kind in ("ordinary", "wide"):
        assert ((numbers(type, kind, 5, 5000) & magnitude) <= largest).all()
    special = set(numbers(type, "special", 5, 300).tolist())
    assert {nan, largest, 0, 1} <= special
