"""The lanes of an optimizer: which kernel updates which parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import torch

from tandem._check import Check
from tandem._convert import CPU, Host
from tandem._kernel import Kernel
from tandem.torch import _place
from tandem.torch._lane import Lane

#: (whether the lane is that of vectors, whether its weights are kept in float32, where
#: they are)
Key = tuple[bool, bool, Host]


class Lanes:
    """A lane for parameters in the strategy's type, and one for those kept in float32
    beside it, under "fp32"; of each two where matrices and vectors differ in graph. Each
    GPU has its own.

    Args:
        build: compiles a graph under a strategy for a target.
        graph: the graph; one of matrices updates parameters of two dimensions.
        strategy: the strategy's name.
        vectors: the graph of parameters with fewer dimensions, if `graph` is one of
            matrices.
        count: what a state calls its count of steps where the kernel needs none, but
            the optimizer does.
        checks: whether steps look at gradients before they write.
    """

    def __init__(self, build: Callable[[str, str, str], Kernel], graph: str, strategy: str,
                 vectors: str | None = None, count: str | None = None,
                 checks: bool = False):
        self._build, self._graphs, self._strategy = build, (graph, vectors), strategy
        self._lanes: dict[Key, Lane] = {}
        self._checks = checks
        self.count = count
        self.main = self[False, False, CPU]
        #: The lane of vectors in the strategy's type, if they have a graph.
        self.vectors = None if vectors is None else self[True, False, CPU]
        if self.vectors:
            self._check_vectors(self.vectors.kernel)

    def _check_vectors(self, kernel: Kernel) -> None:
        if not has_rows(self.main.kernel):
            raise ValueError(
                f"{self.main.kernel.name!r} takes parameters of all shapes, and not only "
                f"matrices; leave vectors={kernel.name!r} out"
            )
        if has_rows(kernel):
            raise ValueError(
                f"{kernel.name!r} updates matrices; pass vectors= a graph that does not"
            )
        for one in (self.main.kernel, kernel):
            if sums_over_model(one):
                raise ValueError(
                    f"{one.name} sums over all parameters, but matrices and vectors are "
                    "launched apart; sum over each tensor"
                )

    def __getitem__(self, key: Key) -> Lane:
        if key not in self._lanes:
            is_vector, is_wide, place = key
            strategy = "fp32" if is_wide else self._strategy
            kernel = self._build(self._graphs[is_vector], strategy, place.target)
            model = None if place is CPU else self[is_vector, is_wide, CPU]
            lane = self._lanes[key] = Lane(kernel, self.count, place, model)
            if self._checks:
                lane.check = Check(kernel, place.device)
        return self._lanes[key]

    def __iter__(self) -> Iterator[Lane]:
        """The lanes that have been asked for, :attr:`main` first."""
        return iter(self._lanes.values())

    @property
    def narrow(self) -> list[Lane]:
        """The lanes of the strategy itself, on the CPU."""
        return [lane for lane in (self.main, self.vectors) if lane]

    @property
    def counts(self) -> set[str]:
        """What states call their counts of steps."""
        return {lane.step for lane in self.narrow if lane.step}

    @property
    def hypers(self) -> dict[str, float | None]:
        """The hyperparameters of all kernels and their defaults."""
        return dict(chain.from_iterable(
            lane.kernel.hypers.items() for lane in reversed(self.narrow)))

    def key_of(self, param: torch.Tensor) -> Key | None:
        """Which lane takes the parameter; None if none does."""
        is_matrix, place = has_rows(self.main.kernel), _place.place_of(param)
        is_vector = is_matrix and param.dim() < 2
        if place is None or is_matrix and (param.dim() > 2 or (is_vector and self.vectors is None)):
            return None
        if param.dtype in self.main.dtypes:
            return is_vector, False, place
        return (is_vector, True, place) if param.dtype == torch.float32 else None

    def of(self, param: torch.Tensor) -> Lane | None:
        """The lane that takes the parameter; None if none does."""
        key = self.key_of(param)
        return None if key is None else self[key]

    def refusal(self, param: torch.Tensor, label: str,
                fix: str | None = None) -> Exception:
        """Why no lane takes a parameter, and the way out."""
        types = self.main.dtypes
        if param.is_complex():
            return TypeError(
                f"{label} is complex ({param.dtype}); "
                + (fix or "optimize real and imaginary parts, torch.view_as_real(p)")
            )
        if param.dtype not in (*types, torch.float32):
            return TypeError(
                f"{label} is {param.dtype}, but strategy {self._strategy!r} keeps "
                "weights " + (f"that decode to {' or '.join(map(str, types))}" if self.main.hidden
                   else f"in {types[0]}")
                + "; " + (fix or f"convert it with p.to({types[0]}), or choose a "
                                 f"strategy whose weights are {param.dtype}")
            )
        fixes = ("pass vectors=, a graph for such parameters",
                 "keep it as a matrix, p.flatten(1), or give it to another optimizer, such "
                 "as tandem.torch.AdamW")
        return ValueError(
            f"{label} has the shape {tuple(param.shape)}, but {self.main.kernel.name} "
            f"updates matrices{' and vectors' if self.vectors else ''}; "
            + (fix or fixes[param.dim() > 2])
        )


def has_rows(kernel: Kernel) -> bool:
    """Whether the graph itself updates matrices, and not only their scales."""
    return kernel.is_matrix and not kernel.is_flat_graph


def sums_over_model(kernel: Kernel) -> bool:
    """Whether a step needs all parameters in one launch."""
    return any(scope == "model" for _, scope, _ in kernel.reductions)
