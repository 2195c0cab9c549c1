"""The optimizer for any graph: steps of pytrees as launches of compiled kernels."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from tandem._arguments import to_integer
from tandem._companions import DEFAULT_STRATEGY, MIN_8BIT_VECTOR_SIZE
from tandem._finite_check import compiled_check
from tandem._kernel import Kernel
from tandem._messages import renamed
from tandem._param_planes import sums_over_model
from tandem._plan import Plan
from tandem._plane import RoleKind
from tandem.jax._launch import DTYPES, Outcome, Scalar, Tensor, launch
from tandem.jax._rules import TYPES, Rule, Rules, Strategy
from tandem.jax._shards import axes_of, check_cut, check_spread, number_of_shard, whole_shape
from tandem.jax._state import State


class Leaf(NamedTuple):
    """A leaf of the parameters."""

    label: str  #: in messages: "params['w']"
    path: str  #: "['w']"
    index: int  #: its index in the pytree, the key of its random bits
    value: jax.Array
    rule: Rule
    axes: tuple[str, ...]  #: the mesh axes that its rows are sharded over

    @property
    def type(self) -> str:
        """The kernel's name for its type."""
        return TYPES[self.value.dtype]


class Optimizer:
    """Runs an optimizer graph, compiled under a strategy, on pytrees of arrays.

    It is stateless: :meth:`init` creates a state, and :meth:`step` replaces it, inside or
    outside of jax.jit. A step is one launch for each way of storing parameters. It updates the
    arrays in place if they are donated to jax.jit (``donate_argnums``); otherwise XLA copies
    them first. JAX matches donated arrays with results of the same type and shape in order, so a
    function should take and return the parameters before the state.

    A leaf has the type of the strategy's visible weight, bfloat16 for most. Float32 leaves under
    such a strategy have float32 gradients and are updated in f32 arithmetic, with their states
    stored under the strategy. Gradients of a float type other than the kernel's are rounded to
    it, to nearest. If a strategy stores the weight in codes, leaves are bfloat16 or float16 and
    hold the decoded values of the codes in the state.

    Hyperparameters that are given here are f64. Those that :meth:`step` takes, and results of
    functions, are f32 like all numbers in jax.jit (f64 with ``jax_enable_x64``).

    Args:
        graph: a library graph's name, the path of an .mlir file, or MLIR text.
        strategy: the name of a strategy, built in or ``<name>.mlir`` on ``path``, or a function
            from a leaf's path (jax.tree_util.keystr) and the leaf to a name.
        vectors: the graph for vectors and scalars, if ``graph`` is for matrices.
        path: directories that are searched for strategies first.
        seed: the seed of stochastic rounding. A leaf's random bits depend on it, on the leaf's
            index in the pytree, and on the step.
        threads: the number of threads; 0 means one per core. Results do not depend on it.
        metrics: whether steps record :attr:`State.metrics`.
        skip_nonfinite: whether a step first checks all gradients, and is skipped if one of them
            has a NaN or an infinity; see :attr:`State.skipped`.
        ema_decay: the factor by which each step's weights count less than the next step's in an
            exponential moving average of the weights, which is then a part of the state: a number
            or a function, as hyperparameters are. None means no average. See :meth:`averages`.
        min_8bit_size: leaves with fewer elements keep their states in float32 if the strategy
            stores them as codes; 0 or None for codes everywhere. It has no effect if the graph
            sums over all parameters.
        min_8bit_vector_size: the same for leaves with fewer than two dimensions; None means that
            states of no vector are codes.
        **hypers: the graph's hyperparameters: numbers, or functions of the number of steps taken
            so far, such as optax's schedules. ``betas`` sets ``beta1`` and ``beta2``. The
            graph's defaults apply to all others.

    Raises:
        ValueError: compilation fails, or a hyperparameter is out of its domain.
        TypeError: a hyperparameter is unknown.
    """

    #: Hyperparameters that are given together, of which a graph has two or more.
    _PAIRS = {"betas": ("beta1", "beta2", "beta3"), "eps": ("eps1", "eps2")}

    def __init__(self, graph: str | os.PathLike, strategy: Strategy = DEFAULT_STRATEGY, *,
                 vectors: str | os.PathLike | None = None,
                 path: Sequence[str | os.PathLike] = (), seed: int = 0, threads: int = 0,
                 metrics: bool = False, skip_nonfinite: bool = False, ema_decay=None,
                 min_8bit_size: int | None = 4096,
                 min_8bit_vector_size: int | None = MIN_8BIT_VECTOR_SIZE, **hypers):
        if strategy == "auto":
            raise ValueError("strategy='auto' is one of tandem.torch's optimizers; pass the name of "
                             "a strategy, or a function that names one for each leaf. "
                             "tandem.torch.recommend says which, of names and shapes")
        if not isinstance(strategy, str) and not callable(strategy):
            raise TypeError("strategy must be the name of one, or a function of a leaf's path and "
                            f"the leaf that gives one, got {strategy!r}")
        self._rules = Rules(graph, vectors, tuple(path), (min_8bit_size, min_8bit_vector_size),
                            bool(metrics), ema_decay is not None)
        self._strategy, self._seed, self._threads = strategy, to_integer("seed", seed), threads
        self._metrics, self._skips = bool(metrics), bool(skip_nonfinite)
        named = strategy if isinstance(strategy, str) else "fp32"
        self._kernels = self._rules.kernels(named)
        #: The graph's name.
        self.name = self._kernels[0].name
        self._identity = (f"{self.name} under " + (
            strategy if isinstance(strategy, str) else "strategies of its leaves"))
        self._defaults = {name: value for kernel in reversed(self._kernels)
                          for name, value in kernel.hypers.items()} | self._own_defaults()
        self._hypers = self._defaults | self._named({**hypers, "ema_decay": ema_decay})
        self._check_known()

    def __getattr__(self, name: str):
        """Explains what replaces the ``update`` method of optax's transformations."""
        if name == "update":
            raise AttributeError("an Optimizer has no update, since it writes the parameters: call "
                                 "step(grads, state, params), or tandem.jax.as_optax(optimizer) "
                                 "for optax")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _own_defaults(self) -> dict:
        """Returns hyperparameters that no kernel has or whose defaults differ from the
        graph's."""
        return {}

    def _named(self, hypers: Mapping) -> dict:
        """Returns the hyperparameters by the graph's names, without those that are None."""
        given = {name: value for name, value in hypers.items() if value is not None}
        for key, known in self._PAIRS.items():
            names = [name for name in known if name in self._defaults]
            if key in given and key not in self._defaults and len(names) > 1:
                pair = given.pop(key)
                values = tuple(pair) if isinstance(pair, Iterable) else (pair,)
                if len(values) != len(names):
                    wanted = "a pair of" if len(names) == 2 else len(names)
                    raise TypeError(f"{key} must be {wanted} numbers, got {pair!r}")
                given |= dict(zip(names, values))
        if unknown := sorted(set(given) - set(self._defaults)):
            raise TypeError(f"{self.name} has no hyperparameter {unknown[0]!r}; it takes "
                            + ", ".join(self._defaults))
        return given

    def _check_known(self) -> None:
        """Refuses numbers out of their domain before any step."""
        for name, value in self._hypers.items():
            if not callable(value) and value is not None:
                try:
                    self._hypers[name] = float(value)
                except (TypeError, ValueError):
                    raise TypeError(f"{name} must be a number or a function of the count of "
                                    f"steps, got {value!r}") from None
        for kernel in self._kernels:
            row = [self._known(name, kernel) for name in kernel.hypers]
            plan = Plan(kernel)
            plan.update([], [])
            try:
                plan.launch([row], [[1] * len(kernel.integers)], threads=1)
            except ValueError as error:
                raise ValueError(renamed(error, {"row": lambda _: "this optimizer"})) from None

    def _known(self, name: str, kernel: Kernel) -> float:
        """Returns the number of a hyperparameter, or the kernel's default if steps supply it."""
        value = self._hypers.get(name)
        return value if isinstance(value, float) else kernel.hypers[name]

    #===--------------------------------------------------------------------===#
    # The state
    #===--------------------------------------------------------------------===#

    def init(self, params: object, *, specs: object = None) -> State:
        """Returns the initial state of parameters.

        Args:
            params: a pytree of arrays, or of tracers.
            specs: inside jax.shard_map, the specs of the leaves: a pytree like ``params`` with
                P() or P("axis") as leaves, or one of these for all.

        Raises:
            TypeError, ValueError: the strategy or the graph does not support a leaf.
        """
        leaves, treedef = self._leaves(params, specs)
        planes = [leaf.rule.initial(leaf.label, leaf.value, self._threads) for leaf in leaves]
        return self._unmeasured(jnp.zeros((), jnp.int32), treedef.unflatten(planes))

    def averages(self, state: State, params: object) -> object:
        """Returns the averages of weights, in f32: a pytree like ``params``.

        Args:
            state: the state of an optimizer with ``ema_decay``, after a step.
            params: its parameters, which give the shapes.

        Raises:
            ValueError: the optimizer has no ``ema_decay``, or the state is not of these parameters.
        """
        if not self._rules.averages:
            raise ValueError("this optimizer averages no weights; create it with ema_decay=0.999")
        self._check_state(state, "averages(state, params)")
        leaves, treedef = self._leaves(params, None)
        planes, made = self._checked_planes(leaves, treedef, state), [None] * len(leaves)
        for members in _by_rule(leaves):
            found = members[0].rule.averages(
                [(leaf.label, leaf.value.shape, planes[leaf.index]) for leaf in members],
                self._threads)
            for leaf, average in zip(members, found):
                made[leaf.index] = average
        return treedef.unflatten(made)

    def _unmeasured(self, count: jax.Array, planes: object) -> State:
        """Returns a state whose last step has measured and skipped nothing."""
        zero = jnp.zeros((), jnp.float32)
        metrics = dict.fromkeys(_METRICS, zero) if self._metrics else None
        skipped = jnp.zeros((), bool) if self._skips else None
        return State(count, planes, metrics, skipped, self._identity)

    def bytes_per_parameter(self, params: object) -> float:
        """Returns the number of bytes per parameter for weight, gradient and states, from their
        storages, averaged over the elements of a pytree of arrays or jax.ShapeDtypeStruct."""
        found = [(self._rule_of(jax.tree_util.keystr(path), leaf, ()), math.prod(leaf.shape))
                 for path, leaf in jax.tree_util.tree_leaves_with_path(params)]
        count = sum(size for _, size in found)
        return sum(rule.kernel.bytes_per_parameter * size for rule, size in found) / max(count, 1)

    def state_specs(self, params: object, specs: object) -> State:
        """Returns the specs of the state for parameters with these specs: a :class:`State` with
        specs in place of arrays, for jax.shard_map.

        Args:
            params: a pytree of whole arrays or of jax.ShapeDtypeStruct.
            specs: as for :meth:`init`.
        """
        shapes, treedef = jax.tree_util.tree_flatten_with_path(params)
        whole = PartitionSpec()
        planes = [dict.fromkeys(self._rule_of(jax.tree_util.keystr(path), leaf, ()).state_planes,
                                spec) for (path, leaf), spec
                  in zip(shapes, _specs_of(treedef, specs))]
        metrics = dict.fromkeys(_METRICS, whole) if self._metrics else None
        return State(whole, treedef.unflatten(planes), metrics, whole if self._skips else None,
                     self._identity)

    def _rule_of(self, path: str, leaf: object, axes: tuple[str, ...]) -> Rule:
        """Returns the rule of a leaf, which may be sharded over devices."""
        label = f"params{path}"
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            raise TypeError(f"{label} is {leaf!r}, which is not an array; pass jax.numpy.asarray "
                            "of it, or leave it out of params")
        whole = whole_shape(leaf.shape, axes)
        strategy = self._strategy_of(path, jax.ShapeDtypeStruct(whole, leaf.dtype))
        rule = self._rules.of(label, leaf.dtype, whole, strategy)
        if axes:
            check_cut(label, rule, whole, leaf.shape)
        return rule

    def _strategy_of(self, path: str, leaf: jax.ShapeDtypeStruct) -> str:
        """Returns the name of a leaf's strategy."""
        if isinstance(self._strategy, str):
            return self._strategy
        strategy = self._strategy(path, leaf)
        if not isinstance(strategy, str):
            raise TypeError(f"strategy gave {strategy!r} for params{path}; it must give the name "
                            "of one")
        return strategy

    def _types_of(self, path: str, leaf: jax.ShapeDtypeStruct) -> list[str]:
        """Returns the types that a leaf's strategy supports, by the kernel's names."""
        return self._rules.types(self._strategy_of(path, leaf))

    def _leaves(self, params: object,
                specs: object) -> tuple[list[Leaf], jax.tree_util.PyTreeDef]:
        found, treedef = jax.tree_util.tree_flatten_with_path(params)
        leaves = []
        for (path, value), spec in zip(found, _specs_of(treedef, specs)):
            path = jax.tree_util.keystr(path)
            axes = axes_of(f"params{path}", spec)
            check_spread(f"params{path}", value, spec, axes)
            leaves.append(Leaf(f"params{path}", path, len(leaves), jnp.asarray(value),
                               self._rule_of(path, value, axes), axes))
            if axes and self._metrics:
                raise ValueError(f"params{path} is spread over devices, and metrics are sums over "
                                 "all of it; leave metrics=True out")
        self._check_together(leaves)
        return leaves, treedef

    @staticmethod
    def _check_together(leaves: Sequence[Leaf]) -> None:
        """Refuses leaves of several rules for a graph that sums over all parameters, because
        each rule is a separate launch."""
        for leaf in leaves:
            first = leaves[0]
            if sums_over_model(leaf.rule.kernel) and (leaf.axes != first.axes or
                    leaf.rule is not first.rule or leaf.type != first.type):
                raise ValueError(
                    f"{leaf.rule.kernel.name} sums over all parameters, but {leaf.label} is "
                    f"{leaf.value.dtype} under {leaf.rule.kernel.strategy!r} and {first.label} "
                    f"{first.value.dtype} under {first.rule.kernel.strategy!r}; give all of "
                    "them one type and strategy, or clip before the step: "
                    "optax.clip_by_global_norm")

    #===--------------------------------------------------------------------===#
    # Steps
    #===--------------------------------------------------------------------===#

    def step(self, grads: object, state: State, params: object, *, specs: object = None,
             **hypers) -> tuple[object, State]:
        """Takes one step and returns the new parameters and the new state.

        Args:
            grads: a pytree like ``params``, with an array of a float type for each leaf.
            state: the state from :meth:`init` or the previous step.
            params: the parameters that were passed to ``init`` or returned by the previous step;
                their values may have been changed since.
            specs: as for :meth:`init`. Gradients must be reduced over all devices.
            **hypers: hyperparameters that replace those of the optimizer: numbers, or arrays
                without dimensions.

        Raises:
            TypeError, ValueError: arguments do not match; raised with the leaf's path when the
                step is traced. A hyperparameter out of its domain is an error when the step
                runs. The step then changes nothing, but donated arrays are lost.
        """
        self._check_state(state, "step(grads, state, params)")
        leaves, treedef = self._leaves(params, specs)
        grads = [_checked_grad(leaf, grad) for leaf, grad
                 in zip(leaves, _parallel(treedef, grads, "grads"))]
        planes = self._checked_planes(leaves, treedef, state)
        numbers = self._numbers(state.count, hypers)
        encoded = self._encoded(leaves, grads, planes)
        skipped = self._find_non_finite(leaves, encoded) if self._skips else None
        planes = [_with_history(leaf, *pair, skipped) for leaf, *pair
                  in zip(leaves, planes, encoded)]
        made, sums = [None] * len(leaves), []
        for members in _by_rule(leaves):
            outcome = self._launch(members, planes, encoded, numbers, state.count, skipped)
            sums.append(outcome.metrics)
            for leaf, written in zip(members, outcome.planes):
                made[leaf.index] = written
        return self._finished(leaves, treedef, state, planes, made, sums, skipped)

    def _numbers(self, count: jax.Array, given: Mapping) -> dict[str, Scalar]:
        """Returns the hyperparameters of a step by name: the optimizer's numbers, and arrays for
        results of functions and arguments of the step."""
        numbers = {name: _array(name, value(count)) if callable(value) else value
                   for name, value in self._hypers.items()}
        return numbers | {name: _array(name, value) for name, value in self._named(given).items()}

    def _scalar(self, name: str, numbers: Mapping[str, Scalar], step: jax.Array,
                type: str) -> Scalar:
        """Returns a kernel's hyperparameter. Optimizers may override this to compute it from the
        leaves' step and type."""
        return numbers[name]

    def _scalars(self, kernel: Kernel, numbers: Mapping[str, Scalar], count: jax.Array,
                 type: str) -> dict[str, Scalar]:
        step = count + 1
        return {name: self._scalar(name, numbers, step, type) for name in kernel.hypers} | {
            name: self._seed if kind is RoleKind.SEED else step
            for name, kind in kernel.integers.items()}

    def _encoded(self, leaves: Sequence[Leaf], grads: Sequence[jax.Array],
                 planes: Sequence[Mapping]) -> list[dict[str, jax.Array]]:
        """Returns the planes of gradients that kernels read, by name."""
        made: list = [None] * len(leaves)
        for members in _by_rule(leaves, lambda leaf: grads[leaf.index].dtype):
            found = members[0].rule.encoded_grads(
                [(f"grads{leaf.path}", grads[leaf.index], planes[leaf.index])
                 for leaf in members], self._threads)
            for leaf, encoded in zip(members, found):
                made[leaf.index] = encoded
        return made

    def _find_non_finite(self, leaves: Sequence[Leaf],
                         grads: Sequence[Mapping[str, jax.Array]]) -> jax.Array:
        """Returns an i32 that is nonzero if a gradient is not finite."""
        found = jnp.zeros((), jnp.int32)
        for members in _by_rule(leaves):
            native, at = compiled_check(members[0].rule.kernel)
            kernel = Kernel(native, None, "cpu")
            names = [members[0].rule.kernel.planes[i].name for i in at]
            tensors = [Tensor(f"grads{leaf.path}", (1, leaf.value.size), dict(zip(
                (plane.name for plane in kernel.planes),
                (grads[leaf.index][name] for name in names)))) for leaf in members]
            flags = launch(kernel, tensors, what=f"a check of gradients for {self.name}",
                           threads=self._threads, flags=True).flags
            found |= jax.lax.convert_element_type(flags, jnp.int32)
        axes = tuple(dict.fromkeys(axis for leaf in leaves for axis in leaf.axes))
        return jax.lax.pmax(found, axes) if axes else found

    def _launch(self, members: Sequence[Leaf], planes: Sequence[Mapping],
                grads: Sequence[Mapping], numbers: Mapping[str, Scalar], count: jax.Array,
                skipped: jax.Array | None) -> Outcome:
        """Launches the step of leaves with the same rule and type."""
        of_step = members[0].rule.of_step(members[0].type)
        tensors = [Tensor(leaf.label, leaf.rule.size_of_shape(leaf.value.shape),
                          {of_step.visible.name: leaf.value, **grads[leaf.index],
                           **planes[leaf.index]}, key=leaf.index) for leaf in members]
        shards = jnp.stack([number_of_shard(leaf.axes) for leaf in members]) if any(
            leaf.axes for leaf in members) else None
        return launch(of_step.kernel, tensors,
                      self._scalars(of_step.kernel, numbers, count, members[0].type),
                      what=f"a step of {self.name}", threads=self._threads, skip=skipped,
                      shards=shards, metrics=self._metrics)

    def _finished(self, leaves: Sequence[Leaf], treedef, state: State, before: Sequence[Mapping],
                  made: Sequence[Mapping], sums: Sequence[jax.Array],
                  skipped: jax.Array | None) -> tuple[object, State]:
        """Returns the parameters and the state after the launches."""
        params = [made[leaf.index].get(leaf.rule.of_step(leaf.type).visible.name)
                  for leaf in leaves]
        planes = [{name: made[leaf.index].get(name, value)
                   for name, value in before[leaf.index].items()} for leaf in leaves]
        count = state.count + 1
        if skipped is not None:
            skipped = skipped != 0
            count = jnp.where(skipped, state.count, count)
        metrics = _metrics_of(sum(sums, jnp.zeros(4, jnp.float32))) if self._metrics else None
        return treedef.unflatten(params), State(
            count, treedef.unflatten(planes), metrics, skipped, self._identity)

    def _check_state(self, state: object, call: str) -> None:
        """Refuses anything that is not a state of this optimizer. `call` is the signature for
        messages."""
        if not isinstance(state, State):
            raise TypeError(f"state is a {type(state).__name__}; pass what init(params) or the "
                            f"last step has returned: {call}")
        if state.identity != self._identity:
            raise ValueError(f"the state is one of {state.identity}, but this optimizer is "
                             f"{self._identity}; begin anew with init(params), create the "
                             "optimizer as the state's was, or convert the state: "
                             "tandem.jax.convert_state")

    def _checked_planes(self, leaves: Sequence[Leaf], treedef, state: State) -> list[Mapping]:
        """Returns the planes of the leaves after checking that they match the leaves' rules."""
        planes = _parallel(treedef, state.planes, "state.planes")
        for leaf, found in zip(leaves, planes):
            _check_planes(leaf, found)
        return planes


