"""Weights that their owner sends to the other ranks as E4M3 codes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist

from tandem.torch.distributed._codec import codec
from tandem.torch._layout import bits_of
from tandem.torch._weight_codes import detach


class WeightCodes:
    """The codes as which a :class:`ZeroRedundancyOptimizer` sends some weights (FP8-LM, section
    2.3).

    Between steps these parameters hold the decoded codes on all ranks. The weight that the owner
    updates is in its optimizer's state; :meth:`restore` restores it for a step.

    Args:
        zero: the ZeroRedundancyOptimizer, which owns this.
        params: the parameters.
    """

    def __init__(self, zero, params: Iterable[torch.Tensor]):
        self._zero, self._codec = zero, codec("f8E4M3FN")
        self._coded = dict.fromkeys(params)
        self._check()
        #: The codes and the scale that were last sent for each of this rank's parameters.
        self._sent: dict[torch.Tensor, tuple[torch.Tensor, torch.Tensor]] = {}
        zero.optim._store.start_hidden()
        self.exchange()

    def _check(self) -> None:
        """Refuses parameters whose weights are not in a state, from which they could be
        restored."""
        zero = self._zero
        if zero.parameters_as_bucket_view:
            raise ValueError("weight_codes sends parameters one by one; leave "
                             "parameters_as_bucket_view out")
        if zero.optim.gradient_release:
            raise ValueError("gradient_release=True takes steps in the backward pass, which "
                             "computes with what weight_codes has sent; leave one of them out")
        groups = {p: group for group in zero.param_groups for p in group["params"]}
        for param in self._coded:
            if param not in groups:
                raise TypeError("weight_codes has a tensor that is none of the optimizer's "
                                "parameters; pass some of these")
            spec = zero.optim._groups.specs.of(param, groups[param])
            if not spec.hidden:
                raise ValueError(
                    f"weight_codes needs a strategy that keeps weights in its state, such as "
                    f"'fp8-lm', and {groups[param]['strategy']!r} does not for {param.dtype} "
                    "parameters; take such a strategy, or leave weight_codes out")

    @torch.no_grad()
    def restore(self) -> None:
        """Restores this rank's weights. Elements that have been written since keep their
        values."""
        for param, (codes, scale) in self._sent.items():
            same = bits_of(self._codec.decode(codes, scale, param.dtype)) == bits_of(param)
            weight = self._zero.optim._store.decode_weight(param)
            param.data.copy_(torch.where(same.view(param.shape), weight, param))

    @torch.no_grad()
    def reload(self) -> None:
        """Updates the codes after a state has been loaded."""
        for param in self._sent:
            if self._zero.optim.state.get(param):
                param.data.copy_(self._zero.optim._store.decode_weight(param))
        self.exchange()

    @torch.no_grad()
    def exchange(self) -> None:
        """Sends this rank's parameters to the other ranks and receives theirs."""
        handles, received = [], {}
        for param, rank in self._zero._rank_of.items():
            if param in self._coded:
                received[param] = tensors = self._codes_of(param, rank)
            else:
                tensors = (param.data,)
            handles += [self._broadcast(tensor, rank) for tensor in tensors]
        for handle in handles:
            handle.wait()
        for param, (codes, scale) in received.items():
            param.data.copy_(self._codec.decode(codes, scale, param.dtype))
            detach(param)

    def _codes_of(self, param: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the codes and the scale to send, or the memory to receive them."""
        if rank != self._zero.rank:
            return (torch.empty(param.shape, dtype=self._codec.dtype, device=param.device),
                    torch.empty(1, device=param.device))
        self._sent[param] = sent = self._codec.encode(param.detach().contiguous())
        return sent

    def _broadcast(self, tensor: torch.Tensor, rank: int) -> dist.Work:
        group = self._zero.process_group
        if tensor.dtype == self._codec.dtype:
            tensor = tensor.view(torch.uint8)
        return dist.broadcast(tensor, dist.get_global_rank(group, rank), group, async_op=True)
