"""The optimizer of FP8-LM's level O3."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tandem.torch.distributed._all_reduce import AutomaticScaling, GradientAllReduce
from tandem.torch.distributed._zero import ZeroRedundancyOptimizer
from tandem.torch.nn import Compression
from tandem.torch.optim import AdamW


class ShardedFP8LM(ZeroRedundancyOptimizer):
    """The optimizer that :func:`tandem.torch.fp8_lm` returns for level O3. Each rank has the master
    weights and the moments of some tensors, and sends the weights of converted layers in E4M3.

    Its first param group has the weights of the converted layers, and the others have all other
    parameters, by type.
    """

    #: The report on the conversion, in the process that created this.
    converted: Compression | None = None

    def __init__(self, groups: Sequence[dict], ranks, **options):
        groups = [dict(group) for group in groups]
        super().__init__(groups, AdamW, ranks, weight_codes=groups[0]["params"], **options)
        # One optimizer encodes the gradients of all parameters.
        self.optim._hooks.close()
        self._encoder = AdamW([dict(group) for group in groups], **options)
        #: The all-reduce of gradients at the start of each step.
        self.all_reduce = GradientAllReduce(self._encoder, ranks, AutomaticScaling())

    def step(self, closure=None, **kwargs):
        """Reduces gradients over the ranks, updates this rank's parameters, and sends them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.all_reduce()
        for param, rank in self._rank_of.items():
            planes = self._encoder._gradients.get(param)
            if planes is not None and rank == self.rank:
                self.optim._gradients.replace(param, planes)
        self._encoder._gradients.release()
        super().step(**kwargs)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets gradients as in torch.optim, and releases encoded gradients."""
        super().zero_grad(set_to_none)
        self._encoder._gradients.release()
        self.optim._gradients.release()
