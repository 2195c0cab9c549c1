"""FSDP2's all-gather of weights as E4M3 codes, for layers whose products take these."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.distributed.fsdp as fsdp

from tandem.torch._layout import WORKING
from tandem.torch.distributed._codec import codec
from tandem.torch.distributed._collectives import known_scales, own_scale
from tandem.torch.distributed._ranks import Ranks
from tandem.torch.nn._modules import Linear
from tandem.torch.nn._stored import StoredTensor

#: The code of weights in 8-bit products.
CODE = "f8E4M3FN"


def exchange_scales(shards: Sequence[torch.Tensor], ranks: Ranks) -> list[torch.Tensor]:
    """The scale of each weight of which every rank has some rows, by one maximum of 4 bytes for
    each: the scale that one process would choose for the whole.

    Args:
        shards: this rank's rows of each weight.
        ranks: those that have the others.
    """
    scales = torch.cat([own_scale(shard, codec(CODE)) for shard in shards])
    # Scales are neither NaN nor negative, so that they have the order of their bits.
    ranks.max(scales.view(torch.int32))
    return list(known_scales(scales).split(1))


class CodedShard(torch.Tensor):
    """This rank's rows of a weight, in the memory in which FSDP2 has put them; when FSDP2 asks
    what to gather, they are codes, and what it has gathered becomes a :class:`StoredTensor`."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    #: The weight that this is a part of.
    weight: Weight

    def fsdp_pre_all_gather(self, mesh):
        """The codes that this rank sends, and the scale, which it keeps until the others' are there."""
        scale = self.weight.current_scale()
        codes, _ = codec(CODE).encode(self.detach(), scale)
        # gloo knows no 8-bit floats.
        return (codes.view(torch.uint8),), scale

    def fsdp_post_all_gather(self, all_gather_outputs, metadata, param_dtype, *, out=None):
        """The whole weight in the memory that FSDP2 has gathered into; `out` has it already."""
        planes = {"": all_gather_outputs[0].view(codec(CODE).dtype), ".scale": metadata}
        if out is None:
            return StoredTensor(planes[""].shape, param_dtype, codec(CODE).storage, planes), ()
        out.planes = planes


class Weight:
    """A weight that is gathered as codes.

    Args:
        name: its name in the model.
        managed: FSDP2's own description of it.
    """

    def __init__(self, name: str, managed):
        self.name, self._managed = name, managed
        self._scale, self._known = None, None

    @property
    def group(self):
        """The process group that has its rows."""
        return self._managed.mesh_info.shard_process_group

    @property
    def shard(self) -> torch.Tensor:
        """This rank's rows."""
        return self._managed.sharded_param._local_tensor

    @torch.no_grad()
    def attach(self) -> None:
        """Tells FSDP2 to gather codes. Moving a model, or loading it with assign=True, brings
        other tensors, which are to be told anew."""
        if not isinstance(self.shard, CodedShard):
            shard = self.shard.as_subclass(CodedShard)
            shard.weight = self
            self._managed.sharded_param._local_tensor = shard

    def begin(self) -> None:
        """Attaches it before the first pass."""
        self.attach()
        self._managed._init_extensions()

    def set_scale(self, scale: torch.Tensor) -> None:
        """Takes the scale of what the ranks have now."""
        self._scale, self._known = scale, self._state()

    def current_scale(self) -> torch.Tensor:
        """The scale of what the ranks have, which they exchange if it is a different weight from
        when the model's forward pass began, as where a part of the model runs by itself."""
        if self._known != self._state():
            self.set_scale(*exchange_scales([self.shard], Ranks(self.group)))
        return self._scale

    def _state(self) -> tuple:
        """Counts and an address that change when the weight is written or moved."""
        param, shard = self._managed.sharded_param, self.shard
        return param._version, shard._version, shard.data_ptr()


