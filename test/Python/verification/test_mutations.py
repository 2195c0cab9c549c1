#===- test_mutations.py - Known faults are found ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the list of known faults and its results match the current sources, and that
# the faults which need no build are found. scripts/mutate.sh covers all faults.
#
#===----------------------------------------------------------------------===#

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "test/Mutations"), str(ROOT / "verification")]
import mutate  # noqa: E402
import verification_page as page  # noqa: E402
from mutations import MUTATIONS  # noqa: E402

import tandem  # noqa: E402
from model import STRATEGIES, cases  # noqa: E402
from support.kernels import compiled, integers_of, run  # noqa: E402
from support.launch import Tensor, WithPTX, aligned_copy, launch  # noqa: E402


def test_the_list_is_of_the_present_sources():
    assert mutate.stale() == []
    assert len({m.name for m in MUTATIONS}) == len(MUTATIONS)


def has_comma_outside(text):
    """Returns whether there is a comma outside of parentheses. `c ? (a, b) : (c, d)` would not
    be two arguments."""
    outside, depth = "", 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        outside += letter if depth == 0 else ""
    return "," in outside


def test_switched_faults_keep_the_original():
    assert has_comma_outside("f(x), 2") and not has_comma_outside("f(x, 2)")
    for mutation in MUTATIONS:
        if mutation.needs_build and "isMutant(" not in mutation.replace:
            assert mutation.find in mutation.switched
            assert not has_comma_outside(mutation.find + mutation.replace), mutation.name
        assert f'isMutant("{mutation.name}")' in mutation.switched


def test_results_are_of_the_present_list():
    """Each fault that was run was found by a test of the list; the page reports the others as
    not run."""
    rows = mutate.load(mutate.RESULTS)
    assert rows
    for mutation in MUTATIONS:
        if mutation.name in rows:
            assert rows[mutation.name]["test"] in mutation.tests, mutation.name
    # No result of an earlier list is left.
    assert len(json.loads(mutate.RESULTS.read_text())["rows"]) == len(rows)


def test_the_page_names_what_was_not_found(tmp_path):
    first, second = MUTATIONS[:2]
    rows = {m.name: mutate.row(m, test, 2.0, ROOT)
            for m, test in ((first, first.tests[0]), (second, None))}
    mutate.save(tmp_path / "mutations.json", rows)
    text = page.faults_text(tmp_path)
    assert f"{len(MUTATIONS)} faults, 1 found." in text
    assert f"**Not found by any test:** `{second.name}`." in text
    assert f"Not run as they are listed now: `{MUTATIONS[2].name}`, " in text
    assert f"`{first.tests[0]}` | 2.0 s |" in text and "**nothing**" in text


def test_a_changed_fault_has_no_result(tmp_path):
    row = mutate.row(MUTATIONS[0], None, 1.0, ROOT) | {"digest": "0"}
    (tmp_path / "mutations.json").write_text(json.dumps({"machine": {}, "rows": [row]}))
    assert mutate.load(tmp_path / "mutations.json") == {}


#===----------------------------------------------------------------------===#
# Faults in Python
#===----------------------------------------------------------------------===#


def copy_package(directory):
    """Copies the package `tandem` to a separate directory."""
    source = Path(tandem.__file__).parent
    shutil.copytree(source, directory / "tandem",
                    ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for native in Path(tandem._tandem.__file__).parent.glob("*.so"):
        (directory / "tandem" / native.name).symlink_to(native)


@pytest.mark.thinned(0, times=9)
@pytest.mark.parametrize("name", [m.name for m in MUTATIONS if not m.needs_build])
def test_faults_in_python(name, tmp_path):
    pytest.importorskip("torch")
    mutation = next(m for m in MUTATIONS if m.name == name)
    copy_package(tmp_path)
    path = tmp_path / mutation.file.removeprefix("python/")
    path.write_text(path.read_text().replace(mutation.find, mutation.replace))
    command = mutate.command_of(mutation.tests[0], ROOT)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(list(map(str, command)), env=environment, cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout


#===----------------------------------------------------------------------===#
# Faults in PTX
#===----------------------------------------------------------------------===#


def leaves_the_bits(kernel):
    hypers = cases.hypers("adamw", STRATEGIES["collage-plus"])
    planes = cases.state("adamw", STRATEGIES["collage-plus"], "mixed", 67, 5)
    tensor = Tensor({n: aligned_copy(p) for n, p in planes.items()})
    launch(kernel, [tensor], [hypers | integers_of(kernel)], chunk_size=64)
    want = run(compiled("adamw", "collage-plus"), planes, hypers)
    return all(np.array_equal(tensor.planes[n], want[n]) for n in want)


@pytest.mark.parametrize("find, replace", [
    ("sub.rn.bf16x2", "add.rn.bf16x2"), ("fma.rn.bf16x2", "fma.rn.relu.bf16x2"),
    ("mul.rn.f32", "mul.rz.f32"), ("add.rn.bf16x2", "sub.rn.bf16x2"),
    ("sqrt.rn.f32", "sqrt.approx.f32"), ("div.rn.f32", "div.full.f32"),
    ("mul.rn.f32", "mul.rn.ftz.f32")])
def test_faults_in_ptx(find, replace):
    """The evaluator, which runs all PTX tests, rejects the PTX or reports the fault."""
    kernel = compiled("adamw", "collage-plus", "sm_90")
    if find not in kernel.ptx:
        pytest.skip(f"the kernel has no {find}")
    faulty = WithPTX(kernel, kernel.ptx.replace(find, replace, 1))
    try:
        assert not leaves_the_bits(faulty)
    except ValueError as error:
        assert str(error)


def test_no_fault_in_ptx():
    assert leaves_the_bits(compiled("adamw", "collage-plus", "sm_90"))
