"""The library by which XLA launches kernels, and the kernels that it knows."""

from __future__ import annotations

import ctypes
import hashlib
import pathlib

try:
    import jax
except ImportError as error:
    raise ImportError(
        "tandem.jax needs JAX 0.10 or later, and this Python has none; install it with "
        "pip install 'jax>=0.10'") from error
if jax.__version_info__ < (0, 10):
    raise ImportError(f"tandem.jax is for JAX 0.10 and later, and this is JAX {jax.__version__}; "
                      "update it with pip install -U jax")

import tandem
from tandem._kernel import Kernel

#: The name of the handler in XLA.
TARGET = "tandem_launch"


def _load() -> ctypes.CDLL:
    """Loads the library, and tells XLA of its handler."""
    path = pathlib.Path(tandem.__file__).absolute().parent / "libtandem_jax.so"
    if not path.exists():
        raise ImportError(
            f"this build of Tandem has no {path.name}, since jaxlib was not there when it was "
            "configured; install jax into the Python that Tandem is built with, and build it "
            "again: cmake build && scripts/build.sh, or pip install in a new environment")
    library = ctypes.CDLL(str(path))
    library.tandem_jax_add.restype = None
    library.tandem_jax_add.argtypes = (ctypes.c_char_p, ctypes.c_void_p, *[ctypes.c_size_t] * 3)
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(library.tandem_jax_launch),
                                platform="cpu")
    return library


_LIBRARY = _load()
#: The names of kernels that XLA knows.
_KNOWN: dict[int, str] = {}


def name_of(kernel: Kernel) -> str:
    """The name by which launches find a kernel, which the library keeps from now on. It is a
    hash of what the kernel does, so that it is the same in every process."""
    native = kernel._native
    if id(native) not in _KNOWN:
        text = f"{tandem.__version__} {kernel.target} {kernel.info['name']} {kernel.info['ir']}"
        name = hashlib.sha256(text.encode()).hexdigest()
        # XLA may launch it while the process ends, when Python lets go of everything else.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
        _LIBRARY.tandem_jax_add(name.encode(), native.runtime_address(), len(kernel.planes),
                                len(kernel.hypers), len(kernel.integers))
        _KNOWN[id(native)] = name
    return _KNOWN[id(native)]
