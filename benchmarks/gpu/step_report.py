#===- step_report.py - The report of a check -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file merges the records of all parts of benchmarks/gpu/steps.py into one JSON file and a
# table.
#
#===----------------------------------------------------------------------===#
"""`merge(records, prepared)` returns the content of gpu-check.json, `table(report)` a text."""

from collections.abc import Sequence

#: The keys of gpu_check's description of the device.
DEVICE_KEYS = ("device", "target", "driver", "multiprocessors")


#===------------------------------------------------------------------------===#
# Merging
#===------------------------------------------------------------------------===#


def _add_kernel(kernels: dict[str, dict], row: dict, record: dict) -> None:
    """Adds the findings of a part about a kernel to those of other parts."""
    kernel = kernels.setdefault(row["kernel"], {
        "kernel": row["kernel"], "verdict": "", "images": {}, "bytes_per_element": 0.0,
        "times": []})
    kernel["bytes_per_element"] = row.get("bytes_per_element") or kernel["bytes_per_element"]
    verdict = "; ".join(filter(None, (row.get("verdict"), row.get("error"))))
    step, _, name = record["name"].partition("/")
    if step == "kernels" and verdict:
        kernel["images"][name.rpartition(".")[2]] = verdict
    elif step == "large":
        kernel["large"] = row.get("large", {}) | {"verdict": verdict}
    elif row.get("error"):
        kernel["error"] = row["error"]
    kernel["times"] = row["times"] or kernel["times"]
    if "start_ms" in row:
        kernel["start_ms"] = row["start_ms"]


def _settle(kernel: dict) -> dict:
    """Sets a kernel's verdict over all images."""
    wrong = [f"{image}: {verdict}" for image, verdict in kernel["images"].items()
             if verdict != "equal"]
    return kernel | {"verdict": "; ".join(wrong) or ("equal" if kernel["images"] else "")}


def _add_device(report: dict, result: dict) -> None:
    """Records the device: the first description, and the fastest copy."""
    if result.get("device"):
        for key in DEVICE_KEYS:
            report.setdefault(key, result.get(key))
    report["copy_gb_per_s"] = max(report["copy_gb_per_s"], result.get("copy_gb_per_s", 0.0))


def _add_result(report: dict, kernels: dict[str, dict], record: dict) -> None:
    result = record.get("result") or {}
    _add_device(report, result)
    for row in result.get("kernels", ()) if record["status"] != "skipped" else ():
        _add_kernel(kernels, row, record)
    for key in ("products", "peers", "layer_peers", "triton_bits", "torch"):
        report.setdefault(key, []).extend(result.get(key, ()))
    for key in ("host_us", "peers_host_us", "machine", "nvidia"):
        report.setdefault(key, {}).update(result.get(key) or {})


def merge(records: Sequence[dict], prepared: dict) -> dict:
    """Returns the report of all parts; those that have not run yet have no status."""
    report: dict = {"copy_gb_per_s": 0.0}
    kernels: dict[str, dict] = {}
    for record in records:
        if "status" in record:
            _add_result(report, kernels, record)
    for key in ("products", "peers", "layer_peers", "triton_bits", "torch"):
        report.setdefault(key, [])
    for key in ("host_us", "peers_host_us", "machine", "nvidia"):
        report.setdefault(key, {})
    report["kernels"] = [_settle(kernel) for kernel in kernels.values()]
    report["machine"] |= prepared.get("made", {})
    predict(report, prepared.get("cycles", {}))
    report["parts"] = list(records)
    return report


def predict(report: dict, cycles: dict[str, float]) -> None:
    """Adds lower bounds to each time, one for its bytes and one for its instructions.

    Bytes move as fast as in a copy; instructions take the cycles per element of a multiprocessor's
    slowest pipe, as counted by benchmarks/gpu/sass.py.
    """
    bandwidth, clock = report["copy_gb_per_s"] * 1e9, report["nvidia"].get("clock_hz")
    for kernel in report["kernels"] if bandwidth else ():
        count = cycles.get(kernel["kernel"])
        for found in kernel["times"]:
            moved = found["elements"] * kernel["bytes_per_element"] / bandwidth
            begun = (found["elements"] * count / (report["multiprocessors"] * clock)
                     if count and clock else 0.0)
            found["predicted_ms"] = {"bytes": moved * 1e3, "instructions": begun * 1e3}
            found["achieved_of_predicted"] = max(moved, begun) * 1e3 / found["ms"]


#===------------------------------------------------------------------------===#
# Text
#===------------------------------------------------------------------------===#


def counts_of(records: Sequence[dict]) -> dict[str, dict[str, int]]:
    """Returns the number of parts of each step that have each status."""
    counts: dict[str, dict[str, int]] = {}
    for record in records:
        of_step = counts.setdefault(record["name"].partition("/")[0], {})
        status = record.get("status", "not run")
        of_step[status] = of_step.get(status, 0) + 1
    return counts


def _list(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _absent_lines(records: Sequence[dict]) -> list[str]:
    """Returns lines about the parts that have not run, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for record in records:
        if record.get("status") == "skipped":
            reasons.setdefault(f"skipped: {record['reason']}"[:200], []).append(record["name"])
        elif "status" not in record:
            reasons.setdefault("not run", []).append(record["name"])
    return [f"{reason}: {_list(names)}" for reason, names in reasons.items()]


def _step_lines(records: Sequence[dict]) -> list[str]:
    """Returns the outcome of each step; failures come last, where they are noticed."""
    lines = [f"{step:14} " + ", ".join(f"{count} {status}" for status, count in found.items())
             for step, found in counts_of(records).items()]
    wrong = [r for r in records if r.get("status", "passed") not in ("passed", "skipped")]
    return [*lines, *_absent_lines(records),
            *(f"{r['name']}: {r['status']}: {r['reason']}"[:400] for r in wrong)]


def _time_lines(report: dict) -> list[str]:
    lines = []
    for kernel in report["kernels"]:
        for found in kernel["times"]:
            line = (f"{kernel['kernel']:36} {found['of']:18} {found['ms']:9.3f} ms "
                    f"{found['gb_per_s']:6.0f} GB/s")
            if "predicted_ms" in found:
                line += (f" {found['gb_per_s'] / report['copy_gb_per_s']:5.0%} of a copy, "
                         f"{found['achieved_of_predicted']:.0%} of predicted")
            lines.append(line)
    return lines


def _peer_lines(report: dict) -> list[str]:
    lines = []
    for peer in report["peers"]:
        for found in peer["times"]:
            reason = found.get("absent") or found.get("failed")
            lines.append(f"{peer['name']:36} {found['of']:18} " + (
                reason or f"{found['ms']:9.3f} ms {found['gb_per_s']:6.0f} GB/s"))
    for row in report["layer_peers"]:
        reason = row.get("absent") or row.get("failed")
        lines.append(f"{row['whose']} {row['layer']}: " + (reason or f"{row['ms']:.3f} ms"))
    return lines


def table(report: dict) -> str:
    """Formats the device, times, verdicts and steps."""
    where = ""
    if report.get("device"):
        where = (f"{report['device']}, {report['target']}, driver {report['driver']}, a copy "
                 f"moves {report['copy_gb_per_s']:.0f} GB/s")
    compared = [kernel for kernel in report["kernels"] if kernel["verdict"]]
    equal = sum(kernel["verdict"] == "equal" for kernel in compared)
    return "\n".join(filter(None, [
        where, *_time_lines(report), *_peer_lines(report),
        f"{equal} of {len(compared)} kernels leave the CPU's bits", "",
        *_step_lines(report["parts"])]))
