#!/usr/bin/env bash
# Measures how far AdamW ends from float64 under every strategy and in other projects,
# and writes docs/Accuracy.md: accuracy.sh [CONTENDER...] [--quick] [--streams
# STREAM...]. bitsandbytes and torchao are installed in build/accuracy, at the versions
# of benchmarks/accuracy/requirements.txt; if that fails, the others are measured. Cells
# that benchmarks/results/accuracy.json has are kept, so an interrupted run can be
# resumed. --quick measures one seed for a few steps and writes no page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
peers=build/accuracy
export PYTHONPATH=$PWD/build/python:$PWD/$peers${PYTHONPATH:+:$PYTHONPATH}

if ! "$python" -c "import bitsandbytes, torchao" >/dev/null 2>&1; then
  echo "installing bitsandbytes and torchao in $peers"
  mkdir -p "$peers"
  "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$peers" \
    -r benchmarks/accuracy/requirements.txt >"$peers/install.log" 2>&1 ||
    echo "they cannot be installed ($peers/install.log says why)"
fi
"$python" benchmarks/accuracy/accuracy.py "$@"
for argument in "$@"; do
  [[ $argument != --quick ]] || exit 0
done
"$python" benchmarks/accuracy/accuracy_page.py
echo "wrote docs/Accuracy.md"
