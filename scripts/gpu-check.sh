#!/usr/bin/env bash
# Checks and measures the library's kernels on a GPU, in two parts.
#
#   scripts/gpu-check.sh prepare FOLDER [BUILD]
#       on a machine with a build of Tandem: compiles packages of every strategy
#       and gathers all that the check needs in FOLDER (default: build/gpu-check)
#   scripts/gpu-check.sh [run] [FOLDER]
#       on a machine with a GPU, g++ and CUDA's driver, without network or LLVM:
#       builds the runtime, runs its tests with the real driver where GoogleTest
#       is installed, compares every kernel with the CPU bit for bit, measures
#       steps over 10^9 elements in one tensor and over a GPT-2's 400 tensors,
#       layers' passes over rows of 4096, and beside them what users of PyTorch
#       would take instead, as far as this machine's python3 can import it. Writes FOLDER/gpu-check.json and a table,
#       in eight minutes. benchmarks/gpu/gpu_page.py makes docs/GPU.md of the JSON,
#       once it is benchmarks/results/gpu-check.json.
set -euo pipefail
cd "$(dirname "$0")/.."

chip=${TANDEM_GPU_CHIP:-sm_90}

prepare() {
  local folder=$1 build=$2
  mkdir -p "$folder/packages" "$folder/include"
  cp -r runtime/include/tandem-runtime "$folder/include/"
  cp "$build"/runtime/schema/Package_generated.h "$folder/include/"
  local headers
  headers=$(sed -n 's/^TANDEM_FLATBUFFERS_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  cp -r "$headers/flatbuffers" "$folder/include/"
  PYTHONPATH="$build/python:benchmarks" "${PYTHON:-python3}" - "$folder/packages" "$chip" <<'PYTHON'
import json
import sys
import common
import tandem

folder, chip = sys.argv[1:]
cases = [("adamw", strategy) for strategy in tandem.strategies()]
cases += [(graph, "bf16") for graph in tandem.graphs() if graph != "adamw"]
cases += [("lamb", "collage-plus"), ("adafactor", "fp32"), ("adamw_clip", "coat")]
cases.append(("adamw", "e4m3-groups"))
layers = ("rms_norm", "layer_norm", "gelu", "swiglu", "cross_entropy", "keep")
cases += [(layer, recipe) for layer in layers for recipe in ("bf16", "coat")]
cases += [(layer, "coat-fp8") for layer in ("rms_norm", "swiglu", "keep")]
for graph, strategy in cases:
    try:
        kernels = [tandem.compile(graph, strategy, path=["benchmarks/gpu"],
                                  flags=graph not in layers, function=function)
                   for function in ([graph, graph + "_backward"] if graph in layers else [""])]
        tandem.save(f"{folder}/{graph}-{strategy}.tdm", kernels,
                    ["x86-64", "x86-64-v3", chip])
    except ValueError as error:
        print(f"{graph} under {strategy} is left out: {error}", file=sys.stderr)
with open("benchmarks/results/ptx_statistics.json") as file:
    counted = json.load(file)["strategies"]
instructions = {f"adamw under {strategy}": chips[chip]["instructions"]
                for strategy, chips in counted.items() if chip in chips}
made = {key: common.machine()[key] for key in ("commit", "changed_files")}
with open(f"{folder}/../prepared.json", "w") as file:
    json.dump({"made": made, "instructions": instructions}, file)
PYTHON
  echo "$folder: $(ls "$folder/packages" | wc -l) packages"
}

run() {
  local folder=$1
  local sources=(runtime/lib/*.cpp runtime/lib/CPU/*.cpp runtime/lib/CUDA/*.cpp)
  echo "building the runtime"
  printf '%s\n' "${sources[@]}" examples/gpu_check/*.cpp |
    xargs -P "$(nproc)" -I{} bash -c '
      g++ -std=c++17 -O2 -ffp-contract=off -fPIC -DTDM_BUILDING_RUNTIME \
        -I "$1/include" -I runtime/lib -c "$2" -o "$1/$(echo "$2" | tr / _).o"' _ "$folder" {}
  g++ "$folder"/*.o -o "$folder/gpu_check" -ldl -pthread
  test_runtime "$folder"
  rm -rf "$folder/cache"
  local status=0
  TANDEM_CACHE_DIR="$folder/cache" "$folder/gpu_check" --json="$folder/gpu-check.json" \
    --seconds="${TANDEM_GPU_SECONDS:-240}" ${TANDEM_GPU_OPTIONS:-} \
    "$folder"/packages/*.tdm | tee "$folder/gpu-check.txt" || status=$?
  measure_peers "$folder" | tee -a "$folder/gpu-check.txt"
  return "$status"
}

# What others make of the same updates, where there is a Python.
measure_peers() {
  if ! command -v "${PYTHON:-python3}" > /dev/null; then
    echo "no python3: other optimizers and predictions are left out"
    return
  fi
  "${PYTHON:-python3}" benchmarks/gpu/peers.py "$1/gpu-check.json" \
    --prepared "$1/prepared.json" --seconds "${TANDEM_PEER_SECONDS:-120}" \
    ${TANDEM_PEER_OPTIONS:-}
}

# The conformance tests, with the driver of this machine.
test_runtime() {
  if ! cmake --version > /dev/null 2>&1 || ! ls /usr/include/gtest/gtest.h > /dev/null 2>&1; then
    echo "no CMake or GoogleTest: the runtime's own tests are left out"
    return
  fi
  cmake -S runtime -B "$1/runtime" > "$1/cmake.txt" 2>&1 &&
    cmake --build "$1/runtime" -j "$(nproc)" > "$1/build.txt" 2>&1 &&
    TANDEM_CUDA_DRIVER=libcuda.so.1 "$1/runtime/cts/tandem_runtime_cts" --gtest_brief=1 ||
    echo "the runtime's own tests did not pass, see $1"
}

case ${1:-run} in
  prepare) prepare "${2:-build/gpu-check}" "${3:-build}" ;;
  run) run "${2:-build/gpu-check}" ;;
  *) run "$1" ;;
esac
