"""FSDP2's all-gather of weights as E4M3 codes, for layers with 8-bit products."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.distributed.fsdp as fsdp

from tandem.torch._layout import WORKING
from tandem.torch._weight_codes import attached
from tandem.torch.distributed._codec import codec
from tandem.torch.distributed._collectives import known_scales, own_scale
from tandem.torch.distributed._ranks import Ranks
from tandem.torch.nn._modules import Linear
from tandem.torch.nn._stored import StoredTensor

#: The code of weights in 8-bit products.
CODE = "f8E4M3FN"


def exchange_scales(shards: Sequence[torch.Tensor], ranks: Ranks) -> list[torch.Tensor]:
    """Returns the scale of each row-sharded weight, which is the same as one process would
    choose for the whole. The exchange is a maximum over 4 bytes per weight.

    Args:
        shards: this rank's rows of each weight.
        ranks: the ranks that have the rows.
    """
    scales = torch.cat([_scale_of(shard) for shard in shards])
    # Scales are neither NaN nor negative, so their bits have the same order.
    ranks.max(scales.view(torch.int32))
    return list(known_scales(scales).split(1))


def _scale_of(shard: torch.Tensor) -> torch.Tensor:
    """Returns the scale of a rank's rows, or that of the weight if a step has written it."""
    codes = attached(shard, of_step=True)
    return own_scale(shard, codec(CODE)) if codes is None else codes.scale


class CodedShard(torch.Tensor):
    """This rank's rows of a weight, in FSDP2's memory. When FSDP2 gathers it, it sends codes,
    and the result is a :class:`StoredTensor`."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    #: The weight that the rows belong to.
    weight: Weight

    def fsdp_pre_all_gather(self, mesh):
        """Returns the codes that this rank sends, and the scale as metadata for the result."""
        scale = self.weight.current_scale()
        of_step = attached(self, of_step=True)
        codes = of_step.rows if of_step else codec(CODE).encode(self.detach(), scale)[0]
        # gloo does not support 8-bit floats.
        return (codes.view(torch.uint8),), scale

    def fsdp_post_all_gather(self, all_gather_outputs, metadata, param_dtype, *, out=None):
        """Returns the whole weight in the memory that FSDP2 has gathered into, unless `out`
        already has it."""
        planes = {"": all_gather_outputs[0].view(codec(CODE).dtype), ".scale": metadata}
        if out is None:
            return StoredTensor(planes[""].shape, param_dtype, codec(CODE).storage, planes), ()
        out.planes = planes


class Weight:
    """A weight that is gathered as codes.

    Args:
        name: the weight's name in the model.
        managed: FSDP2's description of the weight.
    """

    def __init__(self, name: str, managed):
        self.name, self._managed = name, managed
        self._scale, self._known = None, None

    @property
    def group(self):
        """The process group that holds the rows."""
        return self._managed.mesh_info.shard_process_group

    @property
    def shard(self) -> torch.Tensor:
        """This rank's rows."""
        return self._managed.sharded_param._local_tensor

    @torch.no_grad()
    def attach(self) -> None:
        """Makes FSDP2 gather codes. This must be repeated after moving a model, or loading it
        with assign=True, because these replace tensors."""
        if not isinstance(self.shard, CodedShard):
            shard = self.shard.as_subclass(CodedShard)
            shard.weight = self
            self._managed.sharded_param._local_tensor = shard

    def begin(self) -> None:
        """Attaches the weight before the first pass."""
        self.attach()
        self._managed._init_extensions()

    def set_scale(self, scale: torch.Tensor) -> None:
        """Sets the scale of the ranks' current weight."""
        self._scale, self._known = scale, self._state()

    def current_scale(self) -> torch.Tensor:
        """Returns the scale of the ranks' current weight. They exchange it if the weight has
        changed since the model's forward pass started, such as when a part of the model runs
        separately."""
        if self._known != self._state():
            self.set_scale(*exchange_scales([self.shard], Ranks(self.group)))
        return self._scale

    def _state(self) -> tuple:
        """Returns version counters and an address, which change when the weight is written or
        moved."""
        param, shard = self._managed.sharded_param, self.shard
        return param._version, shard._version, shard.data_ptr()


