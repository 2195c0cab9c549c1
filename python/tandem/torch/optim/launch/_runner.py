"""Steps of an optimizer: the kernels to run and their memory."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import torch

from tandem import _tandem
from tandem._messages import renamed
from tandem._param_planes import sums_over_model
from tandem.torch._dynamo import uncompiled
from tandem.torch._exchange import Exchange
from tandem.torch._shards import dtensor_class, is_dtensor, local_of, shard_of
from tandem.torch._versions import increment_versions
from tandem.torch.optim import _notices, _wrappers
from tandem.torch.optim._groups import (ParamGroups, check_head_dim, check_options, draws,
                                         refuse_to_maximize)
from tandem.torch.optim.gradients._coded import CodedGradients
from tandem.torch.optim.launch._bound import BoundParam, bind, kind_of
from tandem.torch.optim.launch._device_step import DeviceStep
from tandem.torch.optim.launch._launch import Launch, Launches
from tandem.torch.optim.launch._meshes import check_meshes
from tandem.torch.optim.state import _counters
from tandem.torch.optim.state._sharding import asks_ranks, place_of
from tandem.torch.optim.state._store import StateStore
from tandem.torch.optim.state._values import decode_weights


class SharedParams(NamedTuple):
    """The parameters about which ranks exchange words before a step, by process group."""

    trained: tuple[bool, ...]  #: whether each parameter requires a gradient
    #: the index and the parameter of those that ranks gather or encode together
    gathered: dict[object, list[tuple[int, torch.Tensor]]]
    #: the parameters that kernels sum over shards
    summed: dict[object, list[torch.Tensor]]


class StepRunner:
    """Takes the steps of an optimizer.

    Args:
        groups: the optimizer's param groups.
        store: its states.
        gradients: its gradients in codes.

    Attributes:
        threads: the number of threads; 0 means ``torch.get_num_threads()``.
        measured: the launches of the last step; None if it was skipped.
        skip_exchange: the exchange with ranks that update other parameters about skipping a step,
            if there are such ranks.
        grad_scale: the scale of gradients in this step, as torch.amp.GradScaler passes it.
        found_inf: what it has found, if it has looked at the gradients.
    """

    def __init__(self, groups: ParamGroups, store: StateStore, gradients: CodedGradients):
        self.groups, self.store, self.gradients = groups, store, gradients
        self.threads = 0
        self._launches = Launches(groups.specs, groups.arguments["skip_nonfinite"],
                                  groups.arguments["external"])
        self._device_step = DeviceStep()
        self._bound: list[BoundParam | None] = []
        #: A binding of each kind of plain parameters whose states are new in the step that is
        #: prepared.
        self._kinds: dict[tuple, BoundParam] = {}
        #: The parameters about which ranks exchange words before a step, once known.
        self._gathered: SharedParams | None = None
        #: Detects whether a step repeats the last one, and has the launches of that step.
        self._replay: _tandem.ReplayCache | None = None
        self._running: list[Launch] = []
        #: Whether the last step was skipped, if the host knows.
        self._skipped = False
        self.skip_exchange: Exchange | None = None
        #: Whether steps have found no gradient so far.
        self._is_idle = True
        #: The identities of the parameters with a state and of their states, and the addresses of
        #: all planes, when the parameters were bound. Nothing here owns a state between steps, so
        #: that one that is replaced is freed.
        self._states: list[int] = []
        self._addresses: list[int] = []
        self.measured: list[Launch] | None = None
        self.grad_scale: torch.Tensor | None = None
        self.found_inf: torch.Tensor | None = None

    @property
    def skipped(self) -> bool:
        """Whether the last step was skipped; on a GPU this waits for the step."""
        return self._device_step.skipped if self.groups.is_capturable else self._skipped

    #===--------------------------------------------------------------------===#
    # Param groups
    #===--------------------------------------------------------------------===#

    def check_group(self, index: int) -> None:
        """Refuses parameters that no kernel updates, and scalars out of their domain."""
        groups, group = self.groups, self.groups.list[index]
        groups.hypers.check_flags(group, index)
        check_options(group, index)
        if groups.specs.can_join_rows:
            check_head_dim(group, index)
        specs = groups.of_group(index)
        if draws(specs):
            group.setdefault("seed", groups.seed)
        for param in group["params"]:
            if param.requires_grad:
                spec = groups.checked(param, groups.label(param), group)
                if group["maximize"]:
                    refuse_to_maximize(spec, index)
        for launch in (self._launches[spec] for spec in specs):
            row = groups.hypers.row(launch.kernel.hypers, group, index, 1,
                                    launch.spec.dtypes[0])
            with self.explained(launch, [index]):
                launch.check_scalars([row], [launch.integers(1, 0)])
        groups.hypers.check(group, index)

    def check_changes(self) -> None:
        """Checks groups whose options have changed since the last check."""
        if self.groups.has_changed():
            self.groups.check_changes(self.check_group, self._has_planes)
            self.forget()

    def _has_planes(self, param: torch.Tensor) -> bool:
        """Returns whether a parameter has a state or a gradient in codes."""
        return bool(self.store.get(param)) or self.gradients.get(param) is not None

    #===--------------------------------------------------------------------===#
    # A step
    #===--------------------------------------------------------------------===#

    @uncompiled
    def update(self, only: torch.Tensor | None = None) -> None:
        """Takes the step of all parameters that have a gradient, or of only one of them."""
        started: list[torch.Tensor] = []
        filled: list[torch.Tensor] = []
        self.store.check_weights()
        try:
            if only is None:
                self.check_changes()
                self._fill_absent(filled)
            self._unscale()
            if (only is None and self._replay is not None
                    and self._replay.read(self.groups.list, self.store.states)):
                self._repeat()
            else:
                self.store.check_expected()
                self._run(started, only)
        except BaseException:
            self._end(started)
            raise
        finally:
            for param in filled:
                param.grad = None

    def forget(self) -> None:
        """Forgets all bound parameters, so that the next step binds them again."""
        self._bound, self._replay, self._gathered = [], None, None
        for launch in self._launches:
            launch.release_states()

    def _run(self, started: list[torch.Tensor], only: torch.Tensor | None) -> None:
        """Runs one step, and adds the parameters whose state is new to `started`."""
        self._replay, self._kinds = None, {}
        for launch in self._launches:
            launch.clear()
        if self.groups.is_capturable:
            _counters.part(self.groups, self.store.states, self.gradients.has)
        if only is None:
            with _paused_collector(self.groups.count):
                converted = self._collect(started)
        else:
            converted = self._collect_one(only, started)
        launches = self._running = [launch for launch in self._launches if launch.bound_params]
        self._check_model(launches)
        if not launches and self._is_idle:
            _notices.warn_of_no_gradient(self.groups.params)
        self._is_idle = False
        copies = {
            bound.index: bound.staged()
            for launch in launches for bound in launch.bound_params if bound.copied
        }
        for launch in launches:
            with self.explained(launch):
                launch.update_plan({i: c.data_ptr() for i, c in copies.items()}, self.groups.list)
        new = set(map(id, started))
        begun = [bound for launch in launches if launch.spec.has_copy
                 for bound in launch.bound_params if id(bound.param) in new]
        self._finish(launches, self._launch(launches, begun, copies), copies)
        if self._skipped and started:
            self._end(started)
        elif (only is None and launches and not converted and not copies
              and not any(launch.externals for launch in launches)):
            self._replay = self._watched(launches)
        for launch in launches:
            launch.release_states()
            if launch.externals:
                launch.externals.end()
        del converted  # the kernels have read them

    def _end(self, started: list[torch.Tensor]) -> None:
        """Removes states that were created in a step that failed without changing anything."""
        self.forget()
        self.store.drop(started)

    def _settle(self, begun: list[BoundParam], copies: dict[int, torch.Tensor]) -> None:
        """Sets parameters whose codes are new to the decoded values, so that the step starts
        from the codes. All checks that can refuse the step have run."""
        kinds: dict[tuple, list[BoundParam]] = {}
        for bound in begun:
            kinds.setdefault((bound.spec.of_states, bound.dtype), []).append(bound)
        for (spec, dtype), members in kinds.items():
            weights = decode_weights(spec, [bound.state for bound in members], dtype, self.threads)
            for bound, weight in zip(members, weights):
                spec.executor.call(lambda bound=bound, weight=weight: bound.take(weight))
                if (copy := copies.get(bound.index)) is not None:
                    spec.executor.call(lambda to=copy, weight=weight: to.copy_(weight))

    def _repeat(self) -> None:
        """Repeats the last step with other gradients."""
        for number, launch in enumerate(self._running):
            with self.explained(launch):
                launch.repeat(self._replay, number, self.groups.is_capturable)
        self._finish(self._running, self._launch(self._running, [], {}), {})

    def _watched(self, launches: list[Launch]) -> _tandem.ReplayCache | None:
        """Returns a cache that detects whether only gradients change in the next step, if
        possible."""
        if (not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
                or self._shared.gathered  # ranks exchange which gradients they have
                or any(launch.spec.hidden or launch.spec.encodes for launch in launches)):
            return None
        count = "" if self.groups.is_capturable else launches[0].spec.step or ""
        replay, places = _tandem.ReplayCache(torch.Tensor, dtensor_class(), count), {}
        for number, launch in enumerate(launches):
            launch.watch(replay)
            places |= {bound.index: (number, at) for at, bound in enumerate(launch.bound_params)}
        try:
            for index, param in enumerate(self.groups.params):
                if index in places:
                    self._bound[index].watch(replay, *places[index], self.groups.is_capturable)
                else:
                    replay.add_idle(param)
        except (BufferError, RuntimeError):
            return None  # DLPack does not support such tensors
        replay.set_states(self.groups.list, self.store.states)
        return replay

    def _check_model(self, launches: list[Launch]) -> None:
        """Refuses several launches if the graph sums over the model."""
        kernel = self.groups.specs.main.kernel
        if len(launches) < 2 or not sums_over_model(kernel):
            return
        one, other = (launch.bound_params[0] for launch in launches[:2])
        if one.spec.executor is not other.spec.executor:
            raise ValueError(
                f"{kernel.name} sums over all parameters, but {other.label} is on "
                f"{other.param.device} and others are on {one.param.device}; keep "
                "all of them on one device"
            )
        raise ValueError(f"{kernel.name} sums over all parameters, but "
                         + _difference(other, one))

    #===--------------------------------------------------------------------===#
    # Collecting the parameters and gradients of a step
    #===--------------------------------------------------------------------===#

    def _collect(self, started) -> list[torch.Tensor]:
        """Fills the launches, and returns the gradients that had to be converted."""
        converted: list[torch.Tensor] = []
        index, bound_params, has_new = -1, self._current_params(), False
        self._check_gathered()
        for number, group in enumerate(self.groups.list):
            known, row = None, 0
            negated = _negated(group["params"]) if group["maximize"] else None
            for param in group["params"]:
                index += 1
                if not self.gradients.has(param):
                    continue
                bound = bound_params[index]
                if bound is None or bound.group != number or not bound.is_current(param):
                    bound_params[index] = bound = self._bind(index, number, param, started)
                    has_new = True
                bound.state = self.store.get(param)
                grad = self._gradient_of(bound, number, negated, converted)
                launch, step = self._enlist(bound, grad, converted)
                shape = self.groups.hypers.shape_of(bound.whole_shape)
                if (launch, step, bound.dtype, shape) != known:
                    known = launch, step, bound.dtype, shape
                    row = launch.row(number, step, bound.dtype, shape)
                launch.rows.append(row)
        self.store.finish(started)
        for launch in self._launches:
            launch.encode_enlisted()
        if has_new:
            self._states = self._identities()
            self._addresses = self._plane_addresses()
        return converted

    def _collect_one(self, param: torch.Tensor, started) -> list[torch.Tensor]:
        """Collects the gradient of one parameter, whose binding is not kept for later
        steps."""
        converted: list[torch.Tensor] = []
        index, number = self.groups.position_of(param)
        bound = self._bind(index, number, param, started)
        negated = _negated([param]) if self.groups.list[number]["maximize"] else None
        grad = self._gradient_of(bound, number, negated, converted)
        launch, step = self._enlist(bound, grad, converted)
        shape = self.groups.hypers.shape_of(bound.whole_shape)
        launch.rows.append(launch.row(number, step, bound.dtype, shape))
        self.store.finish(started)
        launch.encode_enlisted()
        return converted

    def _check_gathered(self) -> None:
        """Raises an error on all ranks if some have no gradient for a parameter that all gather
        or encode together, because the others would wait for them. On GPUs the process group's
        timeout ends the wait instead."""
        for group, params in self._shared.gathered.items():
            Exchange([group]).check(self.groups.specs.main.kernel.name, [
                (index, self.gradients.has(param)) for index, param in params])

    def _fill_absent(self, filled: list[torch.Tensor]) -> None:
        """Gives shards that have no gradient one of zeros if those of other ranks have one, and
        adds them to `filled`. Ranks add up the squares of all shards together, and the gradient of
        an expert may be absent on ranks where no token went to it."""
        for group, params in self._shared.summed.items():
            device = local_of(params[0]).device
            flags = Exchange([group], device).any_of(map(self.gradients.has, params))
            for param in (param for param, found in zip(params, flags)
                          if found and not self.gradients.has(param)):
                param.grad = torch.zeros_like(param)
                filled.append(param)

    @property
    def _shared(self) -> SharedParams:
        """The parameters about which ranks exchange words before a step."""
        if dtensor_class() is None:
            return SharedParams((), {}, {})
        trained = tuple(param.requires_grad for param in self.groups.params)
        if self._gathered is None or self._gathered.trained != trained:
            self._gathered = self._find_shared(trained)
        return self._gathered

    def _find_shared(self, trained: tuple[bool, ...]) -> SharedParams:
        """Returns the parameters that ranks gather, encode or sum together, by process group."""
        found = SharedParams(trained, {}, {})
        for index, param, group in self.groups:
            shard = shard_of(param) if param.requires_grad else None
            if shard is None or self.groups.specs.of(param, group) is None:
                continue
            spec = self.groups.spec_of_step(param, group)
            if param.is_cpu and asks_ranks(spec, shard):
                found.gathered.setdefault(shard.group, []).append((index, param))
            elif self._launches[spec].sums and place_of(spec, shard)[1] is not None:
                found.summed.setdefault(shard.group, []).append(param)
        if found.summed and sums_over_model(self.groups.specs.main.kernel):
            check_meshes(self.groups)
        return found

    def _gradient_of(self, bound: BoundParam, number: int, negated: dict | None,
                     converted: list) -> torch.Tensor | None:
        """Returns the gradient that a step of a param group uses instead of p.grad; `negated`
        has the negated gradients of a group that maximizes."""
        if negated is not None:
            refuse_to_maximize(bound.spec, number)
            converted.append(negated[id(bound.param)])
        grad = bound.param.grad if negated is None else converted[-1]
        if bound.shard is None or grad is None:
            return grad
        _wrappers.check_placements(grad, bound.shard, bound.label)
        if not bound.gathers:
            return local_of(grad)
        converted.append(bound.shard.gather(grad))
        return converted[-1]

    def _enlist(self, bound: BoundParam, grad: torch.Tensor | None,
                converted: list) -> tuple[Launch, int]:
        """Adds a bound parameter and its gradient to the launch of its kernel.

        Returns the kernel's launch, and the step as :meth:`_next_step` gives it.
        """
        launch = self._launches[bound.spec]
        if bound.spec.encodes:
            addresses = self._encoded(launch, bound, grad, converted)
        else:
            address = bound.address_of(grad)
            if address is None:
                converted.append(bound.plane_of(grad))
                address = converted[-1].data_ptr()
            addresses = (address,)
        launch.bound_params.append(bound)
        launch.grads.append(addresses)
        return launch, self._next_step(launch, bound)

    def _next_step(self, launch: Launch, bound: BoundParam) -> int:
        """Returns the number of the step that a bound parameter takes. If only the GPU
        knows the number, returns the identity of the tensor that counts the steps."""
        if not bound.spec.step:
            return 1
        count = bound.state[bound.spec.step]
        if not self.groups.is_capturable:
            return int(count) + 1
        launch.counters[id(count)] = count
        return id(count)

    def _encoded(self, launch: Launch, bound: BoundParam, grad, converted: list) -> tuple[int, ...]:
        """Returns the addresses of a gradient's planes. A gradient in p.grad is added to the
        gradients that the step will encode."""
        if grad is not None:
            planes = launch.enlist_grad(bound, grad)
            converted += planes
        else:
            planes = self.gradients.get(bound.param)
            if bound.gathers:
                planes = [bound.shard.gather(bound.shard.like(plane)) for plane in planes]
                converted += planes
            launch.note_history(bound, self.gradients.history_of(bound.param))
        return tuple(plane.data_ptr() for plane in planes)

    def _current_params(self) -> list[BoundParam | None]:
        """Returns the binding of each parameter, None for one that has yet to be bound.
        If a state or a plane has been replaced, all are to be bound again."""
        try:
            same = (self._identities() == self._states
                    and self._plane_addresses() == self._addresses)
        except (KeyError, TypeError):
            same = False  # a plane is missing; binding reports which
        if not same:
            self._bound = []
        self._bound += [None] * (self.groups.count - len(self._bound))
        return self._bound

    def _identities(self) -> list[int]:
        """Returns the identities of the parameters with a state, and of their states."""
        states = self.store.states
        return [*map(id, states), *map(id, states.values())]

    def _plane_addresses(self) -> list[int]:
        """Returns the current addresses of the planes of all bound parameters."""
        planes = [bound.planes(self.store.get(bound.param)) for bound in self._bound
                  if bound and bound.planes]
        return [local_of(plane).data_ptr() for plane in chain.from_iterable(planes)]

    def _bind(self, index: int, number: int, param: torch.Tensor, started: list) -> BoundParam:
        """Binds a parameter of a param group to its memory. Its state starts here if it
        has none."""
        operand = self.groups.operands.get(id(param))
        kind = None if operand else kind_of(param, number)
        first = self._kinds.get(kind)
        if first is not None and self.store.starts(param):
            state = self.store.start(first.spec.of_states, param, started)
            bound = first.again(index, param, state)
        else:
            group, label = self.groups.list[number], self.groups.label
            spec = self.groups.checked(param, label(index), group)
            state = self.store.start(spec, param, started)
            of_step = self.groups.spec_of_step(param, group)
            bound = bind(of_step, index, number, param, state, label,
                         operand if of_step.operand_planes else None)
            if kind is not None and started and started[-1] is param:
                self._kinds[kind] = bound
        bound.key = self.groups.keys.get(id(param), index)
        return bound

    #===--------------------------------------------------------------------===#
    # Launches
    #===--------------------------------------------------------------------===#

    def _launch(self, launches: list[Launch], begun: list[BoundParam],
                copies: dict[int, torch.Tensor]) -> bool:
        """Runs the kernels, after all checks that can refuse the step.

        Returns whether the step has been skipped, as far as the host knows.
        """
        if self.groups.is_capturable:
            self._settle(begun, copies)
            for launch in launches:
                for operand in launch.operands:
                    operand.settle()
            self._device_step.run(self, launches)
            return False
        threads = self.threads or torch.get_num_threads()
        scalars = [self._scalars(launch) for launch in launches]
        for launch, given in zip(launches, scalars):
            launch.check_ranks(given)
        for launch, given in zip(launches, scalars):
            if len(launches) > 1 or launch.check or begun:
                with self.explained(launch):
                    launch.check_scalars(*given)
        found = any([launch.find_non_finite(threads) for launch in launches])
        self._skipped = self.skip_exchange.any(found) if self.skip_exchange else found
        if self._skipped:
            return True
        self._settle(begun, copies)
        for launch, given in zip(launches, scalars):
            with self.explained(launch):
                launch.executor.launch(launch.plan, *given, threads)
            launch.keep_histories()
        return False

    def _scalars(self, launch: Launch) -> tuple[list[list[float]], list[list[int]]]:
        """Returns the rows of hyperparameters and integers that the launch's parameters use."""
        groups, hypers = self.groups.list, self.groups.hypers
        for index in dict.fromkeys(row[0] for row in launch.table):
            hypers.check(groups[index], index)
        rows = [hypers.row(launch.kernel.hypers, groups[row[0]], *row) for row in launch.table]
        integers = [
            launch.integers(step, int(groups[group].get("seed", 0)))
            for group, step, *_ in launch.table
        ]
        return rows, integers

    @contextmanager
    def explained(self, launch: Launch, groups: list[int] | None = None) -> Iterator[None]:
        """Returns a context that rewrites the runtime's errors in terms of parameters and param
        groups, by default those of the launch's rows."""
        try:
            yield
        except ValueError as error:
            groups = groups or [row[0] for row in launch.table]
            raise ValueError(_explain(error, groups, launch.bound_params)) from None

    def _finish(self, launches: list[Launch], skipped: bool,
                copies: dict[int, torch.Tensor]) -> None:
        """Counts the step, and tells autograd that the weights have changed."""
        for number, launch in enumerate(launches):
            if not skipped:
                self._count(number, launch)
                self._write_back(launch, copies)
            if launch.spec.encodes:
                self.gradients.finish(bound.param for bound in launch.bound_params)
            increment_versions(launch.params)
            for operand in () if skipped else launch.operands:
                operand.publish()
        self.measured = None if skipped else launches

    def _count(self, number: int, launch: Launch) -> None:
        """Stores the number of steps, if the host counts them."""
        if not launch.spec.step or self.groups.is_capturable:
            return
        steps = [step for _, step, *_ in launch.table]
        if self._replay is not None:
            self._replay.store(number, steps)
            return
        for bound, row in zip(launch.bound_params, launch.rows):
            bound.state[launch.spec.step] = steps[row]

    def _write_back(self, launch: Launch, copies: dict[int, torch.Tensor]) -> None:
        """Updates parameters from copies that kernels have written."""
        for bound in launch.bound_params if copies else ():
            if bound.copied:
                copy = copies[bound.index]
                launch.executor.call(lambda bound=bound, copy=copy: bound.take(copy))

    #===--------------------------------------------------------------------===#
    # Scaled gradients
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def _unscale(self) -> None:
        """Divides gradients by the scale that torch.amp.GradScaler passes."""
        if (scale := self.grad_scale) is None:
            return
        kinds: dict[tuple, list[torch.Tensor]] = {}
        for param in self.groups.params:
            if param.grad is not None:
                key = param.grad.device, param.grad.dtype
                kinds.setdefault(key, []).append(local_of(param.grad))
        inverse = scale.double().reciprocal().float()
        for (device, _), grads in kinds.items():
            torch._amp_foreach_non_finite_check_and_unscale_(
                grads, torch.zeros_like(self.found_inf, device=device),
                inverse.to(device, non_blocking=True))


