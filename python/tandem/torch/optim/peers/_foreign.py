"""States of other libraries' optimizers as plain float32 numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import torch

from tandem.torch._shards import local_of, shard_of
from tandem.torch.optim.peers import _bitsandbytes

_ADAM = ("exp_avg", "exp_avg_sq")
#: The states of each graph of the library, by role and in order.
_ROLES: dict[str, tuple[str, ...]] = {
    "adamw": _ADAM,
    "adamw_decay_before": _ADAM,
    "adamw_decay_after": _ADAM,
    "adamw_clip": _ADAM,
    "adamw_eps_inside_root": _ADAM,
    "adamw_cautious": _ADAM,
    **dict.fromkeys(("adamw_ratio", "adamw_ratio_decay_before", "adamw_ratio_clip"),
                    ("ratio", "exp_avg_sq")),
    "ademamix": ("exp_avg", "exp_avg_slow", "exp_avg_sq"),
    "adamw_schedule_free": ("offset", "exp_avg_sq"),
    "adam": _ADAM,
    "nadam": _ADAM,
    "radam": _ADAM,
    "adamax": ("exp_avg", "exp_inf"),
    "adan": ("exp_avg", "exp_avg_diff", "exp_avg_sq", "previous"),
    "asgd": ("ax",),
    "rprop": ("previous", "step_size"),
    "lamb": _ADAM,
    "lion": ("exp_avg",),
    "lion_cautious": ("exp_avg",),
    "sgd": (),
    "sgd_momentum": ("momentum_buffer",),
    "sgd_nesterov": ("momentum_buffer",),
    "muon": ("momentum_buffer",),
    "rmsprop": ("square_avg",),
    "adagrad": ("sum",),
    "adadelta": ("square_avg", "acc_delta"),
    "adafactor": ("row_var", "col_var"),
    "adafactor_vector": ("variance",),
    "mars": (*_ADAM, "last_grad"),
    "prodigy": (*_ADAM, "s", "p0"),
    "came": ("exp_avg", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_res_row", "exp_avg_res_col"),
    "came_vector": _ADAM,
    "adam_mini": ("exp_avg", "exp_avg_sq_row"),
    "shampoo": _ADAM,
    "soap": _ADAM,
    "soap_vector": _ADAM,
}
#: The graphs of weights with fewer than two dimensions.
_VECTORS = {"adafactor": "adafactor_vector", "came": "came_vector", "adam_mini": "adamw_decay_before",
            "soap": "soap_vector", "shampoo": "adamw"}
#: Entries that some graphs compute from the step, and names of states in other libraries.
_COMPUTED = {"nadam": ("mu_product",), "asgd": ("eta", "mu"), "came": ("RMS",),
             "adam_mini": ("neuron_per_gpu", "head_per_gpu", "reduced", "block_numel"),
             "soap": ("precondition_frequency", "shampoo_beta")}
_RENAMED = {"rprop": {"prev": "previous"}, "adan": {"previous_grad": "previous"}}
#: Graphs whose updates do not depend on the step.
_UNCOUNTED = ("adadelta", "came", "came_vector", "lion", "lion_cautious", "muon", "rmsprop", "rprop",
              "sgd", "sgd_momentum", "sgd_nesterov")
#: The states that are means along rows or columns of a matrix.
_ROW_MEANS = ("row_var", "exp_avg_sq_row", "exp_avg_res_row")
_COLUMN_MEANS = ("col_var", "exp_avg_sq_col", "exp_avg_res_col")
#: The graphs that bitsandbytes has, for those that keep the same states.
_BASES = {"adamw_clip": "adamw", "adamw_cautious": "adamw", "adamw_eps_inside_root": "adamw",
          "lion_cautious": "lion", "sgd_nesterov": "sgd_momentum"}

#: Entries of a state that no graph of the library reads, and the reasons with fixes.
_REASONS = {
    "max_exp_avg_sq": "has the largest second moments of amsgrad, which no graph of the library "
                      "keeps; leave 'max_exp_avg_sq' out of the states to go on without",
    "grad_avg": "has the average of gradients of centered=True, which no graph of the library "
                "keeps; leave 'grad_avg' out of the states to go on without",
    "exp_avg_sq_row": "is of a different Adafactor from torch.optim's, with other steps (as "
                      "transformers and fairseq have); begin anew with tandem.torch.Adafactor",
    "master_param": "has a copy of the weight, as Transformer Engine keeps; write it into a "
                    "float32 weight, and leave 'master_param' out of the states",
}
_NARROW = (torch.bfloat16, torch.float16)


class ForeignState(NamedTuple):
    """A parameter's state in another library's optimizer, as plain numbers.

    Attributes:
        origin: the library: "torch.optim", "bitsandbytes", "torchao" or "FlashOptim". States that
            are stored as torch.optim stores them count as "torch.optim", whose ever they are.
        step: the number of steps taken; 0 if the optimizer does not count them.
        values: a float32 tensor for each state of the graph, by role. Its shape is the weight's,
            except for Adafactor's means, which are vectors. It may share memory with the state,
            and is a DTensor if that has one.
        weight: the float32 weight, if the optimizer knows more of its bits than the parameter
            shows; None otherwise.
        external: the tensors that external steps keep, by their names here.
    """

    origin: str
    step: int
    values: dict[str, torch.Tensor]
    weight: torch.Tensor | None
    external: dict[str, torch.Tensor] = {}


@torch.no_grad()
def read_foreign(state: Mapping, weight: torch.Tensor, graph: str, label: str,
                 group: Mapping | None = None) -> ForeignState:
    """Reads a parameter's state in the ``state_dict()`` of another library's optimizer.

    The values are those that the library itself computes with, bit for bit. Nothing needs to be
    installed, except that torchao's tensors come with torchao.

    Args:
        state: the entry of the parameter in ``state_dict()["state"]``.
        weight: the parameter, or a tensor with its shape, type and values.
        graph: the graph of the library that is to continue. "adafactor" also means
            "adafactor_vector", for weights with fewer than two dimensions.
        label: the name of the parameter, for messages.
        group: its entry in ``state_dict()["param_groups"]``. It is needed for states of
            FlashOptim with error bits, whose number only "master_bytewidth" there says.

    Raises:
        TypeError: the state is not a mapping.
        ValueError: the state is of another optimizer or weight, is stored in an unknown way, or
            has entries that the graph does not keep.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"the state of {label} is a {type(state).__name__}; pass the states as "
                        "state_dict() has returned them, with a dict for each parameter")
    if graph.startswith("adamw_ratio"):
        return _with_ratio(read_foreign(state, weight, "adamw", label, group))
    if graph == "adamw_schedule_free" and "z" in state:
        state = _with_offset(state, weight, group or {}, label)
    external: dict[str, torch.Tensor] = {}
    if graph == "soap":
        state, external = _of_soap(state, label)
    if "step" in (group or {}):
        state = {"step": group["step"]} | dict(state)  # pytorch_optimizer counts for all
    names = _RENAMED.get(graph, {})
    state = {names.get(name, name): value for name, value in state.items()
             if name not in _COMPUTED.get(graph, ())}
    if joins_rows := graph == "adam_mini":
        state = _of_adam_mini(state, weight)
    if graph == "prodigy":
        state = _of_prodigy(state, weight, label)
    graph = _graph_for(graph, weight)
    if {"state1", "state2", _bitsandbytes._WRAPPED} & set(state):
        return _of_bitsandbytes(state, weight, graph, label)
    _refuse_others(state, graph, label)
    values = {role: _value(state, role, weight, label, joins_rows) for role in _ROLES[graph]}
    whole = _whole_weight(state, weight, group or {}, label)
    return ForeignState(_origin_of(state), _step_of(state, graph, label), values, whole, external)


