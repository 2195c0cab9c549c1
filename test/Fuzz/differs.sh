#!/bin/sh
# differs.sh CASE GRAPH: interesting (exit 1) while the way in which CASE, which
# scripts/fuzz.sh has kept, runs the graph differs from the interpreter.
# TANDEM_PYTHON names a Python that finds the package tandem.
root=$(dirname "$0")/../..
exec env PYTHONPATH="${PYTHONPATH:-$root/build/python}" \
  "${TANDEM_PYTHON:-$root/.venv/bin/python}" "$root/test/Fuzz/graphs.py" \
  --case "$1" "$2"
