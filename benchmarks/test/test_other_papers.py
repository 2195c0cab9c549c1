#===- test_other_papers.py - Verdicts on Collage, FP8-LM, COAT -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the rows of docs/Papers.md whose numbers other pages measured.
#
#===----------------------------------------------------------------------===#

import copy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/precision"), str(ROOT / "benchmarks")]

import coat_rows  # noqa: E402
import collage_rows  # noqa: E402
import fp8_lm_rows  # noqa: E402
import other_papers  # noqa: E402
import papers_answers  # noqa: E402
from margins import Margin  # noqa: E402
from paper_rows import (WORDS, Found, Results, Row, by_margins, exact,  # noqa: E402
                        study_size)
from studies import STUDIES  # noqa: E402

PAPERS = {paper.name: paper for paper in other_papers.PAPERS}
ROWS = [(paper.name, row) for paper in other_papers.PAPERS for row in paper.rows]
HERE = Results()

#: The tables and figures with a result, by paper.
PLACES = {
    "Collage": {f"table {n}" for n in (*range(1, 10), 12)} | {f"figure {n}" for n in range(1, 16)},
    "FP8-LM": {f"table {n}" for n in range(2, 10)} | {f"figure {n}" for n in (1, *range(4, 10))},
    "COAT": {f"table {n}" for n in range(1, 9)}
    | {f"figure {n}" for n in ("1c", "2a", "2b", "2c", 3, "4a", "4b", *range(5, 10))},
}


def row(paper, claim):
    """Returns the row of a paper whose claim begins with a text."""
    [found] = [each for each in PAPERS[paper].rows if each.claim.startswith(claim)]
    return found


@pytest.mark.parametrize("name", PLACES)
def test_every_table_and_figure_has_a_row(name):
    assert {place for each in PAPERS[name].rows for place in each.places} == PLACES[name]


@pytest.mark.parametrize("name, row", ROWS, ids=[f"{n}-{r.claim[:40]}" for n, r in ROWS])
def test_verdicts_have_grounds(name, row):
    """Results that reproduce have a margin or are exact, and others have a reason."""
    found = row.found(HERE)
    assert found.outcome in WORDS
    if found.outcome == "holds":
        assert found.exact or (found.margins and all(each.holds for each in found.margins))
    if found.outcome in ("fails", "trivial"):
        assert row.remark
    if row.find and not (row.study and found.outcome in ("not run", "few")):
        assert found.here and row.command and row.size_here(HERE)
    assert row.says and row.claim.endswith(".")


def test_outcomes():
    wide, narrow = Margin("a", 1.0, 0.1), Margin("b", 0.1, 0.1)
    assert by_margins([wide]).words == "reproduces"
    found = by_margins([wide, narrow], "x")
    assert (found.words, found.here) == ("does not reproduce", "x; b +0.10 ± 0.20")
    assert exact(True, "8").words == "reproduces, exact"
    assert exact(True, "8", trivial=True).words == "holds trivially, exact"
    assert exact(False, "8").words == "does not reproduce, exact"
    assert Row(("table 1",), "a.", "b", missing="gpu").found(HERE).words == "needs a GPU"
    assert Row(("table 1",), "a.", "b").found(HERE).words == "not run yet"


def test_places():
    def place(*places):
        return Row(places, "a.", "b").place

    assert place("table 3") == "table 3"
    assert place("table 3", "figure 3") == "table 3, figure 3"
    assert place("figure 5", "figure 6") == "figures 5, 6"
    assert place("figure 7", "figure 8", "figure 9") == "figures 7 to 9"
    assert place("figure 2a", "figure 3", "figure 9") == "figures 2a, 3, 9"


def test_missing_results_are_not_run():
    names = ("quality_64k", "live_bytes", "cpu_step", "moments", "activations", "gradient_sum",
             "distributed/bytes", "distributed/noise", "distributed/parallel_bytes",
             "distributed/zero_balance", "activations_scales", "precision/coat", "precision/collage",
             "precision/fp8-lm", "precision/fp8-lm-long", "precision/memory", "precision/published")
    nothing = Results(dict.fromkeys(names))
    known = ("`papers_page.py`", "`tandem-opt -tandem-print-saves`")
    for _, each in ROWS:
        if each.find and each.command not in known:
            assert each.found(nothing) == Found("not run", "")
            assert each.size_here(nothing) in ("", each.size)


#===----------------------------------------------------------------------===#
# A changed number changes the verdict
#===----------------------------------------------------------------------===#


