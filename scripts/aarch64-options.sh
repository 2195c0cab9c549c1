#!/usr/bin/env bash
# aarch64-options.sh [PYTHON]
#
# Prints the options, one in each line, with which CMake configures a build of Tandem for
# AArch64 on another machine. The extension is for the version of PYTHON, by default that
# of the packages that scripts/root-aarch64.sh unpacks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD/build/aarch64/root
headers=$(echo "$root"/usr/include/python3.*)
if (($#)); then
  given=$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  # All architectures have the same headers, except in Debian's packages.
  [[ $(basename "$given") == "$(basename "$headers")" ]] || headers=$given
fi
version=$(basename "$headers")
mlir=$root/usr/lib/llvm-22/lib/cmake/mlir

echo "-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/toolchains/aarch64-linux-gnu.cmake"
echo "-DTANDEM_AARCH64_ROOT=$root"
echo "-DPython_INCLUDE_DIR=$headers"
echo "-DSKBUILD_SOABI=cpython-${version//[^0-9]/}-aarch64-linux-gnu"
# nanobind is source code, and CMake looks for packages only in the root.
echo "-Dnanobind_DIR=$(.venv/bin/python -m nanobind --cmake_dir)"
[[ ! -d $mlir ]] || echo "-DMLIR_DIR=$mlir"
