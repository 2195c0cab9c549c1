#!/usr/bin/env bash
# Configures and builds Tandem with its Python extension and tests in build/, from where
# .venv/bin/python imports it: build.sh [TARGET...], all by default.
# BUILD_JOBS sets the number of compilers at work.
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

# The environment's Python then imports the build wherever it runs; PYTHONPATH and
# installed packages come first.
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/build/python" >"$site/tandem-build.pth"
