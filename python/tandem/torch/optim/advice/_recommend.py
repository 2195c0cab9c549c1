"""Chooses a strategy for each kind of parameter, for a model and an amount of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import product
from numbers import Real

import torch

from tandem.torch._shards import Shard
from tandem.torch._versions import at_least, needed
from tandem.torch.optim.advice._kinds import KINDS, WITH_RATIO, Kind, kind_of
from tandem.torch.optim.advice._measured import largest_beta2, measured
from tandem.torch.optim.advice._memory import Bytes, Footprints, in_bytes, text_of
from tandem.torch.optim.advice._roles import (ROLES, ROWS_OF_TOKENS, SMALL_ROLES, Described, describe,
                                       param_groups)

#: The factor over the smallest error within which the simplest choice is used.
TOLERANCE = 1.1
#: The strategy's name that requests a choice.
AUTO = "auto"
#: The beta2 of the errors under AdamW that order strategies for optimizers without betas.
USUAL_BETA2 = 0.999
#: The strategies for small tensors, which keep full float32 in the fewest bytes.
EXACT = {torch.bfloat16: "remainder", torch.float32: "fp32"}


@dataclass(frozen=True)
class Choice:
    """The strategy of one kind of parameters.

    Attributes:
        role: "matrices", "embeddings", "head", "norms and biases", "small tensors", or
            "frozen", which has no strategy.
        strategy: the name of the strategy; None for frozen parameters.
        tensors: the number of parameters.
        elements: the number of their elements on all ranks.
        bytes: the bytes on one rank.
        follows: whether states follow their averages (docs/Following.md), at the given betas if
            the optimizer has AdamW's moments.
        error: the distance of the final weights from float64's, divided by the distance moved
            (docs/Accuracy.md); None if it was not measured, as for optimizers other than AdamW
            and Adam.
        lost: the fraction of single updates without any effect on the stored weight in the
            demo's model; None if it was not measured.
        kept: the fraction of the intended change that took place in it nevertheless. If it is
            near 1, the losses of single updates cancel out, as with dithered weights.
    """

    role: str
    strategy: str | None
    tensors: int
    elements: int
    bytes: Bytes
    follows: bool | None = None
    error: float | None = None
    lost: float | None = None
    kept: float | None = None


@dataclass(frozen=True, repr=False)
class Recommendation:
    """A strategy for each kind of parameters of a model, which prints as a table.

    Attributes:
        choices: the choices for the kinds of parameters in the model.
        memory: the available bytes on a rank.
        ranks: the ranks that share the parameters.
        betas: the decays of both moments; None for an optimizer without AdamW's moments.
        error: the root mean square of the choices' errors over all parameters; None if they were
            not measured.
        notes: notes on the table, as sentences.
        gradient_release: whether backward passes take the steps.
        optimizer: the class that the strategies are for.
    """

    choices: tuple[Choice, ...]
    memory: int
    ranks: int
    betas: tuple[float, float] | None
    error: float | None
    notes: tuple[str, ...] = ()
    gradient_release: bool = False
    optimizer: str = "AdamW"

    @property
    def strategies(self) -> dict[str, str]:
        """The strategy of each role, in the form for :func:`param_groups`."""
        return {choice.role: choice.strategy for choice in self.choices if choice.strategy}

    @property
    def bytes(self) -> Bytes:
        """The bytes on one rank, including frozen parameters."""
        return reduce(Bytes.__add__, (choice.bytes for choice in self.choices), Bytes())

    def param_groups(self, model: object) -> list[dict]:
        """Returns the model's parameters in groups with these strategies; see
        :func:`param_groups`."""
        return param_groups(model, self.strategies, use_muon=self._has_matrices)

    @property
    def stores_ratio(self) -> bool:
        """Whether the strategies are for AdamW with ``stores_ratio=True``."""
        return any(measured()[name].stores_ratio for name in self.strategies.values())

    @property
    def _has_matrices(self) -> bool:
        """Whether groups say which parameters are matrices."""
        return KINDS[self.optimizer].is_for_matrices

    @property
    def code(self) -> str:
        """Python code that creates the optimizer for a model called `model`."""
        settled = f"betas={self.betas}" if self.betas else KINDS[self.optimizer].arguments
        arguments = ["groups", "lr=1e-3", *([settled] if settled else []),
                     *(["stores_ratio=True"] if self.stores_ratio else []),
                     *(["gradient_release=True"] if self.gradient_release else [])]
        lines = ["groups = tandem.torch.param_groups(model, {",
                 *(f'    "{role}": "{name}",' for role, name in self.strategies.items()),
                 "}, use_muon=True)" if self._has_matrices else "})",
                 f"optimizer = tandem.torch.{self.optimizer}({', '.join(arguments)})"]
        if self.ranks > 1:
            lines.insert(0, f"# after fully_shard(model), over {self.ranks} ranks")
        if any(measured()[name].hidden for name in self.strategies.values()):
            lines.append("decoded = tandem.torch.decode_weights(model, optimizer)")
        return "\n".join(lines)

    def __repr__(self) -> str:
        left = self.memory - self.bytes.total
        rank = " on each rank" if self.ranks > 1 else ""
        head = (f"{text_of(self.bytes.total)} of {text_of(self.memory)}{rank} for weights, "
                f"gradients and states; {text_of(left)} left for activations and the rest")
        notes = [*self.notes, ""] if self.notes else []
        return "\n".join([head, "", *_table(self.choices, self.bytes), "", *notes, self.code])


def recommend(model: object, memory: int | float | str, ranks: int = 1,
              betas: Sequence[float] | None = None, *, codes: bool = True,
              gradient_release: bool = False, optimizer: str = "AdamW") -> Recommendation:
    """Recommends a strategy for each kind of a model's parameters under an optimizer.

    Candidates are strategies whose states follow their averages (docs/Following.md), at these
    betas for AdamW's moments, and with which weights, gradients and states fit into the memory.
    The ones with the smallest error (docs/Accuracy.md) are chosen or, if errors are nearly
    equal, the fewest strategies and bytes. Gradients and weights become codes only if nothing
    else fits, and moments of AdamW have four bits (``stores_ratio=True``) only if that does not
    fit either. Norms, biases and small tensors always keep full float32. docs/Choosing.md
    explains the reasons.

    Errors were measured under AdamW and Adam. For other optimizers they only order strategies,
    and the recommendation has no error.

    Args:
        model: a Module, which may be on the meta device; a mapping from names to shapes (of
            bfloat16) or tensors; or named parameters. Types and requires_grad are respected.
        memory: the memory on a rank for weights, gradients and states: a number of bytes, or a
            text such as "24GiB". Activations and everything else are not included.
        ranks: the number of ranks over which ``fully_shard`` shards the parameters; 1 for one
            process and for DistributedDataParallel, which replicates them.
        betas: the betas of AdamW, Adam or LAMB; (0.9, 0.999) by default. There are measurements
            for beta1 = 0.9 and beta2 from 0.9 to 0.9999.
        codes: whether gradients and weights may be codes, which need other ways of clipping
            (docs/Torch.md). They are never used on several ranks, since they save nothing there.
        gradient_release: whether backward passes take the steps and release gradients.
        optimizer: the name of the class: "AdamW", "Adam", "LAMB", "NAdam", "RAdam", "AdEMAMix",
            "AdamWScheduleFree", "Muon", "SGD" (with momentum), "Lion", "RMSprop", "Adagrad" or
            "Adafactor".

    Raises:
        TypeError: the argument is not a model, or has parameters of an unsupported type.
        ValueError: the memory is too small (the message has the minimum), the optimizer does not
            support the shape of a parameter, or an argument is out of its domain.
    """
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks must be a whole number of at least 1, got {ranks!r}")
    kind = kind_of(optimizer)
    limit, betas = in_bytes(memory), _betas_of(optimizer, kind, betas)
    tensors, footprints = describe(model), Footprints(gradient_release, kind=kind)
    for tensor in tensors:
        if tensor.trains:
            footprints.check(tensor.shape, tensor.dtype, f"parameter {tensor.name!r}")
    tensors = ([spread(tensor, ranks) for tensor in tensors] if ranks > 1
               else list(map(on_first_rank, tensors)))
    ranks = max(ranks, ranks_of(tensors))

    def search_with(footprints: Footprints) -> Search:
        return Search(tensors, [betas[1] if betas else USUAL_BETA2],
                      2 if codes and ranks == 1 else 0, footprints, optimizer)

    search = search_with(footprints)
    found = search.find(limit, ranks, betas)
    if found is None and optimizer == "AdamW":
        last = search_with(Footprints(gradient_release, kind=WITH_RATIO))
        search = last if last.is_able else search
        found = search.find(limit, ranks, betas)
    if found is None:
        raise ValueError(search.too_little(limit, ranks))
    return found


def _betas_of(name: str, kind: Kind, betas: object) -> tuple[float, float] | None:
    """Returns the decays of AdamW's moments, or None if the optimizer does not have them."""
    if kind.has_betas:
        return checked_betas((0.9, 0.999) if betas is None else betas)
    if betas is not None:
        measured_with = f"with {kind.arguments}" if kind.arguments else "without any"
        raise ValueError("betas are those of AdamW's moments, which Adam and LAMB have too; "
                         f"{name} was measured {measured_with}: leave betas out")
    return None


