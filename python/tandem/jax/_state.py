"""The state of an optimizer: what init returns and step replaces."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """The state of an optimizer, a pytree of arrays, which pickle and checkpoints of pytrees
    keep bit for bit.

    Attributes:
        count: i32, the number of steps taken.
        planes: the pytree of the parameters, with a dict of arrays in place of each leaf: the
            planes of its states and of what the strategy keeps of its weight, by their names
            ("exp_avg_sq.lo"). A plane has the leaf's shape, or an entry for each group of
            elements, row, column or tensor.
        metrics: f32 numbers of the last step by name, with ``metrics=True``: ``edq``,
            ``edq_ratio``, ``update_norm`` and ``lost_share``, as
            :meth:`tandem.torch.Optimizer.metrics` explains them; None without.
        skipped: bool, whether the last step has found a gradient with a NaN or an infinity and
            done nothing, with ``skip_nonfinite=True``; None without.
        identity: the graph and the strategy, no array; another optimizer refuses the state.
    """

    count: jax.Array
    planes: object
    metrics: dict[str, jax.Array] | None
    skipped: jax.Array | None
    identity: str = field(metadata={"static": True})
