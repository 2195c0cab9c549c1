#!/usr/bin/env bash
# Prepares a machine with Debian 12 or a derivative: installs missing packages, and the
# pinned Python requirements in .venv. A second run finds everything in place and needs
# no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build ccache libgtest-dev
  libflatbuffers-dev flatbuffers-compiler
  llvm-22-dev libmlir-22-dev liblld-22-dev mlir-22-tools llvm-22-tools)

# A Python from another source works as well, if it has a venv module and C headers.
is_python_complete() {
  "$1" - <<'PY' >/dev/null 2>&1
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
sys.exit(sys.version_info < (3, 10) or not os.path.exists(header))
PY
}
python=${PYTHON:-python3}
if ! is_python_complete "$python"; then
  python=/usr/bin/python3
  packages+=(python3 python3-venv python3-dev)
fi

is_installed() {
  [[ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" == "install ok installed" ]]
}

install_packages() {
  local missing=() unknown=() package
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ((EUID)); then
    echo "setup.sh: these packages are missing; install them as root:" \
      "${missing[*]}" >&2
    exit 1
  fi
  apt-get update -q
  for package in "${missing[@]}"; do
    apt-cache show "$package" >/dev/null 2>&1 || unknown+=("$package")
  done
  if ((${#unknown[@]})); then
    cat >&2 <<TEXT
setup.sh: apt does not know ${unknown[*]}.
Tandem is built with LLVM and MLIR 22, which this distribution's own archive may
not carry. The LLVM project publishes packages of each release for Debian and
Ubuntu: add its source for version 22 and this distribution's code name to
/etc/apt/sources.list.d, its key to /etc/apt/keyrings, and run this script again.
TEXT
    exit 1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    "${missing[@]}"
}

# Installs the requirements only if the pins or the interpreter have changed.
install_requirements() {
  local requirements=python/requirements-ci.txt stamp=.venv/requirements.sha256
  local hash
  hash=$(sha256sum "$requirements" | cut -d' ' -f1)
  if [[ -x .venv/bin/python && "$(cat "$stamp" 2>/dev/null)" == "$hash" ]]; then
    return
  fi
  if ! is_python_complete "$python"; then
    echo "setup.sh: $python is not a Python 3.10 or later with venv and headers;" \
      "name another one in PYTHON" >&2
    exit 1
  fi
  [[ -x .venv/bin/python ]] || "$python" -m venv .venv
  .venv/bin/python -m pip install -q --disable-pip-version-check \
    -r "$requirements"
  echo "$hash" >"$stamp"
}

install_packages
install_requirements
