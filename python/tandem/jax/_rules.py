"""The rules by which leaves of a pytree of parameters are stored and updated."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tandem._companions import AVERAGE, Companion, companion, keeps_f32_states, with_copy
from tandem._convert import WIDE_PLANE, compiled, planes_of
from tandem._kernel import Kernel
from tandem._param_planes import ParamPlanes, has_rows, sums_over_model
from tandem._plane import Plane
from tandem._storages import floats
from tandem.jax._convert import Job, convert, zeros
from tandem.jax._launch import DTYPES

#: The kernels' names for the types that models compute in.
TYPES = {DTYPES[name]: name for name in ("bf16", "f16", "f32")}


class Rule(ParamPlanes):
    """One way of storing parameters.

    Args:
        kernel: the graph under the strategy.
        copy: for weights in codes, returns the kernel that also reads and writes the decoded
            weights, in a given type.
    """

    def __init__(self, kernel: Kernel, copy: Callable[[str], Kernel]):
        super().__init__(kernel)
        self._copy = functools.lru_cache(maxsize=None)(lambda type: ParamPlanes(copy(type)))

    def of_step(self, type: str) -> ParamPlanes:
        """Returns the planes of the kernel that updates parameters of a type."""
        return self._copy(type) if self.hidden else self

    def shapes(self, shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the planes in a parameter's state, by name."""
        size = self.size_of_shape(shape)
        return {name: self.shape_of(plane, shape, size)
                for name, plane in self.state_planes.items()}

    def initial(self, label: str, param: jax.Array, threads: int) -> dict[str, jax.Array]:
        """Returns the initial state of a parameter: zeros, except for master weights and weights
        in codes, which hold the parameter's value to their precision."""
        planes = {name: zeros(self.state_planes[name], shape)
                  for name, shape in self.shapes(param.shape).items()}
        if self.hidden:
            (codes,) = self._encoded([(label, param, {})], self.weight_storage, self.weight_planes, threads,
                                     fresh=True)
            return planes | codes
        return planes | {plane.name: param.astype(DTYPES[plane.type]) for plane in self.weight_planes
                         if plane.bits > self.visible.bits}

    def averages(self, leaves: Sequence[tuple[str, Sequence[int], Mapping[str, jax.Array]]],
                 threads: int) -> list[jax.Array]:
        """Returns the averages of weights in f32.

        Args:
            leaves: (label, shape, planes of the state) for each weight.
            threads: the number of threads; 0 means one per core.
        """
        planes = [plane.name for plane in planes_of(self.kernel, AVERAGE)]
        jobs = [Job(label, self.size_of_shape(shape), [state[name] for name in planes], [shape])
                for label, shape, state in leaves]
        made = convert(jobs, self.kernel.storages[AVERAGE], floats("f32"), [WIDE_PLANE],
                       fresh=True, matrix=self.kernel.is_matrix, threads=threads,
                       what=f"the averages of weights of {self.kernel.name}")
        return [found[WIDE_PLANE.name] for found in made]

    def encoded_grads(self, grads: Sequence[tuple[str, jax.Array, Mapping[str, jax.Array]]],
                      threads: int) -> list[dict[str, jax.Array]]:
        """Returns the planes of gradients that the step reads, by name.

        Args:
            grads: (label, array, planes of the state) for each gradient.
            threads: the number of threads; 0 means one per core.
        """
        if not self.encodes:
            (plane,) = self.grad_planes
            return [{plane.name: grad.astype(DTYPES[plane.type])} for _, grad, _ in grads]
        kept = [plane.name for plane in self.grad_planes if plane.persistent]
        grads = [(label, grad, {name: state[name] for name in kept})
                 for label, grad, state in grads]
        return self._encoded(grads, self.grad_storage, self.grad_planes, threads, fresh=False)

    def _encoded(self, values: Sequence[tuple[str, jax.Array, Mapping[str, jax.Array]]],
                 storage: str, planes: Sequence[Plane], threads: int,
                 fresh: bool) -> list[dict[str, jax.Array]]:
        """Returns the planes of values of one type in a storage. Each value is (label, array,
        planes to continue with)."""
        jobs = []
        for label, value, begun in values:
            size = self.size_of_shape(value.shape)
            shapes = [self.shape_of(plane, value.shape, size) for plane in planes]
            jobs.append(Job(label, size, [value], shapes, begun))
        (dtype,) = {value.dtype for _, value, _ in values}
        return convert(jobs, floats(TYPES[dtype]), storage, planes, fresh=fresh,
                       matrix=self.kernel.is_matrix, threads=threads,
                       what=f"the encoding of arrays for {self.kernel.name}")


class Key(NamedTuple):
    """The properties of a parameter that select its rule."""

    strategy: str
    is_vector: bool  #: whether it has fewer dimensions than the graph's matrices
    is_wide: bool  #: whether its weight is f32 under a strategy of another type
    is_small: bool  #: whether its states are f32 although the strategy has codes