@contextmanager
def _paused_collector(count: int) -> Iterator[None]:
    """Returns a context in which thousands of parameters are bound without collections of garbage.
    The first step creates a state for each and no garbage, and collections would take as long as
    all of the rest."""
    pauses = count > 1000 and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


def _difference(bound: BoundParam, first: BoundParam) -> str:
    """Returns why two bound parameters have different specs, and how to give them
    the same one."""
    if bound.dtype != first.dtype:
        return (f"{bound.label} is {bound.dtype} and others are {first.dtype}; give all "
                "of them one type, or choose a strategy that keeps weights in f32")
    if bound.spec.hidden != first.spec.hidden:
        decoded, other = (bound, first) if bound.spec.hidden else (first, bound)
        return (f"{decoded.label} is decoded on demand and {other.label} is not; pass "
                "decode_weights a model that has all of them")
    one, other = (s.spec.kernel.strategy for s in (bound, first))
    return (f"{bound.label} is under strategy {one!r} and others are under {other!r}; "
            "give all param groups one")


def _explain(error: ValueError, groups: list[int], bound_params: list[BoundParam]) -> str:
    """Returns the runtime's message in terms of param groups and parameters."""
    return renamed(error, {"row": lambda row: f"param group {groups[row]}",
                           "tensor": lambda tensor: bound_params[tensor].label})


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
