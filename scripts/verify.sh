#!/usr/bin/env bash
# Verifies compiled code on all operands, or very many, and writes
# docs/Verification.md: hours on two cores. Results are written to
# verification/results after each shard of about a minute; an interrupted run
# continues. Options go to verification/verification_run.py: --quick for a small share of each
# part in some minutes, --parts PATTERN, --isas LIST, --threads N,
# --budget MINUTES, --results FOLDER.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

status=0
"$python" verification/verification_run.py "$@" || status=$?
"$python" verification/verification_page.py
exit $status
