"""Optimizers as optax gradient transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tandem.jax._optimizer import Optimizer
from tandem.jax._state import State


def as_optax(optimizer: Optimizer, *, specs: object = None):
    """Returns an ``optax.GradientTransformation`` that takes the steps of an optimizer.

    Its updates are f32. For graphs whose last operation adds to the weight,
    ``optax.apply_updates`` produces the parameters of :meth:`Optimizer.step` with the same bits.
    Graphs that first shrink the weight (``adamw`` with decay "before" or "after", and
    ``adafactor``) may reach a value that no update produces. The nearest update is used then,
    and the weight differs by at most 2**-23 of its update. Results also differ for subnormal
    numbers, which XLA flushes.

    It can be used in ``optax.chain`` and in ``optax.MultiSteps``. Unlike :meth:`Optimizer.step`
    it does not change the parameters and needs memory for a copy.

    Args:
        optimizer: an optimizer whose strategies store the entire weight in the leaf, such as
            "fp32", "coat-fp32" or "adam8bit" for float32 leaves.
        specs: as for :meth:`Optimizer.init`, inside jax.shard_map.

    Raises:
        ImportError: optax is not installed.
        TypeError: the argument is not an optimizer.
        ValueError: in ``init`` and ``update``, if a part of a leaf's weight is in the state.
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError("tandem.jax.as_optax needs optax; install it with pip install "
                          "optax, or call optimizer.step") from error
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"as_optax takes an optimizer of tandem.jax, got a "
                        f"{type(optimizer).__name__}; pass tandem.jax.adamw(...), for instance")

    def init(params: object) -> State:
        _check_plain(optimizer, params, specs)
        return optimizer.init(params, specs=specs)

    def update(updates: object, state: State, params: object = None) -> tuple[object, State]:
        if params is None:
            raise ValueError("a step reads the parameters; call update(grads, state, params)")
        _check_plain(optimizer, params, specs)
        new, state = optimizer.step(updates, state, params, specs=specs)
        return jax.tree.map(_update_between, params, new), state

    return optax.GradientTransformation(init, update)


def _check_plain(optimizer: Optimizer, params: object, specs: object) -> None:
    """Refuses leaves that do not store their entire weight."""
    leaves, _ = optimizer._leaves(params, specs)
    for leaf in leaves:
        if leaf.rule.hidden or len(leaf.rule.weight_planes) > 1:
            raise ValueError(
                f"{leaf.label} under {leaf.rule.kernel.strategy!r} is only a part of its weight: "
                "the state has the rest, which no update that is added can write; call "
                "optimizer.step, keep the leaf in float32, or take a strategy without such a "
                "rest, as 'fp32' and 'coat-fp32' are")


def _update_between(old: jax.Array, new: jax.Array) -> jax.Array:
    """Returns the f32 update that added to `old` gives `new`, or the nearest one if there is
    none.

    If there is one, it is the difference rounded to nearest. The exception is a sum that was a
    tie next to a power of two, for which it may be the next f32 away from zero.
    """
    old = jnp.asarray(old)
    first, last = (x.astype(jnp.float32) for x in (old, new))
    nearest = last - first
    bits = jax.lax.bitcast_convert_type(nearest, jnp.uint32)
    farther = jax.lax.bitcast_convert_type(bits + 1, jnp.float32)
    is_short = (first + nearest != last) & (first + farther == last)
    # Infinite weights stay infinite, and zeros keep their signs.
    return jnp.where(old == 0, last, jnp.where(
        old == new, 0, jnp.where(is_short, farther, nearest)))
