"""The sharpness of a language model's loss around the logits of its last token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem._sharpness_options import FTOL, GTOL, MAXITER, Options

if TYPE_CHECKING:
    import numpy as np


def sharpness(
    logits, target, epsilon: float = 5e-4, *, method: str = "l-bfgs-b", scale: bool = True,
    ftol: float = FTOL, gtol: float = GTOL, maxiter: int = MAXITER, strict: bool = False,
    reduction: str = "none",
) -> np.ndarray:
    r"""Measures by how many percent the loss can rise if each logit of the last token changes
    slightly.

    If :math:`y` are the logits of the last token and :math:`f` is their cross entropy, this is
    equation 2 of "To FP8 and Back Again",

    .. math:: 100\,\frac{\max_z f(y + z) - f(y)}{1 + f(y)},
              \qquad |z_i| \le \epsilon\,(|y_i| + 1).

    Args:
        logits: (v,), (b, v) or (b, s, v) numbers in float16, bfloat16 (of ml_dtypes), float32 or
            float64. Only the last token of each sequence is used.
        target: the correct tokens, integers of shape (), (b,) or (b, s). With logits of shape
            (b, s, v), shape (b,) means the targets of the last tokens.
        epsilon: the relative size of the changes.
        method: ``"l-bfgs-b"`` searches for the maximum as the paper does, with SciPy's algorithm
            of this name, starting at the logits. ``"exact"`` computes it: the loss increases
            with every logit except the target's, with which it decreases, so the maximum is at
            :math:`z_i = \epsilon (|y_i| + 1)` and :math:`z_t = -\epsilon (|y_t| + 1)`. It does
            not need SciPy and takes less than a hundredth of the time.
        scale: whether the search is over :math:`z_i / (\epsilon (|y_i| + 1))`, between -1 and 1,
            with a loss that is scaled so that SciPy's tolerances mean the same for every model.
            It finds the maximum to a relative accuracy of 1e-8. With False, SciPy gets the
            unscaled loss as a function of the logits. Its default `gtol` then ends the search
            before the first step, with a sharpness of 0, if the target's probability is above
            0.99999, and stops too early with large vocabularies if the probability is close to
            that.
        ftol, gtol, maxiter: SciPy's options of these names, with its defaults: a search ends
            when an iteration gains less than `ftol` of the loss, when no entry of the
            projected gradient is above `gtol`, or after `maxiter` iterations.
        strict: whether a search that does not reach the maximum is an error. Otherwise it causes
            a :class:`ConvergenceWarning`, and the result is the value that the search has found.
        reduction: ``"none"``, or ``"mean"`` for the mean over the sequences.

    Returns:
        A float64 array with a number for each sequence, of shape () for logits of shape (v,) and
        for the mean.

    Raises:
        TypeError: logits are not floating-point numbers, or targets are not integers.
        ValueError: shapes do not match, a logit is not finite, a target is outside the
            vocabulary, or an option is invalid.
        ImportError: the method is a search, and SciPy is not installed.
        RuntimeError: a search has not reached the maximum, and `strict` is set.

    >>> import tandem
    >>> round(float(tandem.sharpness([0.0, 0.0], 1, 0.5, method="exact")), 3)
    36.625
    """
    options = Options(epsilon, method, scale, ftol, gtol, maxiter, strict, reduction)
    from tandem import _loss_peak
    rows, targets, shape = last_tokens(
        _loss_peak.as_logits(logits), _loss_peak.as_targets(target))
    return _loss_peak.measure(rows, targets, shape, options, stacklevel=3)


def last_tokens(logits, target) -> tuple:
    """Returns the logits (b, v) and targets (b,) of the last tokens, and the shape of the
    result. Takes arrays and tensors."""
    shape, wanted = tuple(logits.shape), tuple(target.shape)
    if not 1 <= len(shape) <= 3:
        raise ValueError(f"logits have shape {shape}; pass (v,), (b, v) or (b, s, v)")
    if shape[-1] == 0:
        raise ValueError(f"logits have shape {shape}, an empty vocabulary; pass a logit for "
                         "each token that the model knows")
    if len(shape) == 3 and shape[1] == 0:
        raise ValueError(f"logits have shape {shape}, sequences without a token; leave them out")
    fitting = {shape[:-1], shape[:1]} if len(shape) == 3 else {shape[:-1]}
    if wanted not in fitting:
        raise ValueError(f"target has shape {wanted}, but logits have {shape}; pass a target of "
                         f"shape {' or '.join(map(str, sorted(fitting)))}")
    if len(shape) == 3:
        logits = logits[:, -1]
    if len(wanted) == 2:
        target = target[:, -1]
    return logits.reshape(-1, shape[-1]), target.reshape(-1), shape[:min(len(shape) - 1, 1)]
