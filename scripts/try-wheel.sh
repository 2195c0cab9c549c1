#!/usr/bin/env bash
# try-wheel.sh [FOLDER] [--python=PATH] [--chroot=ROOT]
#
# Installs the wheels that scripts/wheel.sh has put in FOLDER (build/wheels) in new
# environments, and runs the README's examples and steps of JAX there while LLVM is
# hidden: first with tandem-mlir, and then with only tandem-runtime, which runs a
# package and reports that the compiler is missing. Tandem also works in one process
# with Triton and llvmlite, which pip downloads, PyTorch and JAX. PATH is the interpreter,
# .venv's by default, whose NumPy, PyTorch and JAX the environments use. What it lacks is
# left out, and the output says so.
#
# With ROOT, everything runs in that root of a system without LLVM, a compiler or the
# C++ library's headers, with its Python, which must have PATH's version:
#
#   debootstrap --variant=minbase --include=python3,python3-venv bookworm ROOT
#
# For a root of AArch64, PATH is build/aarch64/venv/bin/python; see test-aarch64.sh.
# Where the system's Python is older, ROOT/usr/bin/python3 may be a relative link to one
# that was compiled there. Requires root, for a private mount namespace, which leaves nothing mounted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "try-wheel.sh: $*" >&2
  exit 1
}

folder=build/wheels python=.venv/bin/python root=
for argument; do
  case $argument in
  --python=*) python=${argument#--python=} ;;
  --chroot=*) root=${argument#--chroot=} ;;
  -*) fail "unknown option $argument; give a folder, --python=PATH or --chroot=ROOT" ;;
  *) folder=$argument ;;
  esac
done
((EUID == 0)) || fail "hiding LLVM takes root"
ls "$folder"/tandem_mlir-*.whl >/dev/null 2>&1 ||
  fail "$folder has no wheels; run scripts/wheel.sh first"
version_of() {
  "$@" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}
if [[ $root ]]; then
  [[ -x $root/usr/bin/python3 ]] ||
    fail "$root has no /usr/bin/python3; make it with debootstrap, as this script's text says"
  [[ $(version_of "$python") == "$(version_of chroot "$root" python3)" ]] ||
    fail "$python is Python $(version_of "$python"), and that of $root" \
      "$(version_of chroot "$root" python3); name another one with --python=PATH"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python_here=$python
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# apart COMMAND...: runs it in the folder `work` without access to LLVM's libraries and
# tools. `python` is the interpreter there, `at` the folder, `others` the packages.
if [[ $root ]]; then
  python=/usr/bin/python3 at=/mnt/try others=/mnt/packages
  apart() {
    unshare -m bash -c '
set -e
root=$0 work=$1 packages=$2 at=$3
shift 3
mount -t tmpfs none "$root/mnt"
mkdir "$root/mnt/try" "$root/mnt/packages"
mount --bind "$work" "$root/mnt/try"
mount --bind -o ro "$packages" "$root/mnt/packages"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" env -i PATH=/usr/bin:/bin HOME="$at" TANDEM_CACHE_DIR="$at/cache" \
  sh -c '\''cd "$HOME" && exec "$@"'\'' sh "$@"' "$root" "$work" "$packages" "$at" "$@"
  }
else
  python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") at=$work others=$packages
  apart() {
    unshare -m bash -c '
set -e
for path in /usr/lib/llvm-*; do mount -t tmpfs none "$path"; done
for path in /usr/lib/*/libLLVM* /usr/lib/*/libMLIR* /usr/lib/*/libzstd.so.1; do
  [[ ! -f $path ]] || mount --bind /dev/null "$path"
done
cd "$0"
exec env -i PATH=/usr/bin:/bin HOME="$0" TANDEM_CACHE_DIR="$0/cache" "$@"' "$work" "$@"
  }
fi

# Makes an environment with a wheel from the folder. The environment also sees the
# packages of `python`, except Tandem.
make_environment() {
  apart "$python" -m venv "$1"
  apart "$1/bin/python" -m pip install -q --disable-pip-version-check --no-index \
    --find-links wheels "$1"
  printf '%s\n' "$others" "$at/neighbours" \
    >"$(echo "$work/$1"/lib/python*/site-packages)/others.pth"
  apart "$1/bin/python" -c 'import sys, tandem
assert tandem.__file__.startswith(sys.prefix), tandem.__file__' || fail "this is another Tandem"
}

mkdir "$work/wheels"
cp "$folder"/tandem_*.whl "$work/wheels"
cp README.md scripts/try_wheel.py scripts/try_neighbours.py "$work"
make_environment tandem-runtime
make_environment tandem-mlir
"$python_here" -m pip install -q --disable-pip-version-check --no-deps \
  --target "$work/neighbours" -r python/requirements-neighbours.txt ||
  echo "try-wheel.sh: pip finds no Triton or llvmlite, which are left out" >&2

# Check that the libraries need only glibc, libgcc_s and libraries next to them, and
# export only Tandem's names. A symbol without a version is one of Python or Tandem.
for file in "$work"/tandem-mlir/lib/python*/site-packages/tandem/*.so; do
  ! readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|tandem_runtime))\.so' ||
    fail "$file needs these"
  ! nm -D --defined-only "$file" | grep -vE ' (tandem[A-Z_]|tdm_|PyInit__tandem$)' ||
    fail "$file exports these"
  ! nm -D --undefined-only "$file" | grep -vE '@| w | (tdm_|_?Py)' ||
    fail "$file needs these, which no library has"
done
apart tandem-mlir/bin/python try_wheel.py compiler adamw.tdm README.md
apart tandem-runtime/bin/python try_wheel.py runtime adamw.tdm
apart tandem-mlir/bin/python try_neighbours.py
echo "the wheels of $folder work without LLVM${root:+ in $root}"