def checked_betas(betas: object) -> tuple[float, float]:
    """Returns two decays after checking that there are measurements for them."""
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise TypeError(f"betas must be two numbers, got {betas!r}") from None
    for value in (first, second):
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value < 1:
            raise ValueError(f"betas must be numbers from 0 to below 1, got {betas!r}")
    if second > largest_beta2():
        raise ValueError(f"beta2 is {second:g}, beyond the measurements, which end at "
                         f"{largest_beta2():g}; take strategy='remainder' or 'fp32', whose "
                         "moments are float32")
    return float(first), float(second)


#===------------------------------------------------------------------------===#
# Ranks
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class _FirstOf:
    """Stands for a DeviceMesh on its first rank, regardless of this process's rank: all ranks
    must make the same choice, and the ranks need not be running."""

    sizes: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    def size(self, dim: int | None = None) -> int:
        return math.prod(self.sizes) if dim is None else self.sizes[dim]

    def get_coordinate(self) -> list[int]:
        return [0] * self.ndim


@lru_cache(maxsize=None)
def _rows() -> object:
    """Returns the placement of fully_shard, whose module is slow to import."""
    if not at_least(2, 5):
        raise needed("ranks above 1 are those of fully_shard's DTensors, which need", "2.5")
    from torch.distributed.tensor import Shard as Rows

    return Rows(0)


