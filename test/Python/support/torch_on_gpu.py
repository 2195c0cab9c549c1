#===- torch_on_gpu.py - PyTorch as if on a GPU -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file makes tandem.torch treat CPU tensors as those of a GPU: the driver without a GPU shares
# the process's memory.
#
#===----------------------------------------------------------------------===#
"""`with gpu.holds_torch():` runs optimizers on the GPU; `Graph` captures a step."""

import ctypes
from contextlib import contextmanager

import torch

from support.fake_gpu import FakeGPU
from tandem.torch import _executor

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class FakeExecutor(_executor.GPU):
    """A GPU whose memory is the CPU's. Work that PyTorch would enqueue in the stream is a
    function there."""

    def __init__(self, gpu, ordinal, stream):
        super().__init__(ordinal)
        self.torch_device, self._gpu, self._stream = torch.device("cpu"), gpu, stream
        self._work = []
        self._function = _FUNCTION(lambda at: self._do(at))

    @property
    def stream(self):
        return self._stream

    @property
    def is_capturing(self):
        return bool(self._gpu.library.fake_cuda_is_capturing(ctypes.c_void_p(self._stream)))

    def _do(self, at):
        with torch.no_grad():
            self._work[at]()

    def call(self, work):
        self._work.append(work)
        self._gpu.library.fake_cuda_enqueue(ctypes.c_void_p(self._stream), self._function,
                                            len(self._work) - 1)


class TorchGPU(FakeGPU):
    """GPUs that hold the tensors for which `ordinal_of` returns an ordinal, by default all."""

    def __init__(self, count=1):
        super().__init__(count=count)
        self.library.fake_cuda_create_stream.restype = ctypes.c_void_p
        streams = [self.library.fake_cuda_create_stream() for _ in range(count)]
        self.executors = [FakeExecutor(self, i, s) for i, s in enumerate(streams)]
        self.stream = ctypes.c_void_p(streams[0])

    @contextmanager
    def holds_torch(self, ordinal_of=lambda tensor: 0):
        """Returns a context in which CPU tensors count as being on GPUs."""
        def executor_of(tensor):
            if not tensor.is_cpu:
                return before(tensor)
            ordinal = ordinal_of(tensor)
            return before(tensor) if ordinal is None else self.executors[ordinal]

        before, _executor.executor_of = _executor.executor_of, executor_of
        self.library.fake_cuda_share_memory(1)
        self.library.fake_cuda_work_at_once(1)
        try:
            yield
        finally:
            _executor.executor_of = before
            self.library.fake_cuda_share_memory(0)
            self.library.fake_cuda_work_at_once(0)
            self.check()

    @contextmanager
    def captures(self):
        """Records the work in the block as a graph, which is yielded."""
        graph = Graph(self)
        self.library.fake_cuda_begin_capture(self.stream)
        try:
            yield graph
        finally:
            graph.number = self.library.fake_cuda_end_capture(self.stream)


class Graph:
    """A stand-in for torch.cuda.CUDAGraph."""

    def __init__(self, gpu):
        self._gpu, self.number = gpu, None

    def replay(self):
        self._gpu.library.fake_cuda_launch_graph(self.number, self._gpu.stream)
        self._gpu.library.fake_cuda_synchronize(self._gpu.stream)
        self._gpu.check()
