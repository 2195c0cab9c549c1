#===- test_cache.py - The cache of compiled code ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the cache on disk from outside: a second process compiles nothing and computes the
# same bits, and a cache that cannot be used costs one line and no result.
#
#===----------------------------------------------------------------------===#

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

import tandem
import tandem.cache
from support.kernels import assert_same, run

#: Compiles kernels of one and of several phases, for matrices and for a GPU, a layer and a
#: conversion, and prints what it computed and how many it compiled.
PROGRAM = """
import hashlib, json, sys
import numpy as np
import tandem, tandem.cache
from tandem._layers import Layer

def step(kernel):
    rng = np.random.default_rng(0)
    rows, columns = (32, 64) if kernel.is_matrix else (1, 2048)
    planes = {p.name: rng.integers(0, 60, p.entries(columns, rows)).astype(f"u{p.bits // 8}")
              for p in kernel.planes}
    if kernel.is_matrix:
        planes |= {p.name: planes[p.name].reshape(rows, columns) for p in kernel.planes if p.sets_size}
    kernel(planes, **{name: 0.9 for name, default in kernel.hypers.items() if default is None},
           **({"step": 1} if "step" in kernel.integers else {}))
    return planes

digest = hashlib.sha256()
for graph, strategy in (("adamw", "flash-f16"), ("adafactor", "bf16-stochastic"), ("lamb", "fp32")):
    kernel = tandem.compile(graph, strategy)
    digest.update((kernel.signature + kernel.ir + repr(kernel.storages)).encode())
    for plane in step(kernel).values():
        digest.update(plane.tobytes())
digest.update(tandem.compile("adamw", "flash-f16", "sm_90").image)
layer = Layer("rms_norm", "coat", "bf16", "bf16")
for step in (layer.forward, layer.backward):
    digest.update(repr((step.kernel.ir, step.storages)).encode())
info = tandem.cache.info()
print(json.dumps({"digest": digest.hexdigest(), "compiled": info.compilations, "hits": info.hits}))
"""
COMPILED = 6  #: kernels in the program
SMALL = "import tandem; tandem.compile('sgd', 'fp32'); import tandem.cache; print(tandem.cache.info().compilations)"


