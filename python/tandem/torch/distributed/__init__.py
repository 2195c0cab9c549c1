"""Training on several ranks: sums of gradients in 8 bits."""

from tandem.torch.distributed._all_reduce import GradientAllReduce
from tandem.torch.distributed._ddp_hook import FP8CompressState, fp8_compress_hook
from tandem.torch.distributed._ranks import Ranks
from tandem.torch.distributed._reduce_scatter import FP8ReduceScatter
from tandem.torch.distributed._scaling import AutomaticScaling

__all__ = ["AutomaticScaling", "FP8CompressState", "FP8ReduceScatter", "GradientAllReduce",
           "Ranks", "fp8_compress_hook"]
