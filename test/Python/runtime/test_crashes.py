#===- test_crashes.py - Killed processes ----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that a process killed while it writes arrays, a package or cached machine code
# never leaves partial data that can be read, and that a full disk is reported as an error.
#
#===----------------------------------------------------------------------===#

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tandem
from support.kernels import BASELINE, compiled

SUPPORT = Path(__file__).parents[1] / "support"
BIN = Path(tandem._tandem.__file__).parents[2] / "bin"
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

OLD = {"param": 1.0, "exp_avg": 2.0, "exp_avg_sq": 3.0}


@pytest.fixture(scope="module")
def crash_library(tmp_path_factory):
    library = tmp_path_factory.mktemp("crash") / "crash.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library,
                    SUPPORT / "crash.c", "-ldl"], check=True)
    return library


def kill_everywhere(library, directory, command, prepare, check):
    """Runs a command repeatedly, killing it one operation on files in `directory` later each
    time, until it ends by itself."""
    for at in range(1, 200):
        prepare()
        environment = os.environ | {"LD_PRELOAD": str(library), "CRASH_AT": str(at),
                                    "CRASH_DIRECTORY": str(directory)}
        done = subprocess.run(list(map(str, command)), env=environment,
                              capture_output=True, text=True)
        if done.returncode == 0:
            return at - 1
        assert done.returncode == -signal.SIGKILL, done.stderr
        check()
    raise AssertionError("the command does not end")


#===----------------------------------------------------------------------===#
# Arrays
#===----------------------------------------------------------------------===#


def read(path):
    """Reads a path with tandem-run and returns its arrays, or the reason for a refusal."""
    copy = path.with_name("copy.safetensors")
    done = subprocess.run(
        [BIN / "tandem-run", "adam", "--strategy=fp32", "--set=lr=0", "--set=beta1=0",
         "--set=beta2=0", f"--input={path},{path.with_name('grad.npy')}",
         f"--output={copy}"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def step(tmp_path):
    """Returns a step of tandem-run: its command without the output, its input, its result."""
    np.save(tmp_path / "grad.npy", np.full(5000, 0.5, np.float32))
    (tmp_path / "start").mkdir()
    for name, value in OLD.items():
        np.save(tmp_path / "start" / f"{name}.npy", np.full(5000, value, np.float32))
    return [BIN / "tandem-run", "adam", "--strategy=fp32", "--step=2",
            f"--input={tmp_path / 'start'},{tmp_path / 'grad.npy'}"]


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())
            if not path.name.endswith(".tmp")}


def restore(path, original):
    """Restores a directory or file; None means that there was none."""
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True) if not path.is_dir() else None
    if original is not None:
        (shutil.copytree if original.is_dir() else shutil.copy)(original, path)


@pytest.mark.parametrize("is_new", [True, False])
def test_arrays_in_a_directory(crash_library, step, tmp_path, is_new):
    """The result is all old arrays, all new ones, or a refusal."""
    output, start = tmp_path / "end", tmp_path / "start"
    subprocess.run([*step, f"--output={tmp_path / 'whole'}"], check=True,
                   capture_output=True)
    allowed = [contents(start), contents(tmp_path / "whole")]
    seen = set()

    def check():
        status, message = read(output)
        if status:
            assert ("ended too soon" in message or "no .npy file" in message
                    or not output.exists()), message
            seen.add("refused")
        else:
            seen.add(allowed.index(contents(output)))

    count = kill_everywhere(
        crash_library, output, [*step, f"--output={output}"],
        lambda: restore(output, None if is_new else start), check)
    # Three files are opened, written and renamed, and so is the mark.
    assert count >= 12 and seen == ({"refused"} if is_new else {"refused", 0})
    assert contents(output) == allowed[1]
    # Files left by a killed process do not prevent a new run.
    restore(output, start)
    (output / ".tandem-incomplete").touch()
    assert read(output)[0]
    subprocess.run([*step, f"--output={output}"], check=True, capture_output=True)
    assert contents(output) == allowed[1] and read(output)[0] == 0


@pytest.mark.parametrize("is_new", [True, False])
def test_arrays_in_a_file(crash_library, step, tmp_path, is_new):
    """The result is the old file or the new one, and never a part."""
    output, whole = tmp_path / "end.safetensors", tmp_path / "whole.safetensors"
    subprocess.run([*step, f"--output={whole}"], check=True, capture_output=True)
    old = None if is_new else tmp_path / "old.safetensors"
    if old:
        subprocess.run([*step, "--set=lr=0.5", f"--output={old}"], check=True,
                       capture_output=True)
    want = old and old.read_bytes()

    def check():
        assert (output.read_bytes() if output.exists() else None) == want

    # All operations in the folder count, including those on the temporary file.
    assert kill_everywhere(crash_library, tmp_path, [*step, f"--output={output}"],
                           lambda: restore(output, old), check) >= 3
    assert output.read_bytes() == whole.read_bytes()


