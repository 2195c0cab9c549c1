#===- matrices.py - Optimizer steps of matrices ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements graphs of matrices: some of their states have one entry per row or column,
# and reductions run along rows and columns.
#
#===----------------------------------------------------------------------===#
"""Implements `matrix_step`, which corresponds to `step` for graphs of matrices.

Planes of a matrix have two dimensions, (rows, columns) or (rows, scales of a row). States per row
or column, and per-tensor scales, have one.
"""

import zlib
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Callable

import numpy as np

from .cases import role_values
from .metrics import tree_sum
from .optimizers import GRAPHS, Kernel
from .scaled import ROW, WHOLE, Coded, Scaled
from .storage import Draw, ExpansionState

_F32 = np.float32


@dataclass(frozen=True)
class MatrixGraph:
    """A graph, its states and whether each has an entry per "row" or "column" (by default per
    "element"), and its hyperparameters."""

    run: Callable
    states: dict
    hypers: tuple

    @property
    def roles(self):
        """Returns role -> what it has an entry for."""
        return {"grad": "element", "param": "element"} | self.states


#===----------------------------------------------------------------------===#
# Storage
#===----------------------------------------------------------------------===#


def shape_of(per, shape):
    """Returns the shape of a state with these entries, for a matrix of this shape."""
    return {"element": shape, "row": shape[:1], "column": shape[1:]}[per]


def storage_of(strategy, role, per, shape):
    """Returns a role's storage; the groups of a matrix restart in each row."""
    storage = strategy.storage(role)
    is_grouped = isinstance(storage, Scaled) and storage.group != WHOLE
    if is_grouped and per == "element":
        return replace(storage, columns=shape[1])
    packs = isinstance(storage, (Scaled, Coded)) and storage.code.packed > 1
    return replace(storage, row_length=shape[1]) if packs and per == "element" else storage


