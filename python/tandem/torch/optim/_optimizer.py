"""The optimizer for any graph: torch.optim's interface to compiled kernels."""

from __future__ import annotations

import copy
import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain

import torch

import tandem
from tandem._companions import DEFAULT_STRATEGY, MIN_8BIT_VECTOR_SIZE, with_sums
from tandem._convert import compiled
from tandem._kernel import Rules
from tandem._param_planes import sums_over_model
from tandem._tandem import Storage
from tandem.torch._dynamo import lazy
from tandem.torch._layout import is_placeholder
from tandem.torch._shards import local_of, memorize_copies, shard_of
from tandem.torch.optim import _wrappers
from tandem.torch.optim._groups import OPTIONS, ParamGroups, draws
from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim.advice._kinds import check_measured
from tandem.torch.optim.advice._recommend import AUTO
from tandem.torch.optim.gradients._coded import CodedGradients
from tandem.torch.optim.gradients._hooks import GradientHooks
from tandem.torch.optim.launch._runner import StepRunner
from tandem.torch.optim.state import _checkpoint, _identity, _versions
from tandem.torch.optim.state._empty_step import is_empty
from tandem.torch.optim.state._matching import IncompatibleKeys
from tandem.torch.optim.state._specs import StateSpecs
from tandem.torch.optim.state._store import StateStore

#: The option that param groups of early pickles lack, whose vectors have no codes.
_LATE = "min_8bit_vector_size"
#: Options that cannot be combined with gradient_release, and why.
_CONFLICTS = {
    "metrics": "metrics are sums over a step of all parameters, and gradient_release=True "
               "takes a step of each",
    "skip_nonfinite": "skip_nonfinite=True looks at the gradients of all parameters before "
                      "a step, and gradient_release=True has no two of them at a time",
    "capturable": "capturable=True is for steps of all parameters at once, in one launch "
                  "that a CUDA graph can capture, and gradient_release=True takes a step of "
                  "each",
}


