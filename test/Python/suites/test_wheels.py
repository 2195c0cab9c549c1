#===- test_wheels.py - Distributions of Tandem -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the content and metadata of wheels, the common version number, and the messages if
# a part is missing. scripts/nightly.sh builds and tries whole wheels.
#
#===----------------------------------------------------------------------===#

import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import tandem
from tandem import _compiler, _extension, _tandem

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(_tandem.__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import split_wheel  # noqa: E402

METADATA = """Metadata-Version: 2.4
Name: tandem-mlir
Version: 1.2.3
Summary: A compiler
Requires-Python: >=3.10
Provides-Extra: torch
Requires-Dist: torch>=2.4; extra == "torch"

# Tandem

Requires-Dist: in prose stays
"""
FILES = {"tandem/__init__.py": b"", "tandem/_tandem.cpython-311-x86_64-linux-gnu.so": b"e",
         "tandem/libtandem_runtime.so": b"r"}


def whole(folder, files):
    """Writes a wheel as scikit-build-core makes it."""
    path = folder / "tandem_mlir-1.2.3-cp311-cp311-linux_x86_64.whl"
    info = "tandem_mlir-1.2.3.dist-info/"
    about = {"METADATA": METADATA.encode(), "licenses/LICENSE": b"l", "RECORD": b"old",
             "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
                      b"Tag: cp311-cp311-linux_x86_64\n\n"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (files | {info + name: data for name, data in about.items()}).items():
            archive.writestr(name, data)
    return path


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_each_file_is_in_one_wheel(tmp_path):
    made = split_wheel.split(whole(tmp_path, FILES | {split_wheel.COMPILER: b"c"}),
                             tmp_path / "out", "manylinux_2_35_x86_64")
    assert [path.name for path in made] == [
        "tandem_runtime-1.2.3-cp311-cp311-manylinux_2_35_x86_64.whl",
        "tandem_mlir-1.2.3-py3-none-manylinux_2_35_x86_64.whl"]
    runtime, compiler = map(contents, made)
    assert {name for name in runtime if "dist-info" not in name} == set(FILES)
    assert {name for name in compiler if "dist-info" not in name} == {split_wheel.COMPILER}
    assert not set(runtime) & set(compiler)


def test_metadata_and_records(tmp_path):
    runtime, compiler = map(contents, split_wheel.split(
        whole(tmp_path, FILES | {split_wheel.COMPILER: b"c"}), tmp_path / "out"))
    own = runtime["tandem_runtime-1.2.3.dist-info/METADATA"].decode()
    assert own.startswith("Metadata-Version: 2.4\nName: tandem-runtime\nVersion: 1.2.3\n")
    assert "extra" not in own.lower() and "Requires-Dist: in prose stays" in own
    needs = re.findall("^Requires-Dist: (.*)$",
                       compiler["tandem_mlir-1.2.3.dist-info/METADATA"].decode(), re.M)
    assert needs == ["tandem-runtime==1.2.3", 'torch>=2.4; extra == "torch"', "in prose stays"]
    for name, files in (("runtime", runtime), ("mlir", compiler)):
        info = f"tandem_{name}-1.2.3.dist-info"
        rows = {row[0]: row[1:] for row in
                csv.reader(files[f"{info}/RECORD"].decode().splitlines())}
        assert set(rows) == set(files) and rows.pop(f"{info}/RECORD") == ["", ""]
        for file, (digest, size) in rows.items():
            sha = base64.urlsafe_b64encode(hashlib.sha256(files[file]).digest()).rstrip(b"=")
            assert digest == f"sha256={sha.decode()}" and int(size) == len(files[file])
    assert b"\nTag: py3-none-linux_x86_64\n" in compiler["tandem_mlir-1.2.3.dist-info/WHEEL"]


def test_pip_installs_both(tmp_path):
    """pip can read the wheels, and finds one by the requirement of the other."""
    made = split_wheel.split(whole(tmp_path, FILES | {split_wheel.COMPILER: b"c"}),
                             tmp_path / "out")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index",
                    "--disable-pip-version-check", "--python-version", "3.11",
                    "--implementation", "cp", "--only-binary=:all:", "--platform", "linux_x86_64",
                    "--find-links", made[0].parent, "--target", tmp_path / "there",
                    "tandem-mlir"], check=True, timeout=60)
    there = {str(path.relative_to(tmp_path / "there"))
             for path in (tmp_path / "there/tandem").iterdir() if path.is_file()}
    assert there == set(FILES) | {split_wheel.COMPILER}


def test_a_wheel_without_compiler_is_the_runtime(tmp_path):
    (made,) = split_wheel.split(whole(tmp_path, FILES), tmp_path / "out")
    assert made.name.startswith("tandem_runtime-1.2.3-cp311")


