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
from typing import Callable

import numpy as np

from .arithmetic import Arithmetic
from .formats import decode, encode
from .metrics import tree_sum
from .scaled import WHOLE
from .storage import Draw, ExpansionState, KahanState, PlainState
from .strategies import role_draw

#===----------------------------------------------------------------------===#
# Evaluation
#===----------------------------------------------------------------------===#


#: The functions of external steps, from the bits of arrays to those of others.
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

    def exchange(self, name, sent, received, fmt):
        """Returns the arrays of a format, with these names, that the host's function makes of
        others."""
        given = {key: encode(fmt, x.astype(np.float32)) for key, x in sent.items()}
        found = dict(zip(received, HOST[name](*given.values()), strict=True))
        self.exchanged |= given | found
        return [self.arith.round(decode(fmt, bits)) for bits in found.values()]

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


def _ratio_direction(k, h, t, g):
    """Updates the second moment and the ratio, and returns the direction."""
    m = k.mul(k.read("ratio"), k.sqrt(k.read("exp_avg_sq")))
    m = k.add(k.mul(m, h.beta1), k.mul(g, 1.0 - h.beta1))
    v = k.ema("exp_avg_sq", h.beta2, k.mul(k.mul(g, g), 1.0 - h.beta2))
    root = k.sqrt(v)
    k.assign("ratio", np.where(root == 0, np.float32(0), k.div(m, root)))
    mh = k.mul(m, 1.0 / (1.0 - power(h.beta1, t)))
    vh = k.mul(v, 1.0 / (1.0 - power(h.beta2, t)))
    return k.div(mh, k.add(k.sqrt(vh), h.eps))


def _adamw_ratio(k, h, t):
    u = _ratio_direction(k, h, t, k.read("grad"))
    _descend(k, h, _with_decay(k, h, u))


def _adamw_ratio_decay_before(k, h, t):
    u = _ratio_direction(k, h, t, k.read("grad"))
    k.decay("param", 1.0 - h.lr * h.weight_decay)
    _descend(k, h, u)


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
    (o,) = k.exchange("orthogonalize", {"direction": u}, ["orthogonal"], "bf16")
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(o, -(h.lr * h.scale)))


def _moved(k, role, h, beta, towards):
    """Moves an average, and returns it."""
    share = h.moves * (1.0 - beta)
    return k.ema(role, 1.0 - share, k.mul(towards, share))


def _soap_weight(k, h, u):
    th = k.accumulate("param", k.mul(u, -(h.moves * h.rate)))
    k.accumulate("param", k.mul(th, -(h.moves * h.lr * h.weight_decay)))


def _soap(k, h, t):
    (g,) = k.exchange("rotate", {"gradient": k.read("grad")}, ["gradient_rotated"], "f32")
    m = _moved(k, "exp_avg", h, h.beta1, g)
    v = _moved(k, "exp_avg_sq", h, h.beta2, k.mul(g, g))
    n = k.div(m, k.add(k.sqrt(v), h.eps))
    u, m = k.exchange("rotate_back", {"direction": n, "momentum": m},
                      ["update", "momentum_turned"], "f32")
    k.assign("exp_avg", m)
    _soap_weight(k, h, u)


def _soap_vector(k, h, t):
    g = k.read("grad")
    m = _moved(k, "exp_avg", h, h.beta1, g)
    v = _moved(k, "exp_avg_sq", h, h.beta2, k.mul(g, g))
    _soap_weight(k, h, k.div(m, k.add(k.sqrt(v), h.eps)))


def _shampoo(k, h, t):
    g = k.read("grad")
    mh, vh = _adam_moments(k, h, t, g)
    u = k.div(mh, k.add(k.sqrt(vh), h.eps))
    (o,) = k.exchange("precondition", {"gradient": g, "momentum": mh, "grafted": u},
                      ["direction"], "f32")
    _descend(k, h, _with_decay(k, h, o))


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
    size = np.where(g < 0, k.arith.neg(g), g)
    over = k.sub(k.add(size, h.eps), k.mul(k.read("exp_inf"), h.beta2))
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
    k.accumulate("param", k.mul(size, k.sign(k.arith.neg(g))))
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