def _with_ratio(found: ForeignState) -> ForeignState:
    """Returns a state of AdamW with the ratio of the first moment to the root of the second."""
    first, second = (found.values[role] for role in _ADAM)
    ratio = torch.where(second == 0, 0.0, first / second.sqrt())
    return found._replace(values={"ratio": ratio, "exp_avg_sq": second})


def _with_offset(state: Mapping, weight: torch.Tensor, group: Mapping, label: str) -> dict:
    """Returns a state of schedulefree's AdamW with the difference of its base sequence from the
    weight, and the count of steps, which its param groups have."""
    if group.get("train_mode") is False:
        raise ValueError(f"the state of {label} was saved in eval mode, in which the weight is the "
                         "average; save the model and the optimizer after optimizer.train()")
    _check_plain(state["z"], "z", label)
    _check_shape(state["z"], "z", weight.shape, weight, label)
    others = {name: value for name, value in state.items() if name != "z"}
    return {"step": group.get("k", 0)} | others | {"offset": state["z"].float() - weight.float()}


def _of_adam_mini(state: Mapping, weight: torch.Tensor) -> dict:
    """Returns a state of the authors' Adam-mini under our names. It views the first moment as a
    row for each head, and has one second moment for a whole vector that is not a bias."""
    state = dict(state)
    if "m" in state:
        state["exp_avg"] = state.pop("m").reshape(weight.shape)
    if "v" in state:
        state["exp_avg_sq"] = state.pop("v")
    if (mean := state.pop("vmean", None)) is not None:
        is_vector = weight.dim() < 2
        state["exp_avg_sq" if is_vector else "exp_avg_sq_row"] = (
            mean.expand(weight.shape) if is_vector else mean.reshape(-1))
    return state


