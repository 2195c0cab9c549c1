"""The advice of a doctor: a strategy for each role of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tandem.torch._shards import local_of
from tandem.torch.optim.advice._measured import measured
from tandem.torch.optim.advice._roles import ROLES, SMALL_ROLES
from tandem.torch.optim.diagnosis._findings import Finding

if TYPE_CHECKING:
    from tandem.torch.optim.diagnosis._report import Doctor
    from tandem.torch.optim.diagnosis._shadows import Shadow

#: The ratio of bytes below which a change of the strategy is worth it.
WORTH = 0.97
#: The bounds of the run's change of weights, divided by its shadow's, beyond which a note says so.
AGREEMENT = (0.8, 1.25)


@dataclass(frozen=True)
class Choice:
    """The advice for the parameters of a role.

    Attributes:
        role: the role, as in :func:`tandem.torch.param_groups`.
        has: the strategies that the parameters have.
        need: "more" if what they have is too little for one of them, "less" if fewer bytes are
            enough, "the same", or "a longer look" if it is not clear whether it is too little.
        strategy: the strategy to use; None to keep what they have. Where more may be needed, it
            is one that is enough in no more bytes.
        bytes_now, bytes_then: bytes of weights, gradients and states on this rank.
        too_little: the parameters for which what they have is too little.
    """

    role: str
    has: tuple[str, ...]
    need: str
    strategy: str | None
    bytes_now: float
    bytes_then: float
    too_little: tuple[str, ...]


@dataclass(frozen=True)
class Advice:
    """The strategies to use, by role.

    Attributes:
        choices: what to do, for each role that the parameters have.
        strategies: the strategy of each role, in the form for
            :func:`tandem.torch.param_groups`. Roles that keep what PyTorch's optimizer stores have
            one that stores as much.
        code: Python code that creates the optimizer.
        notes: what the choices do not say, as sentences.
    """

    choices: tuple[Choice, ...]
    strategies: dict[str, str]
    code: str
    notes: tuple[str, ...]


def advise(doctor: Doctor) -> Advice:
    """Returns what to do about a doctor's findings."""
    roles = doctor.roles
    choices = tuple(_choice(doctor, role, [at for at, own in enumerate(roles) if own == role])
                    for role in ROLES if role in roles)
    strategies = {choice.role: choice.strategy or _equal(doctor, choice) for choice in choices}
    return Advice(choices, strategies, _code(doctor, choices, strategies),
                  tuple(_notes(doctor, choices)))


def _choice(doctor: Doctor, role: str, members: list[int]) -> Choice:
    """Returns what to do about the parameters of a role."""
    own, *others = doctor.shadows
    found = {at: doctor.finding(own, [at]) for at in members}
    names = doctor.names
    bad = tuple(names[at] for at, of in found.items() if of.verdict == "too little")
    has = tuple(dict.fromkeys(doctor.label(own, at) for at in members))
    now = _bytes(doctor, own, members)
    able = [(_bytes(doctor, shadow, members), shadow.name) for shadow in others
            if _is_enough(doctor, shadow, members)]
    # Small tensors take little memory, and matter for the model.
    able.sort(key=lambda one: -one[0] if role in SMALL_ROLES else one[0])
    if bad:
        best = able[0] if able else (now, None)
        return Choice(role, has, "more", best[1], now, best[0], bad)
    if doctor.finding(own, members).verdict == "unclear":
        then, name = able[0] if able and able[0][0] <= now else (now, None)
        return Choice(role, has, "a longer look", name, now, then, bad)
    if able and able[0][0] < WORTH * now and role not in SMALL_ROLES:
        return Choice(role, has, "less", able[0][1], now, able[0][0], bad)
    return Choice(role, has, "the same", None, now, now, bad)


def _bytes(doctor: Doctor, shadow: Shadow, members: list[int]) -> float:
    """Returns the bytes of parameters on this rank under a shadow's strategy."""
    per_element = shadow.bytes_of
    return sum(per_element[at] * local_of(doctor.params[at]).numel() for at in members)


def _is_enough(doctor: Doctor, shadow: Shadow, members: list[int]) -> bool:
    """Returns whether a strategy is enough for parameters together, and too little for none."""
    verdicts = {doctor.finding(shadow, [at]).verdict for at in members}
    together: Finding = doctor.finding(shadow, members)
    return together.verdict == "enough" and "too little" not in verdicts


#===------------------------------------------------------------------------===#
# The code to paste
#===------------------------------------------------------------------------===#


def _code(doctor: Doctor, choices: tuple[Choice, ...], strategies: dict[str, str]) -> str:
    """Returns Python code that creates the optimizer for a model called `model`."""
    if all(choice.strategy is None for choice in choices):
        return "# nothing to change"
    lines = ["groups = tandem.torch.param_groups(model, {",
             *(f'    "{role}": "{name}",' for role, name in strategies.items()), "})"]
    kind, options = doctor.class_name, _options(doctor)
    if any(name in measured() and measured()[name].stores_ratio for name in strategies.values()):
        options.append("stores_ratio=True")
    return "\n".join([*lines, f"optimizer = tandem.torch.{kind}(groups, {', '.join(options)})"])


def _equal(doctor: Doctor, choice: Choice) -> str:
    """Returns the strategy that stores what parameters have, or more where no strategy stores
    the same."""
    if choice.has[0] in measured():
        return choice.has[0]
    dtypes = {param.dtype for param, role in zip(doctor.params, doctor.roles)
              if role == choice.role}
    return "fp32" if dtypes == {torch.float32} else "remainder"


def _options(doctor: Doctor) -> list[str]:
    """Returns the hyperparameters of the first param group, as Python arguments."""
    group = doctor.options[0]
    names = [name for name in ("lr", "betas", "eps", "weight_decay", "momentum", "nesterov",
                               "alpha", "lr_decay", "max_norm") if name in group]
    # Schedulers keep the rate that they began with.
    values = {name: group.get(f"initial_{name}", group[name]) for name in names}
    found = [f"{name}={_text(value)}" for name, value in values.items()
             if value or name in ("weight_decay", "eps")]
    return [*found, *(['decay="before"'] if doctor.decays_before else [])]


def _text(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.item():g}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_text, value))})"
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _notes(doctor: Doctor, choices: tuple[Choice, ...]) -> list[str]:
    """Returns what the choices do not say."""
    notes = []
    for choice in choices:
        if choice.need == "more" and choice.strategy is None:
            notes.append(f"None of the compared strategies is enough for {choice.role}; pass "
                         "strategies=['remainder'], or watch more steps.")
        if choice.need == "a longer look" and choice.strategy is None:
            notes.append(f"Whether what {choice.role} have is enough is within the margin; watch "
                         "more steps, or a larger sample.")
    if not AGREEMENT[0] < doctor.agreement < AGREEMENT[1]:
        notes.append(f"The run's weights moved {doctor.agreement:.2f} times as far as its steps "
                     "explain: something other than the optimizer writes them, or the samples do "
                     "not represent the run.")
    groups = doctor.options
    if len(groups) > 1 and any(choice.strategy for choice in choices):
        notes.append(f"The optimizer has {len(groups)} param groups; the code has the options of "
                     "the first, so set those of the others again.")
    return notes
