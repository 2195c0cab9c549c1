#!/usr/bin/env bash
# wheel.sh [--output FOLDER] [--target aarch64] [PYTHON...]
#
# Builds Tandem's wheels, which require only glibc and libgcc_s, and prints their sizes
# and the oldest platform that auditwheel accepts for them:
#
#   tandem_mlir     the compiler, with what it needs of LLVM and MLIR; for every Python
#   tandem_runtime  the package without it, tandem.jax's library included; for .venv's
#                   Python, and for each PYTHON, an interpreter of another version with C
#                   headers
#
# The wheels are written to FOLDER, by default build/wheels. Builds are kept in
# build/wheel: the first one takes as long as scripts/build.sh, each further Python a
# minute. For a PYTHON, scikit-build-core and nanobind are downloaded; .venv has them.
#
# With --target aarch64, the wheels are cross-compiled for Linux on AArch64, with what
# `build.sh --target aarch64` needs, in build/aarch64/wheel.
# Fails if a wheel is larger than promised or requires a newer platform than that of RHEL
# 8, manylinux_2_28. scripts/try-wheel.sh tries the wheels.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/wheel
output=build/wheels
machine=$(uname -m)
pythons=()
while (($#)); do
  case $1 in
  --output) output=${2:?"wheel.sh: --output needs a folder"}; shift ;;
  --target)
    [[ ${2:-} == aarch64 ]] || {
      echo "wheel.sh: no target '${2:-}'; the only one is aarch64" >&2
      exit 2
    }
    machine=aarch64 build=build/aarch64/wheel
    shift
    ;;
  -*)
    echo "wheel.sh: unknown option $1; give --output FOLDER, or interpreters" >&2
    exit 2
    ;;
  *) pythons+=("$1") ;;
  esac
  shift
done
mkdir -p "$build" "$output"
export CMAKE_GENERATOR=Ninja CMAKE_BUILD_PARALLEL_LEVEL=${BUILD_JOBS:-2}

# make_whole PYTHON FOLDER [OPTION...]: makes a wheel with everything for one Python.
# TANDEM_WHEEL_BUILD, if it is set, names the compiler's build folder. Debian 12's pip
# does not know --config-settings by its short name.
make_whole() {
  local python=$1 folder=$2
  shift 2
  [[ $machine == "$(uname -m)" ]] || cross_compile "$python"
  rm -rf "$build/$folder"
  "$python" -m pip wheel -q --disable-pip-version-check --no-deps . \
    --config-settings=cmake.define.TANDEM_XLA_INCLUDE_DIR="$xla" \
    --config-settings=cmake.define.TANDEM_GLIBC=2.27 \
    -w "$build/$folder" "$@" >"$build/$folder.log" 2>&1 || {
    tail -n 30 "$build/$folder.log" >&2
    echo "wheel.sh: $python made no wheel, see $build/$folder.log" >&2
    exit 1
  }
  ls "$build/$folder"/*.whl
}

# Tells CMake and scikit-build-core that the wheels are for `machine` and PYTHON's version.
cross_compile() {
  CMAKE_ARGS=$(scripts/aarch64-options.sh "$1")
  SETUPTOOLS_EXT_SUFFIX=.$(sed -n 's/^-DSKBUILD_SOABI=//p' <<<"$CMAKE_ARGS").so
  export CMAKE_ARGS SETUPTOOLS_EXT_SUFFIX _PYTHON_HOST_PLATFORM=linux-$machine
}

# Prints the platform's name, given by the versions of glibc's symbols.
find_platform() {
  "$build/tools/bin/auditwheel" show --json "$1" 2>"$build/auditwheel.log" |
    "$build/tools/bin/python" -c 'import json, sys
print(json.load(sys.stdin)["overall_tag"])'
}

# report WHEEL MEGABYTES: prints the wheel's size, and fails if it is larger.
report() {
  local bytes
  bytes=$(stat -c %s "$1")
  awk -v bytes="$bytes" -v name="$(basename "$1")" -v limit="$2" 'BEGIN {
    printf "%s: %.2f MB\n", name, bytes / 1e6
    if (bytes > limit * 1e6) { printf "wheel.sh: more than %s MB\n", limit; exit 1 }
  }'
}

[[ -x $build/tools/bin/auditwheel ]] || {
  .venv/bin/python -m venv "$build/tools"
  "$build/tools/bin/python" -m pip install -q --disable-pip-version-check \
    -r python/requirements-wheel.txt
}
xla=$(.venv/bin/python -c 'import importlib.util as u
jaxlib = u.find_spec("jaxlib")
print(jaxlib.submodule_search_locations[0] + "/include" if jaxlib else "")')
[[ $xla ]] || echo "wheel.sh: .venv has no jaxlib, and the wheels have no tandem.jax" >&2
[[ $machine == "$(uname -m)" ]] || scripts/root-aarch64.sh
rm -f "$output"/tandem_*"$machine".whl
whole=$(make_whole .venv/bin/python whole --no-build-isolation \
  --config-settings=build-dir="${TANDEM_WHEEL_BUILD:-$build/compiler}")
platform=$(find_platform "$whole")
echo "auditwheel: $platform"
[[ $platform =~ ^manylinux_2_([0-9]+)_ && ${BASH_REMATCH[1]} -le 28 ]] || {
  "$build/tools/bin/auditwheel" show "$whole" >&2
  echo "wheel.sh: the wheel needs more than manylinux_2_28 has" >&2
  exit 1
}
"$build/tools/bin/python" scripts/split_wheel.py "$whole" "$output" \
  --platform "$platform" >/dev/null
for python in "${pythons[@]}"; do
  name=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  runtime=$(make_whole "$python" "$name" --config-settings=build-dir="$build/build-$name" \
    --config-settings=cmake.define.TANDEM_BUILD_COMPILER=OFF)
  "$build/tools/bin/python" scripts/split_wheel.py "$runtime" "$output" \
    --platform "$platform" >/dev/null
done
for wheel in "$output"/tandem_*"$machine".whl; do
  limit=1
  [[ $wheel != */tandem_mlir-* ]] || limit=60
  report "$wheel" "$limit"
done
