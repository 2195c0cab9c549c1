#!/usr/bin/env bash
# Counts what the library's kernels cost each pipe of a GPU's multiprocessors, in the
# machine code that ptxas makes, and writes docs/Instructions.md: count-sass.sh
# [NAME...]. With names, such as adamw/coat, the counts are only printed. Some six
# minutes of a core, half a minute where no PTX has changed. Needs ptxas
# and nvdisasm, on PATH or named by PTXAS and NVDISASM, and no GPU. Kernels whose PTX
# is that of benchmarks/results/instructions.json are kept: an interrupted run continues.
# Options go to benchmarks/gpu/sass.py: --chips, --jobs, --again, --mnemonics.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
"$python" benchmarks/gpu/sass.py "$@"
"$python" benchmarks/gpu/sass_page.py
