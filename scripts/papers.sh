#!/usr/bin/env bash
# Runs the studies of "To FP8 and Back Again" at toy size, and writes docs/Papers.md:
# papers.sh [STUDY...] [--quick] [--budget MINUTES] [--seeds N] [--steps N] [--threads
# N] [--results FOLDER]. Cells that benchmarks/results/precision has are kept, so an
# interrupted run can be resumed; a removed file is measured again. `papers.sh --check`
# runs nothing; it exits with 1 if an ordering of the paper fails and
# benchmarks/precision/reasons.py does not say why.
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
