#!/usr/bin/env bash
# emulate.sh COMMAND [ARGUMENT...]
#
# Runs a command of AArch64 on a machine with another architecture, as if this checkout were on
# a machine of AArch64: in a root of Debian 12 whose processes qemu-user emulates, with the
# checkout at its own path, in which build/ is build/aarch64/whole and .venv has AArch64's
# Python with NumPy, SciPy, PyTorch and pytest. For example:
#
#   scripts/build.sh --target aarch64
#   scripts/emulate.sh build/bin/tandem-opt --version
#   scripts/emulate.sh .venv/bin/python -m pytest -q test/Python/runtime
#
# Sanitizers do not look for leaks there, since they cannot stop the emulator's threads.
#
# Requires root and qemu-user-static, for a private mount namespace and to register the
# emulator with the kernel. The root and its Python packages are downloaded the first time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=build/aarch64/root venv=build/aarch64/venv whole=build/aarch64/whole
registry=/proc/sys/fs/binfmt_misc

fail() {
  echo "emulate.sh: $*" >&2
  exit 1
}

# Registers the emulator with the kernel, which then also starts the programs that an
# emulated program starts.
register_emulator() {
  local entry=/usr/lib/binfmt.d/qemu-aarch64.conf
  [[ -f $entry ]] || fail "there is no $entry; install qemu-user-static"
  mountpoint -q "$registry" || mount -t binfmt_misc none "$registry"
  [[ -e $registry/qemu-aarch64 ]] || cat "$entry" >"$registry/register"
}

# Makes an environment for the root's Python. pip runs here, since it is slow there.
make_venv() {
  local requirements=python/requirements-aarch64.txt hash version
  hash=$(sha256sum "$requirements" | cut -d' ' -f1)
  [[ "$(cat "$venv/requirements.sha256" 2>/dev/null)" != "$hash" ]] || return 0
  rm -rf "$venv"
  version=$(basename "$root"/usr/include/python3.*)
  mkdir -p "$venv/bin" "$venv/lib/$version/site-packages"
  ln -s /usr/bin/python3 "$venv/bin/python"
  printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$venv/pyvenv.cfg"
  local platforms=()
  for glibc in 17 26 27 28; do
    platforms+=(--platform "manylinux_2_${glibc}_aarch64")
  done
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --only-binary=:all: \
    --platform manylinux2014_aarch64 "${platforms[@]}" --python-version "${version#python}" \
    --target "$venv/lib/$version/site-packages" -r "$requirements"
  echo "$PWD/build/python" >"$venv/lib/$version/site-packages/tandem-build.pth"
  echo "$hash" >"$venv/requirements.sha256"
}

(($#)) || fail "name a command, such as .venv/bin/python"
((EUID == 0)) || fail "a root needs root's rights"
scripts/root-aarch64.sh >/dev/null
register_emulator
make_venv
mkdir -p "$whole"/aarch64/{root,whole} "$root"/{proc,dev,tmp,root} "$root$PWD"

# The build also names itself and the root by their paths outside of it.
exec unshare -m bash -c '
set -e
root=$1 checkout=$2
shift 2
mount --bind . "$root$checkout"
mount --bind build/aarch64/whole "$root$checkout/build"
mount --bind build/aarch64/whole "$root$checkout/build/aarch64/whole"
mount --bind "$root" "$root$checkout/build/aarch64/root"
mount --bind build/aarch64/venv "$root$checkout/.venv"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/tmp"
exec chroot "$root" env -i PATH=/usr/bin:/bin HOME=/tmp TANDEM_CACHE_DIR= \
  ASAN_OPTIONS=detect_leaks=0 \
  sh -c '\''cd "$0" && exec "$@"'\'' "$checkout" "$@"' \
  bash "$root" "$PWD" "$@"
