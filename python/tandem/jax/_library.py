"""The library through which XLA launches kernels, and its registered kernels."""

from __future__ import annotations

import ctypes
import hashlib
import pathlib
import tempfile

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

#: The name of the handlers in XLA, one per platform.
TARGET = "tandem_launch"


def _load() -> ctypes.CDLL:
    """Loads the library and registers its handlers with XLA."""
    path = pathlib.Path(tandem.__file__).absolute().parent / "libtandem_jax.so"
    if not path.exists():
        raise ImportError(
            f"this build of Tandem has no {path.name}, since jaxlib was not there when it was "
            "configured; install jax into the Python that Tandem is built with, and build it "
            "again: cmake build && scripts/build.sh, or pip install in a new environment")
    library = ctypes.CDLL(str(path))
    library.tandem_jax_add.restype = None
    library.tandem_jax_add.argtypes = (ctypes.c_char_p, ctypes.c_void_p, *[ctypes.c_size_t] * 3)
    library.tandem_jax_add_package.restype = ctypes.c_char_p
    library.tandem_jax_add_package.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    for platform, handler in (("cpu", library.tandem_jax_launch),
                              ("CUDA", library.tandem_jax_launch_cuda)):
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform=platform)
    return library


_LIBRARY = _load()
#: The names of registered kernels, and the kernels by name.
_KNOWN: dict[int, str] = {}
_KERNELS: dict[str, Kernel] = {}
#: The names of kernels whose code for GPUs is registered.
_PACKED: set[str] = set()


def name_of(kernel: Kernel) -> str:
    """Registers a kernel permanently, and returns the name by which launches find it. The name
    is a hash of what the kernel does, so it is the same in every process."""
    native = kernel._native
    if id(native) not in _KNOWN:
        text = f"{tandem.__version__} {kernel.target} {kernel.info['name']} {kernel.info['ir']}"
        name = hashlib.sha256(text.encode()).hexdigest()
        # XLA may launch it while the process exits, after Python has released everything else.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
        _LIBRARY.tandem_jax_add(name.encode(), native.runtime_address(), len(kernel.planes),
                                len(kernel.hypers), len(kernel.integers))
        _KNOWN[id(native)], _KERNELS[name] = name, kernel
    return _KNOWN[id(native)]

#===------------------------------------------------------------------------===#
# GPUs
#===------------------------------------------------------------------------===#


def gpu_targets(what: str) -> list[str]:
    """Returns the targets of JAX's GPUs, such as "sm_90". Messages call the launch `what`.

    Raises:
        NotImplementedError: JAX has no GPUs or does not report their targets.
    """
    try:
        found = {str(device.compute_capability) for device in jax.local_devices(backend="cuda")}
    except (AttributeError, RuntimeError) as error:
        raise NotImplementedError(
            f"{what} is to be compiled for CUDA, but JAX has no CUDA GPU here that says which "
            "compute capability to compile for; trace it in a process whose jax.devices('cuda') "
            "has the GPU, and do not export it for CUDA from another one") from error
    return sorted(f"sm_{capability.replace('.', '')}" for capability in found)


def compile_for_gpus(name: str, what: str) -> None:
    """Registers the code of a kernel for JAX's GPUs. Messages call the launch `what`."""
    if name in _PACKED:
        return
    targets = gpu_targets(what)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.tdm"
        try:
            tandem.save(path, [_KERNELS[name]], targets=targets)
        except ValueError as error:
            raise NotImplementedError(
                f"{what} was to run on GPUs of {', '.join(targets)}, for which Tandem has no code: "
                f"{error}; keep its arrays on the CPU") from error
        package = path.read_bytes()
    if problem := _LIBRARY.tandem_jax_add_package(name.encode(), package, len(package)):
        raise RuntimeError(problem.decode())
    _PACKED.add(name)
