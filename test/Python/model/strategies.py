#===- strategies.py - Strategies of the model ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the strategies of the library, and others for tests, each as the storages of
# roles and the format that is computed in.
#
#===----------------------------------------------------------------------===#
"""Implements strategies, and the moments by which they assign storages."""

from dataclasses import dataclass, replace
from typing import Optional

from .codes import (DynamicCode, ExpandedCode, FloatCode, LinearCode, MinifloatCode, MuLawCode,
                    PairCode, RootCode, SoftsignCode)
from .scaled import WHOLE, Coded, Masked, Residual, Scaled
from .storage import Expansion, Kahan, Master, Plain, Remainder, Storage

#===----------------------------------------------------------------------===#
# Strategies
#===----------------------------------------------------------------------===#


@dataclass(frozen=True)
class Strategy:
    """The storages of roles, and the compute policy.

    `component` is the format of the component policy; None selects the f32 policy. `factors` is the
    storage of row and column second moments, if it differs from the others'.
    """

    grad: Storage
    param: Storage
    first: Storage
    second: Storage
    component: Optional[str] = None
    factors: Optional[Storage] = None

    def storage(self, role):
        if self.factors and role in FACTORS:
            return self.factors
        moment = MOMENT.get(role)
        if moment == "average":
            return self.average
        if moment == "slow":
            return self.lasting(self.first)
        return getattr(self, {"grad": "grad", "param": "param"}.get(role) or MOMENT[role])


    @property
    def average(self):
        """The storage of an average of weights: the param's, without copies for others."""
        return Plain("f32") if isinstance(self.param, Master) else self.lasting(self.param)

    def lasting(self, storage):
        """Returns a storage that keeps small changes, in place of 16-bit floats to nearest."""
        if isinstance(storage, Plain) and storage in map(Plain, ("bf16", "f16")):
            format = storage.format
            return Expansion(format) if self.component else Plain(format, "dither")
        return storage


# The moment that a state role represents, a first one over many steps, or that it is the average of
# weights.
MOMENT = {
    "ema": "average",
    "exp_avg": "first",
    "exp_avg_slow": "slow",
    "offset": "slow",
    "s": "slow",
    "ratio": "first",
    "momentum_buffer": "first",
    "exp_avg_sq": "second",
    "square_avg": "second",
    "sum": "second",
    "exp_inf": "second",
    "exp_avg_diff": "first",
    "previous": "first",
    "step_size": "second",
    "ax": "average",
    "p0": "average",
    "acc_delta": "second",
    "variance": "second",
    "row_var": "second",
    "col_var": "second",
    "last_grad": "first",
    "exp_avg_sq_row": "second",
    "exp_avg_sq_col": "second",
    "exp_avg_res_row": "second",
    "exp_avg_res_col": "second",
}

# Adafactor's and CAME's moments of rows and columns.
FACTORS = ("row_var", "col_var",
           *(f"exp_avg_{what}_{per}" for what in ("sq", "res") for per in ("row", "col")))


def role_draw(role, roles, draw):
    """Returns the Draw of a role's store under the f32 policy. The arguments of every graph are
    the parameter, the gradient and the states, in this order."""
    order = ["param", "grad"] + [r for r in roles if r not in ("param", "grad")]
    return replace(draw, number=order.index(role), floor=MOMENT.get(role) == "second")


def _table(low, prefix=""):
    """Returns the named strategies with `low` as their 16-bit format."""
    plain, f32, pair = Plain(low), Plain("f32"), Expansion(low)
    random = Plain(low, "stochastic")
    return {
        low: Strategy(plain, plain, plain, plain, low),
        f"{low}-kahan": Strategy(plain, Kahan(low), plain, plain, low),
        f"{low}-stochastic": Strategy(plain, random, plain, plain),
        f"{prefix}collage-light": Strategy(plain, pair, plain, plain, low),
        f"{prefix}collage-plus": Strategy(plain, pair, plain, pair, low),
        f"{prefix}collage-light-f32": Strategy(plain, pair, plain, plain),
        f"{prefix}collage-plus-f32": Strategy(plain, pair, plain, pair),
        f"{prefix}fp32-optim": Strategy(plain, plain, f32, f32),
        f"{prefix}master-weights": Strategy(plain, Master(low), f32, f32),
    }