def _of_prodigy(state: Mapping, weight: torch.Tensor, label: str) -> dict:
    """Returns a state of prodigyopt's Prodigy in the shape of the weight. It has vectors, one number
    for first weights that are all zero, and no first moment if that does not average."""
    state = dict(state)
    for name in {"s", "p0"} & set(state):
        tensor = state[name]
        _check_plain(tensor, name, label)
        if tensor.dim() == 1 and tensor.numel() < weight.numel():
            raise ValueError(f"the state of {label} has {name!r} for {tensor.numel()} of "
                             f"{weight.numel()} elements, as slice_p above 1 keeps it; Prodigy here "
                             "needs all, so begin anew")
        is_one = tensor.dim() == 0
        state[name] = (tensor.expand(weight.shape) if is_one else tensor.reshape(weight.shape)
                       if tensor.numel() == weight.numel() else tensor)
    if "exp_avg" not in state and "exp_avg_sq" in state:
        state["exp_avg"] = torch.zeros_like(weight, dtype=torch.float32)
    return state


def _of_soap(state: Mapping, label: str) -> tuple[dict, dict[str, torch.Tensor]]:
    """Returns a state of the authors' SOAP, or of pytorch_optimizer's, without its lists of
    statistics and bases, and these under our names. :meth:`SOAP.load_state_dict` has turned the
    first moment into the bases."""
    state, kept = dict(state), {}
    for kind in ("GG", "Q"):
        for dim, tensor in enumerate(state.pop(kind, None) or ()):
            if len(tensor):
                _check_plain(tensor, kind, label)
                kept[f"{kind}.{dim}"] = tensor.detach().float()
    return state, kept


def _graph_for(graph: str, weight: torch.Tensor) -> str:
    """Returns the graph that updates a weight."""
    if graph not in _ROLES:
        raise ValueError(
            f"graph {graph!r} is none of those whose states other optimizers have as well, "
            f"{', '.join(_ROLES)}; load its states by their own names under strategy 'fp32', "
            "and change the strategy after loading, by tandem.torch.change_strategy")
    return _VECTORS.get(graph, graph) if weight.dim() < 2 else graph


def _origin_of(state: Mapping) -> str:
    """Returns the library that has written a state with torch.optim's names."""
    if "error_bits" in state or any("::" in name for name in state):
        return "FlashOptim"
    return "torchao" if any(map(_is_torchao, state.values())) else "torch.optim"


def _step_of(state: Mapping, graph: str, label: str) -> int:
    """Returns the number of steps that a parameter has taken."""
    if graph in _UNCOUNTED and "step" not in state:
        return 0
    return _bitsandbytes._step_of(state, label)


#===------------------------------------------------------------------------===#
# Entries
#===------------------------------------------------------------------------===#


