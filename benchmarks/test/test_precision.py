#===- test_precision.py - The studies of papers ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the studies at toy size, the check of the paper's orderings, and that the page has
# the measured results.
#
#===----------------------------------------------------------------------===#

import copy
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/precision"), str(ROOT / "benchmarks")]

import checks  # noqa: E402
import landscape  # noqa: E402
import overhead  # noqa: E402
import papers_answers  # noqa: E402
import papers_page  # noqa: E402
import runs  # noqa: E402
import studies  # noqa: E402
import training  # noqa: E402
from llama import Shape, make_model  # noqa: E402
from reasons import CAVEATS, REASONS  # noqa: E402
from studies import STUDIES  # noqa: E402

import tandem.torch  # noqa: E402

TINY = Shape(width=16, layers=1, heads=2, context=16)


@pytest.fixture(scope="module")
def corpus():
    return training.load_corpus()


@pytest.fixture(autouse=True)
def one_thread(corpus, monkeypatch):
    """Shares the text among tests, and restores PyTorch's number of threads."""
    monkeypatch.setattr(runs, "load_corpus", lambda: corpus)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny_run(corpus, steps=12, lr=4e-3, **options):
    return training.Run(training.Setting(TINY, 2, steps, lr, warmup=2), corpus, **options)

#===----------------------------------------------------------------------===#
# The model and its training
#===----------------------------------------------------------------------===#


def test_model_is_causal():
    model = make_model(11, Shape(16, 2, 2, 8), seed=0)
    tokens = torch.arange(8)[None]
    before = model(tokens)
    tokens[0, 5] = 10
    after = model(tokens)
    assert before.shape == (1, 8, 11)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_positions_are_relative():
    """Scores of rotated queries and keys depend only on their distance."""
    from llama import rotate, rotations
    cosines, sines = rotations(Shape(16, 1, 2, 8))
    x = torch.randn(8).expand(8, 8)
    scores = rotate(x, cosines, sines) @ rotate(x, cosines, sines).T
    for distance in range(8):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert abs(scores[0, 0] - scores[0, 3]) > 1e-3


def test_masks_reach_every_layer():
    model = make_model(11, Shape(16, 2, 2, 8), seed=0)
    done = tandem.torch.emulate(model, "E8M3", exclude=["lm_head"])
    assert len(done.masked) == 2 * 5 and list(done.left) == ["lm_head"]


def test_a_run_learns(corpus):
    run = tiny_run(corpus, steps=60, lr=1e-2)
    run.train("test")
    found = training.figures(run)
    assert found["train_loss"] < run.losses[0] - 0.5
    assert found["steps"] == 60 and not found["diverged"]


@pytest.mark.parametrize("strategy", ("bf16", "collage-plus", "dither-softsign-root"))
def test_narrow_weights_compute_in_f32(corpus, strategy):
    run = tiny_run(corpus, strategy=strategy)
    assert {p.dtype for p in run.model.parameters()} == {torch.bfloat16}
    assert run.logits(torch.arange(4)[None]).dtype == torch.float32
    run.train("test")
    assert len(run.losses) == 12 and all(map(math.isfinite, run.losses))


def test_a_loss_that_is_not_finite_ends_a_run(corpus):
    run = tiny_run(corpus)
    with torch.no_grad():
        run.model.lm_head.weight.fill_(math.nan)
    run.train("test")
    found = training.figures(run)
    assert found["steps"] == 1 and found["diverged"]
    assert found["train_loss"] is None and found["validation_loss"] is None
    assert run.sharpness((5e-4,)) == {"0.0005": None}


def test_drifting_batches():
    """Batches come from a window that begins at the text's start and ends at its end."""
    text = np.arange(1000)
    drawn = list(training.drifting(text, 50, 8, 4, seed=0))
    assert len(drawn) == 50
    starts = [batch[0][:, 0].numpy() for batch in drawn]
    assert starts[0].max() < 100 and starts[-1].min() >= 880
    assert all((batch[1] - batch[0] == 1).all() for batch in drawn)