#===------------------------------------------------------------------------===#
# Leaves
#===------------------------------------------------------------------------===#


def _by_rule(leaves: Sequence[Leaf], more: Callable[[Leaf], object] = lambda leaf: None
             ) -> list[list[Leaf]]:
    """Groups leaves that are stored in the same way and have the same value of `more`."""
    groups: dict[tuple, list[Leaf]] = {}
    for leaf in leaves:
        groups.setdefault((id(leaf.rule), leaf.type, more(leaf)), []).append(leaf)
    return list(groups.values())


def _with_history(leaf: Leaf, planes: Mapping, grads: Mapping,
                  skipped: jax.Array | None) -> Mapping:
    """Returns the planes of a state with the updated history of the gradient's encoding, unless
    the step is skipped."""
    names = [plane.name for plane in leaf.rule.grad_planes if plane.persistent]
    return {**planes, **{name: grads[name] if skipped is None else
                         jnp.where(skipped != 0, planes[name], grads[name]) for name in names}}


def _parallel(treedef, tree: object, name: str) -> list:
    """Returns the subtrees of a pytree at the positions of the leaves of another one."""
    try:
        return treedef.flatten_up_to(tree)
    except ValueError:
        ours, theirs = (set(map(jax.tree_util.keystr, dict(jax.tree_util.tree_leaves_with_path(
            one)))) for one in (treedef.unflatten(range(treedef.num_leaves)), tree))
        missing = sorted(x for x in ours if not any(y.startswith(x) for y in theirs))
        extra = sorted(y for y in theirs if not any(y.startswith(x) for x in ours))
        problem = (f"lacks {missing[0]}" if missing else f"has {extra[0]}, which params lacks"
                   if extra else f"is a {type(tree).__name__} of nodes other than those of params")
        raise ValueError(f"{name} {problem}; pass a pytree of the structure of params") from None


