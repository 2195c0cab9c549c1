#===- test_gpu_steps.py - The steps of the check of GPUs -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/gpu/steps.py: the cost of a failure, a hang, a crash and a timeout, and
# all steps with stand-ins for CUDA's libraries.
#
#===----------------------------------------------------------------------===#

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.kernels import compiled
from tandem import _tandem

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = Path(_tandem.__file__).resolve().parents[2] / "runtime"
FOLDER = ROOT / "benchmarks" / "gpu"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import step_runner
import steps
from step_runner import Part

#: Writes results, and then runs code that a test appends.
_WRITES = """
import json, os, signal, sys, time
def write(**result):
    with open(sys.argv[1] + ".new", "w") as file:
        json.dump(result, file)
    os.replace(sys.argv[1] + ".new", sys.argv[1])
"""


def part(name, code="", limit=60.0, **options):
    return Part(name, [sys.executable, "-c", _WRITES + code, "{json}"], limit, **options)


def kernel(**changes):
    return {"kernel": "adamw under bf16", "verdict": "", "error": "", "bytes_per_element": 14,
            "times": []} | changes


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Returns a function that runs parts in place of the steps: the status, and the report so
    far."""
    (tmp_path / "packages").mkdir()
    monkeypatch.setattr(step_runner, "LEAST_SECONDS", 0.1)

    def run(parts, *options):
        names = dict.fromkeys(each.step for each in parts)
        monkeypatch.setattr(steps, "STEPS", {
            name: lambda _, name=name: [p for p in parts if p.step == name] for name in names})
        status = steps.main([str(tmp_path), *options])
        report = json.loads((tmp_path / "gpu-check.json").read_text())
        return status, {record["name"]: record for record in report["parts"]}, report

    return run


#===----------------------------------------------------------------------===#
# Failures
#===----------------------------------------------------------------------===#


def test_what_passes(check, capsys):
    status, parts, _ = check([part("a/x"), part("a/y", "write(more=1)"), part("b")])
    assert status == 0 and {p["status"] for p in parts.values()} == {"passed"}
    assert parts["a/y"]["result"] == {"more": 1}
    out = capsys.readouterr().out
    assert "3 of 3 parts to run" in out and "a/x: passed in" in out and "2 passed" in out


def test_failures_cost_only_themselves(check):
    """Failing parts keep the results that they have found before."""
    code = {
        "fails": f"write(kernels=[{kernel(verdict='plane differs')}]); sys.exit(1)",
        "errors": "print('what is wrong'); sys.exit(3)",
        "crashes": "write(found=1); os.kill(os.getpid(), signal.SIGSEGV)",
        "hangs": "write(found=2); time.sleep(60)", "is absent": "print('no apex'); sys.exit(77)",
        "passes": ""}
    status, parts, _ = check([part(f"a/{name}", text, 2.0) for name, text in code.items()])
    assert status == 1
    assert {name: (p["status"], p["reason"]) for name, p in parts.items()} == {
        "a/fails": ("failed", "adamw under bf16: plane differs"),
        "a/errors": ("failed", "what is wrong"), "a/crashes": ("crashed", "SIGSEGV; "),
        "a/hangs": ("timeout", "killed after 2 s"), "a/is absent": ("skipped", "no apex"),
        "a/passes": ("passed", "")}
    assert parts["a/crashes"]["result"] == {"found": 1}
    assert parts["a/hangs"]["result"] == {"found": 2}


def test_what_a_process_has_started_dies_with_it(check, tmp_path):
    code = f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(tmp_path)!r} + "/" + sys.argv[1].rpartition("/")[2] + ".pid", "w").write(str(child.pid))
"""
    check([part("ends", code), part("hangs", code + "time.sleep(60)", 3.0)])
    pids = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    assert len(pids) == 2
    for _ in range(100):
        if not any(_is_alive(pid) for pid in pids):
            return
        time.sleep(0.05)
    pytest.fail("a process lives on")


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_that_is_not_there(check):
    status, parts, _ = check([Part("a", ["/nowhere/program"]), part("b")])
    assert status == 1 and parts["b"]["status"] == "passed"
    assert parts["a"]["status"] == "failed" and "/nowhere/program" in parts["a"]["reason"]


def test_what_is_known_to_be_absent_is_not_run(check):
    status, parts, _ = check([part("a", "sys.exit(1)", absent="the folder has no a.tdm")])
    assert status == 0 and parts["a"]["status"] == "skipped"


