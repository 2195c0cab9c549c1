#!/usr/bin/env bash
# Checks and measures the library's kernels on a GPU, in two parts.
#
#   scripts/gpu-check.sh stage FOLDER
#       runs where Tandem can be built: collects in FOLDER all that the check needs on
#       a machine without LLVM, the Python package included (stage-gpu-check.sh)
#   scripts/gpu-check.sh prepare [FOLDER] [BUILD]
#       does a part of that with an existing build: packages of every strategy and
#       headers (default: build/gpu-check, build)
#   scripts/gpu-check.sh [run] [FOLDER] [OPTION...]
#       runs on a machine with a GPU and CUDA's driver, without network or LLVM: checks
#       and measures in steps, each in processes with time limits, and writes
#       FOLDER/gpu-check.json and gpu-check.txt. The same command continues where the
#       last one stopped. If FOLDER has no programs, g++ first builds the runtime and
#       gpu_check. Options are those of benchmarks/gpu/steps.py:
#         --seconds N    the time for everything (default: 540)
#         --only A,B     runs only these steps or parts, such as kernels/adamw-*
#         --list         lists the parts and their status
#         --again        also runs parts that are complete
#         --resume JSON  uses the records in a report from another machine
#         --stand-in     tries the steps without a GPU
#       benchmarks/gpu/gpu_page.py writes docs/GPU.md from the JSON, once it is
#       benchmarks/results/gpu-check.json.
set -euo pipefail
cd "$(dirname "$0")/.."

prepare() {
  local folder=$1 build=$2
  mkdir -p "$folder/packages" "$folder/include"
  cp -r runtime/include/tandem-runtime "$folder/include/"
  cp "$build"/runtime/schema/Package_generated.h "$folder/include/"
  local headers
  headers=$(sed -n 's/^TANDEM_FLATBUFFERS_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  cp -r "$headers/flatbuffers" "$folder/include/"
  PYTHONPATH="$build/python" "${PYTHON:-python3}" benchmarks/gpu/packages.py "$folder" \
    --chip="${TANDEM_GPU_CHIP:-sm_90}"
  echo "$folder: $(find "$folder/packages" -name '*.tdm' | wc -l) packages"
}

run() {
  local folder=build/gpu-check
  if [[ $# -gt 0 && $1 != -* ]]; then
    folder=$1
    shift
  fi
  # Decompress the files that `stage` has compressed.
  [[ ! -f $folder/unpack.py ]] || "${PYTHON:-python3}" "$folder/unpack.py"
  if [[ -d $folder/packages && ! -x $folder/bin/gpu_check ]]; then
    build_check "$folder"
    build_tests "$folder"
  fi
  exec "${PYTHON:-python3}" benchmarks/gpu/steps.py "$folder" "$@"
}

# Builds the check itself, which contains the runtime.
build_check() {
  echo "building gpu_check"
  mkdir -p "$1/bin" "$1/objects"
  printf '%s\n' runtime/lib/*.cpp runtime/lib/C*/*.cpp examples/gpu_check/*.cpp |
    xargs -P "$(nproc)" -I{} bash -c '
      g++ -std=c++17 -O2 -ffp-contract=off -fPIC -DTDM_BUILDING_RUNTIME \
        -I runtime/include -I runtime/lib -I "$1/include" \
        -c "$2" -o "$1/objects/$(echo "$2" | tr / _).o"' _ "$1" {}
  g++ "$1"/objects/*.o -o "$1/bin/gpu_check" -ldl -pthread
}

# Builds the runtime's own tests if CMake and GoogleTest are installed.
build_tests() {
  if ! cmake --version > /dev/null 2>&1 || [[ ! -e /usr/include/gtest/gtest.h ]]; then
    echo "no CMake or GoogleTest: the runtime's own tests are left out"
    return
  fi
  mkdir -p "$1/lib"
  cmake -S runtime -B "$1/runtime" -DTANDEM_PACKAGE_SCHEMA_DIR="$(realpath "$1/include")" \
    > "$1/runtime.txt" 2>&1 &&
    cmake --build "$1/runtime" -j "$(nproc)" --target tandem_runtime_cts \
      >> "$1/runtime.txt" 2>&1 &&
    cp "$1/runtime/cts/tandem_runtime_cts" "$1/bin/" &&
    cp "$1"/runtime/cts/libtandem_fake_*.so "$1/lib/" &&
    { cp "$1/runtime/cts/tandem_test_kernels.ptx" "$1/lib/" 2> /dev/null ||
      echo "no nvcc: the tests' kernels are not compiled for the GPU"; } ||
    echo "the runtime's own tests cannot be built, see $1/runtime.txt"
}

case ${1:-run} in
  stage) shift && exec scripts/stage-gpu-check.sh "$@" ;;
  prepare) prepare "${2:-build/gpu-check}" "${3:-build}" ;;
  run) run "${@:2}" ;;
  *) run "$@" ;;
esac
