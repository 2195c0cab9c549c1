"""Conversions of state dicts from and to bitsandbytes' optimizers."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from tandem._companions import MIN_8BIT_VECTOR_SIZE
from tandem._convert import WIDE_PLANE, Stored, kept_roles
from tandem._plane import RoleKind
from tandem._storages import floats
from tandem.torch._layout import empty_plane, laid_out, rows_in_memory
from tandem.torch._shards import is_dtensor
from tandem.torch.optim._groups import OPTIONS
from tandem.torch.optim.peers._dynamic_map import (BLOCK, dynamic_map, nan_code, recoded, sign_in,
                                                   sign_of)
from tandem.torch.optim.state import _identity, _versions
from tandem.torch.optim.state._carriers import unpacked
from tandem.torch.optim.state._check import check_state
from tandem.torch.optim.state._convert import (_check, _identity_of, _regrouped, _source_specs,
                                               _specs, _started, _with_rows)
from tandem.torch.optim.state._layouts import laid_out_state
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._specs import StateSpecs
from tandem.torch.optim.state._values import convert


class _Peer(NamedTuple):
    """An optimizer that both libraries have."""

    #: The name of bitsandbytes' optimizer in messages.
    name: str
    #: The number of states of a parameter.
    states: int
    #: The key in Tandem's param groups for the pair ``betas`` or for its first number; None if
    #: the optimizer uses neither.
    betas: str | None


_PEERS = {
    "adamw": _Peer("AdamW", 2, "betas"),
    "adamw_decay_before": _Peer("AdamW", 2, "betas"),
    "adamw_decay_after": _Peer("AdamW", 2, "betas"),
    "adam": _Peer("Adam", 2, "betas"),
    "lamb": _Peer("LAMB", 2, "betas"),
    "lion": _Peer("Lion", 1, "betas"),
    "sgd_momentum": _Peer("SGD", 1, "momentum"),
    "rmsprop": _Peer("RMSprop", 1, "alpha"),
    "adagrad": _Peer("Adagrad", 1, None),
}
#: The meaning of the second of bitsandbytes' betas if Tandem's groups have no pair.
_SECOND = {"momentum": "dampening", "alpha": "momentum"}
#: Options of AdEMAMix, which param groups of other optimizers with two states have too.
_ADEMAMIX = {"alpha": 0.0, "t_alpha": None, "t_beta3": None}
#: The key under which newer releases hide tensors from FSDP.
_WRAPPED = "__bnb_optimizer_quant_state__"
#: Blocks had 2048 elements before bitsandbytes 0.44.
_BLOCKS = (BLOCK, 2048)
_FLAGS = ("amsgrad", "centered", "dampening", "maximize", "nesterov")

#: Entries of a state that cannot be converted, and the reasons with fixes.
_FOREIGN = {
    "max1": "is of bitsandbytes' 8-bit code without blocks (block_wise=False); decode it, "
            "state1 = qmap1[state1.long()] * max1 and likewise state2, and leave the qmaps "
            "and maxima out",
    "gnorm_vec": "has the norms of percentile_clipping, which Tandem does not do; leave "
                 "'gnorm_vec' out of the states to go on without",
    "exp_avg": "is of torch.optim; under strategy 'fp32' load_state_dict takes its state "
               "dict as it is",
}


def _peer_of(graph: str) -> _Peer:
    """Returns bitsandbytes' optimizer for a graph."""
    if graph not in _PEERS:
        raise ValueError(
            f"graph {graph!r} is of no optimizer that bitsandbytes has as well; those of "
            f"both are {', '.join(_PEERS)}")
    return _PEERS[graph]


