"""The maximum cross entropy in a box of logits, in closed form and by a search."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from tandem._sharpness_options import ConvergenceWarning, Options

_FLOATS = ("float16", "bfloat16", "float32", "float64")
#: The number of logits that are widened to float64 at a time.
_BLOCK = 1 << 20
#: The maximum magnitude of a logit, which is well below float64's largest number, 1.8e308.
_LARGEST = 1e307
#: The maximum move of a logit in a search, which computes exponentials of twice the move;
#: exp(709) is the last one that does not overflow.
_LONGEST_WAY = 350.0
#: The fraction of the first-order rise that a scaled search may ignore in its first step.
_NEGLIGIBLE = 1e-14
#: The largest scale that cannot overflow. Rises smaller than its inverse do not count as a
#: shortfall.
_LARGEST_SCALE = 1e250
#: The fraction of the maximum by which the result of a search may fall short.
_SHORTFALL = 1e-6
#: The number of sequences that a message names.
_NAMED = 4

#===----------------------------------------------------------------------===#
# Inputs
#===----------------------------------------------------------------------===#


def _as_array(name: str, values: object) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: a {type(values).__name__} that is not an array ({error}); pass "
                        "one of NumPy, or tensors to tandem.torch.sharpness") from None


def as_logits(logits: object) -> np.ndarray:
    """Returns logits as an array, and checks their type."""
    array = _as_array("logits", logits)
    if array.dtype.name not in _FLOATS:
        raise TypeError(f"logits have the type {array.dtype}; pass one of {', '.join(_FLOATS)}, "
                        "as the model computes them")
    return array


def as_targets(target: object) -> np.ndarray:
    """Returns targets as an array of integers."""
    array = _as_array("target", target)
    if array.dtype.kind not in "iu":
        raise TypeError(f"target has the type {array.dtype}; pass numbers of tokens, as integers")
    return array


def _check_values(rows: np.ndarray, targets: np.ndarray) -> None:
    """Refuses targets outside the vocabulary and logits that are NaN or infinite."""
    vocabulary = rows.shape[1]
    outside = np.flatnonzero((targets < 0) | (targets >= vocabulary))
    if outside.size:
        raise ValueError(
            f"target of sequence {outside[0]} is {targets[outside[0]]}, outside of the "
            f"vocabulary of {vocabulary}; pass 0 to {vocabulary - 1}. Where sequences end in "
            "padding, pass the logits (b, v) and targets (b,) of their last real tokens")
    for begin, end in _blocks(rows):
        wrong = np.argwhere(~np.isfinite(rows[begin:end]))
        if wrong.size:
            at, token = wrong[0] + (begin, 0)
            raise ValueError(
                f"logits of sequence {at} have {rows[at, token]} for token {token}; a loss that "
                "is not a number has no sharpness. Leave the sequence out, or mask tokens with a "
                "large negative number such as -1e4")


def _check_size(rows: np.ndarray, options: Options) -> None:
    """Refuses boxes that float64 cannot represent."""
    largest = max((float(np.abs(rows[begin:end]).max()) for begin, end in _blocks(rows)),
                  default=0.0)
    way = options.epsilon * (largest + 1)
    if largest + way > _LARGEST:
        raise ValueError(f"logits of {largest:.3g} that move by {way:.3g} leave float64; pass "
                         "smaller logits, or a smaller epsilon")
    if options.method != "exact" and way > _LONGEST_WAY:
        raise ValueError(
            f"logits of {largest:.3g} move by {way:.3g} with epsilon={options.epsilon}, and a "
            f"search takes no more than {_LONGEST_WAY:g}; pass a smaller epsilon or "
            'method="exact"')


def _import_scipy():
    try:
        from scipy import optimize
    except ImportError:
        raise ImportError(
            'method="l-bfgs-b" searches with SciPy, which is not installed: pip install scipy, '
            "or tandem-mlir[sharpness]. method=\"exact\" gives the same without it"
        ) from None
    return optimize


#===----------------------------------------------------------------------===#
# The closed form
#===----------------------------------------------------------------------===#


def _blocks(rows: np.ndarray):
    """Returns (begin, end) of blocks of rows with about a million logits each."""
    count = max(1, _BLOCK // rows.shape[1])
    return ((begin, begin + count) for begin in range(0, len(rows), count))


def _log_softmax(y: np.ndarray) -> np.ndarray:
    shifted = y - y.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def _log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Returns the log-sum-exp of each row. All elements of a row may be minus infinity."""
    top = np.maximum(x.max(1), -_LARGEST)
    return top + np.log(np.exp(x - top[:, None]).sum(1))


def _largest_rises(y: np.ndarray, targets: np.ndarray, epsilon: float):
    """Returns the losses at float64 logits, and their maximum rises.

    With probabilities p, a move z raises the loss by log(1 + sum p_i (exp(z_i - z_t) - 1)). It
    is largest if each z_i - z_t is. All terms are then positive, so no digits are lost, however
    small the rise. Terms are computed as logarithms, so moves of any size do not overflow.
    """
    at = np.arange(len(y)), targets
    log_p, bounds = _log_softmax(y), epsilon * (np.abs(y) + 1)
    ways = bounds + bounds[at][:, None]
    terms = log_p + ways + np.log(-np.expm1(-ways))
    terms[at] = -np.inf
    return -log_p[at], np.logaddexp(0.0, _log_sum_exp(terms))


#===----------------------------------------------------------------------===#
# The search
#===----------------------------------------------------------------------===#


