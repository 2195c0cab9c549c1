#!/usr/bin/env bash
# Measures how storages and strategies affect training, and writes docs/Quality.md:
# quality.sh [--sizes SIZE,...] [--quick] [options of benchmarks/quality/runs.py, such as
# --budget MINUTES, --strategies, --path FOLDER, --seeds, --lrs, --steps, --threads N or
# --results FOLDER]. Results in benchmarks/results are kept, so an interrupted run can be
# resumed; a removed file is measured again. On one core, the sizes 64k, 246k, 1M and 3M take about
# an hour, half an hour, half an hour and an hour. With --quick every strategy takes 60 steps
# of the smallest model, and all takes three minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

results=benchmarks/results sizes=64k,246k,1M,3M brief=()
arguments=()
while (($#)); do
  case $1 in
    --sizes) sizes=${2:-} && shift ;;
    --sizes=*) sizes=${1#*=} ;;
    --results) results=${2:-} && shift ;;
    --results=*) results=${1#*=} ;;
    --quick) sizes=64k brief=(--quick) ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

declare -A briefly=()
if ((${#brief[@]})); then
  briefly=([moments]="--quick --steps 60 --seeds 1" [representation]="--count 512"
           [accumulated]="--quick --steps 20 --seeds 1"
           [gradient_sum]="--quick --train 20 --ranks 8 --seeds 1")
fi

number=0
for part in moments representation accumulated gradient_sum live_bytes; do
  number=$((number + 1))
  if [[ -e $results/$part.json ]]; then
    echo "[$number/6] $part: done, $results/$part.json"
  else
    echo "[$number/6] $part"
    "$python" "benchmarks/quality/$part.py" --results "$results" ${briefly[$part]:-}
  fi
done
echo "[6/6] training"
for size in ${sizes//,/ }; do
  "$python" benchmarks/quality/runs.py --size "$size" --results "$results" "${brief[@]}" \
    "${arguments[@]}"
done
"$python" benchmarks/quality/page.py --results "$results"
