#===- steps.py - The check of a GPU in steps -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file defines the steps that scripts/gpu-check.sh runs on a GPU machine.
#
#===----------------------------------------------------------------------===#
"""steps.py FOLDER: checks and measures the content of FOLDER on this machine's GPU.

Correctness comes before speed. Each part of a step is a process with a time limit and a record in
FOLDER/results, so that a failure, a hang or a broken CUDA context affects only that part. Parts
with a complete record are not run again; when the time is up, the same command continues where this
run stopped. FOLDER/gpu-check.json has all records and is merged after each part. With --stand-in,
results are in FOLDER/stand-in.
"""

import argparse
import fnmatch
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]
import peers  # noqa: E402
import probe  # noqa: E402
import step_report  # noqa: E402
import step_runner  # noqa: E402
from step_runner import Part  # noqa: E402

#: The packages that are measured first.
SPEED = ("adamw-fp32", "adamw-bf16", "adamw-collage-plus", "adamw-coat", "adamw-adam8bit",
         "adamw-flash", "adamw-fp8-lm", "adamw-residual-softsign-root", "rms_norm-coat")
#: Packages whose step is compared over more than 2^31 elements.
LARGE = ("sgd-bf16", "adamw-adam8bit")
LARGE_ELEMENTS = 2**31 + 2**20
#: The subfolder of the cache that starts empty, without machine code from earlier runs.
EMPTY_CACHE = "cache-of-starts"
TORCH = ("steps", "side-stream", "graph", "graph-cold", "found-inf", "scaler", "layers",
         "model", "products")
#: The tests that can use a real driver. Those of tandem.torch cannot, since they replace GPU
#: tensors with CPU tensors; torch_steps.py covers them on a GPU.
PYTEST = ("runtime/test_cuda",)


@dataclass(frozen=True)
class Check:
    """The options of a check."""

    folder: pathlib.Path
    stand_in: bool = False
    python: str = sys.executable

    @property
    def program(self) -> str:
        return str(self.folder / "bin/gpu_check")

    @property
    def output(self) -> pathlib.Path:
        """The folder of results; results without a GPU have a separate one."""
        return self.folder / "stand-in" if self.stand_in else self.folder

    def package(self, name: str) -> pathlib.Path:
        return self.folder / "packages" / f"{name}.tdm"

    def packages(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("packages/*.tdm"))

    def library(self, name: str) -> str:
        return str(self.folder / "lib" / f"lib{name}.so")

    def environment(self, cache: str = "cache") -> dict[str, str]:
        """Returns the environment of all processes, with caches and libraries in the folder."""
        own = {"TANDEM_CACHE_DIR": str(self.output / cache), "CUDA_CACHE_DISABLE": "1",
               "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
               "LD_LIBRARY_PATH": _joined(self.folder / "lib", "LD_LIBRARY_PATH")}
        if (self.folder / "python").is_dir():
            own["PYTHONPATH"] = _joined(self.folder / "python", "PYTHONPATH")
        if self.stand_in:
            own |= {"TANDEM_CUDA_DRIVER": self.library("tandem_fake_cuda"),
                    "TANDEM_CUBLASLT": self.library("tandem_fake_cublaslt")}
        return own

    def kernel_part(self, name: str, package: str, *options: str, limit: float = 60,
                    together: bool = False, cache: str = "cache", cpu: bool = False) -> Part:
        """Returns a part that runs gpu_check over a package. With --stand-in, `cpu` selects the
        CPU for work that the fake driver cannot do."""
        path = self.package(package)
        cpu_option = ["--cpu"] if cpu and self.stand_in else []
        return Part(name, [self.program, *cpu_option, *options, "--json={json}", str(path)],
                    limit, self.environment(cache), together,
                    "" if path.exists() else f"the folder has no {path.name}")


def _joined(path: pathlib.Path, name: str) -> str:
    return os.pathsep.join(filter(None, (str(path), os.environ.get(name, ""))))


#===------------------------------------------------------------------------===#
# Steps
#===------------------------------------------------------------------------===#


def probe_parts(check: Check) -> Iterable[Part]:
    """Yields parts that probe the GPU and the programs, and run a kernel of one element."""
    kernel = check.kernel_part("probe", "sgd-bf16", "--compare", "--largest=1", cpu=True)
    package = [*kernel.command[:-2], kernel.command[-1]]
    yield Part("probe", [check.python, str(HERE / "probe.py"), "--json", "{json}",
                         "--gpu-check", *package], 120, check.environment(),
               absent=kernel.absent)


def kernel_parts(check: Check) -> Iterable[Part]:
    """Yields parts that compare every package's kernels with the CPU's bits: with the driver's
    compilation of the PTX, the package's machine code, and ptxas with -O0 and -O3."""
    small = ["--largest=20000"] if check.stand_in else []
    ptxas = probe.find_ptxas()
    images = {"ptx": ["--image=ptx"], "cubin": ["--image=cubin"],
              "O0": [f"--ptxas={ptxas} -O0"], "O3": [f"--ptxas={ptxas} -O3"]}
    for image, options in images.items():
        for package in check.packages():
            part = check.kernel_part(f"kernels/{package}.{image}", package, "--compare",
                                     *options, *small, limit=60, together=True, cpu=True)
            missing = image.startswith("O") and not ptxas
            yield _absent(part, "there is no ptxas") if missing else part