class Optimizer(torch.optim.Optimizer):
    """Runs an optimizer graph, compiled under a strategy, on PyTorch parameters.

    Each param group is a row of the graph's scalars; ``beta1`` and ``beta2`` form
    ``betas``, ``eps1`` and ``eps2`` form ``eps``. The state of a parameter holds the
    planes of the kernel under their names (``opt.state[p]["exp_avg_sq.lo"]``) and an
    integer ``"step"``. Memory is updated in place, by one kernel for all parameters.

    A parameter has the type of the strategy's visible weight, bfloat16 for most. Float32
    parameters under such a strategy, such as norms or all parameters under autocast, have
    float32 gradients and are updated in f32 arithmetic, with their states stored under the
    strategy. Gradients of a type other than the kernel's are rounded to it, to nearest.

    ``strategy``, ``min_8bit_size``, ``min_8bit_vector_size`` and ``maximize`` are options of param groups, like the
    hyperparameters. All but the last determine how states are stored, so they cannot change while
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
        grad_accumulation: the storage of gradients between backward passes, for several passes
            before a step: "f32", 4 bytes, the sums of float32; "bf16x2", 4 bytes, the unevaluated
            sum of two bfloat16 numbers; "bf16+i8", 3 bytes, a bfloat16 number and a residual of
            8 bits. None means the strategy's: ``p.grad`` of bfloat16 parameters adds up in
            bfloat16. Each pass adds in float32, and rounds once to the storage. Under
            DistributedDataParallel, passes inside of no_sync add up (docs/Accumulation.md).
        ema_decay: the factor by which each step's weights count less than the next step's in an
            exponential moving average of the weights, which is then a further state, "ema"
            (docs/WeightAverage.md); an option of param groups, too. None means no average. See
            :func:`averages` and :func:`averaged_weights`.
        external: the functions of the graph's external steps (``tandem.external``), by their
            names. A function takes the list of tensors that are sent for one parameter, which have
            its shape, and the param group; it returns the tensors that are received. DTensors are
            whole, each on one rank. Pickling the optimizer pickles the functions.
        external_states: the float32 tensors that external steps keep for a parameter, as part of its
            state: a function of the parameter's shape that returns their shapes by name. They begin
            as zeros. The functions of ``external`` then take a third argument, a dict of them,
            which they write in place, and the number of the parameter's step under "step", from 1.
        min_8bit_size: parameters with fewer elements keep their states in float32 if the
            strategy stores them as codes; 0 or None for codes everywhere. It has no effect if
            the graph sums over all parameters, as with ``max_norm``.
        min_8bit_vector_size: the same for parameters with fewer than two dimensions. Norms and
            biases are shorter than the default; parameters that a framework has flattened are
            longer. None means that states of no vector are codes.
        maximize: whether to maximize the objective, by negating gradients. This is not possible
            with gradients in codes.
        **hypers: the graph's hyperparameters; the graph's defaults apply to all others.

    Raises:
        ValueError: compilation fails, or a hyperparameter is out of its domain.
        TypeError: a hyperparameter is unknown, or the strategy does not support the type of a
            parameter.
    """

    #: The class of the graph's hyperparameters.
    _HYPERS = Hypers

    def __init__(
        self,
        params: Iterable,
        graph: str | os.PathLike,
        strategy: str = DEFAULT_STRATEGY,
        *,
        vectors: str | os.PathLike | None = None,
        path: Sequence[str | os.PathLike] = (),
        seed: int = 0,
        threads: int = 0,
        metrics: bool = False,
        capturable: bool = False,
        skip_nonfinite: bool = False,
        gradient_release: bool = False,
        grad_accumulation: str | None = None,
        ema_decay: float | None = None,
        external: Mapping[str, Callable] | None = None,
        external_states: Callable[[torch.Size], Mapping[str, Sequence[int]]] | None = None,
        min_8bit_size: int | None = 4096,
        min_8bit_vector_size: int | None = MIN_8BIT_VECTOR_SIZE,
        maximize: bool = False,
        **hypers,
    ):
        if strategy == AUTO:
            check_measured(type(self).__name__)
        self._compile(graph, strategy, path, metrics, vectors, capturable, skip_nonfinite,
                      gradient_release, seed, grad_accumulation, ema_decay is not None, external,
                      external_states)
        hypers |= {} if ema_decay is None else {"ema_decay": ema_decay}
        self.threads = threads
        self._keep_sources()
        defaults = self._defaults()
        self._HYPERS.fold_pairs(hypers, defaults)
        unknown = sorted(set(hypers) - set(defaults))
        if unknown:
            raise TypeError(
                f"{self.kernel.name} has no hyperparameter {unknown[0]!r}; it takes "
                + ", ".join(defaults)
            )
        _wrappers.refuse_part(self.kernel, grad_accumulation)
        options = dict(zip(OPTIONS, (strategy, min_8bit_size, min_8bit_vector_size, maximize)))
        self._is_made = False
        super().__init__(params, defaults | hypers | options)
        self._is_made = True
        self._hooks.watch(self.param_groups)

    def _compile(self, graph, strategy, path, metrics, vectors=None, capturable=False,
                 skip_nonfinite=False, gradient_release=False, seed=0,
                 grad_accumulation=None, weight_average=False, external=None,
                 external_states=None) -> None:
        """Compiles the graph, and creates the parts of the optimizer."""
        #: The arguments of this method, with which an unpickled optimizer compiles again.
        self._arguments = {
            "graph": os.fspath(graph), "strategy": strategy,
            "path": [os.fspath(p) for p in path], "metrics": bool(metrics),
            "vectors": vectors and os.fspath(vectors), "capturable": bool(capturable),
            "skip_nonfinite": bool(skip_nonfinite),
            "gradient_release": bool(gradient_release), "seed": seed,
            "grad_accumulation": grad_accumulation, "weight_average": weight_average,
            "external": dict(external or {}), "external_states": external_states,
        }
        if grad_accumulation is not None:
            _check_accumulation(grad_accumulation)
        of = self._HYPERS
        if capturable and (of.count is not None or of.reads_step):
            raise ValueError(
                f"{type(self).__name__} computes hyperparameters from the count of steps "
                "on the CPU, so that its steps cannot be captured; leave capturable out"
            )
        if external_states and capturable:
            raise ValueError("the functions of external steps that keep tensors take the number of the "
                             "step on the CPU, so that steps cannot be captured; leave capturable out")
        if external_states and not external:
            raise TypeError("external_states= says what external steps keep, but there are none; pass "
                            "external= their functions, or leave it out")
        specs = _specs(self._arguments, self._HYPERS.count)
        _check_release(specs, self._arguments)
        hypers = self._HYPERS(type(self).__name__, specs.main.kernel.name)
        hypers.is_captured = bool(capturable)
        self._groups = ParamGroups(specs, hypers, self._arguments)
        self._store = StateStore(self._groups)
        self._gradients = CodedGradients()
        self._runner = StepRunner(self._groups, self._store, self._gradients)
        self._hooks = GradientHooks(self._groups, self._store, self._gradients,
                                    self._runner.update, self._runner.check_changes)
        #: Decodes the weights of modules on demand, if enabled. Modules own it.
        self._decoder_ref: Callable = lambda: None

    def _keep_sources(self) -> None:
        """Keeps the text of graphs, whose files may have changed by the time this optimizer is
        unpickled."""
        for key in ("graph", "vectors"):
            source = self._arguments[key]
            if source and source.endswith(".mlir") and os.path.isfile(source):
                with open(source, encoding="utf-8") as file:
                    self._arguments[key] = file.read()

    def _defaults(self) -> dict:
        """Returns the defaults of a param group: hyperparameters in PyTorch's form, and the
        seed."""
        specs = self._groups.specs
        if taken := sorted(set(specs.hypers) & set(OPTIONS)):
            raise ValueError(f"{self.kernel.name} has a hyperparameter {taken[0]!r}, which "
                             "is an option of every param group; give it another name")
        defaults = self._groups.hypers.defaults_of(specs.hypers)
        if draws(specs.of_strategy(self.strategy)):
            defaults["seed"] = self._groups.seed
        return defaults

    #===--------------------------------------------------------------------===#
    # What torch.optim keeps in the optimizer, and the parts of this one have
    #===--------------------------------------------------------------------===#

    @property
    def param_groups(self) -> list[dict]:
        """The param groups, as in torch.optim."""
        return self._groups.list

    @param_groups.setter
    def param_groups(self, groups: list[dict]) -> None:
        self._groups.list = groups

    @property
    def state(self) -> dict[torch.Tensor, dict]:
        """The state of each parameter, as in torch.optim."""
        return self._store.states

    @state.setter
    def state(self, states: dict[torch.Tensor, dict]) -> None:
        self._store.states = states

    @property
    def defaults(self) -> dict:
        """The defaults of param groups, as in torch.optim."""
        return self._groups.hypers.defaults

    @defaults.setter
    def defaults(self, defaults: dict) -> None:
        self._groups.hypers.defaults = defaults

    #===--------------------------------------------------------------------===#
    # Properties
    #===--------------------------------------------------------------------===#

    @property
    def kernel(self) -> tandem.Kernel:
        """The kernel for parameters in the strategy's own type, or for matrices if those have
        their own."""
        return self._groups.specs.main.kernel

    @property
    def strategy(self) -> str:
        """The name of the strategy for param groups without their own."""
        return self.kernel.strategy

    @property
    def threads(self) -> int:
        """The number of threads; 0 means ``torch.get_num_threads()``."""
        return self._runner.threads

    @threads.setter
    def threads(self, threads: int) -> None:
        self._runner.threads = threads

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph can capture the steps."""
        return self._arguments["capturable"]

    @property
    def gradient_release(self) -> bool:
        """Whether backward passes take the steps."""
        return self._arguments["gradient_release"]

    @property
    def bytes_per_parameter(self) -> float:
        """The number of bytes per parameter for weight, gradient and states, from their
        storages, averaged over the trained parameters, without gradients that are released. If
        no parameters are trained, this is the number for the strategy."""
        return self._groups.bytes_per_parameter

    @property
    def skipped(self) -> bool:
        """Whether ``skip_nonfinite`` has skipped the last step because a gradient had a NaN or
        an infinity. On a GPU this waits for the step."""
        if not self._arguments["skip_nonfinite"]:
            raise RuntimeError(
                "this optimizer does not look at gradients; create it with "
                "skip_nonfinite=True"
            )
        return self._runner.skipped

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler, which reads this first, may leave the decision to skip a step to
        this optimizer."""
        if self.gradient_release:
            raise RuntimeError(
                "a GradScaler looks at the gradients of all parameters before a step, and "
                "gradient_release=True has taken the steps by then, of scaled gradients; "
                "leave out one of them, or choose a strategy with bfloat16 weights, which "
                "need no scaling"
            )
        return self.capturable

    @property
    def _decoder(self):
        """The object that decodes the weights of modules on demand, or None."""
        return self._decoder_ref()

    @_decoder.setter
    def _decoder(self, decoder) -> None:
        self._decoder_ref = (lambda: None) if decoder is None else weakref.ref(decoder)

    #===--------------------------------------------------------------------===#
    # Training
    #===--------------------------------------------------------------------===#

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group, after checking its parameters and scalars."""
        if isinstance(param_group, dict):
            param_group = param_group.copy()
            self._HYPERS.fold_pairs(param_group, self.defaults)
        lazy(super().add_param_group)(param_group)
        try:
            self._runner.check_group(len(self.param_groups) - 1)
        except Exception:
            self.param_groups.pop()
            raise
        # torch.distributed.checkpoint restores only the keys that param groups have.
        self.param_groups[-1].setdefault(_identity.KEY, "")
        self._groups.note(self.param_groups[-1])
        if self._is_made:
            self._hooks.watch(self.param_groups[-1:])

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """Updates every parameter that has a gradient.

        A step that raises an error changes no parameter and no state. With ``gradient_release``,
        backward passes have already taken the steps of most parameters; those that still have
        gradients take theirs now.

        A step of an optimizer without states, in which all gradients are zeros and all learning
        rates are 0, only creates states, and the next one creates them again. Functions of
        torch.distributed.checkpoint take such a step.

        Args:
            closure: reevaluates the model and returns the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self.state and is_empty(self.param_groups):
            self._store.begin(self._gradients.has)
            self._gradients.keep()
            return loss
        self._hooks.check_both()
        self._hooks.check_left_over()
        self._hooks.renew()
        self._update()
        self._hooks.begin_pass()
        return loss

    def _update(self) -> None:
        """Updates the parameters, once a closure has run."""
        self._runner.grad_scale = getattr(self, "grad_scale", None)
        self._runner.found_inf = getattr(self, "found_inf", None)
        self._runner.update()

    def gradient(self, param: torch.Tensor,
                 dtype: torch.dtype | None = None) -> torch.Tensor | None:
        """Returns the gradient that a step would use: ``p.grad``, or a new tensor with the
        decoded gradient; None if there is none.

        A tensor that is assigned to ``p.grad`` replaces the encoded gradient.

        Args:
            param: the parameter.
            dtype: torch.bfloat16, torch.float16 or torch.float32, the type of the result; None
                for the parameter's, to which a sum in ``grad_accumulation`` is rounded.
        """
        if param.grad is not None or self._gradients.get(param) is None:
            return param.grad if dtype is None or param.grad is None else param.grad.to(dtype)
        spec, shard = self._groups.spec_of(param), shard_of(param)
        found = self._gradients.decoded(spec, param, dtype or param.dtype)
        return found if shard is None else shard.like(found)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets gradients as in torch.optim, and releases encoded gradients."""
        lazy(super().zero_grad)(set_to_none)
        self._gradients.release()
        self._hooks.begin_pass()

    def accumulate(self) -> AbstractContextManager[None]:
        """Returns a context in which backward passes only accumulate gradients, which stay in
        memory.

        Without ``gradient_release`` this has no effect. The first pass after the context takes
        the steps with the accumulated gradients.
        """
        return self._hooks.accumulating()

    @torch.no_grad()
    def close(self) -> None:
        """Gives parameters back to PyTorch: ends the hooks that take gradients, decodes gradients
        in codes to ``p.grad``, and restores weights that :func:`decode_weights` has freed.

        This also happens, except for the gradients, when the last reference to the optimizer
        is dropped. A closed optimizer can still take steps and save its state.
        """
        self._hooks.close()
        for param in self._gradients.params:
            if param.grad is None:
                param.grad = self.gradient(param)
        self._gradients.release()
        if decoder := self._decoder:
            decoder.remove()

    #===--------------------------------------------------------------------===#
    # Measurements
    #===--------------------------------------------------------------------===#

    def live_bytes(self) -> dict[str, int]:
        """Returns the bytes of memory that are currently in use on this rank.

        ``weights``: parameters as they are stored, including their parts in the state;
        ``working``: weights decoded for modules, if they are stored in codes, and the operands
        of :func:`write_operands`;
        ``gradients``: ``p.grad`` and encoded planes; ``states``: all other planes.
        """
        total = dict.fromkeys(("weights", "working", "gradients", "states"), 0)
        decoder = self._decoder
        for _, param, group in self._groups:
            spec = self._groups.specs.of(param, group)
            hidden = param.requires_grad and spec and spec.hidden
            if not is_placeholder(param) and not (decoder and decoder.has(param)):
                total["working" if hidden else "weights"] += local_of(param).nbytes
            if operand := self._groups.operands.get(id(param)):
                total["working"] += operand.bytes
            if param.grad is not None:
                total["gradients"] += local_of(param.grad).nbytes
            for part, bytes in self._store.bytes_of(param).items():
                total[part] += bytes
        total["gradients"] += self._gradients.bytes
        if decoder:
            total["working"] += decoder.bytes
        return total

    def metrics(self) -> dict[str, float]:
        """Returns how much of the last step's updates reached the stored weights.

        If D is the intended change of all weights and E is the effective one: ``edq`` is the
        effective descent quality, the product of D and E divided by the norm of D; ``edq_ratio``
        is that divided by the norm again, which is 1 if nothing is lost; ``update_norm`` is the
        norm of D; ``lost_share`` is the fraction of nonzero changes without any effect.
        """
        if not self._arguments["metrics"]:
            raise RuntimeError(
                "this optimizer does not measure; create it with metrics=True"
            )
        if self._runner.measured is None:
            raise RuntimeError("no step has been measured yet; call step() first")
        sums = [launch.plan.metrics() for launch in self._runner.measured]
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
        and, for torch.distributed.checkpoint, in its groups. Hooks get all of it.

        Planes of types that gloo or NCCL do not carry, int16 and float8, are views in types of
        the same size, float16 and uint8.
        """
        self._store.check_weights()
        self._runner.check_changes()
        hooks = self._optimizer_state_dict_post_hooks
        self._optimizer_state_dict_post_hooks = type(hooks)()
        try:
            state_dict = lazy(super().state_dict)()
        finally:
            self._optimizer_state_dict_post_hooks = hooks
        state_dict = _checkpoint.saved(state_dict, self._groups, self._store)
        for hook in hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict

    @contextmanager
    def early_state_dicts(self) -> Iterator[None]:
        """Returns a context in which state dicts have planes in the types that they had before
        version 4 of state dicts. torch.distributed.checkpoint needs such a dict to load an earlier
        checkpoint into."""
        store = self._store  # which wrappers of the optimizer share
        before, store.packs = store.packs, False
        try:
            yield
        finally:
            store.packs = before

    def load_state_dict(self, state_dict: dict, strict: bool = True,
                        convert: bool = True) -> IncompatibleKeys | None:
        """Loads a state, bit for bit, and the groups' scalars.

        If both sides have names of parameters, states go by name, and by position otherwise. The
        ``min_8bit_size`` of a loaded group replaces the optimizer's.

        States of other strategies, and those of torch.optim, bitsandbytes, torchao and FlashOptim
        for the same kind of optimizer, are converted: exactly where the strategy's storages can
        hold their values and rounded to nearest elsewhere, with a warning that says so. This
        needs the weights that belong to them, so load the model first. Parameters get the
        converted weights.

        A state that completes a weight, such as its low bits, belongs to this weight. States that
        complete those of other parameters are refused, and if a weight is unknown, the next step
        refuses to use it with such a state.

        Args:
            state_dict: the result of :meth:`state_dict`, or of another library's.
            strict: whether all parameters have to match. Otherwise what fits is loaded.
            convert: whether states may be converted.

        Returns:
            With ``strict=False``, the parameters whose states were not loaded and those that this
            optimizer does not have; None otherwise.

        Raises:
            ValueError: the state has another graph, other parameters, or other strategies and
                ``convert`` is False. Nothing has changed then.
        """
        hooks = self._optimizer_load_state_dict_pre_hooks
        state_dict = state_dict.copy()
        for hook in hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        loaded = _checkpoint.prepared(state_dict, self._groups, strict, convert)
        self._optimizer_load_state_dict_pre_hooks = type(hooks)()
        try:
            lazy(super().load_state_dict)(_checkpoint.sealed(loaded.state_dict))
        finally:
            self._optimizer_load_state_dict_pre_hooks = hooks
        self._write_weights(loaded.weights)
        if strict:
            self._store.expect(loaded.checksums)
        return None if strict else loaded.keys

    @torch.no_grad()
    def _write_weights(self, weights: Iterable[torch.Tensor | None] | None) -> None:
        """Gives parameters the weights that a conversion has changed."""
        for param, weight in zip(self._groups.params, weights or ()):
            if weight is not None and not is_placeholder(param):
                param.copy_(weight)

    def __deepcopy__(self, memo: dict):
        memorize_copies(chain(self._groups.params, *(s.values() for s in self.state.values())),
                        memo)
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __getstate__(self) -> dict:
        # Pickles of all versions have the key "recipe".
        return super().__getstate__() | {
            "recipe": self._arguments, "threads": self.threads,
            "expected": self._store.expected(),
            "version": _identity.VERSION,
        }

    def __setstate__(self, state: dict) -> None:
        state = _checkpoint.unsealed(state)
        # A state from load_state_dict has no arguments and has already been converted.
        version = state.pop("version", 2 if "recipe" in state else _identity.VERSION)
        if "recipe" in state:
            self._compile(**state.pop("recipe"))
        expected, self._is_made = state.pop("expected", {}), True
        own = {name: state.pop(name) for name in ("defaults", "state", "param_groups", "threads")
               if name in state}
        super().__setstate__(state)
        for name, value in own.items():
            setattr(self, name, value)
        self.defaults.pop("differentiable", None)  # added by PyTorch
        for group in self.param_groups:
            for name, value in {**self.defaults, _identity.KEY: "", _LATE: None}.items():
                group.setdefault(name, value)
        self._groups.note_all()
        _versions.update(self._groups, self._store.states, version)
        self._store.loaded()
        self._store.expect(expected)
        self._hooks.watch(self.param_groups)
        self._runner.forget()

    def __repr__(self) -> str:
        lines = [line for line in super().__repr__().split("\n")
                 if not line.startswith(f"    {_identity.KEY}: ")]
        lines[1:1] = [f"    {line}" for line in self._groups.describe()]
        return "\n".join(lines)


