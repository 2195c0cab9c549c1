"""Tries an installed wheel where LLVM is hidden, for scripts/try-wheel.sh:
try_wheel.py compiler PACKAGE README, and then, without the compiler,
try_wheel.py runtime PACKAGE.

The first command runs the examples of a page if there is PyTorch, runs steps of JAX if there is
JAX, and writes a package together with the arrays that a step computes from others. The second one
checks that the package computes the same bits.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from pathlib import Path

import numpy as np

import tandem

SIZE = 1000
#: The instruction set of every processor of this machine's architecture.
BASELINE = "aarch64" if platform.machine() == "aarch64" else "x86-64"


def arrays_of(kernel: tandem.Kernel) -> dict[str, np.ndarray]:
    """Returns a weight and a gradient of ones as bf16 bits, and states of zeros."""
    bits = {"bf16": np.uint16, "f32": np.float32, "f8E4M3FN": np.uint8, "i8": np.uint8}
    arrays = {plane.name: np.zeros(plane.entries(SIZE), bits[plane.type])
              for plane in kernel.planes}
    for name in ("param", "grad"):
        arrays[name][:] = 0x3F80 if arrays[name].dtype == np.uint16 else 1
    return arrays


def step(kernel: tandem.Kernel) -> dict[str, np.ndarray]:
    """Returns the arrays after three steps."""
    arrays = arrays_of(kernel)
    for number in range(1, 4):
        kernel(arrays, lr=1e-3, weight_decay=0.1, step=number)
    return arrays


def maps() -> str:
    """Returns the libraries that this process has mapped."""
    return Path("/proc/self/maps").read_text()


def try_jax(kernel: tandem.Kernel) -> None:
    """Checks that steps within jax.jit give weights with the bits of the kernel's steps."""
    import jax
    import jax.numpy as jnp

    import tandem.jax

    optimizer = tandem.jax.adamw(lr=1e-3, weight_decay=0.1, strategy="collage-plus")
    grads = {"w": jnp.ones(SIZE, jnp.bfloat16)}
    params, state, train = grads, optimizer.init(grads), jax.jit(optimizer.step)
    for _ in range(3):
        params, state = train(grads, state, params)
    np.testing.assert_array_equal(np.asarray(params["w"]).view(np.uint16),
                                  step(kernel)["param"])


def has(name: str) -> bool:
    """Returns whether a package can be imported, and prints what is left out if not."""
    if importlib.util.find_spec(name):
        return True
    print(f"compiler: without {name}, whose examples are left out")
    return False


def try_compiler(package: str, page: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", Path(page).read_text(), re.M | re.S)
    for block in blocks if has("torch") else ():
        exec(block, {})
    kernel = tandem.compile("adamw", strategy="collage-plus")
    kernel.save(package, ["x86-64", "x86-64-v3", "aarch64", "sm_90"])
    np.savez(package + ".npz", **step(kernel))
    assert ".target sm_90" in tandem.compile("adamw", "coat", target="sm_90").ptx
    if has("jax"):
        try_jax(kernel)
    assert not re.search("lib(LLVM|MLIR)", maps())


def try_runtime(package: str) -> None:
    kernel = tandem.load(package, isa=BASELINE)
    expected = np.load(package + ".npz")
    for name, array in step(kernel).items():
        assert array.any() or not expected[name].any()
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
    assert "sm_90" in tandem.load(package, target="sm_90").ptx
    for use in (lambda: tandem.compile("adamw", "coat"), lambda: kernel.storages,
                tandem.strategies):
        try:
            use()
        except ImportError as error:
            assert f"pip install tandem-mlir=={tandem.__version__}" in str(error), error
        else:
            raise AssertionError("there is a compiler")
    assert "libTandem" not in maps()


if __name__ == "__main__":
    {"compiler": try_compiler, "runtime": try_runtime}[sys.argv[1]](*sys.argv[2:])
    print(f"{sys.argv[1]}: tandem {tandem.__version__} of {Path(tandem.__file__).parent}")
