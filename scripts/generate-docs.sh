#!/usr/bin/env bash
# Writes docs/generated/*.md from the TableGen files. With --check, it writes nothing,
# and fails if a committed file differs from what it would write. MLIR_TBLGEN and
# LLVM_CONFIG override the tools of LLVM 22.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=false
case "${1-}" in
"") ;;
--check) check=true ;;
*)
  echo "usage: scripts/generate-docs.sh [--check]" >&2
  exit 2
  ;;
esac

llvm_config=${LLVM_CONFIG:-llvm-config-22}
tblgen=${MLIR_TBLGEN:-$("$llvm_config" --bindir)/mlir-tblgen}
if [[ ! -x "$tblgen" ]]; then
  echo "generate-docs.sh: there is no $tblgen; run scripts/setup.sh, or name" \
    "mlir-tblgen in MLIR_TBLGEN" >&2
  exit 1
fi
includes=(-I include -I "$("$llvm_config" --includedir)")

output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

# generate FILE TD ARGUMENT...: runs mlir-tblgen; TD is a .td file, or - for standard
# input.
generate() {
  local name=$1 source=$2
  shift 2
  [[ "$source" == - ]] || source=include/tandem/$source
  "$tblgen" "${includes[@]}" "$@" "$source" -o "$output/$name"
}

generate MCFDialect.md Dialect/MCF/IR/MCFOps.td \
  --gen-dialect-doc --dialect=mcf
generate ScaledDialect.md Dialect/Scaled/IR/ScaledOps.td \
  --gen-dialect-doc --dialect=scaled
generate CodeInterface.md Dialect/Scaled/IR/CodeInterface.td \
  --gen-attr-interface-docs
generate TandemDialect.md Dialect/Tandem/IR/TandemOps.td \
  --gen-dialect-doc --dialect=tandem
generate StorageInterface.md Dialect/Tandem/IR/StorageInterface.td \
  --gen-attr-interface-docs
generate TandemPasses.md Dialect/Tandem/Transforms/Passes.td --gen-pass-doc
# One page covers the conversions for all targets.
generate ConversionPasses.md - --gen-pass-doc <<END
include "tandem/Conversion/Passes.td"
include "tandem/Conversion/TandemToNVVM/Passes.td"
END
# Remove table-of-contents marks, which only MLIR's site understands, trailing white
# space, and blank lines at the end.
sed -i -e '/^\[TOC\]$/,+1d' -e 's/[[:space:]]*$//' "$output"/*.md
for file in "$output"/*.md; do
  text=$(cat "$file")
  printf '%s\n' "$text" >"$file"
done

if ! $check; then
  mkdir -p docs/generated
  rm -f docs/generated/*.md
  cp "$output"/*.md docs/generated/
  chmod 644 docs/generated/*.md
elif ! diff -ru docs/generated "$output" >&2; then
  echo "docs/generated is stale; run scripts/generate-docs.sh and commit what" \
    "it writes" >&2
  exit 1
fi
