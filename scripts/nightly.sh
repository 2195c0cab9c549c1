#!/usr/bin/env bash
# What takes too long for each change: nightly.sh [--minutes N]. Runs every test with
# whole products of parameters, builds the wheels and tries them where LLVM is hidden
# (as long as a build, and some two minutes), and then gives random input to each target
# of fuzz.sh for N minutes (10), another each day. All run even if one fails.
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
scripts/fuzz.sh all --minutes "$minutes" --seed "$(date +%Y%j)" || status=1
exit "$status"
