"""A communication hook of DistributedDataParallel that sends gradients in 8 bits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from tandem._convert import Executor, Tensor, conversion
from tandem._storages import floats
from tandem.torch import _executor
from tandem.torch._layout import WORKING
from tandem.torch.distributed._codes import CodeSum, Layout, Storages
from tandem.torch.distributed._ranks import Ranks, check_alike, is_transport
from tandem.torch.distributed._scaling import AutomaticScaling
from tandem.torch.distributed._streams import Handover


class FP8CompressState:
    """The settings of :func:`fp8_compress_hook`, and its state between steps.

    All ranks must create it together, since it creates a process group for its thread.

    Args:
        process_group: the ranks; None for all processes, or an object with the methods of
            :class:`Ranks`.
        strategy: the name of a strategy, whose gradient codes are sent. Its scales, for each
            tensor or group of elements, are shared. Gradients in a bucket are flat, so groups
            continue from row to row.
        scaling: the object that chooses FP8-LM's factor mu; None for 1 / N, with which no sum
            saturates.
        path: directories that are searched for strategies first.

    Attributes:
        saturated: the fraction of values and sums that saturated in the latest step whose count
            is complete; a step's count is complete when the next step starts.

    Raises:
        ValueError: there is no such strategy, its gradients are not codes or have a range, or
            this process is not in the group.
    """

    def __init__(self, process_group=None, strategy: str = "fp8-lm",
                 scaling: AutomaticScaling | None = None, *,
                 path: Sequence[str | os.PathLike] = ()):
        self.scaling, self.saturated = scaling, 0.0
        self.storages = Storages.of_strategy(strategy, path)
        self._ranks = (process_group if is_transport(process_group)
                       else Ranks(process_group, private=True))
        self._worker = ThreadPoolExecutor(1, "tandem-ddp-hook")
        self._counts, self._failed = [0, 0], False

    def send(self, bucket: torch.distributed.GradBucket) -> torch.futures.Future:
        """Averages a bucket of DistributedDataParallel over the ranks."""
        buffer, gradients = bucket.buffer(), bucket.gradients()
        if buffer.dtype not in WORKING:
            raise TypeError(f"DistributedDataParallel has gradients in {buffer.dtype}, which "
                            "fp8_compress_hook does not send; it takes float32, bfloat16 and "
                            "float16")
        devices = [buffer.device] if buffer.is_cuda else None
        future, handover = torch.futures.Future(devices=devices), Handover(buffer.device)
        self._worker.submit(self._work, future, handover, bucket.index(), buffer, gradients,
                            torch.get_num_threads())
        return future.then(_value)

    @torch.no_grad()
    def _work(self, future, handover, index, buffer, gradients, threads) -> None:
        """Averages a bucket in the thread. A failure, which all ranks share, ends the step."""
        try:
            with handover.stream():
                if index == 0:
                    self._begin_step(buffer.device)
                if self._failed:
                    raise RuntimeError("an earlier bucket of this step has failed")
                self._average(index, buffer, gradients, threads)
                future.set_result(buffer)
        except Exception as error:
            self._failed = True
            future.set_result(error)

    def _begin_step(self, device: torch.device) -> None:
        """Updates mu with the number of values that saturated in the previous step."""
        self._failed, counts = False, self._counts
        self._counts = [0, 0]
        saturated = torch.tensor(counts[:1], dtype=torch.int64, device=device)
        self._ranks.sum(saturated)
        if values := counts[1] * (self._ranks.size + 1):
            self.saturated = int(saturated) / values
            if self.scaling:
                self.scaling.update(int(saturated), values)

    def _average(self, index: int, buffer: torch.Tensor, gradients: list[torch.Tensor],
                 threads: int) -> None:
        mu = self.scaling.mu if self.scaling else 1 / self._ranks.size
        check_alike(self._ranks, {
            "gradients in a bucket": (index, [tuple(grad.shape) for grad in gradients]),
            "types of gradients": buffer.dtype, "codes": self.storages.source, "factors mu": mu,
        }, buffer.device)
        mean = _GradientMean(self.storages, gradients, threads)
        largest = mean.scales().view(torch.int32)
        self._ranks.max(largest)
        work = mean.average(self._ranks, largest.view(torch.float32), mu)
        self._counts[0] += work.saturated
        self._counts[1] += sum(mean.layout.elements)

    def state_dict(self) -> dict:
        """Returns the state of the scaling."""
        return self.scaling.state_dict() if self.scaling else {}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores a state from `state_dict`."""
        if bool(state_dict) != bool(self.scaling):
            raise ValueError(
                "the state dict is of an FP8CompressState "
                + ("with" if state_dict else "without") + " automatic scaling; create "
                "this one in the same way")
        if self.scaling:
            self.scaling.load_state_dict(state_dict)


