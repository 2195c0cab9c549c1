#!/usr/bin/env bash
# Unpacks Debian's packages for AArch64 that Tandem is built with into build/aarch64/root:
# root-aarch64.sh [--runtime | --python]. They come from this machine's sources of packages and are
# not installed, so that it needs neither root's rights nor dpkg --add-architecture.
#
#   --runtime   only what the runtime and its tests need; 100 MB instead of 1.9 GB
#   --python    also Python and its headers
#
# Without an option, they are also what scripts/emulate.sh runs commands with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(libc6-dev libstdc++-12-dev libgtest-dev libflatbuffers-dev)
case ${1:-} in
--runtime) ;;
--python) packages+=(python3 libpython3-dev) ;;
"") packages+=(python3 libpython3-dev llvm-22-dev libmlir-22-dev liblld-22-dev
    mlir-22-tools llvm-22-tools bash dash coreutils diffutils grep sed g++ cmake make
    ninja-build libc-bin) ;;
*)
  echo "root-aarch64.sh: unknown option $1; give --runtime, --python or nothing" >&2
  exit 2
  ;;
esac

root=$PWD/build/aarch64/root
stamp=$root/packages.txt
if printf '%s\n' "${packages[@]}" | grep -qvxFf "$stamp" - 2>/dev/null ||
  [[ ! -f $stamp ]]; then
  apt=$PWD/build/aarch64/apt
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial} "$root"/usr/{bin,sbin,lib}
  # Nothing counts as installed, so that apt fetches whatever the packages depend on.
  : >"$apt/status"
  cat >"$apt/apt.conf" <<TEXT
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Log "$apt";
Debug::NoLocking "true";
TEXT
  export APT_CONFIG=$apt/apt.conf
  apt-get update -q
  apt-get install -q -y --download-only "${packages[@]}"
  for folder in bin sbin lib; do
    ln -sfn "usr/$folder" "$root/$folder"
  done
  for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" |
      tar -x --keep-directory-symlink --no-same-owner -C "$root"
  done
  # The packages' scripts, which do not run, would make these names.
  ln -sf gcc "$root/usr/bin/cc"
  ln -sf g++ "$root/usr/bin/c++"
  rm -rf "$apt"
  printf '%s\n' "${packages[@]}" >"$stamp"
fi
