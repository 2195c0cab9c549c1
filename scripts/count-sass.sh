#!/usr/bin/env bash
# Counts what the library's kernels cost each pipe of a GPU's multiprocessors, in the
# machine code that ptxas makes, and writes docs/Instructions.md: count-sass.sh
# [NAME...]. With names, such as adamw/coat, the counts are only printed. Needs ptxas
# and nvdisasm, on PATH or named by PTXAS and NVDISASM, and no GPU. Kernels whose PTX
# is that of benchmarks/results/instructions.json are kept: an interrupted run continues.
# Options go to benchmarks/gpu/sass.py: --chips, --jobs, --again, --mnemonics.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
"$python" benchmarks/gpu/sass.py "$@"
for argument in "$@"; do
  [[ $argument == -* ]] || exit 0
done
"$python" benchmarks/gpu/sass_page.py