def _specs(arguments: Mapping, count: str | None) -> StateSpecs:
    """Returns the specs of an optimizer with these arguments."""
    def build(graph: str, strategy: str, target: str, rules: Rules | None,
              weight_operand: bool = False) -> tandem.Kernel:
        def kernel(strategy: str, rules: Rules | None) -> tandem.Kernel:
            return compiled(graph, strategy, arguments["path"], target, rules,
                            arguments["metrics"], arguments["weight_average"], weight_operand)

        own, accumulation = kernel(strategy, rules), arguments["grad_accumulation"]
        found = accumulation and with_sums(own, accumulation)
        return kernel(found.name, found.rules) if found else own

    # The functions get the number of a step.
    count = count or ("step" if arguments["external_states"] else None)
    return StateSpecs(build, arguments["graph"], arguments["strategy"], arguments["vectors"],
                      count, arguments["external_states"])


def _check_accumulation(accumulation: object) -> None:
    """Refuses an unknown storage of gradients."""
    try:
        Storage.sums(accumulation if isinstance(accumulation, str) else str(accumulation))
    except ValueError as error:
        raise ValueError(f"grad_accumulation: {error}; None is the strategy's own storage") from None


def _check_release(specs: StateSpecs, arguments: Mapping) -> None:
    """Refuses options that need the gradients of all parameters at once, with
    gradient_release."""
    if not arguments["gradient_release"]:
        return
    if sums_over_model(specs.main.kernel):
        raise ValueError(
            f"{specs.main.kernel.name} sums over all parameters, so that no gradient can be "
            "released before the last is there; leave gradient_release=True out"
        )
    for option, reason in _CONFLICTS.items():
        if arguments[option]:
            raise ValueError(f"{reason}; leave out one of them")
