"""PyTorch's threads, for launches on the CPU."""

from __future__ import annotations

import ctypes
import pathlib

import torch

from tandem import _tandem


def share_threads() -> bool:
    """Makes launches use the threads of PyTorch's operators, if these are OpenMP's.

    They spin for a while between operators. Separate threads would have to be woken for each
    launch, on cores where PyTorch's threads are spinning.
    """
    if "ATen parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return False
    libraries = pathlib.Path(torch.__file__).parent / "lib"
    for library in libraries.glob("libtorch_cpu.*"):
        try:
            # The symbol is in one of the libraries that it depends on.
            parallel = ctypes.CDLL(str(library)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        _tandem.use_openmp(ctypes.cast(parallel, ctypes.c_void_p).value)
        return True
    return False
