#!/usr/bin/env bash
# Compares what the library computes on fixed inputs, and the code that it compiles to,
# with hashes in verification/results (bits.json, ptx_hashes.json, object_hashes.json):
# bits.sh [--check]. By default it compares all, in a few minutes of one core. --write
# updates the hashes. Options are passed to verification/bits.py: --files bits, ptx or
# objects, --only REGEX for some of their entries, --sample for those that each test run
# checks. Exits with 1 if an entry differs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
exec "$python" verification/bits.py "$@"
