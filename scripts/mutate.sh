#!/usr/bin/env bash
# Shows that the tests find known faults: mutate.sh [FAULT...], all by default.
# Builds a working tree with the faults in build/mutants (once; minutes), and runs
# for each the tests that should find it. What has a result in
# verification/results/mutations.json is left out; --again runs it once more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec .venv/bin/python test/Mutations/mutate.py "$@"