class WeightGather:
    """The weights that FSDP2 gathers as codes, as returned by :func:`fp8_all_gather`.

    Attributes:
        coded: the names of weights that are gathered as codes.
        wide: the names of weights that are gathered in their own type, and the reasons.
    """

    def __init__(self, weights: Iterable[Weight], wide: dict[str, str]):
        self._weights, self.wide = list(weights), wide

    @property
    def coded(self) -> list[str]:
        return [weight.name for weight in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        """Exchanges the scales of all weights, in one all-reduce per process group. A hook calls
        it at the start of the model's forward pass."""
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
    """Makes FSDP2 gather the weights of layers with 8-bit products as E4M3 codes::

        tandem.torch.compress_activations(model, products="fp8")
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        tandem.torch.distributed.fp8_all_gather(model)

    A :class:`tandem.torch.nn.Linear` with ``products="fp8"`` multiplies codes of its weight with
    one f32 scale (FP8-LM, section 2.3). Ranks thus send one byte per element, and the layer
    multiplies the received codes. The codes are those that one process would compute from
    FSDP2's shards, before ``param_dtype`` would round them, so if weights have the type of
    products, the model's bits do not change. The forward pass of the model starts with one
    all-reduce of 4 bytes per weight for the scales; a part of the model that runs separately
    after a step has one for each of its weights.

    Other operations on such a weight in a pass use the decoded codes. Gradients, optimizers,
    state dicts and checkpoints are not affected.

    Args:
        model: a model on which, or on whose modules, ``fully_shard`` was called, before its
            first pass.

    Returns:
        The weights that are gathered as codes. Other weights of such layers are gathered in
        their own type, with a warning: those whose rows are not evenly divisible, so that FSDP2
        pads them, and those that are also sharded by tensor parallelism, are tied to other
        layers, are offloaded to the CPU, or stay partially gathered after the forward pass
        (``reshard_after_forward`` as a number).

    Raises:
        ValueError: no such layer has a weight that FSDP2 manages, or this was called before.
        RuntimeError: the model has already run.
        ImportError: PyTorch is older than 2.6 and has no FSDP2.
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
        # Run before FSDP2's own hook, which gathers the first weights.
        model.register_forward_pre_hook(lambda *_: gather.update(), prepend=True)
    if wide:
        warnings.warn(f"{len(wide)} of {len(found)} weights of 8-bit products are gathered as they "
                      "are: " + "; ".join(f"{name} {why}" for name, why in wide.items()),
                      UserWarning, stacklevel=2)
    return gather


def _managed(model: torch.nn.Module) -> Iterator[tuple[str, object]]:
    """Yields the names of parameters that FSDP2 manages, and FSDP2's descriptions of them."""
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
    """Returns whether a module's parameter is a factor of 8-bit products."""
    return isinstance(module, Linear) and module.products == "fp8" and name == "weight"


def _uses(managed) -> list[bool]:
    """Returns, for each module with the parameter, whether it is a factor of 8-bit products."""
    info = managed._module_info
    return [_is_coded(info.module, info.param_name),
            *map(_is_coded, info.shared_modules, info.shared_param_names)]


def _check_fresh(found: dict) -> None:
    """Refuses weights that FSDP2 has already gathered, or whose all-gather is already
    customized."""
    for name, managed in found.items():
        if hasattr(managed, "_unsharded_param"):
            raise RuntimeError(f"{name} has been gathered already, and FSDP2 keeps the kind of tensor "
                               "that it has made; call fp8_all_gather after fully_shard, before "
                               "the model's first pass")
        if hasattr(managed._sharded_local_tensor, "fsdp_pre_all_gather"):
            raise ValueError(f"{name} says already how it is gathered; call fp8_all_gather once "
                             "for a model, and let no other library change its weights' gathers")


def _why_wide(managed) -> str | None:
    """Returns why a weight is gathered in its own type, as a phrase that follows its name."""
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
