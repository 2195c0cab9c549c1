#===- common.py - Code that the benchmarks share --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file describes the machine, reads and writes result files, and provides tensor sizes and
# helpers for figures.
#
#===----------------------------------------------------------------------===#
"""Machine, results and tensor sizes."""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
UNROUNDED = HERE / "unrounded"

LIMIT_BYTES = 12e9
M = 1_000_000


def model_shapes() -> list[tuple[int, int]]:
    """Returns the rows and columns of 400 tensors of a GPT-2 with 33 layers and width 448 (102.6 M
    parameters)."""
    d = 448
    layer = [(1, d), (1, d), (3 * d, d), (1, 3 * d), (d, d), (1, d), (1, d), (1, d), (4 * d, d),
             (1, 4 * d), (d, 4 * d), (1, d)]
    return [(50257, d), (1024, d)] + layer * 33 + [(1, d), (1, d)]


#: The rows and columns of each tensor.
SHAPES = {
    "16M": [(4000, 4000)],
    "100M/400": model_shapes(),
    "256M": [(16000, 16000)],
    "huge": [(1, 2**31 + 2**20)],
}

#: The features of processors that docs/Benchmarks.md lists, in Linux's names.
_FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512vbmi",
             "avx512_bf16", "amx_tile", "asimd", "sve", "sve2", "bf16", "i8mm")


def _first_match(path: str, key: str) -> str:
    try:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def cpu_features() -> list[str]:
    """Returns those of the processor's features that kernels and their speed depend on."""
    flags = (_first_match("/proc/cpuinfo", "flags") + " "
             + _first_match("/proc/cpuinfo", "Features")).split()
    return [name for name in _FEATURES if name in flags]


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True,
                              text=True)
    except OSError:  # no git
        return ""
    return done.stdout.strip()


def machine() -> dict:
    """Returns the machine, the date and the commit that a result belongs to."""
    kib = int(_first_match("/proc/meminfo", "MemTotal").split()[0])
    pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": _first_match("/proc/cpuinfo", "model name"),
        "cpuid": " ".join(_first_match("/proc/cpuinfo", key)
                          for key in ("cpu family", "model\t", "stepping")),
        "features": cpu_features(),
        "cores": os.cpu_count(),
        "cache": _first_match("/proc/cpuinfo", "cache size"),
        "memory_gib": round(kib / 2**20, 1),
        "transparent_hugepages": pages.read_text().strip() if pages.exists() else "",
        "date": datetime.date.today().isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        # Result files change while they are written, and no result depends on them.
        "changed_files": len(_git("status", "--porcelain", "-uno", "--", ":/",
                                  ":(top,exclude)*/results/*").splitlines()),
    }


def _in_lines(value, depth: int = 0) -> str:
    """Formats JSON with one line per object or list, unless it holds a list of objects."""
    if not _holds_objects(value):
        return json.dumps(value)
    pairs = value.items() if isinstance(value, dict) else [(None, each) for each in value]
    space = "\n" + " " * depth
    lines = ",".join(f"{space} " + (f"{json.dumps(key)}: " if key is not None else "")
                     + _in_lines(each, depth + 1) for key, each in pairs)
    return ("{" + lines + space + "}") if isinstance(value, dict) else ("[" + lines + space + "]")


def _holds_objects(value) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_objects, value.values()))
    return isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value)


def save(name: str, content: dict, folder: pathlib.Path | None = None,
         compact: bool = False) -> None:
    """Writes <name>.json atomically to benchmarks/results or another folder. If it is compact,
    objects that hold no list of others are one line each."""
    folder = folder or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **content}
    text = _in_lines(content) if compact else json.dumps(content, indent=1)
    unfinished = folder / f"{name}.json.new"
    unfinished.write_text(text + "\n")
    unfinished.replace(folder / f"{name}.json")


def update(name: str, content: dict, folder: pathlib.Path | None = None) -> None:
    """Writes <name>.json; keys that are not in the content keep their values."""
    before = load(name, folder) or {}
    save(name, {key: value for key, value in before.items() if key != "machine"} | content,
         folder)


def graph_of(strategy: str) -> str:
    """Returns the graph of AdamW that a strategy is made for: one that stores m / sqrt(v), or
    the usual one."""
    return "adamw_ratio" if "-ratio4" in strategy else "adamw"


def origin(result: dict) -> str:
    """Describes the date of a result and the commit that it was measured at."""
    machine = result["machine"]
    dirty = " and changes" if machine["changed_files"] else ""
    return f"{machine['date']}, commit {machine['commit'][:12]}{dirty}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Formats a Markdown table."""
    rule = ["---"] + ["--:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def with_section(page: str, begin: str, end: str, content: str) -> str:
    """Returns a page with other content between two of its lines."""
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{content}\n\n{end}{after}"


def spread(ends: dict[str, float], apart: float, low: float, high: float) -> dict[str, float]:
    """Returns the positions of the labels of curves that end at these values. Labels are `apart`
    from each other, between the bounds if there is room, and otherwise as near to the ends as
    possible."""
    labels = sorted(ends, key=ends.__getitem__)
    count = len(labels)
    # Minus the distances, the positions are the nearest nondecreasing sequence (isotonic).
    free = [ends[label] - apart * i for i, label in enumerate(labels)]
    placed = {}
    for i, label in enumerate(labels):
        nearest = max(min(statistics.fmean(free[first:last + 1]) for last in range(i, count))
                      for first in range(i + 1))
        placed[label] = max(low, min(nearest, high - apart * (count - 1))) + apart * i
    return placed


def save_figure(figure, path: pathlib.Path) -> None:
    """Writes a matplotlib figure and closes it; equal data give equal files."""
    import matplotlib.pyplot as plt

    for axes in figure.axes:
        axes.grid(alpha=0.3)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)


def load(name: str, folder: pathlib.Path | None = None) -> dict | None:
    """Returns the contents of benchmarks/results/<name>.json, or None if there is no such file."""
    path = (folder or RESULTS) / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def machine_text(result: dict) -> str:
    """Describes the machine that a result belongs to."""
    m = result["machine"]
    dirty = (f" with {m['changed_files']} changed files" if m["changed_files"] else "")
    features = f", with {', '.join(m['features'])}" if m.get("features") else ""
    return (f"{m['cpu']} (family, model, stepping {m['cpuid']}{features}), {m['cores']} cores, "
            f"{m['memory_gib']} GiB, {m['date']}, commit {m['commit'][:12]}{dirty}.")


def seconds(function) -> float:
    """Returns the wall-clock time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def median_ms(function, repetitions: int = 11) -> float:
    """Returns the median time of a call in milliseconds, without the first call."""
    function()
    return 1e3 * statistics.median(seconds(function) for _ in range(repetitions))


def write_page(description: str, own: pathlib.Path,
               write: Callable[[pathlib.Path, pathlib.Path], pathlib.Path]) -> None:
    """Runs the command line of a script that makes a page. ``write`` makes the page from a
    folder of results: in docs if the folder is the project's ``own``, and otherwise next to the
    results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--results", type=pathlib.Path, default=own,
                        help="the folder to read (default: %(default)s)")
    folder = parser.parse_args().results
    print(f"wrote {write(folder, HERE.parent / 'docs' if folder.resolve() == own else folder)}")
