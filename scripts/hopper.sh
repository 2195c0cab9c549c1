#!/usr/bin/env bash
# Compares products of 8-bit floats on this CPU with a model of an H100's, and writes
# the table in docs/Layers.md: hopper.sh [--quick] [--results FOLDER]. mmaemu is
# installed in build/hopper, at the version of benchmarks/products/requirements.txt.
# --quick computes a few small products and writes no page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
peers=build/hopper
export PYTHONPATH=$PWD/build/python:$PWD/$peers${PYTHONPATH:+:$PYTHONPATH}

if ! "$python" -c "import mmaemu" >/dev/null 2>&1; then
  echo "installing mmaemu in $peers"
  mkdir -p "$peers"
  "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$peers" \
    -r benchmarks/products/requirements.txt
fi
"$python" benchmarks/products/hopper.py "$@"
