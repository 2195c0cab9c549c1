"""The state that a recipe keeps from step to step, which each forward pass advances once.

An activation checkpoint runs a pass again in the backward pass. The second run begins with the
same state as the first one and leaves the layer's state unchanged, so that it computes the same.
"""

from __future__ import annotations

import enum
import inspect
import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.utils.checkpoint import _CheckpointFrame
from torch.utils.weak import WeakTensorKeyDictionary

Planes = dict[str, torch.Tensor]

#: The number of first runs for which a state remembers what they began with. It is greater than
#: the number of passes that wait for their backward pass; others have been abandoned.
_WAITING = 256


class Mode(enum.Enum):
    """The purpose of a forward pass."""

    RECORDED = enum.auto()
    #: It is inside an autograd function, like the first run of a reentrant checkpoint.
    CHECKPOINTED = enum.auto()
    EVALUATED = enum.auto()


def mode() -> Mode:
    """Returns the purpose of the current forward pass."""
    if torch.is_grad_enabled():
        return Mode.RECORDED
    # Autograd functions disable forward-mode gradients too, which torch.no_grad does not.
    if torch._C._is_fwd_grad_enabled() or torch.is_inference_mode_enabled():
        return Mode.EVALUATED
    return Mode.CHECKPOINTED


def _copies(planes: Mapping[str, torch.Tensor]) -> Planes:
    return {name: plane.clone() for name, plane in planes.items()}


class History:
    """The state of a recipe in one forward pass, which may run inside an autograd function.

    Args:
        state: the state between steps, to which new planes are added.
        names: the names of its planes.
        initial: a function that returns a new plane by name.
    """

    def __init__(self, state: Planes, names: Sequence[str],
                 initial: Callable[[str], torch.Tensor]):
        self._mode = mode()
        if self._mode is Mode.EVALUATED:
            self._planes = {name: state[name] if name in state else initial(name)
                            for name in names}
            return
        for name in names:
            if name not in state:
                state[name] = initial(name)
        self._planes = {name: state[name] for name in names}

    def begin(self) -> Planes:
        """Returns the planes for a kernel that stores a tensor and advances them."""
        if not self._planes or self._mode is Mode.EVALUATED:
            return _copies(self._planes)
        key, hooks = next(iter(self._planes.values())), _checkpoint_hooks()
        begun = _recomputed(key, hooks)
        is_first = begun is None
        if is_first and (hooks or self._mode is Mode.CHECKPOINTED):
            begun = _copies(self._planes)
        if begun is not None:
            _remember(key, begun, hooks, self._mode)
        return self._planes if is_first else _copies(begun)

    def follow(self, kept: Planes) -> None:
        """Advances the state to that of another layer, which has stored the same tensor.

        Args:
            kept: the other layer's planes by the suffixes of their names.
        """
        for name, plane in self.begin().items():
            # The graph may have saved the plane, whose version must not change.
            plane.data.copy_(kept[name[name.rindex("."):]])


#: The history of a recipe that keeps no state.
NO_HISTORY = History({}, (), torch.zeros)


#===------------------------------------------------------------------------===#
# Checkpoints that are not reentrant
#===------------------------------------------------------------------------===#


@dataclass(frozen=True, eq=False)
class _Hook:
    """A function that packs saved tensors for a checkpoint."""

    pack: Callable
    frame: _CheckpointFrame
    #: Whether the checkpoint runs its function again.
    recomputes: bool


#: The state with which the passes in each checkpoint began, in order, with the first plane of the
#: layer's own state.
_in_frames: weakref.WeakKeyDictionary[_CheckpointFrame, list[tuple[torch.Tensor, Planes]]] = (
    weakref.WeakKeyDictionary())

#: The number of passes that each recomputation has run, by the hook and the id of the state.
_counts: weakref.WeakKeyDictionary[Callable, Counter] = weakref.WeakKeyDictionary()


