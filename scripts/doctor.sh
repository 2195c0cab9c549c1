#!/usr/bin/env bash
# Trains the demo's small model while tandem.torch.doctor watches and as it advises, measures what
# watching costs, and writes docs/Doctor.md and its picture. Runs that
# benchmarks/results/doctor.json has are kept. Options are passed to
# benchmarks/doctor/doctor_runs.py: --seeds, --steps, --timed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=1
python=${PYTHON:-.venv/bin/python}

"$python" benchmarks/doctor/doctor_runs.py "$@"
"$python" benchmarks/doctor/doctor_page.py
