#!/usr/bin/env bash
# Runs what takes too long for each change: nightly.sh [--minutes N]. It runs every test
# with all combinations of parameters, builds the wheels and tries them where LLVM is
# hidden (as long as a build, and some two minutes), compares all kernels for AArch64
# with the recorded bits under qemu-user, if that and g++-aarch64-linux-gnu are
# installed, and then runs each target of fuzz.sh for N minutes (10), with a different
# seed each day. A failure does not stop the rest.
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
scripts/bits.sh --emulate || status=1
scripts/fuzz.sh all --minutes "$minutes" --seed "$(date +%Y%j)" || status=1
exit "$status"