def _states(make: Callable, specs: StateSpecs, weights: Sequence[torch.Tensor],
            groups: Sequence[Mapping], states: Mapping, graph: str) -> dict:
    """Returns the converted state of each parameter that has one, by its key."""
    keys = [(key, group) for group in groups for key in group["params"]]
    made = {}
    for index, (weight, (key, group)) in enumerate(zip(weights, keys)):
        if state := states.get(key):
            label = f"parameter {index}"
            spec = _spec_of(specs, weight, group, label)
            made[key] = make(spec, weight, unpacked(spec, state), graph, label)
    return made


def _state_roles(spec: StateSpec) -> list[str]:
    """Returns the states of a graph, in order."""
    states = {plane.role for plane in spec.kernel.planes if plane.kind is RoleKind.STATE}
    return [role for role in kept_roles(spec.kernel) if role in states]


#===------------------------------------------------------------------------===#
# States of bitsandbytes
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class _Codes:
    """A state in 8-bit codes, with a scale for each block of 256 in C order."""

    codes: torch.Tensor
    qmap: torch.Tensor
    signed: bool
    scale: torch.Tensor

    def decoded(self) -> torch.Tensor:
        """Returns the float32 values that bitsandbytes reads."""
        scale = self.scale.repeat_interleave(BLOCK)[:self.codes.numel()]
        return self.qmap[self.codes.int()] * scale.view(self.codes.shape)


def _unwrapped(state: Mapping) -> dict:
    """Returns a parameter's state with all tensors in one dict."""
    return {k: v for k, v in state.items() if k != _WRAPPED} | state.get(_WRAPPED, {})


def _refuse_foreign(state: Mapping, graph: str, label: str) -> None:
    """Refuses states of features that Tandem does not have."""
    for name, problem in _FOREIGN.items():
        if name in state:
            raise ValueError(f"the state of {label} {problem}")
    if "unorm_vec" in state and graph != "lamb":
        raise ValueError(
            f"the state of {label} is of LAMB or LARS, which limit updates by their norm "
            "('unorm_vec'); pass graph='lamb' for the one, and leave 'unorm_vec' out of the "
            "states to go on without a limit")


def _refuse_other_count(state: Mapping, graph: str, label: str) -> None:
    """Refuses the state of an optimizer with a different number of states."""
    count, peer = sum(f"state{i}" in state for i in (1, 2)), _peer_of(graph)
    if not count:
        raise ValueError(f"the state of {label} has no 'state1'; pass what state_dict() "
                         "of a bitsandbytes optimizer has returned")
    if count != peer.states:
        names = [repr(g) for g, p in _PEERS.items() if p.states == count]
        raise ValueError(
            f"the state of {label} has {'one tensor' if count == 1 else 'two tensors'}, but "
            f"graph {graph!r} keeps {peer.states}; pass the graph of what bitsandbytes "
            f"ran, graph=... with {', '.join(names[:-1])} or {names[-1]}")


def _tensor(state: Mapping, name: str, label: str) -> torch.Tensor:
    """Returns one tensor of a parameter's state."""
    tensor = state.get(name)
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"the state of {label} lacks the tensor {name!r}; pass it as "
                         "bitsandbytes has saved it")
    return tensor


def _elements(state: Mapping, name: str, shape: torch.Size, label: str) -> torch.Tensor:
    """Returns a tensor that has an entry for each element of the parameter."""
    tensor = _tensor(state, name, label)
    if tensor.shape != shape:
        raise ValueError(
            f"the state of {label} has {name!r} of shape {tuple(tensor.shape)}, the weight "
            f"{tuple(shape)}; pass the weights in the optimizer's order (states of AdEMAMix "
            "are for tandem.torch.AdEMAMix, and those of shards cannot be taken over)")
    if tensor.dtype not in (torch.uint8, torch.float32):
        raise ValueError(f"the state of {label} has {name!r} as {tensor.dtype}; "
                         "bitsandbytes' are torch.uint8 or torch.float32")
    if not tensor.is_contiguous():
        raise ValueError(
            f"the state of {label} has {name!r} with the strides {tensor.stride()}, which "
            "bitsandbytes' GPU kernels read in the order of memory and others in that of "
            "indices; pass it in C order, as .contiguous() makes it of the latter")
    return tensor


