#===- test_precision.py - The studies of papers ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the studies at toy size: their runs, checkpoints and cells.
#
#===----------------------------------------------------------------------===#

import copy
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/precision"), str(ROOT / "benchmarks")]

import checkpoints  # noqa: E402
import landscape  # noqa: E402
import measures  # noqa: E402
import overhead  # noqa: E402
import papers_page  # noqa: E402
import runs  # noqa: E402
import studies  # noqa: E402
import trained  # noqa: E402
import training  # noqa: E402
from llama import Shape, make_model  # noqa: E402
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
    found = tiny_run(corpus).sharpness(measures.EPSILONS, count=1)
    values = list(found.values())
    assert list(found) == ["5e-05", "0.0001", "0.0005", "0.001", "0.005"]
    assert all(a < b for a, b in zip(values, values[1:]))



def test_constant_rate():
    setting = training.Setting(TINY, 2, 100, 1e-2, warmup=10, **studies.CONSTANT)
    assert setting.is_constant and {setting.lr_at(step) for step in range(10, 100)} == {1e-2}
    assert not training.Setting(TINY, 2, 100, 1e-2).is_constant


def constant(steps, seed=0, **changes):
    return training.Setting(TINY, 2, steps, 1e-2, seed, warmup=2, **studies.CONSTANT | changes)


def test_a_run_goes_on_from_a_checkpoint(corpus, tmp_path):
    """A run that was interrupted takes the same steps as one that was not."""
    store, key = checkpoints.Store(tmp_path), "key"
    whole, begun, resumed = (training.Run(
        constant(12), corpus, prepare=measures.masks({"format": "E8M3"})) for _ in range(3))
    whole.train("whole")
    assert store.restore(key, resumed, 12) == [] and not resumed.losses
    for until in (4, 7):
        begun.train("begun", until=until)
        store.save(key, begun, [{"step": until}])
    assert store.restore(key, resumed, 6) == [{"step": 4}] and len(resumed.losses) == 4
    resumed = training.Run(constant(12), corpus, prepare=measures.masks({"format": "E8M3"}))
    assert store.restore(key, resumed, 12) == [{"step": 7}]
    assert resumed.seconds > begun.seconds / 2
    resumed.train("resumed")
    assert resumed.losses == whole.losses
    for one, other in zip(resumed.model.parameters(), whole.model.parameters()):
        assert torch.equal(one, other)


def test_checkpoints_are_of_runs_that_take_the_same_steps():
    options = {"format": "E8M3"}
    key = checkpoints.key_of(constant(20), options)
    assert key == checkpoints.key_of(constant(60), options)
    others = [constant(20, seed=1), constant(20, before=5), constant(20, clip=1.0)]
    assert key not in {checkpoints.key_of(other, options) for other in others}
    assert key != checkpoints.key_of(constant(20), {"format": "E8M4"})
    decayed = [checkpoints.key_of(constant(steps, final_share=0.1), options)
               for steps in (20, 60)]
    assert decayed[0] != decayed[1]


def test_longer_runs_go_on_where_shorter_ones_end(corpus, tmp_path, monkeypatch):
    """A study of more steps has the losses and the checkpoints of one with fewer."""
    store, options = checkpoints.Store(tmp_path), {"format": "E8M3"}
    short_run = measures.sharpness(constant(20), corpus, options, "short", store)
    steps = []
    step = training.Run.step
    monkeypatch.setattr(training.Run, "step", lambda run: (steps.append(1), step(run))[1])
    long_run = measures.sharpness(constant(40), corpus, options, "long", store)
    assert len(steps) == 20 and long_run["steps"] == 40
    assert long_run["checkpoints"][:20] == short_run["checkpoints"]
    assert [point["step"] for point in long_run["checkpoints"][20:]] == list(range(22, 41, 2))


