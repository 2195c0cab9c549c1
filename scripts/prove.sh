#!/usr/bin/env bash
# Proves, for all inputs, that the steps of the compiler which replace one sequence
# of float operations by another keep every bit, records the results in
# verification/results/proofs.json and writes docs/Verification.md. What is recorded
# of the same formulas is not proved again. Takes hours at first; may be stopped
# and started at any time. Options go to verification/proof_run.py: --limit SECONDS
# of the processor for each step, NAMES of steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

status=0
"$python" verification/proof_run.py "$@" || status=$?
"$python" verification/verification_page.py
exit $status
