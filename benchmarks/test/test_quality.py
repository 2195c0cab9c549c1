#===- test_quality.py - Measurements of quality ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/quality on small inputs.
#
#===----------------------------------------------------------------------===#

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tandem

pytest.importorskip("matplotlib")
ml_dtypes = pytest.importorskip("ml_dtypes")

ROOT = Path(__file__).resolve().parents[2]
QUALITY = ROOT / "benchmarks/quality"
RESULTS = ROOT / "benchmarks/results"
sys.path.append(str(QUALITY))

import averages  # noqa: E402
import beyond_adamw  # noqa: E402
import muon  # noqa: E402
import exact_expansion  # noqa: E402
import gradient_sum  # noqa: E402
import moments  # noqa: E402
import page  # noqa: E402
import representation  # noqa: E402
import trainings  # noqa: E402
from round_trip import encode, expanded, round_trip, scaled  # noqa: E402

#===----------------------------------------------------------------------===#
# Storages
#===----------------------------------------------------------------------===#


def draw(count, seed=0):
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@pytest.mark.parametrize("storage, dtype", (
    ("#tandem.float<bf16>", ml_dtypes.bfloat16),
    (gradient_sum.E4M3, ml_dtypes.float8_e4m3fn)))
def test_round_trip(storage, dtype):
    values = draw(1000)
    np.testing.assert_array_equal(round_trip(storage, values),
                                  values.astype(dtype).astype(np.float32))


def test_all_storages_of_a_table_differ():
    """No two rows measure the same storage."""
    for table in (representation.WEIGHTS, representation.MOMENTS, moments.FIRST,
                  moments.SECOND):
        assert len(set(table.values())) == len(table)

#===----------------------------------------------------------------------===#
# Moments
#===----------------------------------------------------------------------===#


def make_moments(sizes=(300, 1000)):
    first = [draw(n, n) * np.float32(1e-3) for n in sizes]
    second = [np.square(draw(n, n + 1)) * np.float32(1e-6) for n in sizes]
    return moments.Moments(first, second)


def test_error_of_what_is_lost():
    """A v that becomes zero is counted separately; a v that was zero is not lost."""
    ours = moments.Moments([np.float32([1, 2, 0])], [np.float32([4, 1, 0])])
    first, second = np.float32([1.5, 2, 0]), np.float32([4, 0, 0])
    error = ours.error(first, second)
    assert error["lost"] == pytest.approx(1 / 3)
    assert error["mse_kept"] == pytest.approx(0.25**2 / 2, rel=1e-6)
    assert error["mse"] == pytest.approx((2 / moments.EPS) ** 2 / 3, rel=1e-3)


def test_pairs():
    """Every pair is measured separately, with m and v in their own storages."""
    ours = make_moments()
    first = {name: moments.FIRST[name] for name in ("E4M3", "bf16")}
    second = {name: moments.SECOND[name] for name in ("E5M2", "bf16")}
    errors = moments.compare(ours, first, second)
    for m, row in errors.items():
        for v, error in row.items():
            stored = [np.concatenate([round_trip(s, x) for x in tensors]).astype(float)
                      for s, tensors in ((first[m], ours.first), (second[v], ours.second))]
            expected = stored[0] / (np.sqrt(stored[1]) + moments.EPS)
            assert error["mse"] == pytest.approx(np.mean((expected - ours.update) ** 2))
    assert errors["E4M3"]["E5M2"]["mse"] > errors["bf16"]["bf16"]["mse"]


def test_steps_of_k(monkeypatch):
    monkeypatch.setattr(moments.Steps, "GRID", 12)
    values, ratio = [draw(300), np.zeros(5, np.float32)], 28672.0
    steps = moments.Steps(values, ratio)
    storage = scaled(expanded("f8E4M3FN", ratio))
    fine = np.concatenate([round_trip(storage, x) for x in values])
    np.testing.assert_array_equal(steps.with_step(1), fine)
    exponents = encode(storage, values[0])["x.exponent"]
    assert exponents.min() > 8 and (exponents % 8).any()  # else nothing is tested
    # Multiples of 8 reduce to k = 1, which a range of 2 gives all but constant groups.
    assert (exponents < 16).all()
    whole = scaled(expanded("f8E4M3FN", 2.0))
    coarse = np.concatenate([round_trip(whole, x) for x in values])
    np.testing.assert_array_equal(steps.with_step(8), coarse)