@torch.no_grad()
def test_attention_logits(corpus):
    """Scaled queries scale the logits."""
    run = tiny_run(corpus)
    before = measures.attention_logits(run)
    run.model.layers[0].attention.qkv_proj.weight[:TINY.width] *= 8.0
    assert measures.attention_logits(run) == pytest.approx(8 * before, rel=1e-5)
    assert not any(m._forward_hooks for m in run.model.modules())

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
    found = measures.magnitudes(run)
    assert found["largest"] >= 1e6
    assert 0 < found["smallest"] < 1e-3
    assert not any(m._forward_hooks or m._backward_hooks for m in run.model.modules())



def test_spans_and_zeros():
    group = torch.full((2, 128), 1e-3)
    group[0, 0], group[1, 0], group[1, 1] = 1.0, 1e-5, 0.0
    assert trained.span([group, torch.ones(3)]) == pytest.approx(2.5, abs=1e-5)
    gradient = torch.tensor([0.0, 2.0**-10, 2.0**-9, 2.0**-4])
    assert trained.zeros([gradient], lambda gradient: 1.0) == pytest.approx(1 / 3)
    assert trained.largest_scale(gradient) == 2.0**12
    assert trained.zeros([gradient], trained.largest_scale) == 0.0


def test_levels_have_states_of_their_own(corpus):
    """All states are in a level's types, also those of small tensors."""
    setting = training.Setting(TINY, 2, 12, 1e-2, warmup=2, clip=None)
    curves = [trained.fp8_lm(setting, corpus, {"level": level}, level, None)["curve"]
              for level in ("O1", "O2")]
    assert curves[0] != curves[1]


def test_ranks_share_a_batch(corpus):
    """Two ranks train as one process does, except that they compute with weights in E4M3."""
    setting = training.Setting(TINY, 2, 12, 1e-2, warmup=2, clip=None)
    one = trained.fp8_lm(setting, corpus, {"level": "O2"}, "one", None)
    two = trained.fp8_lm(setting, corpus, {"level": "O3", "ranks": 2}, "two", None)
    assert two["steps"] == 12 and two["curve"] == pytest.approx(one["curve"], abs=0.1)


#===----------------------------------------------------------------------===#
# Cells
#===----------------------------------------------------------------------===#


def options(tmp_path, *arguments):
    return runs.parse([*arguments, "--quick", "--results", str(tmp_path)])


def short(tmp_path, study, *arguments):
    return options(tmp_path, study, "--steps", "10", "--seeds", "1", *arguments)


@pytest.mark.thinned(0, times=7)
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
        # The table of Collage has a row for each option.
        assert (variant.partition(", beta2")[0] if study == "collage" else variant) in text
    if study in papers_page.papers_figures.PLOTS:
        assert (tmp_path / f"images/papers-{study}.png").exists()


def test_recovery_switches(tmp_path, corpus):
    """The run equals E8M3's until the switch and differs after it; it goes on from a run of the
    sharpness study if there is one."""
    store, setting = checkpoints.Store(tmp_path), constant(40, before=20)
    measures.sharpness(constant(20), corpus, {"format": "E8M3"}, "E8M3", store)
    made = {path.name for path in tmp_path.iterdir()}
    found = {name: measures.recovery(setting, corpus, variant, name, store)
             for name, variant in STUDIES["recovery"].variants.items()}
    key = checkpoints.key_of(constant(20), {"format": "E8M3"})
    assert {path.name for path in tmp_path.glob(f"{key}*")} <= made
    both, plain = found["E8M3, then bf16"], found["E8M3"]
    assert both["switch"] == 20 and both["checkpoints"][0]["step"] == 20
    same = [a == b for a, b in zip(both["checkpoints"], plain["checkpoints"])]
    assert same[0] and not any(same[2:]) and len(same) == 21
    assert both["curve"][:20] == plain["curve"][:20] != found["bf16"]["curve"][:20]
    assert both["curve"][21:] != plain["curve"][21:]