def test_other_wheels_are_refused(tmp_path):
    with pytest.raises(ValueError, match="six-1.0-py3-none-any.whl is not a wheel of tandem-mlir"):
        split_wheel.split(tmp_path / "six-1.0-py3-none-any.whl", tmp_path)


def test_the_archive_of_sources_has_what_builds(tmp_path):
    subprocess.run([sys.executable, "-c", "import sys, scikit_build_core.build as build; "
                    "build.build_sdist(sys.argv[1])", tmp_path], cwd=ROOT, check=True,
                   capture_output=True, timeout=60)
    (archive,) = tmp_path.glob("tandem_mlir-*.tar.gz")
    with tarfile.open(archive) as opened:
        has = {name.partition("/")[2] for name in opened.getnames()}
    tracked = subprocess.run(["git", "ls-files", "cmake", "include", "lib", "python", "runtime",
                              "tools", "CMakeLists.txt", "pyproject.toml", "LICENSE"], cwd=ROOT,
                             capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in tracked if not name.startswith("runtime/cts/")} <= has
    assert not {name for name in has if name.startswith(("test/", "build", "benchmarks/"))}


#===----------------------------------------------------------------------===#
# Versions
#===----------------------------------------------------------------------===#

def test_there_is_one_version():
    def find(path, pattern):
        return re.search(pattern, (ROOT / path).read_text(), re.MULTILINE)[1]

    assert {
        find("pyproject.toml", r'^version = "(.*)"'),
        find("CMakeLists.txt", r"^project\(tandem VERSION (\S+)"),
        find("CITATION.cff", r"^version: (.*)"),
        find("runtime/CMakeLists.txt", r"project\(TandemRuntime VERSION (\S+)"),
        find("CHANGELOG.md", r"^## ([\d.]+)"),
        ".".join(str(int(part, 16)) for part in re.findall("..", find(
            "runtime/include/tandem-runtime/tandem_runtime.h",
            "TDM_RUNTIME_VERSION 0x(......)u"))),
    } == {tandem.__version__}


TOOLS = ["tandem-opt", "tandem-run", "tandem-translate", "tandem-reduce", "tandem-lsp-server",
         "tandem-verify", "tandem-fuzz", "tandem-package"]


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_tell_the_version(tool):
    result = subprocess.run([BUILD / "bin" / tool, "--version"], capture_output=True, text=True,
                            timeout=60)
    assert result.returncode == 0, result.stderr
    assert re.match(rf"tandem {re.escape(tandem.__version__)}(, LLVM 22\.1\.\d+)?$",
                    result.stdout)


#===----------------------------------------------------------------------===#
# Without the compiler
#===----------------------------------------------------------------------===#

def needed(library):
    """Returns the libraries that the dynamic loader loads for a library."""
    shown = subprocess.run(["readelf", "-d", library], capture_output=True, text=True,
                           check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", shown)


def test_the_extension_does_not_need_the_compiler():
    names = needed(_tandem.__file__)
    assert any(name.startswith("libtandem_runtime.so") for name in names)
    assert not [name for name in names if re.match("lib(Tandem|MLIR|LLVM)", name)]


def exported(library):
    """Returns the names that a library gives to others."""
    shown = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", library],
                           capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in shown.splitlines()}


def test_extensions_export_only_their_functions():
    """Names of the C++ library and of nanobind would be those of other extensions."""
    assert exported(_tandem.__file__) == {"PyInit__tandem"}
    jax = Path(_tandem.__file__).with_name("libtandem_jax.so")
    assert not jax.exists() or {name[:11] for name in exported(jax)} == {"tandem_jax_"}
    assert {name[:4] for name in exported(BUILD / "runtime/libtandem_runtime.so")} == {"tdm_"}


