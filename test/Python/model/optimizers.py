#===- optimizers.py - Optimizer steps under any strategy -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the optimizer graphs, each written once, and their evaluation under a
# strategy: storages, a compute policy, and a component format. Reductions over a tensor or the
# model are f32 trees under every policy.
#
#===----------------------------------------------------------------------===#
"""Implements optimizer graphs, `step`, which runs one of them on planes of bits, and `steps`,
which runs it on all tensors of a model."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Callable, Optional

import numpy as np

from .arithmetic import Arithmetic
from .codes import (DynamicCode, ExpandedCode, FloatCode, LinearCode, MinifloatCode, MuLawCode,
                    PairCode, RootCode, SoftsignCode)
from .formats import decode, encode
from .metrics import tree_sum
from .scaled import WHOLE, Coded, Masked, Residual, Scaled
from .storage import (Draw, Expansion, ExpansionState, Kahan, KahanState, Master, Plain,
                      PlainState, Remainder, Storage)

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
    "variance": "second",
    "row_var": "second",
    "col_var": "second",
}

# Adafactor's moments of rows and columns.
FACTORS = "row_var", "col_var"


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

#===----------------------------------------------------------------------===#
# Evaluation
#===----------------------------------------------------------------------===#


#: The functions of external steps, from the bits of one bf16 array to those of another.
HOST = {}


class Kernel:
    """The values of one launch, the only interface that graphs use.

    Reading a role gives its leading component (component policy) or its decoded value (f32 policy).
    Scalars are Python floats, in float64 until an operation uses them. Values computed from
    reductions are np.float32.
    """

    def __init__(self, strategy, roles, planes, columns=0):
        self.strategy, self.planes, self.columns = strategy, planes, columns
        self.arith = Arithmetic(strategy.component or "f32")
        self.states = self._open_all({role: self._open(role, planes) for role in roles})
        self.intended = np.zeros(self.read("param").shape, dtype=np.float64)
        #: The bits that are sent to the host and received from it, by name.
        self.exchanged = {}
        self.add, self.sub, self.mul = self.arith.add, self.arith.sub, self.arith.mul
        self.div, self.sqrt, self.sign = self.arith.div, self.arith.sqrt, self.arith.sign

    def storage(self, role):
        return self.strategy.storage(role)

    def scalar(self, x):
        """Returns a float64 scalar as an operation on elements reads it."""
        return self.arith.round(np.float32(x))

    def _open_all(self, states):
        """Drops what follows the last element in bytes of several codes."""
        size = min(state.leading.size for state in states.values())
        return {role: PlainState(state.value[:size]) if state.leading.size > size else state
                for role, state in states.items()}

    def _open(self, role, planes):
        storage = self.storage(role)
        missing = [p for p in storage.planes(role) if p not in planes]
        if missing:
            raise ValueError(f"role '{role}' needs the plane '{missing[0]}'")
        if self.strategy.component:
            return storage.open_component(self.arith, planes, role)
        return PlainState(storage.decode(planes, role))

    def read(self, role):
        return self.states[role].leading

    def accumulate(self, role, x):
        """Computes s <- s + x and returns the value to read afterwards."""
        self._intend(role, x.astype(np.float64))
        self.states[role] = self.states[role].accumulate(self.arith, x)
        return self.read(role)

    def decay(self, role, factor):
        """Computes s <- factor * s for a float64 factor."""
        shrink = np.float64(np.float32(factor - 1.0))
        self._intend(role, shrink * self.read(role).astype(np.float64))
        self.states[role] = self.states[role].decay(self.arith, factor)
        return self.read(role)

    def assign(self, role, x):
        """Computes s <- x."""
        state = self.states[role]
        if isinstance(state, ExpansionState):
            rest = tuple(np.zeros_like(x) for _ in state.components[1:])
            self.states[role] = ExpansionState((x, *rest))
        elif isinstance(state, KahanState):
            self.states[role] = KahanState(x, np.zeros_like(x))
        else:
            self.states[role] = PlainState(x)

    def ema(self, role, factor, x):
        """Computes s <- factor * s + x and returns the value to read afterwards."""
        self.decay(role, factor)
        return self.accumulate(role, x)

    def sum(self, x):
        """Adds up all elements, in float32 under every policy, those of each row first."""
        rows = x.astype(np.float32).reshape(-1, self.columns or max(1, x.size))
        return tree_sum(tree_sum(rows))

    def fma(self, scalar, x, addend):
        """Computes scalar * x + addend in f32, and rounds it to the policy's format."""
        return self.arith.round(Arithmetic("f32").fma(np.float32(scalar), x, addend))

    def exchange(self, name, sent, received, x):
        """Returns the bf16 numbers that the host's function makes of others."""
        self.exchanged[sent] = encode("bf16", x.astype(np.float32))
        self.exchanged[received] = HOST[name](self.exchanged[sent])
        return self.arith.round(decode("bf16", self.exchanged[received]))

    def _intend(self, role, change):
        if role == "param":
            self.intended = self.intended + change

    def close(self, draw):
        """Returns the new planes of every role except the gradient."""
        planes = {}
        for role, state in self.states.items():
            storage, own = self.storage(role), role_draw(role, self.states, draw)
            if role == "grad":
                continue
            if self.strategy.component:
                planes |= storage.close_component(role, state, replace(own, floor=False))
            else:
                planes |= storage.renew(self.planes, role, state.value, own)
        return planes | self.exchanged


