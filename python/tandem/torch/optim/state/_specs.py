"""The specs of an optimizer, which determine how a parameter is stored and updated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import torch

from tandem._companions import (Companion, companion, keeps_f32_states, with_copy,
                                with_exchange, with_operand)
from tandem._convert import CPU, Executor
from tandem._kernel import Kernel, Rules
from tandem._param_planes import can_join_rows, has_rows, is_of_matrices, sums_over_model
from tandem.torch import _executor
from tandem.torch._layout import WORKING, is_placeholder
from tandem.torch.optim.state._spec import ExternalStates, StateSpec


class Key(NamedTuple):
    """The properties of a parameter that select its spec."""

    strategy: str
    #: Whether it has fewer dimensions than the graph's matrices.
    is_vector: bool = False
    #: Whether its weight is float32 under a strategy of another type.
    is_wide: bool = False
    #: Whether its states are float32 although the strategy has codes.
    is_small: bool = False
    #: The executor that launches its kernel.
    executor: Executor = CPU
    #: The type of the decoded copy that a step writes in addition to weights in codes, if any.
    copy: torch.dtype | None = None
    #: The storage of the operand that a step writes in addition to the weight, if any.
    operand: str | None = None
    #: The type in which external steps exchange tensors, if it is not the graph's.
    exchange: str | None = None
    #: The number of rows that the graph of matrices sees as one.
    joined_rows: int = 1

    @property
    def of_states(self) -> Key:
        """The key of the spec that says how states are stored."""
        return self._replace(copy=None, operand=None, exchange=None)


class StateSpecs:
    """The specs for each way of storing parameters and each device: those of the param
    groups' strategies, and their companions for float32 weights and float32 states. There are
    two of each if matrices and vectors have different graphs.

    Args:
        build: compiles a graph under a strategy for a target. The fourth argument has the
            strategy's rules, or None if it is found by its name. For steps that write operands,
            it takes ``weight_operand=True`` too.
        graph: the graph; a graph of matrices updates two-dimensional parameters.
        strategy: the strategy of groups without their own.
        vectors: the graph for parameters with fewer dimensions, if `graph` is a graph of
            matrices.
        count: a state's key for its count of steps, if the optimizer needs one but the kernel
            does not.
        external_states: the tensors that external steps keep.
    """

    def __init__(self, build: Callable[..., Kernel], graph: str,
                 strategy: str, vectors: str | None = None, count: str | None = None,
                 external_states: ExternalStates | None = None):
        self._build, self._graphs, self.strategy = build, (graph, vectors), strategy
        self._external_states = external_states
        self._specs: dict[Key, StateSpec] = {}
        #: The keys of companions' specs by the requested keys, and the companions without
        #: files, by name and for matrices and vectors.
        self._known: dict[Key, Key] = {}
        self._rules: dict[tuple[str, bool], Rules | None] = {}
        self.count = count
        self.main = self[Key(strategy)]
        #: Whether groups may have ``head_dim``.
        self.can_join_rows = can_join_rows(self.main.kernel)
        #: The spec for vectors in the strategy's type, if they have their own graph.
        self.vectors = None if vectors is None else self[Key(strategy, is_vector=True)]
        if self.vectors:
            self._check_vectors(self.vectors.kernel)

    def _check_vectors(self, kernel: Kernel) -> None:
        if not is_of_matrices(self.main.kernel):
            raise ValueError(
                f"{self.main.kernel.name!r} takes parameters of all shapes, and not only "
                f"matrices; leave vectors={kernel.name!r} out"
            )
        if is_of_matrices(kernel):
            raise ValueError(
                f"{kernel.name!r} updates matrices; pass vectors= a graph that does not"
            )
        for one in (self.main.kernel, kernel):
            if sums_over_model(one):
                raise ValueError(
                    f"{one.name} sums over all parameters, but matrices and vectors are "
                    "launched apart; sum over each tensor"
                )

    def __getitem__(self, key: Key) -> StateSpec:
        key = self._resolved(key)
        if key not in self._specs:
            strategy = self._strategy_of(key)
            options = {"weight_operand": True} if key.operand else {}
            kernel = self._build(self._graphs[key.is_vector], strategy.name,
                                 key.executor.target, strategy.rules, **options)
            on_cpu = None if key.executor is CPU else self[key._replace(executor=CPU)]
            of_states = None if key == key.of_states else self[key.of_states]
            self._specs[key] = StateSpec(kernel, self.count, key.executor, on_cpu, of_states,
                                         bool(key.copy), key.joined_rows,
                                         self._external_states if kernel.externals else None)
        return self._specs[key]

    def _strategy_of(self, key: Key) -> Companion:
        """Returns the strategy under which a spec's kernel is compiled."""
        if key.exchange:
            return with_exchange(self[key._replace(exchange=None)].kernel, key.exchange)
        if key.operand:
            return with_operand(self[key._replace(operand=None)].kernel, key.operand)
        if key.copy:
            return with_copy(self[key.of_states].kernel, WORKING[key.copy])
        return Companion(key.strategy, self._rules.get((key.strategy, key.is_vector)))

    def _resolved(self, key: Key) -> Key:
        """Returns the key of the actual spec, whose strategy may be a companion."""
        if key != key.of_states:
            return self._resolved(key.of_states)._replace(copy=key.copy, operand=key.operand,
                                                          exchange=key.exchange)
        if not (key.is_wide or key.is_small):
            return key
        if key not in self._known:
            own = key._replace(is_wide=False, is_small=False)
            found = companion(self[own._replace(executor=CPU)].kernel, key.is_wide,
                              key.is_small)
            self._known[key] = own._replace(strategy=found.name) if found else own
            if found:
                self._rules[found.name, key.is_vector] = found.rules
        return self._known[key]

    def __iter__(self) -> Iterator[StateSpec]:
        """Iterates over the specs that have been used, :attr:`main` first."""
        return iter(self._specs.values())

    def of_strategy(self, strategy: str) -> list[StateSpec]:
        """Returns the specs of a strategy itself on the CPU: for all parameters or for
        matrices, and for vectors if they have their own graph."""
        keys = [Key(strategy), *([Key(strategy, is_vector=True)] if self.vectors else [])]
        return [self[key] for key in keys]

    @property
    def counts(self) -> set[str]:
        """The keys under which states store their counts of steps."""
        return {spec.step for spec in self.of_strategy(self.strategy) if spec.step}

    @property
    def hypers(self) -> dict[str, float | None]:
        """The hyperparameters of all kernels and their defaults."""
        specs = reversed(self.of_strategy(self.strategy))
        return dict(chain.from_iterable(spec.kernel.hypers.items() for spec in specs))

    def key_of(self, param: torch.Tensor, group: Mapping) -> Key | None:
        """Returns the key of the spec for a parameter of a param group, or None if there is
        none."""
        is_matrix, executor = is_of_matrices(self.main.kernel), _executor.executor_of(param)
        is_vector = is_matrix and (param.dim() < 2 or group.get("use_muon") is False)
        is_folded = has_rows(self.main.kernel) and not is_vector and param.dim() > 2
        if executor is None or is_folded or (is_vector and self.vectors is None):
            return None
        strategy = group.get("strategy", self.strategy)
        is_wide = param.dtype not in self[Key(strategy)].dtypes
        if is_wide and param.dtype != torch.float32:
            return None
        joins = self.can_join_rows and not is_vector
        return Key(strategy, is_vector, is_wide, self.is_small(param.shape, group), executor,
                   joined_rows=joins and group.get("head_dim") or 1)

    def is_small(self, shape: torch.Size, group: Mapping) -> bool:
        """Returns whether a parameter keeps its states in float32. With a sum over the model
        none does, since all parameters are in one launch and need the same storages."""
        return (keeps_f32_states(shape, group.get("min_8bit_size"),
                                 group.get("min_8bit_vector_size"))
                and not sums_over_model(self.main.kernel))

    def of(self, param: torch.Tensor, group: Mapping) -> StateSpec | None:
        """Returns the spec for a parameter of a param group, or None if there is none."""
        key = self.key_of(param, group)
        return None if key is None else self[key]

    def of_step(self, param: torch.Tensor, group: Mapping,
                operand: str | None = None, exchange: str | None = None) -> StateSpec:
        """Returns the spec for a step of a parameter that has a spec in :meth:`of`. For
        weights in codes, its kernel also reads and writes the decoded copy for the module. It
        writes an operand of this storage, if there is one, and its external steps exchange
        tensors in a type other than the graph's, if there is one."""
        key = self.key_of(param, group)._replace(operand=operand, exchange=exchange)
        if key.is_vector:
            key = key._replace(exchange=None)
        if self[key.of_states].hidden and not is_placeholder(param):
            key = key._replace(copy=param.dtype)
        return self[key]

    def refusal(self, param: torch.Tensor, label: object, strategy: str,
                fix: str | None = None) -> Exception:
        """Returns the error that explains why no spec supports a parameter, with a fix."""
        main = self[Key(strategy)]
        types = main.dtypes
        if param.is_complex():
            return TypeError(
                f"{label} is complex ({param.dtype}); "
                + (fix or "optimize real and imaginary parts, torch.view_as_real(p)")
            )
        if param.dtype not in (*types, torch.float32):
            return TypeError(
                f"{label} is {param.dtype}, but strategy {strategy!r} keeps "
                "weights " + (f"that decode to {' or '.join(map(str, types))}" if main.hidden
                              else f"in {types[0]}")
                + "; " + (fix or f"convert it with p.to({types[0]}), or choose a "
                                 f"strategy whose weights are {param.dtype}")
            )
        fixes = ("pass vectors=, a graph for such parameters",
                 "keep it as a matrix, p.flatten(1), or give it to another optimizer, such "
                 "as tandem.torch.AdamW")
        return ValueError(
            f"{label} has the shape {tuple(param.shape)}, but {self.main.kernel.name} "
            f"updates matrices{' and vectors' if self.vectors else ''}; "
            + (fix or fixes[param.dim() > 2])
        )