def test_results_are_judged(check):
    def judge(result):
        return "too few" if result["count"] < 2 else ""

    status, parts, _ = check([part(f"a/{n}", f"write(count={n})", judge=judge) for n in (1, 2)])
    assert status == 1 and parts["a/1"]["reason"] == "too few"
    assert parts["a/2"]["status"] == "passed"


#===----------------------------------------------------------------------===#
# Resuming
#===----------------------------------------------------------------------===#


@pytest.fixture
def counted(tmp_path):
    """Returns a factory of parts that log their runs, and the runs since the last query."""
    log = tmp_path / "log"
    log.touch()

    def make(name, code="", **options):
        return part(name, f"open({str(log)!r}, 'a').write({name!r} + ' ');" + code, **options)

    def taken():
        names = log.read_text().split()
        log.write_text("")
        return names

    return make, taken


def test_what_is_complete_is_not_run_again(check, counted):
    make, taken = counted
    parts = [make("a/x"), make("a/y", "sys.exit(1)"), make("b", "sys.exit(77)"), make("c")]
    assert check(parts)[0] == 1 and taken() == ["a/x", "a/y", "b", "c"]
    assert check(parts)[0] == 1 and taken() == ["b"]  # b's requirement may exist by now
    assert check(parts, "--only", "c", "--again")[0] == 1 and taken() == ["c"]
    assert check(parts, "--again", "--only", "a/*,b")[0] == 1 and taken() == ["a/x", "a/y", "b"]


def test_the_time_for_all_is_up(check, counted, capsys):
    """The part that was running at the timeout runs again, and so do those that had not run."""
    make, taken = counted
    parts = [make("a"), make("b", "time.sleep(60)"), make("c")]
    start = time.monotonic()
    status, found, _ = check(parts, "--seconds", "3")
    assert time.monotonic() - start < 10
    assert status == 0 and taken() == ["a", "b"]
    assert found["b"]["status"] == "unfinished" and "status" not in found["c"]
    out = capsys.readouterr().out
    assert "not run: c" in out and "b: unfinished: the time for all steps was up" in out
    status, found, _ = check([make("a"), make("b"), make("c")])
    assert status == 0 and taken() == ["b", "c"] and found["b"]["status"] == "passed"


def test_records_go_to_another_machine(check, counted, tmp_path):
    make, taken = counted
    parts = [make("a", "write(x=1)"), make("b")]
    check(parts, "--only", "a")
    report = tmp_path / "other.json"
    shutil.copy(tmp_path / "gpu-check.json", report)
    shutil.rmtree(tmp_path / "results")
    taken()
    _, found, _ = check(parts, "--resume", str(report))
    assert taken() == ["b"] and found["a"]["result"] == {"x": 1}


_INTERRUPTED = """
import sys
sys.path[:0] = {path!r}
import step_runner, steps
from step_runner import Part
steps.STEPS = {{"a": lambda check: [Part("a", [sys.executable, "-c", "import time; time.sleep(60)"])]}}
step_runner.stop_on_signals()
sys.exit(steps.main([{folder!r}]))
"""