def spread(tensor: Described, ranks: int) -> Described:
    """Returns the tensor as fully_shard would shard it over a number of ranks."""
    if tensor.shard is not None:
        raise ValueError(f"{tensor.name!r} is a DTensor, which is spread already; leave ranks "
                         "out")
    if not tensor.shape:
        raise ValueError(f"parameter {tensor.name!r} is a scalar, which fully_shard does not "
                         "spread; give it the shape (1,)")
    stride = torch.empty(tensor.shape, device="meta").stride()
    return replace(tensor, shard=Shard(tensor.shape, stride, (_rows(),), _FirstOf((ranks,))))


def on_first_rank(tensor: Described) -> Described:
    """Returns a parameter with the shard of the first rank, which is the largest, if it is
    sharded.

    Raises:
        ValueError: its pieces are not rows.
    """
    if (shard := tensor.shard) is None:
        return tensor
    if shard.bounds is None:
        raise ValueError(f"parameter {tensor.name or 'without a name'!r} is spread as {shard}, "
                         "in pieces that are not whole rows, whose bytes are not counted; name "
                         "its strategy")
    mesh = _FirstOf(tuple(map(shard.mesh.size, range(shard.mesh.ndim))))
    return replace(tensor, shard=replace(shard, mesh=mesh))


#===------------------------------------------------------------------------===#
# The search
#===------------------------------------------------------------------------===#


def ranks_of(tensors: Iterable[Described]) -> int:
    """Returns the number of ranks that share parameters."""
    return max((tensor.shard.mesh.size() for tensor in tensors if tensor.shard), default=1)


