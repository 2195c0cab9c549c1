#===- test_verification.py - Compiled code, operand by operand ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the parts of tandem-verify that fit into a test, completely or for a sample of
# their units, and tests the tool, its driver and the page.
#
#===----------------------------------------------------------------------===#

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.kernels import require_isa

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "verification"))

import sanitized_run  # noqa: E402
import verification_page as page  # noqa: E402
import verification_plan as plan  # noqa: E402
import verification_run as driver  # noqa: E402

SMALL = "(bf16|f16|f8E4M3FN|f8E5M2)"
BYTES = "(f8E4M3FN|f8E5M2)"
WIDE = "(bf16|f16)"
PAIRS = ("(add|sub|mul|div|fast_two_sum|two_sum|ordered_two_sum|two_prod|"
         "two_prod_dekker)")


def verify(*arguments):
    """Returns the tool's output lines and exit status."""
    done = subprocess.run([driver.TOOL, *map(str, arguments)], capture_output=True,
                          text=True)
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


PARTS = {part["part"]: part for part in verify("--list")[0]}


def names(pattern):
    found = [name for name in PARTS if re.fullmatch(pattern, name)]
    assert found, pattern
    return ",".join(found)

#===----------------------------------------------------------------------===#
# Parts
#===----------------------------------------------------------------------===#


