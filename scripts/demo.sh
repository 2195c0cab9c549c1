#!/usr/bin/env bash
# Installs what is missing, builds, and trains a small language model under each
# strategy: a progress display, a table and a plot (output/demo.png).
# Options are passed to examples/language_model/demo.py; demo.sh --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: demo.sh [OPTION...]

Installs what is missing, builds Tandem, and trains a small language model under
several strategies. Writes a table, the numbers and a plot.

  --quick              a smaller model and fewer steps, under every strategy
  --strategies A,B,... strategies to compare, STRATEGY+RECIPE for one with
                       compressed activations, or `all`
  --steps N            training steps per strategy
  --seed N             weights and batches (default: 0)
  --threads N          threads that torch uses (default: the CPUs of this process)
  --output FOLDER      folder for table, numbers and plot (default: output)
  --help               prints this text; nothing is installed or built
TEXT
}

fail() {
  echo "demo.sh: $*; demo.sh --help lists the options" >&2
  exit 2
}

# Reports wrong options before the build, which takes minutes, rather than after it.
check_options() {
  while (($#)); do
    case $1 in
    -h | --help)
      usage
      exit
      ;;
    --quick | --strategies=* | --steps=* | --seed=* | --threads=* | --output=*) ;;
    --strategies | --steps | --seed | --threads | --output)
      (($# > 1)) || fail "$1 needs a value"
      shift
      ;;
    -*) fail "unknown option $1" ;;
    *) fail "unexpected argument $1" ;;
    esac
    shift
  done
}
check_options "$@"

scripts/setup.sh
scripts/build.sh

PYTHONPATH=$PWD/build/python exec .venv/bin/python \
  examples/language_model/demo.py "$@"