def _with_factors(strategies):
    """Adds factors as in the library: f32 under the f32 policy, whatever the other states are."""
    return {name: s if s.component else replace(s, factors=Plain("f32"))
            for name, s in strategies.items()}


_DITHERED = Plain("bf16", "dither")
BF16_STRATEGIES = _with_factors(_table("bf16") | {
    "bf16-dither": Strategy(Plain("bf16"), *3 * [_DITHERED]),
    "remainder": Strategy(Plain("bf16"), Remainder(), Plain("f32"), Plain("f32"))})
_F16_TABLE = _with_factors(_table("f16", "f16-"))
STRATEGIES = BF16_STRATEGIES | _F16_TABLE | {"fp32": Strategy(*4 * [Plain("f32")])}


_E4M3, _E5M2 = FloatCode("f8E4M3FN"), FloatCode("f8E5M2")
_SIGNED, _UNSIGNED = DynamicCode(True), DynamicCode(False)
# The ranges down to the smallest number, and to the smallest normal number.
_EVERY, _NORMAL = ExpandedCode(_E4M3, 229376.0), ExpandedCode(_E4M3, 28672.0)


def _dither(code):
    """Returns the code or storage with dither."""
    if isinstance(code, ExpandedCode):
        return replace(code, base=_dither(code.base))
    return replace(code, rounding="dither")


def _softsign_library():
    """Returns the named strategies that are not from a paper."""
    grad = Scaled(SoftsignCode(), 64, "bf16")
    first = Scaled(SoftsignCode("dither"), 32, "f32")
    residual, root = Residual("bf16", "i8", "dither"), Scaled(RootCode("dither"), 32, "f32")
    weight = Scaled(MinifloatCode(5, 10, rounding="dither"), 128, "f32")
    half = MinifloatCode(5, 10, None, "ieee", "dither", (0, 15))
    return {
        "flash-f16": Strategy(Plain("bf16"), residual, first, Scaled(half, 32, "f32")),
        "residual-softsign-f16": Strategy(grad, residual, first, Scaled(half, 32, "f32")),
        "residual-softsign-root": Strategy(grad, residual, first, root),
        "dither-softsign-root": Strategy(grad, weight, first, root),
    }


def _mulaw_library():
    """Returns the named strategies with mu-law codes of 8 bits, and of 4 for second moments."""
    bf16 = Plain("bf16")
    first = Scaled(MuLawCode(True, "dither"), 32, "f32")
    second = Scaled(MuLawCode(False, "dither"), 32, "f32", "pow2")
    small = [Scaled(LinearCode(4, "dither"), 32, "bf16"), Scaled(MuLawCode(False, "dither", 4), 32, "f32")]
    weight, residual = Plain("bf16", "dither"), Residual("bf16", "i8", "dither")
    coded = Scaled(MinifloatCode(5, 10, rounding="dither"), 128, "f32")
    return {
        "coded-ratio4": Strategy(Scaled(SoftsignCode(), 64, "bf16"), coded, *small),
        "dither-mulaw": Strategy(bf16, weight, first, second),
        "residual-mulaw": Strategy(bf16, residual, first, second),
        "dither-ratio4": Strategy(bf16, weight, *small),
        "residual-ratio4": Strategy(bf16, residual, *small),
    }


def _coat_library():
    """Returns strategies with 8-bit float moments whose range is expanded per group of 128."""
    bf16, f32 = Plain("bf16"), Plain("f32")
    first, second = (Scaled(_dither(c), 128, "f32") for c in (_EVERY, _NORMAL))
    return {
        "coat": Strategy(bf16, Master("bf16"), first, second),
        "coat-bf16": Strategy(bf16, Plain("bf16", "dither"), first, second),
        "coat-fp32": Strategy(f32, f32, first, second),
        "coat-remainder": Strategy(bf16, Remainder(), first, second),
    }


