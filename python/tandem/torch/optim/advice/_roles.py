"""The roles of parameters in a model: matrices, embeddings, a head, and small tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from tandem.torch._shards import Shard, shard_of
from tandem._companions import keeps_f32_states

#: The roles that a parameter can have, in the order of groups.
ROLES = ("matrices", "embeddings", "head", "norms and biases", "small tensors")
#: The roles that use hardly any memory.
SMALL_ROLES = ROLES[3:]
#: The roles whose rows belong to tokens or classes, many of which rarely get a gradient.
ROWS_OF_TOKENS = ROLES[1:3]
#: The number of elements from which a matrix is not small: the optimizers' ``min_8bit_size``.
LEAST_MATRIX = 4096

#: Components of dotted names that models use for their output layer, outside of numbered layers.
_HEADS = frozenset(("lm_head", "head", "heads", "embed_out", "unembed", "output", "classifier",
                    "score", "output_layer", "output_projection", "logits"))
#: Components of names for embeddings, in addition to all that contain "embed".
_EMBEDDINGS = frozenset(("wte", "wpe"))


@dataclass(frozen=True)
class Described:
    """The properties of a parameter that determine its bytes and its role.

    Attributes:
        name: its name in the model; None if unknown.
        shape: the shape of the whole, even if it is sharded.
        dtype: the type that the model computes with.
        trains: whether it has gradients.
        role: one of :data:`ROLES`.
        is_matrix: whether it has two or more dimensions and is no embedding and no head.
        shard: the piece on this rank; None for the whole.
    """

    name: str | None
    shape: torch.Size
    dtype: torch.dtype
    trains: bool
    role: str
    is_matrix: bool
    shard: Shard | None = None

    @property
    def elements(self) -> int:
        """The number of elements on all ranks."""
        return self.shape.numel()


def describe(model: object) -> list[Described]:
    """Returns the parameters of a model or of a description of one.

    Args:
        model: a Module, which may be on the meta device; a mapping from names to shapes (of
            bfloat16) or tensors; or named parameters, such as ``model.named_parameters()``.

    Raises:
        TypeError: the argument is something else, such as a configuration.
    """
    if isinstance(model, torch.nn.Module):
        tables = _tables(model)
        return [_of_tensor(name, param, is_table=name in tables)
                for name, param in model.named_parameters()]
    return [_of_tensor(name, value) if isinstance(value, torch.Tensor)
            else _described(name, _shape(name, value), torch.bfloat16)
            for name, value in _pairs(model)]


def describe_parameter(param: torch.Tensor, name: str | None = None) -> Described:
    """Describes a parameter of an optimizer, which may have no name."""
    return _of_tensor(name, param)


def param_groups(model: object, strategies: Mapping[str, str], *,
                 use_muon: bool = False) -> list[dict]:
    """Returns param groups of a model's parameters by role, each with its strategy.

    Args:
        model: a Module, or named parameters, such as ``model.named_parameters()``.
        strategies: the strategy of each role that the model has: "matrices",
            "embeddings", "head", "norms and biases" (fewer than two dimensions) and
            "small tensors" (fewer than 4096 elements).
        use_muon: whether groups are for :class:`Muon`: they also have the key "use_muon", which
            is True for matrices, and small tensors are divided by it.

    Returns:
        A group for each role with parameters, in that order, with the keys "params" and
        "strategy", to which hyperparameters such as "weight_decay" can be added.

    Raises:
        TypeError: the model is neither, such as a mapping to shapes.
        ValueError: a role is unknown, or a role of the model is missing.
    """
    if unknown := [role for role in strategies if role not in ROLES]:
        raise ValueError(f"there is no role {unknown[0]!r}; roles are {', '.join(ROLES)}")
    pairs = list(model.named_parameters() if isinstance(model, torch.nn.Module)
                 else _pairs(model))
    if others := [name for name, value in pairs if not isinstance(value, torch.Tensor)]:
        raise TypeError(f"{others[0]!r} is a shape, and no parameter; pass the model itself")
    found = describe(model if isinstance(model, torch.nn.Module) else pairs)
    roles = {described.role for described in found}
    if missing := [role for role in ROLES if role in roles and role not in strategies]:
        raise ValueError(f"the model has {missing[0]}, which strategies lacks; add "
                         f"{missing[0]!r}: a strategy's name")
    groups: dict[tuple, list[torch.Tensor]] = {
        (role, is_matrix): [] for role in ROLES for is_matrix in (True, False)}
    for described, (_, param) in zip(found, pairs):
        groups[described.role, use_muon and described.is_matrix].append(param)
    return [{"params": params, "strategy": strategies[role]}
            | ({"use_muon": is_matrix} if use_muon else {})
            for (role, is_matrix), params in groups.items() if params]


#===------------------------------------------------------------------------===#
# Inputs
#===------------------------------------------------------------------------===#


def _pairs(model: object) -> Iterator[tuple[str, object]]:
    """Yields the names and values of a description of a model."""
    if isinstance(model, Mapping):
        items: Iterable = model.items()
    elif isinstance(model, Iterable) and not isinstance(model, (str, bytes, torch.Tensor)):
        items = model
    else:
        raise TypeError(_refusal(model))
    for item in items:
        if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)):
            raise TypeError(_refusal(model, item))
        yield item


def _refusal(model: object, item: object = None) -> str:
    """Returns why something is not a model, and what to pass."""
    what = f"a value of type {type(model).__name__}"
    if isinstance(item, torch.Tensor):
        return (f"{what} of parameters without names does not say which are embeddings; pass "
                "the model, or model.named_parameters()")
    if hasattr(model, "to_dict") or "config" in type(model).__name__.lower():
        return (f"{what} does not say which parameters there are; make the model without "
                "memory, with torch.device('meta'): model = ..., and pass that")
    return (f"{what} is not a model; pass a torch.nn.Module (one on the meta device will do), "
            "model.named_parameters(), or a mapping from names to shapes")


def _shape(name: str, value: object) -> torch.Size:
    """Returns a shape from a mapping's value."""
    try:
        return torch.Size(value)
    except TypeError:
        got = "an array; pass x.shape" if hasattr(value, "shape") else repr(value)
        raise TypeError(f"{name!r} must have a shape, as (4096, 1024), or a tensor, got "
                        f"{got}") from None


