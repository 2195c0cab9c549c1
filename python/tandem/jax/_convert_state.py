"""Conversions of an optimizer's state to another strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tandem._convert import WIDE_PLANE, Stored, kept_roles, planes_of
from tandem._param_planes import ParamPlanes, size_of_shape
from tandem._plane import Granularity, Plane, RoleKind
from tandem._storages import floats
from tandem.jax._convert import Job, convert, zeros
from tandem.jax._launch import DTYPES, varying_axes
from tandem.jax._optimizer import Leaf, Optimizer
from tandem.jax._rules import Rule
from tandem.jax._state import State

#: The planes of one tensor, by name.
Planes = dict[str, jax.Array]


def convert_state(state: State, params: object, source: Optimizer, target: Optimizer, *,
                  keep_types: bool = False) -> tuple[object, State]:
    """Converts the parameters and the state of an optimizer to the strategy of another one.

    Values are converted as by :func:`tandem.convert_state` and
    :func:`tandem.torch.convert_state`, with the same bits: exactly if the new storage can
    represent them. The count of steps does not change.

    Args:
        state: a state of ``source``.
        params: its parameters, as whole arrays rather than shards inside jax.shard_map.
        source: the optimizer that the state belongs to.
        target: an optimizer of the same graph, which is used afterwards. Its strategy and
            ``min_8bit_size`` determine how leaves are stored. Leaves get the type of its
            weights, except that float32 leaves under a 16-bit strategy stay float32.
        keep_types: whether all float32 leaves stay float32.

    Returns:
        The parameters and the state, as :meth:`Optimizer.step` returns them.

    Raises:
        TypeError, ValueError: the optimizers have different graphs, or the state does not belong
            to ``source`` and these parameters.
    """
    _check(state, source, target)
    _refuse_shards(params)
    leaves, treedef = source._leaves(params, None)
    planes = source._checked_planes(leaves, treedef, state)
    moves = [_move(leaf, kept, source, target, keep_types)
             for leaf, kept in zip(leaves, planes)]
    made: list = [None] * len(leaves)
    for members in _alike(moves):
        for move, found in zip(members, _carried(members, target._threads)):
            made[move.leaf.index] = found
    return (treedef.unflatten([param for param, _ in made]),
            target._unmeasured(state.count, treedef.unflatten([kept for _, kept in made])))


def _check(state: object, source: object, target: object) -> None:
    """Refuses optimizers and states that cannot be converted."""
    for name, optimizer in (("source", source), ("target", target)):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{name} is a {type(optimizer).__name__}; pass an optimizer of "
                            "tandem.jax: convert_state(state, params, source, target)")
    source._check_state(state, "convert_state(state, params, source, target)")
    if source._rules.graphs != target._rules.graphs:
        raise ValueError(
            f"source is an optimizer of {source.name}, but target is one of another graph, "
            f"{target.name}; only the strategy of a state can change: create target by the "
            "function and with the options that source was created by")
    if source._rules.averages != target._rules.averages:
        raise ValueError("only one of source and target averages weights; create both with "
                         "ema_decay, or both without")


def _refuse_shards(params: object) -> None:
    for path, value in jax.tree_util.tree_leaves_with_path(params):
        if isinstance(value, jax.Array) and varying_axes(value):
            raise ValueError(f"params{jax.tree_util.keystr(path)} is a shard inside of jax.shard_map; "
                             "call convert_state outside of it, where arrays are whole")


@dataclass(frozen=True)
class _Move:
    """A leaf, the planes of its state, and its new rule."""

    leaf: Leaf
    planes: Mapping[str, jax.Array]
    rule: Rule
    type: str  #: the kernel's name of the leaf's new type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.leaf.value.shape


def _move(leaf: Leaf, planes: Mapping[str, jax.Array], source: Optimizer, target: Optimizer,
          keep_types: bool) -> _Move:
    """Returns a leaf with its new rule and type."""
    like = jax.ShapeDtypeStruct(leaf.value.shape, leaf.value.dtype)
    before, after = (optimizer._types_of(leaf.path, like) for optimizer in (source, target))
    stays = leaf.type == "f32" and (keep_types or "f32" not in before)
    type = leaf.type if stays or leaf.type in after else after[0]
    like = jax.ShapeDtypeStruct(like.shape, DTYPES[type])
    return _Move(leaf, planes, target._rule_of(leaf.path, like, ()), type)


def _alike(moves: Sequence[_Move]) -> list[list[_Move]]:
    """Groups leaves that can be converted in the same launches."""
    groups: dict[tuple, list[_Move]] = {}
    for move in moves:
        key = id(move.leaf.rule), move.leaf.type, id(move.rule), move.type
        groups.setdefault(key, []).append(move)
    return list(groups.values())


#===------------------------------------------------------------------------===#
# Leaves that are alike
#===------------------------------------------------------------------------===#


def _carried(moves: Sequence[_Move], threads: int) -> list[tuple[jax.Array, Planes]]:
    """Returns the converted parameters and planes of states of leaves."""
    source, target = moves[0].leaf.rule, moves[0].rule
    made: list[Planes] = [{} for _ in moves]
    for role in kept_roles(source.kernel):
        is_weight = planes_of(source.kernel, role)[0].kind is RoleKind.PARAM
        found = (_carry_codes(moves, role, threads) if is_weight and source.hidden
                 else _carry_role(moves, role, source, threads))
        made = [planes | new for planes, new in zip(made, found)]
    # The history of gradients is useless under another storage.
    fresh = [plane for plane in target.grad_planes if plane.persistent]
    made = [planes | {plane.name: zeros(plane, target.shapes(move.shape)[plane.name])
                      for plane in fresh} for move, planes in zip(moves, made)]
    params = (_decoded(moves, made, target, moves[0].type, threads) if target.hidden
              else [planes[target.visible.name] for planes in made])
    return [(param, {name: planes[name] for name in target.state_planes})
            for param, planes in zip(params, made)]


def _carry_codes(moves: Sequence[_Move], role: str, threads: int) -> list[Planes]:
    """Converts a weight in codes: the codes, or the leaf's value if it no longer equals the
    decoded codes."""
    source, type = moves[0].leaf.rule, moves[0].leaf.type
    held = _decoded(moves, [move.planes for move in moves], source, type, threads)
    codes = _carry_role(moves, role, source, threads)
    copies = _carry_role(moves, role, source.of_step(type), threads)
    return [{name: _select(jnp.all(value == move.leaf.value), new[name], other[name])
             for name in new}
            for move, value, new, other in zip(moves, held, codes, copies)]


def _select(is_first: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """Returns one of two arrays with all of its bits, including those of a NaN."""
    bits = f"uint{8 * first.dtype.itemsize}"
    pair = (jax.lax.bitcast_convert_type(array, bits) for array in (first, second))
    return jax.lax.bitcast_convert_type(jnp.where(is_first, *pair), first.dtype)


def _decoded(moves: Sequence[_Move], planes: Sequence[Mapping[str, jax.Array]], rule: Rule,
             type: str, threads: int) -> list[jax.Array]:
    """Returns the weights that codes in states decode to, in a type."""
    plane = Plane(type=type, bits=8 * DTYPES[type].itemsize)
    jobs = [Job(move.leaf.label, rule.size_of_shape(move.shape),
                [kept[plane.name] for plane in rule.weight_planes], [move.shape])
            for move, kept in zip(moves, planes)]
    found = convert(jobs, rule.weight_storage, floats(type), [plane], fresh=True,
                    matrix=rule.kernel.is_matrix, threads=threads,
                    what=f"the decoding of weights of {rule.kernel.name}")
    return [value[plane.name] for value in found]


def _carry_role(moves: Sequence[_Move], role: str, source: ParamPlanes,
                threads: int) -> list[Planes]:
    """Converts one tensor of each leaf to the leaf's new rule."""
    target = moves[0].rule
    ours, theirs = (Stored.of(planes.kernel, role) for planes in (source, target))
    given = [[move.planes.get(plane.name, move.leaf.value) for plane in ours.planes]
             for move in moves]
    if ours.meets(theirs) and (source.group == target.group or not (
            ours.is_grouped and theirs.is_grouped)):
        matrix, group = ((ours.matrix, source.group) if ours.is_grouped
                         else (theirs.matrix, target.group))
        return _converted(moves, given, ours, theirs, matrix, group, threads)
    # The two storages group different elements, so convert through f32.
    wide = Stored(floats("f32"), [WIDE_PLANE], ours.matrix, False)
    values = _converted(moves, given, ours, wide, ours.matrix, source.group, threads)
    return _converted(moves, [list(planes.values()) for planes in values], wide, theirs,
                      theirs.matrix, target.group, threads)