def test_measure_of_moments(monkeypatch):
    """All comparisons run, and have an entry for each of their rows."""
    monkeypatch.setattr(moments.Steps, "GRID", 4)
    monkeypatch.setattr(moments, "RANGES", (448.0, 28672.0, 229376.0))
    monkeypatch.setattr(moments, "DYNAMIC_RANGES", (100.0, moments.DYNAMIC_RANGE))
    result = moments.measure(make_moments((400,)))
    assert list(result["pairs"]) == list(moments.FIRST)
    assert all(list(row) == list(moments.SECOND) for row in result["pairs"].values())
    assert "but" not in page.millionths(result["pairs"]["bf16"]["bf16"])
    assert list(result["k"]["errors"]) == [str(step) for step in moments.K_STEPS]
    text = page.moments_text(result | {"steps": 1, "parameters": 400,
                                       "machine": MACHINE})
    assert "**Step of k.**" in text

#===----------------------------------------------------------------------===#
# Representation
#===----------------------------------------------------------------------===#

MACHINE = {"date": "2026-01-01", "commit": "0" * 40, "changed_files": 0}


def test_bits():
    one = np.ones(4, np.float32)
    assert representation.bits(one, one) is None
    assert representation.bits(one, one * np.float32(1.25)) == pytest.approx(2)
    assert representation.bits(one, one * 0) == 0
    assert representation.bits(one, one * np.float32(np.inf)) == -math.inf
    assert [page.bits_text(b) for b in (None, -math.inf, -0.0, 3.14)] == [
        "exact", "inf", "0.0", "3.1"]


def test_representation():
    result = representation.measure(1024)
    weights, exponents = result["weights"], result["exponents"]
    assert set(weights["bf16 + remainder"]) == {None}
    for exponent in (-100, 0, 100):
        place = exponents.index(exponent)
        # The error is uniform within half a unit of 2^-7, or 2^-8 / sqrt(3) relative to the power
        # of two below the value, and less relative to the value.
        assert 8.8 < weights["bf16"][place] < 9.8
        assert weights["bf16 x 2"][place] > weights["bf16 + i8 residual"][place]
    assert weights["f16"][exponents.index(16)] == -math.inf
    spans = result["moments"]
    assert spans["E4M3 expanded, R = 28672"][2] > spans["E4M3"][2] + 2
    # Beyond its range, an expansion has k = 1.
    assert spans["E4M3 expanded, R = 28672"][40] == pytest.approx(
        spans["E4M3"][40], rel=1e-3)

#===----------------------------------------------------------------------===#
# Sums of gradients
#===----------------------------------------------------------------------===#


def make_gradients(*ranks):
    return gradient_sum.Gradients([[np.float32(rank)] for rank in ranks])


def test_scales_are_shared():
    gradients = gradient_sum.Gradients([[np.float32([448]), np.float32([1])],
                                        [np.float32([449]), np.float32([1])]])
    assert gradients.scales.tolist() == [[1, 2**-8], [2, 2**-8]]


def test_post_scaling_overflows():
    """448 + 448 = 896 saturates at 448."""
    gradients = make_gradients([448, 1], [448, 1])
    post = gradient_sum.reduce(gradients, 2, 1.0)
    assert post["overflow"] == 0.5 and post["underflow"] == 0
    assert post["snr"] == pytest.approx(10 * math.log10((448**2 + 1) / 224**2))
    assert post["snr_wide"] == math.inf


def test_pre_scaling_underflows():
    """Half of the smallest number rounds to zero, by ties to even."""
    gradients = make_gradients([416, 2**-9], [416, 2**-9])
    pre, post = (gradient_sum.reduce(gradients, 2, mu) for mu in (0.5, 1.0))
    assert pre["underflow"] == 0.5 and pre["overflow"] == 0
    assert post["underflow"] == 0