def test_an_interruption_leaves_a_report(tmp_path):
    (tmp_path / "packages").mkdir()
    text = _INTERRUPTED.format(path=[str(FOLDER), str(FOLDER.parent)], folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "a ..." in line:
            break
    process.terminate()
    out = process.stdout.read()
    assert process.wait() == 1 and "interrupted" in out
    (record,) = json.loads((tmp_path / "gpu-check.json").read_text())["parts"]
    assert record["status"] == "unfinished"


def test_some_parts_run_together(check):
    code = "write(begun=time.time()); time.sleep(1)"
    parts = [part(f"a/{i}", code, together=True) for i in range(4)] + [part("b", code)]
    _, found, _ = check(parts, "--jobs", "4")
    begun = [found[f"a/{i}"]["result"]["begun"] for i in range(4)]
    assert max(begun) - min(begun) < 1
    assert found["b"]["result"]["begun"] > max(begun) + 0.9


#===----------------------------------------------------------------------===#
# The report
#===----------------------------------------------------------------------===#


def test_results_are_merged(check, capsys):
    """A kernel's rows are merged from several parts, and the parts are listed."""
    time_row = {"of": "one tensor", "tensors": 1, "elements": 10**6, "ms": 2.0, "gb_per_s": 7.0}
    device = {"device": "a GPU", "target": "sm_90", "driver": 13000, "multiprocessors": 100}

    def writes(**result):
        return f"write(**{result!r})"

    _, _, report = check([
        part("probe", writes(machine={"cores": 2}, nvidia={"clock_hz": 1e9}, **device)),
        part("kernels/x.ptx", writes(kernels=[kernel(verdict="equal")], **device)),
        part("kernels/x.O0", writes(kernels=[kernel(verdict="equal")])),
        part("kernels/x.cubin", writes(kernels=[kernel(error="no cubin")]) + "; sys.exit(77)"),
        part("large/x", writes(kernels=[kernel(verdict="equal", large={"elements": 9})])),
        part("speed/x", writes(kernels=[kernel(times=[time_row])], copy_gb_per_s=10.0, **device)),
        part("start/x", writes(kernels=[kernel(start_ms={"compiled": 3.0, "cached": 1.0})])),
        part("host", writes(host_us={"400": {"launch": 1.0}})),
        part("peers/x", writes(peers=[{"name": "apex", "times": [{"of": "GPT-2",
                                                                 "absent": "no apex"}]}]))])
    (found,) = report["kernels"]
    assert found["verdict"] == "equal" and found["images"] == {"ptx": "equal", "O0": "equal"}
    assert found["large"] == {"elements": 9, "verdict": "equal"}
    assert found["start_ms"]["cached"] == 1.0 and found["times"][0]["gb_per_s"] == 7.0
    assert found["times"][0]["predicted_ms"]["bytes"] == 1.4
    assert report["device"] == "a GPU" and report["copy_gb_per_s"] == 10.0
    assert report["machine"] == {"cores": 2} and report["host_us"]["400"]["launch"] == 1.0
    out = capsys.readouterr().out
    assert "70% of a copy" in out and "1 of 1 kernels leave the CPU's bits" in out


def test_an_image_with_other_bits(check):
    _, _, report = check([
        part("kernels/x.ptx", f"write(kernels=[{kernel(verdict='equal')}])"),
        part("kernels/x.O0", f"write(kernels=[{kernel(verdict='differs')}]); sys.exit(1)")])
    assert report["kernels"][0]["verdict"] == "O0: differs"


def test_skipped_tests_on_a_gpu_are_failures():
    def result(name, outcome):
        return {"testsuites": [{"name": "On/Phases", "testsuite": [
            {"name": name, "result": outcome}]}]}

    assert steps.judge_runtime(result("Totals/CUDA", "SKIPPED")) == (
        "skipped: On/Phases.Totals/CUDA")
    assert steps.judge_runtime(result("Totals/CUDA", "COMPLETED")) == ""
    assert steps.judge_runtime(result("Totals/CPU", "SKIPPED")) == ""
    assert steps.judge_runtime({}) == "the tests have left no JSON"


#===----------------------------------------------------------------------===#
# The command
#===----------------------------------------------------------------------===#


def test_list(check, tmp_path, capsys):
    parts = [part("a/x"), part("a/y", limit=7.0), part("b")]
    check(parts, "--only", "a/x")
    capsys.readouterr()
    assert steps.main([str(tmp_path), "--list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["a/x", "60", "s", "passed"], ["a/y", "7", "s", "not", "run"],
        ["b", "60", "s", "not", "run"]]


def test_options(check, tmp_path, capsys):
    check([part("a"), part("b")], "--only", "b")
    assert steps.main([str(tmp_path), "--only", "a,nothing"]) == 2
    assert "there is no step or part 'nothing'; steps are a, b" in capsys.readouterr().err
    for wrong in (["--seconds", "0"], ["--jobs", "-1"], ["--unknown"], ["--seconds", "x"]):
        with pytest.raises(SystemExit, match="2"):
            steps.main([str(tmp_path), *wrong])
    with pytest.raises(SystemExit, match="2"):
        steps.main([str(tmp_path / "nowhere")])
    assert "has no packages; make it with gpu-check.sh prepare" in capsys.readouterr().err


#===----------------------------------------------------------------------===#
# All steps
#===----------------------------------------------------------------------===#


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes a folder like that of `gpu-check.sh stage`, with only what the steps need here."""
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("check")
    for name in ("packages", "lib", "bin"):
        (folder / name).mkdir()
    for path in (*RUNTIME.glob("libtandem_runtime.so*"),
                 *RUNTIME.glob("cts/libtandem_fake_cu*[at].so")):
        (folder / "lib" / path.name).symlink_to(path)
    targets = ["x86-64", "x86-64-v3", "sm_90"]
    compiled("sgd", "bf16", flags=True).save(folder / "packages/sgd-bf16.tdm", targets)
    compiled("adamw", "bf16", flags=True).save(folder / "packages/adamw-bf16.tdm", targets)
    subprocess.run(
        ["g++", "-std=c++17", "-O1", f"-I{ROOT}/runtime/include",
         *map(str, (ROOT / "examples" / "gpu_check").glob("*.cpp")), "-o",
         str(folder / "bin/gpu_check"), f"-L{folder}/lib", "-ltandem_runtime",
         f"-Wl,-rpath,{RUNTIME}"], check=True)
    return folder


def run_steps(folder, *options):
    return subprocess.run(
        [str(ROOT / "scripts/gpu-check.sh"), "run", str(folder), "--stand-in", *options],
        capture_output=True, text=True, env=os.environ | {"PYTHON": sys.executable})


def test_all_steps_of_kernels(folder):
    done = run_steps(folder, "--only", "probe,kernels,large,products,speed,host,start,speed-rest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (folder / "gpu-check.json").exists()
    report = json.loads((folder / "stand-in/gpu-check.json").read_text())
    kernels = {kernel["kernel"]: kernel for kernel in report["kernels"]}
    assert set(kernels) == {"sgd under bf16", "adamw under bf16"}
    for found in kernels.values():
        assert found["verdict"] == "equal" and "ptx" in found["images"]
        assert [row["of"] for row in found["times"]] == ["one tensor", "GPT-2"]
    assert kernels["sgd under bf16"]["large"]["verdict"] == "equal"
    assert kernels["adamw under bf16"]["start_ms"]["cached"] > 0
    assert {row["verdict"] for row in report["products"]} == {"right"}
    assert set(report["host_us"]) == {"400", "4000"} and report["machine"]["cores"]
    skipped = {r["name"] for r in report["parts"] if r.get("status") == "skipped"}
    assert "speed/adamw-flash" in skipped and "large/adamw-adam8bit" in skipped
    assert re.search(r"^torch +\d not run$", done.stdout, re.MULTILINE)
    assert run_steps(folder, "--list", "--only", "probe").stdout.split()[-1] == "passed"


@pytest.fixture(scope="module")
def torch_steps():
    pytest.importorskip("torch")
    import torch_steps

    return torch_steps


@pytest.fixture(scope="module")
def stand_in(torch_steps):
    return torch_steps.StandIn()


@pytest.mark.parametrize("name", steps.TORCH)
def test_steps_of_torch(torch_steps, stand_in, monkeypatch, name):
    monkeypatch.setenv("TANDEM_CUBLASLT", str(RUNTIME / "cts/libtandem_fake_cublaslt.so"))
    wanted = "close" if name in ("model", "products") else "equal"
    rows = [torch_steps.run(name, *case) for case in torch_steps.CHECKS[name](stand_in)]
    assert rows and all(row.get("verdict") == wanted for row in rows), rows


def test_other_bits_are_seen(torch_steps, stand_in):
    """Different bits are reported, and a case that raises gets a row, too."""
    def train(place, optimizer):
        plain(place, optimizer, range(2 + (place is stand_in)))

    plain = torch_steps.train
    found = torch_steps.same_steps(stand_in, "AdamW", "collage-plus", train)
    assert "elements of parameter 0 differ" in found and "has made 3 steps, not 2" in found
    row = torch_steps.run("steps", "a case", lambda: 1 // 0)
    assert row["error"] == "ZeroDivisionError: integer division or modulo by zero"


def test_torch_without_a_gpu(torch_steps):
    if torch_steps.torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="1"):
        torch_steps.GPU()


def test_a_process_of_torch(folder):
    pytest.importorskip("torch")
    done = run_steps(folder, "--only", "torch/graph-cold")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((folder / "stand-in/gpu-check.json").read_text())
    assert report["torch"] == [{"check": "graph-cold", "case": "AdamW under collage-plus",
                                "verdict": "equal"}]
