#===- test_docs.py - The documentation ------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the documentation: generated pages are up to date, examples run, and links have
# targets.
#
#===----------------------------------------------------------------------===#

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tandem

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/accuracy")]
import library  # noqa: E402
import sharpness  # noqa: E402
from accuracy_page import Results  # noqa: E402
from common import load  # noqa: E402

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def generate_docs(root):
    return subprocess.run([root / "scripts/generate-docs.sh", "--check"],
                          capture_output=True, text=True)


def blocks(page, language):
    """Returns the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(),
                      re.MULTILINE | re.DOTALL)

#===----------------------------------------------------------------------===#
# Generated pages
#===----------------------------------------------------------------------===#


def test_generated():
    result = generate_docs(ROOT)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("fault", ("changed", "missing", "left over"))
def test_stale_is_found(fault, tmp_path):
    for part in ("scripts", "docs/generated", "include/tandem"):
        shutil.copytree(ROOT / part, tmp_path / part)
    page = tmp_path / "docs/generated/MCFDialect.md"
    if fault == "changed":
        page.write_text(page.read_text().replace("mcf.grow", "mcf.shrink"))
    elif fault == "missing":
        page.unlink()
    else:
        page.with_name("Old.md").write_text("# Old\n")
    result = generate_docs(tmp_path)
    assert result.returncode == 1
    assert "run scripts/generate-docs.sh" in result.stderr

#===----------------------------------------------------------------------===#
# Examples
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("number", range(len(blocks("README.md", "python"))))
def test_readme_python(number):
    exec(blocks("README.md", "python")[number], {})


@pytest.mark.parametrize("number", range(len(blocks("docs/Python.md", "python"))))
def test_python_page(number):
    """Runs each example of docs/Python.md separately."""
    text = blocks("docs/Python.md", "python")[number]
    if "import torch" in text:
        pytest.importorskip("torch")
    exec(text, {})


def test_numerics_python():
    """Runs the rules of docs/Numerics.md in sequence."""
    names = {}
    for block in blocks("docs/Numerics.md", "python"):
        exec(block, names)


@pytest.mark.parametrize("page", ("Torch", "Accumulation", "WeightAverage",
                                  "WeightOperands", "Muon", "BeyondAdamW", "Migration"))
def test_torch_python(page):
    """Runs the examples of a page in sequence."""
    pytest.importorskip("torch")
    names = {}
    for block in blocks(f"docs/{page}.md", "python"):
        exec(block, names)


def test_tutorial(tmp_path, monkeypatch):
    """Runs the blocks of docs/Tutorial.md in sequence, the Python ones first."""
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    graph, strategy = blocks("docs/Tutorial.md", "mlir")
    (tmp_path / "signum.mlir").write_text(graph)
    (tmp_path / "small.mlir").write_text(strategy)
    names = {}
    for block in blocks("docs/Tutorial.md", "python"):
        exec(block, names)
    rows = [row for row in names["doctor"].rows if row["is_own"]]
    lost = (sum(row["lost"] * row["elements"] for row in rows)
            / sum(row["elements"] for row in rows))
    assert 0.35 < lost < 0.5  # about four in ten
    assert "8.25 in matrices, and 13 in the" in (ROOT / "docs/Tutorial.md").read_text()
    assert bytes_of("flash-f16", torch.bfloat16) == 8.25
    assert bytes_of("flash-f16", torch.bfloat16, shape=(64,)) == 13
    monkeypatch.setenv("PATH", f"{ROOT}/build/bin:{os.environ['PATH']}")
    for block in blocks("docs/Tutorial.md", "sh"):
        printed = subprocess.run(["bash", "-ec", f"set -o pipefail\n{block}"],
                                 capture_output=True, text=True, check=True).stdout
        assert printed or ">" in block
    assert ".visible .entry tandem_" in (tmp_path / "signum.ptx").read_text()


def test_doctor_python(capsys):
    """Runs the example of docs/Doctor.md."""
    pytest.importorskip("torch")
    (block,) = blocks("docs/Doctor.md", "python")
    exec(block, {})
    printed = capsys.readouterr().out
    assert "over all parameters" in printed and "{'matrices': " in printed


def test_jax_python():
    """Runs the examples of docs/JAX.md in sequence."""
    pytest.importorskip("jax", reason="JAX is not installed")
    pytest.importorskip("optax", reason="optax is not installed")
    names = {}
    for block in blocks("docs/JAX.md", "python"):
        exec(block, names)


def test_layers_python():
    """Runs the examples of docs/Layers.md in sequence."""
    pytest.importorskip("torch")
    names = {}
    for block in blocks("docs/Layers.md", "python"):
        exec(block, names)


def test_layer_of_ones_own(tmp_path):
    """The layer and the recipe of docs/Layers.md work as in the built-in modules."""
    torch = pytest.importorskip("torch")
    from tandem.torch.nn._autograd import LayerFunction
    from tandem.torch.nn._history import NO_HISTORY
    from tandem.torch.nn._layer import compiled
    recipe, *_, layer = blocks("docs/Layers.md", "mlir")
    (tmp_path / "coat-64.mlir").write_text(recipe)
    x = torch.randn(5, 100, dtype=torch.float64, requires_grad=True)
    narrow = x.detach().float().requires_grad_()
    runs = compiled(layer, "coat-64", torch.float32, torch.float32, (str(tmp_path),))
    dy = torch.randn(5, 100)
    LayerFunction.apply(runs, (), NO_HISTORY, (("x", "dx"),), {}, narrow).backward(dy)
    (x / x.abs().sum(1, keepdim=True)).backward(dy.double())
    assert (narrow.grad - x.grad).norm() < 0.05 * x.grad.norm()
    assert {p.name: p.bits for p in runs.saved} == {
        "y.saved": 8, "y.saved.scale": 16, "sum": 32}


@pytest.mark.parametrize(("index", "name"), ((1, "flow"), (2, "fp8")))
def test_flow_of_ones_own(tmp_path, index, name):
    """The recipes of docs/Layers.md that store tensors between layers work."""
    torch = pytest.importorskip("torch")
    import tandem.torch
    (tmp_path / f"my-{name}.mlir").write_text(blocks("docs/Layers.md", "mlir")[index])
    x = torch.randn(6, 32)
    mine = tandem.torch.nn.silu(x, recipe=f"my-{name}", path=(tmp_path,))
    built_in = tandem.torch.nn.silu(x, recipe=f"coat-{name}")
    assert mine.storage == built_in.storage and torch.equal(mine.decode(), built_in.decode())


def test_packages_python(tmp_path, monkeypatch):
    """Runs the examples of docs/Packages.md in sequence."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("docs/Packages.md", "python"):
        exec(block, names)