#===----------------------------------------------------------------------===#
# Packages
#===----------------------------------------------------------------------===#

SAVE = ("import sys, tandem; "
        f"tandem.compile('sgd', 'bf16').save(sys.argv[1], ['{BASELINE}', 'sm_90'])")


@pytest.mark.parametrize("is_new", [True, False])
def test_packages(crash_library, tmp_path, is_new):
    directory = tmp_path / "packages"
    directory.mkdir()
    output, old = directory / "kernel.tdm", None if is_new else tmp_path / "old.tdm"
    compiled("sgd", "bf16").save(tmp_path / "whole.tdm", [BASELINE, "sm_90"])
    if old:
        compiled("sgd", "fp32").save(old, [BASELINE])
    want = old and old.read_bytes()

    def check():
        assert (output.read_bytes() if output.exists() else None) == want

    assert kill_everywhere(crash_library, directory, [sys.executable, "-c", SAVE, output],
                           lambda: restore(output, old), check) >= 3
    assert output.read_bytes() == (tmp_path / "whole.tdm").read_bytes()


def test_packages_of_translate(crash_library, tmp_path):
    """tandem-translate writes its output in place, like all MLIR tools; truncated output is
    refused."""
    directory = tmp_path / "packages"
    directory.mkdir()
    output = directory / "kernel.tdm"

    def check():
        if output.exists():
            with pytest.raises(ValueError, match="is (not a package|cut short)"):
                tandem.load(output)

    source = Path(__file__).parents[3] / "lib/Graphs/sgd.mlir"
    assert kill_everywhere(
        crash_library, directory,
        [BIN / "tandem-translate", "--to-package", "--strategy=bf16",
         f"--targets={BASELINE},sm_90", source, "-o", output],
        lambda: restore(output, None), check) >= 2
    assert tandem.load(output).name == "sgd"


#===----------------------------------------------------------------------===#
# Cached machine code
#===----------------------------------------------------------------------===#

LAUNCH = """
import os, sys
import numpy as np
import tandem
from support.fake_gpu import FakeGPU
gpu = FakeGPU(cache=sys.argv[1])
kernel = tandem.compile("sgd", "fp32", "sm_90")
plan = tandem.Plan(kernel, gpu.device)
planes = gpu.arrays({"param": np.ones(8, np.float32), "grad": np.ones(8, np.float32)})
plan.update([8], [[planes[p.name].address for p in kernel.planes]])
hypers, integers = kernel.scalars({"lr": 0.5, "weight_decay": 0.0})
plan.launch_async([hypers], [integers])
gpu.device.synchronize()
gpu.check()
assert (planes["param"].read() == 0.5).all()
"""


def test_the_code_cache(crash_library, tmp_path):
    """The next process uses complete code, or recompiles it."""
    cache = tmp_path / "cache"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(
        [str(Path(tandem.__file__).parents[1]), str(SUPPORT.parent)])}

    def launch(**more):
        return subprocess.run([sys.executable, "-c", LAUNCH, cache],
                              env=environment | more, capture_output=True, text=True)

    assert (done := launch()).returncode == 0, done.stderr
    whole = {path.name: path.read_bytes() for path in cache.glob("*.cubin")}
    assert len(whole) == 1
    for at in range(1, 200):
        restore(cache, None)
        done = launch(LD_PRELOAD=str(crash_library), CRASH_AT=str(at),
                      CRASH_DIRECTORY=str(cache))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert list(cache.glob("*.cubin")) == []
        assert (done := launch()).returncode == 0, done.stderr
        assert {p.name: p.read_bytes() for p in cache.glob("*.cubin")} == whole
    assert at > 3


#===----------------------------------------------------------------------===#
# Full disks
#===----------------------------------------------------------------------===#

LIMITED = """
import resource, signal, sys
import tandem
kernel = tandem.compile("adamw", "bf16")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
try:
    kernel.save(sys.argv[2], sys.argv[3:])
except ValueError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("limit, targets, message", [
    (300, ["sm_90"], "cannot write package '{path}': File too large"),
    (300, [BASELINE], "cannot write '"),
])
def test_a_full_disk(tmp_path, limit, targets, message):
    """The process that saves a package continues, and the old file remains."""
    path = tmp_path / "kernel.tdm"
    path.write_text("what was there")
    environment = os.environ | {"PYTHONPATH": str(Path(tandem.__file__).parents[1]),
                                "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LIMITED, str(limit), path, *targets],
                          env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "refused: " + message.format(path=path) in done.stdout
    assert path.read_text() == "what was there"
    assert [p.name for p in tmp_path.iterdir()] == ["kernel.tdm"]


def test_arrays_on_a_full_disk(step, tmp_path):
    output = tmp_path / "end"
    output.mkdir()
    script = f"ulimit -f 8; trap '' XFSZ; exec {' '.join(map(str, step))} --output={output}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "File too large; check the directory's permissions and free space" in done.stderr
    assert list(output.iterdir()) == []
