"""Steps of an optimizer: the kernels to run and their memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from operator import is_

import torch

from tandem import _tandem
from tandem._messages import renamed
from tandem._param_planes import sums_over_model
from tandem.torch import _executor
from tandem.torch._exchange import Exchange
from tandem.torch._layout import is_placeholder
from tandem.torch._shards import dtensor_class, local_of, shard_of
from tandem.torch._versions import increment_versions
from tandem.torch.optim import _counters, _notices, _wrappers
from tandem.torch.optim._binding import KernelBinding, ParamBinding


class Steps:
    """The part of :class:`Optimizer` that runs a step."""

    @torch._disable_dynamo
    def _update(self, only: torch.Tensor | None = None) -> None:
        """Takes the step of all parameters that have a gradient, or of only one of them."""
        started: list[torch.Tensor] = []
        try:
            if only is None:
                self._check_changes()
            self._unscale()
            if (only is None and self._replay is not None
                    and self._replay.read(self.param_groups, self.state)):
                self._repeat()
            else:
                self._run(started, only)
        except BaseException:
            self._end(started)
            raise

    def _forget(self) -> None:
        """Forgets all bound parameters, so that the next step binds them again."""
        self._bound, self._replay, self._gathered = [], None, None

    def _run(self, started: list[torch.Tensor], only: torch.Tensor | None) -> None:
        """Runs one step, and adds the parameters whose state is new to `started`."""
        self._replay = None
        for binding in self._bindings:
            binding.clear()
        if self.capturable:
            _counters.part(self)
        converted = (self._collect(started) if only is None
                     else self._collect_one(only, started))
        bindings = self._running = [binding for binding in self._bindings if binding.bound_params]
        self._check_model(bindings)
        if not bindings and self._is_idle:
            _notices.warn_of_no_gradient(list(self._params()))
        self._is_idle = False
        copies = {
            bound.index: bound.staged()
            for binding in bindings for bound in binding.bound_params if bound.copied
        }
        for binding in bindings:
            with self._explained(binding):
                binding.update_plan({i: c.data_ptr() for i, c in copies.items()})
        new = set(map(id, started))
        begun = [bound for binding in bindings if binding.has_copy for bound in binding.bound_params
                 if id(bound.param) in new]
        self._finish(bindings, self._launch(bindings, begun, copies), copies)
        if self._skipped and started:
            self._end(started)
        elif only is None and bindings and not converted and not copies:
            self._replay = self._watched(bindings)
        del converted  # the kernels have read them

    def _end(self, started: list[torch.Tensor]) -> None:
        """Removes states that were created in a step that failed without changing anything."""
        self._forget()
        for param in started:
            self.state.pop(param, None)

    def _settle(self, begun: list[ParamBinding], copies: dict[int, torch.Tensor]) -> None:
        """Sets parameters whose codes are new to the decoded values, so that the step starts
        from the codes. All checks that can refuse the step have run."""
        for bound in begun:
            states = bound.binding.of_states
            weight, = states.decode_weights([bound.state], bound.dtype, self.threads)
            bound.binding.executor.call(lambda bound=bound, weight=weight: bound.take(weight))
            if (copy := copies.get(bound.index)) is not None:
                bound.binding.executor.call(lambda to=copy, weight=weight: to.copy_(weight))

    def _repeat(self) -> None:
        """Repeats the last step with other gradients."""
        for number, binding in enumerate(self._running):
            with self._explained(binding):
                binding.repeat(self._replay, number, self.capturable)
        self._finish(self._running, self._launch(self._running, [], {}), {})

    def _watched(self, bindings: list[KernelBinding]) -> _tandem.ReplayCache | None:
        """Returns a cache that detects whether only gradients change in the next step, if
        possible."""
        if (not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
                or self._gathered[1]  # ranks exchange which gradients they have
                or any(binding.hidden or binding.encodes for binding in bindings)):
            return None
        count = "" if self.capturable else bindings[0].step or ""
        replay, places = _tandem.ReplayCache(torch.Tensor, dtensor_class(), count), {}
        for number, binding in enumerate(bindings):
            binding.watch(replay)
            places |= {bound.index: (number, at) for at, bound in enumerate(binding.bound_params)}
        try:
            for index, param in enumerate(self._params()):
                if index in places:
                    self._bound[index].watch(replay, *places[index], self.capturable)
                else:
                    replay.add_idle(param)
        except (BufferError, RuntimeError):
            return None  # DLPack does not support such tensors
        replay.set_states(self.param_groups, self.state)
        return replay

    def _check_model(self, bindings: list[KernelBinding]) -> None:
        """Refuses several bindings if the graph sums over the model, since each binding is a
        launch."""
        if len(bindings) > 1 and sums_over_model(self.kernel):
            bound_params = [binding.bound_params[0] for binding in bindings]
            label, (one, other) = bound_params[1].label, bound_params[:2]
            if bindings[0].executor is not bindings[1].executor:
                raise ValueError(
                    f"{self.kernel.name} sums over all parameters, but {label} is on "
                    f"{other.param.device} and others are on {one.param.device}; keep "
                    "all of them on one device"
                )
            raise ValueError(
                f"{self.kernel.name} sums over all parameters, but "
                + self._difference(other, one)
            )

    @staticmethod
    def _difference(bound: ParamBinding, first: ParamBinding) -> str:
        """Returns why two bound parameters have different kernel bindings, and how to give them
        the same one."""
        if bound.dtype != first.dtype:
            return (f"{bound.label} is {bound.dtype} and others are {first.dtype}; give all "
                    "of them one type, or choose a strategy that keeps weights in f32")
        if bound.binding.hidden != first.binding.hidden:
            decoded, other = (bound, first) if bound.binding.hidden else (first, bound)
            return (f"{decoded.label} is decoded on demand and {other.label} is not; pass "
                    "decode_weights a model that has all of them")
        one, other = (s.binding.kernel.strategy for s in (bound, first))
        return (f"{bound.label} is under strategy {one!r} and others are under {other!r}; "
                "give all param groups one")

    def _collect(self, started) -> list[torch.Tensor]:
        """Fills the bindings, and returns the gradients that had to be converted."""
        converted: list[torch.Tensor] = []
        index, bound_params, has_new = -1, self._current_params(), False
        self._check_gathered()
        for number, group in enumerate(self.param_groups):
            known, row = None, 0
            negated = self._negated(group["params"]) if group["maximize"] else None
            for param in group["params"]:
                index += 1
                if not self._has_gradient(param):
                    continue
                bound = bound_params[index]
                if bound is None or bound.group != number or not bound.is_current(param):
                    bound_params[index] = bound = self._bind(index, number, param, started)
                    has_new = True
                grad = self._gradient_of(bound, number, negated, converted)
                binding, step = self._enlist(bound, grad, converted)
                if (binding, step, bound.dtype) != known:
                    known = binding, step, bound.dtype
                    row = binding.row(number, step, bound.dtype)
                binding.rows.append(row)
        for binding in self._bindings:
            binding.encode_enlisted()
        if has_new:
            self._states = [*self.state, *self.state.values()]
            self._addresses = self._plane_addresses()
        return converted

    def _collect_one(self, param: torch.Tensor, started) -> list[torch.Tensor]:
        """Collects the gradient of one parameter, whose binding is not kept for later
        steps."""
        converted: list[torch.Tensor] = []
        index, number = self._position_of(param)
        bound = self._bind(index, number, param, started)
        negated = self._negated([param]) if self.param_groups[number]["maximize"] else None
        grad = self._gradient_of(bound, number, negated, converted)
        binding, step = self._enlist(bound, grad, converted)
        binding.rows.append(binding.row(number, step, bound.dtype))
        binding.encode_enlisted()
        return converted

    def _check_gathered(self) -> None:
        """Raises an error on all ranks if some have no gradient for a parameter that all gather
        or encode together, because the others would wait for them. On GPUs the process group's
        timeout ends the wait instead."""
        if self._gathered is None or len(self._gathered[0]) != sum(
                len(group["params"]) for group in self.param_groups):
            self._gathered = self._find_gathered()
        for group, params in self._gathered[1].items():
            Exchange([group]).check(self.kernel.name, [
                (index, self._has_gradient(param)) for index, param in params])

    def _find_gathered(self) -> tuple[list, dict]:
        """Returns all parameters, and, for each process group, those that ranks gather or encode
        together, by index."""
        found: dict = {}
        params = list(self._grouped())
        for index, param, group in params:
            shard = shard_of(param) if param.requires_grad and param.is_cpu else None
            if shard is not None and self._bindings.of(param, group).asks_ranks(shard):
                found.setdefault(shard.group, []).append((index, param))
        return params, found

    def _has_gradient(self, param: torch.Tensor) -> bool:
        return param.grad is not None or self._gradients.get(param) is not None

    def _gradient_of(self, bound: ParamBinding, number: int, negated: dict | None,
                     converted: list) -> torch.Tensor | None:
        """Returns the gradient that a step of a param group uses instead of p.grad; `negated`
        has the negated gradients of a group that maximizes."""
        if negated is not None:
            self._refuse_to_maximize(bound.binding, number)
            converted.append(negated[id(bound.param)])
        grad = bound.param.grad if negated is None else converted[-1]
        if bound.shard is None or grad is None:
            return grad
        _wrappers.check_placements(grad, bound.shard, bound.label)
        if not bound.gathers:
            return local_of(grad)
        converted.append(bound.shard.gather(grad))
        return converted[-1]

    def _enlist(self, bound: ParamBinding, grad: torch.Tensor | None,
                converted: list) -> tuple[KernelBinding, int]:
        """Adds a bound parameter and its gradient to the launch of its kernel.

        Returns the kernel's binding, and the step as :meth:`_next_step` gives it.
        """
        binding = bound.binding
        if binding.encodes:
            addresses = self._encoded(bound, grad, converted)
        else:
            address = bound.address_of(grad)
            if address is None:
                converted.append(bound.plane_of(grad))
                address = converted[-1].data_ptr()
            addresses = (address,)
        binding.bound_params.append(bound)
        binding.grads.append(addresses)
        return binding, self._next_step(binding, bound)

    def _next_step(self, binding: KernelBinding, bound: ParamBinding) -> int:
        """Returns the number of the step that a bound parameter takes. If only the GPU
        knows the number, returns the identity of the tensor that counts the steps."""
        if not binding.step:
            return 1
        count = bound.state[binding.step]
        if not self.capturable:
            return int(count) + 1
        binding.counters[id(count)] = count
        return id(count)

    def _encoded(self, bound: ParamBinding, grad, converted: list) -> tuple[int, ...]:
        """Returns the addresses of a gradient's planes. A gradient in p.grad is added to the
        gradients that the step will encode."""
        if grad is not None:
            planes = bound.binding.enlist_grad(bound, grad)
            converted += planes
        else:
            planes = self._gradients.get(bound.param)
            bound.binding.note_history(bound, self._gradients.history_of(bound.param))
        return tuple(plane.data_ptr() for plane in planes)

    def _current_params(self) -> list[ParamBinding | None]:
        """Returns the binding of each parameter, None for one that has yet to be bound.
        If a state or a plane has been replaced, all are to be bound again."""
        states = [*self.state, *self.state.values()]
        same = len(states) == len(self._states) and all(map(is_, states, self._states))
        try:
            same = same and self._plane_addresses() == self._addresses
        except (KeyError, TypeError):
            same = False  # a plane is missing; binding reports which
        if not same:
            self._bound = []
        count = sum(len(group["params"]) for group in self.param_groups)
        self._bound += [None] * (count - len(self._bound))
        return self._bound

    def _plane_addresses(self) -> list[int]:
        """Returns the current addresses of the planes of all bound parameters."""
        planes = [s.planes(s.state) for s in self._bound if s and s.planes]
        return [local_of(plane).data_ptr() for plane in chain.from_iterable(planes)]

    def _bind(self, index: int, number: int, param: torch.Tensor, started: list) -> ParamBinding:
        """Binds a parameter of a param group to its memory. Its state starts here if it
        has none."""
        label = self._label(index)
        group = self.param_groups[number]
        state = self._start(self._check_param(param, label, group), param, started)
        binding = self._bindings.of_step(param, group)
        bound = binding.bind(index, number, param, state, label)
        bound.key = self._indices.get(id(param), index)
        return bound

    def _start(self, binding: KernelBinding, param: torch.Tensor, started: list) -> dict | None:
        """Returns the state of a parameter, which is created if it has none or one from an empty
        step."""
        state = self.state.get(param)
        if state and self._empty_step.ends(param, state, lambda: self._name(param)):
            state = None
            del self.state[param]
        if not state and binding.state_names:
            if is_placeholder(param):
                raise RuntimeError(
                    "the weights of a parameter were only in its state, which is "
                    "gone; remove() what decode_weights returned before a parameter "
                    "starts anew"
                )
            if self.capturable and binding.executor.is_capturing:
                raise RuntimeError(
                    "a parameter has no state yet, and a CUDA graph would begin it anew "
                    "whenever it runs; take a step before the capture"
                )
            state = self.state[param]
            state.update(binding.initial_state(param))
            if self.capturable and binding.step:
                state[binding.step] = self._fresh_counter(binding, started)
            started.append(param)
        return state

    def _begin_states(self) -> None:
        """Creates the states of all parameters that have a gradient, as a step does, and changes
        nothing else."""
        started: list[torch.Tensor] = []
        try:
            for index, param, group in self._grouped():
                if self._has_gradient(param):
                    binding = self._check_param(param, self._label(index), group)
                    self._start(binding, param, started)
        except BaseException:
            for param in started:
                self.state.pop(param, None)
            raise
        for param in started:
            self._empty_step.note(param, self.state[param])

    def _fresh_counter(self, binding: KernelBinding, started: list) -> torch.Tensor:
        """Returns the count for parameters that start together on a GPU."""
        for param in started:
            if _executor.executor_of(param) is binding.executor:
                return self.state[param][binding.step]
        return _counters.new(0, binding.device)

    #===--------------------------------------------------------------------===#
    # Launches
    #===--------------------------------------------------------------------===#

    def _launch(self, bindings: list[KernelBinding], begun: list[ParamBinding],
                copies: dict[int, torch.Tensor]) -> bool:
        """Runs the kernels, after all checks that can refuse the step.

        Returns whether the step has been skipped, as far as the host knows.
        """
        if self.capturable:
            self._settle(begun, copies)
            self._device_step.run(self, bindings)
            return False
        threads = self.threads or torch.get_num_threads()
        scalars = [self._scalars(binding) for binding in bindings]
        for binding, given in zip(bindings, scalars):
            binding.check_ranks(given)
        for binding, given in zip(bindings, scalars):
            if len(bindings) > 1 or binding.check or begun:
                with self._explained(binding):
                    binding.check_scalars(*given)
        found = any([binding.find_non_finite(threads) for binding in bindings])
        self._skipped = self._skip_exchange.any(found) if self._skip_exchange else found
        if self._skipped:
            return True
        self._settle(begun, copies)
        for binding, given in zip(bindings, scalars):
            with self._explained(binding):
                binding.executor.launch(binding.plan, *given, threads)
            binding.keep_histories()
        return False

    def _scalars(self, binding: KernelBinding) -> tuple[list[list[float]], list[list[int]]]:
        """Returns the rows of hyperparameters and integers that the binding's parameters use."""
        hypers = [self._row(binding, *row) for row in binding.table]
        integers = [
            binding.integers(step, int(self.param_groups[group].get("seed", 0)))
            for group, step, _ in binding.table
        ]
        return hypers, integers

    @contextmanager
    def _explained(self, binding: KernelBinding, groups: list[int] | None = None) -> Iterator[None]:
        """Returns a context that rewrites the runtime's errors in terms of parameters and param
        groups, by default those of the binding's rows."""
        try:
            yield
        except ValueError as error:
            groups = groups or [row[0] for row in binding.table]
            raise ValueError(self._explain(error, groups, binding.bound_params)) from None

    @staticmethod
    def _explain(error: ValueError, groups: list[int], bound_params: list[ParamBinding]) -> str:
        """Returns the runtime's message in terms of param groups and parameters."""
        return renamed(error, {"row": lambda row: f"param group {groups[row]}",
                               "tensor": lambda tensor: bound_params[tensor].label})

    def _finish(self, bindings: list[KernelBinding], skipped: bool,
                copies: dict[int, torch.Tensor]) -> None:
        """Counts the step, and tells autograd that the weights have changed."""
        for number, binding in enumerate(bindings):
            if not skipped:
                self._count(number, binding)
                self._write_back(binding, copies)
            if binding.encodes:
                self._gradients.finish(bound.param for bound in binding.bound_params)
            increment_versions(binding.params)
        self._measured = None if skipped else bindings

    def _count(self, number: int, binding: KernelBinding) -> None:
        """Stores the number of steps, if the host counts them."""
        if not binding.step or self.capturable:
            return
        steps = [step for _, step, _ in binding.table]
        if self._replay is not None:
            self._replay.store(number, steps)
            return
        for bound, row in zip(binding.bound_params, binding.rows):
            bound.state[binding.step] = steps[row]

    def _write_back(self, binding: KernelBinding, copies: dict[int, torch.Tensor]) -> None:
        """Updates parameters from copies that kernels have written."""
        for bound in binding.bound_params if copies else ():
            if bound.copied:
                copy = copies[bound.index]
                binding.executor.call(lambda bound=bound, copy=copy: bound.take(copy))

    #===--------------------------------------------------------------------===#
    # Scaled gradients
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def _unscale(self) -> None:
        """Divides gradients by the scale that torch.amp.GradScaler passes."""
        scale = getattr(self, "grad_scale", None)
        if scale is None:
            return
        kinds: dict[tuple, list[torch.Tensor]] = {}
        for param in self._params():
            if param.grad is not None:
                key = param.grad.device, param.grad.dtype
                kinds.setdefault(key, []).append(local_of(param.grad))
        inverse = scale.double().reciprocal().float()
        for (device, _), grads in kinds.items():
            torch._amp_foreach_non_finite_check_and_unscale_(
                grads, torch.zeros_like(self.found_inf, device=device),
                inverse.to(device, non_blocking=True))