def test_sharpness_raises_the_precision(tmp_path, corpus):
    """Two checkpoints above the bound switch from E8M0 to the next format; none does below it."""
    store, options = checkpoints.Store(tmp_path), {"levels": ("E8M0", "E8M7"), "patience": 2}
    low, high = (measures.raised(constant(40), corpus, options | {"bound": bound}, "raised", store)
                 for bound in (1e-6, 1e6))
    assert low["raised"] == [4] and high["raised"] == []
    assert low["checkpoints"][:2] == high["checkpoints"][:2]
    assert low["checkpoints"][-1] != high["checkpoints"][-1]
    # A run of E8M0 in the store is the part before the raise.
    measures.sharpness(constant(40), corpus, {"format": "E8M0"}, "E8M0", store)
    again, never = (measures.raised(constant(40), corpus, options | {"bound": bound}, "raised",
                                    store) for bound in (1e-6, 1e6))
    assert (again["raised"], never["raised"]) == ([4], [])
    assert again["curve"] == low["curve"] and again["checkpoints"] == low["checkpoints"]
    assert never["curve"] == high["curve"] and never["checkpoints"] == high["checkpoints"]


class Interrupted(Exception):
    pass


def test_resume(tmp_path, monkeypatch, capsys):
    """Cells that were completed before an interruption are not run again."""
    count = 0
    measure = measures.masked

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


@pytest.mark.parametrize("changes, message", (
    ({"variants": {"TF32": {"format": "E8M9"}}}, "variant 'TF32' {'format': 'E8M10'}, this run "
     "{'format': 'E8M9'}"),
    ({"changes": {"clip": 2.0}}, "changes {}, this run {'clip': 2.0}")))
def test_results_with_other_settings(tmp_path, monkeypatch, changes, message):
    """Other options of a variant that has cells, or of all cells, are refused."""
    runs.run(short(tmp_path, "seeds"))
    study = studies.dataclasses.replace(
        STUDIES["seeds"], **{name: dict(getattr(STUDIES["seeds"], name)) | value
                             for name, value in changes.items()})
    monkeypatch.setitem(STUDIES, "seeds", study)
    with pytest.raises(SystemExit, match=re.escape(f"has {message}; name another folder with "
                                                   "--results, or remove the file")):
        runs.run(short(tmp_path, "seeds"))
    more = studies.dataclasses.replace(STUDIES["landscape"], variants={"new": {"format": None}})
    monkeypatch.setitem(STUDIES, "seeds", studies.dataclasses.replace(
        study, changes={}, variants=more.variants))
    assert runs.missing("seeds", short(tmp_path, "seeds"))[1] == 1  # new variants are none


def test_later_variants_run_last(tmp_path):
    study = STUDIES["sharpness"]
    cells, _ = runs.missing("sharpness", runs.parse(["sharpness", "--results", str(tmp_path)]))
    assert [cell.variant for cell in cells[:6]] == ["E8M3", "E8M7"] * 3
    assert [cell.variant for cell in cells[6:]] == [name for name in study.later
                                                    for _ in range(3)]
    some = runs.parse(["sharpness", "--variants", "E8M7", "E8M4", "--results", str(tmp_path)])
    assert {cell.variant for cell in runs.missing("sharpness", some)[0]} == {"E8M7", "E8M4"}


@pytest.mark.parametrize("arguments, message", (
    (["figure9"], "there is no study 'figure9'; there are exponents"),
    (["seeds", "--variants", "f32", "E8M9"], "--variants 'E8M9': seeds has 'bf16', 'TF32', 'f32'"),
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


def test_overhead(capsys):
    threads = torch.get_num_threads()
    try:
        overhead.main(["--widths", "32", "--tokens", "16", "--repeats", "3"])
    finally:
        torch.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[1].startswith("width 32, E8M3: ")
    assert all(float(line.rsplit(" ", 1)[1]) > 0 for line in lines[1:])