#: Loads a package, runs it, and then uses the compiler.
PROGRAM = """
import sys, tandem
kernel = tandem.load(sys.argv[1])
import array
arrays = {plane.name: array.array("f", [1.0] * 8) for plane in kernel.planes}
kernel(arrays, lr=0.5)
assert arrays["param"][0] == 0.5, arrays
assert "libTandem" not in open("/proc/self/maps").read()
try:
    use = {"compile": lambda: tandem.compile("sgd", "fp32"), "storages": lambda: kernel.storages,
           "save": lambda: kernel.save("other.tdm"), "layers": tandem.layers}[sys.argv[2]]
    use()
except ImportError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "sgd.tdm"
    tandem.compile("sgd", "fp32").save(path, ["x86-64"])
    return path


@pytest.fixture
def other_compiler(tmp_path):
    """Replaces libTandem by a library compiled from C source; returns an environment."""
    def make(source):
        (tmp_path / "other.c").write_text(source)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o",
                        tmp_path / "libTandem.so", tmp_path / "other.c"], check=True)
        return os.environ | {"LD_LIBRARY_PATH": str(tmp_path),
                             "PYTHONPATH": str(Path(tandem.__file__).parents[1])}
    return make


def run(package, use, environment):
    """Returns the output of a process that uses the compiler after running a package."""
    result = subprocess.run([sys.executable, "-c", PROGRAM, package, use], env=environment,
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("use", ["compile", "storages", "save", "layers"])
def test_packages_run_without_the_compiler(package, use, other_compiler):
    said = run(package, use, other_compiler(
        'const char *tandemGetVersion(void) { return "0.0.1"; }'))
    assert said == ("Tandem's compiler cannot be loaded: libTandem.so: is of version 0.0.1; the "
                    f"runtime is of version {tandem.__version__}, install the compiler of the "
                    f"same: pip install tandem-mlir=={tandem.__version__}\n")


def test_a_compiler_without_a_function_is_refused(package, other_compiler):
    said = run(package, "compile", other_compiler(
        f'const char *tandemGetVersion(void) {{ return "{tandem.__version__}"; }}'))
    assert "libTandem.so: has no function tandemCheckRecipe; " in said


def test_a_compiler_is_loaded_when_it_is_needed(package):
    assert run(package, "compile", os.environ) == ""


def test_the_optimizers_of_pytorch_are_imported_without_the_compiler(other_compiler):
    program = ("import tandem.torch, torch\n"
               "assert 'libTandem' not in open('/proc/self/maps').read()\n"
               "tandem.torch.AdamW(torch.nn.Linear(2, 2).parameters(), lr=1e-3)")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                            timeout=120, env=other_compiler(
                                'const char *tandemGetVersion(void) { return "0.0.1"; }'))
    assert result.stderr.splitlines()[-1].startswith(
        "ImportError: Tandem's compiler cannot be loaded: "), result.stderr


MISSING = ": cannot open shared object file: No such file or directory"


def test_messages_say_what_to_install():
    advice = f"pip install tandem-mlir=={tandem.__version__}"
    absent = _compiler.explain("libTandem.so" + MISSING)
    assert absent.startswith("this needs Tandem's compiler") and absent.endswith(advice)
    without_llvm = _compiler.explain("libMLIR.so.22.1" + MISSING)
    assert "needs libMLIR.so.22.1 of LLVM 22.1" in without_llvm
    assert "libmlir-22" in without_llvm and advice in without_llvm
    assert "libc.so.6: version `GLIBC_2.35' not found" in _compiler.explain(
        "/lib/libc.so.6: version `GLIBC_2.35' not found")


def test_an_import_without_extension_says_why(tmp_path):
    reason = "cannot import name '_tandem'"
    assert "has no extension, only sources; import tandem from build/python" in (
        _extension.explain(reason, tmp_path))
    (tmp_path / "_tandem.cpython-39-x86_64-linux-gnu.so").touch()
    assert "only _tandem.cpython-39-x86_64-linux-gnu.so; use that Python" in (
        _extension.explain(reason, tmp_path))
    own = tmp_path / f"_tandem{sysconfig.get_config_var('EXT_SUFFIX')}"
    own.touch()
    assert f"cannot be loaded: {reason}" in _extension.explain(reason, tmp_path)
    assert "does not find its runtime (libtandem_runtime.so" in (
        _extension.explain("libtandem_runtime.so" + MISSING, tmp_path))


def test_sources_by_themselves_say_what_to_do(tmp_path):
    """The message appears for the package in the checkout, without a build."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    result = subprocess.run([sys.executable, "-c", "import tandem"], env=environment,
                            cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.stderr.splitlines()[-1] == (
        f"ImportError: {ROOT / 'python/tandem'} has no extension, only sources; import tandem "
        "from build/python after scripts/build.sh, or install it: pip install tandem-mlir")


PTH = Path(sysconfig.get_path("purelib")) / "tandem-build.pth"


@pytest.mark.skipif(not PTH.exists() or Path(PTH.read_text().strip()) != BUILD / "python",
                    reason="scripts/build.sh has not built for this Python")
