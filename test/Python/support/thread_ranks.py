#===- thread_ranks.py - Ranks in the threads of one process ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements a transport of several ranks without processes, which counts the bytes that
# they send.
#
#===----------------------------------------------------------------------===#
"""`Threads` runs ranks as threads. `Rank` is the transport that tandem.torch gets."""

import threading

import torch


class Threads:
    """The ranks of one process."""

    def __init__(self, size):
        self.size, self._barrier, self._given = size, threading.Barrier(size, timeout=120), {}

    def exchange(self, rank, tensor):
        """Returns the tensors of all ranks."""
        self._given[rank] = tensor.clone()
        self._barrier.wait()
        given = [self._given[r] for r in range(self.size)]
        self._barrier.wait()
        return given

    def run(self, work):
        """Runs work(rank) on every rank at the same time, with a `Rank` each."""
        results, errors = [None] * self.size, []

        def target(number):
            try:
                results[number] = work(Rank(self, number))
            except BaseException as error:
                errors.append(error)
                self._barrier.abort()

        threads = [threading.Thread(target=target, args=(r,)) for r in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Report the first failure, rather than others that then waited in vain.
        errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
        if errors:
            raise errors[0]
        return results


class Rank:
    """One rank.

    Attributes:
        sent: the bytes sent to other ranks. A maximum or sum counts like that of a ring:
        2 (N - 1) / N of the tensor.
        received: the bytes received from other ranks.
    """

    def __init__(self, threads, number):
        self._threads, self.rank, self.size = threads, number, threads.size
        self.sent = self.received = 0

    def max(self, tensor):
        tensor.copy_(torch.stack(self._all(tensor)).max(0).values)
        self._count_ring(tensor)

    def sum(self, tensor):
        tensor.copy_(torch.stack(self._all(tensor)).sum(0))
        self._count_ring(tensor)

    def all_to_all(self, tensor, sizes):
        assert len(sizes) == self.size and sum(sizes) == len(tensor)
        own = [part.split(sizes)[self.rank] for part in self._all(tensor)]
        self._count(tensor.nbytes - own[0].nbytes, (self.size - 1) * own[0].nbytes)
        return torch.cat(own)

    def all_gather(self, tensor, sizes):
        parts = self._all(tensor)
        assert [len(part) for part in parts] == list(sizes)
        self._count((self.size - 1) * tensor.nbytes,
                    sum(part.nbytes for part in parts) - tensor.nbytes)
        return torch.cat(parts)

    def _all(self, tensor):
        return self._threads.exchange(self.rank, tensor)

    def _count(self, sent, received):
        self.sent, self.received = self.sent + sent, self.received + received

    def _count_ring(self, tensor):
        bytes = 2 * (self.size - 1) * tensor.nbytes / self.size
        self._count(bytes, bytes)


def one_rank():
    """Returns the only rank of a run."""
    return Rank(Threads(1), 0)
