#!/usr/bin/env bash
# Configures and builds Tandem with its Python extension and tests in build/, from which
# .venv/bin/python imports it: build.sh [TARGET...], all targets by default. BUILD_JOBS
# sets the number of parallel compiler processes.
#
#   --target aarch64 [--runtime | --python] [TARGET...]
#             builds in build/aarch64 for AArch64, with g++-aarch64-linux-gnu and the
#             libraries that root-aarch64.sh unpacks: all of Tandem, only the runtime
#             with its tests, or only the runtime and the Python extension
#   --target macos [TARGET...]
#             builds the runtime in build/macos for macOS on Apple silicon, with Clang and
#             headers of PyPI's ziglang, to see that it compiles; nothing of it runs here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Configures a folder of build/aarch64 once: configure NAME SOURCE [OPTION...].
configure() {
  local options
  [[ ! -f build/aarch64/$1/build.ninja ]] || return 0
  mapfile -t options < <(scripts/aarch64-options.sh)
  cmake -G Ninja -S "$2" -B "build/aarch64/$1" -DCMAKE_BUILD_TYPE=Release \
    "${options[@]}" "${@:3}"
}

# The runtime by itself needs no LLVM. Sanitizers do not run under qemu-user.
build_runtime() {
  scripts/root-aarch64.sh --runtime
  configure runtime runtime
  (($#)) || set -- tandem_runtime_cts tandem-launcher tandem-package
  ninja -C build/aarch64/runtime -j "${BUILD_JOBS:-2}" "$@"
}

# Configures with the Python extension: configure_python NAME [OPTION...].
configure_python() {
  configure "$1" . "${@:2}" \
    -DTANDEM_BUILD_PYTHON=ON \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python"
}

build_python() {
  scripts/root-aarch64.sh --python
  configure_python python -DTANDEM_BUILD_COMPILER=OFF -DTANDEM_BUILD_TESTS=OFF
  ninja -C build/aarch64/python -j "${BUILD_JOBS:-2}" "$@"
}

build_whole() {
  scripts/root-aarch64.sh
  configure_python whole
  ninja -C build/aarch64/whole -j "${BUILD_JOBS:-2}" "$@"
}

build_macos() {
  local tools=build/macos/tools
  [[ -x $tools/bin/python ]] || .venv/bin/python -m venv "$tools"
  "$tools/bin/python" -m pip install -q --disable-pip-version-check "ziglang==$zig_version"
  [[ -f build/macos/runtime/build.ninja ]] || cmake -G Ninja -S runtime -B build/macos/runtime \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/aarch64-macos.cmake" \
    -DTANDEM_ZIG="$(echo "$PWD/$tools"/lib/python3.*/site-packages/ziglang/zig)" \
    -DCMAKE_BUILD_TYPE=Release -DTANDEM_BUILD_TESTS=OFF
  ninja -C build/macos/runtime -j "${BUILD_JOBS:-2}" "$@"
}

zig_version=0.17.1
if [[ ${1:-} == --target && ${2:-} == macos ]]; then
  build_macos "${@:3}"
  exit
fi
if [[ ${1:-} == --target ]]; then
  if [[ ${2:-} != aarch64 ]]; then
    echo "build.sh: no target '${2:-}'; there are aarch64 and macos" >&2
    exit 2
  fi
  shift 2
  case ${1:-} in
  --runtime) build_runtime "${@:2}" ;;
  --python) build_python "${@:2}" ;;
  *) build_whole "$@" ;;
  esac
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