def test_partial_sums_are_rounded():
    """256 + 8 + 8 is 256 if partial sums round to E4M3, and 272 without rounding."""
    gradients = make_gradients([256], [8], [8])
    found = gradient_sum.reduce(gradients, 3, 1.0)
    assert found["snr"] == pytest.approx(10 * math.log10((272 / 16) ** 2))
    assert found["snr_wide"] > 300


def test_automatic_scaling():
    automatic, gradients = gradient_sum.Automatic(), make_gradients(*[[400, 1]] * 4)
    seen = [automatic.reduce(gradients, 4)["mu"] for _ in range(5)]
    growth = gradient_sum.GROWTH
    assert seen == pytest.approx([1, 0.5, 0.25, 0.25 * growth, 0.25 * growth**2])


def test_measure_of_gradients():
    """Only the last steps count, but automatic scaling runs over all."""
    steps = [make_gradients([400, 1], [400, 1])] * 3
    schemes = gradient_sum.measure(iter(steps), 3, [2], 1)
    assert schemes["post-scaling"]["2"]["mu"] == 1
    assert schemes["automatic"]["2"]["mu"] == pytest.approx(0.5 * gradient_sum.GROWTH)

#===----------------------------------------------------------------------===#
# Accumulated errors
#===----------------------------------------------------------------------===#


def test_accumulated(tmp_path):
    """Storages are compared one at a time, strategies as a whole; refused ones are left out."""
    write_candidate(tmp_path, "same")
    write_candidate(tmp_path, "low", "#tandem.float<bf16>")
    found = json.loads(run_python("-c", """if True:
        import accumulated, contextlib, dataclasses, json, sys
        folder = sys.argv[1]
        setting = dataclasses.replace(accumulated.config(True, 12, 3), stream_steps=12)
        with contextlib.redirect_stdout(sys.stderr):
            recorded = [accumulated.Recorded(accumulated.load_corpus(), setting)]
            some = {tensor: dict(list(storages.items())[:2])
                    for tensor, storages in accumulated.TENSORS.items()}
            storages = accumulated.compare_storages(recorded, some)
            whole = accumulated.compare_strategies(
                recorded, ["fp32", "same", "low", "f16"],
                [folder, str(accumulated.FOLDER)])
        print(json.dumps([storages, whole]))""", tmp_path))
    storages, whole = found
    assert list(whole) == ["fp32", "same", "low"]
    assert whole["same"] == whole["fp32"]
    # The first storage for weights is bf16.
    assert storages["weight"]["bf16"] == whole["low"]
    for errors in zip(*(whole[name]["errors"].values() for name in ("fp32", "low"))):
        for part in ("table", "matrices"):
            wide, low = (one[part] for one in errors)
            assert len(wide) == 1 and wide[0] < 1e-3 and low[0] > 0.1
        assert 0 < errors[1]["along"][0] < 0.9 < errors[0]["along"][0] < 1.1
    assert [len(of) for of in storages.values()] == [2, 2, 2, 2]
    assert storages["gradient"]["E4M3, 128"]["bytes_per_parameter"] == pytest.approx(
        13 + 2 / 128)

#===----------------------------------------------------------------------===#
# Training
#===----------------------------------------------------------------------===#

CELLS = ["--quick", "--steps", "10", "--seeds", "0", "--lrs", "1e-3"]
TWO = [*CELLS, "--strategies", "fp32,fp8-collage-plus"]


