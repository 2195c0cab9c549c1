"""Operands of matrix products that steps write in addition to weights."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tandem
import torch

from tandem._convert import CPU
from tandem._matrix_codes import storage_of
from tandem._param_planes import sums_over_model
from tandem._storages import described
from tandem.torch import _executor
from tandem.torch._layout import is_placeholder
from tandem.torch._shards import is_dtensor, local_of, shard_of
from tandem.torch._weight_codes import Codes
from tandem.torch.nn._modules import Linear
from tandem.torch.optim._operand import Operand
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim._wrappers import is_flattened, unwrapped
from tandem.torch.optim.state._sharding import gathers

#: The operand that layers with ``products="fp8"`` multiply.
FP8 = "fp8"


class WeightOperands(Mapping):
    """The operands that an optimizer's steps write, as :func:`write_operands` returns them: a
    mapping from weights to their codes.

    ``operands[weight]`` has the codes of the current value, ``rows`` in the weight's shape and
    ``scale``, one or an entry for each group; ``turned`` are the codes of the transpose, if the
    storage has them. Codes of four bits are two in a byte, the first in its low half, and
    ``tensor_scale`` is the second level of NVFP4's scales. It is an error before the first step,
    and after the weight has been written in other ways. Each step writes new codes to the same memory.

    Attributes:
        names: the names of the weights.
        left: the names of weights without an operand, and the reasons.
    """

    def __init__(self, optimizer: Optimizer, operands: Mapping[str, Operand],
                 left: Mapping[str, str]):
        self._optimizer, self._operands = optimizer, dict(operands)
        self._by_id = {id(own.param): own for own in operands.values()}
        self.left = dict(left)

    @property
    def names(self) -> list[str]:
        return [*self._operands]

    def __getitem__(self, weight: torch.Tensor) -> Codes:
        operand = self._by_id.get(id(weight))
        if operand is None:
            raise KeyError("the tensor is none of the weights that have operands: "
                           + ", ".join(self._operands))
        if (codes := operand.codes) is None:
            raise RuntimeError("no step has written the operand of this weight since the weight "
                               "was created or written in other ways; take a step first")
        return codes

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (operand.param for operand in self._operands.values())

    def __len__(self) -> int:
        return len(self._operands)

    def __contains__(self, weight: object) -> bool:
        return id(weight) in self._by_id

    @property
    def bytes(self) -> int:
        """The memory of all operands in bytes, on this rank."""
        return sum(operand.bytes for operand in self._operands.values())

    def remove(self) -> None:
        """Ends the writing of operands, and releases their memory."""
        for operand in self._operands.values():
            if self._optimizer._groups.operands.pop(id(operand.param), None) is not None:
                operand.release()
        self._optimizer._runner.forget()

    def __repr__(self) -> str:
        return f"WeightOperands(names={self.names}, left={self.left})"


def write_operands(
    model: torch.nn.Module | Iterable,
    optimizer: torch.optim.Optimizer,
    operand: str = FP8,
    *,
    path: Sequence[str | os.PathLike] = (),
) -> WeightOperands:
    """Makes the steps of an optimizer write the operands of the next forward pass, in the launch
    that updates the weights::

        tandem.torch.compress_activations(model, products="fp8")
        optimizer = tandem.torch.AdamW(model.named_parameters(), strategy="flash-f16")
        tandem.torch.write_operands(model, optimizer)

    Without it, a layer with ``products="fp8"`` reads its weight twice after each step, for the
    scale and for the codes. The codes are the same bit for bit: those of the weight that the model
    has, rounded as it is stored. So are weights and states.

    Args:
        model: a model: the weights of all linear layers with ``products="fp8"`` get operands, or
            with another ``operand`` those of all :class:`torch.nn.Linear`. Or parameters or named
            parameters, which all get them.
        optimizer: an optimizer of :mod:`tandem.torch`, which may be wrapped by Accelerate or
            Lightning.
        operand: "fp8", E4M3 codes with one f32 scale for the tensor and, on GPUs, a transposed
            copy; or the name of a recipe, such as "mxfp8", "block-128" or "nvfp4", whose storage
            for the inputs of linear layers the operands get, rounded to nearest.
        path: directories that are searched for recipes first.

    Returns:
        The operands. Weights that cannot have them are left as they are, with a warning that names
        them and the reasons.

    Raises:
        TypeError: the optimizer is not one of ``tandem.torch``.
        ValueError: no weight can have an operand, some have one already, the recipe is unknown or
            has no such storage, or the optimizer's graph sums over all parameters.
    """
    inner = unwrapped(optimizer)
    if not isinstance(inner, Optimizer):
        raise TypeError(f"{type(inner).__name__} is no optimizer of tandem.torch, whose steps write "
                        "operands; take one, such as tandem.torch.AdamW")
    if sums_over_model(inner.kernel):
        raise ValueError(f"{inner.kernel.name} sums over all parameters, which are in one launch; "
                         "clip gradients before the step instead, and leave max_norm out")
    found, left = {}, {}
    for name, weight in _weights(model, operand):
        storage = _storage(operand, _takes_copy(weight), tuple(map(os.fspath, path)))
        reason = _why_not(inner, weight, storage)
        if not reason and operand == FP8 and isinstance(model, torch.nn.Module):
            reason = _why_not_multiplied(weight)
        if reason:
            left[name] = reason
        else:
            found[name] = Operand(weight, storage)
    if not found:
        raise ValueError("no weight can have an operand" + _listed(": ", left))
    if left:
        warnings.warn(f"{len(left)} of {len(found) + len(left)} weights have no operand"
                      + _listed(": ", left), UserWarning, stacklevel=2)
    inner._groups.operands |= {id(own.param): own for own in found.values()}
    inner._runner.forget()
    return WeightOperands(inner, found, left)


def _listed(before: str, reasons: Mapping[str, str]) -> str:
    return before + "; ".join(f"{name} {why}" for name, why in reasons.items()) if reasons else ""


def _takes_copy(weight: torch.Tensor) -> bool:
    """Returns whether products need a transposed copy of a weight's codes. Those of a sharded
    weight do not, since ranks gather the codes first."""
    return _executor.executor_of(weight) is not CPU and not is_dtensor(weight)


@functools.lru_cache(maxsize=None)
def _storage(operand: str, copy: bool, path: tuple[str, ...]) -> str:
    """Returns the storage of operands."""
    if operand == FP8:
        return storage_of("f8E4M3FN", copy)
    kernel = tandem.compile("keep", operand, path=path, function="keep")
    planes = {p.name.removeprefix("kept"): p for p in kernel.planes if p.name.startswith("kept")}
    # A delayed scale and its history would be a state of the optimizer.
    if not {"", ".scale"} <= planes.keys() <= {"", ".scale", ".tensor_scale"}:
        raise ValueError(f"the recipe {operand!r} does not keep inputs of linear layers as codes and "
                         "scales of the same step; take 'mxfp8', 'nvfp4' or one of that form")
    return described(kernel.storages["kept"]).to_nearest


def _weights(model: torch.nn.Module | Iterable, operand: str
             ) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the names and the weights for operands, each once."""
    seen: set[int] = set()
    for name, weight in _named(model, operand):
        if id(weight) not in seen:
            seen.add(id(weight))
            yield name, weight


