"""ZeRO with whole tensors: each rank has the states of some parameters, including scales."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.distributed import optim as torch_optim

from tandem._plane import RoleKind
from tandem.torch._exchange import Exchange, greedy_partition
from tandem.torch._layout import placeholder
from tandem.torch.distributed._weight_codes import WeightCodes
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim.state._identity import identity


def stored_bytes(optimizer: Optimizer) -> list[int]:
    """Returns the bytes of each parameter's weight and states in a Tandem optimizer, including
    scales, in the order of its param groups; 0 for parameters that are not trained.

    Gradients are not counted, since every rank has those of all parameters.
    """
    return [_bytes_of(optimizer, param, group) if param.requires_grad else 0
            for _, param, group in optimizer._groups]


def _bytes_of(optimizer: Optimizer, param: torch.Tensor, group: dict) -> int:
    spec = optimizer._groups.specs.of(param, group)
    return sum(math.prod(spec.shape(plane, param)) * plane.bits // 8
               for plane in spec.kernel.planes
               if plane.persistent or plane.kind is not RoleKind.GRAD)


class ZeroRedundancyOptimizer(torch_optim.ZeroRedundancyOptimizer):
    """:class:`torch.distributed.optim.ZeroRedundancyOptimizer` for optimizers of
    ``tandem.torch``, with FP8-LM's partition (Peng et al. 2023, section 2.3, algorithm 1).

    Each rank has the states of whole tensors, including their scales. In a step each rank
    updates its own parameters and broadcasts them. PyTorch's class balances the number of
    elements; this class balances the bytes that strategies store (:func:`stored_bytes`), so that
    param groups under different strategies are distributed evenly. Random bits depend on the
    indices among all parameters, so a step has the bits of one process for any number of ranks.

    After :meth:`consolidate_state_dict` on all ranks, an optimizer in one process can load
    :meth:`state_dict`, and :meth:`load_state_dict` loads one from any number of ranks.

    Args:
        params: parameters or param groups, in the same order on every rank.
        optimizer_class: a class of :mod:`tandem.torch.optim`, such as ``AdamW``.
        process_group: the ranks; None for all processes.
        parameters_as_bucket_view: as in PyTorch; all parameters must have the same dtype.
        weight_codes: parameters whose weights are sent, and used in computation, as E4M3 codes
            with one f32 scale per tensor, as in FP8-LM's level O3; by default none. One byte per
            element is sent. The owner keeps the weight that it updates, and on all ranks the
            parameter holds the decoded codes.
        **defaults: options of ``optimizer_class``, such as ``strategy``.

    Raises:
        TypeError: ``optimizer_class`` is not Tandem's, or ``weight_codes`` contains something
            that is not a parameter of this optimizer.
        ValueError: ranks pass different arguments; ``overlap_with_ddp``, ``max_norm`` or bucket
            views with several dtypes are used; or the optimizer refuses its arguments.
    """

    def __init__(self, params: Iterable, optimizer_class: type[Optimizer],
                 process_group=None, parameters_as_bucket_view: bool = False, *,
                 weight_codes: Iterable[torch.Tensor] = (), **defaults):
        _check_class(optimizer_class)
        if defaults.pop("overlap_with_ddp", False):
            raise ValueError("overlap_with_ddp=True needs PyTorch's functional optimizers, which "
                             "Tandem's are not; leave it out")
        self._rank_of: dict[torch.Tensor, int] = {}
        self._loads: list[int] = []
        self._codes: WeightCodes | None = None
        self._tandem_class, self._tandem_options = optimizer_class, defaults
        super().__init__(params, optimizer_class, process_group, parameters_as_bucket_view,
                         **defaults)
        self._check_ranks()
        if coded := list(weight_codes):
            self._codes = WeightCodes(self, coded)

    def _check_ranks(self) -> None:
        """Raises an error on every rank if the ranks were given different arguments."""
        given = [[(tuple(p.shape), str(p.dtype), p.requires_grad) for p in group["params"]]
                 + [group.get(name) for name in ("strategy", "seed", "min_8bit_size",
                                                    "min_8bit_vector_size")]
                 for group in self.param_groups]
        number = zlib.crc32(repr(given).encode())
        ends = torch.tensor([number, -number], device=self._default_device)
        dist.all_reduce(ends, dist.ReduceOp.MAX, self.process_group)
        if ends[0] != -ends[1]:
            raise ValueError("ranks have given ZeroRedundancyOptimizer other parameters, in shape, "
                             "order or dtype, or other strategies or seeds; create the model and "
                             "the optimizer alike on every rank")

    #===--------------------------------------------------------------------===#
    # The partition
    #===--------------------------------------------------------------------===#

    def _partition_parameters(self, params_per_rank=None) -> list[list[dict]]:
        """Returns the param groups of each rank. Parameters stay on their rank when groups are
        added."""
        if params_per_rank is not None:
            return super()._partition_parameters(params_per_rank)
        if not self._partition_parameters_cache:
            self._assign()
            self._partition_parameters_cache = [
                [{**group, "params": [p for p in group["params"] if self._rank_of[p] == rank]}
                 for group in self.param_groups] for rank in range(self.world_size)]
        return self._partition_parameters_cache

    def _assign(self) -> None:
        """Assigns a rank to each parameter that has none."""
        self._loads = self._loads or [0] * self.world_size
        params = [p for group in self.param_groups for p in group["params"]]
        fresh = [(p, size) for p, size in zip(params, self._sizes()) if p not in self._rank_of]
        sizes = [size for _, size in fresh]
        for rank, part in enumerate(greedy_partition(sizes, self.world_size, self._loads)):
            self._rank_of.update((fresh[index][0], rank) for index in part)
            self._loads[rank] += sum(sizes[index] for index in part)

    def _sizes(self) -> list[int]:
        """Returns the bytes of every parameter, from an optimizer of stand-ins without
        memory."""
        groups = [{**group, "params": [_stand_in(p) for p in group["params"]]}
                  for group in self.param_groups]
        for group in groups:
            group.pop("param_names", None)
        return stored_bytes(self._tandem_class(groups, **self._tandem_options))

    def _init_local_optimizer(self) -> None:
        super()._init_local_optimizer()
        if self.optim._arguments["skip_nonfinite"]:
            # Each rank checks the gradients of its own parameters.
            self.optim._runner.skip_exchange = Exchange([self.process_group], self._default_device)
        self._number()

    def _number(self) -> None:
        """Sets the local optimizer's indices of parameters to those among all parameters."""
        self.optim._groups.keys = {id(p): i for p, i in self._param_to_index.items()}

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group as PyTorch does. Parameters that already have a rank keep it."""
        super().add_param_group(param_group)
        if self.initialized:
            self._number()

    def _verify_same_dense_param_type(self) -> None:
        """Refuses sparse parameters. Types may differ, since parameters are sent one by one."""
        for param in self._all_params:
            if param.layout is not torch.strided:
                raise TypeError(f"a parameter is sparse ({param.layout}); use p.to_dense()")

    def _build_param_buckets(self) -> None:
        types = {str(p.dtype) for p in self._all_params if p.requires_grad}
        if self.parameters_as_bucket_view and len(types) > 1:
            raise ValueError(f"parameters_as_bucket_view=True puts all parameters of a rank into "
                             f"one tensor, and these are {', '.join(sorted(types))}; leave it out")
        super()._build_param_buckets()

    #===--------------------------------------------------------------------===#
    # Steps
    #===--------------------------------------------------------------------===#

    def step(self, closure=None, **kwargs):
        """Updates this rank's parameters and sends them to the others."""
        if self._codes is None:
            return super().step(closure, **kwargs)
        loss = None
        if closure is not None:  # it uses the same weights as the other ranks
            with torch.enable_grad():
                loss = closure()
        self._codes.restore()
        super().step(**kwargs)
        return loss

    def _sync_params(self) -> None:
        if self._codes is None:
            return super()._sync_params()
        self._codes.exchange()

    #===--------------------------------------------------------------------===#
    # Checkpoints
    #===--------------------------------------------------------------------===#

    def state_dict(self) -> dict:
        """Returns the state of all ranks as in one process, on the rank that consolidated it."""
        return super().state_dict() | {
            "tandem": identity(self.optim._groups.specs, self.optim._groups.strategies)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Loads this rank's part of a state, bit for bit, and the groups' options.

        Raises:
            ValueError: the state has another graph, or other strategies or parameters. Nothing
                has changed then.
        """
        groups, given = self._partition_parameters()[self.rank], state_dict["param_groups"]
        lengths = [[len(g["params"]) for g in all] for all in (self.param_groups, given)]
        if lengths[0] != lengths[1]:
            raise ValueError(f"the state dict has groups of {lengths[1]} parameters, this "
                             f"optimizer of {lengths[0]}; create it as the one that was saved")
        keys = dict(zip((p for g in self.param_groups for p in g["params"]),
                        (key for g in given for key in g["params"])))
        own = [[keys[p] for p in group["params"]] for group in groups]
        kept = {key for part in own for key in part}
        self.optim.load_state_dict(state_dict | {
            "state": {k: v for k, v in state_dict["state"].items() if k in kept},
            "param_groups": [{**g, "params": part} for g, part in zip(given, own)]},
            convert=False)  # other ranks would keep the weights from before
        self._sync_param_groups(self.optim.param_groups, self.param_groups)
        if self._codes:
            self._codes.reload()


def _check_class(optimizer_class: type) -> None:
    if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
        name = getattr(optimizer_class, "__name__", optimizer_class)
        raise TypeError(f"optimizer_class is {name}, which is none of tandem.torch.optim's; take "
                        "one of these, or torch.distributed.optim.ZeroRedundancyOptimizer")


def _stand_in(param: torch.Tensor) -> torch.Tensor:
    """Returns a parameter of the same shape and type that uses the memory of one element."""
    return torch.nn.Parameter(placeholder(param.detach()), requires_grad=param.requires_grad)
