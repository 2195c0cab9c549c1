"""The optimizer for any graph: torch.optim's interface to compiled kernels."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import torch
from torch.optim.optimizer import required

import tandem
from tandem._convert import CPU, compiled
from tandem._kernel import Rules
from tandem._param_planes import sums_over_model
from tandem.torch import _executor
from tandem.torch._exchange import Exchange
from tandem.torch._layout import empty_plane, is_placeholder, may_overlap
from tandem.torch._shards import local_of, memorize_copies
from tandem.torch.optim import _checkpoint, _counters, _empty_step, _notices, _wrappers
from tandem.torch.optim._binding import KernelBinding, ParamBinding
from tandem.torch.optim._bindings import KernelBindings
from tandem.torch.optim._device_step import DeviceStep
from tandem.torch.optim._empty_step import EmptyStep
from tandem.torch.optim._gradients import Gradients
from tandem.torch.optim._groups import OPTIONS, Groups, check_options, draws
from tandem.torch.optim._kinds import check_measured
from tandem.torch.optim._recommend import AUTO
from tandem.torch.optim._release import Release


#: Flags of torch.optim's param groups that change the update.
_FLAGS = ("amsgrad", "centered", "dampening", "momentum", "nesterov")


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a 16-bit tensor as integers."""
    return tensor.detach().contiguous().view(torch.int16)


