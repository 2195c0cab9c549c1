#===- test_sharpness.py - The sharpness of a loss --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.sharpness against values computed by hand, all corners of the box, fifty
# digits, and SciPy called as in the paper.
#
#===----------------------------------------------------------------------===#

import itertools
import math
import subprocess
import sys
import warnings
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest

import tandem
from tandem import ConvergenceWarning, sharpness

optimize = pytest.importorskip("scipy.optimize")

METHODS = pytest.mark.parametrize("method", ("l-bfgs-b", "exact"))


@pytest.fixture(autouse=True)
def no_warnings():
    """Fails tests in which a search stops early unexpectedly."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def draw(vocabulary, seed=0, spread=3.0):
    return np.random.default_rng(seed).normal(0, spread, vocabulary)


def with_probability(p, vocabulary, seed=0):
    """Returns logits for which token 0 has the given probability."""
    y = draw(vocabulary, seed)
    y[0] = np.log(np.exp(y[1:]).sum()) + math.log(p / (1 - p))
    return y


#===----------------------------------------------------------------------===#
# Values
#===----------------------------------------------------------------------===#


@METHODS
@pytest.mark.parametrize(("logits", "target", "epsilon", "expected"), (
    # log 2 = 0.693147 rises to log(1 + e) = 1.313262.
    ([0.0, 0.0], 1, 0.5, 62.0114507 / 1.6931472),
    # Bounds 0.2 and 0.1: log(1 + exp(-1)) = 0.313262 rises to log(1 + exp(-0.7)) = 0.403186.
    ([1.0, 0.0], 0, 0.1, 8.9924361 / 1.3132617),
    # The same logits with the other token as the target: log(1 + e) to log(1 + exp(1.3)).
    ([1.0, 0.0], 1, 0.1, 22.7746713 / 2.3132617),
    # log 3 = 1.098612 rises to log(1 + 2 exp(0.02)) = 1.111990.
    ([0.0, 0.0, 0.0], 2, 0.01, 1.3377679 / 2.0986123),
    # A token without alternatives is certain.
    ([7.0], 0, 0.5, 0.0),
))
def test_by_hand(method, logits, target, epsilon, expected):
    value = sharpness(logits, target, epsilon, method=method)
    assert float(value) == pytest.approx(expected, rel=2e-6, abs=1e-300)


def loss_of(logits, target):
    """Computes the cross entropy with Python's floats."""
    return math.log(math.fsum(math.exp(y - logits[target]) for y in logits))


def over_corners(logits, target, epsilon):
    """Computes the sharpness by trying all corners of the box."""
    bounds = [epsilon * (abs(y) + 1) for y in logits]
    corners = itertools.product(*((y - b, y + b) for y, b in zip(logits, bounds)))
    loss = loss_of(logits, target)
    return 100 * (max(loss_of(corner, target) for corner in corners) - loss) / (1 + loss)


@METHODS
@pytest.mark.parametrize("vocabulary", range(1, 9))
@pytest.mark.parametrize("epsilon", (5e-4, 0.05, 2.0))
def test_all_corners(method, vocabulary, epsilon):
    for seed in range(3):
        logits = draw(vocabulary, seed).tolist()
        target = seed % vocabulary
        value = sharpness(logits, target, epsilon, method=method)
        expected = over_corners(logits, target, epsilon)
        assert float(value) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def in_fifty_digits(logits, target, epsilon):
    with mpmath.workdps(50):
        y = [mpmath.mpf(float(v)) for v in logits]
        bounds = [mpmath.mpf(epsilon) * (abs(v) + 1) for v in y]
        corner = [v + b for v, b in zip(y, bounds)]
        corner[target] = y[target] - bounds[target]
        def loss(v):
            return mpmath.log(mpmath.fsum(mpmath.exp(x - v[target]) for x in v))
        return 100 * (loss(corner) - loss(y)) / (1 + loss(y))


@METHODS
@pytest.mark.parametrize("epsilon", (1e-12, 5e-4, 0.3, 4.0))
@pytest.mark.parametrize("probability", (1e-9, 0.3, 0.999, 1 - 1e-9))
def test_fifty_digits(method, epsilon, probability):
    """Small rises of small losses are accurate, too."""
    logits = with_probability(probability, 60)
    value = float(sharpness(logits, 0, epsilon, method=method))
    assert value == pytest.approx(float(in_fifty_digits(logits, 0, epsilon)), rel=1e-12)


