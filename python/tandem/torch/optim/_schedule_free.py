"""Schedule-Free AdamW, whose average of weights replaces a schedule of the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch

from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim._library import _given, _Library
from tandem.torch.optim.state._averages import swapped_weights, write_weights
from tandem.torch.optim.state._matching import IncompatibleKeys
from tandem.torch.optim.state._weights import weight_of, whole_value

#: The entry of a parameter's state that has its weight of train mode, in state dicts of eval mode.
_WEIGHT = "train_weight"
#: The entries of a param group that steps change, and their first values.
_RUNNING = {"k": 0, "weight_sum": 0.0, "lr_max": -1.0, "scheduled_lr": 0.0}
#: Features of optimizers that this one lacks, and the reasons.
_REASONS = {
    "ema_decay": "it averages weights itself: see tandem.torch.averages",
    "gradient_release": "the share of a step in the average is that of all parameters of a group",
    "capturable": "the share of a step in the average is computed on the CPU",
}


class _ScheduleFreeHypers(Hypers):
    """The hyperparameters of Schedule-Free AdamW, two of which depend on earlier steps."""

    running = tuple(_RUNNING)

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name == "mixing":
            return _weight(group) / group["weight_sum"] if group["weight_sum"] else 0.0
        if name == "lr" and group["k"]:
            return group["scheduled_lr"]
        return super().value_at(name, group, index, step, dtype, shape)

    def check(self, group: Mapping, index: int) -> None:
        if not 0 < self.number("beta1", group, index) < 1:
            raise ValueError(f"betas[0] of param group {index} is {group['betas'][0]!r}; it must be "
                             "above 0 and below 1, since weights and their average are apart by it")
        for name, least in (("warmup_steps", 0), ("r", 0), ("weight_lr_power", 0)):
            if not self.number(name, group, index) >= least:
                raise ValueError(f"{name!r} of param group {index} is {group[name]!r}; it must be at "
                                 f"least {least}")


def _weight(group: Mapping) -> float:
    """Returns the weight of the current step in the average."""
    return group["k"] ** group["r"] * group["lr_max"] ** group["weight_lr_power"]


def _advance(group: dict) -> None:
    """Begins a step of a param group."""
    group["k"] += 1
    warm = min(group["k"] / group["warmup_steps"], 1.0) if group["warmup_steps"] else 1.0
    group["scheduled_lr"] = float(group["lr"]) * warm
    group["lr_max"] = max(group["scheduled_lr"], group["lr_max"])
    group["weight_sum"] += _weight(group)


def _keys(saved: Iterable[Mapping], own: Iterable[Mapping]) -> Iterable[int]:
    """Returns the key of each of an optimizer's parameters in a state dict: that of its name if
    both have names, and otherwise its position."""
    names, ours = ([name for group in groups for name in group.get("param_names", ())]
                   for groups in (saved, own))
    if names and ours:
        return [names.index(name) if name in names else -1 for name in ours]
    return range(sum(len(group["params"]) for group in own))


class AdamWScheduleFree(_Library):
    """Schedule-Free AdamW (Defazio et al. 2024), as ``schedulefree.AdamWScheduleFree``.

    A model is trained with one weight and evaluated with another, the average. The parameters
    hold the first in train mode, in which an optimizer begins, and the second after
    :meth:`eval`. :func:`averages` has the average in float32 in both.

    Args:
        lr: the learning rate, constant after ``warmup_steps``; 0.0025 by default.
        betas: the interpolation between average and base sequence (0.9), and the decay of the
            second moment (0.999).
        weight_decay: the decay at the weights of train mode, inside the update.
        warmup_steps: the number of steps over which the learning rate grows linearly.
        r: the power of the step in its weight in the average.
        weight_lr_power: the power of the maximum learning rate so far in a step's weight.
    """

    _HYPERS = _ScheduleFreeHypers
    #: The weights of train mode, in eval mode.
    _hidden: list[torch.Tensor] | None = None

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None,
                 warmup_steps: int = 0, r: float = 0.0, weight_lr_power: float = 2.0, **options):
        for option, reason in _REASONS.items():
            if options.get(option):
                raise ValueError(f"AdamWScheduleFree does not take {option}: {reason}")
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adamw_schedule_free", warmup_steps=warmup_steps, r=r,
                         weight_lr_power=weight_lr_power, **hypers, **options)

    def _defaults(self) -> dict:
        defaults = super()._defaults()
        del defaults["mixing"]
        return defaults | {"warmup_steps": 0, "r": 0.0, "weight_lr_power": 2.0,
                           "train_mode": True, **_RUNNING}

    #===--------------------------------------------------------------------===#
    # Steps
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """Updates every parameter that has a gradient, in train mode."""
        if self._hidden is not None:
            raise RuntimeError("the optimizer is in eval mode, in which parameters hold averages; "
                               "call optimizer.train() before a step")
        return super().step(closure)

    def _update(self) -> None:
        before = [{key: group[key] for key in _RUNNING} for group in self.param_groups]
        for group in self.param_groups:
            _advance(group)
        was_taken = False
        try:
            super()._update()
            was_taken = not (self._arguments["skip_nonfinite"] and self.skipped)
        finally:
            for group, values in zip(self.param_groups, () if was_taken else before):
                group.update(values)

    #===--------------------------------------------------------------------===#
    # Train and eval mode
    #===--------------------------------------------------------------------===#

    def eval(self) -> None:
        """Gives the parameters their averages, rounded to nearest, until :meth:`train`."""
        if self._hidden is None:
            self._enter_eval(swapped_weights(self))

    def train(self) -> None:
        """Gives the parameters the weights of train mode again, bit for bit."""
        if self._hidden is not None:
            write_weights(self._groups.params, self._hidden)
            self._hidden, self._store.shows_averages = None, False
            self._note_mode(True)

    def _enter_eval(self, hidden: list[torch.Tensor]) -> None:
        """Notes that parameters hold averages in place of these weights."""
        self._hidden, self._store.shows_averages = hidden, True
        self._note_mode(False)

    def _note_mode(self, is_training: bool) -> None:
        """Writes the mode to the param groups, as the package does: checkpoints then have it."""
        for group in self.param_groups:
            group["train_mode"] = is_training

    def _average_of(self, groups: ParamGroups, param: torch.Tensor,
                    state: Mapping | None) -> torch.Tensor:
        """Returns the average of a parameter, which the optimizer may not have or not have
        updated."""
        weight = weight_of(groups, param, state)
        spec = groups.spec_of(param)
        if spec is None or not state:
            return weight
        beta1 = float(groups.group_of(param)["betas"][0])
        offset = whole_value(spec.of_states, "offset", param, state)
        return weight.sub_(offset, alpha=(1 - beta1) / beta1)

    @contextmanager
    def _training(self) -> Iterator[None]:
        """Returns a context in train mode."""
        is_evaluating = self._hidden is not None
        self.train()
        try:
            yield
        finally:
            if is_evaluating:
                self.eval()

    #===--------------------------------------------------------------------===#
    # Checkpoints
    #===--------------------------------------------------------------------===#

    def state_dict(self) -> dict:
        """Returns the state dict. In eval mode it also has the weights of train mode, since the
        model's state dict has the averages then."""
        if self._hidden is None:
            return super().state_dict()
        hidden = self._hidden
        with self._training():
            state_dict = super().state_dict()
        states = {key: dict(state) for key, state in state_dict["state"].items()}
        for key, weight in enumerate(hidden):
            states.setdefault(key, {})[_WEIGHT] = weight
        groups = [group | {"train_mode": False} for group in state_dict["param_groups"]]
        return {**state_dict, "state": states, "param_groups": groups}

    def load_state_dict(self, state_dict: dict, strict: bool = True,
                        convert: bool = True) -> IncompatibleKeys | None:
        """Loads a state, and the mode that it was saved in. States of
        ``schedulefree.AdamWScheduleFree`` are those of train mode."""
        states = {key: dict(state) for key, state in state_dict["state"].items()}
        weights = {key: state.pop(_WEIGHT) for key, state in states.items() if _WEIGHT in state}
        weights = [weights.get(key) for key in _keys(state_dict["param_groups"], self.param_groups)]
        is_training = all(group.get("train_mode", True) for group in state_dict["param_groups"])
        groups = [group | {"train_mode": True} for group in state_dict["param_groups"]]
        if not is_training and None in weights:
            raise ValueError("the state dict was saved in eval mode and does not have the weights of "
                             "train mode; save the model and the optimizer after optimizer.train()")
        given = {**state_dict, "param_groups": groups,
                 "state": {key: state for key, state in states.items() if state}}
        was_evaluating = self._hidden is not None
        self.train()
        try:
            found = super().load_state_dict(given, strict, convert)
        except BaseException:
            if was_evaluating:
                self.eval()
            raise
        if not is_training:
            self._enter_eval([weight.to(param, copy=True)
                              for weight, param in zip(weights, self._groups.params)])
        return found

    def __getstate__(self) -> dict:
        if self._hidden is not None:
            raise RuntimeError("the optimizer is in eval mode; call optimizer.train() before it is "
                               "copied or pickled")
        return super().__getstate__()
