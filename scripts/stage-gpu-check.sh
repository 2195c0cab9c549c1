#!/usr/bin/env bash
# stage-gpu-check.sh FOLDER [--python=PATH] [--target=aarch64]
#
# Collects in FOLDER what the GPU check needs on a machine with neither LLVM nor a
# compiler: packages of every strategy, the runtime and its tests, the Python package
# with the compiler inside, tools, benchmarks and tests. All of it requires glibc 2.36,
# and the extension requires the Python that it is built for: 3.12 by default, or
# --python=PATH or PYTHON312. No file is a symbolic link.
#
# With --target=aarch64 the folder is for a machine such as GH200 or GB200, whose host is
# AArch64. It needs what `build.sh --target aarch64` needs, and an existing build of this
# machine in build/, which compiles the packages. TANDEM_GPU_CHIP=sm_100 names the GPU of
# GB200.
#
#   FOLDER/packages   compiled kernels, for CPUs and as PTX and machine code
#   FOLDER/lib        libTandem, the runtime, and libraries that stand in for CUDA's
#   FOLDER/bin        gpu_check, tandem_runtime_cts and tools
#   FOLDER/python     the package `tandem`; put it into PYTHONPATH
#   FOLDER/include    headers that the runtime is built with, flatc's output included
#   FOLDER/checks     what runs there, at the same paths as in the repository
#   FOLDER/unpack.py  to be run first: libTandem is compressed
#
# The build is kept in build/stage or build/aarch64/stage. scripts/try-stage.sh tries the
# folder in an otherwise empty system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/stage
chip=${TANDEM_GPU_CHIP:-sm_90}
limit_mb=60
machine=$(uname -m)

fail() {
  echo "stage-gpu-check.sh: $*" >&2
  exit 1
}

#===------------------------------------------------------------------------===#
# Building
#===------------------------------------------------------------------------===#

has_headers() {
  "$1" -c 'import os, sys, sysconfig
path = os.path.join(sysconfig.get_paths()["include"], "Python.h")
sys.exit(not os.path.exists(path))' 2>/dev/null
}

# Finds the Python that the extension is built for. Only its interpreter and headers are
# used.
find_python() {
  local candidate
  for candidate in "${PYTHON312:-}" "$(command -v python3.12 || true)" \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3.12; do
    if [[ -x $candidate ]] && has_headers "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "there is no python3.12 with C headers on PATH or in pyenv; install" \
    "python3.12-dev, or name one in PYTHON312 or --python=PATH"
}

# Uses this repository's nanobind if the other Python has none.
find_nanobind() {
  local candidate
  for candidate in "$python" .venv/bin/python python3; do
    if "$candidate" -m nanobind --cmake_dir 2>/dev/null; then
      return
    fi
  done
  fail "there is no nanobind; run scripts/setup.sh first"
}

# Configures the build, and removes another Python from CMake's cache.
configure() {
  local nanobind options
  nanobind=$(find_nanobind)
  if [[ $machine == "$(uname -m)" ]]; then
    options=(-DMLIR_DIR="$(llvm-config-22 --prefix)/lib/cmake/mlir")
  else
    scripts/root-aarch64.sh
    mapfile -t options < <(scripts/aarch64-options.sh "$python")
  fi
  cmake -G Ninja -S . -B "$build" -U '_Python_*' \
    -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_LIBDIR=lib \
    -DPython_EXECUTABLE="$python" \
    -DTANDEM_BUILD_PYTHON=ON \
    -DTANDEM_STATIC_LLVM=ON \
    -Dnanobind_DIR="$nanobind" "${options[@]}" >"$build.txt" 2>&1 ||
    fail "CMake failed, see $build.txt"
}

compile() {
  ninja -C "$build" -j "${BUILD_JOBS:-2}" _tandem tandem-opt tandem-run \
    tandem-translate tandem-package tandem_runtime_cts tandem_fake_cuda \
    tandem_fake_cublaslt
}

