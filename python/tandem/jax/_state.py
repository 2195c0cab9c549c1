"""The state of an optimizer, which init returns and step replaces."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """The state of an optimizer: a pytree of arrays, which pickle and checkpoints of pytrees
    preserve bit for bit.

    Attributes:
        count: i32, the number of steps taken.
        planes: a pytree like the parameters, with a dict of arrays in place of each leaf: the
            planes of its states and additional planes of its weight, by name ("exp_avg_sq.lo").
            A plane has the leaf's shape, or an entry for each group of elements, row, column or
            tensor.
        metrics: f32 metrics of the last step by name: ``edq``, ``edq_ratio``, ``update_norm``
            and ``lost_share``, which :meth:`tandem.torch.Optimizer.metrics` describes; None
            without ``metrics=True``.
        skipped: bool, whether the last step was skipped because a gradient had a NaN or an
            infinity; None without ``skip_nonfinite=True``.
        identity: the graph and the strategy, as static data; other optimizers refuse the state.
    """

    count: jax.Array
    planes: object
    metrics: dict[str, jax.Array] | None
    skipped: jax.Array | None
    identity: str = field(metadata={"static": True})
