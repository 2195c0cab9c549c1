"""Asynchronous steps: scalars, counts and the decision to skip are in the memory of GPUs, so
that a CUDA graph can capture them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tandem._convert import Executor
from tandem._plane import RoleKind
from tandem.torch import _executor
from tandem.torch.optim.launch._launch import Launch, Row

#: A number, or a tensor that holds one.
Scalar = float | torch.Tensor


class Rows:
    """A launch's rows of scalars in the memory of its GPU."""

    def __init__(self, launch: Launch):
        kernel, count = launch.kernel, len(launch.table)
        self.table = list(launch.table)
        self.hypers = torch.empty((count, len(kernel.hypers)), dtype=torch.float64,
                                  device=launch.spec.device)
        self.integers = torch.empty((count, len(kernel.integers)), dtype=torch.int64,
                                    device=launch.spec.device)
        self._kinds = list(kernel.integers.values())
        #: The columns that have already been written.
        self._columns: list = [None] * (len(kernel.hypers) + len(kernel.integers))

    def write(self, hypers: Sequence[Sequence[Scalar]], seeds: Sequence[int],
              counters: Sequence[torch.Tensor]) -> list:
        """Returns the operations that write the scalars of a step."""
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
        """Returns the operations that write a column, which are none if it already holds these
        numbers."""
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
    """An optimizer's state for asynchronous steps, except for its plans."""

    def __init__(self):
        self._rows: dict[Launch, Rows] = {}
        #: The rows that captured graphs read.
        self._captured: list[Rows] = []
        #: Two words for each GPU: whether the last step was skipped, and a zero.
        self._flags: dict[Executor, torch.Tensor] = {}

    def run(self, runner, launches: Sequence[Launch]) -> None:
        """Enqueues a step on the streams of the launches' GPUs."""
        _check(runner, launches)
        rows = [self._write(runner, launch) for launch in launches]
        executors = list(dict.fromkeys(launch.executor for launch in launches))
        skips = self._decide(launches, executors, runner.found_inf)
        if exchange := runner.skip_exchange:
            found = exchange.any(any(bool(skip) for skip in skips.values()))
            for executor, skip in skips.items():
                executor.call(lambda skip=skip: skip.fill_(found))
        for launch, own in zip(launches, rows):
            with runner.explained(launch):
                launch.plan.launch_on_device(
                    own.hypers.data_ptr(), own.integers.data_ptr(), len(own.table),
                    stream=launch.executor.stream, skip=_address(skips.get(launch.executor)))
            launch.keep_histories(skips.get(launch.executor))
        for executor in executors:
            counters = {id(c): c for launch in launches if launch.executor is executor
                        for c in launch.counters.values()}
            _count(executor, list(counters.values()), skips.get(executor))

    def _write(self, runner, launch: Launch) -> Rows:
        """Enqueues the writing of this step's rows on the launch's GPU."""
        rows = self._rows.get(launch)
        if launch.executor.is_capturing:
            # A graph writes all of its own rows.
            rows = Rows(launch)
            self._captured.append(rows)
        elif rows is None or rows.table != launch.table:
            rows = self._rows[launch] = Rows(launch)
        groups = runner.groups.list
        for work in rows.write(
                [_scalars(runner, launch, row) for row in launch.table],
                [int(groups[row[0]].get("seed", 0)) for row in launch.table],
                [launch.counters[row[1]] for row in launch.table if launch.counters]):
            launch.executor.call(work)
        return rows

    def _decide(self, launches: Sequence[Launch], executors: Sequence[Executor],
                found_inf: torch.Tensor | None) -> dict[Executor, torch.Tensor]:
        """Returns, for each GPU, a word that is nonzero if the step is to be skipped."""
        skips = {} if found_inf is None else {
            executor: found_inf.to(_executor.torch_device(executor), non_blocking=True)
            for executor in executors}
        for launch in launches:
            if launch.check:
                flags = self._flags_of(launch.executor)
                launch.check.launch_async(launch.executor.stream,
                                           _address(skips.get(launch.executor)), flags.data_ptr())
                skips[launch.executor] = flags[:1]
        for launch in launches:
            if launch.exchange and launch.executor in skips:
                _agree(launch, skips[launch.executor])
        if len(executors) > 1 and any(launch.check for launch in launches):
            _share(executors, skips)
        return skips

    def _flags_of(self, executor: Executor) -> torch.Tensor:
        if executor not in self._flags:
            self._flags[executor] = torch.zeros(2, dtype=torch.int32,
                                                device=_executor.torch_device(executor))
        return self._flags[executor]

    @property
    def skipped(self) -> bool:
        """Waits for the last step and returns whether it was skipped."""
        return any(bool(flags[0]) for flags in self._flags.values())