def changed(name, change):
    """Returns the results after a change to one of them."""
    result = copy.deepcopy(HERE[name])
    change(result)
    return Results({name: result})


def swap(one, other):
    def change(result):
        cells = result["cells"]
        cells[one], cells[other] = cells[other], cells[one]
    return change


def scale(*path):
    """Returns a change that makes a number ten times as large."""
    def change(result):
        for key in path[:-1]:
            result = result[key]
        result[path[-1]] *= 10
    return change


def in_all_seeds(change):
    """Returns a change of every seed of a result."""
    def change_all(result):
        for seed in result["seeds"].values():
            change(seed)
    return change_all


def one_seed(result):
    for by_lr in result["cells"].values():
        for by_seed in by_lr.values():
            for seed in set(by_seed) - {"0"}:
                del by_seed[seed]


CHANGES = (
    ("Collage", "Options A, B, C and D take", "live_bytes",
     scale("strategies", "bf16", "kept", "weights"), "fails"),
    ("Collage", "At a beta2 of 0.999 A ends", "quality_64k", swap("bf16", "fp32-optim"), "fails"),
    ("Collage", "Collage-plus (C) ends", "quality_64k",
     swap("collage-plus", "collage-light"), "fails"),
    ("Collage", "Collage-plus (C) ends", "quality_64k", one_seed, "few"),
    ("Collage", "Under A a large share", "quality_64k", swap("bf16", "collage-plus"), "fails"),
    ("Collage", "A has the lowest", "quality_64k", swap("bf16", "collage-light"), "fails"),
    ("FP8-LM", "8 bits save most", "distributed/bytes",
     scale("formulas", "32", "f32 ring"), "fails"),
    ("FP8-LM", "A sum of gradients", "distributed/bytes",
     scale("formulas", "4", "f32 ring"), "fails"),
    ("FP8-LM", "ZeRO with", "distributed/zero_balance",
     scale("models", "GPT-7B", "fp8-lm", "greedy", "max"), "fails"),
    ("FP8-LM", "Pre-scaling", "gradient_sum",
     in_all_seeds(scale("automatic", "128", "underflow")), "fails"),
    ("FP8-LM", "Post-scaling", "gradient_sum",
     in_all_seeds(lambda seed: seed["pre-scaling"]["128"].update(overflow=0.5)), "fails"),
    ("COAT", "Expansion of both", "moments",
     in_all_seeds(scale("pairs", "E4M3+expand", "E4M3+expand", "mse")), "fails"),
    ("COAT", "The best pair is", "moments",
     in_all_seeds(scale("pairs", "E4M3+expand", "E5M2+expand", "mse")), "holds"),
    ("COAT", "The second moment has", "moments",
     in_all_seeds(lambda seed: seed["k"]["k"].update(second=[1, 1, 1])), "fails"),
    ("COAT", "k is 1 to 3", "moments",
     in_all_seeds(lambda seed: seed["k"]["k"].update(second=[5, 7, 9])), "holds"),
    ("COAT", "With as many elements", "activations_scales",
     lambda result: [each["as trained"].update({"1x1024": 0.02}) for each in
                     result["errors"].values()], "holds"),
    ("COAT", "Group scaling, a maximum", "activations_scales",
     lambda result: [row.update({"just in time": [2 * t for t in row["Group Scaling"]]})
                     for isas in result["times"].values() for row in isas.values()], "holds"),
    ("COAT", "COAT saves 1.65", "activations",
     scale("layers", 3, "rows", "coat", "kept"), "fails"),
)


@pytest.mark.parametrize("paper, claim, name, change, outcome", CHANGES)
def test_a_changed_number_changes_the_verdict(paper, claim, name, change, outcome):
    each = row(paper, claim)
    assert each.found(HERE).outcome != outcome
    assert each.found(changed(name, change)).outcome == outcome


#===----------------------------------------------------------------------===#
# Rows that studies measure
#===----------------------------------------------------------------------===#


def run(loss, **figures):
    return {"train_loss": loss, "parameters": 33000} | figures


def study(cells):
    """Makes a study in which all seeds of a variant have the same cell."""
    return {"setting": {"steps": 10}, "cells": {
        name: {"0.004": {str(seed): each for seed in range(3)}} for name, each in cells.items()}}


