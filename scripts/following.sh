#!/usr/bin/env bash
# Measures which strategies' moments follow their averages, and writes
# docs/Following.md: following.sh [STRATEGY...] [--beta1 B] [--beta2 B...].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

"$python" benchmarks/following/following.py "$@"
"$python" benchmarks/following/following_page.py
