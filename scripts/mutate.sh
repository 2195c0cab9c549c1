#!/usr/bin/env bash
# Shows that the tests find known faults: mutate.sh [FAULT...], all by default. Builds a
# working tree with the faults in build/mutants (once, in minutes), and runs, for each
# fault, the tests that should find it. Faults with a result in
# verification/results/mutations.json are skipped; --again runs them once more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec .venv/bin/python test/Mutations/mutate.py "$@"
