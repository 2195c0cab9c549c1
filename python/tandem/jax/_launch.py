"""Launches of kernels in functions that JAX traces: the primitive and its calls."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tandem._kernel import Kernel
from tandem.jax import _gpu, _library
from tandem.jax._call import Call

#: The array types for the elements of planes.
DTYPES = {
    "bf16": jnp.dtype(jnp.bfloat16), "f16": jnp.dtype(jnp.float16),
    "f32": jnp.dtype(jnp.float32), "i8": jnp.dtype(jnp.int8), "i4x2": jnp.dtype(jnp.uint8), "i16": jnp.dtype(jnp.int16),
    "f8E4M3FN": jnp.dtype(jnp.float8_e4m3fn), "f8E5M2": jnp.dtype(jnp.float8_e5m2),
    "f8E8M0FNU": jnp.dtype(jnp.float8_e8m0fnu),
}

#===------------------------------------------------------------------------===#
# Mesh axes
#===------------------------------------------------------------------------===#


def varying_axes(*arrays: jax.Array) -> frozenset[str]:
    """Returns the mesh axes along which arrays vary, in a function that shard_map maps."""
    kinds = [jax.typeof(array) for array in arrays]
    # JAX 0.10.2 renamed it.
    return frozenset().union(*(kind.vma if hasattr(kind, "vma") else kind.manual_axis_type.varying
                               for kind in kinds))


def as_varying(array: jax.Array, axes: frozenset[str]) -> jax.Array:
    """Returns the array marked as varying along mesh axes."""
    more = tuple(sorted(axes - varying_axes(array)))
    return jax.lax.pcast(array, more, to="varying") if more else array


def summed_like(array: jax.Array, axes: frozenset[str]) -> jax.Array:
    """Returns the sum of an array over the mesh axes along which it varies, except for `axes`.
    This is the gradient of an input that varies only along `axes`."""
    more = tuple(sorted(varying_axes(array) - axes))
    return as_varying(jax.lax.psum(array, more) if more else array, axes)

#===------------------------------------------------------------------------===#
# Calls
#===------------------------------------------------------------------------===#

#: A number that is known when a function is traced, or an array without dimensions.
Scalar = float | jax.Array


#===------------------------------------------------------------------------===#
# The primitive
#===------------------------------------------------------------------------===#

launch_p = Primitive("tandem_launch")
launch_p.multiple_results = True


@launch_p.def_abstract_eval
def _abstract(*operands, call: Call):
    return [jax.core.ShapedArray(shape, jnp.dtype(dtype)) for dtype, shape in call.results]


@functools.lru_cache(maxsize=None)
def _compiled(call: Call):
    return jax.jit(functools.partial(launch_p.bind, call=call))


@launch_p.def_impl
def _run(*operands, call: Call):
    with jax.disable_jit(False):
        return _compiled(call)(*operands)


def _lower(context, *operands, call: Call):
    rule = jax.ffi.ffi_lowering(_library.TARGET, operand_output_aliases=call.aliases)
    return rule(context, *operands, **call.attributes)


mlir.register_lowering(launch_p, _lower, platform="cpu")
mlir.register_lowering(launch_p, _gpu.lower, platform="cuda")


def _refuse_platform(platform: str):
    def lower(context, *operands, call: Call):
        raise NotImplementedError(
            f"{call.what} was to run on {platform}, where tandem.jax has no kernels; keep "
            "its arrays on the CPU: jax.config.update('jax_platforms', 'cpu'), or jit it under "
            "jax.default_device(jax.devices('cpu')[0])")
    return lower


for _platform in ("rocm", "tpu"):
    mlir.register_lowering(launch_p, _refuse_platform(_platform), platform=_platform)


def _refuse_vmap(operands, axes, *, call: Call):
    raise NotImplementedError(
        f"{call.what} is one launch, which jax.vmap cannot map; {call.instead}, or use "
        "jax.lax.map")


def _refuse_derivative(*operands, call: Call, **rest):
    raise NotImplementedError(
        f"{call.what} rounds what it computes, and has no derivative by what it is given here; "
        "differentiate only the loss, once and in reverse, or put jax.lax.stop_gradient around "
        "what goes in")


batching.primitive_batchers[launch_p] = _refuse_vmap
ad.primitive_jvps[launch_p] = lambda primals, tangents, *, call: _refuse_derivative(call=call)
ad.primitive_transposes[launch_p] = lambda *operands, call: _refuse_derivative(call=call)

#===------------------------------------------------------------------------===#
# Launches
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class Tensor:
    """A tensor of a launch.

    Attributes:
        name: its name in messages.
        size: the kernel's rows and columns for it.
        planes: its planes by name: arrays, or a jax.ShapeDtypeStruct for a plane that is only
            written and gets new memory.
        key: its key for random numbers.
    """

    name: str
    size: tuple[int, int]
    planes: Mapping[str, jax.Array | jax.ShapeDtypeStruct]
    key: int = 0


@dataclass
class _Operands:
    """The operands and results of a call that have been collected so far."""

    operands: list[jax.Array] = field(default_factory=list)
    results: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def add(self, value: jax.Array) -> int:
        self.operands.append(value)
        return len(self.operands) - 1

    def add_result(self, dtype: object, shape: Sequence[int]) -> int:
        self.results.append((jnp.dtype(dtype).name, tuple(shape)))
        return len(self.results) - 1

    def add_plane(self, value: jax.Array | jax.ShapeDtypeStruct, written: bool) -> list[int]:
        is_new = isinstance(value, jax.ShapeDtypeStruct)
        return [-1 if is_new else self.add(value),
                self.add_result(value.dtype, value.shape) if written else -1]


@dataclass(frozen=True)
class Outcome:
    """The results of a launch."""

    planes: list[dict[str, jax.Array]]  #: the written planes of each tensor
    flags: jax.Array | None = None
    metrics: jax.Array | None = None


def launch(kernel: Kernel, tensors: Sequence[Tensor], scalars: Mapping[str, Scalar] = {}, *,
           what: str, instead: str = "map the loss", launches: int = 1, threads: int = 0, skip: jax.Array | None = None,
           shards: jax.Array | None = None, flags: bool = False,
           metrics: bool = False) -> Outcome:
    """Launches a kernel over tensors and returns their new planes.

    Args:
        kernel: a kernel for the CPU.
        tensors: the tensors, whose order is the order of sums over all of them.
        scalars: the kernel's hyperparameters and integers by name; arrays are f32, f64, i32 or
            i64.
        what: the name of the launch in messages.
        instead: what messages advise instead of jax.vmap.
        launches: the number of times that the kernel runs.
        threads: the number of threads; 0 means one per core. Results do not depend on it.
        skip: an i32; if it is nonzero, the planes do not change.
        shards: an i32 for each tensor, the number of shards of its size before it.
        flags: whether to return the flags that the kernel raises, a u32.
        metrics: whether to return the kernel's metrics, four f32.
    """
    place = _Operands()
    known, at = _place_scalars(kernel, scalars, place)
    extra = {"skip": -1 if skip is None else place.add(skip),
             "shards": -1 if shards is None else place.add(shards)}
    planes = [number for tensor in tensors for plane in kernel.planes
              for number in place.add_plane(tensor.planes[plane.name], plane.written)]
    if flags:
        extra["flags"] = place.add_result(jnp.uint32, ())
    if metrics:
        extra["metrics"] = place.add_result(jnp.float32, (4,))
    call = Call(
        what, instead, _library.name_of(kernel), "\n".join(tensor.name for tensor in tensors),
        tuple(n for t in tensors for n in (*t.size, t.key)), tuple(planes),
        tuple(place.results), tuple(known[:len(kernel.hypers)]),
        tuple(known[len(kernel.hypers):]), at, launches, threads, **extra)
    made = _compiled(call)(*place.operands)
    found, everywhere = iter(planes[1::2]), varying_axes(*place.operands)
    written = []
    for tensor in tensors:
        axes = varying_axes(*(value for value in tensor.planes.values()
                              if not isinstance(value, jax.ShapeDtypeStruct)))
        written.append({plane.name: as_varying(made[result], axes)
                        for plane, result in zip(kernel.planes, found) if result >= 0})
    return Outcome(written, as_varying(made[call.flags], everywhere) if flags else None,
                   as_varying(made[call.metrics], everywhere) if metrics else None)


def _place_scalars(kernel: Kernel, scalars: Mapping[str, Scalar],
                   place: _Operands) -> tuple[list[float], tuple[int, ...]]:
    """Returns the known values of hyperparameters and integers, with 0 for operands, and the
    indices of the operands: hyperparameters count up from 0, integers count down from -1."""
    known, at = [], []
    places = [*range(len(kernel.hypers)), *range(-1, -1 - len(kernel.integers), -1)]
    for name, number in zip([*kernel.hypers, *kernel.integers], places):
        value = scalars[name]
        if isinstance(value, jax.Array):
            place.add(value)
            at.append(number)
            value = 0
        known.append(value)
    return known, tuple(at)