def run_python(*arguments):
    """Runs a separate process, since both the demo and the tests have a module `model`."""
    pytest.importorskip("torch")
    paths = [str(QUALITY), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1",
             "PYTHONPATH": os.pathsep.join(paths)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_cells(folder, *calls):
    """Runs runs.py in sequence with each of these lists of arguments."""
    calls = [c if isinstance(c, dict) else {"arguments": c} for c in calls]
    return json.loads(run_python(ROOT / "test/Python/support/run_cells.py",
                                 json.dumps(calls), folder))


def test_runs_resume(tmp_path):
    spent, died, again, all_done, other = run_cells(
        tmp_path, [*TWO, "--budget", "0"],
        {"arguments": TWO, "dies_in": "fp8-collage-plus"}, TWO, TWO,
        [*TWO, "--steps", "11"])
    assert spent["status"] == 0 and "2 cells are left" in spent["out"]
    assert spent["left"] is None
    # A run that dies in its second cell keeps the first one.
    assert died["status"] == "died"
    cells = died["left"]["cells"]
    assert list(cells) == ["fp32"] and cells["fp32"]["0.001"]["0"]["train_loss"] > 0
    assert again["status"] == 0
    assert "[2/2] seed 0" in again["out"] and "[1/2]" not in again["out"]
    both = again["left"]["cells"]
    assert both["fp32"] == cells["fp32"]
    assert both["fp8-collage-plus"]["0.001"]["0"]["bytes_per_parameter"] < 7
    assert "all 2 cells are done" in all_done["out"]
    assert all_done["left"]["cells"] == both
    # Cells with other settings are not mixed with these.
    assert other["status"] == 1 and "--results" in other["out"]
    assert other["left"] == all_done["left"]


def test_runs_refusals(tmp_path):
    """A candidate in f16 cannot represent the demo's eps. The others run, and the page gives the
    reason."""
    refused, *bad = run_cells(
        tmp_path, [*CELLS, "--strategies", "f16,fp32"], ["--strategies", "fp23"],
        ["--steps", "3"], ["--lrs", "fast"], ["--threads", "0"])
    assert refused["status"] == 0 and list(refused["left"]["cells"]) == ["fp32"]
    assert "eps" in refused["left"]["refused"]["f16"]
    assert "- `f16`: " in page.page(tmp_path)
    assert [one["status"] for one in bad] == [2, 2, 2, 2]
    for one, word in zip(bad, ("there is no fp23", "at least 10", "--lrs", "at least 1 thread")):
        assert word in one["out"]


def write_candidate(folder, name="candidate", param="#tandem.float<f32>"):
    (folder / f"{name}.mlir").write_text(f"""
tandem.strategy @{name} compute(<f32, f32>) {{
  tandem.assign param = {param}
  tandem.assign grad = #tandem.float<f32>
  tandem.assign state = #tandem.float<f32>
}}""")


def test_sizes_have_defaults(tmp_path):
    """Larger models train under fewer strategies, and each name is a strategy's."""
    done = run_python("-c", "import runs\nfor size in runs.SIZES:\n"
                      "    one = runs.parse(['--size', size])\n"
                      "    print(size, len(one.strategies), len(one.seeds), len(one.lrs))\n"
                      "    for name in one.strategies: runs.check_strategy(name, one.path)")
    assert done.split("\n")[:-1] == [
        f"64k {len(tandem.strategies()) + 5} 3 3", "246k 13 3 3", "1M 7 3 1", "3M 8 1 1"]


def test_runs_of_candidates(tmp_path):
    """Strategies in a folder run in addition to the library's."""
    (tmp_path / "candidates").mkdir()
    write_candidate(tmp_path / "candidates", "ours")
    path = ["--path", str(tmp_path / "candidates")]
    found, unknown = run_cells(
        tmp_path, [*CELLS, *path, "--strategies", "fp32,ours"],
        [*CELLS, "--strategies", "ours"])
    cells = found["left"]["cells"]
    assert cells["ours"]["0.001"]["0"]["train_loss"] == (
        cells["fp32"]["0.001"]["0"]["train_loss"])
    assert unknown["status"] == 2 and "there is no ours" in unknown["out"]


def cell(loss):
    return {"validation_loss": loss, "lost_share": 0.0, "bytes_per_parameter": 6.0}


CELLS_OF = {
    "fp32": {"0.001": {"0": cell(2.0), "1": cell(3.0)}, "0.002": {"0": cell(1.0)}},
    "coat": {"0.001": {"0": cell(2.1), "1": cell(3.3)}, "0.002": {"0": cell(1.2)}},
    "bf16": {"0.001": {"0": cell(None), "1": cell(3.3)}},
    "flash": {"0.001": {"1": cell(2.5)}}}


def result_of(cells):
    return {"machine": MACHINE, "cells": cells, "refused": {},
            "setting": {"steps": 5, "size": "64k", "torch": "2"}}


def test_training_text():
    """Gaps are relative to fp32 with the same seed and learning rate, and their deviation is that of
    the seeds' means over the rates."""
    cells = {name: dict(by_lr) for name, by_lr in CELLS_OF.items()}
    text = trainings.appendix({"64k": result_of(cells)})
    assert "### With 64 thousand parameters" in text
    assert ("| coat | 6 | 3 | 1.2000 | +0.2000 ± 0.1414 | +0.2000 | +0.2250 ± 0.1061 "
            "| 0.0 % |") in text
    assert "| bf16 | 6 | 2 |  | diverged |  | diverged | 0.0 % |" in text
    assert "| flash | 6 | 1 |  | -0.5000 |  | -0.5000 | 0.0 % |" in text
    assert "| fp32 | 6 | 3 | 1.0000 | +0.0000 ± 0.0000 |" in text
    # Among strategies with equal bytes, the best is first and diverged ones are last.
    places = [text.index(f"| {name} |") for name in ("flash", "fp32", "coat", "bf16")]
    assert places == sorted(places)


def test_sizes_text():
    """Rows are the strategies of the larger sizes, and columns the sizes."""
    large = {"fp32": {"0.001": {"0": cell(1.0)}}, "bf16": {"0.001": {"0": cell(1.5)}}}
    cells = CELLS_OF | {"master-weights": {"0.001": {"0": cell(2.01), "1": cell(2.99)}}}
    text = trainings.text({"64k": result_of(cells), "3M": result_of(large)})
    assert "| bf16 | 6 | diverged | +0.5000 | 0.0 % |" in text
    assert "| coat |" not in text and "off fp32 by +0.0000 ± 0.0141" in text
    assert "- **3.2 million parameters:** 5 steps, peak learning rate 0.001, 1 seed," in text
    assert "Not measured yet" in trainings.text({})


def test_summary():
    """The narrowest strategy near fp32 is neither one that loses nor one that is lower by chance of
    longer steps."""
    def both(first, second, size):
        return {"0.001": {"0": cell(first) | {"bytes_per_parameter": size},
                          "1": cell(second) | {"bytes_per_parameter": size}}}

    cells = {"fp32": both(2.0, 3.0, 16), "bf16": both(2.2, 3.2, 8), "flash": both(2.01, 2.99, 7),
             "coat": both(1.9, 2.9, 6)}
    assert trainings.cheapest_without_loss(cells)[:2] == ("flash", 7)
    text = trainings.summary({"64k": result_of(cells)})
    assert text.count("\n- ") == 4 and "ends above f32's by +0.2000 ± 0.0000 with 64" in text


def test_brief_runs_are_shown_without_others(tmp_path):
    for name in ("quality_quick", "quality_64k"):
        assert set(trainings.load_all(tmp_path)) == (set() if name == "quality_quick" else {"64k"})
        (tmp_path / f"{name}.json").write_text(json.dumps(result_of(CELLS_OF) | {"name": name}))
    assert trainings.load_all(tmp_path)["64k"]["name"] == "quality_64k"


def test_choice_text():
    """The text names our strategies and others of as many bytes, with the measures of all."""
    one = {"errors": {"0.999": {"table": [0.5, 0.7], "matrices": [0.25, 0.25],
                                "along": [1.0, 1.0]}}}
    cells = {name: {"0.001": {"0": cell(loss)}} for name, loss in
             (("fp32", 1.0), ("residual-softsign-root", 1.25), ("coat-bf16", None))}
    text = trainings.choice_text({"strategies": {"residual-softsign-root": one, "coat-bf16": one,
                                                 "adam8bit": one}}, {"64k": {"cells": cells}})
    assert "- **6 bytes:** `residual-softsign-root` (0.6, 0.25, +0.2500), against " in text
    assert "`adam8bit` (0.6, 0.25, not trained), `coat-bf16` (0.6, 0.25, diverged)." in text
    assert "**5 bytes:**" not in text
    assert trainings.choice_text(None, {"64k": {"cells": cells}}) == ""

#===----------------------------------------------------------------------===#
# Memory
#===----------------------------------------------------------------------===#

LIVE_BYTES = json.loads((RESULTS / "live_bytes.json").read_text())["strategies"]


def test_live_bytes_are_of_all_strategies():
    assert list(LIVE_BYTES) == sorted(tandem.strategies())


@pytest.mark.parametrize("strategy", LIVE_BYTES)
def test_live_bytes(strategy):
    """The page has what is measured now, which equals the derived bytes plus per-tensor data."""
    pytest.importorskip("torch")
    import live_bytes
    now = live_bytes.measure([strategy])[strategy]
    assert now == LIVE_BYTES[strategy], "run benchmarks/quality/live_bytes.py"
    kept, released = now["kept"], now["released"]
    total = kept["weights"] + kept["gradients"] + kept["states"]
    assert total == pytest.approx(kept["derived"], abs=1e-3)
    assert released["measured"] == pytest.approx(released["derived"], abs=1e-3)

#===----------------------------------------------------------------------===#
# Expansion without roundings
#===----------------------------------------------------------------------===#


def test_exact_exponents():
    """The exponent is the largest j with ratio^j <= R^8, also at thresholds that f64 cannot
    resolve."""
    ratio = np.float32([1, 2, 2.0000002, 1.9999999, 4, 229376, 229392, np.inf])
    want = [128, 128, 127, 128, 64, 8, 8, 8]
    assert exact_expansion.exact_exponents(ratio, 2.0**16).tolist() == [128, 128, 127, 128, 64,
                                                                        8, 8, 8]
    assert exact_expansion.exact_exponents(ratio[5:], 229376.0).tolist() == want[5:]


def test_exact_codes():
    """Codes are the nearest, with ties to even; for k = 1 they are those of the value itself."""
    y = np.float32([0, 2.0**-20, 1, 0.5, 232 / 448, 216 / 448])
    codes = exact_expansion.exact_codes(y, np.full(len(y), 8))
    numbers = ml_dtypes.float8_e4m3fn
    assert codes.tolist() == (448 * y.astype(np.float64)).astype(numbers).view(np.uint8).tolist()
    assert exact_expansion.exact_codes(np.float32([0.25]), np.array([16])).tolist() == [
        int(np.array(28, numbers).view(np.uint8))]


def test_exact_expansion_is_near():
    """Kernels follow the exact rule, except where rounding decides."""
    parts = exact_expansion.synthetic(300)
    for part in parts.values():
        assert np.abs(part.flips).max() <= 1
        one = exact_expansion.summary([part])
        assert one["codes"] < 1e-4
        assert one["error"] == pytest.approx(one["exact_error"], rel=1e-4)


def test_rationale_has_the_figures():
    """docs/Rationale.md has the figures of the committed result."""
    result = json.loads((RESULTS / "exact_expansion.json").read_text())
    text = " ".join((ROOT / "docs/Rationale.md").read_text().split())
    assert exact_expansion.sentence(result) in text, "run benchmarks/quality/exact_expansion.py"

#===----------------------------------------------------------------------===#
# The page
#===----------------------------------------------------------------------===#


def test_page_is_up_to_date():
    assert (ROOT / "docs/Quality.md").read_text() == page.page(RESULTS), \
        "run benchmarks/quality/page.py"


def test_script(tmp_path):
    """scripts/quality.sh keeps existing results, trains, and writes the page."""
    pytest.importorskip("torch")
    for name in ("moments", "representation", "accumulated", "gradient_sum", "live_bytes"):
        shutil.copy(RESULTS / f"{name}.json", tmp_path)
    done = subprocess.run(
        [ROOT / "scripts/quality.sh", *CELLS, "--strategies", "fp32", "--results",
         tmp_path], capture_output=True, text=True,
        env={**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": done, ") == 5
    text = (tmp_path / "Quality.md").read_text()
    assert text.startswith((ROOT / "docs/Quality.md").read_text()[:300])
    assert "| fp32 | 16 | 1 |" in text
    assert len(list((tmp_path / "images").glob("*.png"))) == 4


#===------------------------------------------------------------------------===#
# Averages of weights
#===------------------------------------------------------------------------===#


def test_table_of_averages():
    found = json.loads((averages.RESULTS / "averages.json").read_text())
    assert averages.render(found) == averages.PAGE.read_text(), "run averages.py --page"
    for cells in found["losses"].values():
        assert len(cells) == 3 and all(cell["ema_decay"] < cell["weights"] for cell in cells)


def test_a_short_training_has_averages(tmp_path):
    subprocess.run([sys.executable, QUALITY / "averages.py", "--steps", "12", "--seeds", "1",
                    "--strategies", "dither-mulaw", "--results", tmp_path], check=True)
    (losses,) = json.loads((tmp_path / "averages.json").read_text())["losses"]["dither-mulaw"]
    assert set(losses) == {"weights", "AveragedModel", "ema_decay"}
    assert len(set(losses.values())) == 3


#===------------------------------------------------------------------------===#
# Muon
#===------------------------------------------------------------------------===#


def test_tables_of_muon():
    """Weights of 24 bits and momentum of 8 follow; those of bf16 to nearest do not."""
    found = json.loads((muon.RESULTS / "muon.json").read_text())
    assert muon.render(found) == muon.PAGE.read_text(), "run benchmarks/quality/muon.py --page"
    errors = {name: max(of["errors"]) for name, of in found["errors"].items()}
    assert max(errors["flash-f16"], errors["residual-mulaw"], errors["dither-softsign-root"]) < 0.05
    assert errors[muon.PEER] > 5 * errors["dither-mulaw"]


def test_a_short_training_with_muon(tmp_path):
    strategies = ("fp32", "dither-mulaw", muon.PEER)
    subprocess.run([sys.executable, QUALITY / "muon.py", "--quick", "--steps", "12", "--seeds", "1",
                    "--strategies", *strategies, "--results", tmp_path], check=True)
    found = json.loads((tmp_path / "muon.json").read_text())
    assert found["errors"]["fp32"]["errors"][0] < 0.02
    assert len({losses[0] for losses in found["losses"].values()}) == 3


#===------------------------------------------------------------------------===#
# Optimizers beyond AdamW
#===------------------------------------------------------------------------===#


def test_tables_beyond_adamw():
    """States of 8 bits end where f32's do, and bfloat16 to nearest does not."""
    found = beyond_adamw.results()
    for path, text in beyond_adamw.render(found).items():
        assert text == path.read_text(), "run benchmarks/quality/beyond_adamw.py --page"
    for optimizer, of in found.items():
        errors = {name: cell["error"] for name, cell in of["errors"].items()}
        assert max(errors["flash-f16"], errors["dither-mulaw"]) < 0.1 < errors[beyond_adamw.PEER]
        losses = {name: statistics.fmean(cells) for name, cells in of["losses"].items()}
        if not beyond_adamw.STUDIED[optimizer].learns:
            assert min(losses.values()) > 2.9
            continue
        assert max(losses[name] for name in beyond_adamw.TRAINED) < losses["fp32"] + 0.01
        above = {name: loss - losses["fp32"] for name, loss in losses.items()}
        # Steps of Shampoo are long enough for bf16 at the rate at which it learns best.
        assert optimizer == "Shampoo" or above[beyond_adamw.PEER] > 2 * max(
            above[name] for name in beyond_adamw.TRAINED)


def test_a_short_training_beyond_adamw(tmp_path):
    pytest.importorskip("schedulefree")
    names = ["AdamWScheduleFree", "AdamMini"]
    subprocess.run([sys.executable, QUALITY / "beyond_adamw.py", *names, "--quick", "--steps", "12",
                    "--seeds", "1", "--results", tmp_path], check=True)
    found = beyond_adamw.results(tmp_path)
    assert list(found) == names
    for of in found.values():
        assert of["errors"]["fp32"]["error"] < 1e-3
        assert len({losses[0] for losses in of["losses"].values()}) == 3
