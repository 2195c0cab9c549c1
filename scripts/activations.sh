#!/usr/bin/env bash
# Measures what a layer keeps for its backward pass under each recipe, and writes
# docs/Activations.md (with --results FOLDER, FOLDER/Activations.md). Options are passed to
# benchmarks/activations/run.py: --hidden, --tokens, --rounds, --results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
exec "${PYTHON:-.venv/bin/python}" benchmarks/activations/run.py "$@"