def test_sharpness_grows_with_epsilon(corpus):
    found = tiny_run(corpus).sharpness(studies.EPSILONS, count=1)
    values = list(found.values())
    assert list(found) == ["5e-05", "0.0001", "0.0005", "0.001", "0.005"]
    assert all(a < b for a, b in zip(values, values[1:]))

#===----------------------------------------------------------------------===#
# Figures of a run
#===----------------------------------------------------------------------===#


def noisy(count=300):
    return list(3 + 0.1 * np.random.default_rng(0).standard_normal(count))


def test_spikes():
    losses = noisy()
    assert training.spikes(losses) == 0
    losses[100:103] = [5.0, 5.0, 5.0]  # one spike
    losses[200] = 4.5
    losses[250] = math.nan
    assert training.spikes(losses) == 3


@pytest.mark.parametrize("end, expected", ((3.0, False), (3.2, False), (3.5, True),
                                           (math.inf, True), (math.nan, True)))
def test_diverged(end, expected):
    assert training.diverged(noisy() + [end] * 30) is expected


def test_curve():
    assert training.curve([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]
    assert training.curve([1.0, math.inf], 5) == [1.0, None]


def test_directions_are_as_long_as_filters(corpus):
    weights = [p.detach() for p in tiny_run(corpus).model.parameters()]
    found = landscape.direction(weights, torch.Generator().manual_seed(0))
    for weight, part in zip(weights, found):
        expected = weight.norm(dim=1) if weight.dim() > 1 else torch.zeros(weight.shape)
        torch.testing.assert_close(part.norm(dim=1) if weight.dim() > 1 else part, expected)


def test_grid(corpus):
    """The loss in the middle is the model's, and its weights do not change."""
    run = tiny_run(corpus)
    before = copy.deepcopy(run.model.state_dict())
    losses = landscape.grid(run, 3)
    assert losses[1][1] == pytest.approx(run.validation_loss(count=2), abs=1e-4)
    assert len({value for row in losses for value in row}) > 5
    assert all(torch.equal(value, before[name])
               for name, value in run.model.state_dict().items())
    with pytest.raises(ValueError, match="points is 4; an odd number"):
        landscape.grid(run, 4)


def test_minima():
    bowl = [[float(i * i + j * j) for j in range(-2, 3)] for i in range(-2, 3)]
    assert landscape.minima(bowl) == 1
    bowl[0][0] = -1.0
    assert landscape.minima(bowl) == 2
    bowl[4][4] = None
    assert landscape.minima(bowl) == 2


def test_magnitudes(corpus):
    run = tiny_run(corpus)
    run.step()
    with torch.no_grad():
        run.model.layers[0].network.up_proj.weight[0, 0] = 1e6
    found = studies.magnitudes(run)
    assert found["largest"] >= 1e6
    assert 0 < found["smallest"] < 1e-3
    assert not any(m._forward_hooks or m._backward_hooks for m in run.model.modules())

#===----------------------------------------------------------------------===#
# Cells
#===----------------------------------------------------------------------===#


def options(tmp_path, *arguments):
    return runs.parse([*arguments, "--quick", "--results", str(tmp_path)])


def short(tmp_path, study, *arguments):
    return options(tmp_path, study, "--steps", "10", "--seeds", "1", *arguments)


@pytest.mark.parametrize("study", STUDIES)
def test_study(tmp_path, study):
    """Every variant of a study runs, and the page and its plot show them."""
    assert runs.run(short(tmp_path, study))
    result = json.loads((tmp_path / f"{study}-quick.json").read_text())
    assert list(result["cells"]) == list(STUDIES[study].variants)
    assert result["machine"]["date"] and result["setting"]["steps"] == 10
    papers_page.write(tmp_path, tmp_path)
    text = (tmp_path / "Papers.md").read_text()
    assert f"`scripts/papers.sh {study} --quick`), from which nothing follows" in text
    assert text.count("\n**Not run yet.**\n") == len(STUDIES) - 1
    for variant in STUDIES[study].variants:
        assert variant in text
    if study in papers_page.papers_figures.PLOTS:
        assert (tmp_path / f"images/papers-{study}.png").exists()


def test_recovery_switches(tmp_path, corpus):
    """The run equals E8M3's until the switch and differs after it."""
    setting = training.Setting(TINY, 2, 40, 1e-2, warmup=2)
    found = {name: studies.recovery(setting, corpus, variant, name)
             for name, variant in STUDIES["recovery"].variants.items()}
    both, plain = found["E8M3, then bf16"], found["E8M3"]
    assert both["switch"] == 6 and both["checkpoints"][1]["step"] == 6
    same = [a == b for a, b in zip(both["checkpoints"], plain["checkpoints"])]
    assert same[:2] == [True, True] and not any(same[2:])
    assert both["curve"][:6] == plain["curve"][:6] != found["bf16"]["curve"][:6]


class Interrupted(Exception):
    pass


def test_resume(tmp_path, monkeypatch, capsys):
    """Cells that were completed before an interruption are not run again."""
    count = 0
    measure = studies.masked

    def interrupted(*arguments):
        nonlocal count
        count += 1
        if count == 3:
            raise Interrupted
        return measure(*arguments)

    study = STUDIES["seeds"]
    monkeypatch.setitem(STUDIES, "seeds", studies.dataclasses.replace(study, measure=interrupted))
    with pytest.raises(Interrupted):
        runs.run(short(tmp_path, "seeds"))
    before = json.loads((tmp_path / "seeds-quick.json").read_text())["cells"]
    assert list(before) == ["bf16", "TF32"]
    assert runs.run(short(tmp_path, "seeds"))
    after = json.loads((tmp_path / "seeds-quick.json").read_text())["cells"]
    assert count == 4 and list(after) == ["bf16", "TF32", "f32"]
    assert all(after[name] == before[name] for name in before)
    assert "seeds: 2 of 3 cells are done" in capsys.readouterr().out
    assert runs.run(short(tmp_path, "seeds")) and count == 4


def test_budget(tmp_path, capsys):
    """Cells that exceed the budget remain for the next run."""
    assert not runs.run(short(tmp_path, "seeds", "--budget", "1e-9"))
    assert "budget spent; 3 cells of seeds are left" in capsys.readouterr().out
    assert not (tmp_path / "seeds-quick.json").exists()


def test_results_of_another_size(tmp_path):
    runs.run(short(tmp_path, "seeds"))
    with pytest.raises(SystemExit, match="has steps 10, this run 11; name another folder"):
        runs.run(options(tmp_path, "seeds", "--steps", "11", "--seeds", "1"))


@pytest.mark.parametrize("arguments, message", (
    (["figure9"], "there is no study 'figure9'; there are exponents"),
    (["--steps", "5"], "--steps 5: give at least 10"),
    (["--seeds", "0"], "--seeds 0: give at least 1"),
    (["--threads", "0"], "--threads 0: give at least 1"),
    (["--budget", "0"], "--budget 0: give minutes, more than 0"),
    (["--budget", "nan"], "--budget nan: give minutes, more than 0"),
    (["--budget", "long"], "invalid float value")))
def test_bad_options(arguments, message, capsys):
    with pytest.raises(SystemExit) as error:
        runs.parse(arguments)
    assert error.value.code == 2 and message in capsys.readouterr().err

#===----------------------------------------------------------------------===#
# The paper's orderings
#===----------------------------------------------------------------------===#


def made_up(lr="0.004", **variants):
    """Makes a result whose variants have one cell each."""
    return {"cells": {name: {lr: {"0": figures}} for name, figures in variants.items()}}


def losses(**by_variant):
    return made_up(**{name: {"train_loss": loss} for name, loss in by_variant.items()})


def exponent_losses(both, inside, outside, head):
    return losses(**{"E8M7": 2.0, "E7M7": both, "E7M7, inside": inside,
                     "E7M7, outside": outside, "E7M7, LM head unmasked": head})


def sharp(diverged=(), **by_variant):
    """Makes checkpoints whose sharpness is the same for all epsilons."""
    def cell(name, values):
        points = [{"step": step, "sharpness": {f"{epsilon:g}": value
                                               for epsilon in studies.EPSILONS}}
                  for step, value in enumerate(values)]
        return {"checkpoints": points, "diverged": name in diverged}
    return made_up(**{name: cell(name, values) for name, values in by_variant.items()})


def recovered(variant, *values):
    result = sharp(**{variant: values})
    result["cells"][variant]["0.004"]["0"]["switch"] = 1
    return result


def counts(key, first, second, lr="0.04", others=None):
    cells = made_up(lr, **{name: {"spikes": 0, "diverged": False, key: value}
                           for name, value in (first, second)})["cells"]
    for by_lr in cells.values():
        if others is not None:
            by_lr[others] = {"0": {"spikes": 0, "diverged": False}}
    return {"cells": cells}


def planes(*grids, variant="E8M3"):
    return made_up(**{variant: {"planes": [{"losses": grid} for grid in grids]}})


def long_losses(bf16, **others):
    healed = ("fp32", "bf16-dither", "remainder", "collage-plus", "flash-f16",
              "dither-softsign-root", "fp32, coat", "flash-f16, coat")
    return losses(**dict.fromkeys(healed, 1.0) | {"bf16": bf16} | others)


def fp8_losses(plain, without, head):
    return losses(**{"bf16": plain, "FP8, LM head in bf16": without, "FP8, LM head too": head})


BOWL = [[2.0, 2.0, 2.0], [2.0, 1.0, 2.0], [2.0, 2.0, 2.0]]
ROUGH = [[0.5, 2.0, 2.0], [2.0, 1.5, 2.0], [2.0, 2.0, 1.0]]
FALLING = dict(E8M3=(1, 9), E8M4=(1, 5), E8M5=(1, 3), E8M7=(1, 1))
LEVEL = dict(E8M3=(1, 1), E8M4=(1, 1), E8M5=(1, 1), E8M7=(1, 1))

#: For each check, a result for which it holds and one for which it fails.
BOTH_WAYS = {
    "exponents-fail": (exponent_losses(4.0, 2, 2, 2), exponent_losses(2.1, 2, 2, 2)),
    "exponents-inside": (exponent_losses(4, 2.1, 4, 2), exponent_losses(4, None, 4, 2)),
    "exponents-outside": (exponent_losses(4, 2, None, 2), exponent_losses(4, 2, 2.0, 2)),
    "exponents-head": (exponent_losses(4, 2, 4, 2.1), exponent_losses(4, 2, 4, 3.0)),
    "sharpness-order": (sharp(**FALLING), sharp(**LEVEL)),
    "sharpness-rises": (sharp(**FALLING), sharp(**FALLING | {"E8M3": (9, 9)})),
    "sharpness-epsilon": (sharp(**FALLING), sharp(**LEVEL)),
    "sharpness-diverges": (sharp(("E8M3", "E8M4"), **FALLING), sharp(("E8M3",), **FALLING)),
    "sharpness-lower": (sharp(("E8M0",), E8M0=(1, 9), E8M1=(1, 5), E8M7=(1, 1)),
                        sharp((), E8M0=(1, 9), E8M1=(1, 5), E8M7=(1, 1))),
    "recovery-falls": (recovered("E8M3, then bf16", 1, 3, 2),
                       recovered("E8M3, then bf16", 1, 3, 3)),
    "recovery-lower": (recovered("E8M0, then bf16", 1, 3, 2),
                       recovered("E8M0, then bf16", 1, 3, 3)),
    "spikes-more": (counts("spikes", ("E8M5", 3), ("bf16", 2)),
                    counts("spikes", ("E8M5", 2), ("bf16", 2))),
    "spikes-lower": (counts("spikes", ("E8M1", 3), ("bf16", 2)),
                     counts("spikes", ("E8M1", 2), ("bf16", 2))),
    "spikes-none-diverge": (
        counts("diverged", ("E8M5", False), ("bf16", False), others="0.004"),
        counts("diverged", ("E8M5", True), ("bf16", False), others="0.004")),
    "seeds-diverge": (counts("diverged", ("bf16", True), ("TF32", False)),
                      counts("diverged", ("bf16", False), ("TF32", False))),
    "landscape-smooth": (planes(BOWL, BOWL), planes(BOWL, ROUGH)),
    "landscape-lower": (planes(BOWL, BOWL, variant="E8M0"), planes(BOWL, ROUGH, variant="E8M0")),
    "landscape-unmasked": (planes(BOWL, variant="E8M0, plane in f32"),
                           planes(ROUGH, variant="E8M0, plane in f32")),
    "fp8-order": (fp8_losses(1, 2, 3), fp8_losses(1, 3, 2)),
    "long-plateau": (long_losses(1.5), long_losses(1.0)),
    "long-heals": (long_losses(1.5, **{"collage-plus": 1.1}),
                   long_losses(1.5, **{"collage-plus": 1.2})),
    "long-recommended": (long_losses(1.5, **{"fp32, coat": 1.1}),
                         long_losses(1.5, **{"fp32, coat": 1.2})),
}


def compared(check):
    """Returns the variants whose cells a check reads."""
    asked = set()

    class Asked(checks.Cells):
        def of(self, variant, lr=None):
            asked.add(variant)
            return super().of(variant, lr)

    check.holds(Asked(next(good for name, (good, _) in BOTH_WAYS.items()
                           if checks.CHECKS[name] is check)))
    return asked


@pytest.mark.parametrize("name", checks.CHECKS)
def test_check_both_ways(name):
    good, bad = BOTH_WAYS[name]
    check = checks.CHECKS[name]
    assert checks.outcome(check, good) == "holds"
    assert checks.outcome(check, bad) == "fails"
    assert checks.outcome(check, None) == "not run"
    for variant in good["cells"]:
        if variant in compared(check):
            partial = {"cells": {v: c for v, c in bad["cells"].items() if v != variant}}
            assert checks.outcome(check, partial) == "not run"


def test_seeds_are_compared_in_pairs():
    """A seed of only one of the two variants does not count."""
    result = counts("spikes", ("E8M5", 1), ("bf16", 1))
    result["cells"]["E8M5"]["0.04"]["7"] = {"spikes": 50}
    assert checks.outcome(checks.CHECKS["spikes-more"], result) == "fails"
    result["cells"]["bf16"]["0.04"] = {"8": {"spikes": 0}}
    assert checks.outcome(checks.CHECKS["spikes-more"], result) == "not run"


def test_unexplained():
    found = {"a": "fails", "b": "fails", "c": "holds", "d": "not run"}
    assert checks.unexplained(found, {"a": "known"}) == ["b"]
    assert checks.unexplained(found, {"a": "known", "b": "known"}) == []


@pytest.mark.parametrize("reasons, status", (({}, "error: the paper's order fails in spikes-more"),
                                             ({"spikes-more": "known"}, None)))
def test_check_exits(tmp_path, monkeypatch, capsys, reasons, status):
    (tmp_path / "spikes.json").write_text(json.dumps(BOTH_WAYS["spikes-more"][1]))
    monkeypatch.setattr(sys, "argv", ["checks.py", "--results", str(tmp_path)])
    monkeypatch.setattr(checks, "REASONS", reasons)
    monkeypatch.setattr(checks.unexplained, "__defaults__", (reasons,))
    if status is None:
        checks.main()
        assert "spikes-more: fails, a reason is on record." in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit) as error:
            checks.main()
        assert str(error.value.code).startswith(status)


