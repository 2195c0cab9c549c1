"""FSDP2's reduce-scatter of gradients, in 8 bits."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from tandem._convert import Executor, Tensor, conversion
from tandem._plane import WHOLE_TENSOR
from tandem._storages import floats
from tandem.torch import _executor
from tandem.torch._layout import WORKING
from tandem.torch.distributed._codes import Storages
from tandem.torch.distributed._ranks import Ranks, is_transport


class FP8ReduceScatter:
    """Reduces gradients of FSDP2 with 8-bit communication::

        fully_shard(model)
        model.set_custom_reduce_scatter(tandem.torch.distributed.FP8ReduceScatter())

    for each module that ``fully_shard`` was called on. It needs a PyTorch whose ``FSDPModule``
    has ``set_custom_reduce_scatter``. Each rank encodes the parts of all ranks, with one scale
    for each group of neighbours in the flat, padded buffer. Groups have the length of the
    strategy's groups and start anew in each rank's part. The codes and the scales are exchanged.
    Each rank decodes the parts it receives, adds them in f32 in the order of the ranks, divides
    the sum if FSDP2 needs the mean, and rounds once to the type in which FSDP2 reduces. For N
    ranks, each sends and receives (N - 1) / N bytes per parameter, plus the scales. Shards are
    not encoded again. The all-reduce over replicas of HSDP is unchanged.

    Args:
        strategy: the name of a strategy that stores gradients in codes with a scale for each
            group of neighbours, which are sent.
        path: directories that are searched for strategies first.

    Raises:
        ValueError: there is no such strategy, or it stores gradients in another way.
    """

    def __init__(self, strategy: str = "fp8-collage-light", *,
                 path: Sequence[str | os.PathLike] = ()):
        self._storages = Storages.of_strategy(strategy, path)
        if self._storages.group == WHOLE_TENSOR:
            raise ValueError(
                f"strategy {strategy!r} has one scale for each gradient, but a flat buffer has "
                "several parameters, which cannot share one; take a strategy with groups, such "
                "as 'fp8-collage-light'")

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype,
                 device: torch.device) -> torch.Tensor:
        """Allocates a buffer."""
        return torch.empty(*size, dtype=dtype, device=device)

    @torch.no_grad()
    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group,
                 op, async_op: bool = False) -> None:
        """Writes this rank's part of the sum or mean over the ranks.

        On a GPU the work is enqueued on the current stream, which FSDP2 chooses.

        Args:
            output_tensor: this rank's part.
            input_tensor: the parts of all ranks, of equal lengths.
            group: the process group, or an object with the methods of :class:`Ranks`.
            op: ReduceOp.SUM or ReduceOp.AVG.
            async_op: must be False.

        Raises:
            ValueError: the operation is not supported.
            TypeError: the type is not float32, bfloat16 or float16.
        """
        self._check(input_tensor, op, async_op)
        if not output_tensor.numel():
            return
        ranks = group if is_transport(group) else Ranks(group)
        executor = _executor.executor_of(input_tensor)
        codes, scales = self._encode(input_tensor, ranks.size, executor)
        codes, scales = (self._exchange(ranks, plane) for plane in (codes, scales))
        total = self._add_up(codes, scales, output_tensor, ranks.size, executor)
        output_tensor.copy_(total / ranks.size if op == torch.distributed.ReduceOp.AVG
                            else total)

    @staticmethod
    def _exchange(ranks: Ranks, rows: torch.Tensor) -> torch.Tensor:
        """Returns this rank's row of each rank's tensor, as rows of bytes."""
        sent = rows.view(torch.uint8)
        return ranks.all_to_all(sent.flatten(), [sent.shape[1]] * ranks.size)

    @staticmethod
    def _check(tensor: torch.Tensor, op, async_op: bool) -> None:
        kinds = torch.distributed.ReduceOp
        if op not in (kinds.SUM, kinds.AVG):
            raise ValueError(f"FP8ReduceScatter computes sums and means, not {op}; leave "
                             "set_gradient_divide_factor out")
        if async_op:
            raise ValueError("FP8ReduceScatter has no async_op=True; FSDP2 overlaps it by "
                             "calling it in a stream of its own")
        if tensor.dtype not in WORKING:
            raise TypeError(f"FP8ReduceScatter does not reduce {tensor.dtype}; set a "
                            "reduce_dtype of float32, bfloat16 or float16 in "
                            "MixedPrecisionPolicy")

    def _encode(self, tensor: torch.Tensor, count: int,
                executor: Executor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the codes and scales of each rank's part, in rows."""
        length = tensor.numel() // count
        storages = self._storages
        codes = torch.empty(count, length, dtype=storages.code, device=tensor.device)
        scales = torch.empty(count, -(-length // storages.group), dtype=storages.scale,
                             device=tensor.device)
        size = count, length
        conversion(floats(WORKING[tensor.dtype]), storages.source, fresh=False,
                   chip=executor.target).run(
            [Tensor(size, [tensor.data_ptr()])],
            [Tensor(size, [codes.data_ptr(), scales.data_ptr()])],
            [], torch.get_num_threads(), executor)
        return codes, scales

    def _add_up(self, codes: torch.Tensor, scales: torch.Tensor, like: torch.Tensor,
                count: int, executor: Executor) -> torch.Tensor:
        """Returns the f32 sum of all ranks' parts for this rank."""
        total = torch.empty(like.numel(), device=like.device)
        for number, part in enumerate(zip(codes.chunk(count), scales.chunk(count))):
            conversion(self._storages.source, floats("f32"), adds=number > 0,
                       chip=executor.target).run(
                [Tensor(like.numel(), [plane.data_ptr() for plane in part])],
                [Tensor(like.numel(), [total.data_ptr()])],
                [], torch.get_num_threads(), executor)
        return total
