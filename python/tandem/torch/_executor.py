"""The devices that hold parameters and run kernels: the CPU, or a GPU that PyTorch uses."""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable
from functools import lru_cache

import torch

from tandem._convert import CPU, Executor
from tandem._device import open_gpu
from tandem._kernel import Kernel
from tandem._plan import Plan


class GPU(Executor):
    """A GPU that PyTorch uses. All work runs in PyTorch's current stream."""

    def __init__(self, ordinal: int):
        self.torch_device = torch.device("cuda", ordinal)
        self.device = open_gpu(ordinal)
        self.target = self.device.target
        self._plans: dict[tuple, Plan] = {}

    @property
    def stream(self) -> int:
        """PyTorch's current stream on this GPU."""
        return torch.cuda.current_stream(self.torch_device).cuda_stream

    @property
    def is_capturing(self) -> bool:
        """Whether the current stream is being captured in a CUDA graph."""
        with torch.cuda.device(self.torch_device):
            return torch.cuda.is_current_stream_capturing()

    def call(self, work: Callable[[], None]) -> None:
        """Calls `work`, which enqueues PyTorch's kernels on the stream."""
        work()

    def launch(self, plan: Plan, hypers, integers, threads: int = 0) -> int:
        """Enqueues a step on the stream."""
        plan.launch_async(hypers, integers, stream=self.stream)
        return 0

    def plan(self, kernel: Kernel) -> Plan:
        """Returns a plan for the next launch. It keeps its memory for later launches in the same
        stream and thread."""
        self._refuse_capture()
        key = kernel, self.stream, threading.get_ident()
        if key not in self._plans:
            self._plans[key] = Plan(kernel, self.device)
        return self._plans[key]

    def copy(self, to: int, source: int, bytes: int) -> None:
        """Copies memory after the GPU has finished its work."""
        self._refuse_capture()
        self.device._native.copy(to, source, bytes)

    def clear(self, to: int, bytes: int) -> None:
        """Fills memory with zeros after the GPU has finished its work."""
        zeros = (ctypes.c_char * bytes)()
        self.copy(to, ctypes.addressof(zeros), bytes)

    def _refuse_capture(self) -> None:
        if self.is_capturing:
            raise RuntimeError(
                "a CUDA graph cannot have conversions of weights or gradients that are "
                "stored in codes; take a strategy that stores both as PyTorch does, or "
                "leave backward passes and steps out of the graph"
            )


@lru_cache(maxsize=None)
def _gpu(ordinal: int) -> GPU:
    return GPU(ordinal)


# The extension reports plans that outlive the interpreter.
atexit.register(_gpu.cache_clear)


def executor_of(tensor: torch.Tensor) -> Executor | None:
    """Returns the executor for a tensor's device; None if kernels cannot run there."""
    if tensor.is_cpu:
        return CPU
    if tensor.is_cuda:
        return _gpu(tensor.device.index)
    return None


def torch_device(executor: Executor) -> torch.device:
    """Returns PyTorch's device for an executor."""
    return torch.device("cpu") if executor is CPU else executor.torch_device
