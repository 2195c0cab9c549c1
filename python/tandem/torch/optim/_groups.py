"""Param groups: their strategies, storages and names, and the spec of each parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import torch

from tandem._convert import CPU
from tandem._plane import RoleKind
from tandem.torch import _executor
from tandem.torch._layout import is_placeholder, may_overlap
from tandem.torch._shards import local_of
from tandem.torch.optim import _wrappers
from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._operand import Operand
from tandem.torch.optim.advice._recommend import AUTO
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._specs import StateSpecs

#: Options of a param group that select the kernel for its parameters and its inputs.
OPTIONS = ("strategy", "min_8bit_size", "min_8bit_vector_size", "maximize")
#: These, and the options of groups of some optimizers, which select the graph for their parameters
#: and the rows that it sees.
SELECTING = (*OPTIONS, "use_muon", "head_dim")


def check_options(group: Mapping, index: int) -> None:
    """Refuses invalid values of these options."""
    strategy, maximize = group.get("strategy"), group.get("maximize")
    if not isinstance(strategy, str):
        raise TypeError(f"strategy of param group {index} must be a strategy's name, got "
                        f"{strategy!r}")
    if strategy == AUTO:
        raise ValueError(f"strategy of param group {index} is 'auto', which AdamW and Adam take "
                         "for all groups together: AdamW(..., strategy='auto', memory='24GiB'); "
                         "name one here, as tandem.torch.recommend does")
    for name in ("min_8bit_size", "min_8bit_vector_size"):
        size = group.get(name)
        if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
            raise TypeError(f"{name} of param group {index} must be a number of "
                            f"elements, or None for none, got {size!r}")
        if size is not None and size < 0:
            raise ValueError(f"{name} of param group {index} is {size}; it must be at "
                             "least 0, which stands for no bound")
    if not isinstance(maximize, bool):
        raise TypeError(f"maximize of param group {index} must be True or False, got "
                        f"{maximize!r}")


def check_head_dim(group: Mapping, index: int) -> None:
    """Refuses a number of rows of attention heads that does not divide matrices."""
    rows = group.get("head_dim")
    if rows is None:
        return
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise ValueError(f"head_dim of param group {index} is {rows!r}; it must be the number of "
                         "rows of an attention head, or None")
    for param in group["params"]:
        if param.dim() > 1 and len(param) % rows:
            raise ValueError(
                f"param group {index} has head_dim={rows} and a parameter of the shape "
                f"{tuple(param.shape)}, whose {len(param)} rows are not a multiple of it; give "
                "the parameter a param group of its own, with head_dim=None")


def draws(specs: Iterable[StateSpec]) -> bool:
    """Returns whether kernels round stochastically."""
    return any(kind is RoleKind.SEED for spec in specs
               for kind in spec.kernel.integers.values())


class Label:
    """The name of a parameter for messages, which is spelled only if there is one: finding it
    looks at all groups before the parameter's."""

    __slots__ = ("_groups", "_param")

    def __init__(self, groups: list[dict], param: torch.Tensor | int):
        self._groups, self._param = groups, param

    def __str__(self) -> str:
        index = 0
        for group in self._groups:
            for at, param in enumerate(group["params"]):
                is_here = (index == self._param if isinstance(self._param, int)
                           else param is self._param)
                if is_here:
                    names = group.get("param_names", ())
                    return f"parameter {index}" + (f" ({names[at]!r})" if names else "")
                index += 1
        return f"parameter {self._param}"


