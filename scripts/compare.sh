#!/usr/bin/env bash
# Runs the same compensated sums in Tandem, NumPy, JAX, PyTorch and Triton, and writes
# docs/Comparison.md. Requires a build, and installs the other frameworks in
# build/comparison, at the versions of benchmarks/comparison/requirements.txt. Files
# that benchmarks/results/comparison has are kept, so an interrupted run can be resumed;
# a removed file is measured again. With frameworks as arguments, it measures only
# these, again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-.venv/bin/python}

requirements=benchmarks/comparison/requirements.txt
results=benchmarks/results/comparison
other=build/comparison/venv
log=build/comparison/install.log

# The packages that must be importable for a framework.
declare -A packages=([jax]="jax jaxlib" [torch]=torch [triton]="triton torch")

install() {
  [[ -x $other/bin/python ]] || "$python" -m venv "$other"
  "$other/bin/python" -m pip install -q --disable-pip-version-check \
    -c "$requirements" numpy ml_dtypes ${packages[$1]} >"$log" 2>&1
}

# Prints pip's first error or an import's last line, without the indexes that pip
# searched.
reason() {
  { grep -m 1 '^ERROR' "$log" || tail -n 1 "$log"; } |
    sed -E 's/^ERROR: //; s,[a-z]+://[^ ]+,,g; s/\.$//'
}

measure() {
  local framework=$1
  if [[ ! -v packages[$framework] ]]; then
    "$python" benchmarks/comparison/run.py "$framework"
  elif install "$framework" &&
    "$other/bin/python" -c "import $framework" >"$log" 2>&1; then
    "$other/bin/python" benchmarks/comparison/run.py "$framework"
  else
    local why
    why=$(reason)
    "$python" benchmarks/comparison/run.py "$framework" --absent "${why:-no reason given}"
  fi
}

for framework in "$@"; do
  rm -f "$results/$framework".json "$results/$framework"-*.txt
done
for framework in numpy tandem jax torch triton; do
  if [[ -e $results/$framework.json ]]; then
    echo "$framework: done, $results/$framework.json"
  else
    measure "$framework"
  fi
done
"$python" benchmarks/comparison/comparison_page.py
echo "wrote docs/Comparison.md"