def _clipped(k, h, g):
    """Returns the gradient, scaled down to the maximum norm."""
    norm = np.sqrt((yield k.sum(k.mul(g, g))))
    quotient = np.float32(h.max_norm) / (norm + np.float32(1e-6))
    return k.mul(g, quotient if quotient < 1 else np.float32(1))


def _adamw_clip(k, h, t):
    g = yield from _clipped(k, h, k.read("grad"))
    _descend(k, h, _with_decay(k, h, _adam_direction(k, h, t, g)))


def _adamw_ratio_clip(k, h, t):
    g = yield from _clipped(k, h, k.read("grad"))
    _descend(k, h, _with_decay(k, h, _ratio_direction(k, h, t, g)))


def _prodigy(k, h, t):
    g, th = k.read("grad"), k.read("param")
    excess = np.sqrt(1.0 - power(h.beta2, t)) / (1.0 - power(h.beta1, t)) - 1.0
    dlr = h.d * (h.lr * (1.0 + h.bias_correction * excess))
    relative = h.d / h.d0
    start = k.accumulate("p0", k.mul(k.sub(th, k.read("p0")), power(0.0, t - 1)))
    gain = k.mul(k.mul(g, k.sub(start, th)), relative * dlr)
    rate = h.safeguard * h.d + (1.0 - h.safeguard) * dlr
    s = k.ema("s", h.s_beta, k.mul(g, relative * rate))
    gained, size = (yield k.sum(gain)), (yield k.sum(np.abs(s)))
    numerator = np.float32(h.s_beta * h.d_numerator) + gained
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.float32(h.d_coef) * numerator / size
    d, most, growth = np.float32(h.d), np.float32(h.d_max), np.float32(h.growth_rate)
    d_from = found if np.float32(h.fresh) * found > d else d
    most, grown = (found if found > most else most), d_from * growth
    m = k.ema("exp_avg", h.beta1, k.mul(g, h.d * (1.0 - h.beta1)))
    v = k.ema("exp_avg_sq", h.beta2, k.mul(k.mul(g, g), h.d * h.d * (1.0 - h.beta2)))
    eps = (grown if grown < most else most) * np.float32(h.eps)
    u = k.div(m, k.add(k.sqrt(v), eps))
    k.accumulate("param", k.mul(_with_decay(k, h, u), -dlr))


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


def _cautious(k, h, u, along):
    """Moves along u where it agrees with the gradient, by the reciprocal of the share of such
    elements."""
    agrees = along > 0
    u = np.where(agrees, u, np.float32(0)).astype(u.dtype)
    share = k.sum(np.where(agrees, np.float32(1), np.float32(0))) / np.float32(agrees.size)
    share = np.float32(1e-3) if share < np.float32(1e-3) else share
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(u, np.float32(-h.lr) / share))


def _adamw_cautious(k, h, t):
    g = k.read("grad")
    mh, vh = _adam_moments(k, h, t, g)
    u = k.div(mh, k.add(k.sqrt(vh), h.eps))
    _cautious(k, h, u, k.mul(k.read("exp_avg"), g))


def _lion_cautious(k, h, t):
    g, m = k.read("grad"), k.read("exp_avg")
    u = k.sign(k.add(k.mul(m, h.beta1), k.mul(g, 1.0 - h.beta1)))
    k.ema("exp_avg", h.beta2, k.mul(g, 1.0 - h.beta2))
    _cautious(k, h, u, k.mul(u, g))