def _absent(part: Part, reason: str) -> Part:
    return Part(part.name, part.command, absent=part.absent or reason)


def judge_runtime(result: dict) -> str:
    """Returns an error if a test that needs a GPU was skipped."""
    if not result:
        return "the tests have left no JSON"
    skipped = [f"{suite['name']}.{test['name']}" for suite in result.get("testsuites", ())
               for test in suite.get("testsuite", ()) if test.get("result") == "SKIPPED"]
    on_gpu = [name for name in skipped if "CUDA" in name]
    return f"skipped: {', '.join(on_gpu)}" if on_gpu else ""


def runtime_parts(check: Check) -> Iterable[Part]:
    """Yields the runtime's own tests with this machine's driver."""
    program = check.folder / "bin/tandem_runtime_cts"
    environment = check.environment()
    if check.stand_in:  # the tests find the stand-ins themselves
        del environment["TANDEM_CUDA_DRIVER"], environment["TANDEM_CUBLASLT"]
    else:
        environment["TANDEM_CUDA_DRIVER"] = "libcuda.so.1"
    kernels = check.folder / "lib/tandem_test_kernels.ptx"
    if kernels.exists():
        environment["TANDEM_TEST_PTX"] = str(kernels)
    needed = (program,) if check.stand_in else (program, kernels)
    missing = [path.name for path in needed if not path.exists()]
    yield Part("runtime", [str(program), "--gtest_output=json:{json}",
                           *([] if check.stand_in else ["--gtest_filter=-StandIn*"])],
               120, environment, judge=judge_runtime,
               absent=f"the folder has no {' and no '.join(missing)}" if missing else "")


def large_parts(check: Check) -> Iterable[Part]:
    """Yields a step over more than 2^31 elements."""
    elements = 300001 if check.stand_in else LARGE_ELEMENTS
    for package in LARGE:
        yield check.kernel_part(f"large/{package}", package, "--large", "--image=ptx",
                                f"--elements={elements}", "--seconds=120", limit=180, cpu=True)


def torch_parts(check: Check) -> Iterable[Part]:
    """Yields checks of tandem.torch with GPU parameters."""
    for name in TORCH:
        yield Part(f"torch/{name}", [check.python, str(HERE / "torch_steps.py"), name,
                                     "--json", "{json}",
                                     *(["--stand-in"] if check.stand_in else [])],
                   90, check.environment())


def pytest_parts(check: Check) -> Iterable[Part]:
    """Yields the repository's tests that can run on a GPU."""
    environment = check.environment() | {"TANDEM_TEST_GPU": "stand-in" if check.stand_in
                                         else "real"}
    part = ["-k", "sgd or devices or errors"] if check.stand_in else ["--whole"]
    for name in PYTEST:
        path = ROOT / "test/Python" / f"{name}.py"
        yield Part(f"pytest-cuda/{path.stem}",
                   [check.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
                    *part, str(path)], 150, environment,
                   absent="" if path.exists() else f"there is no {name}.py")


def product_parts(check: Check) -> Iterable[Part]:
    """Yields cuBLASLt's products of 8-bit floats."""
    width = ["--width=32"] if check.stand_in else []
    yield Part("products", [check.program, "--products", *width, "--json={json}"], 60,
               check.environment())


def _speed_part(check: Check, step: str, package: str) -> Part:
    sizes = ["--elements=8000", "--tensors=3"] if check.stand_in else []
    return check.kernel_part(f"{step}/{package}", package, "--measure", "--image=ptx", *sizes,
                             limit=60)


def speed_parts(check: Check) -> Iterable[Part]:
    """Returns parts that time steps over 10^9 elements and GPT-2's tensors, and a copy."""
    return (_speed_part(check, "speed", package) for package in SPEED)


def host_parts(check: Check) -> Iterable[Part]:
    """Yields a measurement of a launch's host time."""
    yield check.kernel_part("host", "adamw-bf16", "--host", "--image=ptx")


def start_parts(check: Check) -> Iterable[Part]:
    """Yields measurements from package to first launch, with and without the cache."""
    for package in SPEED:
        yield check.kernel_part(f"start/{package}", package, "--start", "--image=ptx",
                                cache=f"{EMPTY_CACHE}/{package}")


def peer_parts(check: Check) -> Iterable[Part]:
    """Yields measurements of what PyTorch users would otherwise use."""
    small = ["--device", "cpu", "--elements", "1280", "--tensors", "2", "--rows", "2",
             "--steps", "1", "--compared", "128"] if check.stand_in else []
    for name in peers.names():
        slug, lacking = re.sub(r"[^a-z0-9]+", "-", name.lower()), peers.missing(name)
        yield Part(f"peers/{slug}", [check.python, str(HERE / "peers.py"), name, "--json",
                                     "{json}", *small], 120, check.environment(),
                   absent=f"{lacking} is not installed" if lacking else "")