def _checkpoint_hooks() -> list[_Hook]:
    """Returns the hooks of the checkpoints around this call, outermost first."""
    autograd, hooks = torch._C._autograd, []
    if not hasattr(autograd, "_top_saved_tensors_default_hooks"):
        return []  # as in PyTorch 2.4
    while (top := autograd._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        autograd._pop_saved_tensors_default_hooks()
    for hook in reversed(hooks):
        autograd._push_saved_tensors_default_hooks(*hook)
    found = [_checkpoint_hook(pack) for pack, _ in reversed(hooks)]
    return [hook for hook in found if hook is not None]


def _checkpoint_hook(pack: Callable) -> _Hook | None:
    """Returns the description of a hook, if it is PyTorch's for a checkpoint. It refers to the
    checkpoint's frame, weakly in a recomputation."""
    function = inspect.unwrap(pack)
    if function.__module__ != "torch.utils.checkpoint":
        return None
    for cell in function.__closure__ or ():
        recomputes = isinstance(cell.cell_contents, weakref.ref)
        frame = cell.cell_contents() if recomputes else cell.cell_contents
        if isinstance(frame, _CheckpointFrame):
            return _Hook(pack, frame, recomputes)
    return None


def _recomputing(hooks: Sequence[_Hook]) -> int | None:
    """Returns the index of the innermost hook of a recomputation."""
    return max((i for i, hook in enumerate(hooks) if hook.recomputes), default=None)


def _recomputed(key: torch.Tensor, hooks: Sequence[_Hook]) -> Planes | None:
    """Returns the state with which the first run of this pass began, if this is another run."""
    index = _recomputing(hooks)
    if index is None:
        calls = _functions.get(key)
        return calls and calls.recomputed()
    hook = hooks[index]
    mine = (begun for owner, begun in _in_frames.get(hook.frame, ()) if owner is key)
    counts = _counts.setdefault(hook.pack, Counter())
    counts[id(key)] += 1
    return next(itertools.islice(mine, counts[id(key)] - 1, None), None)


def _remember(key: torch.Tensor, begun: Planes, hooks: Sequence[_Hook], mode: Mode) -> None:
    """Remembers the state with which a pass began for the checkpoints that may run it again."""
    index = _recomputing(hooks)
    for hook in hooks if index is None else hooks[index + 1:]:
        _in_frames.setdefault(hook.frame, []).append((key, begun))
    if mode is Mode.CHECKPOINTED and index is None:
        if key not in _functions:
            _functions[key] = _Calls()
        _functions[key].remember(begun)


#===------------------------------------------------------------------------===#
# Autograd functions, such as reentrant checkpoints
#===------------------------------------------------------------------------===#


@dataclass(eq=False)
class _Call:
    """A pass inside an autograd function."""

    #: The number that autograd would have given to a node at that time.
    number: int
    #: The backward pass in which the function ran, or -1.
    task: int
    begun: Planes
    is_used: bool = False


class _Calls:
    """The passes of one state inside autograd functions.

    If the node of such a function runs it again in a backward pass, the numbers of its first
    passes are the next ones after the node's own number.
    """

    def __init__(self):
        self._first: list[_Call] = []
        #: Passes that ran in a backward pass, as the first runs of nested checkpoints do.
        self._nested: list[_Call] = []
        self._session, self._next = None, 0

    def remember(self, begun: Planes) -> None:
        call = _Call(torch._C._autograd._get_sequence_nr(), torch._C._current_graph_task_id(),
                     begun)
        if call.task != -1:
            self._nested.append(call)
            return
        waiting = [call for call in self._first if not call.is_used]
        self._first, self._nested = [*waiting[1 - _WAITING:], call], []

    def recomputed(self) -> Planes | None:
        """Returns the state with which the first run of this pass began, if this is in a backward
        pass."""
        node, task = torch._C._current_autograd_node(), torch._C._current_graph_task_id()
        if node is None or task == -1:
            return None
        number = node._sequence_nr()
        return self._of_nested(task, number) or self._of_first(task, number)

    def _of_nested(self, task: int, number: int) -> Planes | None:
        """Returns the state of a function that ran in the backward pass around this one."""
        for index, call in enumerate(self._nested):
            if call.task != task and call.number > number:
                return self._nested.pop(index).begun
        return None

    def _of_first(self, task: int, number: int) -> Planes | None:
        if self._session != (task, number):
            self._session, self._next = (task, number), 0
        for index in range(self._next, len(self._first)):
            call = self._first[index]
            if call.number > number:
                call.is_used, self._next = True, index + 1
                return call.begun
        return None


#: The passes in autograd functions, by the first plane of the layer's state.
_functions = WeakTensorKeyDictionary()
