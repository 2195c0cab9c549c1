"""Training on several ranks: sums of encoded gradients, and states of whole tensors."""

from tandem.torch.distributed._all_reduce import AutomaticScaling, GradientAllReduce, Ranks
from tandem.torch.distributed._zero import (ZeroRedundancyOptimizer, greedy_partition,
                                            stored_bytes)

__all__ = ["AutomaticScaling", "GradientAllReduce", "Ranks", "ZeroRedundancyOptimizer",
           "greedy_partition", "stored_bytes"]
