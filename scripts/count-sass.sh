#!/usr/bin/env bash
# Counts what the library's kernels cost each pipe of a GPU's multiprocessors, in the
# machine code that ptxas generates, and writes docs/Instructions.md: count-sass.sh
# [NAME...]. With names, such as adamw/coat, it only prints the counts. Takes some six
# minutes of a core, or half a minute if no PTX has changed. Requires ptxas and
# nvdisasm, on PATH or named by PTXAS and NVDISASM, and no GPU. Kernels whose PTX is
# that of benchmarks/results/instructions.json are kept, so an interrupted run can be
# resumed. Options are passed to benchmarks/gpu/sass.py: --chips, --jobs, --again,
# --mnemonics.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
"$python" benchmarks/gpu/sass.py "$@"
"$python" benchmarks/gpu/sass_page.py