def _specs_of(treedef, specs: object) -> list:
    """Returns the spec of each leaf, which is P() without specs."""
    if specs is None or isinstance(specs, PartitionSpec):
        return [specs or PartitionSpec()] * treedef.num_leaves
    return _parallel(treedef, specs, "specs")


def _checked_grad(leaf: Leaf, grad: object) -> jax.Array:
    """Returns the gradient of a leaf after checking it."""
    label = f"grads{leaf.path}"
    if not hasattr(grad, "dtype") or not hasattr(grad, "shape"):
        raise TypeError(f"{label} is {type(grad).__name__}, but params has an array there; pass "
                        "zeros where there is no gradient, or leave the leaf out of both")
    if jnp.dtype(grad.dtype) not in TYPES:
        raise TypeError(f"{label} is {grad.dtype}; gradients are bfloat16, float16 or float32: "
                        f"pass {label}.astype('{leaf.value.dtype}')")
    if grad.shape != leaf.value.shape:
        raise ValueError(f"{label} has the shape {tuple(grad.shape)}, but {leaf.label} "
                         f"{leaf.value.shape}; differentiate with respect to params")
    return jnp.asarray(grad)


def _check_planes(leaf: Leaf, planes: object) -> None:
    """Refuses planes that do not match a leaf's rule."""
    fix = ("pass the state of these params, or begin anew with init(params)")
    shapes, label = leaf.rule.shapes(leaf.value.shape), f"state.planes{leaf.path}"
    if not isinstance(planes, Mapping) or set(planes) != set(shapes):
        have = ", ".join(map(str, planes)) if isinstance(planes, Mapping) else repr(planes)
        raise ValueError(f"{label} has {have or 'no planes'}, but {leaf.label} under "
                         f"{leaf.rule.kernel.strategy!r} has {', '.join(shapes) or 'none'}; {fix}")
    for name, shape in shapes.items():
        dtype, found = DTYPES[leaf.rule.state_planes[name].type], planes[name]
        if jnp.dtype(found.dtype) != dtype or tuple(found.shape) != shape:
            raise ValueError(
                f"{label}[{name!r}] is {found.dtype}{list(found.shape)}, but {leaf.label} of the "
                f"shape {leaf.value.shape} needs {dtype.name}{list(shape)}; {fix}")


def _array(name: str, value: object) -> jax.Array:
    """Returns a hyperparameter of a step as an f32 or f64 without dimensions."""
    try:
        array = jnp.asarray(value)
    except TypeError:
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if array.ndim or not (jnp.issubdtype(array.dtype, jnp.floating)
                          or jnp.issubdtype(array.dtype, jnp.integer)):
        raise TypeError(f"{name} must be a real number without dimensions, got "
                        f"{array.dtype}{list(array.shape)}")
    return array if array.dtype == jnp.float64 else array.astype(jnp.float32)


#===------------------------------------------------------------------------===#
# Metrics
#===------------------------------------------------------------------------===#

_METRICS = ("edq", "edq_ratio", "update_norm", "lost_share")


def _metrics_of(sums: jax.Array) -> dict[str, jax.Array]:
    """Returns the metrics of a step from the sums of its launches."""
    effective, intended, lost, asked = sums
    norm = jnp.sqrt(intended)

    def share(part, whole):
        return jnp.where(whole > 0, part / jnp.where(whole > 0, whole, 1), 0)

    return dict(zip(_METRICS, (share(effective, norm), share(effective, intended), norm,
                               share(lost, asked))))