class ParamGroups:
    """The param groups of an optimizer, and how each of their parameters is stored.

    Attributes:
        list: the param groups, as torch.optim has them.
        specs: the specs of the groups' strategies.
        hypers: the groups' hyperparameters.
        arguments: the arguments that the optimizer was created with.
        operands: the operands that steps write in addition to weights, by the parameters'
            identities.
        keys: the numbers for random bits of parameters, by identity, in an optimizer that this
            one is a part of; empty in others, where a parameter's index is its number.
    """

    def __init__(self, specs: StateSpecs, hypers: Hypers, arguments: Mapping):
        self.list: list[dict] = []
        self.specs, self.hypers, self.arguments = specs, hypers, arguments
        self.operands: dict[int, Operand] = {}
        self.keys: dict[int, int] = {}
        #: The index of each parameter's group and its position there, by the parameter's
        #: identity.
        self._positions: dict[int, tuple[int, int]] = {}
        #: Groups by their identity, and their options when they were last read.
        self._noted: dict[int, tuple[dict, tuple]] = {}

    @property
    def is_capturable(self) -> bool:
        """Whether a CUDA graph can capture steps."""
        return self.arguments["capturable"]

    @property
    def releases(self) -> bool:
        """Whether backward passes take steps and release gradients."""
        return self.arguments["gradient_release"]

    @property
    def seed(self) -> int:
        """The seed for groups without their own."""
        seed = self.arguments["seed"]
        if not -(2**63) <= seed < 2**63:
            raise ValueError(f"seed {seed} does not fit in 64 bits; take a smaller")
        return seed

    #===--------------------------------------------------------------------===#
    # Parameters
    #===--------------------------------------------------------------------===#

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor, dict]]:
        """Iterates over the index of each parameter, the parameter, and its group."""
        index = 0
        for group in self.list:
            for param in group["params"]:
                yield index, param, group
                index += 1

    @property
    def params(self) -> list[torch.Tensor]:
        """All parameters."""
        return [*chain.from_iterable(group["params"] for group in self.list)]

    @property
    def count(self) -> int:
        """The number of parameters."""
        return sum(len(group["params"]) for group in self.list)

    @property
    def strategies(self) -> list[str]:
        """The strategy of each group."""
        return [group["strategy"] for group in self.list]

    def _position(self, param: torch.Tensor) -> tuple[int, int] | None:
        """Returns the index of a parameter's group and its position there, or None if no group
        has the parameter."""
        position = self._positions.get(id(param))
        if position is None or not self._is_at(param, *position):
            self._positions = {id(p): (number, at) for number, group in enumerate(self.list)
                               for at, p in enumerate(group["params"])}
            position = self._positions.get(id(param))
        return position

    def _is_at(self, param: torch.Tensor, number: int, at: int) -> bool:
        """Returns whether a group still has the parameter at this position."""
        groups = self.list
        return (number < len(groups) and at < len(groups[number]["params"])
                and groups[number]["params"][at] is param)

    def position_of(self, param: torch.Tensor) -> tuple[int, int]:
        """Returns the index of a parameter and that of its group."""
        number, at = self._position(param)
        return sum(len(group["params"]) for group in self.list[:number]) + at, number

    def place_in_group(self, param: torch.Tensor) -> int:
        """Returns the position of a parameter in its group."""
        return self._position(param)[1]

    def group_of(self, param: torch.Tensor) -> dict | None:
        """Returns the group of a parameter, or None if no group has it."""
        position = self._position(param)
        return self.list[position[0]] if position else None

    def label(self, param: torch.Tensor | int) -> Label:
        """Returns the name of a parameter, or of the one with this index, for messages."""
        return Label(self.list, param)

    def name(self, param: torch.Tensor) -> str:
        """Returns the name of a parameter for messages."""
        return str(Label(self.list, param))

    def key(self, param: torch.Tensor) -> str:
        """Returns the name of a parameter, or its label if it has none."""
        group = self.group_of(param)
        names = group.get("param_names", ())
        return names[self.place_in_group(param)] if names else self.name(param)

    #===--------------------------------------------------------------------===#
    # Specs
    #===--------------------------------------------------------------------===#

    def spec_of(self, param: torch.Tensor) -> StateSpec | None:
        """Returns the spec of a parameter, or None if there is none."""
        group = self.group_of(param)
        return self.specs.of(param, group) if group else None

    def spec_of_step(self, param: torch.Tensor, group: Mapping) -> StateSpec:
        """Returns the spec for a step of a parameter that has one. It writes no operand of a
        weight that is only in codes."""
        operand = None if is_placeholder(param) else self.operands.get(id(param))
        return self.specs.of_step(param, group, operand and operand.storage,
                                  self.hypers.exchange_of(group))

    def spec_for(self, param: torch.Tensor, label: object, group: Mapping) -> StateSpec:
        """Returns the spec for a parameter of a param group, or raises the reason why there is
        none."""
        if group.get("use_muon") and param.dim() < 2:
            raise ValueError(
                f"{label} has the shape {tuple(param.shape)}, and its param group use_muon=True, but "
                "only matrices can be orthogonalized: give it to a group with use_muon=False, or, "
                "if a framework has flattened it (FSDP1, DeepSpeed's ZeRO), shard the model with "
                "fully_shard")
        spec = self.specs.of(param, group)
        if spec is None:
            raise self.specs.refusal(param, label, group["strategy"])
        return spec

    def of_group(self, index: int) -> list[StateSpec]:
        """Returns the specs of a group's own strategy, and raises an error if it does not
        exist."""
        try:
            return self.specs.of_strategy(self.list[index]["strategy"])
        except ValueError as error:
            raise ValueError(f"the strategy of param group {index}: {error}") from None

    def checked(self, param: torch.Tensor, label: object, group: Mapping) -> StateSpec:
        """Returns the parameter's spec, or raises the reason why it cannot be updated."""
        self._check_device(param, label)
        _check_memory(local_of(param), label)
        spec = self.spec_for(param, label, group)
        _wrappers.check_shard(param, label, spec, self.releases,
                              spec.encodes and self.arguments["grad_accumulation"] or None)
        return spec

    def _check_device(self, param: torch.Tensor, label: object) -> None:
        executor = _executor.executor_of(param)
        if executor is None:
            raise ValueError(
                f"{label} is on {param.device}; tandem.torch updates parameters on the "
                "CPU and on CUDA devices: move it there with p.to('cpu')"
            )
        if self.is_capturable and executor is CPU:
            raise ValueError(
                f"{label} is on the CPU, whose steps no CUDA graph can capture; move it to "
                "a GPU, or leave capturable out"
            )
        if self.arguments["skip_nonfinite"] and not self.is_capturable and executor is not CPU:
            raise ValueError(
                f"{label} is on {param.device}, and only the GPU will know whether a "
                "step is skipped; pass capturable=True as well, which keeps counts of "
                "steps there"
            )

    #===--------------------------------------------------------------------===#
    # Changes
    #===--------------------------------------------------------------------===#

    def note(self, group: dict) -> None:
        """Remembers the options of a group. Groups are known by their identity, since people
        insert, remove and reorder them."""
        self._noted[id(group)] = group, self._options(group)

    def note_all(self) -> None:
        """Remembers the options of all groups, which are new."""
        self._noted = {id(group): (group, self._options(group)) for group in self.list}

    def _options(self, group: Mapping) -> tuple:
        """Returns a group's current values of SELECTING, and of options that the graph does not
        have, which may be set at any time."""
        return tuple(map(group.get, (*SELECTING, *self.hypers.flags)))

    def has_changed(self, param: torch.Tensor | None = None) -> bool:
        """Returns whether the options of groups, or only those of a parameter's group, differ
        from the remembered ones. Looking at all groups for each parameter would slow down
        backward passes."""
        groups = self.list if param is None else [self.group_of(param)]
        return any(self._noted.get(id(group), (None, None))[1] != self._options(group)
                   for group in groups)

    def check_changes(self, check: Callable[[int], None],
                      has_planes: Callable[[torch.Tensor], bool]) -> None:
        """Checks groups whose options have changed since they were remembered.

        Args:
            check: checks the group with an index.
            has_planes: whether a parameter has a state or a gradient in codes.

        Raises:
            ValueError: the change would change the meaning of existing states.
        """
        for index, group in enumerate(self.list):
            before, now = self._noted.get(id(group)), self._options(group)
            if before is not None and before[1] == now:
                continue
            check(index)
            if before is not None:
                self._check_kept(index, dict(zip(SELECTING, before[1])), has_planes)
            self.note(group)

    def _check_kept(self, index: int, before: Mapping,
                    has_planes: Callable[[torch.Tensor], bool]) -> None:
        """Refuses a change of a group that would change the storage of its states."""
        group = self.list[index]
        if not any(has_planes(param) and (self.specs.of(param, before)
                                          is not self.specs.of(param, group))
                   for param in group["params"]):
            return
        option = next(name for name in SELECTING if before[name] != group.get(name))
        given = ("strategies) with a strategy for each group" if option == "strategy" else
                 f"{group['strategy']!r}, {option}={group[option] or 0})")
        raise ValueError(
            f"param group {index} now has {option}={group[option]!r}, but its states are "
            f"stored as by {option}={before[option]!r}; set that again, and convert the "
            f"state: tandem.torch.convert_state(optimizer.state_dict(), weights, {given}, "
            "for an optimizer that begins so")

    #===--------------------------------------------------------------------===#
    # Bytes
    #===--------------------------------------------------------------------===#

    def _stored(self) -> Counter[StateSpec]:
        """Returns the number of trained elements that each spec stores. The CPU's spec
        represents those of GPUs, which have the same storages."""
        counts: Counter[StateSpec] = Counter()
        for _, param, group in self:
            key = self.specs.key_of(param, group) if param.requires_grad else None
            if key and param.numel():
                counts[self.specs[key._replace(executor=CPU)]] += param.numel()
        return counts

    @property
    def bytes_per_parameter(self) -> float:
        """The number of bytes per parameter for weight, gradient and states, from their
        storages, averaged over the trained parameters, without gradients that are released. If
        no parameters are trained, this is the number for the strategy."""
        counts = self._stored() or {self.specs.main: 1}
        total = sum(spec.bytes_per_parameter(self.releases) * count
                    for spec, count in counts.items())
        return total / sum(counts.values())

    def describe(self) -> list[str]:
        """Returns lines for ``repr`` about the graphs and the storage of parameters."""
        graphs = " and ".join(spec.kernel.name
                              for spec in self.specs.of_strategy(self.specs.strategy))
        counts = self._stored() or {self.specs.main: 0}
        if len(counts) == 1:
            (spec,) = counts
            return [f"graph: {graphs}", f"strategy: {spec.kernel.strategy} "
                    f"({self.bytes_per_parameter:g} B/parameter)"]
        return [f"graph: {graphs}", f"strategies: {self.bytes_per_parameter:g} B/parameter", *(
            f"    {spec.kernel.strategy}: {count} parameters, "
            f"{spec.bytes_per_parameter(self.releases):g} B each"
            for spec, count in counts.items())]


def _check_memory(param: torch.Tensor, label: object) -> None:
    """Refuses a parameter whose memory kernels cannot update."""
    if param.layout is not torch.strided:
        raise TypeError(
            f"{label} is sparse ({param.layout}); only dense parameters can be "
            "updated: use p.to_dense()"
        )
    if param.numel() and not param.data_ptr():
        raise TypeError(
            f"{label} is a {type(param).__name__} without memory of its own; "
            "pass plain tensors that the model uses itself"
        )
    if may_overlap(param) and not is_placeholder(param):
        raise ValueError(
            f"{label} has elements that share memory (strides "
            f"{param.stride()}); pass a copy, p.contiguous()"
        )


def refuse_to_maximize(spec: StateSpec, number: int) -> None:
    """Refuses to maximize with gradients in codes, which may not be negated."""
    if spec.encodes:
        raise ValueError(
            f"param group {number} has maximize=True, but strategy "
            f"{spec.kernel.strategy!r} stores gradients in codes, which a step takes "
            "as they are; negate the loss, or take a strategy with plain gradients and no "
            "grad_accumulation")