def _refuse_others(state: Mapping, graph: str, label: str) -> None:
    """Refuses a state with other tensors than the graph keeps."""
    roles, names = _ROLES[graph], _tensors_in(state, graph)
    for name, problem in _REASONS.items():
        if name in names - set(roles):
            raise ValueError(f"the state of {label} {problem}")
    if names == set(roles):
        return
    fits = [repr(other) for other, theirs in _ROLES.items() if names == set(theirs)]
    fix = f"that keeps these, which {', '.join(fits)} do" if fits else (
        "of the optimizer that has run, or leave out the entries that you can do without")
    raise ValueError(f"the state of {label} has {_listed(names)}, but graph {graph!r} keeps "
                     f"{_listed(roles)}; pass the graph {fix}")


def _tensors_in(state: Mapping, graph: str) -> set[str]:
    """Returns the names of the tensors that a state has, without what belongs to them. SGD's
    momentum may be None, which stands for zeros."""
    momentum = {"momentum_buffer"} & set(_ROLES[graph])
    return {str(name).partition("::")[0] for name, value in state.items()
            if value is not None or name in momentum} - {"step", "error_bits"}


def _listed(names) -> str:
    """Returns names for messages."""
    return ", ".join(map(repr, sorted(names))) or "no tensors"


def _value(state: Mapping, role: str, weight: torch.Tensor, label: str,
           joins_rows: bool) -> torch.Tensor:
    """Returns the float32 values of one of a parameter's states. With `joins_rows`, a mean of rows
    may have an entry for several of them, such as those of a head."""
    if role not in state:
        return _expanded(state, role, weight, label)
    tensor = state[role]
    if tensor is None:
        return torch.zeros_like(weight, dtype=torch.float32)
    tensor = _dequantized(tensor) if _is_torchao(tensor) else tensor
    _check_plain(tensor, role, label)
    tensor = _without_kept_dim(tensor, role)
    if not (joins_rows and _is_of_joined_rows(tensor, role, weight)):
        _check_shape(tensor, role, _shape_of(role, weight), weight, label)
    return tensor.detach().float()


def _check_plain(tensor: object, name: str, label: str) -> None:
    """Refuses an object that is not a dense tensor of a type that float32 includes."""
    types = (torch.float32, *_NARROW)
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"the state of {label} has {name!r} as {type(tensor).__name__}; pass "
                         "it as state_dict() has returned it, with tensors")
    if tensor.dtype not in types or tensor.layout != torch.strided:
        raise ValueError(
            f"the state of {label} has {name!r} as {tensor.dtype} in the layout "
            f"{tensor.layout}, which this reads from no library; decode it to a dense tensor "
            f"of {', '.join(map(str, types[:-1]))} or {types[-1]}")


def _shape_of(role: str, weight: torch.Tensor) -> torch.Size:
    """Returns the shape of a state: the weight's, or that of a mean along rows or columns."""
    if role in _ROW_MEANS:
        return weight.shape[:1]
    return weight.shape[1:] if role in _COLUMN_MEANS else weight.shape


def _is_of_joined_rows(tensor: torch.Tensor, role: str, weight: torch.Tensor) -> bool:
    """Returns whether a mean of rows has an entry for each of several equal parts of the rows."""
    return (role in _ROW_MEANS and tensor.dim() == 1 and 0 < len(tensor) < len(weight)
            and len(weight) % len(tensor) == 0)


def _without_kept_dim(tensor: torch.Tensor, role: str) -> torch.Tensor:
    """Returns a mean of torch.optim.Adafactor, which is a matrix of one column or row, as a
    vector, and other states as they are."""
    dim = {"row_var": -1, "col_var": -2}.get(role)
    return tensor if dim is None or tensor.dim() != 2 else tensor.squeeze(dim)


def _check_shape(tensor: torch.Tensor, name: str, shape: torch.Size, weight: torch.Tensor,
                 label: str) -> None:
    """Refuses a tensor that belongs to another weight. Pieces belong to a DTensor as well."""
    if tensor.shape in (shape, local_of(weight).shape):
        return
    raise ValueError(
        f"the state of {label} has {name!r} of shape {tuple(tensor.shape)}, and the weight, of "
        f"shape {tuple(weight.shape)}, needs {tuple(shape)}; pass the weights in the "
        "optimizer's order, and states of the whole parameter")


