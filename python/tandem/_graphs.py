"""Finds the library's graph for an optimizer and its options."""

from __future__ import annotations

#: AdamW's graphs by the place of weight decay.
_DECAYS = {"inside": "adamw", "before": "adamw_decay_before", "after": "adamw_decay_after"}


def adamw(decay: str, eps_inside_root: bool, max_norm: object, stores_ratio: bool,
          optimizer: str, cautious: bool = False) -> str:
    """Returns the name of AdamW's graph.

    Args:
        decay: "inside", "before" or "after" the update.
        eps_inside_root: whether epsilon is added inside the square root.
        max_norm: the maximum norm of all gradients; None for no clipping.
        stores_ratio: whether a state is the ratio of the first moment to the second's root.
        optimizer: the class that takes custom graphs, for messages.
        cautious: whether only elements move whose momentum agrees with the gradient.

    Raises:
        ValueError: the library has no such graph.
    """
    if decay not in _DECAYS:
        raise ValueError(f"decay must be 'inside', 'before' or 'after', got {decay!r}")
    if cautious:
        if decay != "before" or eps_inside_root or max_norm is not None or stores_ratio:
            raise ValueError(
                "cautious needs decay='before', and neither eps_inside_root nor max_norm nor "
                f"stores_ratio; for others, write the graph and pass it to {optimizer}"
            )
        return "adamw_cautious"
    if stores_ratio:
        return _with_ratio(decay, eps_inside_root, max_norm, optimizer)
    if max_norm is not None:
        if decay != "inside" or eps_inside_root:
            raise ValueError(
                "max_norm needs decay='inside' and eps_inside_root=False; for "
                f"others, write the graph and pass it to {optimizer}"
            )
        return "adamw_clip"
    if eps_inside_root:
        if decay != "inside":
            raise ValueError(
                f"eps_inside_root needs decay='inside', got decay={decay!r}; for "
                f"both, write the graph and pass it to {optimizer}"
            )
        return "adamw_eps_inside_root"
    return _DECAYS[decay]


def _with_ratio(decay: str, eps_inside_root: bool, max_norm: object, optimizer: str) -> str:
    """Returns the name of the graph of AdamW that stores the ratio."""
    if decay == "after" or eps_inside_root or (max_norm is not None and decay != "inside"):
        raise ValueError(
            "stores_ratio needs decay='inside', or decay='before' without max_norm, and "
            f"eps_inside_root=False; for others, write the graph and pass it to {optimizer}"
        )
    if max_norm is not None:
        return "adamw_ratio_clip"
    return "adamw_ratio" if decay == "inside" else "adamw_ratio_decay_before"


def check_rprop(shrink: float | None, grow: float | None, least: float | None,
                most: float | None, owner: str = "") -> None:
    """Checks the factors of Rprop's step sizes, and their bounds; None stands for pairs that are not
    known.

    Args:
        owner: what has them, for messages, such as " of param group 0".

    Raises:
        ValueError: they are out of their domain.
    """
    if None not in (shrink, grow) and not 0 < shrink < 1 < grow:
        raise ValueError(f"etas{owner} are {(shrink, grow)}; the first must be above 0 and below "
                         "1, and the second above 1")
    if None not in (least, most) and not 0 < least <= most:
        raise ValueError(f"step_sizes{owner} are {(least, most)}; they must be above 0, and the "
                         "second at least the first")


def check_clip_threshold(value: float, owner: str = "") -> None:
    """Checks the maximum root mean square of CAME's updates.

    Raises:
        ValueError: it is not above 0.
    """
    if not value > 0:
        raise ValueError(f"'clip_threshold'{owner} is {value:g}; it must be above 0")


def sgd(momentum: float, nesterov: bool) -> str:
    """Returns the name of SGD's graph.

    Args:
        momentum: 0 means no momentum and no state.
        nesterov: whether to use Nesterov momentum.

    Raises:
        ValueError: nesterov without momentum.
    """
    if nesterov and not momentum:
        raise ValueError("nesterov needs a momentum above 0")
    return "sgd_nesterov" if nesterov else "sgd_momentum" if momentum else "sgd"
