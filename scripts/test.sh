#!/usr/bin/env bash
# Sets up, builds and runs every test. The last line of the output is
# `N passed, N failed`; the exit status is 0 if all passed and some ran.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

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

# The runtime's tests also with sanitizers.
for binary in build/test/unit/* build/runtime/cts/tandem_runtime_cts{,_address,_thread}; do
  name=$(basename "$binary")
  run "$name" "$binary" --gtest_brief=1 --gtest_output="xml:$reports/$name.xml"
done
run lit "$python" "$(llvm-config-22 --bindir)/lit" -v \
  --xunit-xml-output="$reports/lit.xml" build/test
run pytest "$python" -m pytest -q -n "$(nproc)" --maxprocesses 4 \
  --dist worksteal --junitxml="$reports/pytest.xml" test/Python
PYTHON=$python run out-of-tree examples/out-of-tree/test.sh build \
  --xunit-xml-output "$reports/out-of-tree.xml"

"$python" scripts/summarize_tests.py "$reports"