def test_sharpness_python(capsys):
    """The examples of docs/Sharpness.md, in sequence, print what the page shows."""
    pytest.importorskip("torch")
    pytest.importorskip("scipy")
    names = {}
    for block in blocks("docs/Sharpness.md", "python"):
        exec(block, names)
    (shown,) = blocks("docs/Sharpness.md", "text")
    # Older versions of SciPy have underscores in their messages.
    assert capsys.readouterr().out.replace("_", " ") == shown


def test_sharpness_table():
    """For 100 tokens, searches find what docs/Sharpness.md says."""
    pytest.importorskip("scipy")
    rows = re.findall(r"^\| (0\.\d+) \| ([\d.]+)% \| [\d.]+% \| 100% \|$",
                      (ROOT / "docs/Sharpness.md").read_text(), re.MULTILINE)
    assert [float(p) for p, _ in rows] == list(sharpness.PROBABILITIES)
    for probability, shown in rows:
        found = sharpness.found_share(float(probability), 100, scale=False)
        assert abs(100 * found - float(shown)) < 0.5, probability


def test_conversion_python():
    """The conversion shown in docs/Strategies.md works."""
    (block,) = [b for b in blocks("docs/Strategies.md", "python") if "convert_state" in b]
    exec(block, {"np": np, "tandem": tandem})


