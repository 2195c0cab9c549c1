#!/usr/bin/env bash
# Installs a build of Tandem into a prefix, builds this project against only
# the prefix, and runs its tests. Both live in build/out-of-tree of the
# repository, and a second run renews only what changed.
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: test.sh [BUILD_DIRECTORY] [--xunit-xml-output FILE]

BUILD_DIRECTORY is where Tandem was built, build/ of the repository by default.
FILE is where to write the results in JUnit's format. $PYTHON runs lit.
TEXT
  exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build
report=
while (($#)); do
  case $1 in
  --xunit-xml-output=*) report=${1#*=} ;;
  --xunit-xml-output)
    (($# > 1)) || usage
    report=$2
    shift
    ;;
  -*) usage ;;
  *) build=$1 ;;
  esac
  shift
done
if [[ ! -f $build/cmake_install.cmake ]]; then
  echo "test.sh: '$build' is not a build of Tandem; run scripts/build.sh, or name" \
    "the directory where you built it" >&2
  exit 1
fi
build=$(cd "$build" && pwd)

work=$root/build/out-of-tree
prefix=$work/prefix
mkdir -p "$prefix"
# CMake lists what it installed; a file that is not on the list is from an
# earlier build.
if ! cmake --install "$build" --prefix "$prefix" >"$work/install.log"; then
  tail -n 20 "$work/install.log" >&2
  echo "test.sh: '$build' is not built completely; run cmake --build on it" >&2
  exit 1
fi
find "$prefix" ! -type d | sort |
  comm -23 - <(sort "$build/install_manifest.txt") | xargs -r -d '\n' rm -f --

# Tandem finds MLIR by itself.
cmake -G Ninja -S "$here" -B "$work/build" -DTandem_ROOT="$prefix" \
  ${PYTHON:+-DPython3_EXECUTABLE="$PYTHON"} >"$work/configure.log" || {
  tail -n 20 "$work/configure.log" >&2
  exit 1
}
cmake --build "$work/build" --parallel "${BUILD_JOBS:-2}"
if [[ -n $report ]]; then
  report=$(realpath -m "$report")
  option=$(printf %q "--xunit-xml-output=$report")
  export LIT_OPTS="${LIT_OPTS:-} $option"
fi
cmake --build "$work/build" --target check-my-tandem
