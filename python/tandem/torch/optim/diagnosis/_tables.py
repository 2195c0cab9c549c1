"""The report of a doctor as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.torch._shards import local_of
from tandem.torch.optim.advice._memory import text_of
from tandem.torch.optim.diagnosis._findings import Finding, Ratio

if TYPE_CHECKING:
    from tandem.torch.optim.diagnosis._report import Doctor

#: The number of parameters that are listed. Of more, those with the worst verdicts are.
MOST = 40
#: The share of gradients that round to zero from which a parameter is listed.
LEAST_BELOW = 0.01
#: The order in which parameters are listed if there are too many.
_ORDER = ("too little", "unclear", "enough", "no gradient")


def tables(doctor: Doctor) -> str:
    """Returns the report: parameters, strategies, activations, and what to do."""
    parts = [_head(doctor), _parameters(doctor), _strategies(doctor), _gradients(doctor),
             _edges(doctor), _choices(doctor), "\n".join(doctor.advice.notes), doctor.code]
    return "\n\n".join(part for part in parts if part)


def _head(doctor: Doctor) -> str:
    sampled = sum(sample.shape.numel() for sample in doctor.samples)
    elements = sum(local_of(param).numel() for param in doctor.params)
    return (f"{doctor.steps} steps of {len(doctor.params)} parameters were watched, on {sampled} "
            f"of {elements} elements; updates were compared in {doctor.measured} of them")


def _parameters(doctor: Doctor) -> str:
    """Returns the table of parameters under what they have."""
    own, names = doctor.shadows[0], doctor.names
    found = {at: doctor.finding(own, [at]) for at in range(len(names))}
    listed = sorted(worst_first(doctor)[:MOST])
    rows = [["parameter", "has", "lost", "EDQ", "kept", "error", "enough?", "why not"]]
    for at in listed:
        rows.append([names[at], doctor.label(own, at), *_cells(found[at]),
                     _answer(found[at].verdict), "; ".join(found[at].reasons)])
    more = len(found) - len(listed)
    last = f"\n... and {more} more, with verdicts no worse than those" if more else ""
    return "\n".join(aligned(rows, left=(0, 1, 6, 7))) + last


def worst_first(doctor: Doctor) -> list[int]:
    """Returns the numbers of the parameters, those with the worst verdicts first."""
    verdicts = [doctor.finding(doctor.shadows[0], [at]).verdict
                for at in range(len(doctor.params))]
    return sorted(range(len(verdicts)), key=lambda at: (_ORDER.index(verdicts[at]), at))


def _cells(found: Finding) -> list[str]:
    """Returns what is lost as cells of a table."""
    if found.kept is None:
        return ["", "", "", ""]
    return [f"{100 * found.lost:.1f} %", f"{found.edq:.2f}", str(found.kept), f"{found.error:.2g}"]


def _answer(verdict: str) -> str:
    return {"too little": "no", "enough": "yes"}.get(verdict, verdict)


def _strategies(doctor: Doctor) -> str:
    """Returns the table of strategies, over all parameters together."""
    rows = [["strategy", "bytes", "lost", "EDQ", "kept", "error", "moments", "at rest", "zeros",
             "saturated", "too little for"]]
    elements = [local_of(param).numel() for param in doctor.params]
    for number, shadow in enumerate(doctor.shadows):
        found = doctor.finding(shadow)
        bytes = sum(map(float.__mul__, map(float, shadow.bytes_of), map(float, elements)))
        bad = sum(doctor.finding(shadow, [at]).verdict == "too little"
                  for at in range(len(elements)))
        rows.append([doctor.title(number), f"{bytes / sum(elements):.3g}", *_cells(found),
                     _worst(found.moments), _worst(found.rest), _share(found.zeros),
                     _share(found.saturated), f"{bad} of {len(elements)}"])
    return "over all parameters\n" + "\n".join(aligned(rows, left=(0,)))


def _worst(found: dict[str, Ratio]) -> str:
    """Returns the ratio that is farthest from 1."""
    return str(max(found.values(), key=lambda of: abs(of.value - 1))) if found else ""


def _share(found: dict[str, float]) -> str:
    return f"{100 * max(found.values()):.2g} %" if found else ""


def _gradients(doctor: Doctor) -> str:
    """Returns the table of gradients that formats would round to zero, where some are."""
    rows = [["gradients that round to zero", "in f16", "in E5M2", "in E4M3 with a scale for 128"]]
    for name, below in zip(doctor.names, doctor.gradients_below):
        if max(below.values()) >= LEAST_BELOW:
            rows.append([name, *(f"{100 * below[key]:.2g} %" for key in ("f16", "e5m2", "e4m3"))])
    if len(rows) == 1:
        return ""
    more = len(rows) - 1 - MOST
    last = f"\n... and {more} more" if more > 0 else ""
    return "\n".join(aligned(rows[:MOST + 1], left=(0,))) + last


def _edges(doctor: Doctor) -> str:
    """Returns the table of the errors of saved activations."""
    rows, edges = [], doctor.edges
    recipes = list(dict.fromkeys(edge["recipe"] for edge in edges))
    for label in dict.fromkeys((edge["layer"], edge["tensor"]) for edge in edges):
        found = {edge["recipe"]: edge for edge in edges
                 if (edge["layer"], edge["tensor"]) == label}
        has = next((name for name, edge in found.items() if edge["is_own"]), "PyTorch's")
        rows.append([*label, has, *(f"{100 * found[name]['error']:.2f} %" if name in found else ""
                                    for name in recipes)])
    if not rows:
        return ""
    more = len(rows) - MOST
    head = ["activations saved by", "tensor", "has", *recipes]
    return "\n".join(aligned([head, *rows[:MOST]], left=(0, 1, 2))) + (
        f"\n... and {more} more" if more > 0 else "")


def _choices(doctor: Doctor) -> str:
    """Returns the table of what to do."""
    rows = [["", "has", "needs", "use", "bytes now", "then"]]
    for choice in doctor.advice.choices:
        rows.append([choice.role, " and ".join(choice.has), choice.need,
                     choice.strategy or "as it is", text_of(choice.bytes_now),
                     text_of(choice.bytes_then)])
    return "\n".join(aligned(rows, left=(0, 1, 2, 3)))


def aligned(rows: list[list[str]], left: tuple[int, ...]) -> list[str]:
    """Returns the lines of a table, with the columns `left` aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) if at in left else cell.rjust(width)
                      for at, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]
