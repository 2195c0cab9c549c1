"""Hyperparameters: their keys in param groups, and their values in a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch.optim.optimizer import required

#: Flags of torch.optim's param groups that change the update.
_FLAGS = ("amsgrad", "centered", "dampening", "max_norm", "momentum", "nesterov")


class Hypers:
    """The hyperparameters of a graph, as param groups have them.

    Optimizers that compute hyperparameters from the step override :meth:`value_at` in a subclass.

    Args:
        owner: the name of the optimizer's class.
        graph: the name of its graph.

    Attributes:
        defaults: the defaults of a param group, by key.
        is_captured: whether counts of steps are on the GPU, where :meth:`value_at` cannot read
            them.
        count: the state's key for a count of steps that only :meth:`value_at` reads, if any.
        running: the keys of a param group that steps change.
        peers_options: options of other libraries' optimizers of this kind, and for each the values
            with which they take the steps of this one.
    """

    #: Hyperparameters that PyTorch keeps together.
    _PAIRS: dict[str, tuple[str, ...]] = {"betas": ("beta1", "beta2"), "eps": ("eps1", "eps2")}
    count: str | None = None
    running: tuple[str, ...] = ()
    peers_options: Mapping[str, tuple] = {}
    #: Whether hyperparameters depend on the count of steps, which the graph reads, too.
    reads_step = False
    #: Whether hyperparameters depend on the shapes of parameters.
    is_shaped = False

    def __init__(self, owner: str, graph: str):
        self.owner, self.graph = owner, graph
        self.defaults: dict = {}
        self.is_captured = False

    def defaults_of(self, hypers: Mapping[str, float | None]) -> dict:
        """Returns the defaults of a param group in PyTorch's form.

        Args:
            hypers: the hyperparameters of the graphs and their defaults.
        """
        defaults = {}
        for name, value in hypers.items():
            key, names = self._place(name, hypers)
            values = tuple(hypers[n] for n in names)
            defaults[key] = (required if None in values
                             else value if key == name else values)
        return defaults

    @classmethod
    def _place(cls, name: str, known: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """Returns a hyperparameter's key in param groups and the names of its values. This is
        the key of a pair if the other one of the pair, or the key of the pair, is known."""
        for key, names in cls._PAIRS.items():
            if name in names and (set(names) <= set(known)
                                  or (key in known and name not in known)):
                return key, names
        return name, (name,)

    @classmethod
    def fold_pairs(cls, values: dict, defaults: Mapping) -> None:
        """Replaces "beta1" and "beta2" with "betas", if that is the group's key."""
        for key, names in cls._PAIRS.items():
            given = [name for name in names if name in values]
            if not given or key not in defaults or set(names) & set(defaults):
                continue
            if key in values:
                raise TypeError(f"give either {key} or {given[0]}, not both")
            pair = defaults[key]
            if pair is required and len(given) < len(names):
                raise TypeError(f"give {key}, or all of {', '.join(names)}")
            values[key] = tuple(
                values.pop(name) if name in values else pair[i]
                for i, name in enumerate(names)
            )

    def value(self, name: str, group: Mapping) -> object:
        """Returns a hyperparameter of a param group, which is a number or a tensor."""
        key, names = self._place(name, self.defaults)
        value = group[key]
        return value if key == name else value[names.index(name)]

    def given(self, name: str, group: Mapping, shape: tuple[int, ...] | None = None) -> object:
        """Returns a hyperparameter of a param group, or None if the group does not have it, since it
        follows from others, for parameters of a shape if it depends on that."""
        key, _ = self._place(name, self.defaults)
        return self.value(name, group) if key in group else None

    def number(self, name: str, group: Mapping, index: int) -> float:
        """Returns a hyperparameter of the param group with this index as a number."""
        try:
            return float(self.value(name, group))
        except (TypeError, ValueError, IndexError, RuntimeError):
            key, _ = self._place(name, self.defaults)
            count = len(self._PAIRS.get(key, ()))
            wanted = ("a number" if key == name else "a pair of numbers" if count == 2
                      else f"{count} numbers")
            raise TypeError(
                f"{key} of param group {index} must be {wanted}, got {group[key]!r}"
            ) from None

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        """Returns a hyperparameter for a step of parameters of a type and, if it depends on that,
        of a shape."""
        return self.number(name, group, index)

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Returns what hyperparameters depend on in a parameter's shape; None if on nothing."""
        return None

    def exchange_of(self, group: Mapping) -> str | None:
        """Returns the type in which external steps exchange tensors; None for the graph's."""
        return None

    def check(self, group: Mapping, index: int) -> None:
        """Refuses invalid values that kernels do not check."""

    @property
    def flags(self) -> list[str]:
        """The options of PyTorch's optimizers that this one does not have, and those of others."""
        return [*(name for name in _FLAGS if name not in self.defaults), *self.peers_options]

    def check_flags(self, group: Mapping, index: int) -> None:
        """Refuses options of other optimizers that the kernel does not support."""
        for name, ours in self.peers_options.items():
            if group.get(name, ours[0]) not in ours:
                raise ValueError(f"param group {index} has {name}={group[name]!r}, which the kernel of "
                                 f"{self.owner} does not compute; it takes only {name}={ours[0]!r}")
        for name in self.flags:
            if name not in self.peers_options and group.get(name):
                raise ValueError(
                    f"param group {index} has {name}={group[name]!r}, which the kernel of "
                    f"{self.owner} does not compute; leave it out, or take another "
                    "optimizer")

    def row(self, names: Sequence[str], group: Mapping, index: int, step: int,
            dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> list[float]:
        """Returns the hyperparameters of a row of a launch, in the order of `names`."""
        return [self.value_at(name, group, index, step, dtype, shape) for name in names]
