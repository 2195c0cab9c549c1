#===- test_site.py - The documentation as a site --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the site builds without a warning, which a broken link, a page outside of the
# navigation and a malformed docstring are, and that the reference has every public name.
#
#===----------------------------------------------------------------------===#

import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.long_setup("site")

import tandem.torch  # noqa: E402
import tandem.torch.distributed  # noqa: E402
import tandem.torch.nn  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = "docs/site/reference"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    found = subprocess.run([ROOT / "scripts/docs.sh", folder], capture_output=True, text=True)
    assert not found.returncode, found.stdout + found.stderr
    return folder


def test_every_page_is_there(site):
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/README.md")]
    assert len(pages) > 55
    for page in pages:
        assert (site / page.relative_to(ROOT)).with_suffix(".html").is_file()
    assert "README.html" in (site / "index.html").read_text()


@pytest.mark.parametrize("module, page", (
    (tandem, "python"), (tandem.torch, "torch"), (tandem.torch.nn, "torch"),
    (tandem.torch.distributed, "torch")), ids=lambda of: getattr(of, "__name__", of))
def test_the_reference_has_every_public_name(site, module, page):
    text = (site / REFERENCE / f"{page}.html").read_text()
    shown = {name.rpartition(".")[2] for name in re.findall(r'id="(tandem\.[\w.]+)"', text)}
    modules = {name for name in module.__all__ if isinstance(getattr(module, name), type(tandem))}
    assert set(module.__all__) - modules <= shown


def test_the_reference_of_tools_has_their_options(site):
    text = (site / REFERENCE / "tools.html").read_text()
    for option in ("--tandem-split-phases", "--list-strategies", "--to-package", "extract FILE"):
        assert option in text


def test_the_search_finds_pages(site):
    index = (site / "searchindex.js").read_text()
    assert "docs/Muon" in index and "dither" in index
