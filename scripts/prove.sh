#!/usr/bin/env bash
# Proves, for all inputs, that the steps of the compiler which replace one sequence of
# float operations with another keep every bit, records the results in
# verification/results/proofs.json and writes docs/Verification.md. Steps whose formulas
# have not changed since they were recorded are not proved again. The first run takes
# hours; it can be stopped and resumed at any time. Options are passed to
# verification/proof_run.py: --limit SECONDS of processor time for each step, NAMES of
# steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

status=0
"$python" verification/proof_run.py "$@" || status=$?
"$python" verification/verification_page.py
exit $status
