#!/usr/bin/env bash
# Runs the studies of four papers at toy size, and writes docs/Papers.md:
# papers.sh [STUDY...] [--quick] [--variants VARIANT...] [--budget MINUTES] [--seeds N]
# [--steps N] [--threads N] [--results FOLDER]. Cells that benchmarks/results/precision has are kept, so an
# interrupted run can be resumed; the long studies also go on within a cell, from
# checkpoints next to the results. A removed file is measured again. `papers.sh --check`
# runs nothing; it prints the margins, and exits with 1 if a result of the paper does not
# reproduce and benchmarks/precision/reasons.py does not say why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

if [ "${1:-}" = --check ]; then
  shift
  exec "$python" benchmarks/precision/checks.py "$@"
fi

results=benchmarks/results/precision
arguments=("$@")
for ((i = 0; i < $#; i++)); do
  case ${arguments[i]} in
    --results) results=${arguments[i + 1]:-} ;;
    --results=*) results=${arguments[i]#*=} ;;
  esac
done
"$python" benchmarks/precision/runs.py "$@"
"$python" benchmarks/precision/papers_page.py --results "$results"
