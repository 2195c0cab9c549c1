#===- test_command.py - The command python -m tandem -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests what python -m tandem prints and writes.
#
#===----------------------------------------------------------------------===#

import os
import subprocess
import sys

import pytest

import tandem
from tandem.__main__ import main


def printed(capsys, *arguments):
    """Returns what a command prints, which must succeed."""
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_shows_what_a_report_needs(capsys):
    text = printed(capsys)
    assert f"tandem {tandem.__version__}, " in text and "numpy " in text
    assert "instructions x86-64" in text or "instructions aarch64" in text
    assert f"{len(tandem.graphs())} graphs" in text and f"{len(tandem.strategies())} strat" in text
    assert "cache of compiled code: " in text and "GPUs: " in text


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "tandem", "list", "recipes"],
                          capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["recipes:", *(f"  {name}" for name in tandem.recipes())]


def test_lists_all(capsys):
    lines = printed(capsys, "list").split()
    for names in (tandem.graphs(), tandem.layers(), tandem.strategies(), tandem.recipes()):
        assert set(names) <= set(lines)


def test_compiles_packages(capsys, tmp_path):
    file = tmp_path / "two.tdm"
    text = printed(capsys, "compile", "adamw", "--strategy", "flash-f16", "--strategy", "coat",
                   "--targets", "x86-64", "sm_90", "-o", file)
    assert "[2/2] adamw_coat: 10.0781 bytes" in text
    assert f"wrote {file}, {file.stat().st_size:,} bytes" in text
    kernel = tandem.load(file, "adamw_flash-f16", isa="x86-64")
    assert kernel.bytes_per_parameter == 8.25
    found = printed(capsys, "inspect", file, "--name", "adamw_coat")
    assert found == printed(capsys, "inspect", "adamw", "--strategy", "coat")
    assert found.startswith(tandem.compile("adamw", "coat").signature)
    assert "\n  param: #tandem.master<bf16>\n" in found
    assert found.endswith("\n10.0781 bytes a parameter, 1 launch a step\n")


def test_layers_have_two_functions(capsys, tmp_path):
    file = tmp_path / "gelu.tdm"
    printed(capsys, "compile", "gelu", "--strategy", "bf16", "--function", "gelu_backward",
            "-o", file)
    assert tandem.load(file).name == "gelu_backward"
    text = printed(capsys, "inspect", "gelu", "--strategy", "bf16", "--function", "gelu")
    assert text.startswith("gelu under bf16")


def test_uses_strategies_of_a_directory(capsys, tmp_path):
    (tmp_path / "mine.mlir").write_text(
        "tandem.strategy @mine compute(<f32, f32>) {\n"
        "  tandem.assign param = #tandem.float<f32>\n"
        "  tandem.assign grad = #tandem.float<bf16>\n}\n")
    text = printed(capsys, "inspect", "sgd", "--strategy", "mine", "--path", tmp_path)
    assert "\n6 bytes a parameter" in text


@pytest.mark.parametrize("arguments, message", (
    (["list", "things"], "there is no list 'things'; there are graphs, layers"),
    (["compile", "adamw", "--strategy", "coatt", "-o", "x.tdm"], "did you mean 'coat'?"),
    (["compile", "adamw", "--strategy", "coat", "--strategy", "coat", "-o", "x.tdm"],
     "--strategy coat is given twice; give each strategy once"),
    (["compile", "gelu", "--strategy", "bf16", "-o", "x.tdm"], "give the name of one"),
    (["inspect", "adamw"], "graph 'adamw' needs a strategy"),
    (["inspect", "adamw", "--strategy", "coat", "--name", "x"],
     "--name is for packages, and adamw is not one; leave it out"),
    (["inspect", "x.tdm", "--strategy", "coat"],
     "--strategy is for graphs, and x.tdm is not one; leave it out"),
    (["inspect", "x.tdm", "--path", "."], "--path is for graphs"),
    (["inspect", "x.tdm", "--function", "f"], "--function is for graphs"),
    (["inspect", "missing.tdm"], "missing.tdm"),
))
def test_errors(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
