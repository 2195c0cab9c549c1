"""Saved inputs of matrix products, which may have been written by any kernel."""

from __future__ import annotations

import functools
import threading
import weakref
from dataclasses import dataclass, field

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from tandem._plane import RoleKind
from tandem.torch.nn._history import History, Mode, mode
from tandem.torch.nn._layer import Layer
from tandem.torch.nn._stored import StoredTensor, decoded, executor_of, planes_of, rows_of

#: The number of neighbours in a row that a Hadamard transform mixes.
MIXED = 16
#: The signs that numbers get before a transform. They are those of a bent function, so that equal
#: numbers are spread evenly instead of adding up to an outlier.
_SIGNS = (1, 1, 1, -1) * 3 + (-1, -1, -1, 1)


@functools.lru_cache(maxsize=None)
def _signs(device: torch.device) -> torch.Tensor:
    """Returns the signs on a device. They are kept, since a CUDA graph cannot copy them there."""
    with torch.inference_mode(False):
        return torch.tensor(_SIGNS, dtype=torch.float32, device=device)


def hadamard(x: torch.Tensor, back: bool = False) -> torch.Tensor:
    """Returns the Hadamard transform, after fixed signs, of each 16 neighbours in a row, or undoes it.

    It computes in float32, and only sums and differences of two numbers are rounded, so that bits do
    not depend on the order in which a device adds. The largest number of 16 is spread over all.
    """
    signs = _signs(x.device)
    y = x.reshape(-1, MIXED).to(torch.float32, copy=True)
    if not back:
        y.mul_(signs)
    for half in (1, 2, 4, 8):
        first, second = y.view(-1, MIXED // (2 * half), 2, half).unbind(-2)
        total = first + second
        torch.sub(first, second, out=second)
        first.copy_(total)
    y.mul_(0.25)
    return (y.mul_(signs) if back else y).view(x.shape).to(x.dtype)


class LayerState(dict[str, torch.Tensor]):
    """The state of a module between steps: planes of scales, and whether linear layers use the
    planes that it saves for them."""

    def __init__(self):
        super().__init__()
        self._claim: Claim | None = None
        #: The kinds of passes in which no layer uses its outputs.
        self._unused: set[Mode] = set()

    def offers(self, is_capturing: bool) -> bool:
        """Returns whether the module's next kernel also saves its outputs for linear layers,
        which it stops doing when no layer has used them in the same kind of pass. A graph uses
        the kernel that has run before."""
        if self._claim is not None and not self._claim.taken and not is_capturing:
            self._unused.add(self._claim.mode)
        self._claim = None
        current = mode()
        return current is not Mode.EVALUATED and current not in self._unused

    def remember(self, offer: SavedOutput) -> None:
        """Records what was offered to linear layers, without keeping the planes alive."""
        self._claim = offer.claim


@dataclass
class Claim:
    """Records whether a linear layer has used the offered planes."""

    mode: Mode = field(default_factory=mode)
    taken: bool = False


@dataclass
class SavedOutput:
    """A layer's output in the form in which its kernel has saved it for linear layers."""

    storage: str
    #: The planes by the suffixes of their names.
    planes: dict[str, torch.Tensor]
    #: A key for the output's state, which changes when the output is written.
    key: tuple
    claim: Claim = field(default_factory=Claim)


def _key(x: torch.Tensor) -> tuple:
    executor = executor_of(x)
    identity = id(x) if isinstance(x, StoredTensor) else x.data_ptr()
    # No version tells whether an inference tensor has been written, so it has a new key each time.
    version = object() if x.is_inference() else x._version
    # A graph saves the output itself whenever it runs.
    return version, identity, executor.stream, executor.is_capturing


class SavedInputs:
    """Saves inputs of matrix products. Products of the same input share the saved planes."""

    def __init__(self):
        self._last = threading.local()
        self._offered = WeakTensorKeyDictionary()

    def offer(self, x: torch.Tensor, storage: str, planes: dict[str, torch.Tensor]) -> SavedOutput:
        """Offers these planes to products of x, which use them if they would save x in this
        storage."""
        offer = self._offered[x] = SavedOutput(storage, planes, _key(x))
        return offer

    def keep(self, layer: Layer, history: History, x: torch.Tensor,
             mixes: bool = False) -> tuple:
        """Returns the planes that the backward pass needs, and the rows and columns."""
        planes = self.planes(layer, history, x, copies=False, mixes=mixes)
        role = layer.saved[0].role
        return [planes[name.removeprefix(role)] for name in layer.restored], rows_of(x)

    def planes(self, layer: Layer, history: History, x: torch.Tensor, copies: bool = True,
               mixes: bool = False) -> dict[str, torch.Tensor]:
        """Returns the saved planes by the suffixes of their names, with ``copies`` including a
        transposed copy if the recipe has one. With ``mixes`` they are of the Hadamard transform."""
        shape, key = rows_of(x), (layer, copies, mixes, *_key(x))
        if kept := (None if mixes else self._take(layer, x)) or self._find(x, key):
            history.follow(kept)
            return kept
        source = hadamard(decoded(x)) if mixes else x
        planes = layer.forward.allocate(shape, source, (RoleKind.SAVED,)) | history.begin()
        planes |= planes_of({"x": source})
        layer.forward.run(shape, planes)
        layer.note(planes, True)
        role = layer.saved[0].role
        names = [*layer.restored, *([f"{role}.transposed"] if copies else [])]
        kept = {name.removeprefix(role): planes[name] for name in names if name in planes}
        self._remember(x, key, kept)
        return kept

    def _take(self, layer: Layer, x: torch.Tensor) -> dict[str, torch.Tensor] | None:
        """Returns the planes that the kernel that produced the tensor has saved."""
        offer = self._offered.get(x)
        if offer is None or offer.key != _key(x) or (
                layer.forward.storages.get("kept") != offer.storage):
            return None
        offer.claim.taken = True
        return offer.planes

    def _remember(self, x: torch.Tensor, key: tuple, kept: dict[str, torch.Tensor]) -> None:
        """Remembers the saved planes of the latest tensor. Only autograd keeps them alive,
        except that if it needs one of two copies, the other one is kept for the next product of
        this tensor."""
        waiting = [kept[""]] if ".transposed" in kept else []
        planes = {suffix: weakref.ref(plane) for suffix, plane in kept.items()}
        self._last.kept = weakref.ref(x, lambda _: waiting.clear()), key, planes, waiting

    def _find(self, x: torch.Tensor, key: tuple) -> dict[str, torch.Tensor] | None:
        """Returns the saved planes of the tensor, if it is the latest one and unchanged."""
        last, known, planes, _ = getattr(self._last, "kept", (None, None, {}, None))
        if last is None or last() is not x or known != key:
            return None
        alive = {suffix: plane() for suffix, plane in planes.items()}
        return None if any(plane is None for plane in alive.values()) else alive


SAVED_INPUTS = SavedInputs()
