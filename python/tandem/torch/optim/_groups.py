"""Param groups: their strategies, storages and directions of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import torch

from tandem._convert import CPU
from tandem._plane import RoleKind
from tandem.torch._shards import is_dtensor
from tandem.torch.optim._binding import KernelBinding
from tandem.torch.optim._recommend import AUTO

#: Options of a param group that select the kernel for its parameters and its inputs.
OPTIONS = ("strategy", "min_8bit_size", "maximize")


def check_options(group: Mapping, index: int) -> None:
    """Refuses invalid values of these options."""
    strategy, size, maximize = (group.get(name) for name in OPTIONS)
    if not isinstance(strategy, str):
        raise TypeError(f"strategy of param group {index} must be a strategy's name, got "
                        f"{strategy!r}")
    if strategy == AUTO:
        raise ValueError(f"strategy of param group {index} is 'auto', which AdamW and Adam take "
                         "for all groups together: AdamW(..., strategy='auto', memory='24GiB'); "
                         "name one here, as tandem.torch.recommend does")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
        raise TypeError(f"min_8bit_size of param group {index} must be a number of "
                        f"elements, or None for none, got {size!r}")
    if size is not None and size < 0:
        raise ValueError(f"min_8bit_size of param group {index} is {size}; it must be at "
                         "least 0, which stands for no bound")
    if not isinstance(maximize, bool):
        raise TypeError(f"maximize of param group {index} must be True or False, got "
                        f"{maximize!r}")


def draws(bindings: Iterable[KernelBinding]) -> bool:
    """Returns whether kernels round stochastically."""
    return any(kind is RoleKind.SEED for binding in bindings
               for kind in binding.kernel.integers.values())


class Groups:
    """The part of :class:`Optimizer` that handles param groups."""

    def _begin_groups(self) -> None:
        #: The index of each parameter's group and its position there, by the parameter's
        #: identity.
        self._positions: dict[int, tuple[int, int]] = {}
        #: The groups' values of OPTIONS when they were last read.
        self._noted: list[tuple] = []

    #===--------------------------------------------------------------------===#
    # Groups and their bindings
    #===--------------------------------------------------------------------===#

    def _grouped(self) -> Iterator[tuple[int, torch.Tensor, dict]]:
        """Yields the index of each parameter, the parameter, and its group."""
        index = 0
        for group in self.param_groups:
            for param in group["params"]:
                yield index, param, group
                index += 1

    def _group_and_position(self, param: torch.Tensor) -> tuple[int, int] | None:
        """Returns the index of a parameter's group and its position there, or None if no group
        has the parameter."""
        position = self._positions.get(id(param))
        if position is None or not self._is_at(param, *position):
            self._positions = {id(p): (number, at) for number, group
                               in enumerate(self.param_groups)
                               for at, p in enumerate(group["params"])}
            position = self._positions.get(id(param))
        return position

    def _is_at(self, param: torch.Tensor, number: int, at: int) -> bool:
        """Returns whether a group still has the parameter at this position."""
        groups = self.param_groups
        return (number < len(groups) and at < len(groups[number]["params"])
                and groups[number]["params"][at] is param)

    def _position_of(self, param: torch.Tensor) -> tuple[int, int]:
        """Returns the index of a parameter and that of its group."""
        number, at = self._group_and_position(param)
        before = sum(len(group["params"]) for group in self.param_groups[:number])
        return before + at, number

    def _group_of(self, param: torch.Tensor) -> dict | None:
        """Returns the group of a parameter, or None if no group has it."""
        position = self._group_and_position(param)
        return self.param_groups[position[0]] if position else None

    def _binding_of(self, param: torch.Tensor) -> KernelBinding | None:
        """Returns the binding for a parameter, or None if there is none."""
        group = self._group_of(param)
        return self._bindings.of(param, group) if group else None

    def _bindings_of(self, index: int) -> list[KernelBinding]:
        """Returns the bindings of a group's own strategy, and raises an error if it does not
        exist."""
        try:
            return self._bindings.of_strategy(self.param_groups[index]["strategy"])
        except ValueError as error:
            raise ValueError(f"the strategy of param group {index}: {error}") from None

    #===--------------------------------------------------------------------===#
    # Changes
    #===--------------------------------------------------------------------===#

    def _options(self) -> list[tuple]:
        """Returns the groups' current values of OPTIONS."""
        return [tuple(map(group.get, OPTIONS)) for group in self.param_groups]

    def _check_changes(self) -> None:
        """Checks groups whose options have changed since the last check.

        Raises:
            ValueError: the change would change the meaning of existing states.
        """
        now = self._options()
        if now == self._noted:
            return
        for index, (before, after) in enumerate(zip(self._noted, now)):
            if before != after:
                self._check_group(index)
                self._check_kept(index, dict(zip(OPTIONS, before)))
        self._noted = now
        self._forget()

    def _check_change_of(self, param: torch.Tensor) -> None:
        """Checks for changes only if the parameter's own group has changed, since checking all
        groups for each parameter would slow down backward passes."""
        position = self._group_and_position(param)
        if position and (tuple(map(self.param_groups[position[0]].get, OPTIONS))
                         != self._noted[position[0]]):
            self._check_changes()

    def _check_kept(self, index: int, before: Mapping) -> None:
        """Refuses a change of a group that would change the storage of its states."""
        group = self.param_groups[index]
        for param in group["params"]:
            has_planes = self.state.get(param) or self._gradients.get(param) is not None
            if has_planes and (self._bindings.of(param, before)
                               is not self._bindings.of(param, group)):
                break
        else:
            return
        option = next(name for name in OPTIONS if before[name] != group[name])
        given = ("strategies) with a strategy for each group" if option == "strategy" else
                 f"{group['strategy']!r}, min_8bit_size={group[option] or 0})")
        raise ValueError(
            f"param group {index} now has {option}={group[option]!r}, but its states are "
            f"stored as by {option}={before[option]!r}; set that again, and convert the "
            f"state: tandem.torch.convert_state(optimizer.state_dict(), weights, {given}, "
            "for an optimizer that begins so")

    #===--------------------------------------------------------------------===#
    # Bytes
    #===--------------------------------------------------------------------===#

    def _stored(self) -> Counter[KernelBinding]:
        """Returns the number of trained elements that each binding stores. The CPU's binding
        represents those of GPUs, which have the same storages."""
        counts: Counter[KernelBinding] = Counter()
        for _, param, group in self._grouped():
            key = self._bindings.key_of(param, group) if param.requires_grad else None
            if key and param.numel():
                counts[self._bindings[key._replace(executor=CPU)]] += param.numel()
        return counts

    @property
    def bytes_per_parameter(self) -> float:
        """The number of bytes per parameter for weight, gradient and states, from their
        storages, averaged over the trained parameters, without gradients that are released. If
        no parameters are trained, this is the number for the strategy."""
        counts = self._stored() or {self._bindings.main: 1}
        total = sum(binding.bytes_per_parameter(self.gradient_release) * count
                    for binding, count in counts.items())
        return total / sum(counts.values())

    def _describe_storages(self) -> list[str]:
        """Returns the lines of :meth:`__repr__` about the storage of parameters."""
        counts = self._stored() or {self._bindings.main: 0}
        if len(counts) == 1:
            (binding,) = counts
            return [f"strategy: {binding.kernel.strategy} "
                    f"({self.bytes_per_parameter:g} B/parameter)"]
        return [f"strategies: {self.bytes_per_parameter:g} B/parameter", *(
            f"    {binding.kernel.strategy}: {count} parameters, "
            f"{binding.bytes_per_parameter(self.gradient_release):g} B each"
            for binding, count in counts.items())]

    #===--------------------------------------------------------------------===#
    # The direction of a step
    #===--------------------------------------------------------------------===#

    @staticmethod
    def _refuse_to_maximize(binding: KernelBinding, number: int) -> None:
        """Refuses to maximize with gradients in codes, which may not be negated."""
        if binding.encodes:
            raise ValueError(
                f"param group {number} has maximize=True, but strategy "
                f"{binding.kernel.strategy!r} stores gradients in codes, which a step takes "
                "as they are; negate the loss, or take a strategy with plain gradients")

    @staticmethod
    def _negated(params: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
        """Returns the negated gradients of parameters, by their identity.

        No hyperparameter has this effect: a negative lr would also invert weight decay.
        """
        with_gradient = [param for param in params if param.grad is not None]
        negated: dict[int, torch.Tensor] = {}
        for spread in (False, True):  # PyTorch accepts no list of both kinds
            alike = [param for param in with_gradient if is_dtensor(param.grad) is spread]
            if alike:
                found = torch._foreach_neg([param.grad for param in alike])
                negated.update(zip(map(id, alike), found))
        return negated