def _scaled_library():
    """Returns the named strategies with scales."""
    bf16, weight = Plain("bf16"), Plain("bf16", "dither")
    softsign, root = (Scaled(c, 32, "f32") for c in (SoftsignCode("dither"),
                                                     RootCode("dither")))
    grad, one, two = (Scaled(c, 128, "f32", "pow2") for c in (
        _E4M3, _dither(_E4M3), PairCode("f8E4M3FN", "dither")))
    unsigned = Scaled(_dither(_UNSIGNED), 256, "f32")
    return _softsign_library() | _mulaw_library() | _coat_library() | {
        "flash": Strategy(bf16, Residual("bf16", "i8", "dither"), softsign, root),
        "flash-32": Strategy(bf16, Residual("bf16", "i16", "dither"), softsign, root),
        "adam8bit": Strategy(bf16, weight, Scaled(_dither(_SIGNED), 256, "f32"), unsigned),
        "fp8-collage-light": Strategy(grad, two, one, one),
        "fp8-collage-plus": Strategy(grad, two, one, two),
    }


def _scaled_table():
    """Returns more of them: each code, scale type and recipe."""
    bf16, f16 = Plain("bf16"), Plain("f16")
    pair, low_pair = PairCode("f8E4M3FN"), PairCode("f8E5M2")
    low_every = ExpandedCode(_E5M2, 57344.0 * 2.0**16)
    return {
        "flash-wide": Strategy(bf16, Residual("f16", "i16"),
                               Scaled(SoftsignCode(), 256, "f8E8M0FNU", "mx_floor"),
                               Scaled(RootCode(), 16, "f32", "pow2")),
        # These have dither, or wider moments, or moments with different ranges.
        "coat-e5m2": Strategy(
            bf16, Expansion("bf16"), Scaled(_dither(_EVERY), 128, "f32"),
            Scaled(_dither(ExpandedCode(_E5M2, 57344.0 * 2.0**14)), 128, "f32")),
        "adam8bit-expanded": Strategy(
            bf16, Plain("bf16", "dither"),
            Scaled(_dither(ExpandedCode(_SIGNED, 1e4)), 256, "f32"),
            Scaled(_dither(_UNSIGNED), 256, "f32")),
        "fp8-moments": Strategy(bf16, bf16, Scaled(_E4M3, 128, "bf16"),
                                Scaled(_E4M3, 128, "bf16")),
        "coat-low": Strategy(bf16, Residual("bf16", "i8"), Scaled(low_every, 32, "f32"),
                             Scaled(_EVERY, 256, "f8E8M0FNU", "pow2")),
        "coat-half": Strategy(f16, Scaled(low_every, 64, "f8E8M0FNU", "mx_floor"),
                              Scaled(_NORMAL, 16, "f16"), Scaled(_EVERY, 64, "f16")),
        "mx": Strategy(Plain("f8E5M2"), Residual("bf16", "i16"),
                       Scaled(_E5M2, 32, "f8E8M0FNU", "mx_floor"),
                       Scaled(_E4M3, 32, "f8E8M0FNU", "pow2")),
        "dynamic": Strategy(Scaled(_SIGNED, 16, "bf16"),
                            Scaled(_SIGNED, 64, "f8E8M0FNU", "mx_floor"),
                            Scaled(_SIGNED, 32, "f16", "pow2"),
                            Scaled(ExpandedCode(_UNSIGNED, 1e6), 128, "bf16")),
        "dynamic-expanded": Strategy(Plain("f32"), Residual("bf16", "i16"),
                                     Scaled(ExpandedCode(_SIGNED, 1e6), 128, "bf16"),
                                     Scaled(_UNSIGNED, 16, "f8E8M0FNU", "pow2")),
        # Codes of four bits share bytes.
        "mulaw4": Strategy(Scaled(MuLawCode(True, size=4), 64, "f32"), Plain("bf16", "dither"),
                           Scaled(MuLawCode(True, "dither", 4), 32, "bf16"),
                           Scaled(MuLawCode(False, "dither", 4), 128, "f32", "pow2")),
        # Gradients have several planes, for sums over passes.
        "grad-pair": Strategy(Expansion("bf16"), Plain("bf16", "dither"), Plain("f32"),
                              Scaled(RootCode("dither"), 32, "f32")),
        "grad-residual": Strategy(Residual("bf16", "i8"), Residual("bf16", "i8", "dither"),
                                  Scaled(SoftsignCode("dither"), 32, "f32"), Plain("f32")),
        "grad-remainder": Strategy(Remainder(), Remainder(), Plain("bf16"), Plain("bf16")),
        # These use stochastic rounding, in one byte and in more.
        "minifloat": Strategy(
            bf16, Scaled(MinifloatCode(5, 6, specials="ieee", rounding="stochastic"), 64, "f32"),
            Scaled(MinifloatCode(4, 3, rounding="stochastic"), 128, "f32"),
            Scaled(MinifloatCode(3, 4, 5, "negative_zero"), 32, "f8E8M0FNU", "mx_floor")),
        # E8M5 from "To FP8 and Back Again", and E7M7 clamped from outside and inside.
        "masked": Strategy(
            Coded(MinifloatCode(8, 7, None, "ieee", "toward_zero", (-62, 127))),
            Coded(MinifloatCode(8, 5, None, "ieee", "toward_zero")),
            Coded(MinifloatCode(8, 7, None, "ieee", "toward_zero", (-126, 63))),
            Coded(MinifloatCode(7, 3, specials="none", rounding="stochastic"))),
        # TF32, and floats whose elements are rounded to few bits.
        "masked-floats": Strategy(
            Masked("bf16", MinifloatCode(8, 3, None, "ieee", "toward_zero")),
            Masked("f32", MinifloatCode(8, 10, None, "ieee")),
            Masked("f32", MinifloatCode(8, 17, None, "ieee", "stochastic", (-126, 63))),
            Masked("f16", MinifloatCode(5, 4, None, "ieee", "dither"))),
        "unscaled": Strategy(
            Coded(_E5M2), Coded(PairCode("f8E5M2")),
            Coded(SoftsignCode()), Coded(_UNSIGNED)),
        "given": Strategy(
            Scaled(_E4M3, 16, "f32", "given"), Scaled(pair, 32, "bf16", "given"),
            Scaled(_SIGNED, 64, "f8E8M0FNU", "given"), Scaled(_NORMAL, 16, "f16", "given")),
        "all-scaled": Strategy(f16, Scaled(FloatCode("f16"), 16, "f32"),
                               Scaled(_E5M2, 64, "f16", "pow2"),
                               Scaled(FloatCode("f16"), 256, "f16")),
        "fp8-collage": Strategy(bf16, Scaled(pair, 64, "f32", "pow2"),
                                Scaled(_E4M3, 64, "f32", "pow2"),
                                Scaled(pair, 64, "f8E8M0FNU", "pow2")),
        "fp8-collage-low": Strategy(Plain("f32"), Scaled(low_pair, 16, "bf16", "mx_floor"),
                                    Scaled(low_pair, 128, "f32"),
                                    Scaled(pair, 32, "f16", "mx_floor")),
    }


