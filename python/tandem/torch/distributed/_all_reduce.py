"""Sums of encoded gradients over ranks, under scales that all ranks share."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from tandem import _kernel, _tandem
from tandem._convert import Executor
from tandem._storages import described
from tandem.torch import _executor
from tandem.torch._layout import rows_in_memory
from tandem.torch.optim import _wrappers
from tandem.torch.optim._binding import KernelBinding
from tandem.torch.optim._optimizer import Optimizer


class Ranks:
    """The processes that train one model, as :class:`GradientAllReduce` needs them.

    Anything with these methods can take its place.

    Args:
        group: a process group of torch.distributed; None for all processes.
    """

    def __init__(self, group=None):
        self._group = group

    @property
    def size(self) -> int:
        """The number of ranks."""
        return torch.distributed.get_world_size(self._group)

    def max(self, tensor: torch.Tensor) -> None:
        """Gives every element the largest value that it has on any rank."""
        torch.distributed.all_reduce(
            tensor, torch.distributed.ReduceOp.MAX, self._group)

    def sum(self, tensor: torch.Tensor) -> None:
        """Adds up every element over the ranks."""
        torch.distributed.all_reduce(
            tensor, torch.distributed.ReduceOp.SUM, self._group)

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The tensors of all ranks, in the order of the ranks."""
        tensors = [torch.empty_like(tensor) for _ in range(self.size)]
        torch.distributed.all_gather(tensors, tensor, self._group)
        return tensors


class AutomaticScaling:
    """FP8-LM's factor mu for gradients that are added up in 8 bits.

    After a step in which more than a threshold of the values saturated, mu is half of
    what it was; else it grows, to the double over `doubling` steps.

    Args:
        threshold: the share of saturated values above which mu is halved.
        doubling: the steps in which mu doubles.
        mu: where it begins.
    """

    #: Between these mu stays, so that a scale of f32 can be divided by it.
    LEAST, MOST = 2.0**-32, 2.0**32

    def __init__(self, threshold: float = 1e-5, doubling: int = 1000, mu: float = 1.0):
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold is {threshold}; it is a share, in [0, 1)")
        if doubling < 1:
            raise ValueError(f"doubling is {doubling}; it counts steps, from 1")
        if not self.LEAST <= mu <= self.MOST:
            raise ValueError(f"mu is {mu}; it must be from 2^-32 to 2^32")
        self.threshold, self.doubling, self.mu = threshold, doubling, float(mu)

    def update(self, saturated: int, values: int) -> None:
        """Follows a step in which so many of so many values saturated."""
        halves = saturated > self.threshold * values
        mu = self.mu * (0.5 if halves else 2.0 ** (1 / self.doubling))
        self.mu = min(max(mu, self.LEAST), self.MOST)

    def state_dict(self) -> dict:
        """Returns the state from which a later run continues."""
        return {"mu": self.mu, "threshold": self.threshold, "doubling": self.doubling}

    def load_state_dict(self, state_dict: dict) -> None:
        """Goes on from what `state_dict` returned."""
        self.__init__(**state_dict)


