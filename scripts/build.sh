#!/usr/bin/env bash
# Configures and builds Tandem with its Python extension and tests in build/, from which
# .venv/bin/python imports it: build.sh [TARGET...], all targets by default. BUILD_JOBS
# sets the number of parallel compiler processes.
#
#   --target aarch64 [--runtime] [TARGET...]
#             builds in build/aarch64 for AArch64, with g++-aarch64-linux-gnu and the
#             libraries that root-aarch64.sh unpacks: the compiler, the runtime and the
#             Python extension, or only the runtime with its tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cross=(-DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/aarch64-linux-gnu.cmake"
  -DTANDEM_AARCH64_ROOT="$PWD/build/aarch64/root" -DCMAKE_BUILD_TYPE=Release)

# The runtime by itself needs no LLVM. Sanitizers do not run under qemu-user.
build_runtime() {
  scripts/root-aarch64.sh --runtime
  if [[ ! -f build/aarch64/runtime/build.ninja ]]; then
    cmake -G Ninja -S runtime -B build/aarch64/runtime "${cross[@]}"
  fi
  (($#)) || set -- tandem_runtime_cts tandem-launcher tandem-package
  ninja -C build/aarch64/runtime -j "${BUILD_JOBS:-2}" "$@"
}

if [[ ${1:-} == --target ]]; then
  if [[ ${2:-} != aarch64 ]]; then
    echo "build.sh: no target '${2:-}'; the only one is aarch64" >&2
    exit 2
  fi
  shift 2
  if [[ ${1:-} == --runtime ]]; then
    build_runtime "${@:2}"
  fi
  exit
fi

llvm=$(llvm-config-22 --prefix)
if [[ ! -f build/build.ninja ]]; then
  cmake -G Ninja -S . -B build \
    -DCMAKE_BUILD_TYPE=Release \
    -DTANDEM_BUILD_PYTHON=ON \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python" \
    -DMLIR_DIR="$llvm/lib/cmake/mlir"
fi
ninja -C build -j "${BUILD_JOBS:-2}" "$@"

# The environment's Python then imports the build from any directory; PYTHONPATH and
# installed packages take precedence.
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/build/python" >"$site/tandem-build.pth"
