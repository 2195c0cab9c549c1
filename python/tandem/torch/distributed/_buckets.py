"""Buckets of gradients, and the mean of one over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from tandem._storages import floats
from tandem.torch import _executor
from tandem.torch.distributed._codes import CodeSum, Layout, Storages
from tandem.torch.distributed._ranks import Ranks, check_alike
from tandem.torch.optim._binding import KernelBinding
from tandem.torch.optim._optimizer import Optimizer

#: The types of gradients that are sent as they are, in the order of their kinds.
_WIDE = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
#: The kinds of a gradient: none, codes, and from there on those of `_WIDE`.
_NONE, _CODES = -(2**30), 0


@dataclass
class Entry:
    """A parameter of a bucket.

    Attributes:
        param: the parameter.
        label: its name in messages.
        binding: what updates it, None where it is unknown.
        storages: how its gradient is stored and sent, None if in its own type.
    """

    param: torch.Tensor
    label: str
    binding: KernelBinding | None
    storages: Storages | None

    @property
    def bytes(self) -> int:
        """Returns the bytes that are sent of it."""
        return self.param.numel() * (1 if self.storages else self.param.element_size())

    @property
    def size(self) -> tuple[int, int]:
        """The rows that groups begin anew with, and their length."""
        return self.binding.size_of(self.param)

    @property
    def scales(self) -> int:
        """Returns the number of scales that its gradient has, as it is sent."""
        return self.storages.scales_of(*self.size) if self.storages else 0


@dataclass
class Bucket:
    """Parameters on one device, whose gradients are stored alike and are sent together."""

    entries: list[Entry] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Returns the bytes that are sent of it."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def device(self) -> torch.device:
        """The device of the parameters; the CPU if there are none."""
        return self.entries[0].param.device if self.entries else torch.device("cpu")


def buckets_of(entries: Sequence[Entry], most: int) -> list[Bucket]:
    """Returns buckets of at most ``most`` bytes, or of one parameter, in the order in which
    backward passes complete them, which begin with the last parameters. There is at least one."""
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
# What ranks tell one another first
#===------------------------------------------------------------------------===#


def _scales_of(entry: Entry, planes: Sequence[torch.Tensor]) -> torch.Tensor:
    """The f32 scales of a gradient, as far as they say something."""
    def values() -> torch.Tensor:
        wide = torch.empty_like(planes[0], dtype=torch.float32)
        entry.binding.convert([planes], entry.storages.source, [wide], floats("f32"), [])
        return wide.as_strided((wide.numel(),), (1,))

    return entry.storages.known(planes[1].flatten().float(), entry.size, values)


class _Message:
    """The kinds and the scales of a bucket's gradients, of which ranks exchange the largest.

    They are integers: the bits of scales, which are not negative, are in the order of these,
    and a maximum of floats depends on the backend where one is NaN.
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
        """The kind of each gradient on all ranks that have it, and the largest scales.

        Raises:
            RuntimeError: ranks have one of different kinds.
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
    """The mean over the ranks of tensors in a type of PyTorch's.

    A rank has a slice of all ranks' tensors, adds it up in f32 (f64 in f64) in the order of
    the ranks, divides by their number, and rounds once.
    """
    bounds = [len(flat) * i // ranks.size for i in range(ranks.size + 1)]
    # Bytes, since not every backend has every type.
    lengths = [(end - start) * flat.element_size() for start, end in zip(bounds, bounds[1:])]
    given = ranks.all_to_all(flat.view(torch.uint8), lengths).view(flat.dtype)
    given = given.view(ranks.size, len(given) // ranks.size)
    total = given[0].to(torch.promote_types(flat.dtype, torch.float32), copy=True)
    for other in given[1:]:
        total += other
    mean = (total / ranks.size).to(flat.dtype)
    return ranks.all_gather(mean.view(torch.uint8), lengths).view(flat.dtype)


class BucketMean:
    """Replaces the gradients of one bucket by their means over the ranks.

    Args:
        optimizer: whose gradients they are.
        ranks: the ranks.
        mu: FP8-LM's factor.
        threads: how many threads each kernel takes.
    """

    def __init__(self, optimizer: Optimizer, ranks: Ranks, mu: float, threads: int):
        self._gradients, self._ranks = optimizer._gradients, ranks
        self._mu, self._threads = mu, threads
        #: The numbers of codes that saturated, and of elements.
        self.saturated = self.values = 0

    def run(self, bucket: Bucket, facts: Mapping[str, object]) -> None:
        """Does it, after a look whether `facts` are the same on all ranks.

        Raises:
            RuntimeError: the ranks differ in them, or in what their gradients are.
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
    """The planes of a gradient that this rank does not have, for others that do."""
    binding = entry.binding
    like = binding.like(entry.param, None)
    planes = [plane for plane in binding.grad_planes if not plane.persistent]
    made = [binding.empty(plane, like) for plane in planes]
    zeros = torch.zeros_like(made[0], dtype=torch.float32)
    binding.convert([zeros], floats("f32"), [made], entry.storages.source, planes, fresh=False)
    return made


def _like(plane: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """A plane of the same layout that has these elements in memory."""
    result = torch.empty_like(plane)
    result.as_strided(memory.shape, (1,)).copy_(memory)
    return result
