#!/usr/bin/env bash
# Configures and builds Tandem with its Python extension and tests in build/, from which
# .venv/bin/python imports it: build.sh [TARGET...], all targets by default. BUILD_JOBS
# sets the number of parallel compiler processes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

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