def _tables(model: torch.nn.Module) -> set[str]:
    """Returns the names of parameters that belong directly to embedding modules."""
    return {f"{prefix}.{name}" if prefix else name
            for prefix, module in model.named_modules()
            if "embedding" in type(module).__name__.lower()
            for name, _ in module.named_parameters(recurse=False)}


def _of_tensor(name: str | None, param: torch.Tensor,
               is_table: bool | None = None) -> Described:
    """Returns a tensor's description. `is_table` is whether it is an embedding, or None to
    decide by its name."""
    return _described(name, param.shape, param.dtype, param.requires_grad, shard_of(param),
                      is_table)


def _described(name, shape, dtype, trains=True, shard=None, is_table=None) -> Described:
    if trains and dtype not in (torch.bfloat16, torch.float32):
        raise TypeError(
            f"parameter {name or 'without a name'!r} is {dtype}, for which no errors were measured; convert "
            "the model to torch.bfloat16 or torch.float32, or choose a strategy yourself "
            "(docs/Library.md), such as 'f16-master-weights' for float16")
    is_matrix = len(shape) > 1 and role_of_name(name, is_table) == ROLES[0]
    return Described(name, shape, dtype, trains, _role(name, shape, is_table), is_matrix, shard)


def _role(name: str | None, shape: torch.Size, is_table: bool | None) -> str:
    if keeps_f32_states(shape, LEAST_MATRIX):
        return ROLES[3] if len(shape) < 2 else ROLES[4]
    return role_of_name(name, is_table)


def role_of_name(name: str | None, is_table: bool | None = None) -> str:
    """Returns "head", "embeddings" or "matrices", as the name of a parameter says.

    Args:
        name: the name; None if it is unknown.
        is_table: whether it is an embedding; None to decide by the name.
    """
    parts = (name or "").lower().split(".")
    is_numbered = any(part.isdigit() for part in parts)
    if not is_table and not is_numbered and not _HEADS.isdisjoint(parts):
        return "head"
    if is_table is None:
        is_table = any(part in _EMBEDDINGS or "embed" in part for part in parts)
    return "embeddings" if is_table else "matrices"
