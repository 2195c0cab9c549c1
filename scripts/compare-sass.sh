#!/usr/bin/env bash
# Compares the machine code that ptxas generates from the library's PTX with that PTX,
# entry by entry: compare-sass.sh [NAME...], all graphs, layers and strategies by
# default. Requires ptxas and nvdisasm, on PATH or named by PTXAS and NVDISASM, and no
# GPU. A full run records its results in verification/results/sass.json. Options are
# passed to verification/sass_run.py: --chips, --jobs. Exits with 1 if there are
# differences.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
exec "$python" verification/sass_run.py "$@"
