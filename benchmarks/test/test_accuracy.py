#===- test_accuracy.py - Distances from float64 ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the models of other projects in the accuracy measurement follow their
# projects, and that its page has the measured results.
#
#===----------------------------------------------------------------------===#

import itertools
import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/accuracy"), str(ROOT / "benchmarks")]
import accuracy  # noqa: E402
import accuracy_page  # noqa: E402
import projects as peers  # noqa: E402
from common import load  # noqa: E402
from streams import SIZE, STREAMS, Stream, drawn  # noqa: E402


@pytest.fixture(scope="module")
def results():
    return load("accuracy")


@pytest.fixture(scope="module")
def known():
    with accuracy.kernels() as found:
        yield found


def first_steps(steps: int) -> list[np.ndarray]:
    """Returns the first gradients of the stationary stream."""
    return list(itertools.islice(STREAMS["stationary"].make(0)[1], steps))


#===------------------------------------------------------------------------===#
# Streams
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_follows_from_its_seed(name):
    """A stream does not depend on other random numbers that are drawn meanwhile."""
    torch.manual_seed(1)
    start, first = STREAMS[name].make(3)
    again, second = STREAMS[name].make(3)
    assert np.array_equal(start, again) and start.shape == (SIZE,)
    for _ in range(3):
        one = next(first)
        torch.rand(5)
        assert np.array_equal(one, next(second))
        assert np.array_equal(one, torch.from_numpy(one).bfloat16().float().numpy())
    assert not np.array_equal(one, next(first))


def test_sparse_rows_have_neighbours():
    source = STREAMS["sparse"].make(0)[1]
    gradients = np.stack([next(source) for _ in range(50)]) != 0
    assert gradients[:, ::32].mean() > 0.99
    often = gradients[:, 1::32].mean(0)
    assert often.min() < 0.1 and often.max() > 0.3 and often.mean() < 0.3


#===------------------------------------------------------------------------===#
# Contenders
#===------------------------------------------------------------------------===#


def test_float64_is_adamw():
    start = np.linspace(-1, 1, 64, dtype=np.float32)
    wide = torch.nn.Parameter(torch.from_numpy(start).double())
    adamw = torch.optim.AdamW([wide], accuracy.LR, (accuracy.BETA1, 0.99), accuracy.EPS,
                              weight_decay=0.0)
    exact = accuracy.Exact(start, 0.99)
    for gradient in first_steps(5):
        exact.step(accuracy.Gradient(gradient[:64]))
        wide.grad = torch.from_numpy(gradient[:64]).double()
        adamw.step()
    np.testing.assert_allclose(exact.param, wide.detach().numpy(), rtol=1e-12)
    moved = exact.param - exact.start
    assert exact.error(exact.start) == pytest.approx(1)
    assert exact.error(exact.param + 0.1 * moved) == pytest.approx(0.1)
    assert exact.error(np.full(64, np.nan)) is None


@pytest.mark.parametrize("peer, strategy", [
    ("FlashOptim, f32 weights", "flash, f32 weights, nearest"),
    ("MS-AMP, f32 weights", "fp8-lm, f32 weights, nearest"),
    ("MS-AMP", "fp8-lm"), ("Collage plus, mended", "collage-plus"),
    ("COAT, f32 weights", "coat, f32 weights, nearest")])
def test_models_are_near_strategies(peer, strategy, known):
    """Optimizers of the same storage end about as far off; none is broken."""
    names = [peer, strategy]
    errors = accuracy.measure(STREAMS["stationary"], 0, names, known, (20,), (0.95,))
    one, other = (errors[name]["0.95"]["20"] for name in names)
    assert one == pytest.approx(other, rel=0.5)


def test_coat_skips_zeros_that_arrive():
    """A zero in a warp's first lane is the minimum, one elsewhere is skipped."""
    model = peers.Coat(np.zeros(128, np.float32), 0.95)
    values = torch.arange(1.0, 129.0)
    assert model.least(values).item() == 1
    values[5] = 0
    assert model.least(values).item() == 1
    values[0] = 0
    assert model.least(values).item() == 0


def test_as_released_collage_loses_second_moments():
    """When the product overwrites its operand, about a third of v remains."""
    ends = {}
    for mended in (False, True):
        model = peers.CollagePlus(np.zeros(64, np.float32), 0.95, mended)
        for gradient in first_steps(300):
            model.step(gradient[:64].copy())
        ends[mended] = model.v.float().mean().item()
    assert ends[False] / ends[True] == pytest.approx(0.35, abs=0.1)


@pytest.mark.parametrize("rounding, expected", [
    ("nearest", "#tandem.scaled<#scaled.root, group = 32, scale = f32>"),
    ("stochastic", "#tandem.scaled<#scaled.root<stochastic>, group = 32, scale = f32>")])
def test_other_roundings(rounding, expected):
    storage = "#tandem.scaled<#scaled.root<dither>, group = 32, scale = f32>"
    assert accuracy.rounded_as(storage, rounding) == expected


def test_an_unknown_contender(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["accuracy.py", "fp23"])
    with pytest.raises(SystemExit, match="there is no 'fp23'; choose from"):
        accuracy.main()


def test_an_interrupted_run_continues(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(STREAMS, "stationary", Stream("Stationary", (2,), drawn("steady")))
    arguments = ["accuracy.py", "--streams", "stationary", "--results", str(tmp_path), "--quick"]
    for names, expected in ((["fp32"], "1 measured"), (["fp32", "bf16"], "1 measured"),
                            (["bf16"], "0 measured")):
        monkeypatch.setattr(sys, "argv", [*arguments, *names])
        accuracy.main()
        assert expected in capsys.readouterr().out
    cells = load("accuracy_quick", tmp_path)["cells"]["stationary"]["0"]
    assert set(cells) == {"fp32", "bf16"}


#===------------------------------------------------------------------------===#
# Results
#===------------------------------------------------------------------------===#


def test_everyone_is_measured(results):
    expected = {*accuracy.library(), *accuracy.derived(), *peers.PEERS}
    for stream, seeds in results["cells"].items():
        assert len(seeds) == accuracy.SEEDS
        for seed, cells in seeds.items():
            assert expected <= set(cells), f"{stream}, seed {seed}: run scripts/accuracy.sh"


@pytest.mark.parametrize("name", ["adam8bit", "flash, f32 weights", "bf16-dither"])
def test_what_was_measured_is_what_happens(name, results, known):
    """Measuring 300 steps of one seed again gives the committed errors."""
    errors = accuracy.measure(STREAMS["stationary"], 0, [name], known, (300,), (0.95,))
    recorded = results["cells"]["stationary"]["0"][name]["0.95"]["300"]
    assert errors[name]["0.95"]["300"] == pytest.approx(recorded, rel=1e-6)


def test_page_is_up_to_date(results):
    assert (ROOT / "docs/Accuracy.md").read_text() == accuracy_page.page(results), (
        "run benchmarks/accuracy/accuracy_page.py")
