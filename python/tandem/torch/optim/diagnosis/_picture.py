"""The report of a doctor as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tandem.torch._shards import local_of
from tandem.torch.optim.diagnosis._findings import Finding
from tandem.torch.optim.diagnosis._tables import worst_first

if TYPE_CHECKING:
    from tandem.torch.optim.diagnosis._report import Doctor

#: The colours of verdicts, of which people who confuse red and green see the difference too.
COLOURS = {"enough": "#B8DCEB", "unclear": "#F3E2A9", "too little": "#E8A27C",
           "no gradient": "#EEEEEE"}
#: The number of parameters that are drawn; of more, those with the worst verdicts are.
MOST = 40


def draw(doctor: Doctor, path: str | os.PathLike) -> None:
    """Writes a picture with a row for each parameter and a column for each strategy."""
    figure_class = _figure_class()
    shown = sorted(worst_first(doctor)[:MOST])
    width = 3.2 + 1.35 * len(doctor.shadows)
    figure = figure_class(figsize=(width, 1.6 + 0.27 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for column in range(len(doctor.shadows)):
        for row, at in enumerate(shown):
            _cell(axes, column, row, doctor.finding(doctor.shadows[column], [at]))
    _label(doctor, axes, shown)
    _explain(figure, axes, len(doctor.names) - len(shown))
    figure.savefig(os.fspath(path), dpi=110)


def _figure_class():
    """Returns matplotlib's class of figures, which needs no window."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("doctor.plot draws with matplotlib, which is not installed; run "
                          "pip install matplotlib, or print the doctor, or take its rows"
                          ) from None

    def make(**options) -> Figure:
        figure = Figure(**options)
        FigureCanvasAgg(figure)
        return figure

    return make


def _cell(axes, column: int, row: int, found: Finding) -> None:
    """Draws what one parameter loses under one strategy."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column, row), 1, 1, facecolor=COLOURS[found.verdict],
                             edgecolor="white", linewidth=2))
    axes.text(column + 0.5, row + 0.5, _text(found), ha="center", va="center", fontsize=8)


def _text(found: Finding) -> str:
    """Returns the share of the intended change that took place, or the worst of the reasons."""
    if found.kept is None:
        return ""
    text = f"{100 * found.kept.value:.0f} %"
    rests = [of.value for role, of in found.rest.items()
             if found.judged[f"{role} at rest"] == "too little"]
    return text + (", stuck" if rests and min(rests) < 0.5 else "")


def _label(doctor: Doctor, axes, shown: list[int]) -> None:
    elements = [local_of(param).numel() for param in doctor.params]
    titles = []
    for number, shadow in enumerate(doctor.shadows):
        bytes = sum(map(float.__mul__, map(float, shadow.bytes_of), map(float, elements)))
        name = doctor.title(number).replace(" (has)", "")
        title = f"{name}\n{bytes / sum(elements):.3g} bytes"
        titles.append(f"what it has:\n{title}" if number == 0 else title)
    axes.set_xticks([number + 0.5 for number in range(len(titles))], titles, fontsize=8)
    axes.set_yticks([row + 0.5 for row in range(len(shown))],
                    [doctor.names[at] for at in shown], fontsize=8)
    axes.set_xlim(0, len(titles))
    axes.set_ylim(len(shown), 0)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _explain(figure, axes, more: int) -> None:
    """Says what colours and numbers mean."""
    from matplotlib.patches import Patch

    figure.legend(handles=[Patch(facecolor=COLOURS[verdict], label=verdict)
                           for verdict in ("enough", "unclear", "too little")],
                  loc="outside lower center", ncols=3, frameon=False, fontsize=8,
                  title="Share of the intended change of weights that took place; stuck: a moment "
                        "does not decay" + (f"; {more} more parameters" if more else ""),
                  title_fontsize=8)
