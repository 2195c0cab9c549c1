"""Steps that the host does not follow: scalars, counts and whether to step at all are in
the memory of GPUs, so that a CUDA graph can have them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tandem._convert import Host
from tandem._kernel import RoleKind
from tandem.torch import _place
from tandem.torch._lane import Lane

#: A number, or where one is.
Scalar = float | torch.Tensor


class Rows:
    """A lane's rows of scalars in the memory of its GPU."""

    def __init__(self, lane: Lane):
        kernel, count = lane.kernel, len(lane.table)
        self.table = list(lane.table)
        self.hypers = torch.empty((count, len(kernel.hypers)), dtype=torch.float64,
                                  device=lane.device)
        self.integers = torch.empty((count, len(kernel.integers)), dtype=torch.int64,
                                    device=lane.device)
        self._kinds = list(kernel.integers.values())
        #: The numbers that are there already.
        self._columns: list = [None] * (len(kernel.hypers) + len(kernel.integers))

    def write(self, hypers: Sequence[Sequence[Scalar]], seeds: Sequence[int],
              counters: Sequence[torch.Tensor]) -> list:
        """What puts the scalars of a step there."""
        work = []
        for at, column in enumerate(zip(*hypers)):
            work += self._fill(at, self.hypers[:, at], column)
        for at, kind in enumerate(self._kinds):
            target = self.integers[:, at]
            if kind is RoleKind.SEED:
                work += self._fill(self.hypers.shape[1] + at, target, seeds)
            else:
                work += [lambda to=to, counter=counter: torch.add(counter, 1, out=to)
                         for to, counter in zip(target.unbind(), counters)]
        return work

    def _fill(self, at: int, target: torch.Tensor, column: Sequence[Scalar]) -> list:
        """What writes a column, but for numbers that are there."""
        if not any(isinstance(value, torch.Tensor) for value in column):
            column = tuple(column)
            if column == self._columns[at]:
                return []
            self._columns[at] = column
            if len(set(column)) == 1:
                return [lambda: target.fill_(column[0])]
        return [
            (lambda to=to, value=value: to.copy_(value.reshape(())))
            if isinstance(value, torch.Tensor)
            else (lambda to=to, value=value: to.fill_(value))
            for to, value in zip(target.unbind(), column)
        ]


class DeviceStep:
    """What an optimizer needs beside its plans for steps that the host does not follow."""

    def __init__(self):
        self._rows: dict[Lane, Rows] = {}
        #: What graphs read.
        self._captured: list[Rows] = []
        #: Two words for each GPU: whether the last step was skipped, and a zero.
        self._words: dict[Host, torch.Tensor] = {}

    def run(self, optimizer, lanes: Sequence[Lane]) -> None:
        """Puts a step into the streams of the lanes' GPUs."""
        _check(optimizer, lanes)
        rows = [self._write(optimizer, lane) for lane in lanes]
        places = list(dict.fromkeys(lane.place for lane in lanes))
        skips = self._decide(lanes, places, getattr(optimizer, "found_inf", None))
        for lane, own in zip(lanes, rows):
            with optimizer._explained(lane):
                lane.plan.launch_on_device(
                    own.hypers.data_ptr(), own.integers.data_ptr(), len(own.table),
                    stream=lane.place.stream, skip=_address(skips.get(lane.place)))
        for place in places:
            counters = {id(c): c for lane in lanes if lane.place is place
                        for c in lane.counters.values()}
            _count(place, list(counters.values()), skips.get(place))

    def _write(self, optimizer, lane: Lane) -> Rows:
        """Has the lane's GPU make the rows of this step."""
        rows = self._rows.get(lane)
        if lane.place.is_capturing:
            # A graph writes its own rows, all of them.
            rows = Rows(lane)
            self._captured.append(rows)
        elif rows is None or rows.table != lane.table:
            rows = self._rows[lane] = Rows(lane)
        groups = optimizer.param_groups
        for work in rows.write(
                [_scalars(optimizer, lane, row[0]) for row in lane.table],
                [int(groups[row[0]].get("seed", 0)) for row in lane.table],
                [lane.counters[row[1]] for row in lane.table if lane.counters]):
            lane.place.call(work)
        return rows

    def _decide(self, lanes: Sequence[Lane], places: Sequence[Host],
                found_inf: torch.Tensor | None) -> dict[Host, torch.Tensor]:
        """For each GPU a word that is not 0 if the step shall be skipped."""
        skips = {} if found_inf is None else {
            place: found_inf.to(_place.torch_device(place), non_blocking=True)
            for place in places}
        for lane in lanes:
            if lane.check:
                words = self._words_of(lane.place)
                lane.check.launch_async(lane.place.stream,
                                        _address(skips.get(lane.place)), words.data_ptr())
                skips[lane.place] = words[:1]
        if len(places) > 1 and any(lane.check for lane in lanes):
            _share(places, skips)
        return skips

    def _words_of(self, place: Host) -> torch.Tensor:
        if place not in self._words:
            self._words[place] = torch.zeros(2, dtype=torch.int32,
                                             device=_place.torch_device(place))
        return self._words[place]

    @property
    def skipped(self) -> bool:
        """Whether the last step was skipped, for which this waits."""
        return any(bool(words[0]) for words in self._words.values())


def _check(optimizer, lanes: Sequence[Lane]) -> None:
    """Refuses what a launch on the CPU would, of numbers that the host knows."""
    for lane in lanes:
        rows = [_scalars(optimizer, lane, row[0]) for row in lane.table]
        if not any(isinstance(value, torch.Tensor) for row in rows for value in row):
            with optimizer._explained(lane):
                lane.check_scalars(rows, [lane.integers(1, 0)] * len(rows))


def _scalars(optimizer, lane: Lane, group: int) -> list[Scalar]:
    """The hyperparameters of a row: numbers, and tensors that a GPU has."""
    values = []
    for name in lane.kernel.hypers:
        value = optimizer._value(name, group)
        is_there = (isinstance(value, torch.Tensor)
                    and getattr(_place.place_of(value), "device", None))
        values.append(value if is_there else optimizer._number(name, group))
    return values


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _share(places: Sequence[Host], skips: dict[Host, torch.Tensor]) -> None:
    """Has all GPUs skip what one of them skips."""
    first = places[0]
    for place in places[1:]:
        first.call(lambda word=skips[place]: skips[first].bitwise_or_(
            word.to(skips[first].device, non_blocking=True)))
    for place in places[1:]:
        place.call(lambda word=skips[place]: word.copy_(skips[first], non_blocking=True))


def _count(place: Host, counters: list[torch.Tensor], skip: torch.Tensor | None) -> None:
    """Counts a step, if it has not been skipped."""
    if not counters:
        return
    if skip is None:
        place.call(lambda: torch._foreach_add_(counters, 1))
    else:
        place.call(lambda: torch._foreach_add_(counters, (skip == 0).reshape(()).long()))
