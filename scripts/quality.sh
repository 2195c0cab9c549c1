#!/usr/bin/env bash
# Measures how storages and strategies affect training, and writes docs/Quality.md.
# Results in benchmarks/results are kept, so an interrupted run can be resumed; a
# removed file is measured again. Options are passed to benchmarks/quality/runs.py,
# which trains under every strategy for some hours, or with --quick a smaller model for
# one hour: --budget MINUTES, --strategies, --path FOLDER, --seeds, --lrs, --steps,
# --results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

results=benchmarks/results
arguments=("$@")
for ((i = 0; i < $#; i++)); do
  case ${arguments[i]} in
    --results) results=${arguments[i + 1]:-} ;;
    --results=*) results=${arguments[i]#*=} ;;
  esac
done

number=0
for part in moments representation accumulated gradient_sum live_bytes; do
  number=$((number + 1))
  if [[ -e $results/$part.json ]]; then
    echo "[$number/6] $part: done, $results/$part.json"
  else
    echo "[$number/6] $part"
    "$python" "benchmarks/quality/$part.py" --results "$results"
  fi
done
echo "[6/6] training"
"$python" benchmarks/quality/runs.py "$@"
"$python" benchmarks/quality/page.py --results "$results"
