#!/usr/bin/env bash
# Runs all benchmarks and writes docs/Benchmarks.md from their results.
# Options are passed to benchmarks/cpu_step.py: --quick, --huge, --sizes, ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

echo "[1/2] optimizer steps on the CPU"
"$python" benchmarks/cpu_step.py "$@"
echo "[2/2] compile time"
"$python" benchmarks/compile_time.py
"$python" benchmarks/report.py
echo "wrote docs/Benchmarks.md"