def _named(model: torch.nn.Module | Iterable, operand: str
           ) -> Iterator[tuple[str, torch.Tensor]]:
    if not isinstance(model, torch.nn.Module):
        for index, member in enumerate(model):
            yield member if isinstance(member, tuple) else (f"weight {index}", member)
        return
    layers = {name: module for name, module in model.named_modules()
              if isinstance(module, torch.nn.Linear)}
    if operand == FP8:
        layers = {name: module for name, module in layers.items()
                  if isinstance(module, Linear) and module.products == FP8}
        if not layers:
            raise ValueError("the model has no layer with products of 8-bit floats; call "
                             "tandem.torch.compress_activations(model, products='fp8') first")
    for name, module in layers.items():
        yield f"{name}.weight" if name else "weight", module.weight


def _why_not(optimizer: Optimizer, weight: torch.Tensor, storage: str) -> str | None:
    """Returns why a weight cannot have an operand, as a phrase that follows its name."""
    groups = optimizer._groups
    group = groups.group_of(weight)
    if group is None:
        return "is no parameter of the optimizer"
    if id(weight) in groups.operands:
        return "has an operand already"
    if not weight.requires_grad:
        return "is frozen, so that no step writes it"
    if weight.dim() != 2:
        return f"has the shape {tuple(weight.shape)}, and operands are matrices"
    if is_flattened(weight):
        return "is flattened by FSDP1; shard the model with fully_shard"
    if is_placeholder(weight):
        return "is decoded on demand (decode_weights), and a step has no number of it"
    return _why_not_stored(optimizer, weight, group, storage)


def _why_not_multiplied(weight: torch.Tensor) -> str | None:
    """Returns why a layer would not multiply the codes of a weight, as a phrase that follows its
    name."""
    if is_dtensor(weight) and not hasattr(local_of(weight), "fsdp_pre_all_gather"):
        return ("is gathered in its own type, so that no layer would read its codes; call "
                "tandem.torch.distributed.fp8_all_gather(model) first")
    return None


def _why_not_stored(optimizer: Optimizer, weight: torch.Tensor, group: Mapping, storage: str
                    ) -> str | None:
    """Returns why the storages of a weight and its states do not go with an operand."""
    groups = optimizer._groups
    spec = groups.specs.of(weight, group)
    if spec is None:
        return "is not updated by the optimizer's graph"
    other = groups.specs.of_step(weight, group, storage)
    shard, local = shard_of(weight), local_of(weight)
    if shard is not None and gathers(other, shard):
        return f"is spread as {shard}, in pieces that are not updated separately"
    if other.joined_rows > 1:
        return (f"has head_dim={other.joined_rows}, which joins its rows in a step; give it a param "
                "group with head_dim=None")
    if local.shape[-1] % 2 and any(p.is_packed for p in other.operand_planes):
        return (f"has rows of {local.shape[-1]} elements, an odd number, so that a byte would hold codes of "
                "two rows; pad the layer to an even number of inputs")
    has_rows = other.kernel.is_matrix or any(p.is_grouped for p in other.operand_planes)
    is_joined = other.size_of(local)[1] != local.shape[-1]
    if has_rows and (is_joined or (spec.group > 1 and spec.size_of(local) != other.size_of(local))):
        return f"has rows of {local.shape[-1]} elements, which are shorter than a group"
    return None
