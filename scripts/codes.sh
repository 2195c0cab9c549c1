#!/usr/bin/env bash
# Searches codes of 2 to 8 bits for AdamW's moments, and writes docs/Codes.md: codes.sh
# [--stages STAGE...] [--quick]. It is NumPy and takes some fifteen minutes of one core.
# Contenders that benchmarks/results/codes.json has are kept, so an interrupted search
# can be resumed; build/codes keeps the gradients. --quick measures a few steps of one
# seed and writes no page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
export OMP_NUM_THREADS=1

"$python" benchmarks/codes/search.py "$@"
for argument in "$@"; do
  [[ $argument != --quick ]] || exit 0
done
"$python" benchmarks/codes/codes_page.py
echo "wrote docs/Codes.md"
