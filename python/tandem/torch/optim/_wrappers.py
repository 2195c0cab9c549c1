"""Checks of wrappers around models and optimizers for combinations that do not work."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterable, Iterator

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


def check_shard(param: torch.Tensor, label: object, spec: StateSpec, releases: bool,
                accumulation: str | None) -> None:
    """Refuses a piece of a parameter that cannot be updated without the rest.

    Args:
        releases: whether backward passes take the steps.
        accumulation: the storage in which gradients of several passes add up, if there is one.

    Raises:
        ValueError: the kernel needs the whole parameter or all of them, or backward
            passes would step before FSDP1 has reduced the gradient, or FSDP1 adds up gradients.
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
    if accumulation is not None:
        raise ValueError(
            f"{label} is sharded by FSDP1, which adds up gradients itself; leave "
            f"grad_accumulation={accumulation!r} out, or shard the model with fully_shard (FSDP2)"
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


def refuse_part(kernel: Kernel, accumulation: str | None) -> None:
    """Refuses what needs all parameters in an optimizer that a ZeroRedundancyOptimizer creates,
    since each rank has only some of them.

    Raises:
        ValueError: the kernel sums over all parameters, or gradients of several passes add up in
            a storage of their own.
    """
    if has_ranks() and sums_over_model(kernel) and _is_created_by_zero():
        raise ValueError(
            f"{kernel.name} sums over all parameters, and ZeroRedundancyOptimizer gives "
            "each rank some of them; leave max_norm out, and clip with "
            "torch.nn.utils.clip_grad_norm_ before the step"
        )
    if accumulation is None or not has_ranks() or not _is_created_by_zero():
        return
    raise ValueError(
        "each rank adds up gradients of all parameters, and ZeroRedundancyOptimizer gives it "
        f"an optimizer for some of them; leave grad_accumulation={accumulation!r} out, or "
        "shard the model with fully_shard"
    )


def refuse_division(before: int, after: int, how: str) -> None:
    """Refuses to divide param groups in an optimizer that a ZeroRedundancyOptimizer creates, which
    has as many groups of its own.

    Args:
        before: the number of groups that were given.
        after: the number of groups after the division.
        how: how the optimizer divides them, and which groups it does not divide.

    Raises:
        ValueError: the number of groups changes.
    """
    if before == after or not has_ranks() or not _is_created_by_zero():
        return
    raise ValueError(
        f"ZeroRedundancyOptimizer keeps the param groups that it was given, and {how}")


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
# Averages of gradients over ranks
#===------------------------------------------------------------------------===#


class Averagers:
    """The wrappers that average gradients over ranks, as hooks of parameters see them.

    Wrappers leave no trace on parameters, so this inspects all objects, which takes about 50 ms
    for a million of them, when it first meets a parameter.
    """

    def __init__(self):
        #: The wrapper of each parameter by its identity; None if one rank has none.
        self._known: dict[int, weakref.ref | None] = {}

    def of(self, param: torch.Tensor, params: Iterable[torch.Tensor],
           accumulation: str) -> torch.nn.Module | None:
        """Returns the wrapper that averages a parameter's gradient; None if there is one rank and
        no wrapper.

        Args:
            param: the parameter whose hook runs.
            params: all parameters of the optimizer.
            accumulation: the optimizer's ``grad_accumulation``, for messages.

        Raises:
            RuntimeError: there are several ranks, and neither fully_shard nor
                DistributedDataParallel averages the gradient.
        """
        if id(param) in self._known:
            known = self._known[id(param)]
            if known is None or known() is not None:
                return known and known()
        params = list(params)
        self._known = dict.fromkeys(map(id, params))
        self._known |= {key: weakref.ref(wrapper) for key, wrapper in _averagers(params)}
        found, ranks = self._known.get(id(param)), torch.distributed.get_world_size()
        if found is None and ranks > 1:
            self._known = {}
            raise RuntimeError(
                f"grad_accumulation={accumulation!r} takes p.grad after each backward pass, but "
                f"nothing that it knows averages gradients over the {ranks} ranks: wrap the model "
                "in fully_shard or DistributedDataParallel, or leave grad_accumulation out and "
                "average p.grad")
        return found and found()

    def forget(self) -> None:
        """Forgets all wrappers, so that those that have been created since are found."""
        self._known = {}


def is_ddp(averager: torch.nn.Module | None) -> bool:
    """Returns whether a wrapper averages ``p.grad`` after the hooks of parameters, as
    DistributedDataParallel does; fully_shard calls hooks after the average."""
    return isinstance(averager, DistributedDataParallel)


def averages(model: DistributedDataParallel) -> bool:
    """Returns whether the backward pass in progress averages gradients.

    The forward pass decides that. Where one without gradients has come in between, the state of
    no_sync tells.
    """
    return model.require_forward_param_sync or model.require_backward_grad_sync


def _averagers(params: Iterable[torch.Tensor]) -> Iterator[tuple[int, torch.nn.Module]]:
    """Returns the wrappers that average gradients, by the identities of their parameters."""
    wanted = {id(param) for param in params}
    sharded = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
    for found in gc.get_objects():
        members: Iterable[torch.Tensor] = ()
        if issubclass(type(found), DistributedDataParallel) and hasattr(found, "reducer"):
            members = (param for name, param in found.module.named_parameters()
                       if name not in found.parameters_to_ignore)
        elif issubclass(type(found), sharded):
            members = filter(is_dtensor, found.parameters())
        yield from ((id(param), found) for param in members if id(param) in wanted)


def is_in_ddp(params: Iterable[torch.Tensor]) -> bool:
    """Returns whether a DistributedDataParallel averages the gradient of a parameter."""
    return has_ranks() and any(isinstance(found, DistributedDataParallel)
                               for _, found in _averagers(params))