def _value(future: torch.futures.Future) -> torch.Tensor:
    """Returns the bucket, or raises the error of the thread. DistributedDataParallel would treat
    the result of set_exception as a tensor, but handles an error that is raised here."""
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


class _GradientMean:
    """The gradients of a bucket, which are dense in memory."""

    def __init__(self, storages: Storages, gradients: list[torch.Tensor], threads: int):
        self._gradients = [grad for grad in gradients if grad.numel()]
        self._threads = threads
        self.layout = Layout(storages, [(1, grad.numel()) for grad in self._gradients])
        self._device = gradients[0].device
        self._executor: Executor = _executor.executor_of(gradients[0])
        self._type = floats(WORKING[gradients[0].dtype])

    def _convert(self, source: str, sources: list, target: str, targets: list) -> None:
        """Converts all gradients between storages, from and to the given addresses of planes."""
        conversion(source, target, fresh=False, chip=self._executor.target).run(
            [Tensor(*pair) for pair in zip(self.layout.elements, sources)],
            [Tensor(*pair) for pair in zip(self.layout.elements, targets)],
            [], self._threads, self._executor)

    def _wide(self) -> list[list[int]]:
        return [[grad.data_ptr()] for grad in self._gradients]

    def _coded(self, codes: torch.Tensor, scales: torch.Tensor) -> list[list[int]]:
        parts = zip(codes.split(self.layout.elements), scales.split(self.layout.scales))
        return [[code.data_ptr(), scale.data_ptr()] for code, scale in parts]

    def scales(self) -> torch.Tensor:
        """Returns this rank's scales in f32, with 0 for groups without information."""
        storages = self.layout.storages
        codes = torch.empty(sum(self.layout.elements), dtype=storages.code, device=self._device)
        scales = torch.empty(sum(self.layout.scales), dtype=storages.scale, device=self._device)
        self._convert(self._type, self._wide(), storages.source, self._coded(codes, scales))
        scales = scales.float()
        parts = zip(scales.split(self.layout.scales), self.layout.sizes, self._gradients)
        return torch.cat([scales[:0], *(
            storages.known(part, size, lambda grad=grad: grad.as_strided(
                (grad.numel(),), (1,)).float()) for part, size, grad in parts)])

    def average(self, ranks: Ranks, largest: torch.Tensor, mu: float) -> CodeSum:
        """Writes the means over the ranks, whose maximum scales are given, to the gradients."""
        scales, means = self.layout.storages.shared(largest, mu, ranks.size)
        work = CodeSum(ranks, self.layout, self._executor, self._threads)
        codes = work.encode(self._type, [[grad] for grad in self._gradients], scales)
        # Keep references, since addresses do not keep tensors alive.
        sums, means = work.add_up(codes, scales), means.float()
        self._convert(self.layout.storages.given, self._coded(sums, means), self._type,
                      self._wide())
        return work


def fp8_compress_hook(state: FP8CompressState,
                      bucket: torch.distributed.GradBucket) -> torch.futures.Future:
    """Averages gradients over ranks in 8 bits, during the backward pass::

        model = torch.nn.parallel.DistributedDataParallel(model)
        state = tandem.torch.distributed.FP8CompressState()
        model.register_comm_hook(state, tandem.torch.distributed.fp8_compress_hook)

    The ranks exchange the scales of a bucket's gradients, which FP8-LM's equations 4 to 6 share.
    Each rank encodes its gradients with the maximum scale divided by the factor mu, sends each
    other rank the codes of that rank's slice of the bucket, decodes and adds the codes it
    receives in f32 in the order of the ranks, and encodes the sum once. All ranks gather the
    sums and decode them, divided by the number of ranks, into the bucket. For N ranks, each
    sends and receives 2 (N - 1) / N bytes per parameter. The state's thread processes one bucket
    after another.

    The bucket itself stays in the type of the parameters, because DistributedDataParallel owns
    it. p.grad thus uses the memory of wide gradients, although its values are those of codes: a
    gradient is rounded once and a sum once more, to a mantissa of three bits (E4M3) or two
    (E5M2). A strategy that stores gradients in codes encodes p.grad in the step, as without the
    hook. That is exact if its codes and their groups are the same and its scales and N are
    powers of two; otherwise it is a third rounding.

    A NaN or an infinity on one rank reaches all ranks. Under E4M3 both become NaN or the largest
    number, depending on the code (docs/Numerics.md).

    Raises:
        TypeError: gradients are not float32, bfloat16 or float16.
        RuntimeError: (in the backward pass) the ranks' buckets, codes or factors differ.
    """
    return state.send(bucket)


if torch.distributed.is_available():
    # DistributedDataParallel compares types, not their names.
    fp8_compress_hook.__annotations__ |= {
        "bucket": torch.distributed.GradBucket,
        "return": torch.futures.Future[torch.Tensor]}
