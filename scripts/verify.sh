#!/usr/bin/env bash
# Verifies Tandem, for hours on two cores, and writes docs/Verification.md.
#
#   verify.sh              all of it
#   verify.sh --...        compiled code on all operands, or very many. Results are
#                          written to verification/results after each shard of about a
#                          minute, so an interrupted run can be resumed. Options are
#                          passed to verification/verification_run.py: --quick for a
#                          small share of each part in some minutes, --parts PATTERN,
#                          --isas LIST, --threads N, --budget MINUTES, --results FOLDER.
#   verify.sh sanitized    the compiler with sanitizers: its tests, and random input for
#                          --minutes N of each kind (verification/sanitized_run.py)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

status=0
if [[ ${1:-} == sanitized ]]; then
  "$python" verification/sanitized_run.py "${@:2}" || status=$?
else
  "$python" verification/verification_run.py "$@" || status=$?
  if (($# == 0)); then
    "$python" verification/sanitized_run.py || status=$?
  fi
fi
"$python" verification/verification_page.py
exit $status