def by_option(more=1.0, **options):
    """Makes the study of Collage from losses by option, with the same for every beta2 and batch
    except that A loses more at a beta2 of 0.999."""
    losses = {"A": 3.0, "B": 2.0, "C": 2.0, "D": 2.0, "D-MW": 3.0} | options
    noted = {"A": 1.0, "B": 3.0, "C": 4.0, "D": 4.0, "D-MW": 1.0}
    return study({label: run(
        losses[label.split(",")[0]] + more * (label[0] == "A" and values["beta2"] == 0.999),
        edq=[noted[label.split(",")[0]]] * 4, weight_norm=[50.0] * 4, update_norm=[0.1] * 4)
        for label, values in STUDIES["collage"].variants.items()})


def noted(option, **values):
    """Makes the study of Collage with other norms or another EDQ of an option."""
    found = by_option()
    for label, by_lr in found["cells"].items():
        if label.startswith(f"{option},"):
            by_lr["0.004"] = {seed: cell | values for seed, cell in by_lr["0.004"].items()}
    return found


def levels(**changes):
    losses = {"f32 (#0)": 2.0, "bf16 (#1)": 2.0, "FP8 (#2)": 2.0, "FP8 weight (#3)": 3.0,
              "FP8 moments (#4)": 4.0, "O1": 2.0, "O2": 2.0, "O3, two ranks": 2.0}
    return study({name: run(loss) for name, loss in (losses | changes).items()})


def whole(without=3.0, published=2.0):
    return study({"bf16": run(2.0), "COAT": run(2.0), "COAT, as published": run(published),
                  "COAT, not expanded": run(without)})


def in_f32(**changes):
    figures = {"span_first": 3.0, "span_second": 0.5, "zeros": 0.9, "zeros_scaled": 0.1}
    return study({"fp32": run(2.0, **figures | changes)})


#: For each row, a study for which it holds, and one with which its verdict is another.
STUDIED = (
    ("Collage", "For RoBERTa", by_option(), by_option(C=2.2), "fails"),
    ("Collage", "C's EDQ itself", by_option(), noted("B", edq=[5.0] * 4), "fails"),
    ("Collage", "C's EDQ itself", by_option(), noted("C", edq=[3.5] * 4), "fails"),
    ("Collage", "Norms of parameters", by_option(), noted("A", update_norm=[1.0] * 4), "fails"),
    ("Collage", "B departs", by_option(B=2.5), by_option(B=2.1), "fails"),
    ("Collage", "C ends where D", by_option(), by_option(C=2.5), "fails"),
    ("Collage", "B and C end where", by_option(), by_option(B=2.2), "fails"),
    ("Collage", "A departs most", by_option(), by_option(more=0.0), "fails"),
    ("FP8-LM", "A scale moves", in_f32(), in_f32(zeros=0.1), "fails"),
    ("COAT", "A typical group of the first", in_f32(), in_f32(span_first=5.0), "fails"),
    ("COAT", "A typical group of the second", in_f32(), in_f32(span_second=1.5), "fails"),
    ("FP8-LM", "An f16 master weight", levels(), levels(**{"FP8 (#2)": 2.2}), "fails"),
    ("FP8-LM", "An FP8 master weight", levels(), levels(**{"FP8 weight (#3)": 2.0}), "fails"),
    ("FP8-LM", "An FP8 second moment", levels(), levels(**{"FP8 moments (#4)": 2.5}), "fails"),
    ("FP8-LM", "bf16 products", levels(), levels(**{"bf16 (#1)": 2.2}), "fails"),
    ("FP8-LM", "The losses of FP8", levels(), levels(O2=2.2), "fails"),
    ("FP8-LM", "The losses of FP8", levels(), levels(**{"O3, two ranks": None}), "fails"),
    ("COAT", "OLMo-1B's loss", whole(), whole(published=2.1), "fails"),
    ("COAT", "OLMo-1B's loss", whole(), whole(without=2.01), "trivial"),
)


@pytest.mark.parametrize("paper, claim, good, other, outcome", STUDIED)
def test_rows_of_studies_both_ways(paper, claim, good, other, outcome):
    each = row(paper, claim)
    name = f"precision/{each.study}"
    assert each.found(Results({name: good})).outcome == "holds"
    assert each.found(Results({name: other})).outcome == outcome
    assert each.found(Results({name: None})).outcome == "not run"
    assert "33 thousand parameters, 10 steps, 3 seeds" in study_size(each.study)(
        Results({name: good}))


