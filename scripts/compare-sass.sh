#!/usr/bin/env bash
# Compares the machine code that ptxas makes of the library's PTX with that PTX, entry
# by entry: compare-sass.sh [NAME...], all graphs, layers and strategies by default.
# Needs ptxas and nvdisasm, on PATH or named by PTXAS and NVDISASM, and no GPU. Records
# the results of all in verification/results/sass.json. Options go to
# verification/sass_run.py: --chips, --jobs. Exits with 1 where they differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
exec "$python" verification/sass_run.py "$@"
