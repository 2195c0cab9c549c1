#!/usr/bin/env bash
# Runs what takes too long for each change: nightly.sh [--minutes N]. It runs every test
# with all combinations of parameters, builds the wheels and tries them where LLVM is
# hidden (as long as a build, and some two minutes), and compiles the runtime for macOS.
# If qemu-user-static and g++-aarch64-linux-gnu are installed, it compares all kernels
# for AArch64 with the recorded bits, builds and tests all of Tandem for it, and tries its
# wheels. Then it runs each target of fuzz.sh for N minutes (10), with a different seed
# each day. A failure does not stop the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=10
case ${1:-} in
--minutes) minutes=${2:?"nightly.sh: give the minutes"} ;;
"") ;;
*)
  echo "nightly.sh: unknown option $1; give --minutes N or nothing" >&2
  exit 2
  ;;
esac

status=0
scripts/test.sh --whole || status=1
scripts/wheel.sh && scripts/try-wheel.sh || status=1
scripts/build.sh --target macos || status=1
if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null; then
  scripts/bits.sh --emulate || status=1
  scripts/test-aarch64.sh --wheels || status=1
else
  echo "nightly.sh: nothing of AArch64 is tested without g++-aarch64-linux-gnu and" \
    "qemu-user-static"
fi
scripts/fuzz.sh all --minutes "$minutes" --seed "$(date +%Y%j)" || status=1
exit "$status"