def test_readme_table():
    """README has the measured bytes and errors."""
    results = Results(load("accuracy"))
    rows = re.findall(r"^\| `(.+)`.* \| ([\d.]+) \| ([\d.e-]+) \|$",
                      (ROOT / "README.md").read_text(), re.MULTILINE)
    peers = {"torch.optim.AdamW": "torch AdamW, bf16",
             "bitsandbytes.optim.AdamW8bit": "bitsandbytes AdamW8bit, bf16"}
    assert len(rows) == 6
    for name, count, error in rows:
        name = peers.get(name, name)
        assert round(results.bytes[name], 3) == float(count), name
        assert f"{results.mean(name):.2g}" == error, name


def bytes_of(strategy, dtype, graph="adamw", shape=(64, 64)):
    """Returns the bytes that an element of a parameter takes, with its gradient."""
    import tandem.torch
    import torch
    weight = torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
    make = tandem.torch.CAME if graph == "came" else tandem.torch.AdamW
    options = {"stores_ratio": True} if "ratio" in strategy else {}
    return make([weight], strategy=strategy, **options).bytes_per_parameter


def test_migration_bytes():
    """The table of docs/Migration.md has the bytes of its strategies."""
    torch = pytest.importorskip("torch")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([\d., ]+) \|$",
                      (ROOT / "docs/Migration.md").read_text(), re.MULTILINE)
    shown = [(peer, name, count) for peer, text, counts in rows
             for name, count in zip(re.findall(r"`([\w-]+)`", text), counts.split(","))]
    assert len(shown) == 10
    for peer, name, count in shown:
        dtype = torch.float32 if "on f32 weights" in peer else torch.bfloat16
        assert round(bytes_of(name, dtype), 2) == float(count), name


def test_migration_levels():
    """The levels of FP8-LM take the bytes that docs/Migration.md names."""
    torch = pytest.importorskip("torch")
    import tandem.torch

    def take(level):
        model = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False)).bfloat16()
        return tandem.torch.fp8_lm(model, level=level, lr=1e-3).bytes_per_parameter
    assert "| `fp8_lm(model, level)` | 6 to 11 |" in (ROOT / "docs/Migration.md").read_text()
    assert [round(take(level), 2) for level in ("O1", "O2")] == [11, 6]


def test_migration_errors():
    """docs/Migration.md has the measured errors of both forms of `flash`."""
    results = Results(load("accuracy"))
    text = " ".join((ROOT / "docs/Migration.md").read_text().split())
    found = re.search(r"its weights end at ([\d.]+) of the distance moved from float64's, those of "
                      r"`flash` at ([\d.]+) ", text)
    assert found.groups() == tuple(f"{results.mean(n):.2g}" for n in ("flash-f16", "flash"))


def test_came_numbers():
    """docs/BeyondAdamW.md has CAME's bytes and launches."""
    torch = pytest.importorskip("torch")
    text = " ".join((ROOT / "docs/BeyondAdamW.md").read_text().split())
    assert "take 1.1 bytes a parameter" in text and "its step has seven launches" in text
    # The weight in bf16 and its gradient take four bytes.
    assert round(bytes_of("dither-mulaw", torch.bfloat16, "came") - 4, 1) == 1.1
    assert tandem.compile("came", "dither-mulaw").phases == 7


def test_readme_counts():
    """README has the number of strategies."""
    text = (ROOT / "README.md").read_text()
    assert f"has {len(tandem.strategies())}, and a new one" in text
    assert len(text.splitlines()) <= 150


