"""Buckets of gradients, and their means over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from tandem._storages import floats
from tandem.torch import _executor
from tandem.torch.distributed._codes import CodeSum, Layout, Storages
from tandem.torch.distributed._ranks import Ranks, check_alike
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert
from tandem.torch.optim._optimizer import Optimizer

#: The types of gradients that are sent without encoding, in the order of their kinds.
_WIDE = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
#: The kinds of a gradient: none, codes, followed by those of `_WIDE`.
_NONE, _CODES = -(2**30), 0


@dataclass
class Entry:
    """A parameter of a bucket.

    Attributes:
        param: the parameter.
        label: the name of the parameter in messages.
        spec: the spec that updates it; None if unknown.
        storages: the storages of its gradient; None if it is sent in its own type.
    """

    param: torch.Tensor
    label: str
    spec: StateSpec | None
    storages: Storages | None

    @property
    def bytes(self) -> int:
        """The number of bytes that are sent."""
        return self.param.numel() * (1 if self.storages else self.param.element_size())

    @property
    def size(self) -> tuple[int, int]:
        """The rows in which groups start anew, and their length."""
        return self.spec.size_of(self.param)

    @property
    def scales(self) -> int:
        """The number of scales of its gradient as it is sent."""
        return self.storages.scales_of(*self.size) if self.storages else 0


@dataclass
class Bucket:
    """Parameters on one device whose gradients have the same storage and are sent together."""

    entries: list[Entry] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The number of bytes that are sent."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def device(self) -> torch.device:
        """The device of the parameters; the CPU if there are none."""
        return self.entries[0].param.device if self.entries else torch.device("cpu")


def buckets_of(entries: Sequence[Entry], most: int) -> list[Bucket]:
    """Returns at least one bucket. Each has at most ``most`` bytes or one parameter. They are in
    the order in which backward passes complete them, which start with the last parameters."""
    done, open = [], {}
    for entry in reversed(entries):
        key = entry.storages, entry.param.dtype, entry.param.device
        bucket = open.setdefault(key, Bucket())
        if bucket.entries and bucket.bytes + entry.bytes > most:
            done.append(bucket)
            bucket = open[key] = Bucket()
        bucket.entries.append(entry)
    return [*done, *open.values()] or [Bucket()]


#===------------------------------------------------------------------------===#
# Messages about gradients
#===------------------------------------------------------------------------===#


def _scales_of(entry: Entry, planes: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the f32 scales of a gradient, with 0 for groups without information."""
    def values() -> torch.Tensor:
        wide = torch.empty_like(planes[0], dtype=torch.float32)
        convert(entry.spec, [planes], entry.storages.source, [wide], floats("f32"), [])
        return wide.as_strided((wide.numel(),), (1,))

    return entry.storages.known(planes[1].flatten().float(), entry.size, values)


class _Message:
    """The kinds and the scales of a bucket's gradients, whose maxima over the ranks are
    exchanged.

    They are sent as integers. The bits of scales, which are not negative, have the same order as
    the scales, and the maximum of floats would depend on the backend if one is NaN.
    """

    def __init__(self, bucket: Bucket, planes: Mapping[torch.Tensor, list]):
        self._entries = bucket.entries
        kinds = torch.tensor([_kind(entry, planes) for entry in self._entries],
                             dtype=torch.int32)
        others = kinds.neg().where(kinds != _NONE, kinds)
        scales = [self._own(entry, planes.get(entry.param)) for entry in self._entries]
        self._message = torch.cat([kinds.to(bucket.device), others.to(bucket.device), *scales])

    @staticmethod
    def _own(entry: Entry, planes: Sequence[torch.Tensor] | None) -> torch.Tensor:
        if planes is None or entry.param.grad is not None or not entry.scales:
            return torch.zeros(entry.scales, dtype=torch.int32, device=entry.param.device)
        return _scales_of(entry, planes).view(torch.int32)

    def exchange(self, ranks: Ranks) -> tuple[list[int], list[torch.Tensor]]:
        """Returns the kind of each gradient on all ranks that have it, and the maximum scales.

        Raises:
            RuntimeError: ranks have different kinds of a gradient.
        """
        ranks.max(self._message)
        count = len(self._entries)
        kinds, others = self._message[:2 * count].cpu().view(2, count).tolist()
        for entry, kind, other in zip(self._entries, kinds, others):
            if kind != _NONE and kind != -other:
                raise RuntimeError(
                    f"the gradient of {entry.label} is {_name(-other)} on one rank and "
                    f"{_name(kind)} on another; all must have it alike: put a gradient into "
                    "p.grad by hand on each rank or on none")
        scales = self._message[2 * count:].view(torch.float32)
        return kinds, list(scales.split([entry.scales for entry in self._entries]))