def test_reasons_are_of_orderings_that_fail():
    found = checks.outcomes(runs.FOLDER)
    assert not {name for name in REASONS if found[name] != "fails"}, "remove these reasons"
    assert not {name for name in CAVEATS if found[name] != "holds"}, "remove these caveats"
    assert not checks.unexplained(found), "run scripts/papers.sh --check"

#===----------------------------------------------------------------------===#
# The page
#===----------------------------------------------------------------------===#


def test_verdicts_stand_on_the_page(tmp_path, monkeypatch):
    """The page reports a failing ordering with the same words, and gives its reason."""
    result = BOTH_WAYS["spikes-more"][1]
    monkeypatch.setitem(papers_page.REASONS, "spikes-more", "Toys rarely spike.")
    (tmp_path / "spikes.json").write_text(json.dumps(result))
    shown = papers_page.Shown("spikes", tmp_path)
    assert ("- **Does not reproduce:** E8M5 has more loss spikes than bf16 at ten times the "
            "learning rate. Toys rarely spike.") in papers_page.verdicts("spikes", shown)
    none = papers_page.Shown("seeds", tmp_path)
    assert "**Not run yet.**" in papers_page.section("seeds", none)
    assert "`scripts/papers.sh seeds`" in papers_page.section("seeds", none)