#===------------------------------------------------------------------------===#
# bitsandbytes
#===------------------------------------------------------------------------===#


def _of_bitsandbytes(state: Mapping, weight: torch.Tensor, graph: str,
                     label: str) -> ForeignState:
    """Reads a state of bitsandbytes, with 8 or 32 bits."""
    state, base = _bitsandbytes._unwrapped(state), _BASES.get(graph, graph)
    tensors = [value for value in state.values() if isinstance(value, torch.Tensor)]
    _bitsandbytes._refuse_dtensors([weight, *tensors])
    _bitsandbytes._refuse_foreign(state, base, label)
    step, values = _bitsandbytes._step_of(state, label), {}
    if graph == "ademamix":
        parts = _averages_of_ademamix(state, weight, label)
    else:
        _bitsandbytes._refuse_other_count(state, base, label)
        parts = [(state, number) for number in range(1, len(_ROLES[graph]) + 1)]
    for role, (part, number) in zip(_ROLES[graph], parts):
        moment = _bitsandbytes._moment(part, number, weight, label)
        values[role] = moment if isinstance(moment, torch.Tensor) else moment.decoded()
    return ForeignState("bitsandbytes", step, values, None)


def _averages_of_ademamix(state: dict, weight: torch.Tensor,
                          label: str) -> list[tuple[dict, int]]:
    """Returns a state and the number of the tensor in it for each state of AdEMAMix, whose first
    tensor has the fast average and the slow one in bitsandbytes."""
    both = _bitsandbytes._tensor(state, "state1", label)
    if both.shape != (2, *weight.shape):
        raise ValueError(f"the state of {label} has 'state1' of shape {tuple(both.shape)}, but "
                         f"AdEMAMix has two averages of the weight's shape {tuple(weight.shape)} "
                         "there; pass the graph of the optimizer that has run")
    scales = state.get("absmax1")
    return [*((state | {"state1": both[at]} | ({} if scales is None else {"absmax1": scales[at]}), 1)
              for at in range(2)), (state, 2)]


#===------------------------------------------------------------------------===#
# torchao
#===------------------------------------------------------------------------===#


def _is_torchao(value: object) -> bool:
    """Returns whether a value is a state in torchao's codes (OptimState8bit, OptimState4bit or
    OptimStateFp8), or a DTensor of such states."""
    return isinstance(value, torch.Tensor) and type(
        local_of(value)).__name__.startswith("OptimState")


def _dequantized(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the float32 values that torchao computes with."""
    values, shard = local_of(tensor).dequantize(), shard_of(tensor)
    return shard.like(values) if shard else values


#===------------------------------------------------------------------------===#
# FlashOptim
#===------------------------------------------------------------------------===#

#: The number of elements that share one of FlashOptim's scales.
_GROUP = 32


@lru_cache(maxsize=None)
def _expansion(is_signed: bool) -> torch.Tensor:
    """Returns the values of FlashOptim's codes before scaling, in ascending order. Those of int8
    codes are expanded from y = 2x / (1 + |x|)."""
    if not is_signed:
        return torch.arange(256, dtype=torch.float32, device="cpu") / 255
    codes = torch.arange(-128, 128, dtype=torch.float32, device="cpu") / 127
    return codes / (2 - codes.abs())


def _expanded(state: Mapping, role: str, weight: torch.Tensor, label: str) -> torch.Tensor:
    """Returns the float32 values of a state in FlashOptim's codes: int8 codes of values, or
    uint8 codes of roots of second moments, and a float16 scale for 32 elements."""
    is_signed = role != "exp_avg_sq"
    whole = _flash_tensor(state, f"{role}::quantized",
                          torch.int8 if is_signed else torch.uint8, label)
    scales = local_of(_flash_tensor(state, f"{role}::scales", torch.float16, label))
    _check_shape(whole, f"{role}::quantized", weight.shape, weight, label)
    codes, shard = local_of(whole), shard_of(whole)
    _check_groups(codes, scales, role, label)
    # The table is from the CPU, since GPUs divide by a number less exactly.
    table = _expansion(is_signed).to(codes.device)
    scale = scales.to(codes.device).float().repeat_interleave(_GROUP)[:codes.numel()]
    values = table[codes.int() + 128 * is_signed] * scale.view(codes.shape)
    values = values if is_signed else values * values
    return shard.like(values) if shard else values


def _flash_tensor(state: Mapping, name: str, dtype: torch.dtype | None,
                  label: str) -> torch.Tensor:
    """Returns a tensor of FlashOptim's state, of any type if `dtype` is None."""
    tensor = state.get(name)
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"the state of {label} lacks the tensor {name!r}; pass it as "
                         "FlashOptim has saved it")
    if dtype not in (None, tensor.dtype):
        raise ValueError(
            f"the state of {label} has {name!r} as {tensor.dtype}, and FlashOptim's is {dtype}; "
            "pass it as FlashOptim has saved it, or save it with compress_state_dict=False")
    return tensor