# Compiles gpu_check directly: as an example of the runtime's use, it has no build here.
compile_gpu_check() {
  local compiler=${CXX:-c++}
  [[ $machine == "$(uname -m)" ]] || compiler=$machine-linux-gnu-g++
  "$compiler" -std=c++17 -O2 -ffp-contract=off -s -static-libstdc++ -static-libgcc \
    -I runtime/include examples/gpu_check/*.cpp -o "$folder/bin/gpu_check" \
    -L "$folder/lib" -ltandem_runtime -Wl,-rpath,'$ORIGIN/../lib' -pthread
}

#===------------------------------------------------------------------------===#
# Collecting
#===------------------------------------------------------------------------===#

install_build() {
  local component
  for component in runtime compiler tools python checks; do
    cmake --install "$build" --prefix "$folder" --component "$component" --strip \
      >>"$build.txt"
  done
  mv "$folder/python_packages" "$folder/python"
  cp "$build/runtime/schema/Package_generated.h" "$folder/include/"
  local headers
  headers=$(sed -n 's/^TANDEM_FLATBUFFERS_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  cp -r "$headers/flatbuffers" "$folder/include/"
}

# Copies the files that the steps of the check run, at their paths in the repository.
# Add new files here.
copy_checks() {
  local files=(
    benchmarks/common.py
    benchmarks/eager_collage.py
    benchmarks/gpu
    examples/language_model
    test/Python/Inputs
    test/Python/conftest.py
    test/Python/model
    test/Python/support
    test/Python/runtime/test_cuda.py
    test/Python/kernels/test_matrices.py
    test/Python/pytorch/optim/test_torch_cuda.py
    test/Python/pytorch/nn/test_torch_nn_cuda.py
  )
  mkdir -p "$folder/checks"
  cp -r --parents "${files[@]}" "$folder/checks/"
  find "$folder/checks" -name __pycache__ -prune -exec rm -r {} +
}

# The new compiler writes packages if it runs here, and otherwise this machine's build.
write_packages() {
  local path=$folder/python interpreter=$python
  if [[ $machine != "$(uname -m)" ]]; then
    path=build/python interpreter=.venv/bin/python
  fi
  PYTHONPATH=$path PYTHONDONTWRITEBYTECODE=1 "$interpreter" \
    benchmarks/gpu/packages.py "$folder" --chip="$chip" --host="$machine"
}

#===------------------------------------------------------------------------===#
# Checking
#===------------------------------------------------------------------------===#

# Compresses the compiler, which would otherwise be too large to transfer.
pack_compiler() {
  cp benchmarks/gpu/unpack.py "$folder/unpack.py"
  "$python" -c 'import lzma, pathlib, sys
library = pathlib.Path(sys.argv[1])
packed = lzma.compress(library.read_bytes(), preset=6)
library.with_name(library.name + ".xz").write_bytes(packed)
library.unlink()' "$folder/lib/libTandem.so"
}

# Checks that the binaries need only glibc and libraries in the folder.
check_needs() {
  local allowed='^(ld-linux-(x86-64|aarch64)|lib(c|m|dl|rt|pthread))\.so\.[0-9]+$'
  local file name
  for file in "$folder"/bin/* "$folder"/lib/*.so* "$folder"/python/tandem/*.so; do
    for name in $(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
      if [[ ! $name =~ $allowed && ! -e $folder/lib/$name ]]; then
        fail "$file needs $name, which the other machine may lack"
      fi
    done
  done
}

megabytes() {
  awk '{printf "%.1f", $1 / 1e6}'
}

report_size() {
  local bytes packed
  bytes=$(find "$folder" -type f -printf '%s\n' | awk '{s += $1} END {print s}')
  packed=$(tar -C "$folder" -c . | gzip -6 | wc -c)
  du -sb "$folder"/* | awk '{printf "  %-12s %6.1f MB\n", name($2), $1 / 1e6}
    function name(path) {sub(/.*\//, "", path); return path}'
  echo "$folder: $(find "$folder/packages" -name '*.tdm' | wc -l) packages," \
    "$(megabytes <<<"$bytes") MB, $(megabytes <<<"$packed") MB as .tar.gz"
  ((bytes < limit_mb * 1000000)) ||
    fail "$folder is larger than the $limit_mb MB that travel"
}

#===------------------------------------------------------------------------===#
# The script
#===------------------------------------------------------------------------===#

folder='' python=''
for argument; do
  case $argument in
    --python=*) python=${argument#--python=} ;;
    --target=aarch64) machine=aarch64 build=build/aarch64/stage ;;
    -*) fail "there is no option $argument; see the head of this file" ;;
    *) folder=$argument ;;
  esac
done
[[ $folder ]] || fail "name the folder to fill"
[[ $python ]] || python=$(find_python)
has_headers "$python" || fail "$python is not a Python with C headers"

mkdir -p "$folder" "$(dirname "$build")"
folder=$(cd "$folder" && pwd)
if [[ $(ls -A "$folder") && ! -f $folder/prepared.json ]]; then
  fail "$folder has files that this script did not make; name another folder"
fi
echo '{}' >"$folder/prepared.json"
rm -rf "${folder:?}"/{bin,checks,include,lib,packages,python,python_packages,unpack.py}
echo "the extension is for $("$python" --version), $python"
configure
compile
install_build
compile_gpu_check
copy_checks
write_packages
check_needs
pack_compiler
report_size
