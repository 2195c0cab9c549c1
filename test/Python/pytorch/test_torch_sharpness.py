#===- test_torch_sharpness.py - The sharpness of tensors -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.sharpness: its results for tensors are those of tandem.sharpness for
# arrays, and tensors without values are refused.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")

import tandem
import tandem.torch
from tandem.torch import sharpness

METHODS = pytest.mark.parametrize("method", ("l-bfgs-b", "exact"))
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Y = torch.zeros(2, 5)
T = torch.tensor([1, 2])


def draw(*shape):
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_two_logits():
    # log 2 rises to log(1 + e).
    two, risen = np.log(2), np.log(1 + np.e)
    value = sharpness(torch.zeros(2), 1, 0.5)
    assert value.item() == pytest.approx(100 * (risen - two) / (1 + two), rel=1e-14)


def test_against_cross_entropy():
    """The result is PyTorch's loss at the corner relative to that at the logits."""
    y, t = draw(6, 300).double(), torch.arange(6)
    move = 0.01 * (y.abs() + 1)
    move[range(6), t] *= -1
    loss, risen = (torch.nn.functional.cross_entropy(x, t, reduction="none")
                   for x in (y, y + move))
    torch.testing.assert_close(sharpness(y, t, 0.01), 100 * (risen - loss) / (1 + loss),
                               rtol=1e-12, atol=0)


@METHODS
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("integer", (torch.uint8, torch.int32, torch.int64), ids=str)
def test_as_numpy(method, dtype, integer):
    y = draw(3, 4, 70).to(dtype)
    t = torch.arange(12, dtype=integer).reshape(3, 4)
    value = sharpness(y, t, method=method)
    assert value.dtype == torch.float64 and value.device.type == "cpu"
    expected = tandem.sharpness(y.double().numpy(), t.numpy(), method=method)
    assert value.tolist() == expected.tolist()
    assert sharpness(y[:, -1], t[:, -1], method=method).equal(value)
    assert sharpness(y, t[:, -1], method=method).equal(value)
    assert sharpness(y[1, -1], t[1, -1], method=method).equal(value[1])
    mean = sharpness(y, t, method=method, reduction="mean")
    assert mean.shape == () and mean.item() == pytest.approx(value.mean().item(), rel=1e-15)


def test_options_reach_the_search():
    y = draw(100).double()
    y[0] = 30.0
    with pytest.warns(tandem.ConvergenceWarning, match="sequence 0") as caught:
        assert sharpness(y, 0, scale=False) == 0
    assert caught[0].filename == __file__
    with pytest.raises(RuntimeError, match="sequence 0: .*REACHED.LIMIT"):
        sharpness(draw(100), 0, scale=False, ftol=0.0, gtol=0.0, maxiter=2, strict=True)
    found = sharpness(draw(100), 0, 1e-2, strict=True)
    torch.testing.assert_close(found, sharpness(draw(100), 0, 1e-2, method="exact"),
                               rtol=1e-8, atol=0)


def test_no_gradient_and_no_change():
    y = draw(2, 5).requires_grad_()
    before = y.detach().clone()
    value = sharpness(y * 1.0, T)
    assert not value.requires_grad and value.grad_fn is None
    assert y.grad is None and torch.equal(y, before)
    assert sharpness(torch.nn.Parameter(before), T).equal(value)
    with torch.inference_mode():
        assert sharpness(y, T).equal(value)


def test_views():
    y = draw(5, 4)[:, ::2].T
    assert sharpness(y, T).equal(sharpness(y.contiguous(), T))
    turned = torch.complex(draw(2, 5), draw(2, 5)).conj().imag
    assert turned.is_neg() and sharpness(turned, T).equal(sharpness(-draw(2, 5), T))


@METHODS
@pytest.mark.parametrize(("logits", "target", "error", "text"), (
    ([[0.0, 1.0]], T, TypeError, "logits are a list; pass a tensor, or arrays to tandem.sharp"),
    (Y.long(), T, TypeError, "logits have the type torch.int64; pass one of torch.float16"),
    (Y.to(torch.complex64), T, TypeError, "logits have the type torch.complex64"),
    (Y.to(torch.float8_e4m3fn), T, TypeError, "logits have the type torch.float8_e4m3fn"),
    (Y.to("meta"), T, ValueError, "logits: a tensor on the meta device"),
    (Y.to_sparse(), T, TypeError, "logits: .*sparse_coo; pass logits.to_dense()"),
    (Y, T.to("meta"), ValueError, "target: a tensor on the meta device"),
    (Y, T.float(), TypeError, "target has the type torch.float32; pass numbers of tokens"),
    (Y, T > 1, TypeError, "target has the type torch.bool"),
    (Y, [1, 2], TypeError, "target is a list; pass a tensor of integers"),
    (Y[0], True, TypeError, "target is a bool; pass a tensor of integers"),
    (Y, 1, ValueError, r"target has shape \(\), .* pass a target of shape \(2,\)"),
    (Y, T + 3, ValueError, "target of sequence 1 is 5, outside of the vocabulary of 5"),
    (Y[:, :0], T, ValueError, "an empty vocabulary"),
    (Y / 0, T, ValueError, "logits of sequence 0 have nan for token 0"),
    (Y[None, None], T, ValueError, r"logits have shape \(1, 1, 2, 5\)"),
))
def test_bad_input(method, logits, target, error, text):
    with pytest.raises(error, match=text):
        sharpness(logits, target, method=method)


def test_bad_options():
    with pytest.raises(ValueError, match="epsilon is nan"):
        sharpness(Y, T, float("nan"))
    with pytest.raises(ValueError, match="method is 'newton'"):
        sharpness(Y, T, method="newton")
    assert "sharpness" in tandem.torch.__all__
