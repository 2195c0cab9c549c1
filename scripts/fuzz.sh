#!/usr/bin/env bash
# Runs a fuzz target, which feeds random input to Tandem: fuzz.sh TARGET [--minutes N]
# [--seed N].
#
#   parse      MLIR texts, to the parser, the verifiers and the printer
#   pipeline   graphs and kernels, to random pipelines of passes
#   compile    graphs, to the compiler as a library
#   arrays     .npy and .safetensors files, with sanitizers
#   package    packages, with sanitizers
#   graphs     random optimizers under random options, against the interpreter
#   ptx        random optimizers and changed kernels, whose PTX the check must accept
#   all        all of them in sequence, each for N minutes
#
# Texts that reveal a fault are saved in build/fuzz, for use with `tandem-fuzz replay`
# and tandem-reduce. The same seed gives the same input.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${1:?"usage: fuzz.sh TARGET [--minutes N] [--seed N]; TARGET is parse, \
pipeline, compile, arrays, package, graphs, ptx or all"}
shift
minutes=10 seed=1
while (($#)); do
  case $1 in
  --minutes) minutes=$2 ;;
  --seed) seed=$2 ;;
  *)
    echo "fuzz.sh: unknown option $1; give --minutes N or --seed N" >&2
    exit 2
    ;;
  esac
  shift 2
done
seconds=$((minutes * 60))
findings=build/fuzz
mkdir -p "$findings"

# Makes packages of several graphs and strategies as initial inputs.
make_packages() {
  local recipe
  for recipe in adamw:fp32 adamw:coat lamb:fp8-lm adafactor:collage-plus; do
    build/bin/tandem-translate --to-package --targets=x86-64,sm_90 \
      --strategy="${recipe#*:}" "lib/Graphs/${recipe%:*}.mlir" \
      -o "$findings/${recipe/:/-}.tdm"
  done
}

# glibc's heap checks, if they are installed, detect writes to freed memory.
checks=$(ldconfig -p 2>/dev/null | awk '/libc_malloc_debug\.so/ { print $NF; exit }')

run() {
  case $1 in
  parse | pipeline | compile)
    MALLOC_CHECK_=3 LD_PRELOAD=$checks build/bin/tandem-fuzz "$1" --texts=lib,test --seconds="$seconds" --first=$((seed * 1000000000)) \
      --findings="$findings"
    ;;
  arrays) build/bin/tandem-array-fuzz "$seconds" 18446744073709551615 "$seed" ;;
  package)
    make_packages
    build/bin/tandem-package-fuzz --seconds "$seconds" "$seed" "$findings"/*.tdm
    ;;
  graphs)
    PYTHONPATH=build/python .venv/bin/python test/Fuzz/graphs.py \
      --seconds "$seconds" --first $((seed * 1000000)) --findings "$findings"
    ;;
  ptx)
    PYTHONPATH=build/python .venv/bin/python test/Fuzz/refusals.py \
      --seconds "$seconds" --first $((seed * 1000000)) --findings "$findings"
    ;;
  all)
    local part status=0
    for part in parse pipeline compile arrays package graphs ptx; do
      run "$part" || status=1
    done
    return "$status"
    ;;
  *)
    echo "fuzz.sh: unknown target $1" >&2
    return 2
    ;;
  esac
}
run "$target"
