#!/usr/bin/env bash
# Reads packages that were changed at random and given the right checksum, with
# sanitizers watching: fuzz-package.sh [COUNT [SEED]], a million by default. They
# begin with packages of several graphs and strategies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=${1:-1000000}
seed=${2:-1}
ninja -C build tandem-translate tandem-package-fuzz
packages=build/fuzz-package
mkdir -p "$packages"
for recipe in adamw:fp32 adamw:coat lamb:fp8-lm-delayed adafactor:collage-plus; do
  build/bin/tandem-translate --to-package --targets=x86-64,sm_90 \
    --strategy="${recipe#*:}" "lib/Graphs/${recipe%:*}.mlir" \
    -o "$packages/${recipe/:/-}.tdm"
done
exec build/bin/tandem-package-fuzz "$count" "$seed" "$packages"/*.tdm
