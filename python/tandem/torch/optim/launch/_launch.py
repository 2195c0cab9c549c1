"""The launch of one kernel: the parameters of a step, and their plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from tandem import _tandem
from tandem._finite_check import FiniteCheck
from tandem._plan import Plan, Sharding
from tandem._plane import RoleKind
from tandem.torch._exchange import Exchange
from tandem.torch._shards import local_of
from tandem.torch.optim._operand import Operand
from tandem.torch.optim.gradients._codec import (History, check_grad, empty_grad, encode_grads,
                                                 encoded_from, history_after)
from tandem.torch.optim.launch._bound import BoundParam
from tandem.torch.optim.launch._external import External, Externals
from tandem.torch.optim.state._conversion import numbered_groups
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._specs import StateSpecs


#: The key of a row of scalars: the index of a param group, the number of the step, the type of the
#: weight, and its shape, or None if scalars do not depend on it.
Row = tuple[int, int, torch.dtype, tuple[int, ...] | None]


class Launch:
    """The launch of one kernel, its plan, and the data of the step in preparation.

    Args:
        spec: how the kernel stores parameters.
        model: the launch of the same kernel on the CPU, if that is a different one.
        checks: whether the launch checks gradients before it writes.
        externals: the kernel's external steps, if it has any.
    """

    def __init__(self, spec: StateSpec, model: Launch | None = None, checks: bool = False,
                 externals: Externals | None = None):
        kernel, device = spec.kernel, spec.executor.device
        self.spec, self.kernel, self.executor, self._model = spec, kernel, spec.executor, model
        self.plan, self.externals = Plan(kernel, device), externals
        if externals:
            self.plan.set_external(externals.functions())
        #: The check of the gradients before anything is written, if enabled.
        self.check = FiniteCheck(kernel, device) if checks else None
        self._grads_at = [kernel.planes.index(plane) for plane in spec.grad_planes
                          if not plane.persistent]
        #: The exchange of the step's reductions between ranks, if they share its parameters.
        self.exchange: Exchange | None = None
        self.shardings: list[Sharding | None] = []
        #: A description of the launch that ranks compare, in addition to scalars.
        self._launched = ""
        self._bound: tuple = ()
        self._probe: Plan | None = None
        self.clear()

    def clear(self) -> None:
        """Discards the step in preparation."""
        self.bound_params: list[BoundParam] = []
        self.grads: list[tuple[int, ...]] = []
        self.rows: list[int] = []
        #: The rows of scalars: (param group, step, type of the weight, its shape if scalars
        #: depend on it).
        self.table: list[Row] = []
        self._row_numbers: dict[Row, int] = {}
        #: Counts of steps in a GPU's memory, by their stand-ins in rows.
        self.counters: dict[int, torch.Tensor] = {}
        self._params: list[torch.Tensor] | None = None
        if self.externals:
            self.externals.end()
        #: The gradients that the step has to encode, by the types in which they are read.
        self._enlisted: dict[torch.dtype, list[tuple]] = {}
        #: The states of gradients with delayed scaling, and their new histories.
        self._histories: list[tuple[Mapping, History]] = []

    @property
    def sums(self) -> bool:
        """Whether the launch computes values from all shards of a tensor."""
        return bool(self.kernel.reductions or self.kernel.measures or self.check)

    def release_states(self) -> None:
        """Releases the states of a step that has been taken. Binding compares their planes'
        addresses in the next one."""
        for bound in self.bound_params:
            bound.state = None
        self._histories = []

    @property
    def operands(self) -> list[Operand]:
        """The operands that the step writes in addition to weights."""
        if not self.spec.operand_planes:
            return []
        return [bound.operand for bound in self.bound_params]

    @property
    def params(self) -> list[torch.Tensor]:
        """The parameters of the step."""
        if self._params is None:
            self._params = [bound.param for bound in self.bound_params]
        return self._params

    def row(self, *key) -> int:
        """Returns the index of a row of scalars (:data:`Row`), which is added if it is new."""
        number = self._row_numbers.setdefault(key, len(self.table))
        if number == len(self.table):
            self.table.append(key)
        return number

    def note_history(self, bound: BoundParam, history: History | None) -> None:
        """Makes the step update a state with the history of its gradient."""
        if history:
            self._histories.append((bound.state, history))

    def keep_histories(self, skip: torch.Tensor | None = None) -> None:
        """Updates states with the histories of the step's gradients, unless the step is
        skipped."""
        pairs = [(local_of(state[name]), value) for state, history in self._histories
                 for name, value in history.items()]
        for to, value in pairs:
            self.executor.call(lambda to=to, value=value: to.copy_(
                value if skip is None else value.where(skip.reshape(()) == 0, to)))

    def enlist_grad(self, bound: BoundParam, grad: torch.Tensor) -> list[torch.Tensor]:
        """Adds a gradient for :meth:`encode_enlisted`, and returns the planes that it will
        write."""
        check_grad(grad, bound.like, lambda: bound.label)
        planes = empty_grad(self.spec, bound.like)
        history = history_after(self.spec, bound.state, bound.like)
        self._enlisted.setdefault(encoded_from(grad), []).append(
            (grad, bound.like, planes, history, bound.shard))
        self.note_history(bound, history)
        return planes

    def encode_enlisted(self) -> None:
        """Encodes the gradients of a step in one launch for each type."""
        for listed in self._enlisted.values():
            encode_grads(self.spec, *zip(*listed))
        self._enlisted = {}

    def _connect(self) -> None:
        """Determines the shardings of the step's parameters, with the groups of ranks, and the
        exchange of reductions between them, which is None if there is nothing to exchange."""
        self.exchange, shards = None, [bound.shard for bound in self.bound_params]
        self.shardings = [bound.sharding for bound in self.bound_params]
        if not self.sums:
            return
        groups, self.shardings = numbered_groups(shards, self.shardings)
        if groups:
            self.exchange = Exchange(groups, self.spec.device)
            self._launched = repr([
                (bound.index, row, (bound.shard.shape, str(bound.shard)) if bound.shard
                 else bound.shape, sharding and (sharding.starts, sharding.group))
                for bound, row, sharding in zip(self.bound_params, self.rows, self.shardings)])

    def check_ranks(self, scalars: object) -> None:
        """Raises an error on all ranks that reduce together if they disagree about a step."""
        if self.exchange:
            self.exchange.check(self.kernel.name, (self.kernel.name, self.kernel.strategy,
                                                   self._launched, scalars))

    def update_plan(self, staged: Mapping[int, int], groups: Sequence[Mapping]) -> None:
        """Updates the plan if anything has changed since the last step.

        Args:
            staged: the addresses of copies of parameters, by the parameters' indices.
            groups: the param groups.
        """
        wanted = (self.bound_params, self.grads, self.rows, staged)
        if wanted == self._bound and not self.externals:
            return
        self._bound = ()
        if self.externals:
            self.externals.begin([(bound, groups[bound.group]) for bound in self.bound_params])
        pointers = self._pointers(staged)
        self._connect()
        self.plan.set_exchange(self.exchange)
        self.plan.update(
            [bound.size for bound in self.bound_params], pointers, rows=self.rows,
            keys=[bound.key for bound in self.bound_params],
            firsts=[bound.first for bound in self.bound_params],
            shardings=self.shardings,
        )
        if self.check:
            self.check.update([bound.size for bound in self.bound_params], pointers)
        self._bound = wanted

    def _pointers(self, staged: Mapping[int, int]) -> list[list[int]]:
        """Returns the addresses of the planes of the step's parameters."""
        pointers = []
        for number, (bound, grad) in enumerate(zip(self.bound_params, self.grads)):
            addresses = bound.pointers.copy()
            if self.externals:
                self.externals.point(number, addresses)
            if bound.index in staged:
                addresses[self.spec.param_at] = staged[bound.index]
            for at, address in zip(self._grads_at, grad):
                addresses[at] = address
            pointers.append(addresses)
        return pointers

    def watch(self, replay: _tandem.ReplayCache) -> None:
        """Adds the step to the replay cache, which detects whether the next step repeats it."""
        shapes = [bound.size for bound in self.bound_params]
        replay.add_launch(
            [rows for rows, _ in shapes], [columns for _, columns in shapes],
            [bound.first for bound in self.bound_params],
            [bound.key for bound in self.bound_params], self.rows,
            [address for addresses in self._pointers({}) for address in addresses],
            self.shardings, self._grads_at[0])

    def repeat(self, replay: _tandem.ReplayCache, number: int, on_device: bool) -> None:
        """Repeats the last step with new gradients, and new counts if the host has them."""
        self._bound = ()
        self.plan._native.update_replay(replay, number)
        if self.check:
            self.check.plan.update_gradients(replay, number)
        if self.spec.step and not on_device:
            self.table = [(group, step + 1, *rest) for (group, _, *rest), step
                          in zip(self.table, replay.steps(number), strict=True)]

    def find_non_finite(self, threads: int) -> bool:
        """Returns whether a gradient of the step is not finite; False if the optimizer does not
        check gradients."""
        found = bool(self.check and self.check.launch(threads))
        return self.exchange.any(found) if self.check and self.exchange else found

    def integers(self, step: int, seed: int) -> list[int]:
        """Returns the kernel's integer scalars in launch order."""
        return [seed if kind is RoleKind.SEED else step
                for kind in self.kernel.integers.values()]

    def check_scalars(self, hypers: Sequence[Sequence[float]],
                      integers: Sequence[Sequence[int]]) -> None:
        """Raises the errors that a launch would raise about its rows."""
        if self._model:
            return self._model.check_scalars(hypers, integers)
        if self._probe is None:
            self._probe = Plan(self.kernel)
            self._probe.set_external(dict.fromkeys(self.kernel.externals, lambda stream: None))
            self._probe.update([], [])
        self._probe.launch(hypers, integers, threads=1)


class Launches:
    """The launches of an optimizer, one for each spec.

    Args:
        specs: the optimizer's specs.
        checks: whether launches check gradients before they write.
        functions: the functions of external steps, by their names.
    """

    def __init__(self, specs: StateSpecs, checks: bool, functions: Mapping[str, External]):
        self._specs, self._checks, self._functions = specs, checks, functions
        self._launches: dict[StateSpec, Launch] = {}

    def __getitem__(self, spec: StateSpec) -> Launch:
        if spec not in self._launches:
            model = self[spec.on_cpu] if spec.on_cpu else None
            externals = Externals(spec, self._functions) if spec.kernel.externals else None
            self._launches[spec] = Launch(spec, model, self._checks, externals)
        return self._launches[spec]

    def __iter__(self) -> Iterator[Launch]:
        """Iterates over the launches that have been used, in the order of their specs, which all
        ranks share."""
        return iter([self._launches[spec] for spec in self._specs if spec in self._launches])
