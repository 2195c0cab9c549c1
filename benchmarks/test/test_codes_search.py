#===- test_codes_search.py - Moments in a few bits -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the codes of the search for moments in a few bits, its arithmetic, and its page.
#
#===----------------------------------------------------------------------===#

import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/codes"), str(ROOT / "benchmarks")]
import candidates  # noqa: E402
import codes_page  # noqa: E402
import follow  # noqa: E402
from coded import TWO, Code, Curve, Dither, Scale, Stored, mulaw_numbers  # noqa: E402
from common import load  # noqa: E402
from gradients import sample  # noqa: E402
from race import AdamW, BFloat16, Contender  # noqa: E402
from search import mean  # noqa: E402


@pytest.fixture(scope="module")
def results():
    return load("codes")


def contenders() -> dict[str, Contender]:
    return {f"{stage}: {name}": one for stage, made in candidates.STAGES.items()
            for name, one in made().items()}


#===------------------------------------------------------------------------===#
# Codes
#===------------------------------------------------------------------------===#


def test_numbers_rise_to_one():
    for name, one in contenders().items():
        for stored in (one.first, one.second):
            if stored:
                numbers = stored.code.values
                assert (np.diff(numbers) > 0).all() and numbers[-1] == 1, name


@pytest.mark.parametrize("curve", [Curve(), Curve(power=0.25), Curve(tilt=0.25), None])
def test_numbers_are_stored_as_they_are(curve):
    """A number of a code is stored unchanged for all random bits."""
    numbers = candidates.by_factor(32, curve=curve).numbers
    stored = Stored(Code(numbers, curve), Scale(16))
    x = np.tile((numbers * 3).astype(np.float32), (2, 1))
    random = np.array([[0.5 / 65536], [65535.5 / 65536]], np.float32) + np.zeros_like(x)
    assert np.array_equal(stored(x, random), np.tile(stored.code.values * np.float32(3), (2, 1)))


def test_rounding_is_right_on_average():
    """The mean of what is stored for all random bits is the value, by its own coordinate."""
    stored = candidates.ratios()["linear"].first
    x = np.tile(np.linspace(-1, 1, 32, dtype=np.float32), (4096, 1))
    random = (np.arange(4096, dtype=np.float32)[:, None] + 0.5) / 4096 + np.zeros_like(x)
    assert stored(x, random).mean(0) == pytest.approx(x[0], abs=1e-3)


def test_a_fourth_root_leaves_the_inverse_root():
    """Rare steps up and down balance where 1 / sqrt(v) is right on average."""
    low, high = 1.0, 2.0
    for share in (0.25, 0.5, 0.75):
        z, f = Curve(power=0.25).pieces(low, high)
        value = low + share * (high - low)
        up = share * (f[1] - f[0]) / (z[1] - z[0])
        down = (1 - share) * (f[-1] - f[-2]) / (z[-1] - z[-2])
        upper = up / (up + down)
        inverse = (1 - upper) / np.sqrt(low) + upper / np.sqrt(high)
        assert inverse == pytest.approx(value**-0.5, rel=0.01)


def test_the_exponent_is_the_code():
    """K32 stores the exponent of 2 + y, and its mantissa is the fraction."""
    code = candidates.by_factor(32, curve=Curve())
    y = np.linspace(2, 131070, 999, dtype=np.float32)
    bits = (np.float32(2) + y).view(np.uint32) - TWO
    ranks = code.ranks(y / np.float32(131070), np.float32(0))
    exponent, mantissa = (bits >> 23).astype(int) - 1, bits & 0x7FFFFF
    inside = (mantissa > 64) & (mantissa < 0x7FFFFF - 64)
    assert np.array_equal(ranks[inside], exponent[inside])


def test_the_mulaw_code_is_that_of_the_numerics():
    numbers = candidates.eight_bit_mulaw().second.code.numbers
    assert np.array_equal(numbers, mulaw_numbers(372827, 255))


def test_no_second_moment_becomes_zero():
    for name, one in candidates.finalists().items():
        x = np.zeros((1, 4096), np.float32)
        x[0, ::64], x[0, 1::2] = 1.0, 1e-20
        random = Dither(1, 1, np.arange(4096), 3, 1).at(1)
        assert (one.second(x, random)[x > 0] > 0).all(), name


