#!/bin/sh
# differs.sh CASE GRAPH: exits with 1 (interesting) if running the graph as in CASE,
# which scripts/fuzz.sh has saved, still differs from the interpreter. TANDEM_PYTHON
# names a Python that can import the package tandem.
root=$(dirname "$0")/../..
exec env PYTHONPATH="${PYTHONPATH:-$root/build/python}" \
  "${TANDEM_PYTHON:-$root/.venv/bin/python}" "$root/test/Fuzz/graphs.py" \
  --case "$1" "$2"