@pytest.mark.parametrize("vocabulary", (2, 1000, 32000))
@pytest.mark.parametrize("epsilon", (1e-9, 5e-4, 1.0))
@pytest.mark.parametrize("probability", (1e-12, 0.5, 0.99999, 1 - 1e-12))
def test_search_finds_the_maximum(vocabulary, epsilon, probability):
    logits = with_probability(probability, vocabulary, seed=vocabulary)
    found = sharpness(logits, 0, epsilon, strict=True)
    np.testing.assert_allclose(found, sharpness(logits, 0, epsilon, method="exact"), rtol=1e-8)


@pytest.mark.parametrize("spread", (0.0, 1e-3, 30.0, 1000.0))
def test_search_of_spread_logits(spread):
    logits = np.stack([draw(500, seed, spread) for seed in range(5)])
    found = sharpness(logits, np.arange(5), strict=True)
    exact = sharpness(logits, np.arange(5), method="exact")
    np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-240)


def test_logits_too_large_to_search():
    logits = [1e6, -1e6]
    value = sharpness(logits, 1, method="exact")
    # The loss is 2e6, and both logits move by 500.0005 in its direction.
    assert float(value) == pytest.approx(100 * 1000.001 / (2e6 + 1), rel=1e-12)
    with pytest.raises(ValueError, match='logits of 1e.06 move by 500 .* method="exact"'):
        sharpness(logits, 1)


#===----------------------------------------------------------------------===#
# SciPy's tolerances
#===----------------------------------------------------------------------===#


def as_in_the_paper(logits, target, epsilon=5e-4):
    """Runs SciPy's L-BFGS-B from the logits with default options."""
    from scipy.special import log_softmax

    def negative(y):
        log_p = log_softmax(y)
        return log_p[target], (np.arange(len(y)) == target) - np.exp(log_p)

    bounds = epsilon * (np.abs(logits) + 1)
    run = optimize.minimize(negative, logits, jac=True, method="L-BFGS-B",
                            bounds=list(zip(logits - bounds, logits + bounds)))
    loss = -negative(logits)[0]
    return 100 * (-run.fun - loss) / (1 + loss)