def test_scales_are_at_least_the_largest():
    largest = np.exp(np.linspace(-9, 0, 64, dtype=np.float32))[None]
    for scale in (Scale(32), candidates.bf16(32), candidates.e4m3(32), candidates.e8m0(32)):
        found = scale.of(largest)
        assert (found >= largest).all() and (found <= 2 * largest).all()
    assert candidates.bf16(32).bits == 0.5 and Scale(32).bits == 1
    assert candidates.e4m3(32).bits == pytest.approx(7 / 32 + 1 / 8)


#===------------------------------------------------------------------------===#
# Races
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("form", ["plain", "ratio"])
def test_exact_moments_are_adamw(form):
    """With moments in f32, both forms are PyTorch's AdamW."""
    elements, random = sample(256), np.random.default_rng(1)
    adam = AdamW(Contender(form=form), 1, elements, 9, 1, (0.99,))
    weight = torch.nn.Parameter(torch.zeros(256, dtype=torch.float64))
    peer = torch.optim.AdamW([weight], lr=1, betas=(0.9, 0.99), weight_decay=0.0)
    moved = 0
    for _ in range(9):
        gradient = random.standard_normal((1, 256)).astype(np.float32)
        moved = moved + adam.step(gradient)[0, 0]
        weight.grad = torch.from_numpy(gradient[0]).double()
        peer.step()
    assert moved == pytest.approx(-weight.detach().numpy(), rel=1e-4, abs=1e-5)


def test_weights_without_gradients_do_not_move():
    for name, one in candidates.finalists().items():
        adam = AdamW(one, 1, np.arange(1024), 40, 1)
        gradient = np.zeros((1, 1024), np.float32)
        gradient[0, ::3] = 1e-3
        moved = sum(np.abs(adam.step(gradient)) for _ in range(40))
        assert moved[..., 1::3].max() == 0, name


def test_bf16_weights_move():
    adam = BFloat16(np.full(64, 0.125, np.float32), (0.95,))
    for _ in range(3):
        adam.step(np.ones(64, np.float32))
    assert adam.moved() == pytest.approx(3, rel=0.1)


#===------------------------------------------------------------------------===#
# Results
#===------------------------------------------------------------------------===#


def test_everything_is_measured(results):
    for stage in ("m", "v", "ratio", "pairs"):
        assert set(candidates.STAGES[stage]()) <= set(results["choosing"][stage])
    names = {*candidates.finalists(), candidates.PYTORCH_BF16}
    for cells in results["final"].values():
        assert set(cells) == names, "run scripts/codes.sh"


def test_what_was_measured_is_what_happens(results):
    measured = follow.measure(candidates.finalists()[candidates.CHOSEN], 0.95)
    recorded = results["following"][candidates.CHOSEN]["0.95"]
    for key in ("x3", "x0.3"):
        assert measured[key] == pytest.approx(recorded[key], rel=1e-3)
    assert follow.follows(measured) and recorded["follows"]


def test_what_the_page_says(results):
    """The quotient is better than m itself, and published codes do not follow."""
    found = codes_page.Results(results)
    assert found.error(codes_page.CLOSEST) < 0.75 * found.error(codes_page.ITSELF)
    assert found.error(candidates.CHOSEN) < found.error(codes_page.TORCHAO) / 2
    assert found.follows(candidates.CHOSEN) == "yes"
    for rounded in (candidates.ROUNDED_SCALES, "8 + 8, K45, bf16 scales of 128"):
        assert found.follows(rounded) == "no"
    assert found.follows(codes_page.CLOSEST) == found.follows(codes_page.TORCHAO) == "no"
    ratios, moments = (results["choosing"][stage] for stage in ("ratio", "m"))
    assert mean(ratios["linear"]) < 0.6 * min(
        mean(moments[name]) for name in ("mu7", "mu11", "mu15"))


def test_page_is_up_to_date(results):
    assert (ROOT / "docs/Codes.md").read_text() == codes_page.page(
        results, load("cpu_step_few_bits"), load("instructions")["kernels"]), (
        "run benchmarks/codes/codes_page.py")