class WeightGather:
    """The weights that FSDP2 gathers as codes; :func:`fp8_all_gather` makes it.

    Attributes:
        coded: the names of weights that travel as codes.
        wide: the names of those that travel as they are, and the reasons.
    """

    def __init__(self, weights: Iterable[Weight], wide: dict[str, str]):
        self._weights, self.wide = list(weights), wide

    @property
    def coded(self) -> list[str]:
        return [weight.name for weight in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        """Exchanges the scales of all weights, in one all-reduce for each process group. A hook
        calls it when the model's forward pass begins."""
        groups: dict = {}
        for weight in self._weights:
            weight.attach()
            groups.setdefault(weight.group, []).append(weight)
        for group, weights in groups.items():
            scales = exchange_scales([weight.shard for weight in weights], Ranks(group))
            for weight, scale in zip(weights, scales, strict=True):
                weight.set_scale(scale)

    def __repr__(self) -> str:
        return f"WeightGather(coded={self.coded}, wide={self.wide})"


def fp8_all_gather(model: torch.nn.Module) -> WeightGather:
    """Has FSDP2 gather the weights of layers with 8-bit products as E4M3 codes::

        tandem.torch.compress_activations(model, products="fp8")
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        tandem.torch.distributed.fp8_all_gather(model)

    A weight of a :class:`tandem.torch.nn.Linear` with ``products="fp8"`` goes into products as
    codes with one f32 scale (FP8-LM, section 2.3), so that ranks send one byte for each element,
    and the layer multiplies what has arrived. The codes are those to which one process encodes
    the weight as FSDP2 keeps it: before a ``param_dtype`` would round it. So where weights have
    the type of products, the model's bits are those without this call. For its scale, the
    forward pass of the model begins with one all-reduce of 4 bytes for each weight; a part of the
    model that runs by itself after a step has one for each of its weights.

    What else computes with such a weight in a pass gets what the codes decode to. Gradients,
    optimizers, state dicts and checkpoints see what they see without this call.

    Args:
        model: one that ``fully_shard`` was called for, or with modules that it was called for,
            before its first pass.

    Returns:
        Which weights are gathered so. Others of such layers are gathered as they are, as a
        warning says too: those whose rows the ranks do not share evenly, of which FSDP2 pads
        some; those that are divided by tensor parallelism too, are tied to other layers, wait
        in a CPU's memory for a GPU, or are kept in part after the forward pass
        (``reshard_after_forward`` as a number).

    Raises:
        ValueError: no such layer has a weight that FSDP2 manages, or this was called before.
        RuntimeError: the model has run already.
        ImportError: this PyTorch has no FSDP2 of its own; from 2.6 on it does.
    """
    found = {name: managed for name, managed in _managed(model) if any(_uses(managed))}
    if not found:
        raise ValueError(
            "the model has no layer with products of 8-bit floats whose weight FSDP2 manages; call "
            "tandem.torch.compress_activations(model, products='fp8') first, and then fully_shard")
    _check_fresh(found)
    reasons = {name: _why_wide(managed) for name, managed in found.items()}
    wide = {name: reason for name, reason in reasons.items() if reason}
    weights = [Weight(name, managed) for name, managed in found.items() if name not in wide]
    for weight in weights:
        weight.begin()
    gather = WeightGather(weights, wide)
    if weights:
        # Before FSDP2's own, which gathers the first weights.
        model.register_forward_pre_hook(lambda *_: gather.update(), prepend=True)
    if wide:
        warnings.warn(f"{len(wide)} of {len(found)} weights of 8-bit products are gathered as they "
                      "are: " + "; ".join(f"{name} {why}" for name, why in wide.items()),
                      UserWarning, stacklevel=2)
    return gather


def _managed(model: torch.nn.Module) -> Iterator[tuple[str, object]]:
    """Yields the names of parameters that FSDP2 manages, and its descriptions of them."""
    if not hasattr(fsdp, "FSDPModule"):
        raise ImportError("fp8_all_gather needs torch.distributed.fsdp.fully_shard; take PyTorch "
                          "2.6 or a later one")
    names = {id(module): name for name, module in model.named_modules()}
    for module in model.modules():
        if not isinstance(module, fsdp.FSDPModule):
            continue
        state = module._get_fsdp_state()
        groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
        for managed in (each for group in groups if group for each in group.fsdp_params):
            info = managed._module_info
            yield ".".join(filter(None, (names[id(info.module)], info.param_name))), managed


def _is_coded(module: torch.nn.Module, name: str) -> bool:
    """Whether a module's parameter goes into 8-bit products."""
    return isinstance(module, Linear) and module.products == "fp8" and name == "weight"


def _uses(managed) -> list[bool]:
    """Whether each of the modules that have a parameter takes it into 8-bit products."""
    info = managed._module_info
    return [_is_coded(info.module, info.param_name),
            *map(_is_coded, info.shared_modules, info.shared_param_names)]


def _check_fresh(found: dict) -> None:
    """Refuses weights that FSDP2 has gathered, or whose gathers have been changed."""
    for name, managed in found.items():
        if hasattr(managed, "_unsharded_param"):
            raise RuntimeError(f"{name} has been gathered already, and FSDP2 keeps the kind of tensor "
                               "that it has made; call fp8_all_gather after fully_shard, before "
                               "the model's first pass")
        if hasattr(managed._sharded_local_tensor, "fsdp_pre_all_gather"):
            raise ValueError(f"{name} says already how it is gathered; call fp8_all_gather once "
                             "for a model, and let no other library change its weights' gathers")


def _why_wide(managed) -> str | None:
    """Returns why a weight is gathered as it is, in words that follow its name."""
    ranks = getattr(managed.mesh_info, "shard_mesh_size", 1)
    post_forward = managed.post_forward_mesh_info
    if managed.sharded_param.dtype not in WORKING:
        return f"is {managed.sharded_param.dtype}, of which no codes are made"
    if not all(_uses(managed)):
        return "is tied to a layer without 8-bit products"
    if managed.is_dtensor:
        return "is divided by tensor parallelism too"
    if managed.fsdp_placement.dim != 0:
        return f"is sharded in dimension {managed.fsdp_placement.dim}, not by rows"
    if managed._orig_size[0] % ranks:
        return f"has {managed._orig_size[0]} rows, which {ranks} ranks do not share evenly"
    if managed.offload_to_cpu and managed.device.type != "cpu":
        return "waits in a CPU's memory"
    if post_forward is not None and post_forward.shard_mesh_size != ranks:
        return "is kept in part after the forward pass (reshard_after_forward as a number)"
    return None