def start(program, cache, prefix=(), **options):
    """Starts Python with a cache in a folder."""
    env = {**os.environ, "TANDEM_CACHE_DIR": str(cache), **options.pop("env", {})}
    return subprocess.Popen([*prefix, sys.executable, "-c", program], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def finish(process):
    """Returns what a process has printed on both outputs."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out, err


def result_of(program, cache, **options):
    out, err = finish(start(program, cache, **options))
    assert err == ""
    return json.loads(out)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Returns a folder for a cache, which this process uses too."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TANDEM_CACHE_DIR", str(folder))
    return folder


def assert_one_line(err, *texts):
    lines = err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("tandem: "), err
    for text in texts:
        assert text in lines[0], err


#===----------------------------------------------------------------------===#
# Entries that are kept
#===----------------------------------------------------------------------===#


def test_a_second_process_compiles_nothing_and_computes_the_same(cache):
    first = result_of(PROGRAM, cache)
    again = result_of(PROGRAM, cache)
    without = result_of(PROGRAM, cache, env={"TANDEM_CACHE": "off"})
    assert first["digest"] == again["digest"] == without["digest"]
    assert (first["compiled"], first["hits"]) == (COMPILED, 0)
    assert (again["compiled"], again["hits"]) == (0, COMPILED)
    assert (without["compiled"], without["hits"]) == (COMPILED, 0)


def test_processes_that_start_at_once(cache):
    results = [json.loads(finish(process)[0])
               for process in [start(PROGRAM, cache) for _ in range(3)]]
    assert len({result["digest"] for result in results}) == 1
    assert result_of(PROGRAM, cache)["compiled"] == 0
    assert not list(cache.glob("new-*"))


def test_a_forked_process_uses_the_cache(cache):
    program = """
import os, tandem, tandem.cache
tandem.compile("sgd", "fp32")
child = os.fork()
tandem.compile("lion", "fp32")
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
tandem.compile("lion", "fp32")
print(tandem.cache.info().compilations)
"""
    out, err = finish(start(program, cache))
    assert int(out) <= 2 and err == ""


@pytest.mark.parametrize("strategy", ["remainder", "flash-f16", "coat", "collage-plus"])
def test_a_cached_kernel_is_the_one_that_was_compiled(strategy, cache, tmp_path):
    compiled, cached = (tandem.compile("adamw", strategy) for _ in range(2))
    assert tandem.cache.info().entries == 1
    for name, value in vars(compiled).items():
        if name != "_native":
            assert getattr(cached, name) == value, name
    for name in ("signature", "ir", "storages", "second_moments", "phases", "launches", "measures",
                 "reductions", "bytes_per_parameter", "compute"):
        assert getattr(cached, name) == getattr(compiled, name), name
    for kernel, name in ((compiled, "a.tdm"), (cached, "b.tdm")):
        kernel.save(tmp_path / name, ["x86-64-v3", "sm_90"])
        with pytest.raises(AttributeError, match="stays in this process"):
            kernel.image
    assert (tmp_path / "a.tdm").read_bytes() == (tmp_path / "b.tdm").read_bytes()
    rng = np.random.default_rng(0)
    columns = 4096
    planes = {p.name: rng.integers(0, 60, (p.entries(columns, 1) if compiled.is_matrix
                                           else p.entries(columns))).astype(f"u{p.bits // 8}")
              for p in compiled.planes}
    if compiled.is_matrix:
        planes |= {p.name: planes[p.name].reshape(1, columns)
                   for p in compiled.planes if p.sets_size}
    hypers = {name: 0.9 for name, default in compiled.hypers.items() if default is None}
    assert_same(run(cached, planes, hypers, threads=2), run(compiled, planes, hypers, threads=2),
                strategy)


def test_a_hit_takes_two_milliseconds(cache):
    """It takes half of one; the margin is for other work on the machine."""
    tandem.compile("adamw", "flash-f16")
    before = tandem.cache.info().hits
    times = []
    for _ in range(21):
        start = time.perf_counter()
        tandem.compile("adamw", "flash-f16")
        times.append(time.perf_counter() - start)
    assert tandem.cache.info().hits == before + 21
    assert statistics.median(times) < 0.01, times


#===----------------------------------------------------------------------===#
# Caches that cannot be used
#===----------------------------------------------------------------------===#


def only_file(cache):
    (file,) = cache.iterdir()
    return file


@pytest.mark.parametrize("damage", ["empty", "short", "header", "description", "code", "longer",
                                    "version", "writable", "link"])
def test_what_is_damaged_is_compiled_again_with_one_line(damage, cache, tmp_path):
    finish(start(SMALL, cache))
    file = only_file(cache)
    good = file.read_bytes()

    def flip(at):
        return good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]

    contents = {"empty": b"", "short": good[:-100], "header": flip(50), "description": flip(200),
                "code": flip(good.index(b"\x7fELF") + 300), "longer": good + b"?",
                "version": b"TDMCODE9" + good[8:]}
    if damage in contents:
        file.write_bytes(contents[damage])
    elif damage == "writable":
        file.chmod(0o666)
    else:
        shutil.move(file, tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    out, err = finish(start(SMALL, cache))
    assert out == "1\n"
    assert_one_line(err, file.name, "compiled again")
    assert finish(start(SMALL, cache)) == ("0\n", "")
    assert only_file(cache).read_bytes()[:8] == good[:8]


def test_a_folder_that_others_can_write_costs_one_line(cache):
    cache.mkdir(0o777)
    cache.chmod(0o777)
    out, err = finish(start(SMALL, cache))
    assert out == "1\n"
    assert_one_line(err, str(cache), "can be written by other users", "TANDEM_CACHE=off")
    assert not list(cache.iterdir())


def test_a_folder_that_cannot_be_made_costs_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    out, err = finish(start(SMALL, tmp_path / "file" / "cache"))
    assert out == "1\n"
    assert_one_line(err, "TANDEM_CACHE_DIR")


def mounted(tmp_path, *commands):
    """Returns the beginning of a command that runs with mounts of its own, and skips the test where
    that takes privileges that it lacks."""
    script = " && ".join([*commands, 'exec "$@"'])
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"], capture_output=True,
                                                     cwd=tmp_path).returncode:
        pytest.skip("this user may not mount file systems")
    return prefix


def test_a_read_only_folder_is_read_and_costs_one_line(cache, tmp_path):
    finish(start(SMALL, cache))
    prefix = mounted(tmp_path, f"mount --bind {cache} {cache}",
                     f"mount -o remount,ro,bind {cache}")
    assert finish(start(SMALL, cache, prefix)) == ("0\n", "")
    shutil.rmtree(cache)
    cache.mkdir(0o700)
    out, err = finish(start(SMALL, cache, prefix))
    assert out == "1\n"
    assert_one_line(err, "Read-only file system", "TANDEM_CACHE=off")


def test_a_full_file_system_costs_one_line(cache, tmp_path):
    cache.mkdir(0o700)
    prefix = mounted(tmp_path, f"mount -t tmpfs -o size=64k,mode=700 none {cache}",
                     f"head -c 60000 /dev/zero > {cache}/other || true")
    program = SMALL.replace("'sgd', 'fp32'", "'adamw', 'flash-f16'")
    listing = f"; import os; print(sorted(os.listdir({str(cache)!r})))"
    out, err = finish(start(program + listing, cache, prefix))
    assert out == "1\n['other']\n"
    assert_one_line(err, "No space left on device", "TANDEM_CACHE_DIR")


def test_a_limit_of_file_sizes_does_not_end_the_process(cache):
    out, err = finish(start(SMALL, cache, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))))
    assert out == "1\n"
    assert not list(cache.glob("*.tdm"))


@pytest.mark.parametrize("name, value", [("TANDEM_CACHE", "never"), ("TANDEM_CACHE_SIZE", "much")])
def test_unreadable_settings_cost_one_line(name, value, cache):
    out, err = finish(start(SMALL, cache, env={name: value}))
    assert out == "1\n"
    assert_one_line(err, f"{name} is '{value}'")
    assert list(cache.glob("*.tdm"))


#===----------------------------------------------------------------------===#
# The command
#===----------------------------------------------------------------------===#


def test_the_command_shows_and_empties_the_cache(cache, capsys):
    tandem.compile("sgd", "fp32")
    assert tandem.cache.main([]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{cache}: 1 entries, ") and shown.endswith(" of 256 MiB\n")
    assert tandem.cache.main(["--clear"]) == 0
    assert f"{cache}: 0 entries" in capsys.readouterr().out
    assert not list(cache.iterdir())


def test_the_command_empties_a_cache_that_is_off(cache, capsys, monkeypatch):
    tandem.compile("sgd", "fp32")
    monkeypatch.setenv("TANDEM_CACHE", "off")
    assert tandem.cache.main(["--clear"]) == 0
    assert "0 entries" in capsys.readouterr().out
    assert not tandem.cache.info().enabled
    monkeypatch.setenv("TANDEM_CACHE_DIR", "")
    assert tandem.cache.main([]) == 0
    assert "there is no cache" in capsys.readouterr().out


def test_the_command_refuses_a_folder_of_others(cache, capsys):
    cache.mkdir(0o777)
    cache.chmod(0o777)
    assert tandem.cache.main(["--clear"]) == 1
    assert "can be written by other users" in capsys.readouterr().err