@pytest.mark.parametrize("probability", (1e-6, 0.5, 0.999, 0.999999))
def test_without_scale_it_is_the_papers_call(probability):
    logits = with_probability(probability, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        value = float(sharpness(logits, 0, scale=False))
    assert value == pytest.approx(as_in_the_paper(logits, 0), rel=1e-6, abs=1e-12)


def test_without_scale_confident_models_have_no_sharpness():
    """The search finds none, as docs/Sharpness.md and the warning say."""
    logits = np.stack([draw(100), with_probability(0.9999, 100),
                       with_probability(1 - 9e-6, 100)])
    exact = sharpness(logits, [0, 0, 0], method="exact")
    with pytest.warns(ConvergenceWarning) as caught:
        found = sharpness(logits, [0, 0, 0], scale=False)
    assert 0.9998 < found[0] / exact[0] < 1
    assert 0.88 < found[1] / exact[1] < 0.98
    assert found[2] == 0 and exact[2] > 1e-5
    text = str(caught[0].message)
    assert "3 of 3 searches did not reach the largest loss" in text
    assert "sequence 2: SciPy's 'CONVERGENCE: NORM OF PROJECTED GRADIENT" in text.replace("_", " ")
    assert "with a rise of 0, where" in text and "gtol, leave scale=False out or" in text


def test_lower_tolerances_without_scale():
    """Lower tolerances bring the search near the maximum, but SciPy stops before it."""
    logits = with_probability(1 - 9e-6, 100)
    with pytest.warns(ConvergenceWarning, match="REDUCTION.OF.F"):
        found = sharpness(logits, 0, scale=False, ftol=0.0, gtol=1e-13)
    assert 0.99 < found / sharpness(logits, 0, method="exact") < 1 - 1e-6


def test_iterations_that_do_not_suffice():
    logits = np.stack([np.zeros(100), draw(100)])
    with pytest.warns(ConvergenceWarning, match="1 of 2 .*sequence 1: SciPy's 'STOP: TOTAL.NO"
                      ) as caught:
        found = sharpness(logits, [1, 1], scale=False, maxiter=2)
    assert caught[0].filename == __file__
    assert 0 < found[1] < sharpness(logits, [1, 1], method="exact")[1]
    with pytest.raises(RuntimeError, match="1 of 2 .*sequence 1: .*REACHED.LIMIT"):
        sharpness(logits, [1, 1], scale=False, maxiter=2, strict=True)


def test_failures_are_told_though_nothing_is_missing():
    logits = draw(1000, 1, 30.0)
    with pytest.warns(ConvergenceWarning, match="sequence 0: SciPy's .*REACHED.LIMIT"):
        found = sharpness(logits, 0, maxiter=1)
    np.testing.assert_allclose(found, sharpness(logits, 0, method="exact"), rtol=1e-7)


def test_sequences_of_later_blocks_are_named(monkeypatch):
    monkeypatch.setattr("tandem._loss_peak._BLOCK", 250)
    logits = np.tile(np.zeros(100), (9, 1))
    logits[7] = with_probability(1 - 1e-7, 100)
    with pytest.warns(ConvergenceWarning, match="1 of 9 .*sequence 7: "):
        found = sharpness(logits, np.zeros(9, int), scale=False)
    assert found[7] == 0 and (np.delete(found, 7) > 0).all()


def test_message_names_a_few():
    logits = np.tile(with_probability(1 - 1e-7, 100), (9, 1))
    with pytest.raises(RuntimeError, match="9 of 9 .*sequence 3: .*; and 5 more"):
        sharpness(logits, np.zeros(9, int), scale=False, strict=True)


#===----------------------------------------------------------------------===#
# Shapes and types
#===----------------------------------------------------------------------===#


@METHODS
def test_batches_are_their_sequences(method):
    logits = draw((4, 3, 50), 1)
    logits[:, :-1] = np.nan  # only last tokens count
    target = np.arange(12).reshape(4, 3)
    each = [sharpness(logits[i, -1], target[i, -1], method=method) for i in range(4)]
    assert all(value.shape == () and value.dtype == np.float64 for value in each)
    for arrays in ((logits, target), (logits, target[:, -1]), (logits[:, -1], target[:, -1])):
        value = sharpness(*arrays, method=method)
        assert value.dtype == np.float64 and value.tolist() == [float(v) for v in each]
        mean = sharpness(*arrays, method=method, reduction="mean")
        assert mean.shape == () and mean.dtype == np.float64
        assert float(mean) == pytest.approx(np.mean(each), rel=1e-15)


@METHODS
@pytest.mark.parametrize("dtype", (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, ">f4"))
def test_types(method, dtype):
    logits = draw((2, 40)).astype(dtype)
    before = logits.tobytes()
    value = sharpness(logits, np.array([3, 39], np.uint8), method=method)
    assert logits.tobytes() == before
    expected = sharpness(logits.astype(np.float64), [3, 39], method=method)
    assert value.tolist() == expected.tolist()


def test_numbers_that_are_no_floats():
    expected = sharpness([1.0, 2.0], 0, 0.125)
    for epsilon in (np.float32(0.125), Fraction(1, 8)):
        assert sharpness([1.0, 2.0], 0, epsilon, maxiter=np.int64(9)) == expected


def test_strided_views():
    logits = draw((40, 6)).T[::2]
    assert not logits.flags.c_contiguous
    copy = np.ascontiguousarray(logits)
    assert sharpness(logits, [1, 2, 3]).tolist() == sharpness(copy, [1, 2, 3]).tolist()


@METHODS
def test_no_sequences(method):
    assert sharpness(np.zeros((0, 5)), np.zeros(0, int), method=method).shape == (0,)
    with pytest.raises(ValueError, match="there are no sequences; pass at least one"):
        sharpness(np.zeros((0, 5)), np.zeros(0, int), method=method, reduction="mean")


@pytest.mark.parametrize("shape", ((3, (1 << 20) + 5), (300_000, 4)))
def test_more_than_fits_a_block(shape):
    logits = draw(shape, 2, 1.0).astype(np.float32)
    target = np.arange(shape[0]) % shape[1]
    value = sharpness(logits, target, method="exact")
    for at in (0, 1, shape[0] - 1):
        alone = sharpness(logits[at], target[at], method="exact")
        assert float(value[at]) == pytest.approx(float(alone), rel=1e-13)
    logits[-1, 2] = np.inf
    with pytest.raises(ValueError, match=f"sequence {shape[0] - 1} have inf for token 2"):
        sharpness(logits, target, method="exact")


#===----------------------------------------------------------------------===#
# Bad input
#===----------------------------------------------------------------------===#

Y = np.zeros((2, 5))
T = np.array([1, 2])
NAN = np.array([[0, 0, 0], [0, np.nan, 0]])


@METHODS
@pytest.mark.parametrize(("logits", "target", "options", "error", "text"), (
    (NAN, T, {}, ValueError, "logits of sequence 1 have nan for token 1.*Leave the sequence"),
    (-np.inf * (Y == 0), T, {}, ValueError, "sequence 0 have -inf for token 0.*mask tokens"),
    (Y.astype(int), T, {}, TypeError, "logits have the type int64; pass one of float16"),
    (Y > 0, T, {}, TypeError, "logits have the type bool"),
    (Y + 0j, T, {}, TypeError, "logits have the type complex128"),
    (Y.astype(ml_dtypes.float8_e5m2), T, {}, TypeError, "logits have the type float8_e5m2"),
    ([[0.0], [0.0, 1.0]], T, {}, TypeError, "logits: a list that is not an array"),
    (Y + 1e308, T, {}, ValueError, "leave float64; pass smaller logits"),
    (np.float64(3), 0, {}, ValueError, r"logits have shape \(\); pass \(v,\), \(b, v\)"),
    (Y[None, None], T, {}, ValueError, r"logits have shape \(1, 1, 2, 5\)"),
    (Y[:, :0], T, {}, ValueError, r"\(2, 0\), an empty vocabulary; pass a logit"),
    (np.zeros((2, 0, 5)), T, {}, ValueError, "sequences without a token; leave them out"),
    (Y, 1, {}, ValueError, r"target has shape \(\), .* pass a target of shape \(2,\)"),
    (Y[0], T, {}, ValueError, r"target has shape \(2,\), .* pass a target of shape \(\)"),
    (Y, T[None], {}, ValueError, r"target has shape \(1, 2\)"),
    (np.zeros((2, 3, 5)), T[:1], {}, ValueError, r"of shape \(2,\) or \(2, 3\)"),
    (Y, [1, 5], {}, ValueError, "target of sequence 1 is 5, .* of 5; pass 0 to 4"),
    (Y, [-100, 1], {}, ValueError, "sequence 0 is -100, .*padding, pass the logits"),
    (Y, T.astype(float), {}, TypeError, "target has the type float64; pass numbers of tokens"),
    (Y, T > 1, {}, TypeError, "target has the type bool"),
    (Y, T, {"epsilon": 0.0}, ValueError, "epsilon is 0.0, .*pass a positive one"),
    (Y, T, {"epsilon": -1e-3}, ValueError, "epsilon is -0.001"),
    (Y, T, {"epsilon": math.nan}, ValueError, "epsilon is nan; pass a finite number"),
    (Y, T, {"epsilon": math.inf}, ValueError, "epsilon is inf; pass a finite number"),
    (Y, T, {"epsilon": 10**400}, ValueError, "epsilon is 1000.*; pass a finite number"),
    (Y, T, {"epsilon": "5e-4"}, TypeError, "epsilon is '5e-4'; pass a number"),
    (Y, T, {"epsilon": True}, TypeError, "epsilon is True; pass a number"),
    (Y, T, {"ftol": -1.0}, ValueError, "ftol is -1.0; pass 0 or more"),
    (Y, T, {"gtol": math.nan}, ValueError, "gtol is nan; pass a finite number"),
    (Y, T, {"maxiter": 0}, ValueError, "maxiter is 0; pass 1 to 100000000"),
    (Y, T, {"maxiter": 10**9}, ValueError, "maxiter is 1000000000; pass 1 to 100000000"),
    (Y, T, {"maxiter": 10.0}, TypeError, "maxiter is 10.0; pass an integer"),
    (Y, T, {"reduction": "sum"}, ValueError, "reduction is 'sum'; pass 'none' or 'mean'"),
    (Y, T, {"scale": 1}, TypeError, "scale is 1; pass True or False"),
    (Y, T, {"strict": "no"}, TypeError, "strict is 'no'; pass True or False"),
))
def test_bad_input(method, logits, target, options, error, text):
    with pytest.raises(error, match=text):
        sharpness(logits, target, method=method, **options)


def test_bad_method():
    with pytest.raises(ValueError, match="method is 'newton'; pass 'l-bfgs-b' or 'exact'"):
        sharpness(Y, T, method="newton")


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ImportError, match="pip install scipy, or tandem-mlir.sharpness.*exact"):
        sharpness(Y, T)
    assert sharpness(Y, T, method="exact").shape == (2,)


def test_importing_tandem_imports_no_library():
    code = "import sys, tandem; assert not {'scipy', 'numpy'} & set(sys.modules)"
    path = [str(p) for p in sys.path]
    run = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_names():
    assert {"sharpness", "ConvergenceWarning"} <= set(tandem.__all__)
