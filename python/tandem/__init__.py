"""Tandem: optimizer graphs compiled to fused low-precision kernels.

>>> import tandem
>>> kernel = tandem.compile("adamw", strategy="flash-f16")
>>> kernel.bytes_per_parameter
8.25
"""

__version__ = "0.1.0"  # modules imported below read it

from tandem import _extension  # noqa: F401  (first: reports a missing extension)
from tandem._convert import convert_state
from tandem._device import Device
from tandem._interpret import interpret
from tandem._kernel import Kernel, compile, graphs, layers, load, recipes, save, strategies
from tandem._plan import NON_FINITE, Plan
from tandem._plane import WHOLE_ROW, WHOLE_TENSOR, Plane
from tandem._sharpness import sharpness
from tandem._sharpness_options import ConvergenceWarning

__all__ = ["ConvergenceWarning", "Device", "Kernel", "NON_FINITE", "Plan", "Plane", "WHOLE_ROW",
           "WHOLE_TENSOR", "compile", "convert_state", "graphs", "interpret", "layers", "load",
           "recipes", "save", "sharpness", "strategies"]
