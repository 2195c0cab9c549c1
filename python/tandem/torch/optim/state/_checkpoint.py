"""State dicts: what is saved, checks of what is loaded, and exact loading of its bits."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from tandem.torch._exchange import Exchange
from tandem.torch._shards import local_of, shard_of
from tandem.torch.optim import _notices
from tandem.torch.optim._groups import OPTIONS, ParamGroups, check_options
from tandem.torch.optim.state import _foreign_states, _identity
from tandem.torch.optim.state._carriers import is_packed, packed, unpacked
from tandem.torch.optim.state._check import check_state, shaped
from tandem.torch.optim.state._checksum import checksum, completes_weight, is_other
from tandem.torch.optim.state._convert import convert_state
from tandem.torch.optim.state._matching import IncompatibleKeys, matched
from tandem.torch.optim.state._store import StateStore
from tandem.torch.optim.state._versions import recoded, with_rows

#: The version from which state dicts have planes in types that collectives carry.
_PACKED = 4


#===------------------------------------------------------------------------===#
# Saving
#===------------------------------------------------------------------------===#


def saved(state_dict: dict, groups: ParamGroups, store: StateStore) -> dict:
    """Returns a state dict of torch.optim with planes in types that collectives carry, and with
    the identity. If the store does not pack planes, they have the types of version 3."""
    states, sums, frozen = dict(state_dict["state"]), {}, []
    expected = store.expected()
    for index, param, group in groups:
        spec = groups.specs.of(param, group) if index in states else None
        if spec is None:
            continue
        if store.packs:
            states[index] = packed(states[index])
        if not completes_weight(spec):
            continue
        if not param.requires_grad:
            frozen.append(str(groups.label(index)))
        if number := expected.get(param) or checksum(param):
            sums[str(index)] = number
    if frozen:
        _notices.warn_of_frozen(frozen)
    identity = _identity.identity(groups.specs, groups.strategies)
    if not store.packs:
        identity["version"] = _PACKED - 1
    signed = _identity.signed({**state_dict, "state": states}, identity)
    # Only here: param groups have their identity once for each parameter in flat state dicts.
    signed[_identity.KEY] = identity | ({"checksums": sums} if sums else {})
    return signed


#===------------------------------------------------------------------------===#
# Loading
#===------------------------------------------------------------------------===#


class Loaded(NamedTuple):
    """A state dict that an optimizer can load.

    Attributes:
        state_dict: the state dict, in the order of the optimizer's parameters.
        keys: what does not match.
        weights: the new values of parameters with a state, if the state was converted from
            another strategy; None for others.
        checksums: those of weights that were saved with the states, by parameter.
    """

    state_dict: dict
    keys: IncompatibleKeys
    weights: list[torch.Tensor | None] | None
    checksums: dict[torch.Tensor, list]


def prepared(state_dict: Mapping, groups: ParamGroups, strict: bool = True,
             convert: bool = True) -> Loaded:
    """Returns a state dict as torch.optim loads it into an optimizer with these param groups,
    after all checks.

    Args:
        strict: whether all parameters and states have to match.
        convert: whether states of other strategies and other libraries are converted.

    Raises:
        ValueError: the state has another graph, or other strategies or parameters.
    """
    state_dict = dict(recoded(_identity.identified(state_dict)))
    _identity.check_graph(state_dict, groups.specs)
    state_dict, keys, by_name = matched(state_dict, groups.list, strict)
    sums = _checksums(state_dict, groups)
    if not by_name:
        keys = _check_order(state_dict, sums, groups, keys, strict)
    state_dict["param_groups"] = completed(state_dict, groups)
    for index, group in enumerate(state_dict["param_groups"]):
        groups.hypers.check_flags(group, index)
        check_options(group, index)
    weights = None
    if _identity.KEY not in state_dict:
        _check_ranks(state_dict, groups)
        state_dict = _foreign_states.converted(state_dict, groups, list(_owners(
            state_dict, groups)), convert, strict)
    elif problem := _identity.difference(state_dict, groups.specs, groups.list):
        if not convert:
            raise ValueError(problem)
        _check_ranks(state_dict, groups)
        if not strict:
            state_dict, keys = _without_others(state_dict, groups, keys)
        state_dict, weights = _converted(state_dict, groups)
    if _identity.version_of(state_dict) < _PACKED:
        _refuse_cast(state_dict, groups)
    state_dict = with_rows(state_dict, _owners(state_dict, groups))
    state_dict, keys = _checked(state_dict, groups, keys, strict)
    return Loaded(state_dict, keys, weights, {} if weights else sums)


def _owners(state_dict: Mapping, groups: ParamGroups) -> Iterator[tuple]:
    """Yields the key of each state, the spec, the parameter, and its index."""
    keys = [(k, g) for g in state_dict["param_groups"] for k in g["params"]]
    for (index, param, _), (key, group) in zip(groups, keys):
        if state_dict["state"].get(key):
            yield key, groups.checked(param, groups.label(index), group), param, index


def _checked(state_dict: Mapping, groups: ParamGroups, keys: IncompatibleKeys,
             strict: bool) -> tuple[dict, IncompatibleKeys]:
    """Returns a state dict after checking that its planes match the parameters' kernels, with
    planes in their own types and current shapes. States that do not match are left out if not
    `strict`, and added to the keys that are missing."""
    states, missing = dict(state_dict["state"]), list(keys.missing_keys)
    for key, spec, param, index in _owners(state_dict, groups):
        state = unpacked(spec, states[key])
        try:
            check_state(spec, state, param, groups.label(index), moves=True)
        except ValueError:
            if strict:
                raise
            del states[key]
            missing.append(groups.key(param))
            continue
        states[key] = shaped(spec, state, param)
    return {**state_dict, "state": states}, keys._replace(missing_keys=missing)


def _check_ranks(state_dict: Mapping, groups: ParamGroups) -> None:
    """Raises an error on all ranks if some have no state for a parameter that they gather to
    convert it."""
    found: dict = {}
    keys = [key for group in state_dict["param_groups"] for key in group["params"]]
    for (index, param, _), key in zip(groups, keys):
        shard = shard_of(param)
        if shard is not None and not shard.is_whole:
            found.setdefault((shard.group, local_of(param).device), []).append(
                (index, bool(state_dict["state"].get(key))))
    for (group, device), states in found.items():
        Exchange([group], device).check("a conversion of states", states)


def _refuse_cast(state_dict: Mapping, groups: ParamGroups) -> None:
    """Refuses planes of an early checkpoint in the types of current ones, into which
    torch.distributed.checkpoint has cast them by value."""
    for key, spec, _, index in _owners(state_dict, groups):
        for name, value in state_dict["state"][key].items():
            if is_packed(spec, name, value):
                raise ValueError(
                    "the checkpoint is of an earlier version, and torch.distributed.checkpoint "
                    f"has cast {name!r} in the state of {groups.label(index)} to {value.dtype}, "
                    "which loses bits; get the state dict to load into inside of "
                    "optimizer.early_state_dicts(), as docs/Torch.md says")


#===------------------------------------------------------------------------===#
# Weights that states complete
#===------------------------------------------------------------------------===#


def _checksums(state_dict: Mapping, groups: ParamGroups) -> dict[torch.Tensor, list]:
    """Returns the checksum that was saved with each state, by the parameter that gets it."""
    sums = state_dict.get(_identity.KEY, {}).get("checksums", {})
    keys = [key for group in state_dict["param_groups"] for key in group["params"]]
    return {param: sums[str(key)] for (_, param, _), key in zip(groups, keys)
            if str(key) in sums}


def _check_order(state_dict: dict, sums: dict[torch.Tensor, list], groups: ParamGroups,
                 keys: IncompatibleKeys, strict: bool) -> IncompatibleKeys:
    """Refuses states that belong to weights of other parameters, or leaves them out if not
    `strict`. If a weight is none of those that were saved, it may be loaded after the states, and
    the next step checks it. Only checksums that occur once tell weights apart; those of new
    biases are equal."""
    found = {param: tuple(own) for param in sums if (own := checksum(param))}
    now, then = Counter(found.values()), Counter(map(tuple, sums.values()))
    owners = {tuple(number): param for param, number in sums.items() if then[tuple(number)] == 1}
    wrong = [param for param, own in found.items()
             if own != tuple(sums[param]) and now[own] == 1 and own in owners]
    if wrong and strict:
        owner = groups.name(owners[found[wrong[0]]])
        raise ValueError(
            f"the state that {groups.name(wrong[0])} would get completes the weight of {owner}, so "
            "that the parameters are in another order; create both optimizers from named parameters, as "
            "AdamW(model.named_parameters()), or in the same order")
    by_param = dict(zip(groups.params, (key for group in state_dict["param_groups"]
                                        for key in group["params"])))
    for param in wrong:
        state_dict["state"].pop(by_param[param], None)
        del sums[param]
    return keys._replace(missing_keys=[*keys.missing_keys, *map(groups.key, wrong)])


#===------------------------------------------------------------------------===#
# Other strategies
#===------------------------------------------------------------------------===#


def _converted(state_dict: dict,
               groups: ParamGroups) -> tuple[dict, list[torch.Tensor | None]]:
    """Returns a state dict of other strategies under those of the optimizer, and the weights of
    parameters with a state."""
    arguments, theirs = groups.arguments, state_dict[_identity.KEY]
    before = _identity.spelled(_identity.strategies_of(state_dict["param_groups"], theirs))
    try:
        made, weights = convert_state(
            state_dict, groups.params, groups.strategies, graph=arguments["graph"],
            vectors=arguments["vectors"], path=arguments["path"], keep_types=True,
            weight_average=arguments["weight_average"])
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the state dict is under strategy {before}, and cannot be converted for the "
            f"parameters of this optimizer: {error}. If parameters have other types now, convert "
            "it with those that were saved: tandem.torch.convert_state(state_dict, weights, "
            f"{_identity.spelled(groups.strategies)})") from None
    warnings.warn(
        f"the state dict is under strategy {before}; it was converted to "
        f"{_identity.spelled(groups.strategies)}, exactly where the new storages can hold its "
        "values and rounded to nearest elsewhere"
        + _note_on_averages(_identity.has_average(theirs), arguments["weight_average"]),
        UserWarning, stacklevel=4)
    kept = {key for key, state in state_dict["state"].items() if state}
    keys = [key for group in made["param_groups"] for key in group["params"]]
    made["state"] = {key: state for key, state in made["state"].items() if key in kept}
    return (dict(_identity.identified(made)),
            [weight if key in kept else None for key, weight in zip(keys, weights)])


def _note_on_averages(had: bool, has: bool) -> str:
    """Returns what a conversion does with averages of weights, for a warning."""
    if had == has:
        return ""
    return ("; it has averages of weights, which are left out: this optimizer has no ema_decay"
            if had else "; it has no averages of weights, which begin as the weights")


def _without_others(state_dict: dict, groups: ParamGroups,
                    keys: IncompatibleKeys) -> tuple[dict, IncompatibleKeys]:
    """Returns a state dict without the states of other weights, and without those in which
    nothing has the shape of the parameter, whose names are added to the missing ones."""
    sums, states, missing = _checksums(state_dict, groups), dict(state_dict["state"]), []
    members = [key for group in state_dict["param_groups"] for key in group["params"]]
    for param, key in zip(groups.params, members):
        tensors = [v for v in states.get(key, {}).values() if isinstance(v, torch.Tensor)]
        if (param in sums and is_other(sums[param], param)
                or tensors and all(tensor.shape != param.shape for tensor in tensors)):
            states.pop(key, None)
            missing.append(groups.key(param))
    identity, kept = state_dict[_identity.KEY], set(map(str, states))
    identity = identity | {"checksums": {name: number for name, number in identity.get(
        "checksums", {}).items() if name in kept}}
    return ({**state_dict, "state": states, _identity.KEY: identity},
            keys._replace(missing_keys=[*keys.missing_keys, *missing]))


def completed(state_dict: Mapping, groups: ParamGroups) -> list[dict]:
    """Returns a state dict's param groups, with options that they lack filled in from the groups of
    an optimizer: those of Tandem, and all that another library does not have."""
    theirs, options = [dict(group) for group in state_dict["param_groups"]], (*OPTIONS, "seed")
    if _identity.KEY in state_dict:
        for group in theirs:  # early versions stored no vector in codes
            group.setdefault("min_8bit_vector_size", None)
    else:
        known = (*options, *groups.hypers.defaults)
        options = [name for name in known if name not in groups.hypers.running]
    for group, own in zip(theirs, groups.list):
        for name in options:
            if name in own:
                group.setdefault(name, own[name])
    return theirs


class Sealed:
    """A tensor that torch.optim passes through instead of casting it to the weight's type."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor


def sealed(state_dict: dict) -> dict:
    """Returns the state dict with every tensor of a parameter's state sealed."""
    states = {
        key: {
            name: Sealed(value) if isinstance(value, torch.Tensor) else value
            for name, value in state.items()
        } if isinstance(state, dict) else state
        for key, state in state_dict["state"].items()
    }
    return state_dict | {"state": states}


def unsealed(state: dict) -> dict:
    """Returns an optimizer's state with copies of the sealed tensors."""
    for param, planes in state["state"].items():
        device = getattr(param, "device", "cpu")
        if isinstance(planes, dict):
            for name, value in planes.items():
                if isinstance(value, Sealed):
                    planes[name] = value.tensor.detach().to(device, copy=True)
    return state
