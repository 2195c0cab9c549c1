#!/usr/bin/env bash
# Builds the documentation as a site in build/site, from the Markdown of the repository, the
# docstrings, the C headers and the tools' --help: docs.sh [FOLDER]. A broken link, a page that the
# navigation lacks or a malformed docstring is an error. It needs a build (scripts/build.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
site=${1:-build/site}
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
.venv/bin/python -m sphinx -b html -q -W --keep-going -c docs/site . "$site"
echo "docs.sh: open $site/index.html"
