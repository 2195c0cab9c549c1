"""Means of encoded gradients over ranks, with scales that all ranks share."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch.utils.hooks import RemovableHandle

from tandem.torch.distributed._buckets import Bucket, BucketMean, Entry, buckets_of
from tandem.torch.distributed._codes import Storages
from tandem.torch.distributed._ranks import Ranks, is_transport
from tandem.torch.distributed._scaling import AutomaticScaling
from tandem.torch.distributed._streams import Handover
from tandem.torch._shards import shard_of
from tandem.torch.optim import _wrappers
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim._optimizer import Optimizer

MIB = 2**20


def _refuse_dtensor(param: torch.Tensor, label: str) -> None:
    if shard_of(param) is not None:
        raise TypeError(
            f"{label} is a DTensor, whose gradient fully_shard reduces itself; give the model "
            "tandem.torch.distributed.FP8ReduceScatter in place of GradientAllReduce")


class GradientAllReduce:
    """Averages the ranks' encoded gradients, with 8-bit sums.

    Each rank calls it between the backward passes and its optimizer's step::

        reduce = tandem.torch.GradientAllReduce(optimizer)
        loss.backward()
        reduce()
        optimizer.step()

    The scale of a gradient, or of each group of its elements, is the maximum of the ranks'
    scales, divided by the factor mu. Each rank encodes its gradient again with this scale. Each
    rank receives all ranks' codes for a slice, adds their values in f32 in the order of the
    ranks, and encodes the sum once with the same scale; then the ranks gather all slices. The
    scale is divided by the number of ranks to turn the sum into the mean (Peng et al., *FP8-LM*,
    section 2.1). Each of N ranks thus sends and receives 2 (N - 1) / N bytes per parameter.
    Gradients in ``p.grad`` are averaged in their own type, in f32 arithmetic and in the same
    order. All ranks have the same bits afterwards, which do not depend on buckets or
    ``overlap``.

    All ranks must call it with the same parameters. If only some ranks have a gradient for a
    parameter, the missing ones count as zero, as in DistributedDataParallel with
    ``find_unused_parameters``. If no rank has one, there is none afterwards.

    Args:
        optimizer: an optimizer with at least one param group whose strategy stores gradients in
            codes without a range and with scales in f32, bf16 or f16, such as "fp8-lm".
        ranks: a process group of torch.distributed, None for all processes, or an object with
            the methods of :class:`Ranks`.
        scaling: the object that chooses mu; None for 1 / N, with which no sum saturates.
        overlap: whether a separate thread sends each bucket as soon as a backward pass has
            completed it. All other backward passes before the call must then be inside
            :meth:`no_sync`. This creates a process group, so all ranks must create this object
            together.
        bucket_cap_mb: the maximum size of a bucket of gradients, as they are sent, in MiB.

    Raises:
        ValueError: the strategy stores gradients in another way, or the optimizer releases them.
    """

    def __init__(self, optimizer: Optimizer, ranks=None,
                 scaling: AutomaticScaling | None = None, *, overlap: bool = False,
                 bucket_cap_mb: float = 25):
        optimizer = _wrappers.unwrapped(optimizer)
        if optimizer.gradient_release:
            raise ValueError(
                "gradients that backward passes release cannot be averaged over ranks "
                "before their steps; create the optimizer without gradient_release=True"
            )
        if not bucket_cap_mb > 0:
            raise ValueError(f"bucket_cap_mb is {bucket_cap_mb}; it must be more than 0")
        self._optimizer, self.scaling = optimizer, scaling
        for index, param, _ in optimizer._groups:
            _refuse_dtensor(param, optimizer._groups.label(index))
        for spec in self._encoding():
            Storages.of(spec.kernel)
        self._ranks = ranks if is_transport(ranks) else Ranks(ranks, private=overlap)
        optimizer._hooks.sends_codes = True
        #: The fraction of values that saturated in the latest call.
        self.saturated = 0.0
        self._most = int(bucket_cap_mb * MIB)
        self._worker = ThreadPoolExecutor(1, "tandem-all-reduce") if overlap else None
        self._paused = False
        #: The hooks of parameters; weak references to these would keep PyTorch from swapping them.
        self._hooks: dict[torch.Tensor, RemovableHandle] = {}
        self._known, self._buckets = None, [Bucket()]
        self._begin_round()
        if overlap:
            self._look_at_parameters()

    def _encoding(self) -> list[StateSpec]:
        """Returns the specs whose gradients are codes, or one other if there are none."""
        names = dict.fromkeys(group["strategy"] for group in self._optimizer.param_groups)
        specs = [spec for name in names
                    for spec in self._optimizer._groups.specs.of_strategy(name)]
        return [spec for spec in specs if spec.encodes] or specs[:1]

    #===--------------------------------------------------------------------===#
    # Buckets
    #===--------------------------------------------------------------------===#

    def _look_at_parameters(self) -> None:
        """Creates buckets of the optimizer's parameters if these have changed."""
        grouped = [(index, param, group) for index, param, group in self._optimizer._groups
                   if param.requires_grad]
        known = [(id(param), group["strategy"],
                  (group["min_8bit_size"], group["min_8bit_vector_size"]))
                 for _, param, group in grouped]
        if known == self._known:
            return
        self._known, entries = known, [self._entry(*row) for row in grouped]
        self._buckets = buckets_of(entries, self._most)
        self._facts = {
            "shapes of parameters": [tuple(e.param.shape) for e in entries],
            "layouts of parameters": [e.param.stride() for e in entries],
            "types of parameters": [e.param.dtype for e in entries],
            "names of parameters": [e.label for e in entries],
            "strategies": [(strategy, least, e.storages and e.storages.source)
                           for (_, strategy, least), e in zip(known, entries)],
            "seeds": [group.get("seed") for group in self._optimizer.param_groups],
            "bucket_cap_mb": self._most / MIB,
        }
        self._place = {id(entry.param): number for number, bucket in enumerate(self._buckets)
                       for entry in bucket.entries}
        self._begin_round()
        if self._worker:
            self._watch(entries)

    def _entry(self, index: int, param: torch.Tensor, group: dict) -> Entry:
        label = str(self._optimizer._groups.label(index))
        _refuse_dtensor(param, label)
        spec = self._optimizer._groups.spec_for(param, label, group)
        return Entry(param, label, spec, Storages.of(spec.kernel) if spec.encodes else None)

    def _watch(self, entries: list[Entry]) -> None:
        """Registers hooks through which backward passes report complete gradients."""
        owner = weakref.ref(self)

        def arrived(param: torch.Tensor) -> None:
            if (living := owner()) is not None:
                living._arrived(param)

        for entry in entries:
            if entry.param not in self._hooks:
                self._hooks[entry.param] = entry.param.register_post_accumulate_grad_hook(arrived)

    def _begin_round(self) -> None:
        """Resets the state of the buckets that have been sent."""
        self._missing = [{id(entry.param) for entry in bucket.entries}
                         for bucket in self._buckets]
        #: The futures of the buckets that are being sent, their means, and whether one failed.
        self._sent: list[Future] = []
        self._means: list[BucketMean] = []
        self._failed = False

    def _arrived(self, param: torch.Tensor) -> None:
        """Sends complete buckets, in order."""
        number = self._place.get(id(param))
        if self._paused or number is None:
            return
        if number < len(self._sent):
            raise RuntimeError(
                f"a backward pass adds to the gradient of {self._optimizer._groups.name(param)}, "
                "which GradientAllReduce has sent already; call it after each pass, and run "
                "passes whose gradients are added up, except for the last, inside of its "
                "no_sync()")
        self._missing[number].discard(id(param))
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            self._send(self._buckets[len(self._sent)])

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Returns a context in which backward passes only accumulate gradients and send none."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    #===--------------------------------------------------------------------===#
    # Sums
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def __call__(self) -> None:
        """Replaces each gradient with the mean over the ranks.

        Raises:
            RuntimeError: the ranks differ in parameters, strategies, seeds, the factor mu or the
                kinds of gradients, in which case all ranks raise it; or DistributedDataParallel
                has already averaged gradients.
        """
        self._look_at_parameters()
        self._refuse_ddp([entry.param for bucket in self._buckets for entry in bucket.entries])
        try:
            while len(self._sent) < len(self._buckets):
                self._send(self._buckets[len(self._sent)])
            for future in self._sent:
                handover = future.result()
                handover.take()
            self._count()
        finally:
            self._begin_round()

    def _send(self, bucket: Bucket) -> None:
        """Averages a bucket, immediately or in the thread that has sent the previous ones."""
        mean = BucketMean(self._optimizer, self._ranks, self._mu, torch.get_num_threads())
        self._means.append(mean)
        facts, handover = self._facts | {"factors mu": self._mu}, Handover(bucket.device)
        if self._worker:
            self._sent.append(self._worker.submit(self._average, mean, bucket, facts, handover))
            return
        self._sent.append(Future())
        mean.run(bucket, facts)
        self._sent[-1].set_result(handover)

    @torch.no_grad()
    def _average(self, mean: BucketMean, bucket: Bucket, facts: dict,
                 handover: Handover) -> Handover:
        """Averages a bucket in the thread. After a failure, which all ranks share, it does
        nothing."""
        if self._failed:
            return handover
        try:
            with handover.stream():
                mean.run(bucket, facts)
                handover.give(plane for entry in bucket.entries for plane in
                              self._optimizer._gradients.get(entry.param) or [])
        except BaseException:
            self._failed = True
            raise
        return handover

    @property
    def _mu(self) -> float:
        return self.scaling.mu if self.scaling else 1 / self._ranks.size

    def _refuse_ddp(self, params: list[torch.Tensor]) -> None:
        """Refuses gradients that DistributedDataParallel has written after they were encoded,
        because its buckets are zero."""
        codes = self._optimizer._gradients
        written = [param for param in params
                   if param.grad is not None and codes.get(param) is not None]
        if written and _wrappers.is_in_ddp(written):
            raise RuntimeError(
                "DistributedDataParallel has averaged gradients that GradientAllReduce "
                "sends in codes, and found none; run backward passes inside of the "
                "model's no_sync(), or leave GradientAllReduce out, and send codes by "
                "fp8_compress_hook"
            )

    def _count(self) -> None:
        """Updates mu with the numbers of the ranks' values and sums that saturated."""
        values = sum(mean.values for mean in self._means) * (self._ranks.size + 1)
        own = sum(mean.saturated for mean in self._means)
        if not values:
            return
        device = next(bucket.device for bucket in self._buckets)
        everywhere = torch.tensor([own], dtype=torch.int64, device=device)
        self._ranks.sum(everywhere)
        saturated = int(everywhere)
        self.saturated = saturated / values
        if self.scaling:
            self.scaling.update(saturated, values)

    def state_dict(self) -> dict:
        """Returns the state of the scaling."""
        return self.scaling.state_dict() if self.scaling else {}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores a state from `state_dict`."""
        if bool(state_dict) != bool(self.scaling):
            raise ValueError(
                "the state dict is of a GradientAllReduce "
                + ("with" if state_dict else "without") + " automatic scaling; create "
                "this one in the same way")
        if self.scaling:
            self.scaling.load_state_dict(state_dict)
