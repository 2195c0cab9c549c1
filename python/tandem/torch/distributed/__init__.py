"""Training on several ranks: sums of encoded gradients."""

from tandem.torch.distributed._all_reduce import GradientAllReduce
from tandem.torch.distributed._ranks import Ranks
from tandem.torch.distributed._scaling import AutomaticScaling

__all__ = ["AutomaticScaling", "GradientAllReduce", "Ranks"]
