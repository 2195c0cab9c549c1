"""QK-clip: bounds attention logits by scaling the weights of queries and keys."""

from __future__ import annotations

import torch

from tandem.torch._layout import is_placeholder
from tandem.torch._shards import local_of, shard_of
from tandem.torch._versions import increment_versions
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim.state._values import write_weight
from tandem.torch.optim.state._weights import own_optimizer, weight_of


@torch.no_grad()
def qk_clip(optimizer: torch.optim.Optimizer, query: torch.Tensor, key: torch.Tensor,
            largest: torch.Tensor, threshold: float = 100.0, *, balance: float = 0.5) -> int:
    """Scales the weights of queries and keys of those attention heads whose largest logit has
    passed a threshold, so that it comes back to it (MuonClip: Kimi K2, 2025). Call it
    after :meth:`step`::

        optimizer.step()
        for layer, largest in zip(model.layers, maxima):  # of the last forward pass, all ranks'
            tandem.torch.qk_clip(optimizer, layer.q_proj.weight, layer.k_proj.weight, largest)

    Whole weights are scaled, with the parts that only states have, and rounded to nearest as the
    strategy stores them. If no head has passed the threshold, nothing changes. Momentum is left as
    it is.

    Args:
        optimizer: an optimizer of :mod:`tandem.torch`, which may be wrapped by Accelerate or
            Lightning.
        query: the weight of queries, with the rows of one head after those of another.
        key: the weight of keys. It may have fewer heads, so that several heads of queries share
            one; this one is then scaled for the head that needs it most.
        largest: the largest logit of each head of queries in the last forward pass, after its
            scaling and before the softmax. Ranks must pass the same numbers.
        threshold: the bound.
        balance: the power of the factor that the query gets, from 0 to 1; the key gets the rest.

    Returns:
        The number of heads that were scaled. It waits for a GPU.

    Raises:
        ValueError: sizes do not match, or a weight is no parameter of the optimizer, is
            decoded on demand, or is spread in pieces that are not rows.
    """
    own = own_optimizer(optimizer)
    heads = largest.numel()
    _check(own._groups, query, key, heads, threshold, balance)
    factors = (threshold / largest.double().reshape(-1)).clamp(max=1.0)
    # A NaN scales nothing: the loss shows it.
    factors = torch.where(factors > 0, factors, 1.0)
    count = int((factors < 1).sum())
    if not count:
        return 0
    shared = factors.view(_heads_of(key, query, heads), -1).amin(1)
    for weight, base, power in ((query, factors, balance), (key, shared, 1 - balance)):
        if power:
            _scale(own._groups, own._store.get(weight), weight, base**power)
    return count


def _heads_of(key: torch.Tensor, query: torch.Tensor, heads: int) -> int:
    """Returns the number of heads of keys, which are as wide as those of queries."""
    return key.shape[0] // (query.shape[0] // heads)


def _check(groups: ParamGroups, query: torch.Tensor, key: torch.Tensor, heads: int,
           threshold: float, balance: float) -> None:
    if not threshold > 0:
        raise ValueError(f"threshold is {threshold}; it must be above 0")
    if not 0 <= balance <= 1:
        raise ValueError(f"balance is {balance}; it must be from 0 to 1")
    width = query.shape[0] // max(heads, 1)
    if not heads or query.shape[0] % heads or key.shape[0] % width or (
            heads % (key.shape[0] // width)):
        raise ValueError(
            f"largest has {heads} numbers, queries {query.shape[0]} rows and keys {key.shape[0]}; "
            "pass one number for each head of queries; all heads have the same width, and each "
            "head of keys serves the same number of heads of queries")
    for name, weight in (("query", query), ("key", key)):
        group, shard = groups.group_of(weight), shard_of(weight)
        if group is None or groups.specs.of(weight, group) is None:
            raise ValueError(f"{name} is no parameter of the optimizer")
        if is_placeholder(weight):
            raise ValueError(f"{name} is decoded on demand; remove() what decode_weights returned "
                             "before its weight is scaled")
        if shard is not None and shard.bounds is None:
            raise ValueError(f"{name} is spread as {shard}, in pieces that are not rows")


def _scale(groups: ParamGroups, state: dict | None, weight: torch.Tensor,
           factors: torch.Tensor) -> None:
    """Multiplies the rows of each head of a weight by a factor, rounded to f32."""
    shard, spec = shard_of(weight), groups.spec_of(weight)
    rows = factors.float().repeat_interleave(weight.shape[0] // factors.numel())
    if shard is not None:
        rows = rows[shard.first_row:shard.first_row + shard.rows]
    wide = local_of(weight_of(groups, weight, state))
    wide.mul_(rows.to(wide.device)[:, None])
    write_weight(spec, weight, state, wide)
    increment_versions([weight])
