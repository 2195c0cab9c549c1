#!/usr/bin/env bash
# Installs what is missing, builds, and trains a small language model under each
# strategy: a progress display, a table and a plot (output/demo.png).
# Options go to examples/language_model/demo.py: --quick, --strategies, ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
scripts/build.sh

PYTHONPATH=$PWD/build/python exec .venv/bin/python \
  examples/language_model/demo.py "$@"