@dataclass(frozen=True)
class _Storages:
    """The storage of gradients, and the same storage with given scales."""

    source: str
    given: str
    #: Up to what length the binding joins rows.
    group: int

    @staticmethod
    def of(binding: KernelBinding) -> _Storages:
        storage = described(binding.grad_storage)
        given = storage.with_given_scales
        if given is None:
            raise ValueError(
                f"strategy {binding.kernel.strategy!r} stores gradients as {storage.text}; to "
                "add them up under shared scales takes a strategy that stores them as "
                "#tandem.scaled with scale = f32 and a code without a range, such as "
                "'fp8-lm'"
            )
        if binding.kernel.is_matrix and any(plane.is_grouped for plane in binding.grad_planes):
            raise ValueError(
                f"strategy {binding.kernel.strategy!r} stores gradients of matrices as "
                f"{storage.text}, with groups in each row; to add them up under shared "
                "scales takes one scale for a tensor, group = tensor"
            )
        return _Storages(storage.without_history, given, binding.group)

    def sizes_of(self, codes: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
        """The rows and columns of gradients."""
        return [rows_in_memory(code, self.group) for code in codes]


class _Adder:
    """Stores sums of gradients under scales that are given."""

    def __init__(self, sources: Sequence[str], target: str, executor: Executor):
        self._executor = executor
        self._kernel = _kernel.Kernel(
            _tandem.compile_sum(sources, target, executor.target), None, executor.target)

    def run(self, sizes: Sequence, sums: Sequence, *sources: Sequence) -> int:
        """Writes the codes of the sums of (codes, scale), which have these rows and
        columns; how many of them have become the largest number, for which this waits."""
        plan = self._executor.plan(self._kernel)
        plan.update(
            sizes,
            [[plane.data_ptr() for planes in tensors for plane in planes]
             for tensors in zip(sums, *sources)])
        self._executor.launch(plan, [[]], [[]], torch.get_num_threads())
        return int(plan.metrics()[0])


@lru_cache(maxsize=None)
def _adder(sources: tuple[str, ...], target: str, executor: Executor) -> _Adder:
    return _Adder(sources, target, executor)


# The extension reports kernels that outlive the interpreter.
atexit.register(_adder.cache_clear)


def _split(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns views of a tensor that concatenates the elements of others."""
    return list(flat.split([tensor.numel() for tensor in like]))


def _like(plane: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """A plane of the same layout that has these elements in memory."""
    result = torch.empty_like(plane)
    result.as_strided(memory.shape, (1,)).copy_(memory)
    return result


class GradientAllReduce:
    """Takes the mean of the ranks' encoded gradients, adding them up in 8 bits.

    Between the backward passes and the step of each rank's optimizer::

        reduce = tandem.torch.GradientAllReduce(optimizer)
        loss.backward()
        reduce()
        optimizer.step()

    The scale of a gradient is the largest of the ranks' scales for it, divided by the
    factor mu; under it each rank encodes its gradient anew. These codes are added up
    in the order of the ranks, each partial sum is encoded under the scale, and the sum
    is taken for the mean by dividing the scale by the number of ranks (Peng et al.,
    *FP8-LM*, section 2.1). What is in ``p.grad`` is averaged as it is. All ranks call
    it with gradients of the same parameters, and have the same bits afterwards.

    Args:
        optimizer: of a strategy that stores gradients in codes under f32 scales, as
            "fp8-lm", in one of its param groups at least.
        ranks: a process group of torch.distributed, None for all processes, or what
            has the methods of :class:`Ranks`.
        scaling: what chooses mu; None leaves it at 1.

    Raises:
        ValueError: the strategy stores gradients otherwise, or the optimizer
            releases them.
    """

    def __init__(self, optimizer: Optimizer, ranks=None,
                 scaling: AutomaticScaling | None = None):
        optimizer = _wrappers.unwrapped(optimizer)
        if optimizer.gradient_release:
            raise ValueError(
                "gradients that backward passes release cannot be averaged over ranks "
                "before their steps; create the optimizer without gradient_release=True"
            )
        self._optimizer, self.scaling = optimizer, scaling
        optimizer._sends_codes = True
        for binding in self._encoding():
            _Storages.of(binding)
        self._ranks = ranks if hasattr(ranks, "gather") else Ranks(ranks)
        #: The share of values that saturated the last time.
        self.saturated = 0.0
        #: The numbers of saturated elements in this call, on this rank and in sums, and of all
        #: elements.
        self._counts = [0, 0, 0]

    @torch.no_grad()
    def __call__(self) -> None:
        """Replaces each gradient by the mean over the ranks."""
        params = list(self._optimizer._params())
        self._refuse_ddp(params)
        for param in params:
            if param.grad is not None:
                self._ranks.sum(param.grad)
                param.grad.div_(self._ranks.size)
        gradients = self._optimizer._gradients
        self._counts = [0, 0, 0]
        parts: dict[_Storages, list[torch.Tensor]] = {}
        for param in params:
            if param.grad is None and gradients.get(param) is not None:
                storages = _Storages.of(self._optimizer._binding_of(param))
                parts.setdefault(storages, []).append(param)
        for storages, coded in parts.items():
            sums = self._add_up(storages, [gradients.get(param) for param in coded])
            for param, planes in zip(coded, sums):
                gradients.replace(param, planes)
        if parts:
            self._count(sums[0][0].device)

    def _refuse_ddp(self, params: list[torch.Tensor]) -> None:
        """Refuses gradients that DistributedDataParallel has written after they had been
        encoded: its buckets are zero."""
        codes = self._optimizer._gradients
        written = [param for param in params
                   if param.grad is not None and codes.get(param) is not None]
        if written and _wrappers.is_in_ddp(written):
            raise RuntimeError(
                "DistributedDataParallel has averaged gradients that GradientAllReduce "
                "sends in codes, and found none; run backward passes inside of the "
                "model's no_sync(), or leave GradientAllReduce out"
            )

    def _encoding(self) -> list[KernelBinding]:
        """The bindings whose gradients are codes, or else one that has none."""
        names = dict.fromkeys(group["strategy"] for group in self._optimizer.param_groups)
        bindings = [binding for name in names
                    for binding in self._optimizer._bindings.of_strategy(name)]
        return [binding for binding in bindings if binding.encodes] or bindings[:1]

    def _add_up(self, storages: _Storages, planes: list) -> list:
        """The mean of all ranks' planes, (codes, scale) for each gradient."""
        codes, own = zip(*planes)
        if len({code.device for code in codes}) > 1:
            raise ValueError(
                "the optimizer's parameters are on several devices, but a rank adds up "
                "gradients on one; give each device an optimizer and a GradientAllReduce"
            )
        self._executor = _executor.executor_of(codes[0])
        scales = torch.cat([scale.flatten() for scale in own])
        self._ranks.max(scales)
        # Less would be no scale.
        scales.div_(self.scaling.mu if self.scaling else 1.0).clamp_(min=2.0**-126)
        given = _split(scales, own)
        total = self._encode(storages, codes, own, given)
        ranks = self._ranks.gather(total.view(torch.uint8))
        total = ranks[0].view(total.dtype)
        for rank in ranks[1:]:
            total = self._add(storages, codes, given, total, rank.view(total.dtype))
        scales.div_(self._ranks.size)
        return [[_like(code, sum), scale.clone()]
                for sum, code, scale in zip(_split(total, codes), codes, given)]

    def _encode(self, storages: _Storages, codes, own, given) -> torch.Tensor:
        """Returns this rank's codes under the shared scales, the gradients concatenated."""
        total = torch.empty(sum(c.numel() for c in codes), dtype=codes[0].dtype,
                            device=codes[0].device)
        adder = _adder((storages.source,), storages.given, self._executor)
        self._counts[0] += adder.run(storages.sizes_of(codes),
                                     list(zip(_split(total, codes), given)),
                                     list(zip(codes, own)))
        self._counts[2] += total.numel()
        return total

    def _add(self, storages: _Storages, codes, given, total, other) -> torch.Tensor:
        """The sum of two ranks' codes."""
        result = torch.empty_like(total)
        adder = _adder((storages.given,) * 2, storages.given, self._executor)
        self._counts[1] += adder.run(storages.sizes_of(codes),
                                     *(list(zip(_split(t, codes), given))
                                       for t in (result, total, other)))
        return result

    def _count(self, device: torch.device) -> None:
        """Tells mu how many of the ranks' values and of their sums saturated."""
        own, added, values = self._counts
        everywhere = torch.tensor([own], dtype=torch.float64, device=device)
        self._ranks.sum(everywhere)
        saturated = int(everywhere) + added
        values *= 2 * self._ranks.size - 1
        self.saturated = saturated / values if values else 0.0
        if self.scaling:
            self.scaling.update(saturated, values)

    def state_dict(self) -> dict:
        """Returns the state from which mu continues."""
        return self.scaling.state_dict() if self.scaling else {}

    def load_state_dict(self, state_dict: dict) -> None:
        """Goes on from what `state_dict` returned."""
        if bool(state_dict) != bool(self.scaling):
            raise ValueError(
                "the state dict is of a GradientAllReduce "
                + ("with" if state_dict else "without") + " automatic scaling; create "
                "this one in the same way")
        if self.scaling:
            self.scaling.load_state_dict(state_dict)
