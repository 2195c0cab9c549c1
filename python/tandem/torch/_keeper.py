"""What matrix products keep of their inputs, whichever kernel has made it."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from tandem._kernel import RoleKind
from tandem.torch._layer import Layer
from tandem.torch._stored import StoredTensor, place_of, planes_of, rows_of


class Memory(dict[str, torch.Tensor]):
    """What a module remembers from step to step: planes of scales, and whether linear
    layers take what it keeps for them."""

    def __init__(self):
        super().__init__()
        self._offer: Offer | None = None
        self._offers = True

    def offers(self, is_capturing: bool) -> bool:
        """Whether the module's next kernel also keeps its outputs for linear layers: until
        none has taken what was kept. A graph gets the kernel that has run before."""
        if self._offer is not None and not self._offer.taken and not is_capturing:
            self._offers = False
        self._offer = None
        return self._offers and torch.is_grad_enabled()

    def remember(self, offer: Offer) -> None:
        """Takes note of what is offered to linear layers."""
        self._offer = offer


@dataclass
class Offer:
    """A layer's output, as its kernel has kept it for linear layers."""

    storage: str
    #: By what follows the tensor's name in theirs.
    planes: dict[str, torch.Tensor]
    #: The output's state, which a write changes.
    key: tuple
    taken: bool = False


def _key(x: torch.Tensor) -> tuple:
    place = place_of(x)
    identity = id(x) if isinstance(x, StoredTensor) else x.data_ptr()
    # A graph keeps it itself, whenever it runs.
    return x._version, identity, place.stream, place.is_capturing


class Keeper:
    """Keeps inputs of matrix products; products of the same input share what is kept."""

    def __init__(self):
        self._last = threading.local()
        self._offered = WeakTensorKeyDictionary()

    def offer(self, x: torch.Tensor, storage: str, planes: dict[str, torch.Tensor]) -> Offer:
        """Has products of x keep these planes, if they would store it so."""
        offer = self._offered[x] = Offer(storage, planes, _key(x))
        return offer

    def keep(self, layer: Layer, state: dict, x: torch.Tensor) -> tuple:
        """The planes that the backward pass needs, and the rows and columns."""
        shape, key = rows_of(x), (layer, *_key(x))
        if kept := self._take(layer, x) or self._find(x, key):
            return kept, shape
        planes = layer.forward.allocate(shape, x, (RoleKind.SAVED,)) | state
        planes |= planes_of({"x": x})
        layer.forward.run(shape, planes)
        kept = [planes[name] for name in layer.restored]
        # Autograd alone decides how long they live.
        self._last.kept = weakref.ref(x), key, [weakref.ref(plane) for plane in kept]
        return kept, shape

    def _take(self, layer: Layer, x: torch.Tensor) -> list | None:
        """What the kernel that made the tensor has kept of it."""
        offer = self._offered.get(x)
        if offer is None or offer.key != _key(x) or (
                layer.backward.storages.get("kept") != offer.storage):
            return None
        offer.taken = True
        return [offer.planes[name.removeprefix("kept")] for name in layer.restored]

    def _find(self, x: torch.Tensor, key: tuple) -> list | None:
        """What is kept of the tensor, if it is the last one and unchanged."""
        last, known, planes = getattr(self._last, "kept", (None, None, ()))
        if last is None or last() is not x or known != key:
            return None
        alive = [plane() for plane in planes]
        return None if any(plane is None for plane in alive) else alive


KEEPER = Keeper()
