"""Companions of a strategy: variants with float32 weights or with float32 states."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tandem._kernel import Kernel, Rules
from tandem._plane import RoleKind
from tandem._storages import described, floats
from tandem._tandem import Storage


#: The strategy of optimizers that are created without one: it takes 8.25 bytes a parameter of
#: AdamW, gradients are as frameworks make them, and states of every graph of the library follow
#: (docs/Following.md).
DEFAULT_STRATEGY = "flash-f16"

#: The state that ``weight_average`` of :func:`tandem.compile` adds.
AVERAGE = "ema"

#: The output that ``weight_operand`` of :func:`tandem.compile` adds.
OPERAND = "operand"

#: The number of elements from which vectors have states in codes. Norms and biases are shorter;
#: vectors of this length are parameters that a framework has flattened, such as those of
#: DeepSpeed's ZeRO and FSDP1.
MIN_8BIT_VECTOR_SIZE = 65536


def keeps_f32_states(shape: Sequence[int], min_8bit_size: int | None,
                     min_8bit_vector_size: int | None = None) -> bool:
    """Returns whether a parameter keeps its states in float32 when others store codes.

    This is so for norms and biases, which use little memory but matter for accuracy.

    Args:
        shape: the shape of the whole parameter, never of a shard: the storage of a state must
            not depend on the number of ranks.
        min_8bit_size: the minimum number of elements for codes, in a parameter with two or more
            dimensions; 0 or None for no limits.
        min_8bit_vector_size: the minimum number of elements for codes in a vector; None if no
            vector has codes.
    """
    size = math.prod(shape)
    if not min_8bit_size:
        return False
    if len(shape) < 2:
        return min_8bit_vector_size is None or size < min_8bit_vector_size
    return size < min_8bit_size


@dataclass(frozen=True)
class Companion:
    """A strategy that is derived from another one.

    Attributes:
        name: the name of the strategy.
        rules: the rules that a file of it would have; None for a built-in strategy.
    """

    name: str
    rules: Rules | None = None


def companion(kernel: Kernel, wide: bool, small: bool) -> Companion | None:
    """Returns the companion of the strategy that a kernel was compiled under.

    Args:
        kernel: the graph under the strategy itself.
        wide: whether weights and gradients become float32 under the f32 compute policy.
        small: whether states in codes become float32.

    Returns:
        The companion, or None if the strategy is its own companion.
    """
    coded = [role for role in _roles(kernel, RoleKind.STATE)
             if small and described(kernel.storages[role]).is_coded]
    storages = kernel.storages | dict.fromkeys(coded, floats("f32"))
    if wide:
        _widen(kernel, storages)
    if storages == kernel.storages:
        return None
    if {storages[role] for role in kinds_of(kernel)} == {floats("f32")}:
        return Companion("fp32")
    compute = "f32 f32" if wide else kernel.compute
    parts = ["f32 weights"] * wide + ["f32 states"] * bool(coded)
    name = f"{kernel.strategy} with {' and '.join(parts)}"
    return Companion(name, rules_of(compute, kinds_of(kernel), storages))


def with_copy(kernel: Kernel, type: str) -> Companion:
    """Returns the same strategy with, next to weights in codes, a copy of the decoded weights.

    Args:
        kernel: the graph under the strategy itself.
        type: the type of the copy, which modules compute with: "f16" or "bf16".
    """
    copies = {role: Storage.working(type, kernel.storages[role]).text
              for role in _roles(kernel, RoleKind.PARAM)}
    name = f"{kernel.strategy} with a {type} copy"
    return Companion(name, rules_of(kernel.compute, kinds_of(kernel),
                                    kernel.storages | copies))


def with_operand(kernel: Kernel, storage: str) -> Companion:
    """Returns the same strategy with a rule for the output that ``weight_operand`` of
    :func:`tandem.compile` adds.

    Args:
        kernel: the graph under the strategy itself.
        storage: the output's storage.
    """
    rules = rules_of(kernel.compute, kinds_of(kernel), kernel.storages)
    return Companion(kernel.strategy, Rules(
        rules.compute, (*rules.storages, (RoleKind.OUTPUT, OPERAND, storage))))


def with_exchange(kernel: Kernel, type: str) -> Companion:
    """Returns the same strategy with what external steps exchange in a type.

    Args:
        kernel: the graph under the strategy itself.
        type: "bf16", "f16" or "f32".
    """
    rules = rules_of(kernel.compute, kinds_of(kernel), kernel.storages)
    return Companion(kernel.strategy, Rules(rules.compute, (
        *rules.storages, *((kind, None, floats(type))
                           for kind in (RoleKind.SENT, RoleKind.RECEIVED)))))


def with_sums(kernel: Kernel, accumulation: str) -> Companion | None:
    """Returns the same strategy with gradients in a storage for sums of several passes.

    Args:
        kernel: the graph under the strategy itself.
        accumulation: "f32", "bf16x2" or "bf16+i8".

    Returns:
        The companion, of the same name, or None if gradients are stored like this already, or in
        float32.

    Raises:
        ValueError: there is no such storage, or the strategy computes in components, which these
            gradients do not have.
    """
    sums = {role: Storage.sums(accumulation).text for role in _roles(kernel, RoleKind.GRAD)
            if kernel.storages[role] != floats("f32")}
    storages = kernel.storages | sums
    if storages == kernel.storages:
        return None
    if not kernel.compute.startswith("f32") and accumulation != "bf16x2":
        raise ValueError(
            f"grad_accumulation={accumulation!r} is for strategies that compute in f32, and "
            f"{kernel.strategy!r} computes in components; take 'bf16x2'")
    return Companion(kernel.strategy, rules_of(kernel.compute, kinds_of(kernel), storages))


def _roles(kernel: Kernel, *kinds: RoleKind) -> list[str]:
    """Returns the tensors of some kinds, in order."""
    return list(dict.fromkeys(p.role for p in kernel.planes if p.kind in kinds))


def kinds_of(kernel: Kernel) -> dict[str, RoleKind]:
    """Returns the kinds of the tensors that a strategy stores, which those of external steps are
    not."""
    return {plane.role: plane.kind for plane in kernel.planes if not plane.is_exchanged}


def _widen(kernel: Kernel, storages: dict[str, str]) -> None:
    """Changes the weight and its average, the gradient, and states without a value under the f32
    policy to float32.

    Other planes of the weight, such as a residual, only extend its narrow type to float32.
    """
    for role in _roles(kernel, RoleKind.PARAM, RoleKind.GRAD):
        storages[role] = floats("f32")
    # An average is stored like its weight; "ax" is that of the graph asgd.
    for role in (AVERAGE, "ax"):
        if role in storages:
            storages[role] = floats("f32")
    for role in _roles(kernel, RoleKind.STATE):
        # Kahan's compensation and exact sums are only for their own formats.
        if not described(storages[role]).has_f32_value:
            _warn(kernel.strategy, role, storages[role])
            storages[role] = floats("f32")


@lru_cache(maxsize=None)
def _warn(strategy: str, role: str, storage: str) -> None:
    """Warns, once per process, that a state is not stored as requested."""
    warnings.warn(
        f"strategy {strategy!r} stores {role} as {storage}, which cannot be computed under "
        f"the f32 policy of float32 parameters; beside these, {role} is float32",
        stacklevel=2)


def rules_of(compute: str, kinds: Mapping[str, RoleKind],
             storages: Mapping[str, str]) -> Rules:
    """Returns the rules of a strategy with one rule for each tensor."""
    return Rules(compute, tuple((kinds[role], role, storage)
                                for role, storage in storages.items() if role in kinds))
