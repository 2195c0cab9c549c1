"""Steps of an optimizer: which kernels run over which memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from operator import is_

import torch

from tandem import _tandem
from tandem.torch import _counters, _notices, _place
from tandem.torch._lane import Lane, Slot, check_grad
from tandem.torch._lanes import sums_over_model
from tandem.torch._layout import is_placeholder, laid_out


class Steps:
    """What :class:`Optimizer` does in a step."""

    @torch._disable_dynamo
    def _update(self, only: torch.Tensor | None = None) -> None:
        """Steps of all parameters that have a gradient, or of one of them."""
        started: list[torch.Tensor] = []
        try:
            if only is None:
                self._check_changes()
            self._unscale()
            if (only is None and self._steady is not None
                    and self._steady.read(self.param_groups, self.state)):
                self._repeat()
            else:
                self._run(started, only)
        except BaseException:
            self._forget()
            for param in started:
                self.state.pop(param, None)
            raise

    def _forget(self) -> None:
        """Has the next step look at everything anew."""
        self._slots, self._steady = [], None

    def _run(self, started: list[torch.Tensor], only: torch.Tensor | None) -> None:
        """One step; `started` gets the parameters whose state is new."""
        self._steady = None
        for lane in self._lanes:
            lane.clear()
        if self.capturable:
            _counters.part(self)
        converted = (self._collect(started) if only is None
                     else self._collect_one(only, started))
        lanes = self._running = [lane for lane in self._lanes if lane.slots]
        self._check_model(lanes)
        if not lanes and self._is_idle:
            _notices.warn_of_no_gradient(list(self._params()))
        self._is_idle = False
        copies = {
            slot.index: laid_out(slot.param, slot.like, slot.dtype)
            for lane in lanes for slot in lane.slots if slot.copied
        }
        for lane in lanes:
            with self._explained(lane):
                lane.update_plan({i: c.data_ptr() for i, c in copies.items()})
        self._settle(lanes, started, copies)
        self._finish(lanes, self._launch(lanes), copies)
        if only is None and lanes and not converted and not copies:
            self._steady = self._watched(lanes)
        del converted  # the kernels have read them

    def _settle(self, lanes: list[Lane], started: list[torch.Tensor],
                copies: dict[int, torch.Tensor]) -> None:
        """Gives parameters whose codes begin here what these decode to, so that the step
        starts from the codes; before that, all that can be refused is."""
        new = set(map(id, started))
        begun = [slot for lane in lanes if lane.has_copy for slot in lane.slots
                 if id(slot.param) in new]
        for lane in lanes if begun and not self.capturable else ():
            with self._explained(lane):
                lane.check_scalars(*self._scalars(lane))
        for slot in begun:
            weight, = slot.lane.of_states.decode_weights([slot.state], slot.dtype, self.threads)
            for to in filter(lambda to: to is not None, (slot.param, copies.get(slot.index))):
                slot.lane.place.call(lambda to=to, weight=weight: to.copy_(weight))

    def _repeat(self) -> None:
        """The last step again, over other gradients."""
        for number, lane in enumerate(self._running):
            with self._explained(lane):
                lane.repeat(self._steady, number, self.capturable)
        self._finish(self._running, self._launch(self._running), {})

    def _watched(self, lanes: list[Lane]) -> _tandem.Steady | None:
        """What can tell that only gradients are others in the next step."""
        if (not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
                or any(lane.hidden or lane.encodes for lane in lanes)):
            return None
        count = "" if self.capturable else lanes[0].step or ""
        steady, places = _tandem.Steady(torch.Tensor, count), {}
        for number, lane in enumerate(lanes):
            lane.watch(steady)
            places |= {slot.index: (number, at) for at, slot in enumerate(lane.slots)}
        try:
            for index, param in enumerate(self._params()):
                if index in places:
                    self._slots[index].watch(steady, *places[index], self.capturable)
                else:
                    steady.add_idle(param)
        except (BufferError, RuntimeError):
            return None  # DLPack does not know such tensors
        steady.set_states(self.param_groups, self.state)
        return steady

    def _check_model(self, lanes: list[Lane]) -> None:
        """Refuses to sum over a part of the model: each lane is a launch."""
        if len(lanes) > 1 and sums_over_model(self.kernel):
            slots = [lane.slots[0] for lane in lanes]
            label, (one, other) = slots[1].label, slots[:2]
            if lanes[0].place is not lanes[1].place:
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
    def _difference(slot: Slot, first: Slot) -> str:
        """Why a slot is not in another one's lane, and what to do about it."""
        if slot.dtype != first.dtype:
            return (f"{slot.label} is {slot.dtype} and others are {first.dtype}; give all "
                    "of them one type, or choose a strategy that keeps weights in f32")
        if slot.lane.hidden != first.lane.hidden:
            decoded, other = (slot, first) if slot.lane.hidden else (first, slot)
            return (f"{decoded.label} is decoded on demand and {other.label} is not; pass "
                    "decode_weights a model that has all of them")
        one, other = (s.lane.kernel.strategy for s in (slot, first))
        return (f"{slot.label} is under strategy {one!r} and others are under {other!r}; "
                "give all param groups one")

    def _collect(self, started) -> list[torch.Tensor]:
        """Fills the lanes, and returns the gradients that had to be converted."""
        converted: list[torch.Tensor] = []
        index, slots, bound = -1, self._current_slots(), False
        for number, group in enumerate(self.param_groups):
            known, row = None, 0
            negated = self._negated(group["params"]) if group["maximize"] else None
            for param in group["params"]:
                index += 1
                if not self._has_gradient(param):
                    continue
                slot = slots[index]
                if slot is None or slot.group != number or not slot.is_current(param):
                    slots[index] = slot = self._bind(index, number, param, started)
                    bound = True
                grad = self._gradient_of(slot, number, negated, converted)
                lane, step = self._enlist(slot, grad, converted)
                if (lane, step, slot.dtype) != known:
                    known = lane, step, slot.dtype
                    row = lane.row(number, step, slot.dtype)
                lane.rows.append(row)
        if bound:
            self._states = [*self.state, *self.state.values()]
            self._addresses = self._plane_addresses()
        return converted

    def _collect_one(self, param: torch.Tensor, started) -> list[torch.Tensor]:
        """The same for one parameter, whose slot is not kept."""
        converted: list[torch.Tensor] = []
        index, number = self._position_of(param)
        slot = self._bind(index, number, param, started)
        negated = self._negated([param]) if self.param_groups[number]["maximize"] else None
        grad = self._gradient_of(slot, number, negated, converted)
        lane, step = self._enlist(slot, grad, converted)
        lane.rows.append(lane.row(number, step, slot.dtype))
        return converted

    def _has_gradient(self, param: torch.Tensor) -> bool:
        return param.grad is not None or self._gradients.get(param) is not None

    def _gradient_of(self, slot: Slot, number: int, negated: dict | None,
                     converted: list) -> torch.Tensor | None:
        """What a step of a param group takes for p.grad; `negated` has what it maximizes
        by, if it does."""
        if negated is None:
            return slot.param.grad
        self._refuse_to_maximize(slot.lane, number)
        converted.append(negated[id(slot.param)])
        return converted[-1]

    def _enlist(self, slot: Slot, grad: torch.Tensor | None,
                converted: list) -> tuple[Lane, int]:
        """Adds a parameter with its gradient to its lane; also the step it takes."""
        lane = slot.lane
        if lane.encodes:
            planes = None if grad is not None else self._gradients.get(slot.param)
            addresses = self._encoded(slot, grad, planes, converted)
        else:
            address = slot.address_of(grad)
            if address is None:
                converted.append(slot.plane_of(grad))
                address = converted[-1].data_ptr()
            addresses = (address,)
        lane.slots.append(slot)
        lane.grads.append(addresses)
        return lane, self._next_step(lane, slot)

    def _next_step(self, lane: Lane, slot: Slot) -> int:
        """The number of the step that the slot takes; what stands for it where only the
        GPU knows."""
        if not lane.step:
            return 1
        count = slot.state[lane.step]
        if not self.capturable:
            return int(count) + 1
        lane.counters[id(count)] = count
        return id(count)

    @staticmethod
    def _encoded(slot: Slot, grad, planes, converted: list) -> tuple[int, ...]:
        """Where the planes of a gradient are; one in p.grad is encoded first."""
        if grad is not None:
            check_grad(grad, slot.param, lambda: slot.label)
            planes = slot.lane.encode_grad(grad, slot.like, None, slot.state)
            converted += planes
        return tuple(plane.data_ptr() for plane in planes)

    def _current_slots(self) -> list[Slot | None]:
        """A slot per parameter; none if a state or a plane has been replaced."""
        states = [*self.state, *self.state.values()]
        same = len(states) == len(self._states) and all(map(is_, states, self._states))
        try:
            same = same and self._plane_addresses() == self._addresses
        except (KeyError, TypeError):
            same = False  # a plane is gone; binding says which
        if not same:
            self._slots = []
        count = sum(len(group["params"]) for group in self.param_groups)
        self._slots += [None] * (count - len(self._slots))
        return self._slots

    def _plane_addresses(self) -> list[int]:
        """Where the planes of all slots are now."""
        planes = [s.planes(s.state) for s in self._slots if s and s.planes]
        return list(map(torch.Tensor.data_ptr, chain.from_iterable(planes)))

    def _bind(self, index: int, number: int, param: torch.Tensor, started: list) -> Slot:
        """A slot for the parameter of a param group, whose state starts here if it has
        none."""
        label = self._label(index)
        group = self.param_groups[number]
        state = self._start(self._check_param(param, label, group), param, started)
        lane = self._lanes.of_step(param, group)
        return lane.bind(index, number, param, state, label)

    def _start(self, lane: Lane, param: torch.Tensor, started: list) -> dict | None:
        """The state of a parameter, which starts here if it has none."""
        state = self.state.get(param)
        if not state and lane.state_names:
            if is_placeholder(param):
                raise RuntimeError(
                    "the weights of a parameter were in its state alone, which is "
                    "gone; remove() what decode_weights returned before a parameter "
                    "starts anew"
                )
            if self.capturable and lane.place.is_capturing:
                raise RuntimeError(
                    "a parameter has no state yet, and a CUDA graph would begin it anew "
                    "whenever it runs; take a step before the capture"
                )
            state = self.state[param]
            state.update(lane.initial_state(param))
            if self.capturable and lane.step:
                state[lane.step] = self._fresh_counter(lane, started)
            started.append(param)
        return state

    def _fresh_counter(self, lane: Lane, started: list) -> torch.Tensor:
        """The count of the parameters that start together on a GPU."""
        for param in started:
            if _place.place_of(param) is lane.place:
                return self.state[param][lane.step]
        return _counters.new(0, lane.device)

    #===--------------------------------------------------------------------===#
    # Launches
    #===--------------------------------------------------------------------===#

    def _launch(self, lanes: list[Lane]) -> bool:
        """Runs the kernels; all that can be refused is, before the first writes.

        Returns whether the step has been skipped, as far as the host knows.
        """
        if self.capturable:
            self._device_step.run(self, lanes)
            return False
        threads = self.threads or torch.get_num_threads()
        scalars = [self._scalars(lane) for lane in lanes]
        for lane, given in zip(lanes, scalars):
            if len(lanes) > 1 or lane.check:
                with self._explained(lane):
                    lane.check_scalars(*given)
        self._skipped = any([lane.find_non_finite(threads) for lane in lanes])
        if self._skipped:
            return True
        for lane, given in zip(lanes, scalars):
            with self._explained(lane):
                lane.place.launch(lane.plan, *given, threads)
        return False

    def _scalars(self, lane: Lane) -> tuple[list[list[float]], list[list[int]]]:
        """The rows of hyperparameters and integers that the lane's parameters use."""
        hypers = [self._row(lane, *row) for row in lane.table]
        integers = [
            lane.integers(step, int(self.param_groups[group].get("seed", 0)))
            for group, step, _ in lane.table
        ]
        return hypers, integers

    @contextmanager
    def _explained(self, lane: Lane, groups: list[int] | None = None) -> Iterator[None]:
        """Says what the runtime refuses in terms of param groups, by default those of the
        lane's rows, and parameters."""
        try:
            yield
        except ValueError as error:
            groups = groups or [row[0] for row in lane.table]
            raise ValueError(self._explain(error, groups, lane.slots)) from None

    @staticmethod
    def _explain(error: ValueError, groups: list[int], slots: list[Slot]) -> str:
        """The runtime's message in terms of param groups and parameters."""
        names = {"row": lambda row: f"param group {groups[row]}",
                 "tensor": lambda tensor: slots[tensor].label}
        return "".join(names[kind](index) if kind in names else text
                       for kind, index, text in getattr(error, "parts", [("text", 0, str(error))]))

    def _finish(self, lanes: list[Lane], skipped: bool,
                copies: dict[int, torch.Tensor]) -> None:
        """Counts the step, and tells autograd that the weights have changed."""
        for number, lane in enumerate(lanes):
            if not skipped:
                self._count(number, lane)
                self._write_back(lane, copies)
            if lane.encodes:
                self._gradients.finish(slot.param for slot in lane.slots)
            torch.autograd.graph.increment_version(lane.params)
        self._measured = None if skipped else lanes

    def _count(self, number: int, lane: Lane) -> None:
        """Stores how many steps there have been, where the host counts them."""
        if not lane.step or self.capturable:
            return
        steps = [step for _, step, _ in lane.table]
        if self._steady is not None:
            self._steady.store(number, steps)
            return
        for slot, row in zip(lane.slots, lane.rows):
            slot.state[lane.step] = steps[row]

    def _write_back(self, lane: Lane, copies: dict[int, torch.Tensor]) -> None:
        """Gives parameters what kernels have written elsewhere."""
        for slot in lane.slots if copies else ():
            if slot.copied:
                copy = copies[slot.index]
                lane.place.call(lambda slot=slot, copy=copy: slot.param.copy_(copy))

    #===--------------------------------------------------------------------===#
    # Gradients under a scale
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def _unscale(self) -> None:
        """Divides gradients by the scale that torch.amp.GradScaler hands over."""
        scale = getattr(self, "grad_scale", None)
        if scale is None:
            return
        kinds: dict[tuple, list[torch.Tensor]] = {}
        for param in self._params():
            if param.grad is not None:
                key = param.grad.device, param.grad.dtype
                kinds.setdefault(key, []).append(param.grad)
        inverse = scale.double().reciprocal().float()
        for (device, _), grads in kinds.items():
            torch._amp_foreach_non_finite_check_and_unscale_(
                grads, torch.zeros_like(self.found_inf, device=device),
                inverse.to(device, non_blocking=True))
