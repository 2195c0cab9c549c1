"""The command ``python -m tandem``: what is installed, what the library has, packages."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import tandem
from tandem import _tandem, cache

#: The parts of the library that can be listed.
_LISTS: dict[str, Callable[[], list[str]]] = {
    "graphs": tandem.graphs, "layers": tandem.layers, "strategies": tandem.strategies,
    "recipes": tandem.recipes}


def _version_of(package: str) -> str:
    """Returns the version of an installed package, without importing it."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


def _gpus() -> str:
    """Describes the GPUs that the runtime can use."""
    found = [tandem.Device(ordinal) for ordinal in range(tandem.Device.count())]
    return "; ".join(f"{gpu.name} ({gpu.target}), {gpu.memory / 2**30:.0f} GiB"
                     for gpu in found) or "none"


def _show(options: argparse.Namespace) -> None:
    """Prints what a report of a problem needs."""
    print(f"tandem {tandem.__version__}, {os.path.dirname(tandem.__file__)}")
    print(f"Python {platform.python_version()}, "
          + ", ".join(map(_version_of, ("numpy", "torch", "jax"))))
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, instructions "
          f"{_tandem.native_isa()}")
    print(f"GPUs: {_gpus()}")
    print(f"cache of compiled code: {cache.describe()}")
    print("library: " + ", ".join(f"{len(names())} {what}" for what, names in _LISTS.items())
          + " (python -m tandem list)")


def _list(options: argparse.Namespace) -> None:
    if unknown := [what for what in options.what if what not in _LISTS]:
        raise ValueError(f"there is no list {unknown[0]!r}; there are {', '.join(_LISTS)}")
    for what in options.what or _LISTS:
        print(f"{what}:", *_LISTS[what](), sep="\n  ")


def _compile(options: argparse.Namespace) -> None:
    """Compiles a graph under one or more strategies to a package."""
    kernels: dict[str, tandem.Kernel] = {}
    if twice := [name for name, count in Counter(options.strategy).items() if count > 1]:
        raise ValueError(f"--strategy {twice[0]} is given twice; give each strategy once")
    for number, strategy in enumerate(options.strategy, 1):
        kernel = tandem.compile(options.graph, strategy, path=options.path,
                                function=options.function)
        name = f"{kernel.name}_{strategy}" if len(options.strategy) > 1 else kernel.name
        kernels[name] = kernel
        print(f"[{number}/{len(options.strategy)}] {name}: {kernel.bytes_per_parameter:g} bytes a "
              "parameter", flush=True)
    tandem.save(options.output, kernels, options.targets)
    print(f"wrote {options.output}, {os.path.getsize(options.output):,} bytes")


def _inspect(options: argparse.Namespace) -> None:
    """Prints what a kernel takes, and how its tensors are stored."""
    is_package = options.source.endswith(".tdm")
    for name in ("strategy", "function", "path") if is_package else ("name",):
        if getattr(options, name):
            raise ValueError(f"--{name} is for {'graphs' if is_package else 'packages'}, and "
                             f"{options.source} is not one; leave it out")
    if is_package:
        kernel = tandem.load(options.source, options.name or "")
    else:
        kernel = tandem.compile(options.source, options.strategy, path=options.path,
                                function=options.function)
    print(kernel.signature)
    print("storages:")
    for role, storage in kernel.storages.items():
        print(f"  {role}: {storage}")
    print(f"{kernel.bytes_per_parameter:g} bytes a parameter, {kernel.phases} "
          f"launch{'es' if kernel.phases > 1 else ''} a step")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tandem", description="Prints what is installed, or works with the library "
        "and with packages of compiled kernels.")
    parser.set_defaults(run=_show)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    command = commands.add_parser("list", help="the library's graphs, layers, strategies, recipes")
    command.add_argument("what", nargs="*", metavar="WHAT",
                         help=f"{', '.join(_LISTS)} (default: all)")
    command.set_defaults(run=_list)

    command = commands.add_parser("compile", help="compile a graph to a package")
    command.add_argument("graph", help="a graph's name, an .mlir file or MLIR text")
    command.add_argument("--strategy", required=True, action="append",
                         help="a strategy's name; give several for several kernels")
    command.add_argument("--targets", nargs="+", default=[], metavar="TARGET",
                         help="instruction sets such as x86-64-v3, and chips such as sm_90")
    command.add_argument("-o", "--output", required=True, help="the package, by convention NAME.tdm")
    command.set_defaults(run=_compile)
    _add_options_of_graphs(command)

    command = commands.add_parser("inspect", help="what a kernel takes and how it stores tensors")
    command.add_argument("source", help="a package (.tdm), a graph's name or an .mlir file")
    command.add_argument("--strategy", help="the strategy, if it is a graph")
    command.add_argument("--name", help="the kernel's name, in a package of several")
    command.set_defaults(run=_inspect)
    _add_options_of_graphs(command)
    return parser


def _add_options_of_graphs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--function", default="", metavar="NAME",
                         help="the graph's name, if there are several: a layer has NAME and "
                              "NAME_backward")
    command.add_argument("--path", action="append", default=[], metavar="DIRECTORY",
                         help="searched for strategies before the library")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        print(f"python -m tandem: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
