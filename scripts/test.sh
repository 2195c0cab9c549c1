#!/usr/bin/env bash
# Sets up, builds and tests: test.sh [--quick | --whole].
#
#   --quick   what a contributor runs: every suite without its slow tests, and of the
#             Python tests those that cover every function and parameter's value
#   --whole   also the products of parameters that an ordinary run thins
#
# The output says what was left out. Its last line is `N passed, N failed`; the
# exit status is 0 if all passed and some ran.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=${1:---ordinary}
case $mode in
--quick | --ordinary | --whole) ;;
*)
  echo "test.sh: unknown option $mode; give --quick, --whole or nothing" >&2
  exit 2
  ;;
esac

scripts/setup.sh
scripts/build.sh
# Kernels for AArch64 run where its compiler and an emulator are installed.
if [[ $mode != --quick ]] && command -v aarch64-linux-gnu-g++ >/dev/null &&
  command -v qemu-aarch64-static >/dev/null; then
  scripts/build.sh --target aarch64 --runtime ||
    echo "test.sh: there is no runtime for AArch64; tests that need it are skipped"
fi

# Lists the suites with a label; suites of a quick run have the same names as in others.
suites() {
  ctest --test-dir build -N -L "$1" |
    sed -n 's/^ *Test *#[0-9]*: //p' | sed 's/-quick$//' | sort
}

python=$PWD/.venv/bin/python
reports=$PWD/build/test-reports
rm -rf "$reports"
mkdir -p "$reports"

# CMake defines the suites and their labels. Each suite writes a JUnit report, and CTest
# one on all of them. The output of a suite is shown if it fails.
label=^${mode#--}$
ctest --test-dir build -j "$(nproc)" -L "$label" --output-on-failure \
  --output-junit "$reports/ctest.xml" || true

grep -hE '^(quick|ordinary): |^Note: Google Test filter|^  Excluded' \
  build/Testing/Temporary/LastTest.log || true
if [[ $mode == --quick ]]; then
  echo "quick: without the suites $(comm -23 <(suites '^ordinary$') <(suites "$label") |
    paste -sd ' ')"
fi

"$python" scripts/summarize_tests.py "$reports"