def _check_groups(codes: torch.Tensor, scales: torch.Tensor, role: str, label: str) -> None:
    """Refuses codes whose groups of 32 elements are not those of the scales."""
    count = -(-codes.numel() // _GROUP)
    if codes.is_contiguous() and scales.shape == (count,):
        return
    raise ValueError(
        f"the state of {label} has {role!r} with the strides {codes.stride()} and "
        f"{scales.numel()} scales, but FlashOptim's {codes.numel()} codes in C order have "
        f"{count}; save it with compress_state_dict=False, as for parameters that are spread "
        "over ranks")


def _whole_weight(state: Mapping, weight: torch.Tensor, group: Mapping,
                  label: str) -> torch.Tensor | None:
    """Returns the float32 weight that FlashOptim restores from its error bits, or None if the
    state has none."""
    if (errors := state.get("error_bits")) is None:
        return None
    if weight.dtype not in _NARROW:
        raise ValueError(
            f"the state of {label} has 'error_bits' of a 16-bit weight, but the weight is "
            f"{weight.dtype}; pass the weights that FlashOptim has trained")
    own, shard = local_of(weight).detach(), shard_of(weight)
    errors = local_of(_flash_tensor(state, "error_bits", None, label))
    _check_shape(errors, "error_bits", own.shape, own, label)
    whole = _corrected(own, _error_bits(errors, group, label))
    return shard.like(whole) if shard else whole


def _error_bits(errors: torch.Tensor, group: Mapping, label: str) -> torch.Tensor:
    """Returns error bits as int8 or int16, from FlashOptim's state dicts, where they have the
    weight's type: int8 as numbers, and int16 as the bits."""
    if errors.dtype in (torch.int8, torch.int16):
        return errors
    bytes = group.get("master_bytewidth")
    if bytes == 3 and torch.equal((codes := errors.to(torch.int8)).to(errors.dtype), errors):
        return codes
    if bytes == 4 and errors.dtype in _NARROW:
        return errors.view(torch.int16)
    raise ValueError(
        f"the state of {label} has 'error_bits' as {errors.dtype}, which weights of "
        f"master_bytewidth={bytes!r} bytes do not have; pass the state dict with its param "
        "groups as FlashOptim has saved it")


def _corrected(weight: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
    """Returns 16-bit weights with their errors, which are fractions of half the distance to the
    next weight, as FlashOptim adds them in float32."""
    mantissa, bias = (7, 127) if weight.dtype == torch.bfloat16 else (10, 15)
    exponent = ((weight.view(torch.int16).int() & 0x7FFF) >> mantissa).clamp(min=1) - bias
    scale = exponent - mantissa - 1
    # GPUs multiply by the inverse of a number, but divide by a tensor of their own.
    most = torch.full((), torch.iinfo(errors.dtype).max, dtype=torch.float32,
                      device=errors.device)
    fraction = (errors.float() / most).to(weight.device)
    # Each of the two powers is a normal number.
    return weight.float() + fraction * _power(scale >> 1) * _power(scale - (scale >> 1))


def _power(exponent: torch.Tensor) -> torch.Tensor:
    """Returns the float32 powers of two with int32 exponents between -126 and 127."""
    return ((exponent + 127) << 23).view(torch.float32)
