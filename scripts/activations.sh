#!/usr/bin/env bash
# Measures what a layer keeps for its backward pass under each recipe, and writes
# docs/Activations.md. Options go to benchmarks/activations/run.py: --hidden,
# --tokens, --rounds, --results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

results=benchmarks/results
page=docs/Activations.md
arguments=("$@")
for ((i = 0; i < $#; i++)); do
  case ${arguments[i]} in
    --results) results=${arguments[i + 1]:-} ;;
    --results=*) results=${arguments[i]#*=} ;;
  esac
done
"$python" benchmarks/activations/run.py "$@"
[[ $results == benchmarks/results ]] || page=$results/Activations.md
"$python" benchmarks/activations/page.py --results "$results" --page "$page"