def test_answers_come_first():
    """The page begins with the findings, without studies that have not been run."""
    nothing = papers_answers.answers(dict.fromkeys(STUDIES))
    total = sum(not check.source for check in checks.CHECKS.values())
    assert f"**Of the paper's {total} results, 0 reproduce here and 0 do not, {total} have" in nothing
    assert "- **" not in nothing
    result = long_losses(1.5, **{"flash-f16": 1.2})
    text = papers_answers.answers(dict.fromkeys(STUDIES) | {"long": result})
    assert "bf16 weights and states ends at a loss of 1.500, in f32 at 1.000" in text
    healed, rest = text.split("end where f32 does: ")[1].split(". These do not: ")
    assert "`remainder` (1.000)" in healed and "`flash-f16` (1.200)" in rest
    masked = sharp(("E8M1",), **dict.fromkeys(STUDIES["sharpness"].variants, (1, 1))
                   | {"E8M0": (1, 2)})
    for name, by_lr in masked["cells"].items():
        by_lr["0.004"]["0"]["train_loss"] = 2.25 if name == "E8M3" else 2.0
    text = papers_answers.mantissas(masked)
    assert "0.250 (E8M3)" in text and "E8M1 diverges." in text
    assert text.endswith("Sharpness rises by half or more only under E8M0 (2.0 times).")


