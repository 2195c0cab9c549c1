"""Training on several ranks: sums of encoded gradients."""

from tandem.torch.distributed._all_reduce import AutomaticScaling, GradientAllReduce, Ranks

__all__ = ["AutomaticScaling", "GradientAllReduce", "Ranks"]
