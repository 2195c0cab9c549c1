"""Finds Tandem's compiler, or explains what to install if it is missing.

The extension calls this module when it first needs the compiler.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

#: The distribution that contains the compiler, and the library in it.
DISTRIBUTION = "tandem-mlir"
LIBRARY = "libTandem.dylib" if sys.platform == "darwin" else "libTandem.so"


def locate() -> str | None:
    """Returns the path of the compiler's library in its installed distribution, which may be in
    a different directory from this package; None if it is not installed."""
    try:
        path = importlib.metadata.distribution(DISTRIBUTION).locate_file(f"tandem/{LIBRARY}")
    except importlib.metadata.PackageNotFoundError:
        return None
    return str(path) if Path(path).exists() else None


def explain_other_llvm(library: str) -> str:
    """Returns the message of an ImportError for a library that makes the symbols of another LLVM
    global."""
    return (f"Tandem's compiler uses LLVM of this machine, but would call the one in {library}, "
            "whose symbols are global, and two LLVMs cannot share them; import that library with "
            "Python's default flags, without sys.setdlopenflags(os.RTLD_GLOBAL), or call "
            "tandem.graphs() before you import it, which loads the compiler")


def explain(reason: str) -> str:
    """Returns the message of an ImportError for the dynamic loader's error."""
    from tandem import __version__

    wheel = f"pip install {DISTRIBUTION}=={__version__}"
    library, _, rest = reason.partition(": ")
    # macOS begins with the loader's function and its arguments.
    is_own = library == LIBRARY or f"/{LIBRARY}," in library
    if is_own and "no such file" in rest.lower():
        return (f"this needs Tandem's compiler, {LIBRARY}, and only its runtime is here, which "
                f"loads and runs packages (tandem.load); install the compiler: {wheel}")
    if library.startswith(("libMLIR", "libLLVM")):
        return (f"Tandem's compiler needs {library} of LLVM 22.1, which is not on this machine; "
                "install LLVM's libraries (Debian's libmlir-22 and libllvm22), or the compiler "
                f"that contains them: {wheel}")
    return (f"Tandem's compiler cannot be loaded: {reason}; the runtime is of version "
            f"{__version__}, install the compiler of the same: {wheel}")