def _plane_shape(group, rows, shape):
    """Returns the shape of a plane in which `group` elements of `rows` rows share an entry."""
    if group in (WHOLE, ROW):
        return (-1,)
    return (*(-(-n // rows) for n in shape[:-1]), -(-shape[-1] // group))


def shaped(storage, role, planes, shape):
    """Reshapes a role's flat planes."""
    groups, rows = storage.plane_groups(role), getattr(storage, "rows", 1)
    return {name: plane.reshape(
                _plane_shape(groups[name], 1 if storage.has_elements(name[len(role):]) else rows,
                             shape))
            for name, plane in planes.items()}


def _map_state(state, change):
    """Applies a function to the arrays of a state."""
    if isinstance(state, ExpansionState):
        return ExpansionState(tuple(change(c) for c in state.components))
    return type(state)(*[change(getattr(state, f.name)) for f in fields(state)])


#===----------------------------------------------------------------------===#
# Evaluation
#===----------------------------------------------------------------------===#


class MatrixKernel(Kernel):
    """A launch whose values are matrices, rows and columns."""

    def __init__(self, strategy, per, planes, shape):
        self.per, self.shape = per, shape
        super().__init__(strategy, per, {n: p.reshape(-1) for n, p in planes.items()})

    def storage(self, role):
        return storage_of(self.strategy, role, self.per[role], self.shape)

    def _open(self, role, planes):
        shape = shape_of(self.per[role], self.shape)
        return _map_state(super()._open(role, planes),
                          lambda x: x[:int(np.prod(shape))].reshape(shape))

    def _open_all(self, states):
        return states

    def close(self, draw):
        self.states = {role: _map_state(state, np.ravel)
                       for role, state in self.states.items()}
        new, flat = {}, super().close(draw)
        for role in self.per:
            names = [n for n in self.storage(role).planes(role) if n in flat]
            new |= shaped(self.storage(role), role, {n: flat[n] for n in names},
                          shape_of(self.per[role], self.shape))
        return new

    def sum(self, x):
        """Adds up a vector's entries, or all elements, along the rows first."""
        return tree_sum(self.row_sums(x)) if x.ndim == 2 else super().sum(x)

    def row_sums(self, x):
        return tree_sum(x.astype(_F32))

    def column_sums(self, x):
        return tree_sum(x.astype(_F32).T)


#===----------------------------------------------------------------------===#
# Graphs
#===----------------------------------------------------------------------===#


def _at_least(least, x):
    """Returns the larger of x and the bound; NaNs stay."""
    return np.where(x < least, least, x)


def _factored_update(k, h, g):
    """Returns the gradient over the root of the second moment that its means define."""
    rows, columns = [_F32(n) for n in g.shape]
    square = k.mul(g, g)
    row_mean, col_mean = k.row_sums(square) / columns, k.column_sums(square) / rows
    mixing, beta = _F32(h.mixing), 1.0 - h.mixing
    row_var = k.ema("row_var", beta, mixing * row_mean)
    col_var = k.ema("col_var", beta, mixing * col_mean)
    mean = _at_least(_F32(h.eps1), k.sum(row_var) / rows)
    factor = k.div(row_var, mean)
    product = k.mul(factor[:, None], col_var[None, :])
    variance = k.arith.round(_at_least(_F32(h.eps1 * h.eps1), product))
    return k.div(g, k.sqrt(variance))


def _root_mean_square(k, x):
    rows, columns = [_F32(n) for n in x.shape]
    return np.sqrt(k.sum(k.mul(x, x)) / (rows * columns))


def _adafactor(k, h):
    u = _factored_update(k, h, k.read("grad"))
    size = _at_least(_F32(h.eps2), _root_mean_square(k, k.read("param")))
    clip = _at_least(_F32(1), _root_mean_square(k, u) / _F32(h.d))
    rate = _F32(-h.rho) * size / clip
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(u, rate))


def _averaged_roots(k, name, x, beta, least):
    """Averages the means of x over rows and columns; returns the roots whose products approximate
    that of the average of x."""
    rows, columns = [_F32(n) for n in x.shape]
    row_mean, col_mean = k.row_sums(x) / columns, k.column_sums(x) / rows
    share, least = _F32(1.0 - beta), _F32(least)
    row = k.ema(f"exp_avg_{name}_row", beta, share * (row_mean + least))
    col = k.ema(f"exp_avg_{name}_col", beta, share * (col_mean + least))
    return k.sqrt(k.div(row, k.sum(row) / rows)), k.sqrt(col)


def _came(k, h):
    g = k.read("grad")
    row, col = _averaged_roots(k, "sq", k.mul(g, g), h.beta2, h.eps1)
    u = k.div(g, k.mul(row[:, None], col[None, :]))
    clip = _at_least(_F32(1), _root_mean_square(k, u) / _F32(h.clip_threshold))
    u = k.mul(u, _F32(1) / clip)
    m = k.ema("exp_avg", h.beta1, k.mul(u, 1.0 - h.beta1))
    apart = k.sub(u, m)
    row, col = _averaged_roots(k, "res", k.mul(apart, apart), h.beta3, h.eps2)
    u = k.div(m, k.mul(row[:, None], col[None, :]))
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(u, -h.lr))


def _adam_mini(k, h):
    g, columns = k.read("grad"), _F32(k.shape[1])
    c1, c2 = (1.0 / (1.0 - beta**h.step) for beta in (h.beta1, h.beta2))
    mean = k.row_sums(k.mul(g, g)) / columns
    v = k.ema("exp_avg_sq_row", h.beta2, _F32(1.0 - h.beta2) * mean)
    factor = k.div(_F32(c1), k.add(k.sqrt(k.mul(v, c2)), h.eps))
    m = k.ema("exp_avg", h.beta1, k.mul(g, 1.0 - h.beta1))
    k.ema("param", 1.0 - h.lr * h.weight_decay, k.mul(k.mul(m, factor[:, None]), -h.lr))


MATRIX_GRAPHS = {
    "adam_mini": MatrixGraph(
        _adam_mini, {"exp_avg": "element", "exp_avg_sq_row": "row"},
        ("lr", "beta1", "beta2", "eps", "weight_decay")),
    "came": MatrixGraph(
        _came, {"exp_avg": "element", "exp_avg_sq_row": "row", "exp_avg_sq_col": "column",
                "exp_avg_res_row": "row", "exp_avg_res_col": "column"},
        ("lr", "beta1", "beta2", "beta3", "eps1", "eps2", "clip_threshold", "weight_decay")),
    "adafactor": MatrixGraph(
        _adafactor, {"row_var": "row", "col_var": "column"},
        ("lr", "rho", "mixing", "eps1", "eps2", "d", "weight_decay")),
}


def matrix_graph(name):
    """Returns a graph of matrices, or one of flat tensors for strategies with row or block
    scales."""
    if name in MATRIX_GRAPHS:
        return MATRIX_GRAPHS[name]
    flat = GRAPHS[name]
    return MatrixGraph(lambda k, h: flat.run(k, h, h.step),
                       dict.fromkeys(flat.states, "element"), flat.hypers)


#===----------------------------------------------------------------------===#
# Steps
#===----------------------------------------------------------------------===#


def matrix_plane_types(graph, strategy):
    """Returns plane name -> dtype of its bits, for all roles of a graph."""
    return {plane: dtype for role in matrix_graph(graph).roles
            for plane, dtype in strategy.storage(role).planes(role).items()}


def _find_shape(graph, strategy, planes):
    """Returns rows and columns, from the gradient's codes."""
    groups = strategy.storage("grad").plane_groups("grad")
    return next(planes[name].shape for name, group in groups.items() if group == 1)


def matrix_step(graph, strategy, planes, hypers, step, seed=0, key=0):
    """Returns the new planes of one step, parameters and states, by plane name. A matrix without
    elements does not change."""
    shape = _find_shape(graph, strategy, planes)
    missing = [h for h in matrix_graph(graph).hypers if h not in hypers]
    if missing:
        raise ValueError(f"graph '{graph}' needs the hyperparameter '{missing[0]}'")
    if not np.prod(shape):
        return {n: p for n, p in planes.items() if not n.startswith("grad")}
    scalars = SimpleNamespace(**{name: float(value) for name, value in hypers.items()},
                              step=step)
    with np.errstate(all="ignore"):
        kernel = MatrixKernel(strategy, matrix_graph(graph).roles, planes, shape)
        matrix_graph(graph).run(kernel, scalars)
        return kernel.close(Draw(seed, key, 0, step))


def matrix_state(graph, strategy, kind, shape, seed=0):
    """Returns planes of all roles of a graph, of one of `cases`' kinds of values or "bits"; the
    same ones for the same arguments."""
    rng = np.random.default_rng([seed, *shape, zlib.crc32(f"{graph}/{kind}".encode())])
    planes = {}
    for role, per in matrix_graph(graph).roles.items():
        storage, own = storage_of(strategy, role, per, shape), shape_of(per, shape)
        values = role_values(role, storage, "ordinary" if kind == "bits" else kind, rng,
                             int(np.prod(own)))
        flat = storage.encode(role, values, Draw())
        if kind == "bits":
            flat = {name: rng.integers(0, 1 << 8 * p.itemsize, p.size, dtype=np.uint64)
                    .astype(p.dtype) for name, p in flat.items()}
        planes |= shaped(storage, role, flat, own)
    return planes