class Search:
    """Searches for the strategies of a model's roles.

    Args:
        tensors: the model's parameters.
        beta2s: the groups' decays of second moments.
        codes: what may be codes at most: 0 nothing, 1 gradients, 2 also weights.
        footprints: the bytes of tensors.
        optimizer: the name of the optimizer's class.
    """

    def __init__(self, tensors: Sequence[Described], beta2s: Sequence[float], codes: int,
                 footprints: Footprints, optimizer: str):
        self.beta2s, self.codes, self.footprints = beta2s, codes, footprints
        self.optimizer, self.kind = optimizer, footprints.kind
        self.frozen = [tensor for tensor in tensors if not tensor.trains]
        self.roles = {role: [t for t in tensors if t.trains and t.role == role and t.elements]
                      for role in ROLES}
        self.roles = {role: found for role, found in self.roles.items() if found}
        self._counts = {role: sum(t.elements for t in found)
                        for role, found in self.roles.items()}
        if not self.roles:
            raise ValueError("the model has no parameters that need a gradient; set "
                             "p.requires_grad_() for those to train")
        self._bytes: dict[tuple[str, str], Bytes] = {}
        self._errors: dict[tuple[str, str], float | None] = {}
        self._nominals: dict[tuple[str, str], float] = {}

    def best(self, memory: int, ranks: int,
             betas: tuple[float, float] | None) -> Recommendation:
        """Returns the recommendation for a number of bytes on a rank.

        Raises:
            ValueError: the memory is too small.
        """
        if (found := self.find(memory, ranks, betas)) is None:
            raise ValueError(self.too_little(memory, ranks))
        return found

    def find(self, memory: int, ranks: int,
             betas: tuple[float, float] | None) -> Recommendation | None:
        """Returns the recommendation for a number of bytes on a rank, or None if the memory is
        too small."""
        for codes in range(self.codes + 1):
            for names in self._in_order(codes, memory):
                if self.exact(names).total <= memory:
                    choices = [self._choice(role, name) for role, name in names.items()]
                    error = self._error(names) if self.kind.has_errors else None
                    return Recommendation((*choices, *self._frozen_choice()), memory, ranks,
                                          betas, error,
                                          tuple(self._notes(names, ranks, betas)),
                                          self.footprints.releases, self.optimizer)
        return None

    #===--------------------------------------------------------------------===#
    # Candidates
    #===--------------------------------------------------------------------===#

    @property
    def is_able(self) -> bool:
        """Whether there are strategies for all roles, of any number of bytes."""
        return any(True for _ in self._combinations(self.codes))

    def _options(self, role: str, codes: int) -> list[str]:
        """Returns the Pareto-optimal strategies for a role with respect to bytes and error,
        ordered by bytes."""
        if role in SMALL_ROLES:
            types = {tensor.dtype for tensor in self.roles[role]}
            return [EXACT[torch.bfloat16 if torch.bfloat16 in types else torch.float32]]
        kept: list[str] = []
        able = [name for name in measured() if self._is_able(role, name, codes)]
        for name in sorted(able, key=lambda n: (self._nominal({role: n}), self._error_of(role, n))):
            if not kept or self._error_of(role, name) < self._error_of(role, kept[-1]):
                kept.append(name)
        return kept

    def _is_able(self, role: str, name: str, codes: int) -> bool:
        """Returns whether a strategy is for the graph, follows, was measured for the types, and has
        only the allowed codes."""
        types, of = {tensor.dtype for tensor in self.roles[role]}, measured()[name]
        return (of.stores_ratio == (self.kind is WITH_RATIO) and all(of.codes_for(dtype) <= codes for dtype in types)
                and self._follows(name) and self._error_of(role, name) is not None)

    def _follows(self, name: str) -> bool:
        """Returns whether the optimizer's states follow under a strategy."""
        of = measured()[name]
        if self.kind.has_second and not of.follows_at(USUAL_BETA2):
            return False
        if self.kind.has_betas:
            return all(of.follows_at(beta2) for beta2 in self.beta2s)
        if self.kind.graph in of.others:
            return of.others[self.kind.graph]
        # Adafactor's means of rows and columns follow if they are float32.
        return self.footprints.has_f32_states(name)

    def _error_of(self, role: str, name: str) -> float | None:
        """Returns the root mean square error of a role's elements, or None if it was not
        measured."""
        if (role, name) not in self._errors:
            self._errors[role, name] = self._measured_error(role, name)
        return self._errors[role, name]

    def _measured_error(self, role: str, name: str) -> float | None:
        squares = 0.0
        for tensor in self.roles[role]:
            kinds = (["rare"] if role in ROWS_OF_TOKENS else ["dense"] if tensor.name
                     else ["dense", "rare"])
            own = EXACT[tensor.dtype] if role in SMALL_ROLES else name
            found = [measured()[own].error(tensor.dtype, kind, beta2)
                     for kind in kinds for beta2 in self.beta2s]
            if None in found:
                return None
            squares += tensor.elements * max(found)**2
        return math.sqrt(squares / self._counts[role])

    def _error(self, names: Mapping[str, str]) -> float:
        """Returns the root mean square error of all elements."""
        squares = sum(self._counts[role] * self._error_of(role, name)**2
                      for role, name in names.items())
        return math.sqrt(squares / sum(map(self._counts.__getitem__, names)))

    def _nominal(self, names: Mapping[str, str]) -> float:
        """Returns a lower bound for the bytes of these roles on a rank, without the overhead of
        incomplete groups and rows. For AdamW it needs no kernels."""
        for one in names.items():
            if one not in self._nominals:
                self._nominals[one] = (self._nominal_of(*one) if self.kind.has_errors
                                       else self._bytes_of(*one).total)
        return sum(self._nominals[one] for one in names.items())

    def _nominal_of(self, role: str, name: str) -> float:
        """Returns the bytes of a role with AdamW's states."""
        return sum(measured()[name].bytes_of(tensor.dtype, self.footprints.releases)
                   * tensor.elements / (tensor.shard.mesh.size() if tensor.shard else 1)
                   for tensor in self.roles[role])

    def _combinations(self, codes: int) -> Iterator[dict[str, str]]:
        options = {role: self._options(role, codes) for role in self.roles}
        for combination in product(*options.values()):
            names = dict(zip(options, combination))
            least = _own_bytes(names.get("matrices"))
            if all(_own_bytes(names[role]) >= least for role in ROWS_OF_TOKENS if role in names):
                yield names

    def _in_order(self, codes: int, memory: int) -> Iterator[dict[str, str]]:
        """Yields strategies for all roles that may fit, the best first: among those whose error
        is within TOLERANCE of the smallest, the one with the fewest strategies, then bytes."""
        left = [(self._error(names), len(set(names.values())), self._nominal(names), names)
                for names in self._combinations(codes) if self._nominal(names) <= memory]
        while left:
            least = min(left, key=lambda one: one[0])[0]
            near = [one for one in left if one[0] <= TOLERANCE * least]
            best = min(near, key=lambda one: one[1:3])
            left.remove(best)
            yield best[3]

    #===--------------------------------------------------------------------===#
    # Bytes
    #===--------------------------------------------------------------------===#

    def exact(self, names: Mapping[str, str]) -> Bytes:
        """Returns the bytes of these roles and of frozen parameters on a rank."""
        found = reduce(Bytes.__add__, (self._bytes_of(role, name)
                                       for role, name in names.items()), self._frozen_bytes())
        return replace(found, working=found.working + self._exchanged())

    def _exchanged(self) -> int:
        """Returns the bytes that a step exchanges with the host: a direction in bfloat16 for each
        of Muon's matrices."""
        return 0 if not self.kind.is_for_matrices else sum(
            2 * -(-t.elements // (t.shard.mesh.size() if t.shard else 1))
            for found in self.roles.values() for t in found if t.is_matrix)

    def _bytes_of(self, role: str, name: str) -> Bytes:
        if (role, name) not in self._bytes:
            self._bytes[role, name] = reduce(Bytes.__add__, (
                self.footprints.of(tensor.shape, tensor.dtype, name, tensor.shard,
                                   tensor.is_matrix)
                for tensor in self.roles[role]), Bytes())
        return self._bytes[role, name]

    def _frozen_bytes(self) -> Bytes:
        pieces = ((t.shard.piece_of(torch.empty(t.shape, device="meta")).numel() if t.shard
                   else t.elements) * t.dtype.itemsize for t in self.frozen)
        return Bytes(weights=sum(pieces))

    def least(self, codes: int) -> tuple[int, dict[str, str]]:
        """Returns the smallest sufficient number of bytes, and the strategies."""
        best: tuple[int, dict[str, str]] | None = None
        for names in sorted(self._combinations(codes), key=self._nominal):
            if best and self._nominal(names) >= best[0]:
                break
            total = self.exact(names).total
            best = best if best and best[0] <= total else (total, names)
        if best is None:
            where = f"beta2 = {max(self.beta2s):g}" if self.kind.has_betas else self.optimizer
            raise ValueError(f"no measured strategy follows at {where} with these parameters")
        return best

    def too_little(self, memory: int, ranks: int) -> str:
        """Returns why nothing fits, the minimum memory, and what else would help."""
        least, names = min((self.least(codes) for codes in range(self.codes + 1)),
                           key=lambda one: one[0])
        where = f" on each of {ranks} ranks" if ranks > 1 else ""
        helps = ["more ranks of fully_shard"]
        if not self.footprints.releases:
            helps.append("gradient_release=True")
        if any(tensor.dtype == torch.float32 for tensor in self.roles.get("matrices", ())):
            helps.append("parameters in bfloat16")
        return (f"{text_of(memory)} is too little memory for {self.optimizer} over "
                f"{sum(self._counts.values()):.3g} parameters: the least{where} is "
                f"{text_of(least)} ({least} bytes), under "
                f"{', '.join(dict.fromkeys(names.values()))}; less would do with "
                f"{' or '.join(helps)}")

    #===--------------------------------------------------------------------===#
    # Description
    #===--------------------------------------------------------------------===#

    def _choice(self, role: str, name: str) -> Choice:
        losses = ((self._error_of(role, name), self._mean(role, name, "lost"),
                   self._mean(role, name, "kept")) if self.kind.has_errors else ())
        return Choice(role, name, len(self.roles[role]), self._counts[role],
                      self._bytes_of(role, name), self._follows(name), *losses)

    def _mean(self, role: str, name: str, what: str) -> float | None:
        """Returns a role's mean of a measurement of lost updates. It is a property of weights,
        so float32 weights have the value of "fp32"."""
        found = [(getattr(measured()["fp32" if tensor.dtype == torch.float32 else name], what),
                  tensor.elements) for tensor in self.roles[role]]
        if any(value is None for value, _ in found):
            return None
        return sum(value * count for value, count in found) / self._counts[role]

    def _frozen_choice(self) -> list[Choice]:
        if not self.frozen:
            return []
        return [Choice("frozen", None, len(self.frozen), sum(t.elements for t in self.frozen),
                       self._frozen_bytes())]

    def _notes(self, names: Mapping[str, str], ranks: int,
               betas: tuple[float, float] | None) -> Iterator[str]:
        tensors = [tensor for found in self.roles.values() for tensor in found]
        codes = max(measured()[name].codes_for(tensor.dtype)
                    for role, name in names.items() for tensor in self.roles[role])
        if codes:
            yield ("Gradients are codes: p.grad is None after a backward pass, and "
                   "clip_grad_norm_ finds nothing (docs/Torch.md, Gradients in codes).")
        if exchanged := self._exchanged():
            yield f"{text_of(exchanged)} more are for the directions of all matrices in a step."
        if working := self.exact(names).working - exchanged:
            yield (f"{text_of(working)} more are for the largest tensor, while its gradient is "
                   "encoded or released and its weight decoded.")
        if self.kind is WITH_RATIO:
            yield ("Moments have four bits. States have m / sqrt(v) in place of the first moment m "
                   "(stores_ratio=True, with decay='inside' and without max_norm).")
        if codes == 2:
            yield ("Weights are codes: decode_weights keeps them in memory only while a module "
                   "needs them.")
        if any(tensor.name is None for tensor in tensors):
            yield ("Without names, embeddings and the head cannot be told from matrices, and all "
                   "of them have one strategy, for the worse of their errors; pass "
                   "model.named_parameters().")
        if ranks > 1:
            yield f"Bytes are those of the first of {ranks} ranks, which has the most."
        if betas and betas[0] != 0.9:
            yield f"Measured is beta1 = 0.9, not {betas[0]:g}."
        if self.kind.arguments:
            yield f"Whether states follow was measured with {self.kind.arguments}."
        if not self.kind.has_errors:
            yield (f"What weights lose was not measured under {self.optimizer}; strategies are "
                   "in the order of their errors under AdamW.")


def _own_bytes(name: str | None) -> float:
    """Returns the bytes per parameter of a strategy's own type."""
    return sum((of.weights, of.gradients, of.states)) if (of := measured().get(name)) else 0.0


def _table(choices: Sequence[Choice], total: Bytes) -> list[str]:
    """Returns the lines of a table of choices and of their sum."""
    head = ["", "strategy", "parameters", "weights", "gradients", "states", "follows", "error",
            "lost", "kept"]
    rows = [head, *(_row(choice) for choice in choices)]
    elements = sum(choice.elements for choice in choices)
    rows.append(["together", "", f"{elements:.4g}", *_texts(total), "", "", "", ""])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def _row(choice: Choice) -> list[str]:
    follows = "" if choice.follows is None else "yes" if choice.follows else "no"
    absent = "not measured" if choice.strategy else ""
    error = absent if choice.error is None else f"{choice.error:.2g}"
    shares = [absent if share is None else f"{100 * share:.1f} %" for share in (choice.lost,
                                                                               choice.kept)]
    return [choice.role, choice.strategy or "", f"{choice.elements:.4g}", *_texts(choice.bytes),
            follows, error, *shares]


def _texts(taken: Bytes) -> list[str]:
    return [text_of(count) for count in (taken.weights, taken.gradients, taken.states)]
