#!/usr/bin/env bash
# try-wheel.sh [FOLDER] [--python=PATH]
#
# Installs the wheels that scripts/wheel.sh has put in FOLDER (build/wheels) in new
# environments, and runs the README's examples there while LLVM is hidden: first
# tandem-runtime by itself, which runs a package and says what the compiler takes, and
# then tandem-mlir. PATH is the interpreter, .venv's by default, whose NumPy and PyTorch
# the environments use. Needs root, for a namespace of mounts of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "try-wheel.sh: $*" >&2
  exit 1
}

folder=build/wheels python=.venv/bin/python
for argument; do
  case $argument in
  --python=*) python=${argument#--python=} ;;
  -*) fail "unknown option $argument; give a folder, or --python=PATH" ;;
  *) folder=$argument ;;
  esac
done
((EUID == 0)) || fail "hiding LLVM takes root"
ls "$folder"/tandem_mlir-*.whl >/dev/null 2>&1 ||
  fail "$folder has no wheels; run scripts/wheel.sh first"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Makes an environment with a wheel from the folder, and lets it see other packages of
# `python`, none of which is Tandem.
make_environment() {
  "$python" -m venv "$work/$1"
  "$work/$1/bin/python" -m pip install -q --disable-pip-version-check --no-index \
    --find-links "$folder" "$1"
  "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$work/$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/others.pth"
  "$work/$1/bin/python" -c 'import sys, tandem
assert tandem.__file__.startswith(sys.prefix), tandem.__file__' || fail "this is another Tandem"
}

# hidden COMMAND...: runs it where no library or tool of LLVM is to be found.
hidden() {
  unshare -m bash -c '
set -e
for path in /usr/lib/llvm-*; do mount -t tmpfs none "$path"; done
for path in /usr/lib/*/libLLVM* /usr/lib/*/libMLIR* /usr/lib/*/libzstd.so.1; do
  [[ ! -f $path ]] || mount --bind /dev/null "$path"
done
cd "$0"
exec env -i PATH=/usr/bin:/bin HOME="$0" TANDEM_CACHE_DIR="$0/cache" "$@"' "$work" "$@"
}

make_environment tandem-runtime
make_environment tandem-mlir

# Nothing but glibc and what is beside may be asked for.
for file in "$work"/tandem-mlir/lib/python*/site-packages/tandem/*.so; do
  ! ldd "$file" | grep -vE 'linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so|/site-packages/tandem/' |
    grep . || fail "$file needs these"
done
cp README.md scripts/try_wheel.py "$work"
hidden "$work/tandem-mlir/bin/python" try_wheel.py compiler adamw.tdm README.md
hidden "$work/tandem-runtime/bin/python" try_wheel.py runtime adamw.tdm
echo "the wheels of $folder work without LLVM"