def test_the_environment_imports_the_build(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run([sys.executable, "-c", "import tandem; print(tandem.__file__)"],
                            env=environment, cwd=tmp_path, capture_output=True, text=True,
                            timeout=60)
    assert result.stdout == f"{BUILD / 'python/tandem/__init__.py'}\n", result.stderr


#===----------------------------------------------------------------------===#
# Libraries for an older glibc
#===----------------------------------------------------------------------===#

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(Older C CXX)
list(APPEND CMAKE_MODULE_PATH {modules})
include(LinkStandardLibrary)
add_library(older SHARED older.cpp)
"""
#: Calls functions that glibc has added, changed or moved after version 2.27.
SOURCE = r"""
#include <cmath>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

/// glibc 2.38's headers call it in place of strtol.
extern "C" long __isoc23_strtol(const char *, char **, int);

static thread_local int calls;

static void raise() {
  ++calls;
  throw std::runtime_error("raised");
}

/// Returns the number of a check that fails, and otherwise 0.
extern "C" int check(double two, int file) {
  struct stat byName, byFile;
  if (stat("older.cpp", &byName) || fstat(file, &byFile) || byName.st_ino != byFile.st_ino)
    return 1;
  if (lstat("link", &byFile) || !S_ISLNK(byFile.st_mode))
    return 2;
  if (stat("absent", &byName) != -1 || errno != ENOENT)
    return 3;
  int copy = fcntl(file, F_DUPFD, file + 10);
  if (copy < file + 10 || close(copy))
    return 4;
  if (arc4random() == arc4random() && arc4random() == arc4random())
    return 5;
  auto text = std::make_shared<std::string>();
  std::thread([text] {
    try {
      raise();
    } catch (const std::exception &error) {
      *text = error.what();
    }
  }).join();
  if (*text != "raised" || calls)
    return 6;
  if (!dlsym(RTLD_DEFAULT, "malloc") || mallinfo2().arena + mallinfo2().hblkhd == 0)
    return 7;
  if (__isoc23_strtol("-0x10", nullptr, 0) != -16)
    return 8;
  return std::pow(two, 3.0) == 8 && std::log2(two) == 1 && std::exp(two - 2) == 1 ? 0 : 9;
}
"""


def link_older(folder, source):
    """Builds a library as static builds do; returns its path and what the build printed."""
    (folder / "CMakeLists.txt").write_text(PROJECT.format(modules=ROOT / "cmake/modules"))
    (folder / "older.cpp").write_text(source)
    made = subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build",
                           "-DTANDEM_GLIBC=2.27"],
                          capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    made = subprocess.run(["ninja", "-C", folder / "build"], capture_output=True, text=True,
                          timeout=120)
    return folder / "build/libolder.so", made.stdout


def test_libraries_run_on_an_older_glibc(tmp_path):
    library, said = link_older(tmp_path, SOURCE)
    assert library.exists(), said
    symbols = subprocess.run(["readelf", "--dyn-syms", "-W", library], capture_output=True,
                             text=True, check=True).stdout
    versions = {tuple(map(int, version.split(".")))
                for version in re.findall(r"@GLIBC_([\d.]+)", symbols)}
    assert (2, 2, 5) <= max(versions) <= (2, 27)
    assert set(needed(library)) - {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"} <= {
        "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0"}
    (tmp_path / "link").symlink_to("nowhere")
    program = ("import ctypes, sys; check = ctypes.CDLL(sys.argv[1]).check\n"
               "check.argtypes = [ctypes.c_double, ctypes.c_int]\n"
               "with open('older.cpp') as file: sys.exit(check(2, file.fileno()))")
    assert subprocess.run([sys.executable, "-c", program, library], cwd=tmp_path,
                          timeout=60).returncode == 0


def test_newer_functions_of_glibc_are_undefined(tmp_path):
    library, said = link_older(tmp_path, """#include <unistd.h>
extern "C" void check() { closefrom(3); }
""")
    assert "undefined reference to `closefrom'" in said and not library.exists()


#===----------------------------------------------------------------------===#
# Trying wheels
#===----------------------------------------------------------------------===#


def try_wheel(*arguments):
    """Returns the message with which scripts/try-wheel.sh refuses."""
    result = subprocess.run([ROOT / "scripts/try-wheel.sh", *map(str, arguments)],
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and not result.stdout
    return result.stderr


@pytest.fixture
def wheels(tmp_path):
    """Makes a folder with a file that is named like a wheel."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "tandem_mlir-1.2.3-py3-none-any.whl").touch()
    return folder


def test_trying_takes_options_that_there_are():
    assert try_wheel("--root=x") == ("try-wheel.sh: unknown option --root=x; give a folder, "
                                     "--python=PATH or --chroot=ROOT\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="hiding LLVM takes root")
def test_trying_says_what_is_missing(tmp_path, wheels):
    assert try_wheel(tmp_path) == (f"try-wheel.sh: {tmp_path} has no wheels; run "
                                   "scripts/wheel.sh first\n")
    assert try_wheel(wheels, f"--chroot={tmp_path}", f"--python={sys.executable}") == (
        f"try-wheel.sh: {tmp_path} has no /usr/bin/python3; make it with debootstrap, as this "
        "script's text says\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the root takes root")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="there is no /usr/bin/python3")
def test_trying_in_a_root_takes_its_version_of_python(tmp_path, wheels):
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 9.9\n")
    other.chmod(0o755)
    assert re.fullmatch(
        rf"try-wheel.sh: {other} is Python 9\.9, and that of / 3\.\d+; name another one with "
        "--python=PATH\n", try_wheel(wheels, "--chroot=/", f"--python={other}"))
