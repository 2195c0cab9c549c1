#!/usr/bin/env bash
# test-aarch64.sh [--wheels]
#
# Builds all of Tandem for AArch64, and runs its tests under qemu-user as on a machine of
# that architecture (scripts/emulate.sh): the unit tests, the runtime's conformance tests,
# the lit tests, the quick Python tests of the runtime, the compiler and optimizers of
# PyTorch, and the comparison of compiled code with its recorded hashes. Takes about 40
# minutes of one core after the build. A failure does not stop the rest.
#
#   --wheels  also builds the wheels for AArch64 and tries them in a root of Debian 12 for
#             that architecture, which debootstrap makes in build/aarch64/try
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
run() {
  echo "== $*"
  scripts/emulate.sh "$@" || status=1
}

try_wheels() {
  local try=build/aarch64/try
  scripts/wheel.sh --target aarch64
  # The kernel starts its programs, as emulate.sh has arranged.
  [[ -e $try/etc/debian_version ]] ||
    debootstrap --arch=arm64 --variant=minbase --include=python3,python3-venv bookworm "$try"
  scripts/try-wheel.sh --chroot="$try" --python=build/aarch64/venv/bin/python
}

case ${1:-} in
--wheels | "") ;;
*)
  echo "test-aarch64.sh: unknown option $1; give --wheels or nothing" >&2
  exit 2
  ;;
esac

scripts/build.sh --target aarch64
for program in build/aarch64/whole/test/unit/*Tests; do
  run "build/test/unit/$(basename "$program")" --gtest_brief=1
done
run build/runtime/cts/tandem_runtime_cts --gtest_brief=1
run .venv/bin/python /usr/lib/llvm-22/bin/lit -q build/test
run .venv/bin/python -m pytest -q --quick -p no:cacheprovider test/Python/runtime \
  test/Python/compiler test/Python/pytorch/optim/test_torch.py
run bash scripts/bits.sh --files ptx objects
[[ ${1:-} != --wheels ]] || try_wheels || status=1
exit "$status"