#===----------------------------------------------------------------------===#
# Graphs
#===----------------------------------------------------------------------===#


def power(base, exponent):
    """Computes base^exponent in float64 by square-and-multiply, lowest bit first."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent >>= 1
    return result


def _adam_moments(k, h, t, g):
    """Updates both moments and returns the bias-corrected ones."""
    m = k.ema("exp_avg", h.beta1, k.mul(g, 1.0 - h.beta1))
    v = k.ema("exp_avg_sq", h.beta2, k.mul(k.mul(g, g), 1.0 - h.beta2))
    return (k.mul(m, 1.0 / (1.0 - power(h.beta1, t))),
            k.mul(v, 1.0 / (1.0 - power(h.beta2, t))))


def _adam_direction(k, h, t, g):
    mh, vh = _adam_moments(k, h, t, g)
    return k.div(mh, k.add(k.sqrt(vh), h.eps))


def _with_decay(k, h, x):
    """Returns x + weight_decay * th."""
    return k.add(x, k.mul(k.read("param"), h.weight_decay))


def _descend(k, h, u):
    return k.accumulate("param", k.mul(u, -h.lr))


def _adamw(k, h, t):
    u = _adam_direction(k, h, t, k.read("grad"))
    _descend(k, h, _with_decay(k, h, u))


def _adamw_ratio(k, h, t):
    g = k.read("grad")
    m = k.mul(k.read("ratio"), k.sqrt(k.read("exp_avg_sq")))
    m = k.add(k.mul(m, h.beta1), k.mul(g, 1.0 - h.beta1))
    v = k.ema("exp_avg_sq", h.beta2, k.mul(k.mul(g, g), 1.0 - h.beta2))
    root = k.sqrt(v)
    k.assign("ratio", np.where(root == 0, np.float32(0), k.div(m, root)))
    mh = k.mul(m, 1.0 / (1.0 - power(h.beta1, t)))
    vh = k.mul(v, 1.0 / (1.0 - power(h.beta2, t)))
    u = k.div(mh, k.add(k.sqrt(vh), h.eps))
    _descend(k, h, _with_decay(k, h, u))


def _adamw_eps_inside_root(k, h, t):
    mh, vh = _adam_moments(k, h, t, k.read("grad"))
    u = k.div(mh, k.sqrt(k.add(vh, h.eps)))
    _descend(k, h, _with_decay(k, h, u))


def _adamw_decay_before(k, h, t):
    u = _adam_direction(k, h, t, k.read("grad"))
    k.decay("param", 1.0 - h.lr * h.weight_decay)
    _descend(k, h, u)


def _adamw_decay_after(k, h, t):
    u = _adam_direction(k, h, t, k.read("grad"))
    th = _descend(k, h, u)
    k.accumulate("param", k.mul(th, -(h.lr * h.weight_decay)))


def _adam(k, h, t):
    g = _with_decay(k, h, k.read("grad"))
    _descend(k, h, _adam_direction(k, h, t, g))


def _sgd(k, h, t):
    _descend(k, h, _with_decay(k, h, k.read("grad")))


def _sgd_momentum(k, h, t):
    g = _with_decay(k, h, k.read("grad"))
    _descend(k, h, k.ema("momentum_buffer", h.momentum, g))


def _sgd_nesterov(k, h, t):
    g = _with_decay(k, h, k.read("grad"))
    b = k.ema("momentum_buffer", h.momentum, g)
    _descend(k, h, k.add(g, k.mul(b, h.momentum)))


def _muon(k, h, t):
    g, m = k.read("grad"), k.read("momentum_buffer")
    m = k.fma(1.0 - h.momentum, k.sub(g, m), m)
    k.assign("momentum_buffer", m)
    u = k.fma(-h.nesterov, k.sub(m, g), m)
    o = k.exchange("orthogonalize", "direction", "orthogonal", u)
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(o, -(h.lr * h.scale)))


def _l2_moments(k, h):
    """Updates both moments from the gradient with weight decay, and returns all three."""
    g = _with_decay(k, h, k.read("grad"))
    m = k.ema("exp_avg", h.beta1, k.mul(g, 1.0 - h.beta1))
    v = k.ema("exp_avg_sq", h.beta2, k.mul(k.mul(g, g), 1.0 - h.beta2))
    return g, m, v


def _nadam(k, h, t):
    g, m, v = _l2_moments(k, h)
    d = k.add(k.sqrt(k.mul(v, 1.0 / (1.0 - power(h.beta2, t)))), h.eps)
    _descend(k, h, k.div(k.add(k.mul(g, h.ahead), k.mul(m, h.back)), d))


def _radam(k, h, t):
    _, m, v = _l2_moments(k, h)
    d = k.add(k.mul(k.add(k.sqrt(v), h.eps), h.adaptive), 1.0 - h.adaptive)
    _descend(k, h, k.div(k.mul(k.mul(m, 1.0 / (1.0 - power(h.beta1, t))), h.scale), d))


def _adamax(k, h, t):
    g = _with_decay(k, h, k.read("grad"))
    m = k.ema("exp_avg", h.beta1, k.mul(g, 1.0 - h.beta1))
    over = k.sub(k.add(np.abs(g), h.eps), k.mul(k.read("exp_inf"), h.beta2))
    u = k.ema("exp_inf", h.beta2, np.where(over > 0, over, np.float32(0)))
    k.accumulate("param", k.mul(k.div(m, u), -(h.lr / (1.0 - power(h.beta1, t)))))


def _adan(k, h, t):
    g = k.read("grad")
    diff = k.mul(k.sub(g, k.read("previous")), h.difference)
    m = k.ema("exp_avg", h.beta1, k.mul(g, 1.0 - h.beta1))
    d = k.ema("exp_avg_diff", h.beta2, k.mul(diff, 1.0 - h.beta2))
    ahead = k.add(g, k.mul(diff, h.beta2))
    v = k.ema("exp_avg_sq", h.beta3, k.mul(k.mul(ahead, ahead), 1.0 - h.beta3))
    mix = k.add(k.mul(m, 1.0 / (1.0 - power(h.beta1, t))),
                k.mul(d, h.beta2 / (1.0 - power(h.beta2, t))))
    root = k.sqrt(k.mul(v, 1.0 / (1.0 - power(h.beta3, t))))
    keep = 1.0 / (1.0 + h.lr * h.weight_decay)
    k.ema("param", keep, k.mul(k.div(mix, k.add(root, h.eps)), -(h.lr * keep)))
    k.assign("previous", g)


def _asgd(k, h, t):
    g = _with_decay(k, h, k.read("grad"))
    k.ema("param", 1.0 - h.lr * h.lambd, k.mul(g, -h.lr))
    k.accumulate("ax", k.mul(k.sub(k.read("param"), k.read("ax")), h.mixing))


def _rprop(k, h, t):
    g, size = k.read("grad"), k.read("step_size")
    size = np.where(size == 0, k.scalar(h.lr), size)
    product = k.mul(g, k.read("previous"))
    grows = np.where(product > 0, k.scalar(h.etaplus), np.float32(1))
    size = k.mul(np.where(product < 0, k.scalar(h.etaminus), grows), size)
    size = np.where(size < k.scalar(h.least), k.scalar(h.least), size)
    size = np.where(size > k.scalar(h.most), k.scalar(h.most), size)
    g = np.where(product < 0, np.float32(0), g)
    size = k.accumulate("step_size", k.sub(size, k.read("step_size")))
    k.accumulate("param", k.mul(k.arith.neg(size), k.sign(g)))
    k.assign("previous", g)


def _ademamix(k, h, t):
    g = k.read("grad")
    slow = k.ema("exp_avg_slow", h.beta3, k.mul(g, 1.0 - h.beta3))
    mh, vh = _adam_moments(k, h, t, g)
    u = k.div(k.add(mh, k.mul(slow, h.alpha)), k.add(k.sqrt(vh), h.eps))
    _descend(k, h, _with_decay(k, h, u))


def _adamw_schedule_free(k, h, t):
    g, d = k.read("grad"), k.read("offset")
    v = k.ema("exp_avg_sq", h.beta2, k.mul(k.mul(g, g), 1.0 - h.beta2))
    vh = k.mul(v, 1.0 / (1.0 - power(h.beta2, t)))
    u = _with_decay(k, h, k.div(g, k.add(k.sqrt(vh), h.eps)))
    share = h.beta1 * (1.0 - h.mixing)
    k.accumulate("param", k.add(k.mul(d, h.mixing), k.mul(u, h.lr * (share - 1.0))))
    k.ema("offset", 1.0 - h.mixing, k.mul(u, -(h.lr * share)))


def _lion(k, h, t):
    g, m = k.read("grad"), k.read("exp_avg")
    c = k.add(k.mul(m, h.beta1), k.mul(g, 1.0 - h.beta1))
    _descend(k, h, _with_decay(k, h, k.sign(c)))
    k.ema("exp_avg", h.beta2, k.mul(g, 1.0 - h.beta2))


def _rmsprop(k, h, t):
    g = _with_decay(k, h, k.read("grad"))
    v = k.ema("square_avg", h.alpha, k.mul(k.mul(g, g), 1.0 - h.alpha))
    _descend(k, h, k.div(g, k.add(k.sqrt(v), h.eps)))


def _adagrad(k, h, t):
    g = _with_decay(k, h, k.read("grad"))
    s = k.accumulate("sum", k.mul(g, g))
    d = k.add(k.sqrt(s), h.eps)
    rate = h.lr / (1.0 + float(t - 1) * h.lr_decay)
    k.accumulate("param", k.mul(k.div(g, d), -rate))


def _lamb(k, h, t):
    th = k.read("param")
    u = _with_decay(k, h, _adam_direction(k, h, t, k.read("grad")))
    length, update = np.sqrt(k.sum(k.mul(th, th))), np.sqrt(k.sum(k.mul(u, u)))
    trust = length / update if length > 0 and update > 0 else np.float32(1)
    k.accumulate("param", k.mul(u, np.float32(-h.lr) * trust))


def _adamw_clip(k, h, t):
    g = k.read("grad")
    norm = np.sqrt((yield k.sum(k.mul(g, g))))
    quotient = np.float32(h.max_norm) / (norm + np.float32(1e-6))
    coefficient = quotient if quotient < 1 else np.float32(1)
    u = _adam_direction(k, h, t, k.mul(g, coefficient))
    _descend(k, h, _with_decay(k, h, u))


def _root_mean_square(k, x):
    return np.sqrt(k.sum(k.mul(x, x)) / np.float32(x.size))


def _adafactor_vector(k, h, t):
    g, mixing = k.read("grad"), h.mixing
    v = k.ema("variance", 1.0 - mixing, k.mul(k.mul(g, g), mixing))
    least, small = np.float32(h.eps1 * h.eps1), np.float32(h.eps2)
    u = k.div(g, k.sqrt(k.arith.round(np.where(v < least, least, v))))
    size, excess = _root_mean_square(k, k.read("param")), _root_mean_square(k, u)
    size, excess = small if size < small else size, excess / np.float32(h.d)
    clip = np.float32(1) if excess < 1 else excess
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(u, np.float32(-h.rho) * size / clip))


@dataclass(frozen=True)
class Graph:
    """A graph, its state roles and its hyperparameters. A graph that yields sums of a tensor
    resumes with those of the model."""

    run: Callable
    states: tuple
    hypers: tuple
    #: Whether it has sums over all elements of a tensor.
    reduces: bool = False

    @property
    def roles(self):
        return ("grad", "param") + self.states


class _Graphs(dict):
    """Graphs by name. "NAME+ema" is a graph with an average of its weights."""

    def __missing__(self, name):
        if name in EXTERNAL_GRAPHS:
            return EXTERNAL_GRAPHS[name]
        plain, _, suffix = name.rpartition("+")
        if suffix != "ema" or plain not in self:
            raise KeyError(name)
        graph = self[plain]
        return replace(graph, run=_averaging(graph.run), states=graph.states + ("ema",),
                       hypers=graph.hypers + ("ema_decay",))


def _averaging(run):
    """Returns a graph that then averages the weights it has updated."""
    def averages(k, h, t):
        yield from run(k, h, t) or ()
        share = (1.0 - h.ema_decay) / (1.0 - power(h.ema_decay, t))
        k.accumulate("ema", k.mul(k.sub(k.read("param"), k.read("ema")), share))

    return averages


_ADAM = (("exp_avg", "exp_avg_sq"), ("lr", "beta1", "beta2", "eps", "weight_decay"))
_MOMENTUM = (("momentum_buffer",), ("lr", "momentum", "weight_decay"))

GRAPHS = _Graphs({
    "adamw": Graph(_adamw, *_ADAM),
    "adamw_eps_inside_root": Graph(_adamw_eps_inside_root, *_ADAM),
    "adamw_ratio": Graph(_adamw_ratio, ("ratio", "exp_avg_sq"), _ADAM[1]),
    "adamw_decay_before": Graph(_adamw_decay_before, *_ADAM),
    "adamw_decay_after": Graph(_adamw_decay_after, *_ADAM),
    "adam": Graph(_adam, *_ADAM),
    "nadam": Graph(_nadam, _ADAM[0], _ADAM[1] + ("ahead", "back")),
    "radam": Graph(_radam, _ADAM[0], _ADAM[1] + ("adaptive", "scale")),
    "adamax": Graph(_adamax, ("exp_avg", "exp_inf"), _ADAM[1]),
    "adan": Graph(_adan, ("exp_avg", "exp_avg_diff", "exp_avg_sq", "previous"),
                  ("lr", "beta1", "beta2", "beta3", "eps", "weight_decay", "difference")),
    "asgd": Graph(_asgd, ("ax",), ("lr", "lambd", "weight_decay", "mixing")),
    "rprop": Graph(_rprop, ("previous", "step_size"),
                   ("lr", "etaminus", "etaplus", "least", "most")),
    "ademamix": Graph(
        _ademamix, ("exp_avg", "exp_avg_slow", "exp_avg_sq"),
        ("lr", "beta1", "beta2", "beta3", "alpha", "eps", "weight_decay")),
    "adamw_schedule_free": Graph(
        _adamw_schedule_free, ("offset", "exp_avg_sq"),
        ("lr", "beta1", "beta2", "eps", "weight_decay", "mixing")),
    "sgd": Graph(_sgd, (), ("lr", "weight_decay")),
    "sgd_momentum": Graph(_sgd_momentum, *_MOMENTUM),
    "sgd_nesterov": Graph(_sgd_nesterov, *_MOMENTUM),
    "lion": Graph(_lion, ("exp_avg",), ("lr", "beta1", "beta2", "weight_decay")),
    "rmsprop": Graph(_rmsprop, ("square_avg",), ("lr", "alpha", "eps", "weight_decay")),
    "adagrad": Graph(_adagrad, ("sum",), ("lr", "lr_decay", "eps", "weight_decay")),
    "lamb": Graph(_lamb, *_ADAM, reduces=True),
    "adamw_clip": Graph(_adamw_clip, _ADAM[0], _ADAM[1] + ("max_norm",), reduces=True),
    "adafactor_vector": Graph(
        _adafactor_vector, ("variance",),
        ("lr", "rho", "mixing", "eps1", "eps2", "d", "weight_decay"), reduces=True),
})

# The graphs with steps that the host computes.
EXTERNAL_GRAPHS = {
    "muon": Graph(_muon, ("momentum_buffer",),
                  ("lr", "momentum", "weight_decay", "nesterov", "scale")),
}

#===----------------------------------------------------------------------===#
# Steps
#===----------------------------------------------------------------------===#


def plane_types(graph, strategy):
    """Returns plane name -> dtype of its bits, for all roles of a graph."""
    return {plane: dtype for role in GRAPHS[graph].roles
            for plane, dtype in strategy.storage(role).planes(role).items()}


def plane_groups(graph, strategy):
    """Returns plane name -> number of consecutive elements that share an entry."""
    return {plane: group for role in GRAPHS[graph].roles
            for plane, group in strategy.storage(role).plane_groups(role).items()}


def plane_entries(graph, strategy, size):
    """Returns plane name -> length of its array for a tensor of the given size."""
    return {plane: count for role in GRAPHS[graph].roles
            for plane, count in strategy.storage(role).entries(role, size).items()}


def takes_whole_tensors(graph, strategy):
    """Returns whether elements of a tensor interact, so that shards cannot be launched
    separately."""
    return GRAPHS[graph].reduces or WHOLE in plane_groups(graph, strategy).values()


def smallest_group(graph, strategy):
    """Returns the shortest group of any scale; 0 if there are no groups."""
    return min((g for g in plane_groups(graph, strategy).values() if g > 1), default=0)


def bytes_per_parameter(graph, strategy):
    """Returns bytes per parameter, including the gradient."""
    return sum(strategy.storage(role).bytes() for role in GRAPHS[graph].roles)


def flags(graph, strategy, planes):
    """Returns the flags of a launch: bit 0 is set if a float plane of a gradient that it reads
    has a NaN or an infinity."""
    gradients = [r for r in GRAPHS[graph].roles if r.startswith("grad")]
    return int(any(not np.isfinite(value).all() for role in gradients
                   for value in strategy.storage(role).take(planes, role)))


def check_hypers(graph, strategy, hypers, step):
    """Raises an error for everything that a launch refuses."""
    missing = [h for h in GRAPHS[graph].hypers if h not in hypers]
    if missing:
        raise ValueError(f"graph '{graph}' needs the hyperparameter '{missing[0]}'")
    if step < 1:
        raise ValueError(f"step is {step}: steps count from 1")
    if not hypers["lr"] >= 0:
        raise ValueError(f"lr is {hypers['lr']}: pass a rate that is not negative")
    for name in ("beta1", "beta2"):
        if name in GRAPHS[graph].hypers and not 0 <= hypers[name] < 1:
            raise ValueError(f"{name} is {hypers[name]}: pass a value in [0, 1)")
    if strategy.component and "eps" in GRAPHS[graph].hypers and hypers["eps"] > 0:
        if Arithmetic(strategy.component).round(np.float64(hypers["eps"])) == 0:
            raise ValueError(f"eps {hypers['eps']} rounds to zero in "
                             f"{strategy.component}: pass a larger one")


def _resume(run, total):
    """Runs to the next reduction over the model; returns None at the end."""
    try:
        return run.send(total)
    except StopIteration:
        return None


def _run(graph, kernels, scalars, t):
    """Runs a graph on all tensors, together from one reduction to the next."""
    runs = [GRAPHS[graph].run(k, h, t) for k, h in zip(kernels, scalars)]
    runs = [run for run in runs if run is not None]
    sums = [_resume(run, None) for run in runs]
    while any(s is not None for s in sums):
        total = tree_sum(np.array(sums, dtype=np.float32))
        sums = [_resume(run, total) for run in runs]


def _scalars(graph, strategy, hypers, step):
    check_hypers(graph, strategy, hypers, step)
    return SimpleNamespace(**{k: float(v) for k, v in hypers.items()})


def traces(graph, strategy, tensors, hypers, draws):
    """Returns (new planes, intended update in float64) for each tensor of a model. Each has
    planes, hyperparameters and a Draw."""
    for draw in draws:
        if draw.first and GRAPHS[graph].reduces:
            raise ValueError(f"first is {draw.first}, but '{graph}' reduces over whole "
                             "tensors: pass the unsharded tensor")
    scalars = [_scalars(graph, strategy, h, d.step) for h, d in zip(hypers, draws)]
    with np.errstate(all="ignore"):
        kernels = [Kernel(strategy, GRAPHS[graph].roles, planes, draw.columns)
                   for planes, draw in zip(tensors, draws)]
        _run(graph, kernels, scalars, draws[0].step)
        return [(kernel.close(draw), kernel.intended)
                for kernel, draw in zip(kernels, draws)]


def trace(graph, strategy, planes, hypers, step, seed=0, key=0, first=0):
    """Returns (new planes, intended update in float64) for one step of one tensor."""
    return traces(graph, strategy, [planes], [hypers], [Draw(seed, key, first, step)])[0]


def steps(graph, strategy, tensors, hypers, draws):
    """Returns the new planes of each tensor of a model; see `traces`."""
    return [planes for planes, _ in traces(graph, strategy, tensors, hypers, draws)]


def step(graph, strategy, planes, hypers, step, seed=0, key=0, first=0):
    """Returns the new planes of one step, parameters and states, by plane name."""
    return trace(graph, strategy, planes, hypers, step, seed, key, first)[0]