class _Box:
    """The logits of a sequence, and the maximum move of each.

    Args:
        y: float64 logits.
        target: the correct token.
        epsilon: the relative size of the moves.
    """

    def __init__(self, y: np.ndarray, target: int, epsilon: float):
        self.y, self.target = y, target
        self.bounds = epsilon * (np.abs(y) + 1)
        self._p = np.exp(_log_softmax(y[None])[0])

    def rise(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Returns the rise of the loss by a move, and its gradient."""
        grown = self._p * np.expm1(z - z[self.target])
        total = grown.sum()
        return np.log1p(total), self._against_target((self._p + grown) / (1 + total))

    def loss(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Returns the loss at logits, and its gradient."""
        log_p = _log_softmax(x[None])[0]
        return -log_p[self.target], self._against_target(np.exp(log_p))

    def _against_target(self, p: np.ndarray) -> np.ndarray:
        """Returns the probabilities minus one at the target. The entry of the target is computed
        as the negative sum of the others, which does not vanish if its probability rounds to
        one."""
        p[self.target] = 0
        p[self.target] = -p.sum()
        return p


@dataclass(frozen=True)
class _Found:
    """The result of a search, whether SciPy calls it converged, and SciPy's message."""

    rise: float
    converged: bool
    message: str


def _search(box: _Box, options: Options, optimize) -> _Found:
    """Runs SciPy's search for the maximum loss, starting at the logits."""
    run = _search_scaled if options.scale else _search_logits
    settings = {"ftol": options.ftol, "gtol": options.gtol, "maxiter": int(options.maxiter),
                "maxfun": 20 * int(options.maxiter)}
    result, z = run(box, settings, optimize)
    rise, _ = box.rise(np.clip(z, -box.bounds, box.bounds))
    return _Found(float(rise), bool(result.success), str(result.message))


def _search_scaled(box: _Box, settings: dict, optimize):
    """Searches in fractions of the bounds. SciPy's first step is as long as the gradient, so the
    scale makes it take all logits that matter to their bounds; the others follow later."""
    size = np.abs(box.rise(np.zeros_like(box.y))[1] * box.bounds).sum()
    scale = min(len(box.y) / max(_NEGLIGIBLE * size, 1 / _LARGEST_SCALE), _LARGEST_SCALE)

    def negative(parts):
        rise, gradient = box.rise(parts * box.bounds)
        return -scale * rise, -scale * gradient * box.bounds

    result = optimize.minimize(negative, np.zeros_like(box.y), jac=True, method="L-BFGS-B",
                               bounds=optimize.Bounds(-1.0, 1.0), options=settings)
    return result, result.x * box.bounds


def _search_logits(box: _Box, settings: dict, optimize):
    """Searches in logits, as the paper describes."""
    def negative(x):
        loss, gradient = box.loss(x)
        return -loss, -gradient

    bounds = optimize.Bounds(box.y - box.bounds, box.y + box.bounds)
    result = optimize.minimize(negative, box.y, jac=True, method="L-BFGS-B", bounds=bounds,
                               options=settings)
    return result, result.x - box.y


#===----------------------------------------------------------------------===#
# Results
#===----------------------------------------------------------------------===#


def _search_all(y: np.ndarray, targets: np.ndarray, largest: np.ndarray, options: Options,
                optimize) -> tuple[np.ndarray, dict[int, str]]:
    """Searches in each row; returns the rises, and messages for the rows that need one."""
    rises, told = np.empty(len(y)), {}
    for at, (row, target) in enumerate(zip(y, targets)):
        found = _search(_Box(row, int(target), options.epsilon), options, optimize)
        rises[at] = found.rise
        missing = largest[at] - found.rise
        if not found.converged or missing > _SHORTFALL * largest[at] + 1 / _LARGEST_SCALE:
            told[at] = (f"SciPy's {found.message!r} with a rise of {found.rise:.6g}, where "
                        f"{largest[at]:.6g} is the largest")
    return rises, told


def _tell(told: dict[int, str], count: int, options: Options, stacklevel: int) -> None:
    """Warns about searches that did not reach the maximum, or raises an error."""
    if not told:
        return
    named = [f"sequence {at}: {text}" for at, text in list(told.items())[:_NAMED]]
    if len(told) > _NAMED:
        named.append(f"and {len(told) - _NAMED} more")
    text = (f"{len(told)} of {count} searches did not reach the largest loss ("
            f"{'; '.join(named)}). ")
    text += f"Raise maxiter, lower ftol and gtol{', leave scale=False out' * (not options.scale)}"
    text += ' or pass method="exact"'
    if options.strict:
        raise RuntimeError(text)
    warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)


def measure(rows: np.ndarray, targets: np.ndarray, shape: tuple[int, ...], options: Options,
            stacklevel: int) -> np.ndarray:
    """Returns the sharpness of logits (b, v) with targets (b,), in the given shape."""
    optimize = None if options.method == "exact" else _import_scipy()
    if options.reduction == "mean" and not len(rows):
        raise ValueError('reduction is "mean", but there are no sequences; pass at least one')
    _check_values(rows, targets)
    _check_size(rows, options)
    values, told = np.empty(len(rows)), {}
    with np.errstate(divide="ignore", under="ignore"):
        for begin, end in _blocks(rows):
            y, own = rows[begin:end].astype(np.float64), targets[begin:end].astype(np.int64)
            losses, rises = _largest_rises(y, own, options.epsilon)
            if optimize:
                rises, new = _search_all(y, own, rises, options, optimize)
                told |= {begin + at: text for at, text in new.items()}
            values[begin:end] = 100 * rises / (1 + losses)
    _tell(told, len(rows), options, stacklevel + 1)
    return np.asarray(values.mean()) if options.reduction == "mean" else values.reshape(shape)
