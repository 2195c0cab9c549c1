"""The optimizers of the library, and what was measured under each."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """An optimizer's graphs and measurements, which recommendations need.

    Attributes:
        graph: the graph of its kernels; that of matrices, if vectors have another one.
        vectors: the graph of parameters with fewer dimensions, if they have one.
        has_betas: whether it keeps AdamW's moments, which follow or do not at its betas.
        has_errors: whether errors were measured under it.
        arguments: those with which it was measured whether its states follow, as Python.
    """

    graph: str
    vectors: str | None = None
    has_betas: bool = False
    has_errors: bool = False
    arguments: str = ""


#: By the names of classes. Errors were measured without weight decay, where AdamW and Adam
#: are the same.
KINDS = {
    "AdamW": Kind("adamw", has_betas=True, has_errors=True),
    "Adam": Kind("adam", has_betas=True, has_errors=True),
    "LAMB": Kind("lamb", has_betas=True),
    "SGD": Kind("sgd_momentum", arguments="momentum=0.9"),
    "Lion": Kind("lion", arguments="betas=(0.9, 0.99)"),
    "RMSprop": Kind("rmsprop", arguments="alpha=0.99"),
    "Adagrad": Kind("adagrad"),
    "Adafactor": Kind("adafactor", "adafactor_vector"),
}

#: The names of those under which errors were measured.
MEASURED = tuple(name for name, kind in KINDS.items() if kind.has_errors)


def kind_of(name: object) -> Kind:
    """Returns the entry of :data:`KINDS` for an optimizer.

    Raises:
        ValueError: the library has none of this name.
    """
    if name not in KINDS:
        raise ValueError(f"the library has no optimizer {name!r}; optimizers are "
                         f"{', '.join(KINDS)}")
    return KINDS[name]


def check_measured(name: str) -> None:
    """Refuses to choose for an optimizer under which no errors were measured."""
    if name not in MEASURED:
        asks = (f"tandem.torch.recommend(model, memory, optimizer={name!r}) says which fit and "
                "follow" if name in KINDS else "docs/Following.md says which follow")
        raise ValueError(
            f"strategy='auto' does not choose for {name}: how far weights end from float64's was "
            f"measured only under {' and '.join(MEASURED)}; name a strategy, such as "
            "'remainder', or 'fp32' for float32 parameters, which store all in float32. "
            f"{asks}")