class Rules:
    """The rules of an optimizer: those of its leaves' strategies, and their companions for f32
    weights and f32 states. There are two of each if matrices and vectors have different graphs.

    Args:
        graph: the graph; a graph of matrices updates two-dimensional parameters.
        vectors: the graph for parameters with fewer dimensions, if `graph` is a graph of
            matrices.
        path: directories that are searched for strategies.
        min_8bit_sizes: the minimum numbers of elements for states in codes, of matrices and of
            vectors.
        metrics: whether kernels record metrics.
        weight_average: whether states have an average of the weights.
    """

    def __init__(self, graph: str | os.PathLike, vectors: str | os.PathLike | None,
                 path: Sequence[str | os.PathLike], min_8bit_sizes: tuple[int | None, int | None],
                 metrics: bool, weight_average: bool):
        self._graphs, self._path = (graph, vectors), path
        self._min_8bit_sizes = min_8bit_sizes
        self._options = {"metrics": metrics, "weight_average": weight_average}
        self._of = functools.lru_cache(maxsize=None)(self._make)
        self._own = functools.lru_cache(maxsize=None)(self._make_own)

    def _compile(self, strategy: Companion, is_vector: bool) -> Kernel:
        graph = self._graphs[is_vector]
        kernel = compiled(graph, strategy.name, self._path, rules=strategy.rules, **self._options)
        if kernel.externals:
            raise ValueError(
                f"{kernel.name} has the external step {kernel.externals[0]!r}, which the host computes "
                "between two launches, and tandem.jax has no functions of the host; run it with "
                "tandem.torch, or as a tandem.Plan with set_external")
        return kernel

    def kernels(self, strategy: str) -> list[Kernel]:
        """Returns the kernels of a strategy itself: for all parameters or for matrices, and for
        vectors if they have their own graph."""
        return [self._compile(Companion(strategy), is_vector)
                for is_vector in range(1 + (self._graphs[1] is not None))]

    def _make_own(self, strategy: str, is_vector: bool) -> Rule:
        """Returns the rule of a strategy itself."""
        return self._rule(Companion(strategy), is_vector)

    def _rule(self, strategy: Companion, is_vector: bool) -> Rule:
        kernel = self._compile(strategy, is_vector)
        return Rule(kernel, lambda type: self._compile(with_copy(kernel, type), is_vector))

    def _make(self, key: Key) -> Rule:
        own = self._own(key.strategy, key.is_vector)
        found = companion(own.kernel, key.is_wide, key.is_small)
        return self._rule(found, key.is_vector) if found else own

    def of(self, label: str, dtype: object, shape: Sequence[int], strategy: str) -> Rule:
        """Returns the rule of a parameter, which may be sharded over devices.

        Raises:
            TypeError: the strategy does not support the type.
            ValueError: the graph does not support the shape.
        """
        kernel = self.kernels(strategy)[0]
        is_vector = has_rows(kernel) and len(shape) < 2
        self._check_shape(label, shape, kernel, is_vector)
        own = self._own(strategy, is_vector)
        if TYPES.get(jnp.dtype(dtype)) not in (*own.types, "f32"):
            raise TypeError(self._refusal(label, dtype, strategy, own))
        is_small = (keeps_f32_states(shape, *self._min_8bit_sizes)
                    and not sums_over_model(kernel))
        is_wide = TYPES[jnp.dtype(dtype)] not in own.types
        return self._of(Key(strategy, is_vector, is_wide, is_small))

    @property
    def averages(self) -> bool:
        """Whether states have an average of the weights."""
        return self._options["weight_average"]

    @property
    def graphs(self) -> tuple[str, str | None]:
        """Returns the graph, and the one for vectors or None."""
        graph, vectors = self._graphs
        return os.fspath(graph), vectors and os.fspath(vectors)

    def types(self, strategy: str) -> list[str]:
        """Returns the types of parameters that a strategy itself supports."""
        return self._own(strategy, False).types

    def _check_shape(self, label: str, shape: Sequence[int], kernel: Kernel,
                     is_vector: bool) -> None:
        if has_rows(kernel) and (len(shape) > 2 or (is_vector and self._graphs[1] is None)):
            raise ValueError(
                f"{label} has the shape {tuple(shape)}, but {kernel.name} updates matrices"
                f"{' and vectors' if self._graphs[1] is not None else ''}; keep it as a matrix, "
                "x.reshape(len(x), -1), or give it to another optimizer, such as "
                "tandem.jax.adamw")

    @staticmethod
    def _refusal(label: str, dtype: object, strategy: str, own: Rule) -> str:
        wanted = [DTYPES[type].name for type in own.types]
        kept = f"that decode to {' or '.join(wanted)}" if own.hidden else f"in {wanted[0]}"
        also = "" if wanted == ["float32"] else ", or in float32 beside"
        return (f"{label} is {dtype}, but strategy {strategy!r} keeps weights {kept}{also}; "
                f"convert it with x.astype('{wanted[0]}'), choose a strategy "
                "whose weights are of this type, or leave it out of params")


#: A strategy's name, or a function from a leaf's path ("['mlp']['w']") and the leaf to a name.
Strategy = str | Callable[[str, object], str]
