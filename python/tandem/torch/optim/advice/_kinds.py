"""The library's optimizers and their measurements."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """An optimizer's graphs and measurements, which recommendations use.

    Attributes:
        graph: the graph of its kernels, or of matrices if vectors have another one.
        vectors: the graph for parameters with fewer dimensions, if they have their own.
        has_betas: whether it has AdamW's moments, for which following depends on the betas.
        has_second: whether it has AdamW's second moment besides a state that was measured.
        is_for_matrices: whether ``vectors`` also updates embeddings and the head.
        has_errors: whether errors were measured for it.
        arguments: the arguments for the measurements of its states, as Python code.
    """

    graph: str
    vectors: str | None = None
    has_betas: bool = False
    has_second: bool = False
    is_for_matrices: bool = False
    has_errors: bool = False
    arguments: str = ""


#: The optimizers by the names of their classes. Errors were measured without weight decay, for
#: which AdamW and Adam are the same.
KINDS = {
    "AdamW": Kind("adamw", has_betas=True, has_errors=True),
    "Adam": Kind("adam", has_betas=True, has_errors=True),
    "LAMB": Kind("lamb", has_betas=True),
    "NAdam": Kind("nadam", has_betas=True),
    "RAdam": Kind("radam", has_betas=True),
    "AdEMAMix": Kind("ademamix", has_second=True, arguments="betas=(0.9, 0.999, 0.999)"),
    "AdamWScheduleFree": Kind("adamw_schedule_free", has_second=True,
                              arguments="betas=(0.9, 0.999)"),
    "Muon": Kind("muon", "adamw_decay_before", has_second=True, is_for_matrices=True,
                 arguments="momentum=0.95, adjust_lr_fn='match_rms_adamw'"),
    "SGD": Kind("sgd_momentum", arguments="momentum=0.9"),
    "Lion": Kind("lion", arguments="betas=(0.9, 0.99)"),
    "RMSprop": Kind("rmsprop", arguments="alpha=0.99"),
    "Adagrad": Kind("adagrad"),
    "Adafactor": Kind("adafactor", "adafactor_vector"),
}

#: AdamW with ``stores_ratio``, as strategies with moments of four bits need.
WITH_RATIO = Kind("adamw_ratio", has_betas=True, has_errors=True)

#: Optimizers whose states were not measured.
UNMEASURED = ("ASGD", "AdamMini", "Adadelta", "Adamax", "Adan", "CAME", "MARS", "Prodigy",
              "Rprop")

#: The names of optimizers for which errors were measured.
MEASURED = tuple(name for name, kind in KINDS.items() if kind.has_errors)


def kind_of(name: object) -> Kind:
    """Returns the entry of :data:`KINDS` for an optimizer.

    Raises:
        ValueError: the library has no optimizer of this name.
    """
    if name in UNMEASURED:
        raise ValueError(f"whether the states of {name} follow was not measured; take 'remainder', or "
                         "'fp32' for float32 parameters, which store all in float32, or test a "
                         "strategy in a run of your own")
    if name not in KINDS:
        raise ValueError(f"the library has no optimizer {name!r}; optimizers are "
                         f"{', '.join(KINDS)}")
    return KINDS[name]


def check_measured(name: str) -> None:
    """Refuses to choose strategies for an optimizer without measured errors."""
    if name not in MEASURED:
        asks = (f"tandem.torch.recommend(model, memory, optimizer={name!r}) says which fit and "
                "follow" if name in KINDS else "docs/Following.md says which follow")
        raise ValueError(
            f"strategy='auto' does not choose for {name}: how far weights end from float64's was "
            f"measured only under {' and '.join(MEASURED)}; name a strategy, such as "
            "'remainder', or 'fp32' for float32 parameters, which store all in float32. "
            f"{asks}")
