"""Precisions that change during a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from tandem.torch.nn._compress import check_compression, compress_activations
from tandem.torch.nn._emulate import Formats, check_emulation, emulate
from tandem.torch.optim.state._change import change_strategy, check_strategy
from tandem.torch.optim._optimizer import Optimizer


class Setting(Protocol):
    """A property of a model or an optimizer that a schedule sets."""

    def check(self, value: Any) -> None:
        """Raises an error if the value could not be set."""

    def set(self, value: Any) -> None:
        """Sets the value."""


class MaskSetting:
    """The format of masked products, the argument ``format`` of :func:`emulate`.

    Args:
        model: the model whose linear layers are masked.
        **options: the other arguments of :func:`emulate`, such as ``exclude``.
    """

    def __init__(self, model: torch.nn.Module, **options):
        self.model, self.options = model, options

    def check(self, value: Formats) -> None:
        check_emulation(self.model, value, **self.options)

    def set(self, value: Formats) -> None:
        emulate(self.model, value, **self.options)


class RecipeSetting:
    """The recipe of compressed activations, as for :func:`compress_activations`.

    Args:
        model: the model, whose layers are swapped when the first recipe is set.
        **options: the other arguments of :func:`compress_activations`.
    """

    def __init__(self, model: torch.nn.Module, **options):
        self.model, self.options = model, options

    def check(self, value: str) -> None:
        check_compression(value, **self.options)

    def set(self, value: str) -> None:
        compress_activations(self.model, value, **self.options)


class StrategySetting:
    """The strategy of an optimizer, whose states are converted at each change.

    Args:
        optimizer: an optimizer of :mod:`tandem.torch`.
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer

    def check(self, value: str) -> None:
        check_strategy(self.optimizer, value)

    def set(self, value: str) -> None:
        if any(group["strategy"] != value for group in self.optimizer.param_groups):
            change_strategy(self.optimizer, value)


def _check_values(setting: Setting, values: Sequence) -> None:
    """Checks all values before the run starts."""
    for value in values:
        setting.check(value)


def _count(state_dict: Mapping, key: str, bound: float = math.inf) -> int:
    """Returns a count from a state dict, after checking it."""
    count = state_dict.get(key)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < bound:
        raise ValueError(f"the state has {key}={count!r}, which this object cannot have; load "
                         "the state_dict() of one that was created with the same arguments")
    return count


class PrecisionSchedule:
    """Sets precisions at given steps of a run.

    >>> schedule = PrecisionSchedule(MaskSetting(model), {0: "E8M3", 6000: None})
    >>> for batch in batches:
    ...     train(batch)
    ...     schedule.step()

    All values are checked, and the first is set, when the schedule is created.

    Args:
        setting: the setting to change: a :class:`MaskSetting`, :class:`RecipeSetting` or
            :class:`StrategySetting`, or any other object with ``check`` and ``set``.
        values: the values by the number of steps taken before; each is in effect until the next
            one. There must be one for step 0.

    Raises:
        ValueError, TypeError: there is no value for step 0, a step is not a non-negative
            integer, or a value cannot be set.
    """

    def __init__(self, setting: Setting, values: Mapping[int, Any]):
        for step in values:
            if isinstance(step, bool) or not isinstance(step, int) or step < 0:
                raise ValueError(f"steps of a schedule are integers from 0 on, got {step!r}")
        if 0 not in values:
            raise ValueError("a schedule needs a value for step 0")
        self.setting, self.values = setting, dict(sorted(values.items()))
        self.last_step = 0
        _check_values(setting, list(self.values.values()))
        setting.set(self.value)

    @property
    def value(self) -> Any:
        """The value of the current step."""
        return next(value for step, value in reversed(self.values.items())
                    if step <= self.last_step)

    def step(self) -> bool:
        """Counts a step and sets the value for the next one. Returns whether it has changed."""
        before = self.value
        self.last_step += 1
        if self.value == before:
            return False
        self.setting.set(self.value)
        return True

    def state_dict(self) -> dict:
        """Returns the count of steps."""
        return {"last_step": self.last_step}

    def load_state_dict(self, state_dict: Mapping) -> None:
        """Restores the state of a schedule and sets the value of its step.

        Raises:
            ValueError: the state does not belong to a schedule. Nothing has changed then.
        """
        self.last_step = _count(state_dict, "last_step")
        self.setting.set(self.value)


class PrecisionRaise:
    """Sets the next higher precision when a measurement crosses a bound.

    >>> guard = PrecisionRaise(MaskSetting(model), ["E8M3", "E8M5", None], bound=0.5)
    >>> guard.step(sharpness(logits, target).mean())

    All values are checked, and the first is set, when the object is created.

    Args:
        setting: the setting to change, as for :class:`PrecisionSchedule`.
        levels: the values, from the lowest precision to the highest.
        bound: the bound that the measurement must exceed, such as a sharpness in percent. A NaN
            exceeds every bound.
        patience: the number of consecutive measurements that must exceed the bound.

    Raises:
        ValueError, TypeError: there are no levels, the bound is not finite, the patience
            is not a positive integer, or a level cannot be set.
    """

    def __init__(self, setting: Setting, levels: Sequence, bound: float, *, patience: int = 1):
        if isinstance(levels, str) or not len(levels):
            raise ValueError(f"levels is a list of values, lowest first, got {levels!r}")
        if not math.isfinite(bound):
            raise ValueError(f"bound must be a finite number, got {bound!r}")
        if not isinstance(patience, int) or patience < 1:
            raise ValueError(f"patience is a positive number of measurements, got {patience!r}")
        self.setting, self.levels = setting, list(levels)
        self.bound, self.patience = float(bound), patience
        #: The index of the current level, and the number of consecutive measurements beyond the
        #: bound.
        self.level = self.num_exceeded = 0
        _check_values(setting, self.levels)
        setting.set(self.value)

    @property
    def value(self) -> Any:
        """The current value."""
        return self.levels[self.level]

    def step(self, measurement: float) -> bool:
        """Processes a measurement and returns whether it has raised the precision."""
        measurement = float(measurement)
        exceeds = measurement > self.bound or math.isnan(measurement)
        self.num_exceeded = self.num_exceeded + 1 if exceeds else 0
        if self.num_exceeded < self.patience or self.level + 1 == len(self.levels):
            return False
        self.level, self.num_exceeded = self.level + 1, 0
        self.setting.set(self.value)
        return True

    def state_dict(self) -> dict:
        """Returns the level and the number of consecutive measurements beyond the bound."""
        return {"level": self.level, "num_exceeded": self.num_exceeded}

    def load_state_dict(self, state_dict: Mapping) -> None:
        """Restores the state of another object and sets its level.

        Raises:
            ValueError: the state's level does not exist. Nothing has changed then.
        """
        self.level, self.num_exceeded = (_count(state_dict, "level", len(self.levels)),
                                         _count(state_dict, "num_exceeded"))
        self.setting.set(self.value)
