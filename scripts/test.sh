#!/usr/bin/env bash
# Sets up, builds and tests: test.sh [--quick | --whole].
#
#   --quick   what a contributor runs: every suite without its slow tests, and of the
#             Python tests those that cover every function and parameter's value
#   --whole   also the products of parameters that an ordinary run thins
#
# What was left out is said. The last line of the output is `N passed, N failed`; the
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

python=$PWD/.venv/bin/python
reports=$PWD/build/test-reports
rm -rf "$reports"
mkdir -p "$reports"
export PYTHONPATH=$PWD/build/python
export TANDEM_VERIFY_ROUNDTRIP=1

# Each suite writes a JUnit report; what it prints is shown where it fails.
run() {
  local name=$1 status=0
  shift
  echo "== $name"
  "$@" >"$reports/$name.log" 2>&1 || status=$?
  echo "$status" >"$reports/$name.status"
  if ((status)); then
    tail -n 200 "$reports/$name.log"
  fi
}

# The runtime's tests also with sanitizers; a quick run has no time for that of threads.
binaries=(build/test/unit/* build/runtime/cts/tandem_runtime_cts{,_address,_thread})
unit=(--gtest_brief=1) lit=() pytest=()
case $mode in
--quick)
  slow=SumError.F16:SumError.BF16:InterpreterAgreement.*
  unset 'binaries[-1]'
  unit+=("--gtest_filter=-$slow")
  lit=(--filter-out 'Pipelines/library\.test|Fuzz/')
  pytest=(--quick)
  echo "quick: without tandem_runtime_cts_thread, $slow, library.test, Fuzz, out-of-tree"
  ;;
--whole) pytest=(--whole) ;;
esac

for binary in "${binaries[@]}"; do
  name=$(basename "$binary")
  run "$name" "$binary" "${unit[@]}" --gtest_output="xml:$reports/$name.xml"
done
run lit "$python" "$(llvm-config-22 --bindir)/lit" -v "${lit[@]}" \
  --xunit-xml-output="$reports/lit.xml" build/test
run pytest "$python" -m pytest -q -n "$(nproc)" --maxprocesses 4 \
  --dist worksteal --junitxml="$reports/pytest.xml" "${pytest[@]}" test/Python
grep -E '^(quick|ordinary): ' "$reports/pytest.log" || true
if [[ $mode != --quick ]]; then
  PYTHON=$python run out-of-tree examples/out-of-tree/test.sh build \
    --xunit-xml-output "$reports/out-of-tree.xml"
fi

"$python" scripts/summarize_tests.py "$reports"