def _scale_of_blocks(absmax: torch.Tensor, size: int, name: str, label: str) -> torch.Tensor:
    """Returns a scale for each 256 elements; all parts of a longer block have the same."""
    for length in _BLOCKS:
        if absmax.shape == (-(-size // length),):
            scale = absmax.repeat_interleave(length // BLOCK)[:-(-size // BLOCK)]
            return scale.to(torch.float32, copy=True)
    raise ValueError(
        f"the state of {label} has {name!r} of shape {tuple(absmax.shape)} for {size} "
        f"elements, but blocks of 256, or of 2048 before bitsandbytes 0.44, are "
        f"{-(-size // 256)} or {-(-size // 2048)}; pass the state of the whole parameter")


def _moment(state: Mapping, number: int, weight: torch.Tensor,
            label: str) -> _Codes | torch.Tensor:
    """Returns one of a parameter's states, in codes or as float32 values."""
    tensor = _elements(state, f"state{number}", weight.shape, label)
    if tensor.dtype == torch.float32:
        return tensor
    qmap = _tensor(state, f"qmap{number}", label)
    signed = sign_of(qmap)
    if signed is None:
        raise ValueError(
            f"the state of {label} has a 'qmap{number}' that is not bitsandbytes' dynamic "
            f"map; decode it, state{number} = qmap{number}[state{number}.long()] times its "
            "scales, and pass that as float32")
    absmax = _tensor(state, name := f"absmax{number}", label)
    scale = _scale_of_blocks(absmax, weight.numel(), name, label)
    return _Codes(tensor, qmap.to(tensor.device), signed, scale.to(tensor.device))


def _step_of(state: Mapping, label: str) -> int:
    """Returns the number of steps that a parameter has taken."""
    try:
        step = int(state["step"])
    except (KeyError, TypeError, ValueError, RuntimeError):
        step = -1
    if step < 0:
        raise ValueError(f"the state of {label} has step={state.get('step')!r}; it must be "
                         "the number of steps taken, which the update depends on")
    return step


#===------------------------------------------------------------------------===#
# Param groups
#===------------------------------------------------------------------------===#


def _given(group: Mapping, name: str, index: int):
    """Returns an entry of a param group."""
    if name not in group:
        raise ValueError(f"param group {index} lacks {name!r}, which all of bitsandbytes' "
                         "have; pass the param groups of the optimizer's state_dict()")
    return group[name]


def _refuse_options(group: Mapping, index: int) -> None:
    """Refuses options of bitsandbytes' param groups that its kernels ignore."""
    for name in _FLAGS:
        if group.get(name):
            raise ValueError(
                f"param group {index} has {name}={group[name]!r}, which bitsandbytes does "
                f"not compute; leave it out to go on as bitsandbytes has trained")
    for name, value in _ADEMAMIX.items():
        if group.get(name, value) not in (value, None):
            raise ValueError(f"param group {index} has {name}={group[name]!r}, as those of "
                             "AdEMAMix have; load the optimizer's state dict into a "
                             "tandem.torch.AdEMAMix, with load_state_dict")


def _pair(group: Mapping, index: int) -> tuple:
    """Returns the betas of a param group of bitsandbytes."""
    betas = _given(group, "betas", index)
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ValueError(f"param group {index} has betas={betas!r}; optimizers that "
                         "Tandem has too have a pair of numbers")
    return tuple(betas)


def _averages(group: Mapping, peer: _Peer, index: int) -> dict:
    """Returns the options of Tandem's param group that replace the betas."""
    first, second = _pair(group, index)
    if peer.betas == "betas":
        return {"betas": (first, second)}
    if peer.betas in _SECOND and second:
        raise ValueError(
            f"param group {index} has betas={(first, second)!r}; the second is "
            f"{peer.name}'s {_SECOND[peer.betas]}, and bitsandbytes' kernels ignore it; "
            f"put 0 there to go on as bitsandbytes has trained")
    return {peer.betas: first} if peer.betas else {}


def _refuse_decay(group: Mapping, graph: str, index: int) -> None:
    """Refuses Adam with weight decay, which the two libraries define differently."""
    if graph == "adam" and group["weight_decay"]:
        raise ValueError(
            f"param group {index} has weight_decay={group['weight_decay']:g}, which "
            "bitsandbytes' Adam takes off the weights, as AdamW does, and Tandem's adds to "
            "gradients; convert from and to graph 'adamw', tandem.torch.AdamW")


def _our_group(group: Mapping, graph: str, hypers: Iterable[str], index: int) -> dict:
    """Converts a param group of bitsandbytes to Tandem's form."""
    peer = _peer_of(graph)
    _refuse_options(group, index)
    scalars = {name: _given(group, name, index) for name in ("lr", "eps", "weight_decay")}
    _refuse_decay(group, graph, index)
    rest = {k: v for k, v in group.items()
            if k not in (*scalars, "betas", *_ADEMAMIX, *_FLAGS)}
    return {k: v for k, v in scalars.items() if k in hypers} | _averages(
        group, peer, index) | {"maximize": False} | rest


def _their_group(group: Mapping, graph: str, index: int) -> dict:
    """Converts a param group of Tandem to bitsandbytes' form."""
    peer = _peer_of(graph)
    if group.get("maximize"):
        raise ValueError(f"param group {index} has maximize=True, which bitsandbytes does "
                         "not compute; negate the loss there, and set maximize to False")
    if group.get("lr_decay"):
        raise ValueError(f"param group {index} has lr_decay={group['lr_decay']:g}, which "
                         "bitsandbytes' Adagrad lacks; set it to 0, and let a scheduler "
                         "lower lr")
    _refuse_decay(group, graph, index)
    betas = (tuple(map(float, group["betas"])) if peer.betas == "betas" else
             (float(group[peer.betas]) if peer.betas else 0.0, 0.0))
    ours = {"lr", "betas", "eps", "weight_decay", "lr_decay", "seed", peer.betas, *OPTIONS,
            *_FLAGS}
    return {
        "lr": float(group["lr"]), "betas": betas, "eps": float(group.get("eps", 0.0)),
        "weight_decay": float(group["weight_decay"]),
    } | (_ADEMAMIX if peer.states == 2 else {}) | {
        k: v for k, v in copy.deepcopy(dict(group)).items() if k not in ours}


#===------------------------------------------------------------------------===#
# From bitsandbytes
#===------------------------------------------------------------------------===#


def _refuse_negative(moment: _Codes, sign: bool, label: str) -> None:
    """Refuses negative second moments, which are possible because bitsandbytes stores some with
    a signed map."""
    blocks = moment.scale.repeat_interleave(BLOCK)[:moment.codes.numel()]
    if moment.signed and not sign and bool(
            ((moment.codes.flatten() < 127) & (blocks != 0)).any()):
        raise ValueError(f"the state of {label} has negative second moments; pass the graph "
                         "of what bitsandbytes ran, graph=...")


def _stored(spec: StateSpec, role: str, weight: torch.Tensor,
            moment: _Codes | torch.Tensor, label: str) -> dict:
    """Returns the planes of a state in its spec: copied codes if these are bitsandbytes' own,
    or else converted values."""
    stored, like = Stored.of(spec.kernel, role), spec.like(weight, None)
    sign = sign_in(stored.storage, blockwise=True)
    planes = [spec.empty(plane, like) for plane in stored.planes]
    if isinstance(moment, _Codes) and sign is not None and _has_their_blocks(planes[0]):
        _refuse_negative(moment, sign, label)
        codes = recoded(moment.codes, moment.signed, sign, has_nan=True)
        for plane, tensor in zip(planes, (codes.view(torch.int8), moment.scale)):
            plane.copy_(tensor.view(plane.shape))
    else:
        values = moment.decoded() if isinstance(moment, _Codes) else moment
        wide = laid_out(values.to(spec.device), like, torch.float32)
        convert(spec, [wide], floats("f32"), [planes], stored.storage, stored.planes,
                        matrix=stored.matrix, floor=stored.floor)
    return {plane.name: tensor for plane, tensor in zip(stored.planes, planes)}


def _our_state(spec: StateSpec, weight: torch.Tensor, state: Mapping, graph: str,
               label: str) -> dict:
    """Converts the state of a parameter that bitsandbytes has trained."""
    state = _unwrapped(state)
    _refuse_foreign(state, graph, label)
    _refuse_other_count(state, graph, label)
    step, made = _step_of(state, label), _started(spec, weight, None, label)
    for number, role in enumerate(_state_roles(spec), 1):
        made |= _stored(spec, role, weight, _moment(state, number, weight, label), label)
    return made | ({spec.step: step} if spec.step else {})


def _refuse_dtensors(weights: Sequence[torch.Tensor]) -> None:
    """Refuses DTensors, which bitsandbytes' optimizers do not support."""
    if any(map(is_dtensor, weights)):
        raise ValueError(
            "weights that are DTensors are spread over ranks, and states of bitsandbytes are "
            "whole; pass a full state dict (full_state_dict=True in get_optimizer_state_dict "
            "of torch.distributed.checkpoint.state_dict), and plain tensors of the weights")


def _check_theirs(state_dict: Mapping, weights: Sequence[torch.Tensor]) -> None:
    """Refuses an object that is not a state dict of bitsandbytes or does not match the
    weights."""
    if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
        raise TypeError("a state dict of bitsandbytes has 'state' and 'param_groups', got "
                        f"{type(state_dict).__name__}; pass what state_dict() has returned")
    if "tandem" in state_dict:
        raise ValueError("the state dict is one of Tandem's already; load it as it is, or "
                         "pass it to convert_state for another strategy")
    count = sum(len(group["params"]) for group in state_dict["param_groups"])
    if count != len(weights):
        raise ValueError(
            f"the state dict is of {count} parameters, but there are {len(weights)} "
            "weights; pass all of the optimizer's, in its order")


def _spec_of(specs: StateSpecs, weight: torch.Tensor, group: Mapping,
                label: str) -> StateSpec:
    """Returns the spec of a weight, or raises the reason why there is none."""
    spec = specs.of(weight, group)
    if spec is None:
        raise specs.refusal(weight, label, group["strategy"])
    return spec


@torch.no_grad()
def from_bitsandbytes(
    state_dict: Mapping,
    weights: Iterable[torch.Tensor],
    strategy: str | Sequence[str] = "adam8bit",
    *,
    graph: str = "adamw",
    min_8bit_size: int | None = 4096,
    path: Sequence[str | os.PathLike] = (),
) -> dict:
    """Converts a state dict of a bitsandbytes optimizer to one of Tandem's.

    Under ``adam8bit`` bytes are copied, because the two libraries use the same code. Tandem has
    255 of its 256 values, and NaN; the missing value becomes the nearest one (docs/Torch.md
    gives the error). Other strategies store the float32 values that bitsandbytes reads. Steps
    and hyperparameters are preserved; features that Tandem does not have are refused.

    Args:
        state_dict: the result of ``state_dict()`` of a bitsandbytes optimizer, with 8-bit or
            32-bit states or both, paged or not, from any release with blocks.
        weights: its parameters, or tensors with their shapes, types and values, in its order.
            They are read if a strategy keeps a part of them in the state.
        strategy: the strategy to continue with, or one for each param group.
        graph: the optimizer, which bitsandbytes' state dict does not record: "adamw" for
            :class:`AdamW` ("adamw_decay_before" or "adamw_decay_after" with its ``decay``),
            "adam", "lamb", "lion", "sgd_momentum", "rmsprop" or "adagrad".
        min_8bit_size: the value for all param groups, as for :class:`Optimizer`.
        path: directories that are searched for strategies first.

    Returns:
        The state dict, for ``load_state_dict`` of an optimizer of that graph whose groups have
        these strategies. The arguments are not changed.

    Raises:
        ValueError: the state belongs to another optimizer or to other weights, has another code,
            or has a setting that the two libraries implement differently.
        TypeError: the strategy does not support the type of a weight.
    """
    weights = list(weights)
    _refuse_dtensors(weights)
    _peer_of(graph)
    _check_theirs(state_dict, weights)
    groups = _regrouped(state_dict, strategy, min_8bit_size or 0)
    for group in groups:
        group.setdefault("min_8bit_vector_size", MIN_8BIT_VECTOR_SIZE)
    names = [group["strategy"] for group in groups]
    specs = _specs({"graph": graph}, {"graph": None, "vectors": None}, names, path)
    groups = [_our_group(group, graph, specs.hypers, index)
              for index, group in enumerate(groups)]
    states = _states(_our_state, specs, weights, groups, state_dict["state"], graph)
    made = {**state_dict, "state": states, "param_groups": groups}
    return _identity.signed(made, _identity.identity(specs, names))


#===------------------------------------------------------------------------===#
# To bitsandbytes
#===------------------------------------------------------------------------===#


def _refuse_spec(spec: StateSpec, label: str) -> None:
    """Refuses states that bitsandbytes cannot represent."""
    kernel = spec.kernel
    fix = ("convert it first: tandem.torch.convert_state(state_dict, weights, 'adam8bit'), "
           "or 'fp32-optim' for states of 32 bits")
    for name, plane in spec.state_planes.items():
        if plane.kind is not RoleKind.STATE:
            raise ValueError(
                f"the state of {label} under strategy {kernel.strategy!r} has a part of the "
                f"weight or gradient, {name!r}, which bitsandbytes has no place for; {fix}")
    for role in _state_roles(spec):
        storage = kernel.storages[role]
        if storage != floats("f32") and sign_in(storage, blockwise=True) is None:
            raise ValueError(
                f"strategy {kernel.strategy!r} stores {role!r} of {label} as {storage}, "
                f"which bitsandbytes does not have; {fix}")


def _has_their_blocks(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor has bitsandbytes' blocks, which are in C order and continue from
    row to row."""
    rows, columns = rows_in_memory(tensor, BLOCK)
    return tensor.is_contiguous() and (rows == 1 or columns % BLOCK == 0)


def _in_their_blocks(spec: StateSpec, role: str, planes: list) -> list[torch.Tensor]:
    """Returns the planes of a state in codes with bitsandbytes' blocks."""
    if _has_their_blocks(planes[0]):
        return planes
    stored = Stored.of(spec.kernel, role)
    wide = empty_plane(planes[0], torch.float32, spec.device)
    convert(spec, [planes], stored.storage, [wide], floats("f32"), [WIDE_PLANE])
    wide = wide.contiguous()
    codes, scale = stored.planes
    planes = [spec.empty(codes, wide),
              torch.empty(scale.entries(wide.numel()), device=spec.device)]
    convert(spec, [wide], floats("f32"), [planes], stored.storage, stored.planes,
                    floor=stored.floor, has_rows=False)
    return planes


def _refuse_nan(codes: torch.Tensor, sign: bool, role: str, label: str) -> None:
    count = int((codes == nan_code(sign)).sum())
    if count:
        raise ValueError(
            f"{count} elements of {role!r} of {label} are NaN, which bitsandbytes' codes do "
            "not have; go back to a state from before, or start the parameter anew with "
            "opt.state.pop(p)")


def _their_planes(spec: StateSpec, role: str, number: int, state: Mapping,
                  label: str) -> dict:
    """Returns one of a parameter's states in bitsandbytes' form. Float32 states stay float32."""
    sign, signed = sign_in(spec.kernel.storages[role], blockwise=True), number == 1
    first, *scale = [state[p.name] for p in Stored.of(spec.kernel, role).planes]
    if sign is None:
        return {f"state{number}": first.clone(memory_format=torch.contiguous_format)}
    codes, scale = _in_their_blocks(spec, role, [first, *scale])
    codes = codes.view(torch.uint8)
    _refuse_nan(codes, sign, role, label)
    return {
        f"state{number}": recoded(codes, sign, signed, has_nan=False),
        f"qmap{number}": dynamic_map(signed, codes.device),
        f"absmax{number}": scale.flatten().clone(),
    }


def _their_state(spec: StateSpec, weight: torch.Tensor, state: Mapping, graph: str,
                 label: str) -> dict:
    """Converts the state of a parameter to bitsandbytes' form."""
    _refuse_spec(spec, label)
    check_state(spec, state, weight, label)
    state = laid_out_state(spec, weight, state)
    # If a graph does not count steps, bitsandbytes asks whether this is the first one.
    made = {"step": int(state[spec.step]) if spec.step else 1}
    for number, role in enumerate(_state_roles(spec), 1):
        made |= _their_planes(spec, role, number, state, label)
    if graph == "lamb":  # A step writes the norm of its update here.
        made["unorm_vec"] = torch.zeros(1, device=weight.device)
    return made


@torch.no_grad()
def to_bitsandbytes(
    state_dict: dict,
    weights: Iterable[torch.Tensor],
    *,
    path: Sequence[str | os.PathLike] = (),
) -> dict:
    """Converts an optimizer's state dict to one for bitsandbytes' optimizer of the same kind.

    States in bitsandbytes' code, such as those of ``adam8bit``, keep their bytes, and float32
    states stay float32, since its 8-bit optimizers check the type of each state. States in other
    storages must first be converted with :func:`convert_state`.

    Args:
        state_dict: the result of ``state_dict()`` of a :class:`tandem.torch.Optimizer`.
        weights: its parameters, or tensors with their values, in its order.
        path: directories that are searched for the strategies first.

    Returns:
        The state dict, for ``load_state_dict`` of ``bitsandbytes.optim.AdamW8bit`` and similar
        classes from release 0.44 on, with unchanged weights. The arguments are not changed.

    Raises:
        ValueError: bitsandbytes does not support the optimizer, a storage or an option, the
            codes of a state have NaN, the state has averages of weights, or it does not match
            these weights.
    """
    weights, graphs = list(weights), {"graph": None, "vectors": None}
    _refuse_dtensors(weights)
    state_dict = _versions.recoded(_identity.identified(state_dict))
    graph = _identity_of(state_dict, graphs)["graph"]
    _peer_of(graph)
    identity = state_dict["tandem"]
    if _identity.has_average(identity):
        raise ValueError("the state dict has averages of weights, which bitsandbytes does not; save "
                         "them with tandem.torch.averages, and drop them: tandem.torch."
                         "convert_state(state_dict, weights, strategy, weight_average=False)")
    names = _identity.strategies_of(state_dict["param_groups"], identity)
    specs = _source_specs(identity, graphs, names, path)
    _check(state_dict, identity, specs, weights)
    state_dict = _with_rows(state_dict, specs, names, weights)
    sources = [group | {"strategy": name}
               for group, name in zip(state_dict["param_groups"], names)]
    states = _states(_their_state, specs, weights, sources, state_dict["state"], graph)
    groups = [_their_group(group, graph, index) for index, group in enumerate(sources)]
    rest = {k: v for k, v in state_dict.items() if k != "tandem"}
    return rest | {"state": states, "param_groups": groups}