def _check(runner, launches: Sequence[Launch]) -> None:
    """Refuses numbers known to the host that a launch on the CPU would refuse."""
    for launch in launches:
        if runner.skip_exchange and launch.executor.is_capturing:
            raise RuntimeError(
                f"{launch.kernel.name} asks other ranks whether a gradient is not finite, which "
                "no CUDA graph can do; take the step outside of the graph, or leave "
                "skip_nonfinite out")
        if launch.exchange and launch.executor.is_capturing:
            raise RuntimeError(
                f"{launch.kernel.name} reduces parameters over ranks, which the host exchanges "
                "between launches, so that no CUDA graph can have the step; take it outside of "
                "the graph")
        if launch.externals and launch.executor.is_capturing and any(
                bound.shard for bound in launch.bound_params):
            raise RuntimeError(
                f"{launch.kernel.name} has a step that the host computes of whole tensors, which "
                "ranks send to their owners, so that no CUDA graph can have it; take the step "
                "outside of the graph")
        rows = [_scalars(runner, launch, row) for row in launch.table]
        if not any(isinstance(value, torch.Tensor) for row in rows for value in row):
            for index in dict.fromkeys(row[0] for row in launch.table):
                runner.groups.hypers.check(runner.groups.list[index], index)
            with runner.explained(launch):
                launch.check_scalars(rows, [launch.integers(1, 0)] * len(rows))
    for launch in launches:
        launch.check_ranks([[None if isinstance(value, torch.Tensor) else value for value
                              in _scalars(runner, launch, row)] for row in launch.table])


def _scalars(runner, launch: Launch, row: Row) -> list[Scalar]:
    """Returns the hyperparameters of a row: numbers, or tensors on a GPU."""
    values, groups, hypers = [], runner.groups.list, runner.groups.hypers
    index, _, dtype, shape = row
    for name in launch.kernel.hypers:
        value = hypers.given(name, groups[index], shape)
        is_there = (isinstance(value, torch.Tensor)
                    and getattr(_executor.executor_of(value), "device", None))
        if not is_there:
            # Numbers of steps are on the GPU, but shapes are known here.
            value = (hypers.value_at(name, groups[index], index, 1, dtype, shape)
                     if hypers.is_shaped else hypers.number(name, groups[index], index))
        values.append(value)
    return values


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _agree(launch: Launch, skip: torch.Tensor) -> None:
    """Makes all ranks skip the step if one of them does, which waits for the GPU."""
    found = launch.exchange.any(bool(skip))
    launch.executor.call(lambda: skip.fill_(found))


def _share(executors: Sequence[Executor], skips: dict[Executor, torch.Tensor]) -> None:
    """Makes all GPUs skip the step if one of them does."""
    first = executors[0]
    for executor in executors[1:]:
        first.call(lambda word=skips[executor]: skips[first].bitwise_or_(
            word.to(skips[first].device, non_blocking=True)))
    for executor in executors[1:]:
        executor.call(lambda word=skips[executor]: word.copy_(skips[first], non_blocking=True))


def _count(executor: Executor, counters: list[torch.Tensor], skip: torch.Tensor | None) -> None:
    """Increments the counts, unless the step is skipped."""
    if not counters:
        return
    if skip is None:
        executor.call(lambda: torch._foreach_add_(counters, 1))
    else:
        executor.call(lambda: torch._foreach_add_(counters, (skip == 0).reshape(()).long()))
