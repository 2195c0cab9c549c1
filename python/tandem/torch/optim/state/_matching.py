"""The parameters of a state dict that are those of an optimizer: by name, or by position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

#: Prefixes of names that wrappers add: DistributedDataParallel, torch.compile, FSDP1 and
#: activation checkpointing.
_WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
#: Keys of param groups that are not options.
_MEMBERS = ("params", "param_names")


class IncompatibleKeys(NamedTuple):
    """The differences between a state dict and an optimizer that ``strict=False`` accepts.

    Attributes:
        missing_keys: the optimizer's parameters whose state was not loaded, by name or label.
        unexpected_keys: the state dict's parameters that the optimizer does not have.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


def plain_name(name: str) -> str:
    """Returns a parameter's name without the prefixes of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _names(groups: Sequence[Mapping]) -> list[str] | None:
    """Returns the plain names of all parameters, or None if some have none."""
    names = [plain_name(str(name)) for group in groups for name in group.get("param_names", ())]
    total = sum(len(group["params"]) for group in groups)
    return names if len(names) == total and len(set(names)) == total else None


def matched(state_dict: Mapping, groups: Sequence[Mapping],
            strict: bool) -> tuple[dict, IncompatibleKeys, bool]:
    """Returns a state dict whose param groups have an optimizer's parameters in its order, what
    does not match, and whether parameters went by name.

    Parameters go by name if both sides have names, and by position otherwise.

    Args:
        state_dict: the state dict.
        groups: the optimizer's param groups.
        strict: whether all parameters have to match.

    Raises:
        ValueError: parameters are missing or unexpected, or groups that have become one have
            other options, and `strict` is set.
    """
    saved = state_dict["param_groups"]
    ours, theirs = _names(groups), _names(saved)
    by_name = ours is not None and theirs is not None
    if not by_name:
        _check_counts(groups, saved, strict)
        ours, theirs = (list(map(str, range(_count(g)))) for g in (groups, saved))
    known = {name: (key, group) for name, (key, group) in zip(theirs, _members(saved))}
    missing = [name for name in ours if name not in known]
    wanted = set(ours)
    unexpected = [name for name in theirs if name not in wanted]
    if strict and (missing or unexpected):
        raise ValueError(_difference(missing, unexpected))
    made = list(_regrouped(groups, ours, known, strict))
    kept = {key for key, _ in _members(made)}
    states = {key: state for key, state in state_dict["state"].items() if key in kept}
    return ({**state_dict, "param_groups": made, "state": states},
            IncompatibleKeys(missing, unexpected), by_name)


def _count(groups: Sequence[Mapping]) -> int:
    return sum(len(group["params"]) for group in groups)


def _members(groups: Sequence[Mapping]) -> Iterator[tuple[object, Mapping]]:
    """Yields the key of each parameter and its group."""
    return ((key, group) for group in groups for key in group["params"])


def _check_counts(groups: Sequence[Mapping], saved: Sequence[Mapping], strict: bool) -> None:
    """Refuses groups of other sizes, if parameters go by position."""
    sizes = [[len(group["params"]) for group in g] for g in (saved, groups)]
    if strict and sizes[0] != sizes[1]:
        raise ValueError(
            f"the state dict has param groups of {_spelled(sizes[0])} parameters, and this "
            f"optimizer of {_spelled(sizes[1])}; create both from named parameters, as "
            "AdamW(model.named_parameters()), so that states go by name, or load what fits "
            "with load_state_dict(state_dict, strict=False)")


def _spelled(sizes: Sequence[int]) -> str:
    return " and ".join(map(str, sizes)) or "no"


def _difference(missing: Sequence[str], unexpected: Sequence[str]) -> str:
    """Returns the message about names that only one side has."""
    parts = [f"{what} {_listed(names)}" for what, names in
             (("lacks", missing), ("has", unexpected)) if names]
    return (f"the state dict {' and '.join(parts)}, other than this optimizer; create it with "
            "the parameters that were saved, without names if they are named otherwise now, or "
            "load what fits with load_state_dict(state_dict, strict=False)")


def _listed(names: Sequence[str]) -> str:
    """Returns the number of parameters and the first names."""
    return (f"{len(names)} parameters ({', '.join(map(repr, names[:5]))}"
            f"{', ...' if len(names) > 5 else ''})")


def _regrouped(groups: Sequence[Mapping], names: Sequence[str], known: Mapping,
               strict: bool) -> Iterator[dict]:
    """Yields the saved group of each of an optimizer's groups, with the keys of its
    parameters. Parameters that were not saved get keys that no state has."""
    rest, fresh = iter(names), (("fresh", number) for number in count())
    for index, group in enumerate(groups):
        found = [known.get(next(rest)) for _ in group["params"]]
        sources = [pair[1] for pair in found if pair]
        if strict:
            _check_options(index, sources)
        options = dict(sources[0] if sources else group)
        named = options.pop("param_names", ())
        if "param_names" not in group and len(named) == len(found):
            options["param_names"] = named  # torch.optim takes them over
        yield options | {"params": [pair[0] if pair else next(fresh) for pair in found]}


def _check_options(index: int, sources: Sequence[Mapping]) -> None:
    """Refuses to give one group the options of several."""
    first = sources[0] if sources else {}
    for source in sources:
        if source is first:
            continue
        for name in source.keys() | first.keys():
            if name not in _MEMBERS and repr(source.get(name)) != repr(first.get(name)):
                raise ValueError(
                    f"param group {index} has parameters that were saved in groups with "
                    f"{name}={first.get(name)!r} and {name}={source.get(name)!r}; group them as "
                    "they were saved, or take the first group's options with "
                    "load_state_dict(state_dict, strict=False)")
