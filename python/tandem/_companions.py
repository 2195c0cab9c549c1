"""Companions of a strategy: the same with float32 weights, or with float32 states."""

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


def keeps_f32_states(shape: Sequence[int], min_8bit_size: int | None) -> bool:
    """Whether a parameter keeps its states in float32 where others have codes.

    Norms and biases do, whose few numbers weigh little in memory and much in the model.

    Args:
        shape: that of the whole parameter, never a shard's: how a state is stored must
            not depend on how many ranks share it.
        min_8bit_size: elements that codes take at least, in a parameter with two
            dimensions or more; 0 or None for no such bound.
    """
    return bool(min_8bit_size) and (len(shape) < 2 or math.prod(shape) < min_8bit_size)


@dataclass(frozen=True)
class Companion:
    """A strategy that is derived from another one.

    Attributes:
        name: the strategy's.
        rules: what a file of it would say; None for one that is built in.
    """

    name: str
    rules: Rules | None = None


def companion(kernel: Kernel, wide: bool, small: bool) -> Companion | None:
    """The companion of the strategy that a kernel was compiled under, of the same graph.

    Args:
        kernel: the graph under the strategy itself.
        wide: whether weights and gradients are float32, and the f32 policy computes.
        small: whether states that are codes are float32.

    Returns:
        None if the strategy is its own companion.
    """
    coded = [role for role in _roles(kernel, RoleKind.STATE)
             if small and described(kernel.storages[role]).is_coded]
    storages = kernel.storages | dict.fromkeys(coded, floats("f32"))
    if wide:
        _widen(kernel, storages)
    if storages == kernel.storages:
        return None
    if set(storages.values()) == {floats("f32")}:
        return Companion("fp32")
    compute = "f32 f32" if wide else kernel.compute
    parts = ["f32 weights"] * wide + ["f32 states"] * bool(coded)
    name = f"{kernel.strategy} with {' and '.join(parts)}"
    return Companion(name, rules_of(compute, kinds_of(kernel), storages))


def with_copy(kernel: Kernel, type: str) -> Companion:
    """The same strategy of weights in codes, with a copy of what they decode to.

    Args:
        kernel: the graph under the strategy itself.
        type: what modules compute with, "f16" or "bf16".
    """
    copies = {role: Storage.working(type, kernel.storages[role]).text
              for role in _roles(kernel, RoleKind.PARAM)}
    name = f"{kernel.strategy} with a {type} copy"
    return Companion(name, rules_of(kernel.compute, kinds_of(kernel),
                                    kernel.storages | copies))


def _roles(kernel: Kernel, *kinds: RoleKind) -> list[str]:
    """The tensors of some kinds, in order."""
    return list(dict.fromkeys(p.role for p in kernel.planes if p.kind in kinds))


def kinds_of(kernel: Kernel) -> dict[str, RoleKind]:
    return {plane.role: plane.kind for plane in kernel.planes}


def _widen(kernel: Kernel, storages: dict[str, str]) -> None:
    """Makes weight and gradient float32, and so what the f32 policy has no value for.

    What a strategy keeps besides a narrow weight, a residual for instance, is what the weight
    lacks of a float32.
    """
    for role in _roles(kernel, RoleKind.PARAM, RoleKind.GRAD):
        storages[role] = floats("f32")
    for role in _roles(kernel, RoleKind.STATE):
        # Kahan's compensation and sums of float32 are only for their own formats.
        if not described(storages[role]).has_f32_value:
            _warn(kernel.strategy, role, storages[role])
            storages[role] = floats("f32")


@lru_cache(maxsize=None)
def _warn(strategy: str, role: str, storage: str) -> None:
    """Says, once in a process, that a state is stored otherwise than asked for."""
    warnings.warn(
        f"strategy {strategy!r} stores {role} as {storage}, which cannot be computed under "
        f"the f32 policy of float32 parameters; beside these, {role} is float32",
        stacklevel=2)


def rules_of(compute: str, kinds: Mapping[str, RoleKind],
             storages: Mapping[str, str]) -> Rules:
    """A strategy with a rule for each tensor."""
    return Rules(compute, tuple((kinds[role], role, storage)
                                for role, storage in storages.items()))