def test_library_page():
    page = (ROOT / "docs/Library.md").read_text()
    assert page == library.page(load("following"), Results(load("accuracy"))), (
        "run benchmarks/library.py")
    for name in tandem.strategies():
        assert library.sentence(name).endswith("."), name


def test_strategies_table():
    """The table of strategies with scales lists all of them, with their bytes."""
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \|",
                      (ROOT / "docs/Strategies.md").read_text(), re.MULTILINE)
    kernels = {name: tandem.compile("adamw", name) for name in tandem.strategies()}
    assert sorted(name for name, _ in rows) == sorted(
        name for name, kernel in kernels.items()
        if any("#tandem.scaled" in storage for storage in kernel.storages.values()))
    for name, count in rows:
        assert round(kernels[name].bytes_per_parameter, 3) == float(count), name


def write_example(directory):
    """Writes the files of docs/Strategies.md."""
    graph, strategy, delayed = blocks("docs/Strategies.md", "mlir")
    (directory / "delayed.mlir").write_text(delayed)
    (directory / "sgd_averaged.mlir").write_text(graph)
    (directory / "averaged.mlir").write_text(strategy)
    return directory / "sgd_averaged.mlir"


def test_example_agrees_with_the_interpreter(tmp_path):
    graph = write_example(tmp_path)
    kernel = tandem.compile(graph, "averaged", path=[tmp_path])
    draw = np.random.default_rng(1)
    planes = {plane.name: (draw.standard_normal(1000).astype(np.float32)
                           .view(np.uint32) >> 16).astype(np.uint16)
              for plane in kernel.planes}
    for name in ("param.lo", "average.lo"):
        planes[name][:] = 0
    expected = {name: plane.copy() for name, plane in planes.items()}
    for step in range(1, 4):
        kernel(planes, lr=1e-3)
        tandem.interpret(graph, "averaged", expected, {"lr": 1e-3, "decay": 0.999},
                         path=[tmp_path], step=step)
    for name, plane in planes.items():
        np.testing.assert_array_equal(plane, expected[name], err_msg=name)
    assert planes["average.lo"].any()


def test_example_signature(tmp_path):
    """The signature in docs/Strategies.md is the kernel's."""
    graph = write_example(tmp_path)
    signature = tandem.compile(graph, "averaged", path=[tmp_path]).signature
    shown = (ROOT / "docs/Strategies.md").read_text()
    assert "\n".join(signature.split("\n")[1:]) in shown


def test_kernel_by_hand(tmp_path, monkeypatch):
    """docs/MCF.md's kernel computes x + y + y with the two calls shown there."""
    (tmp_path / "sum.mlir").write_text(blocks("docs/MCF.md", "mlir")[0])
    monkeypatch.chdir(tmp_path)
    names = {"x": 0x3F80, "x_lo": 0x3A80, "y": 0x3F80, "y_lo": 0x0000}
    planes = {name: np.full(3, bits, np.uint16) for name, bits in names.items()}
    exec(blocks("docs/MCF.md", "python")[0], {"tandem": tandem} | planes)
    assert planes["x"].tolist() == [0x4040] * 3
    assert planes["x_lo"].tolist() == [0x3A80] * 3


@pytest.mark.parametrize("graph", tandem.graphs())
def test_example_strategies_with_the_library(graph, tmp_path):
    write_example(tmp_path)
    tandem.compile(graph, "averaged", path=[tmp_path])
    plain = tandem.compile(graph, "master-weights")
    # Delayed scaling needs no separate phase, except for matrices, whose rows are reduced in a
    # phase before they are combined. The momentum of CAME exists phases before its weight.
    own = 2 if graph == "came" else int(plain.is_matrix)
    assert tandem.compile(graph, "delayed", path=[tmp_path]).phases == plain.phases + own


#===----------------------------------------------------------------------===#
# Links
#===----------------------------------------------------------------------===#


def anchors(page):
    """Returns the anchors of a page's headings as GitHub generates them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target
