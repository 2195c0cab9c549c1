#===- report.py - docs/Benchmarks.md from the results ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the page of measurements: a chart and its findings, tables, and the goals with
# the cases that miss them.
#
#===----------------------------------------------------------------------===#
"""Writes docs/Benchmarks.md from benchmarks/results/*.json."""

import argparse
import pathlib
from dataclasses import dataclass

from common import HERE, load, machine_text, table
from steps_figure import draw

F32_POLICY = ("fp32", "fp32-optim", "master-weights", "remainder",
              "collage-light-f32", "collage-plus-f32", "bf16-stochastic")
# These strategies have the bytes of torch's AdamW in the named format.
LIKE_TORCH = {"fp32": "fp32", "bf16-stochastic": "bf16", "bf16": "bf16"}
PEERS = ("bitsandbytes AdamW8bit", "torchao AdamW8bit")
TITLE = {"16M": "16M parameters in a matrix of 4000 x 4000",
         "100M/400": "102.6M parameters in 400 tensors of a GPT-2's shapes",
         "256M": "256M parameters in a matrix of 16000 x 16000",
         "huge": "SGD on 2^31 + 2^20 elements"}
IMAGE = "images/steps.png"

METHOD = """A step is AdamW over all tensors in one launch. Each case runs in its own
process and alternates with a stream (`stream.cpp`), which reads and writes the same arrays in
place and computes nothing, with the best of three block sizes. "Of stream" is the stream's time
over the step's: at 100 % a step runs at the memory's speed. It compares the medians of one
process, so that a change in the machine's load affects both. "B kept" are the bytes per parameter
of weight, gradient and states, and "B moved" those that a step reads and writes. `unrounded` is
collage-plus with all roundings deleted except those of stores: the bound of its arithmetic. The
8-bit AdamW of other libraries has its own states, which have adam8bit's size; its stream has
adam8bit's arrays. All arrays are on huge pages if the operating system grants them, torch's too.
"""

#===------------------------------------------------------------------------===#
# Cases
#===------------------------------------------------------------------------===#


def thread_counts(cases: dict) -> list[str]:
    return sorted({k for c in cases.values() for k in c if k.startswith("threads_")})


def is_measured(case: dict) -> bool:
    return "skipped" not in case and "absent" not in case


def is_ours(name: str) -> bool:
    return not any(word in name for word in ("torch", "eager", "AdamW8bit"))


def isas_of(cases: dict, count: str) -> list[str]:
    """Returns the instruction sets that were measured beside the machine's own."""
    known = ("step", "roofline", "repetitions", "ns_per_parameter", "gb_per_s",
             "roofline_gb_per_s")
    return sorted({key for case in cases.values() for key in case.get(count, ())
                   if key not in known and not key.endswith("_min")})


def strategies(cases: dict) -> list[str]:
    return [n for n, c in cases.items() if is_measured(c) and is_ours(n) and n != "unrounded"]


def with_codes(cases: dict) -> list[str]:
    return [name for name in strategies(cases) if cases[name]["has_codes"]]


def time_of(cases: dict, name: str, count: str) -> float | None:
    return cases.get(name, {}).get(count, {}).get("step")


def share_of(case: dict, count: str, isa: str = "step") -> float:
    """Returns the ratio of the stream's time to the step's."""
    return case[count]["roofline"] / case[count][isa]

#===------------------------------------------------------------------------===#
# The head
#===------------------------------------------------------------------------===#


def draw_steps(cases: dict, count: str, path: pathlib.Path) -> None:
    def ns(case: dict, key: str) -> float:
        return 1e9 * case[count][key] / case["parameters"]

    times = {name: (ns(case, "step"), ns(case, "roofline"))
             for name, case in cases.items() if is_measured(case)}
    draw(times, set(filter(is_ours, times)), path)


def ratio_text(cases: dict, name: str, peer: str, count: str) -> str:
    """Formats the factor by which the peer takes longer, or a dash."""
    step, other = time_of(cases, name, count), time_of(cases, peer, count)
    if not (step and other):
        return "-"
    ratio = other / step
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def isa_finding(cases: dict, count: str) -> str:
    """Compares other instruction sets with the machine's own."""
    lines = []
    for isa in isas_of(cases, count):
        measured = [name for name in strategies(cases) if isa in cases[name][count]]
        slower = {name: cases[name][count][isa] / cases[name][count]["step"] for name in measured}
        codes = [share_of(cases[name], count, isa) for name in with_codes(cases)
                 if name in measured]
        worst = max(slower, key=slower.__getitem__)
        lines.append(f"""- **Without AVX-512.** Compiled for `{isa}`, steps take {min(slower.values()):.1f} to {slower[worst]:.1f} times
  as long (`{worst}`) on this machine; those with 8-bit codes run at {100 * min(codes):.0f} to {100 * max(codes):.0f} % of the stream's speed.
""")
    return "".join(lines)


