"""Training on several ranks: 8-bit gradient reductions, ZeRO with whole tensors, and tensor and
sequence parallelism."""

from importlib import import_module

from tandem.torch.distributed._all_reduce import GradientAllReduce
from tandem.torch.distributed._ddp_hook import FP8CompressState, fp8_compress_hook
from tandem.torch.distributed._ranks import Ranks
from tandem.torch.distributed._reduce_scatter import FP8ReduceScatter
from tandem.torch.distributed._scaling import AutomaticScaling

#: The modules of names that need torch.distributed, which is slow to import.
_MODULES = {
    "FP8ColwiseParallel": "_parallel", "FP8RowwiseParallel": "_parallel",
    "FP8SequenceParallel": "_parallel", "GatheredTensor": "_parallel",
    "ShardedFP8LM": "_sharded_fp8_lm", "WeightGather": "_weight_gather",
    "ZeroRedundancyOptimizer": "_zero", "fp8_all_gather": "_weight_gather",
    "greedy_partition": "_zero", "stored_bytes": "_zero"}

__all__ = ["AutomaticScaling", "FP8CompressState", "FP8ReduceScatter", "GradientAllReduce",
           "Ranks", "fp8_compress_hook", *_MODULES]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_MODULES[name]}")
    except ImportError as error:
        raise ImportError(f"{name} needs more of {error.name} than this PyTorch has; take one "
                          "that is built with torch.distributed, from 2.5 on") from error
    return getattr(module, name)
