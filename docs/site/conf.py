#===- conf.py - The documentation as a site --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file configures Sphinx. The sources are the repository's Markdown files where they are, so
# that links between them, and to code, work there as well; the navigation is here, so that pages
# need none.
#
#===----------------------------------------------------------------------===#
"""Sphinx's configuration; scripts/docs.sh builds the site."""

import pathlib
import re
import subprocess

from docutils import nodes
from docutils.parsers.rst import Directive

import tandem
import tandem.torch.distributed

ROOT = pathlib.Path(__file__).resolve().parents[2]

project, author = "Tandem", "The Tandem authors"
copyright = "The Tandem authors. Apache License 2.0 with LLVM Exceptions"
version = release = tandem.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "docs/**", "examples/*/README.md", "test/Python/data/*/README.md"]
exclude_patterns = ["docs/site/conf.py"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_heading_anchors = 4
# A block that names no language shows what a program prints.
highlight_language = "none"
# Pygments cannot parse all of MLIR. Some classes have an attribute "bytes", which is a type of Python
# as well.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"Tandem {release}"
html_extra_path = ["extra"]
html_theme_options = {"navigation_with_keys": True}

# The module imports some names when they are first used, and autodoc shows only what is there.
for name in tandem.torch.distributed.__all__:
    setattr(tandem.torch.distributed, name, getattr(tandem.torch.distributed, name))

#: The navigation: the pages of each part, in the order in which a reader may want them.
NAVIGATION = {
    "Start": ["docs/Tutorial", "docs/Install", "docs/Migration", "docs/FAQ", "docs/Glossary"],
    "Guides": [
        "docs/Choosing", "docs/Library", "docs/Doctor", "docs/Torch", "docs/Accumulation",
        "docs/WeightAverage", "docs/WeightOperands", "docs/Muon", "docs/BeyondAdamW",
        "docs/Layers", "docs/Activations", "docs/Distributed", "docs/JAX", "docs/Python",
        "docs/Precision", "docs/Sharpness", "docs/GPU", "examples/trainers/README",
        "examples/distributed/README", "examples/language_model/README"],
    "Extend": [
        "docs/Strategies", "docs/Codes", "docs/CommandLine", "docs/Targets", "docs/Embedding",
        "docs/Packages", "examples/out-of-tree/README", "examples/package/README",
        "examples/training_loop/README", "docs/Architecture", "docs/Rationale", "CONTRIBUTING"],
    "Reference": [
        "docs/site/reference/python", "docs/site/reference/torch", "docs/site/reference/jax",
        "docs/site/reference/c", "docs/site/reference/tools", "docs/Numerics", "docs/Optimizers",
        "docs/MCF", "docs/generated/TandemDialect", "docs/generated/ScaledDialect",
        "docs/generated/MCFDialect", "docs/generated/StorageInterface",
        "docs/generated/CodeInterface", "docs/generated/TandemPasses",
        "docs/generated/ConversionPasses"],
    "Evidence": [
        "docs/Accuracy", "docs/Following", "docs/Quality", "docs/Papers", "docs/Comparison",
        "docs/Reports", "docs/Benchmarks", "docs/Instructions", "docs/Verification"],
    "Project": ["CHANGELOG", "SECURITY", "test/Python/data/packages/README"],
}


def add_navigation(app, docname, source):
    """Adds the navigation to the first page, where Sphinx looks for it."""
    if docname == root_doc:
        trees = (f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(f"/{page}" for page in pages)
                 + "\n```" for caption, pages in NAVIGATION.items())
        source[0] += "\n" + "\n\n".join(trees) + "\n"


#: The titles of generated pages that begin with a list of passes.
TITLES = {"docs/generated/TandemPasses": "Passes of Tandem",
          "docs/generated/ConversionPasses": "Conversion passes"}


def add_title(app, docname, source):
    """Gives a generated page a title, and its sections the level below."""
    if docname in TITLES:
        text = re.sub(r"^#(#+ )", r"\1", source[0], flags=re.MULTILINE)
        source[0] = f"# {TITLES[docname]}\n\n{text}"


class HelpOf(Directive):
    """Shows what a tool prints under --help."""

    required_arguments = 1

    def run(self):
        tool = ROOT / "build/bin" / self.arguments[0]
        shown = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
        # LLVM's tools begin with an overview that names their own path.
        text = re.sub(re.escape(str(ROOT)) + r"/\S*/", "", shown)
        return [nodes.literal_block(text, text, language="none")]


def setup(app):
    app.connect("source-read", add_navigation)
    app.connect("source-read", add_title)
    app.add_directive("help-of", HelpOf)
