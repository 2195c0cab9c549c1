"""The planes of kernels: arrays, and the elements that share their entries."""

from __future__ import annotations

import functools
import math

from tandem import _tandem

RoleKind = _tandem.RoleKind
Granularity = _tandem.Granularity

#: The values of ``group`` for a plane with one entry for the whole tensor, and for one with an
#: entry for each row of a matrix.
WHOLE_TENSOR = _tandem.WHOLE_TENSOR
WHOLE_ROW = _tandem.WHOLE_ROW

#: Returns which elements share an entry of a plane, by its group, rows and granularity.
_sharing_of = functools.lru_cache(maxsize=256)(_tandem.get_sharing)


class Plane:
    """One array of a kernel: a whole tensor, or one plane of its storage.

    It has the fields of ``tdm_plane_desc`` (tandem_runtime.h) as attributes: its ``name``
    ("exp_avg_sq.lo"), the ``role`` and ``kind`` of the tensor that it belongs to, the ``type``
    and ``bits`` of its entries ("bf16", "i8", or "i4x2" for two codes of four bits), whether it is ``visible`` as the tensor's value,
    and more. Fields default to those of an unnamed plain f32 array that a kernel reads and
    writes.
    """

    def __init__(self, **fields: object):
        unknown = set(fields) - set(_tandem.PLANE_DEFAULTS)
        if unknown:
            raise TypeError(f"a plane has no field {sorted(unknown)[0]!r}; it has "
                            + ", ".join(_tandem.PLANE_DEFAULTS))
        plain = {"access": _tandem.ACCESS_READ | _tandem.ACCESS_WRITE, "type": "f32",
                 "bits": 32, "kind": RoleKind.STATE, "visible": True}
        self.__dict__.update(_tandem.PLANE_DEFAULTS | plain | fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a plane does not change; make another, with {name}={value!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plane) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"Plane({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def read(self) -> bool:
        """Whether the kernel reads the array."""
        return bool(self.access & _tandem.ACCESS_READ)

    @property
    def written(self) -> bool:
        """Whether the kernel writes the array."""
        return bool(self.access & _tandem.ACCESS_WRITE)

    def groups(self, columns: int, rows: int = 1) -> tuple[int, int]:
        """Returns the numbers of groups of rows and of columns that share an entry, in a matrix
        or a flat tensor of ``columns`` elements. The sizes may be symbolic."""
        sharing = self._sharing
        return tuple(
            1 if not size else min(1, places) if size == _tandem.WHOLE_AXIS else -(-places // size)
            for places, size in ((rows, sharing["rows"]), (columns, sharing["columns"])))

    def entries(self, columns: int, rows: int = 1) -> int:
        """Returns the length of the array for a matrix, or for a flat tensor of ``columns``
        elements.

        Groups start anew in each row.
        """
        return math.prod(self.groups(columns, rows)) * (self.history or 1)

    @property
    def _sharing(self) -> dict[str, object]:
        return _sharing_of(self.group, self.rows, int(self.per))

    @property
    def elements_per_entry(self) -> int:
        """The number of elements that share an entry, or 0 if a row, column or tensor shares
        one."""
        return self._sharing["elements"]

    @property
    def rows_per_entry(self) -> int:
        """The number of rows of a tensor that share an entry, or 0 for a plane per column."""
        return self._sharing["rows"]

    @property
    def is_whole_tensor(self) -> bool:
        """Whether all elements of a tensor share one entry."""
        return self.group == WHOLE_TENSOR

    @property
    def is_grouped(self) -> bool:
        """Whether some elements, but not all of a tensor, share an entry."""
        return self.group > 1 and not self.is_whole_tensor

    @property
    def is_exchanged(self) -> bool:
        """Whether a step exchanges the plane with the host, for an external step."""
        return self.kind in (RoleKind.SENT, RoleKind.RECEIVED)

    @property
    def is_packed(self) -> bool:
        """Whether an entry holds the codes of several neighbours in a row, as in "i4x2"."""
        return "x" in self.type

    @property
    def shared_by(self) -> str:
        """The elements that share an entry: "each 128", "the tensor", "each row", "each 64x64";
        empty if each element has its own."""
        return self._sharing["text"]

    @property
    def bytes_per_element(self) -> float:
        """The plane's share of :attr:`Kernel.bytes_per_parameter`."""
        elements = self.elements_per_entry
        return self.bits / 8 / elements if elements else 0.0

    @property
    def sets_size(self) -> bool:
        """Whether each element has its own entry."""
        return self.elements_per_entry == 1