# The fraction of each part that runs: one unit in `stride`. Odd strides cover operands of both
# signs and all exponents.
RUNS = {
    "oracle-bytes": (f"oracle-{BYTES}", 1),
    "oracle-halves": (f"oracle-{WIDE}", 12),
    "all-byte-pairs": (f"{BYTES}-{PAIRS}", 1),
    "all-byte-triples": (f"{BYTES}-fma", 1),
    "half-pairs": (f"{WIDE}-{PAIRS}", 509),
    "half-triples": (f"{WIDE}-fma", 20011),
    "byte-lemmas": (f"{BYTES}-(trail-.*|unrounded|grown)", 1),
    "half-lemmas": (f"{WIDE}-(trail-.*|unrounded)|bf16-fma-sums", 509),
    "every-f32-to-bf16": ("bf16-convert", 1),
    "conversions": ("(f16|f8E4M3FN|f8E5M2)-convert", 509),
    "reads": (f"{SMALL}-read", 1),
    "powers": ("f32-(log2|exp2)", 509),
    "functions": ("f32-(exp|log|tanh|erf)", 509),
    "codes": (".*-write", 1021),
    "codes-read": ("(?!remainder|residual|mulaw).*-read", 1),
    "planes-read": ("(remainder|residual.*)-read", 1021),
    "scaled-codes-read": ("mulaw4?-.*-read", 127),
    "byte-expansions": (f"{BYTES}-x2-(grow|scale|kahan|sqrt|renormalize)", 1),
    "byte-expansion-pairs": (f"{BYTES}-x2-(mul|add|sub|div)", 1021),
    "half-expansions": (f"{WIDE}-x2-.*", 2039),
    "few-bits": ("p[34]-x2-.*", 1),
    "five-bits": ("p5-x2-.*", 3),
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("isa", plan.ISAS)
@pytest.mark.parametrize("name", RUNS)
def test_parts(name, isa):
    pattern, stride = RUNS[name]
    require_isa(isa)
    if isa != "native" and not any(PARTS[p]["compiled"] for p in names(pattern).split(",")):
        pytest.skip("no compiled code")
    found, status = verify("--part", names(pattern), "--stride", stride, "--isa", isa)
    for line in found:
        assert line["failures"] == 0, f"{line['part']}: {line['first']}"
        assert line["cases"] > 0
    assert status == 0 and len(found) == len(names(pattern).split(","))


def test_promises_have_parts():
    """Each part belongs to exactly one promise."""
    for name in PARTS:
        assert sum(promise.has(name) for promise in plan.PROMISES) == 1, name
    for promise in plan.PROMISES:
        assert any(promise.has(name) for name in PARTS), promise.title

#===----------------------------------------------------------------------===#
# Faults are found
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("part, expected, first", [
    # 0 + 0 equals 0 - 0.
    ("bf16-add", "bf16-sub",
     "a=0x0000 b=0x0001 gives r=0x0001, but r=0x8001 is expected"),
    ("f8E5M2-two_prod", "f8E5M2-two_prod_dekker", "is expected"),
    ("f8E4M3FN-x2-mul", "f8E4M3FN-x2-add", "is expected")])
def test_wrong_operation_is_found(part, expected, first):
    (line,), status = verify("--part", part, "--expect", expected, "--end", 1)
    assert status == 1 and line["failures"] > 0 and first in line["first"]


@pytest.mark.parametrize("part, expected", [
    # Other bits.
    ("residual-dither-write", "residual-stochastic-write"),
    ("softsign-stochastic-write", "softsign-dither-write"),
    # To nearest.
    ("residual-f16-i8-stochastic-write", "residual-f16-i8-write"),
    ("root-dither-write", "root-write"),
    # Another format.
    ("residual-f16-i8-dither-write", "residual-dither-write"),
    ("mulaw-signed-write", "mulaw-unsigned-write"),
    ("mulaw-unsigned-dither-write", "mulaw-signed-dither-write"),
    ("mulaw-unsigned-read", "mulaw-signed-read"),
    # Codes of four bits.
    ("mulaw4-unsigned-dither-write", "mulaw4-signed-dither-write"),
    ("mulaw4-signed-read", "mulaw4-unsigned-read"),
    ("linear4-dither-write", "linear4-stochastic-write"),
    ("linear4-read", "e2m1-read")])
def test_wrong_rule_is_found(part, expected):
    """The unit of a write has the numbers from 1/2 on."""
    unit = 0x3F00 if part.endswith("-write") else 0
    (line,), status = verify("--part", part, "--expect", expected, "--begin", unit,
                             "--end", unit + 1)
    assert status == 1 and line["failures"] > 1000 and "is expected" in line["first"]


def test_scales_are_compared():
    """Where each number is negative, more differs than the codes."""
    (line,), _ = verify("--part", "mulaw-signed-write", "--expect", "mulaw-unsigned-write",
                        "--begin", 0xBF00, "--end", 0xBF01)
    assert line["failures"] > line["cases"]


@pytest.mark.parametrize("part, case", [("bf16-mul", 3 * 65536 + 777), ("f32-log2", 12345)])
def test_flipped_bit_is_found(part, case):
    (good,), _ = verify("--part", part, "--end", 4)
    (line,), status = verify("--part", part, "--end", 4, "--flip", case)
    assert (status, line["failures"]) == (1, 1)
    assert line["hash"] != good["hash"]
    operands = re.findall(r"[abx]=0x(\w+)", line["first"])
    assert [int(o, 16) for o in operands] == (
        [case // 65536, case % 65536] if part == "bf16-mul" else [case])


def test_bounds_are_measured():
    """mul needs a larger bound than add's."""
    (line,), _ = verify("--part", "p6-x2-mul", "--end", 50)
    assert 2 < line["worst"]["error in u^2"]["value"] <= 5
    assert line["worst"]["error in u^2"]["bound"] == 5


@pytest.mark.parametrize("arguments, word", [
    (["--part", "bf16-pow"], "there is no part 'bf16-pow'"),
    (["--part", "bf16-add", "--expect", "bf16-fma"], "--expect"),
    (["--part", "residual-read", "--expect", "residual-bf16-i16-read"], "--expect"),
    (["--part", "bf16-add", "--stride", "0"], "--stride"),
    (["--part", "bf16-add", "--isa", "sparc"], "unknown instruction set")])
def test_refusals(arguments, word):
    done = subprocess.run([driver.TOOL, *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and word in done.stderr

#===----------------------------------------------------------------------===#
# The driver and the page
#===----------------------------------------------------------------------===#


def drive(folder, *arguments):
    return subprocess.run(
        [sys.executable, ROOT / "verification/verification_run.py", "--results", folder, "--isas",
         "native", *arguments], capture_output=True, text=True)


def entries(folder):
    return json.loads((folder / "exhaustive.json").read_text())["parts"]


def test_driver_continues(tmp_path):
    """Shards together have the number of cases and the hash of the whole."""
    pattern = ["--parts", "f8E5M2-fma"]
    assert "the time is up" in drive(tmp_path, *pattern, "--budget", "0").stdout
    assert drive(tmp_path, *pattern).returncode == 0
    entry = entries(tmp_path)["f8E5M2-fma native"]
    (whole,), _ = verify("--part", "f8E5M2-fma", "--threads", 2)
    for key in ("cases", "hash", "failures"):
        assert entry[key] == whole[key]
    assert entry["done"] == entry["units"] == 256
    # Completed units are not run again.
    again = drive(tmp_path, *pattern)
    assert "[1/1]" not in again.stdout and "done" in again.stdout
    assert "no part" in drive(tmp_path, "--parts", "nothing").stderr


def test_other_code_begins_anew(tmp_path):
    """Recorded results apply only to the code that the compiler generated then."""
    pattern = ["--parts", "f8E5M2-(add|sub)"]
    assert drive(tmp_path, *pattern).returncode == 0
    assert drive(tmp_path, *pattern, "--stale").returncode == 0
    content = json.loads((tmp_path / "exhaustive.json").read_text())
    assert re.fullmatch("[0-9a-f]{16}", content["parts"]["f8E5M2-add native"]["code"])
    content["parts"]["f8E5M2-add native"] |= {"code": "0" * 16, "hash": "0" * 16}
    content["parts"]["f8E5M2-sub native"] |= {"failures": 1, "first": "a=0x01"}
    (tmp_path / "exhaustive.json").write_text(json.dumps(content))
    stale = drive(tmp_path, *pattern, "--stale")
    assert (stale.returncode, stale.stdout.split()) == (1, ["f8E5M2-add", "native"])
    assert drive(tmp_path, *pattern).returncode == 0
    assert all(e["hash"] != "0" * 16 and not e["failures"] for e in entries(tmp_path).values())


def test_two_runs_write_one_record(tmp_path):
    """Each run keeps the findings of the other."""
    first, second = driver.Results(tmp_path), driver.Results(tmp_path)
    jobs = driver.list_jobs(driver.TOOL, "f8E5M2-(add|sub)", ["native"])
    begun = [first.entry(jobs[0], 1), second.entry(jobs[1], 1)]
    first.save(begun[0] | {"failures": 3})
    second.save(begun[1])
    assert entries(tmp_path)["f8E5M2-add native"]["failures"] == 3
    assert len(entries(tmp_path)) == 2


def test_what_replaces_proofs_is_of_todays_code():
    """The runs over all operands that replace proofs used the code of the current compiler."""
    record = json.loads((page.RESULTS / "proofs.json").read_text())["rows"]
    known = {e["part"]: e for e in page.read_parts(page.RESULTS)}
    certificates = {row["certificate"] for row in record if row["result"].startswith("gap")}
    parts = sorted(certificates & known.keys())
    codes = driver.hash_codes(driver.TOOL, parts)
    assert parts and [p for p in parts if known[p].get("code") != codes[p]] == [], \
        "run scripts/verify.sh --parts with these names"


def test_quick(tmp_path):
    done = drive(tmp_path, "--quick", "--parts", "(bf16-add|f16-x2-grow|softsign-(write|read))")
    assert done.returncode == 0, done.stdout
    found = entries(tmp_path)
    assert len(found) == 4 and all(e["done"] == e["units"] for e in found.values())
    text = page.page(tmp_path)
    assert "no failure" in text and "Not run yet" in text


def test_page_names_what_has_not_run(tmp_path):
    job, other = driver.list_jobs(driver.TOOL, "f8E5M2-(add|sub)", ["native"])
    results = driver.Results(tmp_path)
    results.expect([job, other])
    assert drive(tmp_path, "--parts", "f8E5M2-add").returncode == 0
    assert "**Not run:** `f8E5M2-sub native`." in page.page(tmp_path)


def test_page_tells_measures_from_checks():
    entry = {"failures": 0, "done": 1, "units": 1, "isa": "",
             "worst": {"error": {"value": 1.0, "bound": None, "at": ""}}}
    assert page.state_text(entry) == "measured: there is no bound"
    entry["worst"]["error"]["bound"] = 2.0
    assert page.state_text(entry) == "no failure"


def test_page_shows_failures(tmp_path):
    entry = {"part": "bf16-add", "isa": "native", "units": 4, "done": 2, "cases": 2 << 16,
             "failures": 1, "first": "a=0x0001", "hash": "0" * 16, "seconds": 1.0,
             "worst": {}, "counts": {}, "stride": 1, "commit": "0" * 40,
             "changed_files": 0, "date": "2026-01-01"}
    machine = {"cpu": "", "cpuid": "", "cores": 1, "memory_gib": 1, "date": "",
               "commit": "0" * 40, "changed_files": 0}
    row = {"promise": "p | q", "how": "h", "cases": 1 << 32, "seconds": 0.5, "worst": None,
           "command": "c", "result": "proved"}
    (tmp_path / "exhaustive.json").write_text(
        json.dumps({"machine": machine, "parts": {"bf16-add native": entry}}))
    (tmp_path / "proofs.json").write_text(json.dumps({"machine": machine, "rows": [row]}))
    text = page.page(tmp_path)
    assert "**1 failures**, first: `a=0x0001`" in text
    assert "| p \\| q | h | 4.29e9 | 0.5 s |  | proved | `c` |" in text
    entry |= {"failures": 0}
    assert page.state_text(entry) == "no failure in the first 50.0 %"


def test_page_is_up_to_date():
    assert (ROOT / "docs/Verification.md").read_text() == page.page(page.RESULTS), \
        "run verification/verification_page.py"

#===----------------------------------------------------------------------===#
# Sanitizers
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("command, cases, result", [
    (["echo", "12 cases, 3 cases"], 15, "no failure"),
    (["sh", "-c", "echo 12 cases; exit 1"], 12, "**failed**"),
    (["echo", "nothing ran"], 0, "**failed**"), (["echo", "0 cases"], 0, "**failed**")])
def test_a_run_under_sanitizers(command, cases, result):
    row = sanitized_run.run("name", r"(\d+) cases", *command)
    assert (row["cases"], row["result"]) == (cases, result)


def test_the_page_has_sanitizers(tmp_path):
    content = {"rows": [sanitized_run.run("the parser", r"(\d+) cases", "echo", "7 cases")],
               "machine": driver.machine()}
    (tmp_path / "sanitized.json").write_text(json.dumps(content))
    text = page.section_text(tmp_path, *page.SECTIONS[1])
    assert "| the parser | address, undefined behaviour | 7 |" in text
    assert "In all: 1 no failure." in text