def rest_parts(check: Check) -> Iterable[Part]:
    """Returns parts that time all other kernels, if there is time left."""
    return (_speed_part(check, "speed-rest", package) for package in check.packages()
            if package not in SPEED)


#: The steps in the order in which they run.
STEPS: dict[str, Callable[[Check], Iterable[Part]]] = {
    "probe": probe_parts, "kernels": kernel_parts, "runtime": runtime_parts,
    "large": large_parts, "torch": torch_parts, "pytest-cuda": pytest_parts,
    "products": product_parts, "speed": speed_parts, "host": host_parts,
    "start": start_parts, "peers": peer_parts, "speed-rest": rest_parts,
}


#===------------------------------------------------------------------------===#
# The command
#===------------------------------------------------------------------------===#


def all_parts(check: Check) -> list[Part]:
    return [part for make in STEPS.values() for part in make(check)]


def select(parts: Sequence[Part], patterns: str) -> list[Part]:
    """Returns the named parts: steps, parts or patterns of parts, separated by commas."""
    if not patterns:
        return list(parts)
    chosen: set[str] = set()
    for pattern in patterns.split(","):
        found = {part.name for part in parts
                 if part.step == pattern or fnmatch.fnmatchcase(part.name, pattern)}
        if not found:
            raise ValueError(f"there is no step or part '{pattern}'; steps are "
                             + ", ".join(STEPS))
        chosen |= found
    return [part for part in parts if part.name in chosen]


def restore(report: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies records from a report that the folder does not have."""
    for record in step_runner.read_json(report).get("parts", ()):
        path = folder / (record["name"].replace("/", ".") + ".json")
        if "status" in record and not path.exists():
            step_runner.write_json(path, record)


def report_of(check: Check, runner: step_runner.Runner, parts: Sequence[Part]) -> dict:
    records = [runner.record_of(part) or {"name": part.name} for part in parts]
    prepared = step_runner.read_json(check.folder / "prepared.json")
    return step_report.merge(records, prepared)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu-check.sh run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", metavar="STEP,...",
                        help="only these steps or parts, such as kernels/adamw-*.ptx")
    parser.add_argument("--list", action="store_true", help="the parts and their records")
    parser.add_argument("--again", action="store_true", help="also what is complete")
    parser.add_argument("--seconds", type=float, default=540, help="for everything")
    parser.add_argument("--jobs", type=int, default=4, help="comparisons at a time")
    parser.add_argument("--resume", type=pathlib.Path, metavar="JSON",
                        help="a report with the records of another machine")
    parser.add_argument("--stand-in", action="store_true",
                        help="tries the steps without a GPU, over small tensors")
    options = parser.parse_args(arguments)
    if options.seconds <= 0 or options.jobs <= 0:
        parser.error("--seconds and --jobs are positive")
    if not (options.folder / "packages").is_dir():
        parser.error(f"{options.folder} has no packages; make it with gpu-check.sh prepare")
    return options


def _list(runner: step_runner.Runner, parts: Sequence[Part]) -> None:
    for part in parts:
        status = runner.record_of(part).get("status", "not run")
        print(f"{part.name:48} {part.limit:5.0f} s  {status}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a part has failed, now or earlier; parts that did not run are listed."""
    options = parse(arguments)
    check = Check(options.folder.resolve(), options.stand_in)
    every = all_parts(check)
    try:
        chosen = select(every, options.only)
    except ValueError as error:
        print(f"gpu-check.sh: {error}", file=sys.stderr)
        return 2
    runner = step_runner.Runner(check.output / "results", options.seconds, options.jobs)
    if options.resume:
        restore(options.resume, runner.folder)
    if options.list:
        _list(runner, chosen)
        return 0
    return run(check, runner, every, chosen, options.again)


def run(check: Check, runner: step_runner.Runner, every: Sequence[Part],
        chosen: Sequence[Part], again: bool) -> int:
    """Runs parts and writes the report after each of them."""
    def save() -> dict:
        report = report_of(check, runner, every)
        step_runner.write_json(check.output / "gpu-check.json", report)
        return report

    runner.finished = save
    shutil.rmtree(check.output / EMPTY_CACHE, ignore_errors=True)
    waiting = [part for part in chosen if again or not runner.is_complete(part)]
    print(f"{len(waiting)} of {len(chosen)} parts to run in {runner.left():.0f} s", flush=True)
    runner.run(waiting)
    report = save()
    text = step_report.table(report)
    (check.output / "gpu-check.txt").write_text(text + "\n")
    print(text, flush=True)
    if step_runner.STOP.is_set():
        print("interrupted")
    failed = {"failed", "timeout", "crashed"}
    return int(step_runner.STOP.is_set()
               or any(record.get("status") in failed for record in report["parts"]))


if __name__ == "__main__":
    step_runner.stop_on_signals()
    sys.exit(main())