def head(cases: dict, result: dict) -> str:
    count = thread_counts(cases)[-1]
    ns = {name: cases[name][count]["ns_per_parameter"] for name in strategies(cases)}
    codes = sorted(with_codes(cases), key=ns.__getitem__)
    shares = [share_of(cases[name], count) for name in codes]
    eager = ratio_text(cases, "collage-plus", "eager collage-plus", count)
    compiled = ratio_text(cases, "collage-plus", "torch.compile collage-plus", count)
    fused = ratio_text(cases, "fp32", "torch fused fp32", count)
    ao, bnb = (ratio_text(cases, "adam8bit", peer, count) for peer in reversed(PEERS))
    return f"""# Benchmarks

![Time of a step under each strategy and that of the memory]({IMAGE})

This page says how long a step of AdamW takes on a CPU under each strategy. It compares steps with a
stream that only reads and writes the same bytes, and with other libraries. `benchmarks/run.sh`
measures all of it and writes the page. No GPU was measured; [Instructions](Instructions.md) counts
what kernels cost one. On {count[-1]} threads of an {result["machine"]["cpu"]}:

- **f32.** `fp32` takes {ns["fp32"]:.2f} ns a parameter, and torch's fused AdamW {fused} times as long.
- **8-bit codes** take {ns[codes[0]]:.2f} (`{codes[0]}`) to {ns[codes[-1]]:.2f} ns (`{codes[-1]}`). They are
  bound by arithmetic, not by memory: a step runs at {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the
  stream's speed. The 8-bit AdamW of torchao takes {ao} times as long as `adam8bit`, and that of
  bitsandbytes {bnb} times.
{isa_finding(cases, count)}- **Expansions.** `collage-plus` takes {ns["collage-plus"]:.2f} ns. The same operations in eager PyTorch take {eager} times
  as long, and with `torch.compile`, which computes other bits, {compiled} times.
"""

#===------------------------------------------------------------------------===#
# Tables
#===------------------------------------------------------------------------===#


def step_rows(cases: dict, counts: list[str]) -> list[list[str]]:
    rows = []
    for name, case in cases.items():
        if "absent" in case:
            continue
        if "skipped" in case:
            rows.append([name, "skipped: " + case["skipped"]] + [""] * (3 * len(counts) + 2))
            continue
        row = [name, f"{case['bytes_per_parameter']:.4g}", f"{case['bytes_moved']:.4g}"]
        for count in counts:
            one = case[count]
            row += [f"{one['ns_per_parameter']:.3f}", f"{one['gb_per_s']:.1f}",
                    f"{100 * share_of(case, count):.0f} %"]
        rows.append(row + [f"{case['load']:.1f}"])
    return rows


def isa_text(cases: dict, counts: list[str]) -> list[str]:
    """Returns the tables of code for other instruction sets beside the machine's own."""
    parts = []
    for isa in isas_of(cases, counts[0]):
        rows = []
        for name in strategies(cases):
            if isa not in cases[name][counts[0]]:
                continue
            row = [name]
            for count in counts:
                case = cases[name]
                ns = 1e9 * case[count][isa] / case["parameters"]
                row += [f"{ns:.3f}", f"{100 * share_of(case, count, isa):.0f} %",
                        f"{case[count][isa] / case[count]['step']:.2f}"]
            rows.append(row)
        header = [""]
        for count in counts:
            header += [f"ns/param, {count.split('_')[1]} thr", "of stream", "over native"]
        parts += [f"The same, compiled with `isa=\"{isa}\"` and measured in turns with the code for this "
                  "machine:\n", table(header, rows), ""]
    return parts


def notes(cases: dict) -> list[str]:
    lines = [f"`{name}` gives bits different from Tandem's collage-plus in "
             f"{100 * case['differing']:.2f} % of elements after two steps.\n"
             for name, case in cases.items() if "differing" in case]
    lines += [f"`{name}` was measured later: {case['measured']}.\n"
              for name, case in cases.items() if "measured" in case]
    return lines + [f"No row for `{name}`: {case['absent']}.\n"
                    for name, case in cases.items() if "absent" in case]


def load_note(result: dict) -> list[str]:
    loads = [case["load"] for cases in result["sizes"].values()
             for case in cases.values() if "load" in case]
    cores = result["machine"]["cores"]
    if not loads or max(loads) <= cores + 0.5:
        return []
    return [f"The load average reached {max(loads):.1f} on {cores} cores: other processes ran "
            "during some cases. Compare shares of the stream then, which come from one process "
            "each.\n"]


def steps_text(result: dict) -> str:
    parts = ["## Steps\n", machine_text(result), "\n" + METHOD]
    for size, cases in result["sizes"].items():
        counts = thread_counts(cases)
        header = ["", "B kept", "B moved"]
        for count in counts:
            header += [f"ns/param, {count.split('_')[1]} thr", "GB/s", "of stream"]
        parts += [f"### {TITLE[size]}\n", table(header + ["load"], step_rows(cases, counts)),
                  "", *isa_text(cases, counts), *notes(cases)]
    files = sorted((HERE.parent / "lib/Strategies").glob("*.mlir"))
    unmeasured = [f"`{path.stem}`" for path in files
                  if not any(path.stem in cases for cases in result["sizes"].values())]
    if unmeasured:
        parts.append(f"Strategies that were not measured: {', '.join(unmeasured)}.\n")
    missing = [TITLE[size] for size in TITLE if size not in result["sizes"]]
    if missing:
        parts.append("Not measured in this run: " + "; ".join(missing) + ".\n")
    return "\n".join(parts + load_note(result))


