"""Checks of wrappers around models and optimizers for combinations that do not work."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable

import torch
from torch.nn.parallel import DistributedDataParallel

from tandem._kernel import Kernel
from tandem._param_planes import sums_over_model
from tandem.torch._shards import Shard, is_dtensor, shard_of
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._sharding import cut_of, gathers, reason_for_rows


def has_ranks() -> bool:
    """Returns whether torch.distributed is initialized in this process."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def refuse_accumulation(accumulation: str | None) -> None:
    """Refuses sums of several passes in a storage of their own where wrappers reduce ``p.grad``.

    Raises:
        RuntimeError: there is such a storage.
    """
    if accumulation is not None:
        raise RuntimeError(
            f"grad_accumulation={accumulation!r} takes p.grad after each backward pass, and "
            "torch.distributed is initialized, where wrappers reduce p.grad afterwards; leave "
            "grad_accumulation out, and let the wrapper add up in float32 "
            "(MixedPrecisionPolicy(reduce_dtype=torch.float32) of fully_shard)")


def unwrapped(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Returns the optimizer inside the wrappers of Accelerate and Lightning.

    Lightning's wrapper is an instance of the optimizer's class and has its attributes, but
    assignments to the wrapper do not reach the optimizer.
    """
    attributes = vars(optimizer)
    inner = attributes.get("optimizer", attributes.get("_optimizer"))
    return unwrapped(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


#===------------------------------------------------------------------------===#
# Shards
#===------------------------------------------------------------------------===#


def check_placements(grad: torch.Tensor, shard: Shard, label: object) -> None:
    """Refuses a gradient that is sharded differently from its parameter.

    Raises:
        RuntimeError: it is not a DTensor with the same mesh and placements.
    """
    if (is_dtensor(grad) and grad.device_mesh is shard.mesh
            and grad.placements == shard.placements):
        return  # the usual case
    other = shard_of(grad)
    if other is None or other.mesh != shard.mesh or other.placements != shard.placements:
        raise RuntimeError(
            f"the gradient of {label} is {'no DTensor' if other is None else f'spread as {other}'}"
            f", the parameter is spread as {shard}; redistribute it, p.grad = "
            "p.grad.redistribute(p.device_mesh, p.placements)")


def check_dtensor(shard: Shard, label: object, spec: StateSpec, releases: bool) -> None:
    """Refuses a DTensor with pieces that the kernel cannot update.

    The decision depends only on the whole tensor and its placements, so all ranks raise the same
    error.

    Args:
        releases: whether backward passes take the steps.

    Raises:
        ValueError: pieces are not whole rows, or split elements that share an entry.
    """
    if releases:
        raise ValueError(
            f"{label} is a DTensor, whose gradient ranks reduce after gradient_release=True "
            "would have taken the step; leave it out")
    if shard.is_partial:
        raise ValueError(f"{label} is a DTensor that is spread as {shard}, a sum over ranks; "
                         "redistribute it before the optimizer is created")
    if shard.mesh.get_coordinate() is None:
        raise ValueError(
            f"{label} is a DTensor of a mesh that rank {torch.distributed.get_rank()} is not in; "
            "give each rank's optimizer the parameters of meshes that the rank is in")
    reason = None if shard.is_whole else reason_for_rows(spec)
    cut = reason and cut_of(shard, spec)
    if cut and not gathers(spec, shard):
        raise ValueError(
            f"{label} {cut}, and {reason}; shard its rows evenly, as fully_shard does over a "
            "number of ranks that divides them, or give it a param group of its own whose "
            "strategy has no such values, as strategy='collage-plus'")


def is_flattened(param: torch.Tensor) -> bool:
    """Returns whether FullyShardedDataParallel (FSDP1) has made the parameter a piece of a flat
    one, or uses such pieces in its place."""
    return getattr(param, "_fsdp_flattened", False)


def refuse_flattened(param: torch.Tensor, label: object) -> None:
    """Refuses a parameter whose memory FSDP1 or FSDP2 manages.

    Raises:
        ValueError: one of them manages the parameter's memory.
    """
    if shard_of(param) is not None:
        raise ValueError(
            f"{label} is a DTensor, whose weights fully_shard gathers and frees itself; leave "
            "decode_weights out"
        )
    if is_flattened(param):
        raise ValueError(
            f"{label} is sharded by FSDP1, which gathers and frees weights itself; leave "
            "decode_weights out"
        )


def check_shard(param: torch.Tensor, label: object, spec: StateSpec, releases: bool) -> None:
    """Refuses a piece of a parameter that cannot be updated without the rest.

    Args:
        releases: whether backward passes take the steps.

    Raises:
        ValueError: the kernel needs the whole parameter or all of them, or backward
            passes would step before FSDP1 has reduced the gradient.
    """
    if (shard := shard_of(param)) is not None:
        check_dtensor(shard, label, spec, releases)
    if not is_flattened(param):
        return
    if releases:
        raise ValueError(
            f"{label} is sharded by FSDP1, which averages its gradient after "
            "gradient_release=True would have taken the step; leave it out"
        )
    if reason := _whole_values(spec.kernel):
        raise ValueError(
            f"{label} is sharded by FSDP1, and each rank would compute {reason} from its "
            "own shard; for FSDP1, take an optimizer and a strategy without such values, "
            "as AdamW under 'collage-plus' or 'fp8-collage-plus' (clip with the model's "
            "clip_grad_norm_), or give each rank whole parameters, with "
            "DistributedDataParallel"
        )


def _whole_values(kernel: Kernel) -> str | None:
    """Returns what a step computes from more than neighbouring elements."""
    if sums_over_model(kernel):
        return f"{kernel.name}'s sum over all parameters (max_norm)"
    if kernel.is_matrix:
        return f"{kernel.name}'s values for rows and columns"
    if any(plane.is_whole_tensor for plane in kernel.planes):
        return f"the scales that strategy {kernel.strategy!r} has for each tensor"
    if kernel.reductions:
        return f"{kernel.name}'s sums over each tensor"
    return None


#===------------------------------------------------------------------------===#
# Parts of a model
#===------------------------------------------------------------------------===#


def refuse_part(kernel: Kernel) -> None:
    """Refuses a sum over all parameters in an optimizer that a ZeroRedundancyOptimizer creates,
    since each rank has only some of them.

    Raises:
        ValueError: the kernel has such a sum.
    """
    if has_ranks() and sums_over_model(kernel) and _is_created_by_zero():
        raise ValueError(
            f"{kernel.name} sums over all parameters, and ZeroRedundancyOptimizer gives "
            "each rank some of them; leave max_norm out, and clip with "
            "torch.nn.utils.clip_grad_norm_ before the step"
        )


def _is_created_by_zero() -> bool:
    """Returns whether a ZeroRedundancyOptimizer is on the call stack. It leaves no other trace
    on the optimizer that it creates."""
    module = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")
    frame = sys._getframe(1)
    while module and (frame := frame.f_back):
        if (frame.f_code.co_name == "_init_local_optimizer"
                and isinstance(frame.f_locals.get("self"), module.ZeroRedundancyOptimizer)):
            return True
    return False


#===------------------------------------------------------------------------===#
# DistributedDataParallel
#===------------------------------------------------------------------------===#


def is_in_ddp(params: Iterable[torch.Tensor]) -> bool:
    """Returns whether a DistributedDataParallel averages the gradient of a parameter.

    It leaves no trace on parameters, so this inspects all objects, which takes about 50 ms for a
    million of them.
    """
    if not has_ranks():
        return False
    wanted = {id(param) for param in params}
    return any(id(param) in wanted
               for found in gc.get_objects()
               if issubclass(type(found), DistributedDataParallel) and hasattr(found, "reducer")
               for name, param in found.module.named_parameters()
               if name not in found.parameters_to_ignore)
