#===- test_torch_threads.py - Launches on PyTorch's threads ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that launches on the CPU run on the threads of PyTorch's operators.
#
#===----------------------------------------------------------------------===#

import os
import threading
from pathlib import Path

import pytest
import torch

import tandem.torch
from tandem import _tandem
from tandem.torch import _threads

SHARED = _threads.share_threads()
needs_openmp = pytest.mark.skipif(not SHARED, reason="PyTorch's threads are not OpenMP's")


def test_openmp_is_found():
    assert SHARED == ("ATen parallel backend: OpenMP" in torch.__config__.parallel_info())


@pytest.fixture
def own_threads():
    _tandem.use_openmp(0)
    yield
    _threads.share_threads()


X = torch.randn(512, 512, generator=torch.Generator().manual_seed(0)).bfloat16()
WEIGHT = torch.ones(512).bfloat16()


def normalized():
    return tandem.torch.nn.rms_norm(X, WEIGHT.shape, WEIGHT, 1e-6)


def count_threads():
    return len(list(Path("/proc/self/task").iterdir()))


@needs_openmp
def test_no_thread_is_started():
    usual = torch.get_num_threads()
    torch.set_num_threads(7)  # more than the runtime has started so far
    try:
        torch.randn(1 << 20).exp()  # starts PyTorch's threads
        before = count_threads()
        normalized()
        assert count_threads() == before
    finally:
        torch.set_num_threads(usual)


def test_results_are_those_of_the_runtimes_threads(own_threads):
    own = normalized()
    _threads.share_threads()
    assert torch.equal(own, normalized())


@needs_openmp
def test_threads_of_several_callers():
    want, got = normalized(), []
    callers = [threading.Thread(target=lambda: got.append(normalized())) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(got) == 4 and all(torch.equal(y, want) for y in got)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_of_a_fork_has_its_own():
    """OpenMP's threads exist only in the parent; waiting for them would block forever."""
    want = normalized().view(torch.int16).numpy().tobytes()
    child = os.fork()
    if child == 0:
        got = normalized().view(torch.int16).numpy().tobytes()
        os._exit(0 if got == want else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_other_backends_keep_the_runtimes(monkeypatch):
    monkeypatch.setattr(torch.__config__, "parallel_info",
                        lambda: "ATen parallel backend: native thread pool")
    assert not _threads.share_threads()


def test_libraries_without_openmp_keep_the_runtimes(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtorch_cpu.so").write_bytes(b"no library")
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))
    assert not _threads.share_threads()
