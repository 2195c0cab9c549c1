"""The states of an optimizer's parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import torch

from tandem.torch import _executor
from tandem.torch._layout import bits_of, is_placeholder
from tandem.torch._shards import local_of
from tandem.torch.optim import _notices, _wrappers
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim.state import _counters
from tandem.torch.optim.state._check import check_state
from tandem.torch.optim.state._checksum import is_other
from tandem.torch.optim.state._empty_step import EmptyStep
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import decode_weights, empty_state, encode_weights


class StateStore:
    """The states of an optimizer's parameters, which are created when they are first needed.

    Attributes:
        states: the state of each parameter, as torch.optim has them.
    """

    def __init__(self, groups: ParamGroups):
        self.states: defaultdict[torch.Tensor, dict] = defaultdict(dict)
        #: Whether parameters hold their averages, by :func:`averaged_weights`.
        self.shows_averages = False
        #: Whether state dicts have planes in types that collectives carry.
        self.packs = True
        self._groups = groups
        self._empty_step = EmptyStep()
        #: The checksums of the weights that loaded states complete, until a step has found them.
        self._expected: dict[torch.Tensor, list] = {}
        #: The parameters that a loaded state dict has no state for, although it has others.
        self._lacking: set[torch.Tensor] = set()

    def get(self, param: torch.Tensor) -> dict | None:
        """Returns the state of a parameter, or None if it has none."""
        return self.states.get(param)

    #===--------------------------------------------------------------------===#
    # Creation
    #===--------------------------------------------------------------------===#

    def starts(self, param: torch.Tensor) -> bool:
        """Returns whether :meth:`start` would create the state of a parameter."""
        return not self.states.get(param) or self._empty_step.has(param)

    def start(self, spec: StateSpec, param: torch.Tensor, started: list) -> dict | None:
        """Returns the state of a parameter, which is created if it has none or one from an empty
        step. Parameters whose state is new are added to `started`, and :meth:`finish` completes
        their states."""
        state = self.states.get(param)
        if state and self._empty_step.ends(param, state, lambda: self._groups.name(param)):
            state = None
            del self.states[param]
        if not state and spec.state_names:
            self._check_start(spec, param)
            state = self.states[param]
            state.update(empty_state(spec, param))
            if self._groups.is_capturable and spec.step:
                state[spec.step] = self._fresh_counter(spec, started)
            started.append(param)
            self._note_start(param)
        return state

    def finish(self, started: Iterable[torch.Tensor]) -> None:
        """Writes the codes of weights to the states of parameters that have just started."""
        kinds: dict[tuple, list[torch.Tensor]] = {}
        has_hidden = any(spec.hidden for spec in self._groups.specs)
        for param in started if has_hidden else ():
            spec = self._groups.spec_of(param)
            if spec.hidden:
                kinds.setdefault((spec, param.dtype), []).append(param)
        for (spec, _), params in kinds.items():
            encode_weights(spec, params, [self.states[param] for param in params])

    def _note_start(self, param: torch.Tensor) -> None:
        """Warns if a parameter starts anew although the states of others were loaded."""
        if param not in self._lacking:
            return
        self._lacking.discard(param)
        steps = max((int(state["step"]) for state in self.states.values() if "step" in state),
                    default=0)
        if steps:
            _notices.warn_of_start(self._groups.name(param), steps)

    def _check_start(self, spec: StateSpec, param: torch.Tensor) -> None:
        """Refuses to create a state where that would lose something."""
        if is_placeholder(param):
            raise RuntimeError(
                "the weights of a parameter were only in its state, which is "
                "gone; remove() what decode_weights returned before a parameter "
                "starts anew"
            )
        if self._groups.is_capturable and spec.executor.is_capturing:
            raise RuntimeError(
                "a parameter has no state yet, and a CUDA graph would begin it anew "
                "whenever it runs; take a step before the capture"
            )

    def _fresh_counter(self, spec: StateSpec, started: list) -> torch.Tensor:
        """Returns the count for parameters that start together on a GPU."""
        for param in started:
            if _executor.executor_of(param) is spec.executor:
                return self.states[param][spec.step]
        return _counters.new(0, spec.device)

    def begin(self, has_gradient: Callable[[torch.Tensor], bool]) -> None:
        """Creates the states of all parameters that have a gradient, as a step does, and changes
        nothing else. The first step creates them again."""
        started: list[torch.Tensor] = []
        try:
            for index, param, group in self._groups:
                if has_gradient(param):
                    spec = self._groups.checked(param, self._groups.label(index), group)
                    self.start(spec, param, started)
            self.finish(started)
        except BaseException:
            self.drop(started)
            raise
        for param in started:
            self._empty_step.note(param, self.states[param])

    def drop(self, params: Iterable[torch.Tensor]) -> None:
        """Removes the states of parameters."""
        for param in params:
            self.states.pop(param, None)

    def loaded(self) -> None:
        """Adopts states that have been loaded."""
        _counters.adopt(self._groups, self.states)
        self._empty_step.clear()
        self._expected = {}
        self._lacking = {param for param in self._groups.params
                         if self.states and not self.states.get(param)}

    def check_weights(self) -> None:
        """Refuses parameters that hold averages in place of their weights."""
        if self.shows_averages:
            raise RuntimeError("the parameters hold averages of their weights; leave the context of "
                               "averaged_weights before a step or a state dict of the optimizer")

    def expect(self, checksums: Mapping[torch.Tensor, list]) -> None:
        """Remembers the checksums of weights that loaded states complete, except for those of
        weights that are there already."""
        self._expected = {param: number for param, number in checksums.items()
                          if is_other(number, param)}

    def expected(self) -> dict[torch.Tensor, list]:
        """Returns the checksums of weights that have not been loaded yet."""
        return {param: number for param, number in self._expected.items()
                if self.states.get(param) and is_other(number, param)}

    def check_expected(self) -> None:
        """Refuses weights that loaded states do not complete."""
        for param, number in self._expected.items():
            if self.states.get(param) and is_other(number, param):
                raise RuntimeError(
                    f"the weight of {self._groups.name(param)} is not the one that its loaded "
                    "state completes; load the model's weights that were saved with it, or "
                    "start the parameter anew with opt.state.pop(p); load_state_dict("
                    "state_dict, strict=False) takes the state as it is")
        self._expected = {}

    #===--------------------------------------------------------------------===#
    # Weights that exist only in the state
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def start_hidden(self) -> set[torch.Tensor]:
        """Returns the parameters whose weights are in codes, after creating missing states."""
        hidden, started = set(), []
        for index, param, group in self._groups:
            if not param.requires_grad or not param.numel():
                continue
            label = self._groups.label(index)
            spec = self._groups.checked(param, label, group)
            if spec.hidden:
                _wrappers.refuse_flattened(param, label)
                self.start(spec, param, started)
                hidden.add(param)
        self.finish(started)
        return hidden

    @torch.no_grad()
    def decode_weight(self, param: torch.Tensor) -> torch.Tensor:
        """Returns the decoded weight of a parameter in new memory."""
        spec = self._hidden_spec(param)
        return decode_weights(spec, [self.states[param]], param.dtype)[0]

    @torch.no_grad()
    def encode_weight(self, param: torch.Tensor) -> None:
        """Encodes a parameter's value as its weight, unless they are already equal."""
        if not torch.equal(bits_of(self.decode_weight(param)), bits_of(param)):
            encode_weights(self._hidden_spec(param), [param], [self.states[param]])

    def _hidden_spec(self, param: torch.Tensor) -> StateSpec:
        """Returns the spec of a parameter whose weight is in codes, after checking its state."""
        label = self._groups.name(param)
        spec = self._groups.spec_for(param, label, self._groups.group_of(param))
        check_state(spec, self.states.get(param) or {}, param, label)
        return spec

    #===--------------------------------------------------------------------===#
    # Bytes
    #===--------------------------------------------------------------------===#

    def bytes_of(self, param: torch.Tensor) -> dict[str, int]:
        """Returns the bytes of a parameter's state: "weights" for its weight, and "states"."""
        total, spec = {"weights": 0, "states": 0}, self._groups.spec_of(param)
        for name, plane in self.states.get(param, {}).items():
            if isinstance(plane, torch.Tensor) and name not in self._groups.specs.counts:
                part = "weights" if spec and spec.is_weight(name) else "states"
                total[part] += local_of(plane).nbytes
        return total