def exponent_cells(**bad):
    names = [*STUDIES["exponents"].variants]
    return losses(**dict.fromkeys(names, 2.0) | bad)


def test_exponents_answer():
    text = papers_answers.exponents(exponent_cells(E3M7=4.0, **{"E4M7, inside": 4.0}))
    assert ("In E7M7, E5M7 and E4M7 the model trains as well as in E8M7, but not in E3M7. E4M7 "
            "fails because of the clamp from inside;") in text
    text = papers_answers.exponents(exponent_cells())
    assert "but not in any other. E4M7 fails because of the clamp from neither side;" in text


def test_plots_name_equal_curves_together():
    cell = {"steps": 4, "curve": [2.0, 1.0]}
    result = made_up(a=cell, b=dict(cell), c=cell | {"curve": [2.0, None]})
    found = papers_page.papers_figures.curves(result)
    assert list(found) == ["a\n= b", "c"]
    assert np.isnan(found["c"][1][1]) and list(found["c"][0]) == [1.0, 3.0]


def test_page_is_up_to_date():
    assert (ROOT / "docs/Papers.md").read_text() == papers_page.page(runs.FOLDER), (
        "run benchmarks/precision/papers_page.py")


def test_script(tmp_path):
    """scripts/papers.sh runs a study, writes the page, and checks the orderings."""
    def papers(*arguments):
        return subprocess.run(
            [ROOT / "scripts/papers.sh", *arguments, "--results", tmp_path],
            capture_output=True, text=True,
            env={**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"})

    done = papers("recovery", "--quick", "--steps", "10")
    assert done.returncode == 0, done.stderr
    assert "all cells of recovery are done" in done.stdout
    assert (tmp_path / "Papers.md").read_text().startswith("# Papers\n")
    checked = papers("--check")
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count(": not run. ") == len(checks.CHECKS)
    bad = papers("spikes", "--steps", "3")
    assert bad.returncode == 2 and "--steps 3" in bad.stderr


def test_overhead(capsys):
    threads = torch.get_num_threads()
    try:
        overhead.main(["--widths", "32", "--tokens", "16", "--repeats", "3"])
    finally:
        torch.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[1].startswith("width 32, E8M3: ")
    assert all(float(line.rsplit(" ", 1)[1]) > 0 for line in lines[1:])
