"""Tries an installed wheel beside packages that have an LLVM or a nanobind of their own, in one
process with each and with all, for scripts/try-wheel.sh: try_neighbours.py.

Tandem is used before, between and after the others, and each of them twice. Python loads extensions with
RTLD_LOCAL, and then with RTLD_GLOBAL, where libraries see each other's symbols. A package that is not
installed is left out. try_neighbours.py FLAGS PACKAGE... tries one order.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TRITON = """module {
  tt.func public @double(%values: !tt.ptr<f32>) {
    %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %base = tt.splat %values : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %at = tt.addptr %base, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %value = tt.load %at : tensor<128x!tt.ptr<f32>>
    %sum = arith.addf %value, %value : tensor<128xf32>
    tt.store %at, %sum : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""
LLVM = "define i32 @double(i32 %x) {\n  %y = add i32 %x, %x\n  ret i32 %y\n}\n"


def use_triton() -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        path = Path(folder, "double.ttir")
        path.write_text(TRITON)
        kernel = triton.compile(str(path), target=GPUTarget("cuda", 90, 32))
    assert ".target sm_90" in kernel.asm["ptx"]


def use_llvmlite() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    with llvm.create_mcjit_compiler(llvm.parse_assembly(LLVM), machine) as engine:
        engine.finalize_object()
        address = engine.get_function_address("double")
        assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)(21) == 42


def use_jax() -> None:
    import jax

    assert jax.jit(lambda x: x + x)(21.0) == 42


def use_torch() -> None:
    import torch

    assert (torch.ones(8, 8) @ torch.ones(8, 8)).sum().item() == 512


def use_tandem() -> None:
    import tandem
    from try_wheel import step

    if sys.getdlopenflags() & os.RTLD_GLOBAL:
        ctypes.CDLL(Path(tandem.__file__).with_name("libTandem.so"), mode=os.RTLD_GLOBAL)
    assert step(tandem.compile("adamw", strategy="coat"))["param"].any()
    assert ".target sm_90" in tandem.compile("adamw", "coat", target="sm_90").ptx


def use(flags: str, *names: str) -> None:
    """Uses packages one after another, twice, where `flags` are of os.RTLD_ for extensions. NumPy's are
    local: on AArch64, PyTorch crashes where NumPy's BLAS is global, also without Tandem."""
    import numpy  # noqa: F401

    sys.setdlopenflags(getattr(os, f"RTLD_{flags}") | os.RTLD_NOW)
    for name in names * 2:
        globals()[f"use_{name}"]()


def try_neighbours() -> None:
    names = ("triton", "llvmlite", "jax", "torch")
    neighbours = [name for name in names if importlib.util.find_spec(name)]
    for name in names:
        if name not in neighbours:
            print(f"neighbours: without {name}, which is left out")
    groups = [[name] for name in neighbours] + [neighbours]
    for group, flags in itertools.product(groups, ("LOCAL", "GLOBAL")):
        for place in range(len(group) + 1):
            order = [*group[:place], "tandem", *group[place:]]
            result = subprocess.run([sys.executable, __file__, flags, *order],
                                    capture_output=True, text=True, timeout=300)
            assert result.returncode == 0, (
                f"{', '.join(order)} with RTLD_{flags}: {result.returncode}\n{result.stderr}")
    print(f"neighbours: works before and after {', '.join(neighbours) or 'nothing'}")


if __name__ == "__main__":
    use(*sys.argv[1:]) if sys.argv[1:] else try_neighbours()
