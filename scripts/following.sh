#!/usr/bin/env bash
# Measures which strategies' states follow, and writes docs/Following.md:
# following.sh [STRATEGY...] [--beta1 B] [--beta2 B...]. `following.sh --peers`
# only records torch, bitsandbytes and torchao, which must be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

if [ "${1:-}" = --peers ]; then
  "$python" benchmarks/following/libraries.py
elif [ $# -gt 0 ]; then
  # Results of single strategies are not recorded.
  exec "$python" benchmarks/following/following.py "$@" --folder "$(mktemp -d)"
else
  "$python" benchmarks/following/states.py
  "$python" benchmarks/following/following.py
fi
"$python" benchmarks/following/following_page.py