@pytest.mark.parametrize("most, outcome", ((100, "holds"), (150, "fails")))
def test_bytes_of_a_step(most, outcome):
    bytes = {"measured": {"total": 200}, "predicted": {"total": 200}}
    ours = {"measured": {"total": most}, "predicted": {"total": 90}}
    found = {"cells": {name: {"0.004": {"0": cell}} for name, cell in (
        ("bf16", bytes), ("COAT", ours))}}
    each = row("COAT", "A step of a training")
    assert each.found(Results({"precision/memory": found})).outcome == outcome
    assert each.found(Results({"precision/memory": None})).outcome == "not run"


def test_seeds_of_rows_of_studies():
    """Fewer than three seeds decide nothing."""
    found = levels()
    for by_lr in found["cells"].values():
        del by_lr["0.004"]["2"]
    assert row("FP8-LM", "The losses of FP8").found(
        Results({"precision/fp8-lm-long": found})).outcome == "few"


#===----------------------------------------------------------------------===#
# Other rows
#===----------------------------------------------------------------------===#


def test_ratio_of_activations():
    def change(result):
        for each in result["ranks"].values():
            each["codes"]["forward"]["all-gather"] *= 5 / 3

    each = row("FP8-LM", "8 bits save a third")
    assert each.found(HERE).outcome == "fails"
    assert each.found(changed("distributed/parallel_bytes", change)).outcome == "holds"


def test_automatic_scaling():
    sums = copy.deepcopy(HERE["gradient_sum"])
    each = row("FP8-LM", "Automatic scaling")
    assert each.found(HERE).outcome == "fails"
    for found in sums["seeds"].values():
        found["automatic"]["128"]["snr"] += 9
    assert each.found(Results({"gradient_sum": sums})).outcome == "holds"


#===----------------------------------------------------------------------===#
# Numbers from formulas
#===----------------------------------------------------------------------===#


def test_bf16():
    assert collage_rows.bf16(0.999) == 1.0 and collage_rows.bf16(0.99) == 0.98828125
    assert collage_rows.bf16(1 + 2**-8) == 1.0  # a tie, to even
    assert collage_rows.bf16(1 + 3 * 2**-8) == 1 + 2**-6


def test_table_7_follows_from_shapes(monkeypatch):
    """The volumes are those of six collectives, of which four have 8 bits, and of no fewer."""
    assert fp8_lm_rows.by_shapes(HERE).outcome == "holds"
    monkeypatch.setattr(fp8_lm_rows, "GATHERED_IN_8_BITS", (1,) * 6)
    assert fp8_lm_rows.by_shapes(HERE).outcome == "fails"


def test_shapes_decide_what_fits(monkeypatch):
    """FP8 would train larger models if products saved no codes, and Llama would take fewer
    bytes."""
    for module, name, paper, claim in (
            (fp8_lm_rows, "largest_models", "FP8-LM", "FP8 trains larger"),
            (coat_rows, "predicted_gb", "COAT", "By its shapes, Llama-2-13B")):
        each, found = row(paper, claim), getattr(module, name)()
        assert each.found(HERE).outcome == "fails"
        ours = {"FP8": found.get("FP8, bf16 products"), "COAT": found.get("bf16 products")}
        monkeypatch.setattr(module, name, lambda: found | ours)
        assert each.found(HERE).outcome == "holds"


def test_sums_of_saved_tensors():
    text = "// COAT:       total 13.3333 13.9583\n// TE:         total 18.3333 18.3333\n"
    assert coat_rows.saved_sums(text) == {"COAT": 13.3333, "TE": 18.3333}


#===----------------------------------------------------------------------===#
# The page
#===----------------------------------------------------------------------===#


def test_counts():
    nothing = dict.fromkeys(STUDIES)
    found = other_papers.counts(nothing, HERE)
    assert [each.total() for name, each in found.items() if name in PAPERS] == [
        len(paper.rows) for paper in other_papers.PAPERS]
    total = sum(each.total() for each in found.values())
    text = papers_answers.count_of_papers(nothing, HERE)
    assert text.startswith(f"**Of {total} results of four papers, ")
    assert f"{len(PAPERS['COAT'].rows)} of COAT" in text
    assert f"({other_papers.exact_count(HERE)} exactly" in text
    rows = other_papers.count_table(found).splitlines()
    assert len(rows) == 2 + 4 and rows[3].startswith(f"| Collage | {len(PAPERS['Collage'].rows)} |")


def test_sections():
    text = other_papers.sections(HERE)
    for name in PAPERS:
        assert f"\n### {name}\n" in text
    assert text.count("\n| ") == len(ROWS) + 2 * len(PAPERS)
