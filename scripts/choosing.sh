#!/usr/bin/env bash
# Trains the demo's small model under strategies and recommendations, derives the data
# that tandem.torch.recommend reads from these and other results, and writes
# docs/Choosing.md. Runs that benchmarks/results/choosing.json has are kept. Options are
# passed to benchmarks/choosing/recommended_runs.py: --seeds, --steps, --strategies,
# --budgets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

"$python" benchmarks/choosing/recommended_runs.py "$@"
"$python" benchmarks/choosing/measured_file.py
"$python" benchmarks/choosing/choosing_page.py
