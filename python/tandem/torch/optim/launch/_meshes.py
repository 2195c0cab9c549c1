"""Device meshes of parameters that a step sums over all ranks."""

from __future__ import annotations

import torch

from tandem.torch._shards import local_of, shard_of
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim.state._checksum import checksum


def check_meshes(groups: ParamGroups) -> None:
    """Refuses a parameter whose mesh has only some ranks, if other ranks have other weights in its
    place, as with experts that each rank has by itself: a sum over all parameters would miss
    those of the others. Equal weights are replicas, which count once.

    All ranks of the process call this together, before the first step that sums over them.

    Raises:
        ValueError: there is such a parameter; raised on all ranks.
    """
    meshes = {index: shard.mesh for index, param, _ in groups
              if param.requires_grad and (shard := shard_of(param)) is not None}
    world = torch.distributed.get_world_size()
    if max((mesh.size() for mesh in meshes.values()), default=0) < world:
        return  # other ranks may have no step to take
    params = groups.params
    own = {index: (tuple(mesh.mesh.flatten().tolist()), tuple(mesh.get_coordinate()),
                   checksum(local_of(params[index]).detach()))
           for index, mesh in meshes.items() if mesh.size() < world}
    found: list[dict] = [{}] * world
    torch.distributed.all_gather_object(found, own)
    for index in sorted({index for ranks in found for index in ranks}):
        kinds: dict[tuple, set] = {}
        for ranks, at, number in (ranks[index] for ranks in found if index in ranks):
            kinds.setdefault(at, set()).add(repr(number))
        if any(len(numbers) > 1 for numbers in kinds.values()):
            raise ValueError(
                f"{groups.label(index)} is a DTensor of a mesh of some ranks, and ranks outside of "
                "it have other weights in its place: the sum over all parameters would miss these. "
                "Give experts a mesh of all ranks, with a dimension for the experts, or clip with "
                "torch.nn.utils.clip_grad_norm_ and leave max_norm out")
