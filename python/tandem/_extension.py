"""Loads the extension, or explains why it cannot be loaded."""

from __future__ import annotations

import sys
from pathlib import Path


def explain(reason: str, folder: Path = Path(__file__).parent) -> str:
    """Returns the message of an ImportError that explains why the extension in `folder` was not
    imported."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    again = "install it again: pip install --force-reinstall tandem-runtime"
    if "libtandem_runtime" in reason:
        return f"Tandem's extension does not find its runtime ({reason}); {again}"
    there = sorted(path.name for path in folder.glob("_tandem*.so"))
    if any(f"{sys.implementation.cache_tag}-" in name for name in there):
        return f"Tandem's extension cannot be loaded: {reason}; {again}"
    if there:
        return (f"Tandem has no extension for Python {version}, only {', '.join(there)}; use that "
                "Python, or install the wheel for this one: pip install tandem-runtime")
    return (f"{folder} has no extension, only sources; import tandem from build/python "
            "after scripts/build.sh, or install it: pip install tandem-mlir")


try:
    from tandem import _tandem  # noqa: F401
except ImportError as error:
    raise ImportError(explain(str(error)), name="tandem._tandem") from error
