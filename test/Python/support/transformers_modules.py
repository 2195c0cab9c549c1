#===- transformers_modules.py - Hugging Face's blocks -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file makes small modules of all classes of norms and gated blocks in Hugging Face
# transformers, with the defaults of a model's configurations, and with an awkward configuration in
# which every setting may matter.
#
#===----------------------------------------------------------------------===#

import importlib
import inspect
import pkgutil
import re

import torch
import transformers
from transformers import PreTrainedConfig

WIDTH, INNER = 48, 96

#: Entries of configurations that are sizes, which are reduced.
SIZES = re.compile("size|dim|width|channels|rank|features")
INNER_SIZES = re.compile("inter|ffn|mlp|inner|hidden_dim")

#: Values by the names of arguments and configuration entries; the first match counts.
AWKWARD = (("multipliers", [0.5, 2.0]), ("multiplier|scale|scaling", 0.75),
           ("dropout|_rate", 0.25), ("eps", 1e-5), ("pattern|sparsity", [0.5] * 4),
           ("limit|clamp", 1.5), ("bias", True), ("act", "gelu"), (INNER_SIZES, INNER),
           (SIZES, WIDTH), ("groups", 8), ("num|^n_|layers", 2))


class AwkwardConfig:
    """A configuration that has a value for each name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return next((value for key, value in AWKWARD if re.search(key, name)), None)


def modules_of(kind):
    """Returns the modules modeling_* or configuration_* of transformers' models that can be
    imported, by the model's name."""
    for model in pkgutil.iter_modules(transformers.models.__path__):
        package = importlib.import_module(f"transformers.models.{model.name}")
        for part in pkgutil.iter_modules(getattr(package, "__path__", ())):
            if part.name.startswith(kind):
                try:
                    yield model.name, importlib.import_module(f"{package.__name__}.{part.name}")
                except ImportError:  # requires a package that is not installed
                    continue


def own_classes(module, base):
    return [value for value in vars(module).values()
            if inspect.isclass(value) and issubclass(value, base)
            and value.__module__ == module.__name__]


def is_wanted(kind):
    """Returns whether a class is a norm, or has the three layers of a gated block."""
    if kind.__name__.endswith("Norm"):
        return True
    names = {name for base in kind.__mro__ if base.__module__.startswith("transformers.models")
             and "__init__" in vars(base)
             for name in inspect.unwrap(base.__init__).__code__.co_names}
    return {"gate_proj", "up_proj", "down_proj"} <= names


def shrink(config):
    """Reduces the sizes in a configuration and in its nested configurations."""
    for name, value in list(vars(config).items()):
        if isinstance(value, PreTrainedConfig):
            shrink(value)
        elif type(value) is int and value > 64 and SIZES.search(name):
            try:
                setattr(config, name, INNER if INNER_SIZES.search(name) else WIDTH)
            except Exception:  # some configurations validate each assignment
                continue


def default_configs(model):
    """Returns small configurations of a model, and their nested ones."""
    found = []
    for _, module in ((m, c) for m, c in CONFIGURATIONS if m == model):
        for kind in own_classes(module, PreTrainedConfig):
            try:
                config = kind()
                shrink(config)
            except Exception:  # some configurations require arguments
                continue
            found += [config, *(v for v in vars(config).values()
                                if isinstance(v, PreTrainedConfig))]
    return found


CONFIGURATIONS = list(modules_of("configuration_"))


def arguments(kind, config):
    """Returns the arguments that a class's constructor requires."""
    values = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_variadic or parameter.default not in (parameter.empty, None):
            continue
        if "config" in name:
            values[name] = config
        elif parameter.default is parameter.empty or SIZES.search(name):
            values[name] = getattr(AwkwardConfig(), name) or 0
    return values


def made(kind, config):
    try:
        return kind(**arguments(kind, config))
    except Exception:  # requires another configuration, or more than a number
        return None


def all_modules():
    """Yields classes of norms and gated blocks with the modules that could be made of each."""
    for model, module in modules_of("modeling_"):
        kinds = [kind for kind in own_classes(module, torch.nn.Module) if is_wanted(kind)]
        configs = default_configs(model) if kinds else []
        for kind in kinds:
            default = next((m for c in configs if (m := made(kind, c)) is not None), None)
            awkward = made(kind, AwkwardConfig())
            yield kind, [m for m in (default, awkward) if m is not None]