class Optimizer(Groups, Release, torch.optim.Optimizer):
    """Runs an optimizer graph, compiled under a strategy, on PyTorch parameters.

    Each param group is a row of the graph's scalars; ``beta1`` and ``beta2`` form
    ``betas``, ``eps1`` and ``eps2`` form ``eps``. The state of a parameter holds the
    planes of the kernel under their names (``opt.state[p]["exp_avg_sq.lo"]``) and an
    integer ``"step"``. Memory is updated in place, by one kernel for all parameters.

    A parameter has the type of the strategy's visible weight, bfloat16 for most. Float32
    parameters under such a strategy, such as norms or all parameters under autocast, have
    float32 gradients and are updated in f32 arithmetic, with their states stored under the
    strategy. Gradients of a type other than the kernel's are rounded to it, to nearest.

    ``strategy``, ``min_8bit_size`` and ``maximize`` are options of param groups, like the
    hyperparameters. The first two determine how states are stored, so they cannot change while
    there are states: see :func:`convert_state`.

    If a strategy stores the weight in codes, parameters are bfloat16 or float16 and hold the
    decoded values of the codes in the state. Each step updates them, and :func:`decode_weights`
    keeps them in memory only while a module needs them. If a strategy stores the gradient in
    codes, a backward pass encodes ``p.grad`` and releases it, until a step or :meth:`zero_grad`:
    see :meth:`gradient`. While torch.distributed is initialized, it does so only for
    :class:`GradientAllReduce`; otherwise the step encodes ``p.grad``, after wrappers have
    averaged it.

    A graph of matrices updates two-dimensional parameters; those that are not in C order are
    copied before and after. Parameters with fewer dimensions need their own graph, and those
    with more are refused.

    Parameters are on the CPU or on GPUs, with one launch for each device. On a GPU a step is
    enqueued on PyTorch's current stream. With ``capturable`` it can be captured in a CUDA graph,
    and ``"step"`` is a tensor.

    To reset a parameter's state, for example after loading other weights into a model whose
    strategy keeps parts of them in the state, use ``opt.state.pop(p)``.

    Args:
        params: parameters, named parameters or param groups.
        graph: a library graph's name, the path of an .mlir file, or MLIR text.
        strategy: the name of a strategy, built in or ``<name>.mlir`` on ``path``, for param
            groups without their own.
        vectors: the graph for vectors and scalars, if ``graph`` is for matrices.
        path: directories that are searched for strategies first.
        seed: the seed of stochastic rounding. A parameter's random bits depend on it, on the
            parameter's index in the optimizer and on its step.
        threads: the number of threads; 0 means ``torch.get_num_threads()``. Results do not
            depend on it.
        metrics: whether steps record :meth:`metrics`.
        capturable: whether steps can be captured in a CUDA graph. Counts of steps, and
            hyperparameters that are tensors on the GPU, then stay there. All parameters must be
            on GPUs.
        skip_nonfinite: whether a step first checks all gradients, and is skipped if one of them
            has a NaN or an infinity: see :attr:`skipped`. On a GPU it needs ``capturable``.
        gradient_release: whether a backward pass takes the step of each parameter as soon as its
            gradient is complete, and releases the gradient, so that no two parameters have one
            at a time (docs/Torch.md). Features that need all gradients, such as ``metrics`` and
            ``skip_nonfinite``, cannot be used.
        min_8bit_size: parameters with fewer elements, and those with fewer than two dimensions,
            such as norms and biases, keep their states in float32 if the strategy stores them as
            codes; 0 or None for codes everywhere. It has no effect if the graph sums over all
            parameters, as with ``max_norm``.
        maximize: whether to maximize the objective, by negating gradients. This is not possible
            with gradients in codes.
        **hypers: the graph's hyperparameters; the graph's defaults apply to all others.

    Raises:
        ValueError: compilation fails, or a hyperparameter is out of its domain.
        TypeError: a hyperparameter is unknown, or the strategy does not support the type of a
            parameter.
    """

    #: Hyperparameters that PyTorch keeps as pairs.
    _PAIRS = {"betas": ("beta1", "beta2"), "eps": ("eps1", "eps2")}
    #: The state's key for a count of steps that only :meth:`_hyper` reads.
    _COUNT: str | None = None

    def __init__(
        self,
        params: Iterable,
        graph: str | os.PathLike,
        strategy: str = "collage-plus",
        *,
        vectors: str | os.PathLike | None = None,
        path: Sequence[str | os.PathLike] = (),
        seed: int = 0,
        threads: int = 0,
        metrics: bool = False,
        capturable: bool = False,
        skip_nonfinite: bool = False,
        gradient_release: bool = False,
        min_8bit_size: int | None = 4096,
        maximize: bool = False,
        **hypers,
    ):
        if strategy == AUTO:
            check_measured(type(self).__name__)
        self._compile(graph, strategy, path, metrics, vectors, capturable, skip_nonfinite,
                      gradient_release, seed)
        self.threads = threads
        # A file may have changed by the time this optimizer is unpickled.
        for key in ("graph", "vectors"):
            source = self._arguments[key]
            if source and source.endswith(".mlir") and os.path.isfile(source):
                with open(source, encoding="utf-8") as file:
                    self._arguments[key] = file.read()
        defaults = self._defaults()
        self._fold_pairs(hypers, defaults)
        unknown = sorted(set(hypers) - set(defaults))
        if unknown:
            raise TypeError(
                f"{self.kernel.name} has no hyperparameter {unknown[0]!r}; it takes "
                + ", ".join(defaults)
            )
        _wrappers.refuse_part(self.kernel)
        options = dict(zip(OPTIONS, (strategy, min_8bit_size, maximize)))
        super().__init__(params, defaults | hypers | options)

    #===--------------------------------------------------------------------===#
    # Kernels
    #===--------------------------------------------------------------------===#

    def _compile(self, graph, strategy, path, metrics, vectors=None, capturable=False,
                 skip_nonfinite=False, gradient_release=False, seed=0) -> None:
        #: The arguments of this method, with which an unpickled optimizer compiles again.
        self._arguments = {
            "graph": os.fspath(graph), "strategy": strategy,
            "path": [os.fspath(p) for p in path], "metrics": bool(metrics),
            "vectors": vectors and os.fspath(vectors), "capturable": bool(capturable),
            "skip_nonfinite": bool(skip_nonfinite),
            "gradient_release": bool(gradient_release), "seed": seed,
        }
        if capturable and self._COUNT is not None:
            raise ValueError(
                f"{type(self).__name__} computes hyperparameters from the count of steps "
                "on the CPU, so that its steps cannot be captured; leave capturable out"
            )
        self._bindings = KernelBindings(
            self._kernel, self._arguments["graph"], strategy, self._arguments["vectors"],
            self._COUNT, bool(skip_nonfinite))
        self._check_release()
        self._begin()

    def _begin(self) -> None:
        """Initializes the state that steps use."""
        self._device_step = DeviceStep()
        self._bound: list[ParamBinding | None] = []
        #: All parameters, and those that ranks gather for a step, once known.
        self._gathered: tuple[list, dict] | None = None
        #: Detects whether a step repeats the last one, and has the bindings of that step.
        self._replay: tandem._tandem.ReplayCache | None = None
        self._running: list[KernelBinding] = []
        #: Whether the last step was skipped, if the host knows.
        self._skipped = False
        #: The exchange with ranks that update other parameters about skipping the step.
        self._skip_exchange: Exchange | None = None
        self._gradients = Gradients()
        self._empty_step = EmptyStep()
        #: Whether a GradientAllReduce averages the encoded gradients over ranks.
        self._sends_codes = False
        #: Whether steps have found no gradient so far.
        self._is_idle = True
        #: The indices of parameters, by identity, in an optimizer that this one is a part of.
        self._indices: dict[int, int] = {}
        #: Decodes the weights of modules on demand, if enabled.
        self._decoder = None
        #: The parameters with a state, their states, and the addresses of all planes, when the
        #: parameters were bound.
        self._states: list = []
        self._addresses: list[int] = []
        #: The bindings of the last step.
        self._measured: list[KernelBinding] | None = None
        self._begin_groups()
        self._begin_release()

    def _kernel(self, graph: str, strategy: str, target: str,
                rules: Rules | None) -> tandem.Kernel:
        return compiled(graph, strategy, self._arguments["path"], target, rules,
                        self._arguments["metrics"])

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph can capture the steps."""
        return self._arguments["capturable"]

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler, which reads this first, may leave the decision to skip a step to
        this optimizer."""
        self._refuse_scaler()
        return self.capturable

    @property
    def skipped(self) -> bool:
        """Whether ``skip_nonfinite`` has skipped the last step because a gradient had a NaN or
        an infinity. On a GPU this waits for the step."""
        if not self._arguments["skip_nonfinite"]:
            raise RuntimeError(
                "this optimizer does not look at gradients; create it with "
                "skip_nonfinite=True"
            )
        return self._device_step.skipped if self.capturable else self._skipped

    @property
    def kernel(self) -> tandem.Kernel:
        """The kernel for parameters in the strategy's own type, or for matrices if those have
        their own."""
        return self._bindings.main.kernel

    @property
    def strategy(self) -> str:
        """The name of the strategy for param groups without their own."""
        return self.kernel.strategy

    def _binding(self, param: torch.Tensor, label: str, group: Mapping) -> KernelBinding:
        """Returns the binding for the parameter of a param group."""
        binding = self._bindings.of(param, group)
        if binding is None:
            raise self._bindings.refusal(param, label, group["strategy"])
        return binding

    #===--------------------------------------------------------------------===#
    # Param groups
    #===--------------------------------------------------------------------===#

    def _defaults(self) -> dict:
        """Returns the defaults of a param group: hyperparameters in PyTorch's form, and the
        seed."""
        hypers, defaults = self._bindings.hypers, {}
        if taken := sorted(set(hypers) & set(OPTIONS)):
            raise ValueError(f"{self.kernel.name} has a hyperparameter {taken[0]!r}, which "
                             "is an option of every param group; give it another name")
        for name, value in hypers.items():
            key, names = self._place(name, hypers)
            values = tuple(hypers[n] for n in names)
            defaults[key] = (required if None in values
                             else value if key == name else values)
        if draws(self._bindings.of_strategy(self.strategy)):
            defaults["seed"] = self._seed()
        return defaults

    def _seed(self) -> int:
        """Returns the seed for groups without their own."""
        seed = self._arguments["seed"]
        if not -(2**63) <= seed < 2**63:
            raise ValueError(f"seed {seed} does not fit in 64 bits; take a smaller")
        return seed

    @classmethod
    def _place(cls, name: str, known: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """Returns a hyperparameter's key in param groups and the names of its values. This is
        the key of a pair if the other one of the pair, or the key of the pair, is known."""
        for key, names in cls._PAIRS.items():
            if name in names and (set(names) <= set(known)
                                  or (key in known and name not in known)):
                return key, names
        return name, (name,)

    @classmethod
    def _fold_pairs(cls, values: dict, defaults: dict) -> None:
        """Replaces "beta1" and "beta2" with "betas", if that is the group's key."""
        for key, names in cls._PAIRS.items():
            given = [name for name in names if name in values]
            if not given or key not in defaults or set(names) & set(defaults):
                continue
            if key in values:
                raise TypeError(f"give either {key} or {given[0]}, not both")
            pair = defaults[key]
            if pair is required and len(given) < 2:
                raise TypeError(f"give {key}, or both of {names[0]} and {names[1]}")
            values[key] = tuple(
                values.pop(name) if name in values else pair[i]
                for i, name in enumerate(names)
            )

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group, after checking its parameters and scalars."""
        if isinstance(param_group, dict):
            param_group = param_group.copy()
            self._fold_pairs(param_group, self.defaults)
        super().add_param_group(param_group)
        try:
            self._check_group(len(self.param_groups) - 1)
        except Exception:
            self.param_groups.pop()
            raise
        self._noted.append(self._options()[-1])
        self._watch_gradients(self.param_groups[-1])

    def _check_flags(self, group: Mapping, index: int) -> None:
        """Refuses options of PyTorch's optimizers that the kernel does not support."""
        for name in _FLAGS:
            if name not in self.defaults and group.get(name):
                raise ValueError(
                    f"param group {index} has {name}={group[name]!r}, which the kernel of "
                    f"{type(self).__name__} does not compute; leave it out, or take another "
                    "optimizer")

    def _check_group(self, index: int) -> None:
        """Refuses parameters without a binding, and scalars out of their domain."""
        group = self.param_groups[index]
        self._check_flags(group, index)
        check_options(group, index)
        bindings = self._bindings_of(index)
        if draws(bindings):
            group.setdefault("seed", self._seed())
        first = sum(len(g["params"]) for g in self.param_groups[:index])
        for i, param in enumerate(group["params"], first):
            if param.requires_grad:
                binding = self._check_param(param, self._label(i), group)
                if group["maximize"]:
                    self._refuse_to_maximize(binding, index)
        for binding in bindings:
            row = self._row(binding, index, 1, binding.dtypes[0])
            with self._explained(binding, [index]):
                binding.check_scalars([row], [binding.integers(1, 0)])

    def _check_param(self, param: torch.Tensor, label: str, group: Mapping) -> KernelBinding:
        """Returns the parameter's binding, or raises the reason why it cannot be updated."""
        self._check_device(param, label)
        whole, param = param, local_of(param)
        if param.layout is not torch.strided:
            raise TypeError(
                f"{label} is sparse ({param.layout}); only dense parameters can be "
                "updated: use p.to_dense()"
            )
        if param.numel() and not param.data_ptr():
            raise TypeError(
                f"{label} is a {type(param).__name__} without memory of its own; "
                "pass plain tensors that the model uses itself"
            )
        if may_overlap(param) and not is_placeholder(param):
            raise ValueError(
                f"{label} has elements that share memory (strides "
                f"{param.stride()}); pass a copy, p.contiguous()"
            )
        binding = self._binding(whole, label, group)
        _wrappers.check_shard(whole, label, binding, self.gradient_release)
        return binding

    def _check_device(self, param: torch.Tensor, label: str) -> None:
        executor = _executor.executor_of(param)
        if executor is None:
            raise ValueError(
                f"{label} is on {param.device}; tandem.torch updates parameters on the "
                "CPU and on CUDA devices: move it there with p.to('cpu')"
            )
        if self.capturable and executor is CPU:
            raise ValueError(
                f"{label} is on the CPU, whose steps no CUDA graph can capture; move it to "
                "a GPU, or leave capturable out"
            )
        if self._arguments["skip_nonfinite"] and not self.capturable and executor is not CPU:
            raise ValueError(
                f"{label} is on {param.device}, and only the GPU will know whether a "
                "step is skipped; pass capturable=True as well, which keeps counts of "
                "steps there"
            )

    def _label(self, index: int) -> str:
        """Returns the name of the parameter with this index for messages."""
        first = 0
        for group in self.param_groups:
            names = group.get("param_names", ())
            if index - first < len(group["params"]):
                named = f" ({names[index - first]!r})" if names else ""
                return f"parameter {index}{named}"
            first += len(group["params"])
        return f"parameter {index}"

    def _row(self, binding: KernelBinding, index: int, step: int,
             dtype: torch.dtype) -> list[float]:
        """Returns the hyperparameters of a row in launch order."""
        return [self._hyper(name, index, step, dtype) for name in binding.kernel.hypers]

    def _hyper(self, name: str, index: int, step: int, dtype: torch.dtype) -> float:
        """Returns a hyperparameter of a param group. Optimizers may override this to compute it
        from the parameters' step and type."""
        return self._number(name, index)

    def _value(self, name: str, index: int):
        """Returns a hyperparameter from a param group, which is a number or a tensor."""
        key, names = self._place(name, self.defaults)
        value = self.param_groups[index][key]
        return value if key == name else value[names.index(name)]

    def _number(self, name: str, index: int) -> float:
        """Returns a hyperparameter from a param group as a number."""
        key, _ = self._place(name, self.defaults)
        try:
            return float(self._value(name, index))
        except (TypeError, ValueError, IndexError, RuntimeError):
            value = self.param_groups[index][key]
            wanted = "a number" if key == name else "a pair of numbers"
            raise TypeError(
                f"{key} of param group {index} must be {wanted}, got {value!r}"
            ) from None

    #===--------------------------------------------------------------------===#
    # Steps
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """Updates every parameter that has a gradient.

        A step that raises an error changes no parameter and no state. With ``gradient_release``,
        backward passes have already taken the steps of most parameters; those that still have
        gradients take theirs now.

        Args:
            closure: reevaluates the model and returns the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self.state and _empty_step.is_called_for():
            self._begin_states()
            return loss
        self._check_left_over()
        self._update()
        self._released.clear()
        return loss

    #===--------------------------------------------------------------------===#
    # Weights that exist only in the state
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def _start_hidden(self) -> set[torch.Tensor]:
        """Returns the parameters whose weights are in codes, after creating missing states."""
        hidden = set()
        for index, param, group in self._grouped():
            if not param.requires_grad or not param.numel():
                continue
            binding = self._check_param(param, self._label(index), group)
            if binding.hidden:
                _wrappers.refuse_flattened(param, self._label(index))
                self._start(binding, param, [])
                hidden.add(param)
        return hidden

    @torch.no_grad()
    def _decode_weight(self, param: torch.Tensor) -> torch.Tensor:
        """Returns the decoded weight of a parameter in new memory."""
        return self._hidden_binding(param).decode_weights(
            [self.state[param]], param.dtype)[0]

    @torch.no_grad()
    def _encode_weight(self, param: torch.Tensor) -> None:
        """Encodes a parameter's value as its weight, unless they are already equal."""
        if not torch.equal(_bits(self._decode_weight(param)), _bits(param)):
            self._hidden_binding(param).encode_weight(param, self.state[param])

    def _hidden_binding(self, param: torch.Tensor) -> KernelBinding:
        """Returns the binding of a parameter whose weight is in codes, after checking its
        state."""
        label = self._name(param)
        binding = self._binding(param, label, self._group_of(param))
        binding.check_state(self.state.get(param) or {}, param, label)
        return binding

    def _name(self, param: torch.Tensor) -> str:
        """Returns the name of a parameter for messages."""
        return self._label(next(i for i, p in enumerate(self._params()) if p is param))

    #===--------------------------------------------------------------------===#
    # Encoded gradients
    #===--------------------------------------------------------------------===#

    def _watch_gradients(self, group: Mapping) -> None:
        """Registers hooks that encode gradients, if the kernel reads them in codes."""
        for param in group["params"]:
            binding = self._bindings.of(param, group) if param.requires_grad else None
            if binding and (binding.encodes or self.gradient_release):
                self._gradients.watch(param, self)

    def _take_gradient(self, param: torch.Tensor) -> None:
        """Encodes ``p.grad``, adding it to the gradients of earlier backward passes, and
        releases it, or takes the parameter's step with ``gradient_release``. A hook calls this
        after each backward pass."""
        self._check_change_of(param)
        binding = self._binding_of(param)
        if binding and binding.encodes:
            self._encode_gradient(binding, param)
        if self.gradient_release and not self._accumulates:
            self._step_in_backward(param)

    def _encode_gradient(self, binding: KernelBinding, param: torch.Tensor) -> None:
        """Encodes ``p.grad``, unless it has yet to be reduced over ranks."""
        if self._leaves_gradient(param):
            self._gradients.leave(param)
            return
        state = self.state.get(param)
        like = empty_plane(binding.like(param, state), param.dtype, "meta")
        self._gradients.add(binding, param, like, state, lambda: self._name(param))
        if not _notices.has_warned("codes") and not sums_over_model(binding.kernel):
            strategy = self._group_of(param)["strategy"]
            _notices.warn_of_clipping(strategy, self.gradient_release)

    def _leaves_gradient(self, param: torch.Tensor) -> bool:
        """Returns whether a gradient stays in ``p.grad`` until the step encodes it.

        With several ranks, DistributedDataParallel and others reduce ``p.grad`` after the hook
        that calls this. Only GradientAllReduce reduces codes. A gradient that is already in
        codes stays in codes.
        """
        return (_wrappers.has_ranks() and not self._sends_codes
                and not self.gradient_release and self._gradients.get(param) is None)

    def gradient(self, param: torch.Tensor) -> torch.Tensor | None:
        """Returns the gradient that a step would use: ``p.grad``, or a new tensor with the
        decoded gradient; None if there is none.

        A tensor that is assigned to ``p.grad`` replaces the encoded gradient.
        """
        planes = self._gradients.get(param)
        if param.grad is not None or planes is None:
            return param.grad
        return self._binding_of(param).decode_grad(planes, param.dtype)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets gradients as in torch.optim, and releases encoded gradients."""
        super().zero_grad(set_to_none)
        self._gradients.release()
        self._released.clear()

    def _params(self):
        return chain.from_iterable(group["params"] for group in self.param_groups)

    #===--------------------------------------------------------------------===#
    # Measurements
    #===--------------------------------------------------------------------===#

    def live_bytes(self) -> dict[str, int]:
        """Returns the bytes of memory that are currently in use on this rank.

        ``weights``: parameters as they are stored, including their parts in the state;
        ``working``: weights decoded for modules, if they are stored in codes;
        ``gradients``: ``p.grad`` and encoded planes; ``states``: all other planes.
        """
        total = dict.fromkeys(("weights", "working", "gradients", "states"), 0)
        decoder = self._decoder
        for _, param, group in self._grouped():
            binding = self._bindings.of(param, group)
            hidden = param.requires_grad and binding and binding.hidden
            if not is_placeholder(param) and not (decoder and decoder.has(param)):
                total["working" if hidden else "weights"] += local_of(param).nbytes
            if param.grad is not None:
                total["gradients"] += local_of(param.grad).nbytes
            for name, plane in self.state.get(param, {}).items():
                if isinstance(plane, torch.Tensor) and name not in self._bindings.counts:
                    part = "weights" if binding and binding.is_weight(name) else "states"
                    total[part] += local_of(plane).nbytes
        total["gradients"] += self._gradients.bytes
        if decoder:
            total["working"] += decoder.bytes
        return total

    def metrics(self) -> dict[str, float]:
        """Returns how much of the last step's updates reached the stored weights.

        If D is the intended change of all weights and E is the effective one: ``edq`` is the
        effective descent quality <D, E> / |D|; ``edq_ratio`` is that divided by |D|, which is 1
        if nothing is lost; ``update_norm`` is |D|; ``lost_share`` is the fraction of nonzero
        changes without any effect.
        """
        if not self._arguments["metrics"]:
            raise RuntimeError(
                "this optimizer does not measure; create it with metrics=True"
            )
        if self._measured is None:
            raise RuntimeError("no step has been measured yet; call step() first")
        sums = [binding.plan.metrics() for binding in self._measured]
        effective, intended, lost, asked = map(sum, zip([0.0] * 4, *sums))
        norm = math.sqrt(intended)
        return {
            "edq": effective / norm if norm else 0.0,
            "edq_ratio": effective / intended if intended else 0.0,
            "update_norm": norm,
            "lost_share": lost / asked if asked else 0.0,
        }

    #===--------------------------------------------------------------------===#
    # Checkpoints, copies, text
    #===--------------------------------------------------------------------===#

    def state_dict(self) -> dict:
        """Returns the state dict as in torch.optim, with the graph and strategies under "tandem"
        and, for torch.distributed.checkpoint, in its groups. Hooks get all of it."""
        self._check_changes()
        names = [group["strategy"] for group in self.param_groups]
        hooks = self._optimizer_state_dict_post_hooks
        self._optimizer_state_dict_post_hooks = type(hooks)()
        try:
            state_dict = super().state_dict()
        finally:
            self._optimizer_state_dict_post_hooks = hooks
        state_dict = _checkpoint.signed(state_dict, _checkpoint.identity(self._bindings, names))
        for hook in hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict

    def load_state_dict(self, state_dict: dict) -> None:
        """Loads a state, bit for bit, and the groups' scalars.

        The ``min_8bit_size`` of a loaded group replaces the optimizer's.

        Raises:
            ValueError: the state has another graph, or other strategies or parameters. Nothing
                has changed then.
        """
        hooks = self._optimizer_load_state_dict_pre_hooks
        state_dict = state_dict.copy()
        for hook in hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        state_dict = dict(_checkpoint.recoded(_checkpoint.identified(
            _checkpoint.with_flat_identity(state_dict))))
        state_dict["param_groups"] = _checkpoint.completed(state_dict, self.param_groups)
        for index, group in enumerate(state_dict["param_groups"]):
            self._check_flags(group, index)
            check_options(group, index)
        _checkpoint.check_identity(state_dict, self._bindings, self.param_groups)
        state_dict = _checkpoint.with_rows(state_dict, self._owners(state_dict))
        state_dict = self._checked_states(state_dict)
        self._optimizer_load_state_dict_pre_hooks = type(hooks)()
        try:
            super().load_state_dict(_checkpoint.sealed(state_dict))
        finally:
            self._optimizer_load_state_dict_pre_hooks = hooks

    def _owners(self, state_dict: dict) -> Iterator[tuple]:
        """Yields the key of each state, the binding, the parameter, and its index."""
        theirs, ours = state_dict["param_groups"], self.param_groups
        if [len(g["params"]) for g in theirs] != [len(g["params"]) for g in ours]:
            return  # PyTorch's own error says so
        keys = [(k, g) for g in theirs for k in g["params"]]
        for (index, param, _), (key, group) in zip(self._grouped(), keys):
            if state_dict["state"].get(key):
                yield key, self._check_param(param, self._label(index), group), param, index

    def _checked_states(self, state_dict: dict) -> dict:
        """Returns a state dict after checking that its planes match the parameters' kernels,
        with planes in their current shapes."""
        states = dict(state_dict["state"])
        for key, binding, param, index in self._owners(state_dict):
            binding.check_state(states[key], param, self._label(index), moves=True)
            states[key] = binding.shaped(states[key], param)
        return state_dict | {"state": states}

    def __deepcopy__(self, memo: dict):
        memorize_copies(chain(self._params(), *(s.values() for s in self.state.values())), memo)
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __getstate__(self) -> dict:
        # Pickles of all versions have the key "recipe".
        return super().__getstate__() | {
            "recipe": self._arguments, "threads": self.threads,
            "version": _checkpoint.VERSION,
        }

    def __setstate__(self, state: dict) -> None:
        state = _checkpoint.unsealed(state)
        # A state from load_state_dict has no arguments and has already been converted.
        version = state.pop("version", 2 if "recipe" in state else _checkpoint.VERSION)
        if "recipe" in state:
            self._compile(**state.pop("recipe"))
        super().__setstate__(state)
        self.defaults.pop("differentiable", None)  # added by PyTorch
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
            self._watch_gradients(group)
        self._noted = self._options()
        if version < 3:
            self._regroup()
        _counters.adopt(self)
        self._empty_step.clear()
        self._forget()

    def _regroup(self) -> None:
        """Converts states from before version 3."""
        for index, param, group in self._grouped():
            if state := self.state.get(param):
                binding = self._check_param(param, self._label(index), group)
                state.update(binding.with_rows(state, param))

    def __repr__(self) -> str:
        lines = super().__repr__().split("\n")
        bindings = self._bindings.of_strategy(self.strategy)
        graphs = " and ".join(binding.kernel.name for binding in bindings)
        lines[1:1] = [
            f"    graph: {graphs}",
            *(f"    {line}" for line in self._describe_storages()),
        ]
        return "\n".join(lines)
