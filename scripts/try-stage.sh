#!/usr/bin/env bash
# try-stage.sh FOLDER [--python=PATH] [--root=ROOT]
#
# Tries the folder that scripts/stage-gpu-check.sh has filled, in a root of Debian 12
# without LLVM, a compiler or the C++ library's headers. debootstrap creates the root in
# ROOT (default: build/stage-root) the first time. The root gets a copy of the
# extension's Python, which must have a separate prefix, such as pyenv's, with numpy and
# pytest. Requires root, and the network for what is not installed yet. The stand-in
# driver takes the place of a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "try-stage.sh: $*" >&2
  exit 1
}

# Makes a Debian root with the libraries that pyenv's Python requires.
make_root() {
  [[ -e $root/etc/debian_version ]] && return
  debootstrap --variant=minbase --include=libffi8,liblzma5,zlib1g bookworm "$root"
}

add_python() {
  local prefix
  prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
  [[ $prefix != /usr ]] || fail "$python is the system's; name one of pyenv"
  if [[ ! -e $root$prefix ]]; then
    mkdir -p "$root$prefix"
    cp -a "$prefix/." "$root$prefix/"
  fi
  if [[ ! -e $root/packages/numpy ]]; then
    "$python" -m pip install -q --disable-pip-version-check --root-user-action=ignore \
      --target "$root/packages" numpy pytest
  fi
}

add_folder() {
  rm -rf "$root/stage"
  cp -a "$folder" "$root/stage"
}

# Prints the script to run in the root. $1 is the Python there.
run_there() {
  cat <<'SH'
set -euo pipefail
export PYTHONPATH=/stage/python:/packages PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
export TANDEM_CACHE_DIR=/tmp/cache
cd /tmp

title() { echo "== $*"; }

title "what the root lacks"
for name in cc gcc g++ clang ld as cmake ninja flatc llvm-config llvm-config-22; do
  ! command -v "$name" || { echo "the root has $name"; exit 1; }
done
! find / -xdev -name 'libLLVM*' -o -xdev -name 'libMLIR*' | grep . ||
  { echo "the root has LLVM"; exit 1; }

title "unpacking"
"$1" /stage/unpack.py
! find /stage -type l | grep . || { echo "these are links"; exit 1; }

title "libraries"
for file in /stage/bin/* /stage/lib/*.so /stage/python/tandem/*.so; do
  ! ldd "$file" 2>&1 | grep -E 'not found|libstdc|libgcc' ||
    { echo "$file needs them"; exit 1; }
done

title "the runtime's tests"
/stage/bin/tandem_runtime_cts --gtest_brief=1

title "gpu_check with the CPU in place of a GPU"
/stage/bin/gpu_check --cpu --seconds=20 --elements=100000 /stage/packages/adamw-coat.tdm

title "tools"
cat >graph.mlir <<'MLIR'
func.func @f(%a: f32) -> f32 {
  %0 = arith.addf %a, %a : f32
  return %0 : f32
}
MLIR
/stage/bin/tandem-opt --canonicalize graph.mlir | grep -q arith.addf
/stage/bin/tandem-run adamw --strategy=coat --print-signature | head -3
/stage/bin/tandem-package show /stage/packages/adamw-coat.tdm | head -3

title "the compiler, for CPUs and as PTX"
"$1" - <<'PYTHON'
import numpy as np
import tandem
on_cpu = tandem.compile("adamw", "coat")
on_gpu = tandem.compile("adamw", "coat", target="sm_90")
assert ".target sm_90" in on_gpu.ptx, on_gpu.ptx[:200]
tandem.save("coat.tdm", [on_gpu], ["x86-64", "x86-64-v3", "sm_90"])
loaded = tandem.load("coat.tdm", isa="x86-64")
print(len(on_gpu.ptx), "bytes of PTX,", loaded.bytes_per_parameter, "bytes a parameter")
PYTHON

title "adamw under coat, on the CPU and on the stand-in device"
cd /stage/checks/test/Python
"$1" -m pytest -q -p no:cacheprovider runtime/test_cuda.py -k "adamw and coat"
SH
}

folder='' python='' root=build/stage-root
for argument; do
  case $argument in
    --python=*) python=${argument#--python=} ;;
    --root=*) root=${argument#--root=} ;;
    -*) fail "there is no option $argument; see the head of this file" ;;
    *) folder=$argument ;;
  esac
done
[[ -f $folder/unpack.py ]] || fail "name a folder that stage-gpu-check.sh has filled"
((EUID == 0)) || fail "chroot needs root"
if [[ ! $python ]]; then
  python=$(sed -n 's/^Python_EXECUTABLE:[A-Z]*=//p' build/stage/CMakeCache.txt)
fi

make_root
root=$(cd "$root" && pwd)
add_python
add_folder
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
trap 'umount "$root/proc"' EXIT
chroot "$root" /bin/bash -c "$(run_there)" run "$("$python" -c '
import os, sys
print(os.path.join(sys.base_prefix, "bin", "python3"))')" 2>&1 |
  sed 's/^/  /'
echo "$folder runs where nothing else is"