def _kind(entry: Entry, planes: Mapping[torch.Tensor, list]) -> int:
    grad = entry.param.grad
    if grad is None:
        return _NONE if planes.get(entry.param) is None else _CODES
    if grad.layout is not torch.strided or grad.dtype not in _WIDE:
        raise RuntimeError(
            f"the gradient of {entry.label} is a {grad.layout} tensor of {grad.dtype}; only "
            "dense ones of floats are averaged over ranks, as p.grad.to_dense() makes them")
    return 1 + _WIDE.index(grad.dtype)


def _name(kind: int) -> str:
    return "in codes" if kind == _CODES else f"{_WIDE[kind - 1]} in p.grad"


#===------------------------------------------------------------------------===#
# Means
#===------------------------------------------------------------------------===#


def wide_mean(ranks: Ranks, flat: torch.Tensor) -> torch.Tensor:
    """Returns the mean over the ranks of tensors in one of PyTorch's types.

    Each rank receives a slice of all ranks' tensors, adds them in f32 (f64 for f64) in the order
    of the ranks, divides by their number, and rounds once.
    """
    bounds = [len(flat) * i // ranks.size for i in range(ranks.size + 1)]
    # Send bytes, since not every backend supports every type.
    lengths = [(end - start) * flat.element_size() for start, end in zip(bounds, bounds[1:])]
    given = ranks.all_to_all(flat.view(torch.uint8), lengths).view(flat.dtype)
    given = given.view(ranks.size, len(given) // ranks.size)
    total = given[0].to(torch.promote_types(flat.dtype, torch.float32), copy=True)
    for other in given[1:]:
        total += other
    mean = (total / ranks.size).to(flat.dtype)
    return ranks.all_gather(mean.view(torch.uint8), lengths).view(flat.dtype)


class BucketMean:
    """Replaces the gradients of one bucket with their means over the ranks.

    Args:
        optimizer: the optimizer of the gradients.
        ranks: the ranks.
        mu: FP8-LM's factor.
        threads: the number of threads for each kernel.
    """

    def __init__(self, optimizer: Optimizer, ranks: Ranks, mu: float, threads: int):
        self._gradients, self._ranks = optimizer._gradients, ranks
        self._mu, self._threads = mu, threads
        #: The number of codes that saturated, and the number of elements.
        self.saturated = self.values = 0

    def run(self, bucket: Bucket, facts: Mapping[str, object]) -> None:
        """Averages a bucket after checking that `facts` are the same on all ranks.

        Raises:
            RuntimeError: the ranks differ in the facts or in the kinds of their gradients.
        """
        check_alike(self._ranks, facts, bucket.device)
        if not bucket.entries:
            return
        planes = {entry.param: self._gradients.get(entry.param) for entry in bucket.entries}
        kinds, scales = _Message(bucket, planes).exchange(self._ranks)
        rows = list(zip(bucket.entries, kinds, scales))
        if coded := [(entry, most) for entry, kind, most in rows if kind == _CODES]:
            self._average_codes(*zip(*coded))
        for number, dtype in enumerate(_WIDE, 1):
            if wide := [entry.param for entry, kind, _ in rows if kind == number]:
                self._average_wide(wide, dtype)

    def _average_wide(self, params: Sequence[torch.Tensor], dtype: torch.dtype) -> None:
        for param in params:
            if param.grad is None:
                param.grad = torch.zeros_like(param, dtype=dtype)
        mean = wide_mean(self._ranks, torch.cat([p.grad.flatten() for p in params]))
        for param, part in zip(params, mean.split([p.numel() for p in params])):
            param.grad.copy_(part.view(param.shape))

    def _average_codes(self, entries: Sequence[Entry], most: Sequence[torch.Tensor]) -> None:
        storages = entries[0].storages
        own = [self._gradients.get(entry.param) or _zeros(entry) for entry in entries]
        largest = torch.cat(most)
        scales, means = storages.shared(largest, self._mu, self._ranks.size)
        work = CodeSum(self._ranks, Layout(storages, [entry.size for entry in entries]),
                       _executor.executor_of(largest), self._threads)
        codes = work.encode(storages.source, own, scales)
        sums = work.add_up(codes, scales)
        parts = zip(entries, own, sums.split([e.param.numel() for e in entries]),
                    means.split([e.scales for e in entries]))
        for entry, planes, part, mean in parts:
            self._gradients.replace(entry.param, [_like(planes[0], part),
                                                  mean.clone().view(planes[1].shape)])
        self.saturated += work.saturated
        self.values += len(codes)


def _zeros(entry: Entry) -> list[torch.Tensor]:
    """Returns zero planes for a gradient that only other ranks have."""
    spec = entry.spec
    like = spec.like(entry.param, None)
    planes = [plane for plane in spec.grad_planes if not plane.persistent]
    made = [spec.empty(plane, like) for plane in planes]
    zeros = torch.zeros_like(made[0], dtype=torch.float32)
    convert(spec, [zeros], floats("f32"), [made], entry.storages.source, planes, fresh=False)
    return made


def _like(plane: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Returns a plane of the same layout with these elements in memory order."""
    result = torch.empty_like(plane)
    result.as_strided(memory.shape, (1,)).copy_(memory)
    return result