def _shape_of(source: Stored, planes: Sequence[jax.Array], move: _Move) -> tuple[int, ...]:
    """Returns the shape of a stored tensor. Its first plane has an entry for each element,
    unless a byte holds several codes."""
    codes = source.planes[0]
    if not codes.is_packed:
        return planes[0].shape
    return {Granularity.ROW: move.shape[:1],
            Granularity.COLUMN: move.shape[1:]}.get(codes.per, move.shape)


def _converted(moves: Sequence[_Move], given: Sequence[Sequence[jax.Array]], source: Stored,
               target: Stored, matrix: bool, group: int, threads: int) -> list[Planes]:
    """Converts tensors from one storage to another. `group` is the length up to which rows are
    joined."""
    rule, jobs = moves[0].rule, []
    for move, planes in zip(moves, given):
        size, shape = rule.size_of_shape(move.shape), _shape_of(source, planes, move)
        shapes = [shape if plane is WIDE_PLANE
                  else rule.shape_of(plane, move.shape, size) for plane in target.planes]
        jobs.append(Job(move.leaf.label, size_of_shape(shape, matrix, group), planes, shapes))
    return convert(jobs, source.storage, target.storage, target.planes, fresh=True, matrix=matrix,
                   floor=target.floor, threads=threads,
                   what=f"the conversion of a state of {rule.kernel.name}")