def _adadelta(k, h, t):
    g, d = _with_decay(k, h, k.read("grad")), k.read("acc_delta")
    v = k.ema("square_avg", h.rho, k.mul(k.mul(g, g), 1.0 - h.rho))
    u = k.mul(k.div(k.sqrt(k.add(d, h.eps)), k.sqrt(k.add(v, h.eps))), g)
    k.ema("acc_delta", h.rho, k.mul(k.mul(u, u), 1.0 - h.rho))
    _descend(k, h, u)


def _mars(k, h, t):
    g = k.read("grad")
    share = h.gamma * (h.beta1 / (1.0 - h.beta1))
    c = k.add(k.mul(g, 1.0 + share), k.mul(k.read("last_grad"), -share))
    norm, limit = np.sqrt(k.sum(k.mul(c, c))), np.float32(h.limit)
    c = k.mul(c, limit / norm if norm > limit else np.float32(1))
    _descend(k, h, _with_decay(k, h, _adam_direction(k, h, t, c)))
    k.assign("last_grad", g)


def _came_vector(k, h, t):
    g = k.read("grad")
    square = k.add(k.mul(g, g), h.eps1)
    u = k.div(g, k.sqrt(k.ema("exp_avg_sq", h.beta2, k.mul(square, 1.0 - h.beta2))))
    excess = np.sqrt(k.sum(k.mul(u, u)) / np.float32(u.size)) / np.float32(h.clip_threshold)
    part = np.float32(1) / (np.float32(1) if excess < 1 else excess)
    m = k.ema("exp_avg", h.beta1, k.mul(k.mul(u, part), 1.0 - h.beta1))
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(m, -h.lr))


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
    "adamw_ratio_decay_before": Graph(
        _adamw_ratio_decay_before, ("ratio", "exp_avg_sq"), _ADAM[1]),
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
    "adadelta": Graph(_adadelta, ("square_avg", "acc_delta"),
                      ("lr", "rho", "eps", "weight_decay")),
    "adamw_cautious": Graph(_adamw_cautious, *_ADAM, reduces=True),
    "lion_cautious": Graph(_lion_cautious, ("exp_avg",),
                           ("lr", "beta1", "beta2", "weight_decay"), reduces=True),
    "lamb": Graph(_lamb, *_ADAM, reduces=True),
    "adamw_clip": Graph(_adamw_clip, _ADAM[0], _ADAM[1] + ("max_norm",), reduces=True),
    "adamw_ratio_clip": Graph(
        _adamw_ratio_clip, ("ratio", "exp_avg_sq"), _ADAM[1] + ("max_norm",), reduces=True),
    "mars": Graph(_mars, (*_ADAM[0], "last_grad"), (*_ADAM[1], "gamma", "limit"), reduces=True),
    "prodigy": Graph(
        _prodigy, (*_ADAM[0], "s", "p0"),
        (*_ADAM[1], "s_beta", "d", "d_max", "d_numerator", "d0", "fresh", "d_coef", "growth_rate",
         "bias_correction", "safeguard"), reduces=True),
    "soap_vector": Graph(
        _soap_vector, _ADAM[0],
        ("lr", "rate", "beta1", "beta2", "eps", "weight_decay", "moves")),
    "came_vector": Graph(
        _came_vector, _ADAM[0],
        ("lr", "beta1", "beta2", "eps1", "clip_threshold", "weight_decay"), reduces=True),
    "adafactor_vector": Graph(
        _adafactor_vector, ("variance",),
        ("lr", "rho", "mixing", "eps1", "eps2", "d", "weight_decay"), reduces=True),
})

# The graphs with steps that the host computes.
EXTERNAL_GRAPHS = {
    "muon": Graph(_muon, ("momentum_buffer",),
                  ("lr", "momentum", "weight_decay", "nesterov", "scale")),
    "soap": Graph(_soap, _ADAM[0],
                  ("lr", "rate", "beta1", "beta2", "eps", "weight_decay", "moves")),
    "shampoo": Graph(_shampoo, *_ADAM),
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
