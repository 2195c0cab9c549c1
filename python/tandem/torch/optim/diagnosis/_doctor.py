"""The doctor: watches an optimizer for some steps, and says what its parameters lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tandem.torch.optim.diagnosis._report import Doctor

#: The strategies that are compared by default: those whose weights and gradients are stored as
#: PyTorch stores them, from full float32 to the fewest bytes.
STRATEGIES = ("remainder", "flash-f16", "flash", "adam8bit")


def doctor(optimizer: torch.optim.Optimizer, model: torch.nn.Module | None = None, *,
           strategies: Sequence[str] | None = None, recipes: Sequence[str] = ("coat",),
           sample: int | None = 4096, every: int = 8) -> Doctor:
    """Watches an optimizer in a ``with`` block, and says what each parameter loses under the
    strategy that it has and under cheaper ones.

    Shadow optimizers take the steps of the run on a sample of each parameter, with the run's
    gradients: one in float32, one that stores what the run stores, and one for each of
    ``strategies``. They are compared with the one in float32: which updates are lost, how much
    of the intended change takes place (Collage's effective descent quality), whether moments
    have the right size, and whether they decay when gradients end. A verdict needs a margin of
    two standard errors, which follow from the differences between 16 parts of each sample.

    The run's weights, states and random numbers are only read, so that its bits do not change.

    >>> model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    >>> optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    >>> with tandem.torch.doctor(optimizer, model) as doctor:
    ...     for _ in range(100):
    ...         optimizer.zero_grad()
    ...         model(torch.randn(8, 64, dtype=torch.bfloat16)).square().mean().backward()
    ...         optimizer.step()
    >>> doctor.rows[0]["verdict"]
    'too little'

    Args:
        optimizer: AdamW, Adam, SGD, RMSprop or Adagrad of torch.optim, or an optimizer of
            :mod:`tandem.torch` whose graph updates each element by itself; it may be wrapped by
            Accelerate or Lightning.
        model: the model, for names of parameters, their roles, and the errors of activations
            that its layers save.
        strategies: the strategies to compare with; by default "remainder", "flash-f16", "flash"
            and "adam8bit", or those of them that support the parameters' types.
        recipes: the recipes under which the inputs of the model's layers are stored for
            comparison.
        sample: how many elements of each parameter are compared, in segments of 256; None for
            all of them. Samples of parameters with fewer elements are whole.
        every: the number of steps of which lost updates are counted in one. Shadows take all
            steps.

    Returns:
        A context manager. After the ``with`` block it prints as tables, and has ``rows``,
        ``edges``, ``advice``, ``code`` and ``plot(path)``.

    Raises:
        TypeError: no graph of the library computes the steps of such an optimizer, or no strategy
            supports the type of a parameter.
        ValueError: there is no such strategy or recipe, an option excludes samples, or a number
            is out of its range.
    """
    from tandem.torch.optim.diagnosis._report import Doctor

    return Doctor(optimizer, model, strategies, recipes, sample, every)