def _tensor_library():
    """Returns the named strategies with per-tensor scales, FP8-LM's."""
    pow2 = (WHOLE, "f32", "pow2")
    grad = Scaled(_E4M3, *pow2)
    half, small = (Scaled(_dither(c), *pow2) for c in (FloatCode("f16"), _E4M3))
    return {
        "fp8-lm": Strategy(grad, half, small, half),
        "fp8-lm-delayed": Strategy(
            grad, replace(half, history=16, margin=1), replace(small, history=16, margin=1),
            replace(half, history=16, margin=1)),
    }


def _nvfp4(rounding="nearest"):
    return Scaled(MinifloatCode(2, 1, specials="none", rounding=rounding), 16, "f8E4M3FN",
                  tensor_scale=True)


def _tensor_table():
    """Returns strategies with per-tensor scales that together use every code."""
    bf16, f16, f32 = Plain("bf16"), Plain("f16"), Plain("f32")
    pow2 = (WHOLE, "f32", "pow2")
    low_pair = PairCode("f8E5M2")
    low_every = ExpandedCode(_E5M2, 57344.0 * 2.0**16)
    return {
        "tensor-collage": Strategy(Scaled(_E4M3, *pow2),
                                   Scaled(PairCode("f8E4M3FN"), *pow2),
                                   Scaled(_E5M2, WHOLE, "bf16"),
                                   Scaled(low_pair, WHOLE, "f8E8M0FNU", "pow2")),
        "tensor-flash": Strategy(bf16, Residual("bf16", "i8"),
                                 Scaled(SoftsignCode(), WHOLE, "f16"),
                                 Scaled(RootCode(), WHOLE, "f8E8M0FNU", "mx_floor")),
        "tensor-coat": Strategy(f16, Scaled(low_every, WHOLE, "f16", "mx_floor"),
                                Scaled(_EVERY, WHOLE, "bf16"), Scaled(_NORMAL, *pow2)),
        "tensor-delayed": Strategy(
            bf16, Scaled(_E4M3, *pow2, history=4, margin=1),
            Scaled(_E5M2, WHOLE, "bf16", history=1),
            Scaled(FloatCode("f16"), WHOLE, "f8E8M0FNU", "mx_floor", 16, 3)),
        "tensor-delayed-codes": Strategy(
            Scaled(_E4M3, WHOLE, "f32", history=3),
            Scaled(PairCode("f8E4M3FN"), WHOLE, "f32", history=5),
            Scaled(MinifloatCode(4, 3, rounding="stochastic"), WHOLE, "f16", "pow2", 2, 2),
            Scaled(RootCode(), WHOLE, "f16", history=3, margin=1)),
        "tensor-given": Strategy(
            Scaled(_E4M3, WHOLE, "f32", "given"), Scaled(_E4M3, WHOLE, "f32", "given"),
            Scaled(_EVERY, WHOLE, "f16", "given"),
            Scaled(RootCode(), WHOLE, "f8E8M0FNU", "given")),
        # NVFP4: codes of four bits, scales of groups in multiples of one for the tensor.
        "tensor-two-levels": Strategy(
            _nvfp4(), f32, _nvfp4("dither"), Scaled(_dither(_E4M3), 32, "f8E4M3FN",
                                                    tensor_scale=True)),
        "tensor-and-groups": Strategy(f32, Scaled(_E4M3, 64, "f32", "pow2"),
                                      Scaled(_NORMAL, WHOLE, "f32"),
                                      Scaled(_EVERY, 128, "bf16")),
    }


# Strategies with the f32 policy and groups of several lengths. STRATEGIES are the library's without
# scales and some of OUTSIDE_STRATEGIES; these are the library's with scales and all of the latter.
SCALED_LIBRARY = _with_factors(_scaled_library())
SCALED_STRATEGIES = SCALED_LIBRARY | _scaled_table()
# Strategies with per-tensor scales.
TENSOR_LIBRARY = _with_factors(_tensor_library())
# Strategies that are not in the library since their moments do not follow: plain f16, and given
# scales. Their files are in test/Python/Inputs/strategies.
OUTSIDE_STRATEGIES = {name: s for name, s in _F16_TABLE.items() if s.first == Plain("f16")}
OUTSIDE_STRATEGIES["fp8-lm-delayed"] = TENSOR_LIBRARY["fp8-lm-delayed"]
TENSOR_STRATEGIES = TENSOR_LIBRARY | _tensor_table()