def compile_text(result: dict) -> str:
    rows = [[name, *(f"{ms:.1f}" for ms in targets.values())]
            for name, targets in result["warm_ms"].items()]
    header = ["AdamW under", *(f"to {t}, ms" for t in
                               result["warm_ms"]["collage-plus"])]
    cold = [[name, f"{ms:.0f}"] for name, ms in result["cold_ms"].items()]
    return "\n".join(["## Compile time\n", machine_text(result),
                      "\nThe first table has the time from a graph's text to a callable CPU "
                      "kernel, and to PTX, in a warm process; nothing is cached. Times are "
                      f"medians at a load of {result['load']:.1f}. The second table has whole "
                      "processes.\n", table(header, rows), "",
                      table(["Whole process", "ms"], cold), ""])

#===------------------------------------------------------------------------===#
# Goals
#===------------------------------------------------------------------------===#


@dataclass
class Goal:
    """A ratio that several cases should reach."""

    text: str
    #: The ratio of each case.
    values: dict[str, float]
    limit: float
    unit: str
    at_least: bool = True

    def row(self) -> list[str]:
        reached = {name: value >= self.limit if self.at_least else value <= self.limit
                   for name, value in self.values.items()}
        low, high = min(self.values.values()), max(self.values.values())
        span = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        missed = [f"`{name}`" for name, met in reached.items() if not met]
        return [self.text, f"{span}{self.unit}", f"{sum(reached.values())} of {len(reached)}",
                ", ".join(missed) or "none"]


def step_goals(label: str, cases: dict, count: str) -> list[Goal]:
    def shares(names) -> dict[str, float]:
        return {n: 100 * share_of(cases[n], count) for n in names if time_of(cases, n, count)}

    def against(names, peer_of) -> dict[str, float]:
        pairs = {n: (time_of(cases, n, count), time_of(cases, peer_of(n), count))
                 for n in names}
        return {n: other / step for n, (step, other) in pairs.items() if step and other}

    codes = with_codes(cases)
    goals = [Goal(f"{label}: 85 % of the stream", shares(F32_POLICY), 85, " %"),
             Goal(f"{label}: ahead of torch's fused AdamW of the same bytes",
                  against(LIKE_TORCH, lambda n: f"torch fused {LIKE_TORCH[n]}"), 1, " x"),
             Goal(f"{label}: 20 x faster than eager torch",
                  against(["collage-plus"], lambda n: "eager collage-plus"), 20, " x")]
    if count == "threads_2":
        goals.append(Goal(f"{label}: codes at half of the stream", shares(codes), 50, " %"))
    goals += [Goal(f"{label}: codes 2 x faster than {peer}",
                   against(codes, lambda n, peer=peer: peer), 2, " x") for peer in PEERS]
    return [goal for goal in goals if goal.values]


def compile_goals(result: dict) -> list[Goal]:
    return [Goal(f"AdamW compiles to {target} in {limit} ms",
                 {name: ms[target] for name, ms in result["warm_ms"].items()}, limit, " ms",
                 at_least=False) for target, limit in (("cpu", 50), ("sm_90", 25))]


def spill_goal(counted: dict) -> Goal:
    spills = {name.partition("/")[2]:
              max(each["spills"] for of in chips.values() for each in of["launches"])
              for name, chips in counted["kernels"].items() if name.startswith(("adamw/", "adamw_ratio/"))}
    return Goal("AdamW spills no register on a GPU ([counts](Instructions.md))", spills, 0,
                " B", at_least=False)


def goals_text(steps: dict, compiling: dict, counted: dict) -> str:
    goals = [goal for size, cases in steps["sizes"].items()
             for count in thread_counts(cases)
             for goal in step_goals(f"{size}, {count[-1]} thr", cases, count)]
    goals += [*compile_goals(compiling), spill_goal(counted)]
    return ("## Appendix: goals\n\nThe table has the project's goals, the range of the "
            "measurements, and the strategies that miss a goal.\n\n"
            + table(["Goal", "measured", "reached by", "missed by"],
                    [goal.row() for goal in goals]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path,
                        default=HERE.parent / "docs/Benchmarks.md")
    options = parser.parse_args()
    steps, compiling, counted = map(load, ("cpu_step", "compile_time", "instructions"))
    cases = steps["sizes"]["16M"]
    draw_steps(cases, thread_counts(cases)[-1], options.output.parent / IMAGE)
    options.output.write_text("\n".join([
        head(cases, steps), steps_text(steps), compile_text(compiling),
        goals_text(steps, compiling, counted)]))


if __name__ == "__main__":
    main()
