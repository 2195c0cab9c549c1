"""The operand of a matrix product that a step writes in addition to a weight."""

from __future__ import annotations

import torch

from tandem._matrix_codes import storage_of
from tandem._storages import described
from tandem.torch._layout import laid_out
from tandem.torch._shards import local_of, shard_of
from tandem.torch._versions import increment_versions
from tandem.torch._weight_codes import OTHER, PRODUCTS, Codes, attach, attached, detach
from tandem.torch.optim.state._conversion import plain_storage
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert


class Operand:
    """The codes of one weight, in memory that each step writes anew.

    Args:
        param: the weight.
        storage: the storage of its codes.
    """

    def __init__(self, param: torch.Tensor, storage: str):
        self.param, self.storage = param, storage
        is_product = described(storage).without_transpose == storage_of("f8E4M3FN")
        self._attribute = PRODUCTS if is_product else OTHER
        self._planes: dict[str, torch.Tensor] = {}
        self._spec: StateSpec | None = None

    def allocate(self, spec: StateSpec, like: torch.Tensor) -> None:
        """Allocates the planes for a kernel, unless there are such."""
        shapes = {plane.name: spec.shape(plane, like) for plane in spec.operand_planes}
        if spec is self._spec and shapes == {n: p.shape for n, p in self._planes.items()}:
            return
        self.release()
        self._spec = spec
        self._planes = {plane.name: spec.empty(plane, like) for plane in spec.operand_planes}

    def release(self) -> None:
        """Releases the planes."""
        self._planes = {}
        detach(local_of(self.param), self._attribute)

    @property
    def addresses(self) -> dict[str, int]:
        """The addresses of the planes, by name."""
        return {name: plane.data_ptr() for name, plane in self._planes.items()}

    @property
    def bytes(self) -> int:
        """The size of the planes in bytes."""
        return sum(plane.nbytes for plane in self._planes.values())

    @property
    def codes(self) -> Codes | None:
        """The codes of the current weight; None if no step has written them, or the weight has
        been written since."""
        return attached(local_of(self.param), of_step=True, name=self._attribute)

    def settle(self) -> None:
        """Encodes the weight, unless its codes are there, before a step that only the GPU decides
        to skip: the codes then have to be those of the old weight."""
        if self.codes is None:
            self._encode()

    @torch.no_grad()
    def _encode(self) -> None:
        weight, spec = local_of(self.param).detach(), self._spec
        like = spec.like(weight, None)
        planes = [plane for plane in spec.operand_planes if not plane.transposed]
        convert(spec, [laid_out(weight, like, weight.dtype)], plain_storage(weight.dtype),
                [[self._planes[plane.name] for plane in planes]],
                described(self.storage).without_transpose, planes, shards=[shard_of(self.param)])
        codes = self._planes[planes[0].name].view(torch.uint8)
        for plane in spec.operand_planes:
            if plane.transposed:
                turned = self._planes[plane.name].view(torch.uint8).view(*reversed(codes.shape))
                spec.executor.call(lambda to=turned: to.copy_(codes.t()))

    def publish(self) -> None:
        """Attaches the codes to the weight after a step, which has written both."""
        # Graphs that have saved the codes of an earlier step find out that they have changed.
        increment_versions([*self._planes.values()])
        weight = local_of(self.param)
        name = self._spec.operand_planes[0].name
        planes = {own.removeprefix(name): plane for own, plane in self._planes.items()}
        attach(weight, Codes.of(planes, tuple(weight.shape)), is_of_step=True,
               name=self._attribute)
