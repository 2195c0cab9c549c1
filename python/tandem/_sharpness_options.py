"""The options of a search for the largest loss near logits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

#: SciPy's defaults for L-BFGS-B.
FTOL, GTOL, MAXITER = 2.220446049250313e-09, 1e-5, 15000
_METHODS, _REDUCTIONS = ("l-bfgs-b", "exact"), ("none", "mean")


class ConvergenceWarning(UserWarning):
    """A search for the maximum loss has stopped before reaching it."""


@dataclass(frozen=True)
class Options:
    """The arguments of :func:`sharpness` besides logits and targets."""

    epsilon: float
    method: str
    scale: bool
    ftol: float
    gtol: float
    maxiter: int
    strict: bool
    reduction: str

    def __post_init__(self):
        for name in ("epsilon", "ftol", "gtol"):
            object.__setattr__(self, name, _as_float(name, getattr(self, name)))
        if self.epsilon <= 0:
            raise ValueError(f"epsilon is {self.epsilon}, but the logits must have room to "
                             "move; pass a positive one, such as 5e-4")
        for name in ("ftol", "gtol"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; pass 0 or more")
        for name, choices in (("method", _METHODS), ("reduction", _REDUCTIONS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; pass "
                                 f"{' or '.join(map(repr, choices))}")
        for name in ("scale", "strict"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} is {getattr(self, name)!r}; pass True or False")
        self._check_iterations()

    def _check_iterations(self):
        if not isinstance(self.maxiter, Integral) or isinstance(self.maxiter, bool):
            raise TypeError(f"maxiter is {self.maxiter!r}; pass an integer")
        if not 1 <= self.maxiter <= MAX_ITERATIONS:
            raise ValueError(f"maxiter is {self.maxiter}; pass 1 to {MAX_ITERATIONS}")


#: The maximum number of iterations. SciPy counts evaluations, up to 20 per iteration, in 32
#: bits.
MAX_ITERATIONS = 100_000_000


def _as_float(name: str, value: object) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; pass a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value}; pass a finite number")
    return number
